"""Checks that OpenVINO's kernels lack, written into its models.

* A product with a constant reads beyond an input whose inner dimension does not fit. Where that dimension is
  free, a Reshape, which copies nothing, fixes it, and refuses what does not fit.
* Gather gives zeros, or what lies beside the data, for indices out of range. Where these are an input of
  the model and the length is fixed, the input is looked at before the run. Other indices are clamped, few of
  fixed shapes together, and one more output of the model counts those that were changed.
* Range makes |stop - start| elements where ONNX makes none: stop is moved to start.
* Integers are cut to 32 bits: inputs of 64 are looked at before the run.

`python -m benchmarks guards` measures what they cost. What could not be checked like this is not given to
OpenVINO, see `lacking`. Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
import openvino.opset13 as ops

from pinnace.errors import EngineError
from pinnace.types import Array

_COUNTS = "indices out of range of "
_BELOW = "indices below "
_INTEGERS = ("i32", "i64")
_SAME_VALUES = ("Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_UNSIGNED: Mapping[int, np.dtype[Any]] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_BITS_32 = 1 << 31
_FEW = 256
"""Up to so many indices of a Gather are clamped together with others: nodes cost more than numbers."""


class IndexLimit(NamedTuple):
    """Integers of an input lie within [-length, length); `gather` is what the Gather computes that asks."""

    length: int = _BITS_32
    gather: str = ""

    def check(self, name: str, integers: Array) -> None:
        """Raise EngineError where what is given for the input `name` is beyond the limit, or 32 bits."""
        if not integers.size:
            return
        unsigned = integers.view(_UNSIGNED[integers.itemsize])  # where negative ones are large
        if unsigned.item(unsigned.argmax()) < self.length:  # the quickest way through numpy, by far
            return
        least, most = int(integers.min()), int(integers.max())
        if least < -_BITS_32 or most >= _BITS_32:
            raise EngineError(
                f"openvino: input {name!r} holds integers of more than 32 bits, which openvino cuts; "
                f"use provider onnxruntime"
            )
        if least < -self.length or most >= self.length:
            raise out_of_range(self.gather)


def out_of_range(gather: str) -> EngineError:
    """The error of a Gather, which is named by what it computes."""
    return EngineError(f"openvino: indices of the Gather that computes {gather!r} are out of range")


def guard(model: ov.Model, inputs: Collection[str]) -> None:
    """Write the checks into a model whose types are inferred; not into bodies of control flow.

    `inputs` are those that `IndexLimit.check` sees before each run.
    """
    limits: dict[str, IndexLimit] = {}
    computed: list[ov.Node] = []
    for node in model.get_ordered_ops():
        match node.get_type_name():
            case "MatMul":
                _fix_inner_dimension(node)
            case "Gather" if not _is_in_range(node):
                given, length, name = _given(node), _length(node), node.get_friendly_name()
                if given in inputs and length is not None:
                    limits[given] = min(limits.get(given, IndexLimit()), IndexLimit(length, name))
                else:
                    computed.append(node)
            case "Range":
                _stop_at_start(node)
    for parameter in model.get_parameters():
        limit = limits.get(parameter.get_friendly_name())
        if limit is not None:
            parameter.output(0).add_names({f"{_BELOW}{limit.length} {limit.gather}"})
    counts = [count for gathers in _together(model, computed) for count in _clamp(gathers)]
    if counts:
        joined = ops.concat([counted for _, counted in counts], 0).output(0)
        joined.set_names({_COUNTS + json.dumps([name for names, _ in counts for name in names])})
        model.add_outputs([joined])


def limits(model: ov.CompiledModel) -> dict[str, IndexLimit]:
    """The limits of inputs, by all names of each, that `guard` has written."""
    found = {}
    for port in model.inputs:
        names = port.get_names()
        for name in names:
            if name.startswith(_BELOW):
                length, gather = name.removeprefix(_BELOW).split(" ", 1)
                found.update(dict.fromkeys(names, IndexLimit(int(length), gather)))
    return found


def counted(model: ov.CompiledModel) -> list[str]:
    """Return the Gathers, by what they compute, that the numbers of the last output count for; none without
    such an output.
    """
    name = next(iter(model.outputs[-1].get_names()), "")
    return list(json.loads(name.removeprefix(_COUNTS))) if name.startswith(_COUNTS) else []


def _fix_inner_dimension(product: ov.Node) -> None:
    turned = product.get_attributes()
    sides = ((0, 1, -2 if turned["transpose_a"] else -1), (1, 0, -1 if turned["transpose_b"] else -2))
    for side, other, axis in sides:
        shape = product.input(side).get_partial_shape()
        fixed = product.input(other).get_partial_shape()
        if fixed.rank.is_dynamic or shape.rank.is_dynamic:
            continue  # inputs of any rank are refused
        axis = max(axis, -len(shape))
        there = sides[other][2]
        inner = fixed[max(there, -len(fixed))]
        if shape[axis].is_dynamic and inner.is_static:
            pattern = np.zeros(len(shape), np.int64)  # 0 is: as it is
            pattern[axis] = inner.get_length()
            fitting = ops.reshape(product.input_value(side), ops.constant(pattern), True)
            product.input(side).replace_source_output(fitting.output(0))


def _is_in_range(gather: ov.Node) -> bool:
    """Return whether indices are constant, and within a dimension that is fixed."""
    indices = gather.input_value(1).get_node()
    if not _is_constant(indices.output(0)):
        return False
    length, values = _length(gather), indices.data
    return length is not None and bool(((values >= -length) & (values < length)).all())


def _length(gather: ov.Node) -> int | None:
    """The length of what indices go along, None where it is free."""
    axis, shape = gather.input_value(2), gather.input(0).get_partial_shape()
    if not _is_constant(axis) or shape.rank.is_dynamic:
        return None
    length = shape[axis.get_node().data.item()]
    return int(length.get_length()) if length.is_static else None


def _given(gather: ov.Node) -> str:
    """The input of the model whose integers are the indices, all of them; "" where there is none."""
    node = gather.input_value(1).get_node()
    while node.get_type_name() in _SAME_VALUES and _is_integer(node):
        node = node.input_value(0).get_node()
    return str(node.get_friendly_name()) if node.get_type_name() == "Parameter" and _is_integer(node) else ""


def _is_integer(node: ov.Node) -> bool:
    return node.get_element_type().get_type_name() in _INTEGERS


def _together(model: ov.Model, gathers: Sequence[ov.Node]) -> list[list[ov.Node]]:
    """Return the Gathers in groups that can be clamped together, before any of the group computes."""
    chosen = {gather.get_friendly_name() for gather in gathers}
    level: dict[str, int] = {}  # how many of the Gathers, one after another, a node waits for
    groups: dict[tuple[Any, ...], list[ov.Node]] = defaultdict(list)
    for node in model.get_ordered_ops():
        name = node.get_friendly_name()
        above = [level[value.get_node().get_friendly_name()] for value in node.input_values()]
        level[name] = max(above, default=0)
        if name in chosen:
            level[name] = max(level[name], above[1] + 1)
            kind = node.input_value(1).get_element_type().get_type_name()
            groups[(above[1], kind) if _is_small(node) else (name,)].append(node)
    return list(groups.values())


def _is_small(gather: ov.Node) -> bool:
    shape = gather.input(1).get_partial_shape()
    return shape.is_static and prod(shape.to_shape()) <= _FEW and _length(gather) is not None


def _clamp(gathers: Sequence[ov.Node]) -> list[tuple[list[str], ov.Output]]:
    """Keep the indices of Gathers in range; returns names of Gathers, and for each name a number that is not
    0 where indices of it were not.
    """
    if not _is_small(gathers[0]):
        return [([gather.get_friendly_name()], _clamp_free(gather)) for gather in gathers]
    sizes = [prod(gather.input(1).get_partial_shape().to_shape()) for gather in gathers]
    kind = gathers[0].input_value(1).get_element_type()
    lengths = ops.constant(np.repeat([_length(gather) for gather in gathers], sizes), kind)
    flat = [
        ops.reshape(g.input_value(1), ops.constant([size]), False)
        for g, size in zip(gathers, sizes, strict=True)
    ]
    indices = ops.concat(flat, 0)
    clamped = _within(indices.output(0), lengths.output(0))
    parts = ops.variadic_split(clamped, ops.constant(0), ops.constant(sizes))
    for gather, part in zip(gathers, parts.outputs(), strict=True):
        shape = np.array(gather.input(1).get_partial_shape().to_shape(), np.int64)
        gather.input(1).replace_source_output(ops.reshape(part, ops.constant(shape), False).output(0))
    names = np.repeat([gather.get_friendly_name() for gather in gathers], sizes)
    return [(names.tolist(), ops.convert(ops.not_equal(clamped, indices), "i32").output(0))]


def _clamp_free(gather: ov.Node) -> ov.Output:
    """Keep the indices of a Gather in range; returns how many were not, of shape (1,)."""
    data, indices, axis = gather.input_values()
    kind = indices.get_element_type()
    lengths = ops.shape_of(data, kind)
    length = ops.reshape(
        ops.gather(lengths, axis, ops.constant(np.int64(0))), ops.constant([], np.int64), False
    )
    clamped = _within(indices, length.output(0))
    gather.input(1).replace_source_output(clamped)
    changed = ops.convert(ops.not_equal(clamped, indices), "i32")
    axes = ops.constant(np.arange(len(indices.get_partial_shape())))
    count = ops.reduce_sum(changed, axes, False)
    return ops.reshape(count, ops.constant([1]), False).output(0)


def _within(indices: ov.Output, length: ov.Output) -> ov.Output:
    """Return indices that lie in [-length, length)."""
    last = ops.subtract(length, ops.constant(1, indices.get_element_type()))
    return ops.maximum(ops.minimum(indices, last), ops.negative(length)).output(0)


def _stop_at_start(numbers: ov.Node) -> None:
    start, stop, step = numbers.input_values()
    if _is_constant(step):
        bound = ops.maximum if step.get_node().data.item() > 0 else ops.minimum
        first = ops.convert(start, stop.get_element_type())
        numbers.input(1).replace_source_output(bound(stop, first).output(0))


def _is_constant(value: ov.Output) -> bool:
    return bool(value.get_node().get_type_name() == "Constant")
