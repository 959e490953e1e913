"""MindSpore's own quantised primitives: those that only simulate, and those that compute with integers.

Integers are small enough to be exact in float32, so products of them are computed there.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.table import Dtype, Tensor, primitive
from pinnace.ops.values import Unsupported, Value

_FLOAT = ir.DataType.FLOAT


# -- simulated -------------------------------------------------------------------------------------


(_nudged,) = functions(
    __name__,
    """
    nudged: x, low, high, levels ->
        # On the grid of `levels` between two bounds, moved so that zero is on the grid.
        first, last = [like(n, x) for n in levels]
        scale = (high - low) / (last - first)
        zero = first - low / scale
        zero = Floor(Min(Max(zero, first), last) + 0.5)
        bottom, top = [(n - zero) * scale for n in (first, last)]
        inside = Min(Max(x, bottom), top)
        steps = Floor((inside - bottom) / scale + 0.5)
        steps * scale + bottom
    """,
)


@function
def _for_channels(b: Builder, bounds: Tensor, x: Tensor, axis: int) -> Tensor:
    """A number for each channel, broadcast along the other dimensions."""
    axis = b.axis(axis, x)
    return b.reshape(bounds, [-1 if i == axis else 1 for i in range(b.rank(x))])


def _levels(bits: int, symmetric: bool, narrow: bool) -> tuple[int, int]:
    if not 2 <= bits <= 16:
        raise Unsupported(f"quantises to {bits} bits, but 2 to 16 are supported")
    first = -(1 << (bits - 1)) if symmetric else 0
    return first + int(narrow), first + (1 << bits) - 1


@primitive("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_with_bounds(
    b: Builder, x: Tensor, low: Tensor, high: Tensor, *, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """Clip to the bounds, Floor of steps, and back; channels are the last dimension."""
    return _nudged(b, x, low, high, _levels(num_bits, False, narrow_range))


formulas(
    __name__,
    """
    DynamicQuantExt: x, smooth_scales = None ->
        # Div by a 127th of the largest of each row, Round, Cast; and what was divided by.
        y = cast(x, FLOAT)
        y = y * cast(smooth_scales, FLOAT) if smooth_scales is not None else y
        scale = ReduceMax(Abs(y), [-1], keepdims=1) / 127.0
        (stored(y / scale), Squeeze(scale, [-1]))
    FakeLearnedScaleQuantPerLayer(False) FakeLearnedScaleQuantPerChannel(True): per_channel, x, alpha,
        quant_max, *, neg_trunc: bool = False, training: bool = False, quant_delay: int = 0,
        channel_axis: int = 1 ->
        # Clip of the parts of alpha, Floor of steps, and back.
        if training and quant_delay > 0:
            return x
        alpha = for_channels(alpha, x, channel_axis) if per_channel else alpha
        part = Max(Min(x / alpha, 1.0), 0.0 if neg_trunc else -1.0)
        steps = Floor(part * quant_max + 0.5)
        steps / quant_max * alpha
    FakeQuantPerLayer(False) FakeQuantPerChannel(True); ema ema_decay: per_channel, x, low, high, *,
        num_bits: int = 8, symmetric: bool = False, narrow_range: bool = False, training: bool = False,
        quant_delay: int = 0, channel_axis: int = 1 ->
        # Clip to the bounds, Floor of steps, and back.
        if training and quant_delay > 0:
            return x
        high = Max(-low, high) if symmetric else high
        low = -high if symmetric else low
        low, high = [for_channels(v, x, channel_axis) if per_channel else v for v in (low, high)]
        nudged(x, low, high, _levels(num_bits, symmetric, narrow_range))
    QuantBatchMatmul: x1, x2, scale, offset = None, bias = None, pertoken_scale = None,
        transpose_x1: bool = False, transpose_x2: bool = False, dtype: Dtype = FLOAT16 ->
        # MatMul in float32, Add of the bias, Mul by the scales, Cast.
        y = product(x1, x2, transpose_x1, transpose_x2)
        whole = bias is not None and is_integer(bias)
        y = y + cast(bias, FLOAT) if whole else y
        y = per_token(y * dequantising(scale), pertoken_scale)
        y = y + cast(bias, FLOAT) if bias is not None and not whole else y
        y = y + cast(offset, FLOAT) if offset is not None else y
        stored(y) if dtype is INT8 else cast(y, dtype)
    QuantV2: x, scale, offset, sqrt_mode: bool = False, rounding_mode: str = "ROUND",
        dst_type: Dtype = INT8 ->
        # Mul, Add, Round, Clip, Cast.
        y, factor, shift = [cast(t, FLOAT) for t in (x, scale, offset)]
        y = y * (factor * factor if sqrt_mode else factor)
        stored(y + shift, dst_type, rounding_mode)
    WeightQuantBatchMatmul: x, weight, antiquant_scale, antiquant_offset = None, quant_scale = None,
        quant_offset = None, bias = None, transpose_x: bool = False, transpose_weight: bool = False ->
        # Add and Mul of the weight, MatMul in float32, Cast.
        weight = widened(weight, antiquant_scale, antiquant_offset)
        y = product(x, weight, transpose_x, transpose_weight)
        y = y + cast(bias, FLOAT) if bias is not None else y
        if quant_scale is None:
            return cast(y, dtype(x))
        y = y * dequantising(quant_scale)
        stored(y if quant_offset is None else y + cast(quant_offset, FLOAT))
    """,
)


# -- stored as integers ----------------------------------------------------------------------------


_ROUNDED = {"ROUND": "Round", "FLOOR": "Floor", "CEIL": "Ceil"}
_ROUND_NAMES = {"0": "ROUND", "1": "FLOOR", "2": "CEIL", "3": "TRUNC"}


@function
def stored(b: Builder, x: Tensor, dtype: Dtype = ir.DataType.INT8, rounding: str = "ROUND") -> Tensor:
    """Rounded, and cut off at the ends of an integer type."""
    how = _ROUND_NAMES.get(rounding, rounding.upper())
    if dtype not in (ir.DataType.INT8, ir.DataType.UINT8) or how not in _ROUNDED:
        raise Unsupported(f"stores {dtype.name} by {rounding!r}, but only int8 by ROUND, FLOOR or CEIL works")
    limits = np.iinfo(dtype.numpy())
    steps = b.op("Clip", b.op(_ROUNDED[how], x), b.like(limits.min, x), b.like(limits.max, x))
    return b.cast(steps, dtype)


# -- products --------------------------------------------------------------------------------------


(dequantising, *_) = functions(
    __name__,
    """
    dequantising: scale ->
        # A scale as float32; one of uint64 holds the bits of a float32 in its lower half.
        if dtype(scale) not in (UINT64, INT64):
            return cast(scale, FLOAT)
        bits = known(scale)
        if bits is None:
            raise Unsupported("has a scale that is packed as integers and computed by the graph")
        constant(np.asarray(bits).astype(np.uint32).view(np.float32))
    product: x, weight, transpose_x, transpose_weight ->
        # MatMul, in float32.
        first, second = cast(x, FLOAT), cast(weight, FLOAT)
        first = flipped(first) if transpose_x else first
        first @ (flipped(second) if transpose_weight else second)
    per_token: y, scale -> y if scale is None else y * Unsqueeze(cast(scale, FLOAT), [-1])
    """,
)


(widened,) = functions(
    __name__,
    """
    widened: weight, scale, offset ->
        # The numbers that the integers of a weight stand for, as float32.
        wide = cast(weight, FLOAT)
        wide = wide + cast(offset, FLOAT) if offset is not None else wide
        wide * cast(scale, FLOAT)
    """,
    public=True,
)
