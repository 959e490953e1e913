"""Quantisation: tensors that a file stores as integers, and the floats that these stand for."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.program import Quantised


def stored(b: Builder, x: ir.Value, quantised: Quantised) -> ir.Value:
    """A tensor of floats after it was stored in 8 bits; any other tensor as it is."""
    dtype = b.known_dtype(x)
    if dtype is None or not dtype.is_floating_point():
        return x
    return meant(b, integers(b, x, quantised), quantised)


def integers(b: Builder, x: ir.Value, quantised: Quantised) -> ir.Value:
    """The int8 that stand for floats."""
    scale, zero_point, axis = _parameters(b, quantised, ir.DataType.INT8, x)
    return b.op("QuantizeLinear", x, scale, zero_point, axis=axis)


def meant(b: Builder, integers: ir.Value, quantised: Quantised) -> ir.Value:
    """The floats that integers stand for."""
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
