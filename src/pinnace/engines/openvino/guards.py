"""Checks that OpenVINO's kernels lack, written into its models.

* A product with a constant reads beyond an input whose inner dimension does not fit. Where that dimension is
  free, a Reshape, which copies nothing, fixes it, and refuses what does not fit.
* Gather gives zeros, or what lies beside the data, for indices out of range. They are clamped, and one more
  output for each Gather counts those that were changed.
* Range makes |stop - start| elements where ONNX makes none: stop is moved to start.
* Integers are cut to 32 bits: inputs of 64 are looked at before the run.

What could not be checked like this is not given to OpenVINO, see `lacking`. Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
import openvino.opset13 as ops

from pinnace.engines.protocol import Array
from pinnace.errors import EngineError

_OUT_OF_RANGE = "indices out of range of "


def guard(model: ov.Model) -> None:
    """Write the checks into a model whose types are inferred; not into bodies of control flow."""
    counts = []
    for node in model.get_ordered_ops():
        match node.get_type_name():
            case "MatMul":
                _fix_inner_dimension(node)
            case "Gather" if not _is_in_range(node):
                counts.append(_clamp(node))
            case "Range":
                _stop_at_start(node)
    if counts:
        model.add_outputs(counts)


def checks(model: ov.CompiledModel) -> list[tuple[int, str]]:
    """The places of the outputs that `guard` has added, and what the Gathers compute that they are about."""
    names = [next(iter(port.get_names()), "") for port in model.outputs]
    return [
        (place, name.removeprefix(_OUT_OF_RANGE))
        for place, name in enumerate(names)
        if name.startswith(_OUT_OF_RANGE)
    ]


def needs_thirty_two_bits(name: str, value: Array) -> None:
    """Raise EngineError where an input holds integers of more than 32 bits: OpenVINO cuts them."""
    if not (value == value.astype(np.int32)).all():
        raise EngineError(
            f"openvino: input {name!r} holds integers of more than 32 bits, which openvino cuts; "
            f"use provider onnxruntime"
        )


def _fix_inner_dimension(product: ov.Node) -> None:
    turned = product.get_attributes()
    sides = ((0, 1, -2 if turned["transpose_a"] else -1), (1, 0, -1 if turned["transpose_b"] else -2))
    for side, other, axis in sides:
        shape = product.input(side).get_partial_shape()
        fixed = product.input(other).get_partial_shape()
        if not _is_constant(product.input_value(other)) or shape.rank.is_dynamic:
            continue  # products of two inputs are checked; inputs of any rank are refused
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
    indices, axis = gather.input_value(1).get_node(), gather.input_value(2).get_node()
    shape = gather.input(0).get_partial_shape()
    if not (_is_constant(indices.output(0)) and _is_constant(axis.output(0))) or shape.rank.is_dynamic:
        return False
    length, values = shape[axis.data.item()], indices.data
    return length.is_static and bool(
        ((values >= -length.get_length()) & (values < length.get_length())).all()
    )


def _clamp(gather: ov.Node) -> ov.Output:
    """Keep the indices of a Gather in range; returns how many were not."""
    data, indices, axis = gather.input_values()
    kind = indices.get_element_type()
    lengths = ops.shape_of(data, kind)
    length = ops.reshape(
        ops.gather(lengths, axis, ops.constant(np.int64(0))), ops.constant([], np.int64), False
    )
    last = ops.subtract(length, ops.constant(1, kind))
    clamped = ops.maximum(ops.minimum(indices, last), ops.negative(length))
    gather.input(1).replace_source_output(clamped.output(0))
    changed = ops.convert(ops.not_equal(clamped, indices), "i32")
    axes = ops.constant(np.arange(len(indices.get_partial_shape())))
    count = ops.reduce_sum(changed, axes, False)
    count.output(0).set_names({_OUT_OF_RANGE + gather.get_friendly_name()})
    return count.output(0)


def _stop_at_start(numbers: ov.Node) -> None:
    start, stop, step = numbers.input_values()
    if _is_constant(step):
        bound = ops.maximum if step.get_node().data.item() > 0 else ops.minimum
        first = ops.convert(start, stop.get_element_type())
        numbers.input(1).replace_source_output(bound(stop, first).output(0))


def _is_constant(value: ov.Output) -> bool:
    return bool(value.get_node().get_type_name() == "Constant")
