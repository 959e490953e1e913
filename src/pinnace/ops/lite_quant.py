"""MindSpore Lite: quantised tensors.

Where a file says what the integers of a tensor stand for, nodes see those numbers, after they have been
stored as integers (`quantisation.stored`): QuantizeLinear and DequantizeLinear stand around every operator,
and engines put operators on integers in the place of the three.
"""

from __future__ import annotations

from pinnace.ops import quantised
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import functions
from pinnace.ops.lite_math import lite, lite_formulas
from pinnace.ops.table import Tensor
from pinnace.ops.values import Value

functions(
    __name__,
    """
    positive: step ->
        # To divide by; the step of a tensor of zeros is any.
        Where(step > 0.0, step, 1.0)
    """,
)


lite_formulas(
    __name__,
    """
    DynamicQuant; transpose: x, symmetric: bool = False, dst_type: Literal[32] = 32,
        activation_channel: bool = False, prefer_axis: int = 0, prefer_axes: Ints = () ->
        # DynamicQuantizeLinear and DequantizeLinear; without offset, or by channel, Div, Round, Mul.
        if not symmetric and not activation_channel:
            return DequantizeLinear(*ops("DynamicQuantizeLinear", 3, cast(x, FLOAT)))
        kept = [axis(a, x) for a in prefer_axes or (prefer_axis,)] if activation_channel else []
        others = [a for a in range(rank(x)) if a not in kept]
        if symmetric:
            step = ReduceMax(Abs(x), others, keepdims=1) / _LEVELS
            return Round(x / positive(step)) * step
        low = Min(ReduceMin(x, others, keepdims=1), 0.0)
        step = (Max(ReduceMax(x, others, keepdims=1), 0.0) - low) / 255.0
        offset = Round(low / positive(step))
        (Clip(Round(x / positive(step)) - offset, 0.0, 255.0) + offset) * step
    QuantDTypeCast; src_t dst_t axis: x ->
        # QuantizeLinear or DequantizeLinear, with the scales that the file has for the tensor.
        if not is_float(x):
            raise Unsupported("reads integers of which the file does not say what they stand for")
        x
    """,
)


_LEVELS = 127
"""Steps on either side of zero, of int8 without an offset."""


@lite("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant(
    b: Builder, x: Tensor, low: Tensor, high: Tensor, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """Clip, Div, Round, Mul, with a range moved to have zero on a step; channels are last."""
    return quantised.fake_quant_with_bounds(
        b, x, low, high, num_bits=num_bits or 8, narrow_range=narrow_range
    )
