"""Narrower element types of inputs and outputs, as MindSpore Lite's converter writes them.

Its converter makes a whole graph of int32 and float32. Here only the ports change: what is computed between
them keeps its width, so that no sum overflows that did not.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.lowering.outputs import cast_output
from pinnace.types import Array

_NARROW = {ir.DataType.INT64: ir.DataType.INT32, ir.DataType.DOUBLE: ir.DataType.FLOAT}
_PLACES = {"Gather": (1,), "GatherElements": (1,), "Cast": (0,)}
"""Operators, and which of their inputs may be int32 without a cast."""


def narrowed(model: ir.Model) -> list[str]:
    """Make inputs and outputs of int64 int32, and those of float64 float32; return what was done."""
    graph = model.graph
    found: dict[ir.DataType, list[str]] = {}
    for value in graph.inputs:
        if value.dtype in _NARROW and value.name not in graph.initializers:
            found.setdefault(value.dtype, []).append(f"input {value.name!r}")
            _narrow_input(graph, value)
    for place, value in enumerate(list(graph.outputs)):
        if value.dtype in _NARROW:
            found.setdefault(value.dtype, []).append(f"output {value.name!r}")
            cast_output(model, place, _NARROW[value.dtype])
    names = {ir.DataType.INT64: "int64 became int32", ir.DataType.DOUBLE: "float64 became float32"}
    return [f"{names[kind]}, as MindSpore Lite has them: {', '.join(ports)}" for kind, ports in found.items()]


def _narrow_input(graph: ir.Graph, value: ir.Value) -> None:
    wide = value.dtype
    assert wide is not None
    inside = ir.Value(name=f"{value.name}/{wide.name}", type=ir.TensorType(wide), shape=value.shape)
    for node, place in list(value.uses()):
        if node.domain or place not in _PLACES.get(node.op_type, ()):
            node.replace_input_with(place, inside)
    value.type = ir.TensorType(_NARROW[wide])
    if inside.uses():
        node = ir.node("Cast", [value], {"to": wide.value}, outputs=[inside], name=inside.name)
        graph.insert_before(graph[0], node)


def as_narrow(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return an array of an original's element type in that of the narrower port, if it is one."""
    pair = array.dtype, dtype
    return array.astype(dtype) if any(pair == (w.numpy(), n.numpy()) for w, n in _NARROW.items()) else array
