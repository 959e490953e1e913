"""Scales and offsets of quantized tensors (see `rules`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.places import only
from pinnace.converter.decompositions.windows import Windows
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Arguments, Dtype, Tensor
from pinnace.ops.values import Value

_FLOAT, _INT32 = ir.DataType.FLOAT, ir.DataType.INT32


class Scaling(Arguments):
    axis: int = 1
    block_size: int = 0
    output_dtype: int = 0
    precision: int = 0
    saturate: int = 1


def QuantizeLinear(
    op: Builder, x: Tensor, scale: Tensor, zero: Tensor | None = None, *, given: Scaling
) -> Tensor:
    axis, block_size = given.axis, given.block_size
    usual = ir.DataType.UINT8 if zero is None else op.dtype(zero)
    to, dtype = ir.DataType(given.output_dtype) if given.output_dtype else usual, op.dtype(x)
    if to.bitwidth < 8 or not to.is_integer():
        raise Unsupported(f"is of element type {to.name}, and integers of 8 bits and more can be written")
    whole = op.Round(x / op.cast(_beside(op, scale, x, axis, block_size), dtype))
    if zero is not None:
        whole = whole + op.cast(_beside(op, zero, x, axis, block_size), dtype)
    limits = np.iinfo(to.numpy())
    return op.cast(op.Clip(whole, float(limits.min), float(limits.max)), to)


def DynamicQuantizeLinear(op: Builder, x: Tensor) -> tuple[Tensor, ...]:
    """DynamicQuantizeLinear; zeros alone have scale 1 in onnxruntime, and 0 in ONNX's definition."""
    low, high = op.Min(op.ReduceMin(x, keepdims=0), 0), op.Max(op.ReduceMax(x, keepdims=0), 0)
    scale = op.Where(op.Equal(low, high), 1, (high - low) / 255)
    zero = op.cast(op.Round(op.Clip(0 - low / scale, op.like(0, x), op.like(255, x))), ir.DataType.UINT8)
    return op.QuantizeLinear(x, scale, zero), scale, zero


def DequantizeLinear(
    op: Builder, x: Tensor, scale: Tensor, zero: Tensor | None = None, *, given: Scaling
) -> Tensor:
    axis, block_size, far = given.axis, given.block_size, op.cast(x, _FLOAT)
    if zero is not None:
        far = far - op.cast(_beside(op, zero, x, axis, block_size), _FLOAT)
    y = far * op.cast(_beside(op, scale, x, axis, block_size), _FLOAT)
    return op.cast(y, ir.DataType(given.output_dtype) if given.output_dtype else op.dtype(scale))


def MatMulInteger(
    op: Builder, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    left = _from_zero(op, x, x_zero, _INT32, _row_of)
    right, double = _from_zero(op, w, w_zero, _INT32), ir.DataType.DOUBLE
    return op.cast(op.MatMul(op.cast(left, double), op.cast(right, double)), _INT32)


def QLinearMatMul(op: Builder, *inputs: Tensor) -> Tensor:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = inputs
    left = _from_zero(op, x, x_zero, _FLOAT, _row_of) * _row_of(op, op.cast(x_scale, _FLOAT))
    right = _from_zero(op, w, w_zero, _FLOAT) * op.cast(w_scale, _FLOAT)
    return op.QuantizeLinear(op.MatMul(left, right), op.cast(y_scale, _FLOAT), y_zero)


def ConvInteger(
    op: Builder, x: Tensor, w: Tensor, x_zero: Value = None, w_zero: Value = None, *, given: Windows
) -> Tensor:
    left = _from_zero(op, x, x_zero, _FLOAT)
    right = _from_zero(op, w, w_zero, _FLOAT, _of_outputs)
    return op.cast(_convolved(op, left, right, None, given), _INT32)


def QLinearConv(op: Builder, *inputs: Tensor, given: Windows) -> Tensor:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
    left = _from_zero(op, x, x_zero, _FLOAT) * x_scale
    right = _from_zero(op, w, w_zero, _FLOAT, _of_outputs) * _of_outputs(op, w_scale, w)
    added = op.cast(bias[0], _FLOAT) * (x_scale * w_scale) if bias else None
    return op.QuantizeLinear(_convolved(op, left, right, added, given), y_scale, y_zero)


def _convolved(op: Builder, x: Tensor, w: Tensor, bias: Value, given: Windows) -> Tensor:
    over = given.over(op.rank(x) - 2)
    sizes: dict[str, Any] = {"dilations": over.dilations, "strides": over.strides}
    return op.Conv(x, w, bias, group=over.group, **sizes, **over.padding)


def _row_of(op: Builder, number: Tensor, _x: Tensor | None = None) -> Tensor:
    """A number for each row of a product's first operand, or one for all, as an operand beside it."""
    return op.Unsqueeze(number, [-1]) if op.rank(number) == 1 and op.shape(number) != (1,) else number


def _of_outputs(op: Builder, number: Tensor, w: Tensor) -> Tensor:
    """A number for each output channel of a weight, as an operand beside it."""
    return _beside(op, number, w, 0)


def _from_zero(
    op: Builder,
    x: Tensor,
    zero: Tensor | None,
    dtype: Dtype,
    beside: Callable[[Builder, Tensor, Tensor], Tensor] = lambda _op, number, _x: number,
) -> Tensor:
    far = op.cast(x, dtype)
    return far if zero is None else far - beside(op, op.cast(zero, dtype), x)


def _beside(op: Builder, number: Tensor, x: Tensor, axis: int, block_size: int = 0) -> Tensor:
    """Numbers of a tensor, of each index of an axis or of blocks of it, as an operand beside it."""
    if op.rank(number) == 0:
        return number
    if block_size:
        dims = list(op.static_shape(number))
        at = axis % len(dims)
        wide = op.Unsqueeze(number, [at + 1])
        repeated = op.Expand(wide, [*dims[: at + 1], block_size, *dims[at + 1 :]])
        whole = op.Reshape(repeated, [*dims[:at], dims[at] * block_size, *dims[at + 1 :]])
        return op.Slice(whole, [0], [op.static_shape(x)[at]], [at])
    if op.rank(number) > 1:
        raise Unsupported(
            "has scales of several dimensions without block_size, and those of one axis can be written"
        )
    if op.static_shape(number) == (1,):
        return op.scalar(number)
    return op.reshape(number, only(op.rank(x), axis))
