"""Scales of DequantizeLinear: one for a tensor, one for each output channel of a weight, or others."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from pinnace.graph.constants import constant
from pinnace.graph.matching import made_by

_PASSED = ("Flatten", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that engines compute in integers, and then what is behind them."""
FAR = 64
"""Nodes that are looked at before or behind one: walks to the end would take the square of a chain."""


def is_dequantized(value: ir.Value | None) -> bool:
    """Return True for the result of a step, also behind operators that move it, or behind too many."""
    for _ in range(FAR):
        maker = made_by(value, "DequantizeLinear", *_PASSED)
        if maker is None or maker.op_type == "DequantizeLinear":
            return maker is not None
        value = maker.inputs[0]
    return True


def is_one(scale: ir.Value | None) -> bool:
    """Return True for the scale of a whole tensor; False also if the shape is unknown."""
    return scale is not None and scale.shape is not None and tuple(scale.shape) in ((), (1,))


def axis_of(step: ir.Node, rank: int) -> int:
    """Return the axis of several scales, counted from the first dimension."""
    axis = step.attributes.get_int("axis", 1)
    return axis + rank if axis < 0 else axis


def uses(step: ir.Node, rank: int) -> Iterator[tuple[ir.Node, int, int]]:
    """Return the readers of the result and its transposes, the number of the input, and the axis there."""
    waiting = [(step.outputs[0], axis_of(step, rank))]
    while waiting:
        read, axis = waiting.pop()
        for reader, place in read.uses():
            if reader.op_type == "Transpose" and not reader.domain:
                perm = list(reader.attributes.get_ints("perm", range(rank)[::-1]))
                waiting.append((reader.outputs[0], perm.index(axis) if axis in perm else axis))
            else:
                yield reader, place, axis


def stored(integers: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the constant of which integers are made by a few moves, or of whose floats; else None."""
    for _ in range(FAR):
        made = made_by(integers, "Identity", "QuantizeLinear", "Reshape", "Transpose")
        if made is None:
            return constant(integers)
        integers = made.inputs[0]
    return None


def are_of_channels(step: ir.Node, reader: ir.Node, place: int, axis: int) -> bool:
    """Return True if scales along `axis` are one for each output channel of the reader's weight.

    A stack of matrices has none.
    """
    weight = step.inputs[0]
    if place != 1 or "block_size" in step.attributes or weight is None or not is_constant(weight):
        return False
    if reader.op_type == "MatMul":
        return axis == 1 and len(weight.shape or ()) == 2
    untransposed = reader.op_type == "Gemm" and not reader.attributes.get_int("transB", 0)
    return reader.op_type in ("Conv", "Gemm") and axis == int(untransposed)


def is_constant(integers: ir.Value | None) -> bool:
    """Return True for constant integers, also of floats that are quantized at the build."""
    made = made_by(integers, "QuantizeLinear")
    return constant(made.inputs[0] if made else integers) is not None
