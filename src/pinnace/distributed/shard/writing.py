"""New nodes and constants in the graph of a rank's part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.inference import OPSET
from pinnace.types import Array

SLICE = 10
"""Operator set from which on the limits of a Slice are inputs."""


def width_of(value: ir.Value, axis: int) -> int:
    """Return a dimension, which must be fixed."""
    width = (value.shape or ())[axis]
    assert isinstance(width, int)
    return width


class GraphWriter:
    """Makes nodes of a graph, for one of `size` ranks; `new` are those that are not inserted yet."""

    def __init__(self, model: ir.Model, size: int) -> None:
        self.model, self.graph, self.size = model, model.graph, size
        self.opset = model.opset_imports.get("", OPSET)
        self.new: list[ir.Node] = []
        self._named = 0

    def node(
        self,
        kind: str,
        inputs: Sequence[ir.Value],
        like: ir.Value,
        shape: ir.Shape | None,
        domain: str = "",
        count: int = 1,
        **attributes: int | str | list[int],
    ) -> list[ir.Value]:
        """Return the outputs of a new node, named after `like` and of its type."""
        node = ir.node(
            kind, inputs, attributes, domain=domain, num_outputs=count, name=like.name if domain else None
        )
        self.new.append(node)
        for made in node.outputs:
            self._named += 1
            made.name = f"{like.name}.{kind}{self._named}"
            made.type = like.type
            made.shape = shape
        return list(node.outputs)

    def constant(self, name: str, array: Array, dtype: ir.DataType | None = None) -> ir.Value:
        """Return a new initializer."""
        name = f"pinnace/{name}"  # the prefix avoids names of the file
        tensor = ir.Tensor(array, dtype=dtype, name=name) if dtype else ir.tensor(array, name=name)
        value = ir.Value(
            name=name, const_value=tensor, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype)
        )
        self.graph.initializers[name] = value
        return value

    def apart(self, value: ir.Value, axis: int, widths: Sequence[int]) -> list[ir.Value]:
        """Take a value apart along an axis."""
        given = list(value.shape or ())
        if self.opset < 13:
            made = self.node("Split", [value], value, None, count=len(widths), axis=axis, split=list(widths))
        else:
            held = self.constant(f"widths/{value.name}", np.array(widths, np.int64))
            made = self.node("Split", [value, held], value, None, count=len(widths), axis=axis)
        for one, width in zip(made, widths, strict=True):
            one.shape = ir.Shape([*given[:axis], width, *given[axis + 1 :]])
        return made

    def slice(self, value: ir.Value, axis: int, start: int, width: int) -> ir.Value:
        """Return a part of a value along an axis."""
        given = list(value.shape or ())
        shape = ir.Shape([*given[:axis], width, *given[axis + 1 :]])
        end = start + width
        if self.opset < SLICE:
            return self.node("Slice", [value], value, shape, starts=[start], ends=[end], axes=[axis])[0]
        limits = [
            self.constant(f"limit{n}/{value.name}", np.array([n], np.int64)) for n in (start, end, axis)
        ]
        return self.node("Slice", [value, *limits], value, shape)[0]

    def shaped(self, value: ir.Value, dims: Sequence[object]) -> ir.Value:
        """Return a value in another shape."""
        fixed = [dim for dim in dims if isinstance(dim, int)]
        shape = self.constant(f"dims/{value.name}", np.array(fixed, np.int64))
        return self.node("Reshape", [value, shape], value, ir.Shape(fixed))[0]
