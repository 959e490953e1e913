"""Quantisation: tensors that a file stores as integers, and the floats that these stand for."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.program import Quantised


def stored(b: Builder, x: ir.Value, quantised: Quantised) -> ir.Value:
    """A tensor of floats after it was stored in 8 bits; any other tensor as it is.

    The bits are unsigned, 128 above the file's: onnxruntime's kernels want them so, and when it turns
    signed ones into these itself it may end in a graph that it refuses (seen in 1.31).
    """
    dtype = b.known_dtype(x)
    if dtype is None or not dtype.is_floating_point():
        return x
    shifted = quantised._replace(zero_point=tuple(z + 128 for z in quantised.zero_point))
    scale, zero_point, axis = _parameters(b, shifted, ir.DataType.UINT8, x)
    integers = b.op("QuantizeLinear", x, scale, zero_point, axis=axis)
    return b.op("DequantizeLinear", integers, scale, zero_point, axis=axis)


def integers(b: Builder, x: ir.Value, quantised: Quantised) -> ir.Value:
    """The int8 that stand for floats."""
    scale, zero_point, axis = _parameters(b, quantised, ir.DataType.INT8, x)
    return b.op("QuantizeLinear", x, scale, zero_point, axis=axis)


def meant(b: Builder, integers: ir.Value, quantised: Quantised) -> ir.Value:
    """What integers stand for."""
    scale, zero_point, axis = _parameters(b, quantised, b.dtype(integers), integers)
    return b.op("DequantizeLinear", integers, scale, zero_point, axis=axis)


def _parameters(
    b: Builder, quantised: Quantised, dtype: ir.DataType, x: ir.Value
) -> tuple[ir.Value, ir.Value, int | None]:
    if quantised.axis is None:
        scale, zero_point = quantised.scale[0], quantised.zero_point[0]
        return b.constant(scale, np.float32), b.constant(zero_point, dtype.numpy()), None
    scales, zero_points = b.constant(quantised.scale, np.float32), quantised.zero_point
    return scales, b.constant(zero_points, dtype.numpy()), b.axis(quantised.axis, x)
