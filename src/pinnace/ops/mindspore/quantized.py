"""MindSpore's own quantized primitives: those that only simulate, and those that compute with integers.

Integers are small enough to be exact in float32, so products of them are computed there.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.array import along
from pinnace.ops.mindspore.linalg import flipped
from pinnace.ops.mindspore.math import is_integer
from pinnace.ops.table import Arguments, Dtype, Tensor, primitive, primitives
from pinnace.ops.values import FLOAT, FLOAT16, INT8, INT64, UINT8, Value


def _nudged(op: Builder, x: Tensor, low: Tensor, high: Tensor, bits: int, narrow: bool) -> Value:
    """On the grid of so many bits between two bounds, less a step if narrow, moved so that zero is on it."""
    if not 2 <= bits <= 16:
        raise Unsupported(f"quantizes to {bits} bits, but 2 to 16 are supported")
    last = op.like((1 << bits) - 1 - int(narrow), x)
    scale = (high - low) / last
    zero = op.Floor(op.Min(op.Max(-low / scale, 0.0), last) + 0.5)
    bottom, top = -zero * scale, (last - zero) * scale
    inside = op.Min(op.Max(x, bottom), top)
    steps = op.Floor((inside - bottom) / scale + 0.5)
    return steps * scale + bottom


@primitive("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_with_bounds(
    op: Builder, x: Tensor, low: Tensor, high: Tensor, *, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """Clip to the bounds, Floor of steps, and back; channels are the last dimension."""
    return _nudged(op, x, low, high, num_bits, narrow_range)


@primitive("DynamicQuantExt")
def _dynamic_quant_ext(op: Builder, x: Tensor, smooth_scales: Tensor | None = None) -> Value:
    y = op.cast(x, FLOAT)
    y = y * op.cast(smooth_scales, FLOAT) if smooth_scales is not None else y
    scale = op.ReduceMax(op.Abs(y), [-1], keepdims=1) / 127.0
    return (stored(op, y / scale), op.Squeeze(scale, [-1]))


@primitives({"FakeLearnedScaleQuantPerLayer": False, "FakeLearnedScaleQuantPerChannel": True})
def _fake_learned_scale_quant_per_layer(
    op: Builder,
    per_channel: bool,
    x: Tensor,
    alpha: Tensor,
    quant_max: Tensor,
    *,
    neg_trunc: bool = False,
    training: bool = False,
    quant_delay: int = 0,
    channel_axis: int = 1,
) -> Value:
    if training and quant_delay > 0:
        return x
    alpha = along(op, alpha, op.axis(channel_axis, x), op.rank(x)) if per_channel else alpha
    part = op.Max(op.Min(x / alpha, 1.0), 0.0 if neg_trunc else -1.0)
    steps = op.Floor(part * quant_max + 0.5)
    return steps / quant_max * alpha


@primitives({"FakeQuantPerLayer": False, "FakeQuantPerChannel": True}, unused="ema ema_decay")
def _fake_quant_per_layer(
    op: Builder,
    per_channel: bool,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    num_bits: int = 8,
    symmetric: bool = False,
    narrow_range: bool = False,
    training: bool = False,
    quant_delay: int = 0,
    channel_axis: int = 1,
) -> Value:
    if training and quant_delay > 0:
        return x
    high = op.Max(-low, high) if symmetric else high
    low = -high if symmetric else low
    if per_channel:
        low, high = [along(op, v, op.axis(channel_axis, x), op.rank(x)) for v in (low, high)]
    return _nudged(op, x, low, high, num_bits, narrow_range)


class QuantizedProduct(Arguments):
    """Matrices of integers, what they stand for, and the type of their product."""

    x1: Tensor
    x2: Tensor
    scale: Tensor
    offset: Tensor | None = None
    bias: Tensor | None = None
    pertoken_scale: Tensor | None = None
    transpose_x1: bool = False
    transpose_x2: bool = False
    dtype: Dtype = FLOAT16


@primitive("QuantBatchMatmul")
def quant_batch_matmul(op: Builder, given: QuantizedProduct) -> Value:
    y = _product(op, given.x1, given.x2, given.transpose_x1, given.transpose_x2)
    bias, offset, token_scale = given.bias, given.offset, given.pertoken_scale
    whole = bias is not None and is_integer(op, bias)
    y = y + op.cast(bias, FLOAT) if bias is not None and whole else y
    y = y * dequantizing(op, given.scale)
    y = y * op.Unsqueeze(op.cast(token_scale, FLOAT), [-1]) if token_scale is not None else y
    y = y + op.cast(bias, FLOAT) if bias is not None and not whole else y
    y = y + op.cast(offset, FLOAT) if offset is not None else y
    return stored(op, y) if given.dtype is INT8 else op.cast(y, given.dtype)


@primitive("QuantV2")
def _quant_v2(
    op: Builder,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    sqrt_mode: bool = False,
    rounding_mode: str = "ROUND",
    dst_type: Dtype = INT8,
) -> Value:
    y, factor, shift = [op.cast(t, FLOAT) for t in (x, scale, offset)]
    y = y * (factor * factor if sqrt_mode else factor)
    return stored(op, y + shift, dst_type, rounding_mode)


@primitive("WeightQuantBatchMatmul")
def _weight_quant_batch_matmul(
    op: Builder,
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    transpose_x: bool = False,
    transpose_weight: bool = False,
) -> Value:
    weight = widened(op, weight, antiquant_scale, antiquant_offset)
    y = _product(op, x, weight, transpose_x, transpose_weight)
    y = y + op.cast(bias, FLOAT) if bias is not None else y
    if quant_scale is None:
        return op.cast(y, op.dtype(x))
    y = y * dequantizing(op, quant_scale)
    return stored(op, y if quant_offset is None else y + op.cast(quant_offset, FLOAT))


_ROUNDED = {"0": "Round", "ROUND": "Round", "2": "Floor", "FLOOR": "Floor", "3": "Ceil", "CEIL": "Ceil"}


def stored(op: Builder, x: Tensor, dtype: Dtype = INT8, rounding: str = "ROUND") -> Tensor:
    """Rounded, and cut off at the ends of an integer type."""
    op_type = _ROUNDED.get(rounding.upper())
    if dtype not in (INT8, UINT8) or op_type is None:
        raise Unsupported(f"stores {dtype.name} by {rounding!r}, but only int8 by ROUND, FLOOR or CEIL works")
    limits = np.iinfo(dtype.numpy())
    steps = op.Clip(op.op(op_type, x), op.like(limits.min, x), op.like(limits.max, x))
    return op.cast(steps, dtype)


def dequantizing(op: Builder, scale: Tensor) -> Tensor:
    """A scale as float32; one of uint64 holds the bits of a float32 in its lower half."""
    if op.dtype(scale) not in (ir.DataType.UINT64, INT64):
        return op.cast(scale, FLOAT)
    bits = op.known(scale)
    if bits is None:
        raise Unsupported("has a scale that is packed as integers and computed by the graph")
    return op.constant(np.asarray(bits).astype(np.uint32).view(np.float32))


def _product(op: Builder, x: Tensor, weight: Tensor, transpose_x: bool, transpose_weight: bool) -> Tensor:
    first, second = op.cast(x, FLOAT), op.cast(weight, FLOAT)
    first = flipped(op, first) if transpose_x else first
    return op.MatMul(first, flipped(op, second) if transpose_weight else second)


def widened(op: Builder, weight: Tensor, scale: Tensor, offset: Tensor | None) -> Value:
    """The numbers that the integers of a weight stand for, as float32."""
    wide = op.cast(weight, FLOAT)
    wide = wide + op.cast(offset, FLOAT) if offset is not None else wide
    return wide * op.cast(scale, FLOAT)
