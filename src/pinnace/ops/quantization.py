"""Quantization: tensors that a file stores as integers, and the floats that these stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.program import Quantized


def stored(op: Builder, x: ir.Value, quantized: Quantized) -> ir.Value:
    """A tensor of floats after it was stored in 8 bits; any other tensor as it is.

    The steps stand before a Transpose for another layout: engines look for them beside their operators. The
    integers, which nobody sees, are unsigned: onnxruntime's kernels for x86 want that.
    """
    dtype = op.known_dtype(x)
    if dtype is None or not dtype.is_floating_point():
        return x
    turned = _before_turn(op, x) if quantized.axis is None else None
    if turned is not None:
        return op.transpose(stored(op, turned[0], quantized), turned[1])
    unsigned = replace(quantized, zero_point=tuple(zero + _SIGN for zero in quantized.zero_point))
    return meant(op, integers(op, x, unsigned, ir.DataType.UINT8), unsigned)


_SIGN = 128
"""The difference of an int8 and the uint8 that stands for the same."""


def _before_turn(op: Builder, x: ir.Value) -> tuple[ir.Value, tuple[int, ...]] | None:
    """The same numbers before a Transpose, and its permutation; None if there is none.

    It may be before an activation or a sum, which are written again.
    """
    node = x.producer()
    if node is None or node.op_type not in ("Add", "Clip", "Relu", "Transpose"):
        return None
    if node.op_type == "Transpose":
        return op.tensor(node.inputs[0]), tuple(node.attributes["perm"].as_ints())
    count = 2 if node.op_type == "Add" else 1
    before = [None if v is None else _before_turn(op, v) for v in node.inputs[:count]]
    if before[0] is None or any(one is None or one[1] != before[0][1] for one in before):
        return None
    parts = [one[0] for one in before if one is not None]
    return op.op(node.op_type, *parts, *node.inputs[count:]), before[0][1]


def integers(
    op: Builder, x: ir.Value, quantized: Quantized, dtype: ir.DataType = ir.DataType.INT8
) -> ir.Value:
    scale, zero_point, axis = _parameters(op, quantized, dtype, x)
    return op.QuantizeLinear(x, scale, zero_point, axis=axis)


def meant(op: Builder, integers: ir.Value, quantized: Quantized) -> ir.Value:
    scale, zero_point, axis = _parameters(op, quantized, op.dtype(integers), integers)
    return op.DequantizeLinear(integers, scale, zero_point, axis=axis)


def _parameters(
    op: Builder, quantized: Quantized, dtype: ir.DataType, x: ir.Value
) -> tuple[ir.Value, ir.Value, int | None]:
    if quantized.axis is None:
        scale, zero_point = quantized.scale[0], quantized.zero_point[0]
        return op.constant(scale, np.float32), op.constant(zero_point, dtype.numpy()), None
    scales, zero_points = op.constant(quantized.scale, np.float32), quantized.zero_point
    return scales, op.constant(zero_points, dtype.numpy()), op.axis(quantized.axis, x)
