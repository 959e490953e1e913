"""Checks of integers that OpenVINO's kernels lack, for its models, whose shapes are fixed.

* Gather returns zeros or adjacent memory for indices out of range. If the indices are an input of the model,
  it is checked before the run, which costs less than a check in the graph. Other indices are clamped, and an
  additional output of the model counts the changed ones.
* Integers are cut to 32 bits; inputs of 64 bits are checked before the run.

`python -m benchmarks guards` measures their cost. Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
import openvino.opset13 as ops

from pinnace.errors import EngineError
from pinnace.types import Array

_COUNTS, _LIMIT = "indices out of range of ", "indices below "
_SAME_VALUES = ("Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_UNSIGNED: Mapping[int, np.dtype[Any]] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_BITS_32 = 1 << 31


class IndexLimit(NamedTuple):
    """The limit of an input's integers, [-length, length), and the result of the Gather that needs it."""

    length: int = _BITS_32
    gather: str = ""

    def check(self, name: str, integers: Array) -> None:
        """Raise EngineError if values of the input `name` exceed the limit, or 32 bits."""
        if not integers.size:
            return
        unsigned = integers.view(_UNSIGNED[integers.itemsize])  # in which negative ones are large
        if unsigned.item(unsigned.argmax()) < self.length:  # by far numpy's fastest way
            return
        least, most = int(integers.min()), int(integers.max())
        if least < -_BITS_32 or most >= _BITS_32:
            raise EngineError(
                f"openvino: input {name!r} has integers of more than 32 bits, which openvino cuts; use "
                f"provider onnxruntime"
            )
        if least < -self.length or most >= self.length:
            raise out_of_range(self.gather)


def guard(model: ov.Model, inputs: Collection[str]) -> None:
    """Insert the checks into a model with inferred types.

    `inputs` are the names of those that `IndexLimit.check` checks before each run.
    """
    limits: dict[str, IndexLimit] = {}
    counts: dict[str, ov.Output] = {}
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Gather":
            continue
        indices, gather, length = node.input_value(1), node.get_friendly_name(), _indexed_length(node)
        name = _source(indices)
        if name in inputs:
            limits[name] = min(limits.get(name, IndexLimit()), IndexLimit(length, gather))
        elif not is_constant(indices) or not _is_within(indices.get_node().data, length):
            counts[gather] = _clamp(node, length)
    for parameter in model.get_parameters():
        if limit := limits.get(parameter.get_friendly_name()):
            # Compiling and exporting keep names.
            parameter.output(0).add_names({_LIMIT + json.dumps(limit)})
    if counts:
        joined = ops.concat(list(counts.values()), 0).output(0)
        joined.set_names({_COUNTS + json.dumps(list(counts))})
        model.add_outputs([joined])


def recorded(model: ov.CompiledModel) -> dict[str, IndexLimit]:
    """Return the limits of inputs that `guard` has recorded, under all names of each input."""
    found = {}
    for names in (port.get_names() for port in model.inputs):
        for name in names:
            if name.startswith(_LIMIT):
                found.update(dict.fromkeys(names, IndexLimit(*json.loads(name.removeprefix(_LIMIT)))))
    return found


def counted(model: ov.CompiledModel) -> list[str]:
    """Return the names of the results of Gathers to which the numbers of the last output belong."""
    name = next(iter(model.outputs[-1].get_names()), "")
    return list(json.loads(name.removeprefix(_COUNTS))) if name.startswith(_COUNTS) else []


def out_of_range(gather: str) -> EngineError:
    """Return the error of a Gather; `gather` is the name of its result."""
    return EngineError(f"openvino: indices of the Gather that computes {gather!r} are out of range")


def is_constant(value: ov.Output) -> bool:
    """Return True if a value is stored in the model."""
    return bool(value.get_node().get_type_name() == "Constant")


def _source(indices: ov.Output) -> str:
    """Return the input whose elements are the indices, "" if they are computed."""
    while _is_integer(indices) and indices.get_node().get_type_name() in _SAME_VALUES:
        indices = indices.get_node().input_value(0)
    node = indices.get_node()
    return (
        str(node.get_friendly_name()) if _is_integer(indices) and node.get_type_name() == "Parameter" else ""
    )


def _is_integer(value: ov.Output) -> bool:
    return value.get_element_type().get_type_name() in ("i32", "i64")


def _is_within(indices: Array, length: int) -> bool:
    return not indices.size or (int(indices.min()) >= -length and int(indices.max()) < length)


def _indexed_length(gather: ov.Node) -> int:
    """Return the length of the dimension that a Gather indexes; its axis was an attribute in ONNX."""
    axis = gather.input_value(2)
    if not is_constant(axis):
        raise ValueError("a Gather has an axis that is computed")
    return int(gather.input(0).get_shape()[axis.get_node().data.item()])


def _clamp(gather: ov.Node, length: int) -> ov.Output:
    """Clamp the indices of a Gather; returns the number of changed ones, of shape (1,)."""
    indices = gather.input_value(1)
    kind = indices.get_element_type()
    below = ops.minimum(indices, ops.constant(length - 1, kind))
    clamped = ops.maximum(below, ops.constant(-length, kind)).output(0)
    gather.input(1).replace_source_output(clamped)
    changed = ops.convert(ops.not_equal(clamped, indices), "i32")
    count = ops.reduce_sum(changed, ops.constant(np.arange(len(indices.get_shape()))), False)
    return ops.reshape(count, ops.constant([1]), False).output(0)
