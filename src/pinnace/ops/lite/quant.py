"""MindSpore Lite: quantized tensors.

Where a file says what the integers of a tensor stand for, nodes see those numbers, after they have been
stored as integers (`quantization.stored`): QuantizeLinear and DequantizeLinear stand around every operator,
and engines put operators on integers in the place of the three.
"""

from __future__ import annotations

from typing import Literal

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.lite.math import lite
from pinnace.ops.mindspore import quantized
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import FLOAT, Ints, Tensor
from pinnace.ops.values import Value


def _positive(op: Builder, step: Value) -> Value:
    """To divide by; the step of a tensor of zeros is any."""
    return op.Where(step > 0.0, step, 1.0)


@lite("DynamicQuant", unused="transpose")
def _dynamic_quant(
    op: Builder,
    x: Tensor,
    symmetric: bool = False,
    dst_type: Literal[32] = 32,
    activation_channel: bool = False,
    prefer_axis: int = 0,
    prefer_axes: Ints = (),
) -> Value:
    """DynamicQuantizeLinear and DequantizeLinear; without offset, or by channel, Div, Round, Mul."""
    if not symmetric and not activation_channel:
        return op.DequantizeLinear(*op.ops("DynamicQuantizeLinear", 3, op.cast(x, FLOAT)))
    kept = [op.axis(a, x) for a in prefer_axes or (prefer_axis,)] if activation_channel else []
    others = [a for a in range(op.rank(x)) if a not in kept]
    if symmetric:
        step = op.ReduceMax(op.Abs(x), others, keepdims=1) / _LEVELS
        return op.Round(x / _positive(op, step)) * step
    low = op.Min(op.ReduceMin(x, others, keepdims=1), 0.0)
    step = (op.Max(op.ReduceMax(x, others, keepdims=1), 0.0) - low) / 255.0
    offset = op.Round(low / _positive(op, step))
    return (op.Clip(op.Round(x / _positive(op, step)) - offset, 0.0, 255.0) + offset) * step


@lite("QuantDTypeCast", unused="src_t dst_t axis")
def _quant_d_type_cast(op: Builder, x: Tensor) -> Value:
    """QuantizeLinear or DequantizeLinear, with the scales that the file has for the tensor."""
    if not is_float(op, x):
        raise Unsupported("reads integers of which the file does not say what they stand for")
    return x


_LEVELS = 127
"""Steps on either side of zero, of int8 without an offset."""


@lite("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant(
    op: Builder, x: Tensor, low: Tensor, high: Tensor, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """Clip, Div, Round, Mul, with a range moved to have zero on a step; channels are last."""
    return quantized.fake_quant_with_bounds(
        op, x, low, high, num_bits=num_bits or 8, narrow_range=narrow_range
    )
