"""MindSpore Lite: quantised tensors.

Where a file says what the integers of a tensor stand for, nodes see those numbers, after they have been
stored as integers (`quantisation.stored`): QuantizeLinear and DequantizeLinear stand around every operator,
and engines put operators on integers in the place of the three.
"""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops import quantised
from pinnace.ops.builder import Builder
from pinnace.ops.lite_math import lite
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Unsupported, Value

_INT8 = 32
_LEVELS = 127
"""Steps on either side of zero, of int8 without an offset."""


@lite("QuantDTypeCast", unused="src_t dst_t axis")
def quant_dtype_cast(b: Builder, x: Tensor) -> Value:
    """QuantizeLinear or DequantizeLinear, with the scales that the file has for the tensor."""
    if not b.dtype(x).is_floating_point():
        raise Unsupported("reads integers of which the file does not say what they stand for")
    return x


@lite("DynamicQuant", unused="transpose")
def dynamic_quant(
    b: Builder,
    x: Tensor,
    symmetric: bool = False,
    dst_type: int = _INT8,
    activation_channel: bool = False,
    prefer_axis: int = 0,
    prefer_axes: Ints = (),
) -> Value:
    """DynamicQuantizeLinear and DequantizeLinear; without offset, or by channel, Div, Round, Mul."""
    if dst_type != _INT8:
        raise Unsupported(f"has dst_type {dst_type}, and only {_INT8}, int8, is supported")
    if not symmetric and not activation_channel:
        return b.op("DequantizeLinear", *b.ops("DynamicQuantizeLinear", 3, b.cast(x, ir.DataType.FLOAT)))
    kept = {b.axis(a, x) for a in prefer_axes or (prefer_axis,)} if activation_channel else set()
    others = [a for a in range(b.rank(x)) if a not in kept]
    if symmetric:
        high = b.op("ReduceMax", b.op("Abs", x), others, keepdims=1)
        step = b.op("Div", high, float(_LEVELS))
        return b.op("Mul", b.op("Round", b.op("Div", x, _positive(b, step))), step)
    low = b.op("Min", b.op("ReduceMin", x, others, keepdims=1), b.like(0.0, x))
    high = b.op("Max", b.op("ReduceMax", x, others, keepdims=1), b.like(0.0, x))
    step = b.op("Div", b.op("Sub", high, low), 255.0)
    offset = b.op("Round", b.op("Div", low, _positive(b, step)))
    steps = b.op("Clip", b.op("Sub", b.op("Round", b.op("Div", x, _positive(b, step))), offset), 0.0, 255.0)
    return b.op("Mul", b.op("Add", steps, offset), step)


def _positive(b: Builder, step: Tensor) -> Tensor:
    """A step to divide by; that of a tensor of zeros is any."""
    return b.op("Where", b.op("Greater", step, 0.0), step, b.like(1.0, step))


@lite("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant(
    b: Builder, x: Tensor, low: Tensor, high: Tensor, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """Clip, Div, Round, Mul, with a range moved to have zero on a step; channels are last."""
    return quantised.fake_quant_with_bounds(
        b, x, low, high, num_bits=num_bits or 8, narrow_range=narrow_range
    )
