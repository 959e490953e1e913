"""MindSpore Lite: elementwise arithmetic with fused activations, reductions, and quantized tensors.

Where a file says what the integers of a tensor stand for, nodes see those numbers, after they have been
stored as integers (`quantization.stored`): QuantizeLinear and DequantizeLinear stand around every operator,
and engines put operators on integers in the place of the three.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Literal

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore import quantized
from pinnace.ops.mindspore.math import is_float, promoted
from pinnace.ops.table import Ints, Tensor, formulas, primitive, primitives
from pinnace.ops.values import FLOAT, INT32, Value
from pinnace.program import Dialect

lite = partial(primitive, dialect=Dialect.LITE)
lites = partial(primitives, dialect=Dialect.LITE)
lite_formulas = partial(formulas, dialect=Dialect.LITE)


def _celu(op: Builder, x: Tensor, alpha: float) -> Value:
    if alpha <= 0:
        raise Unsupported(f"has activation_type 27 (CELU) and alpha {alpha}, which must be greater than 0")
    return op.Elu(x / alpha) * alpha


_ACTIVATIONS: Mapping[int, Callable[[Builder, Tensor, float], Tensor]] = {
    0: lambda op, x, alpha: x,
    1: lambda op, x, alpha: op.Relu(x),
    2: lambda op, x, alpha: op.Sigmoid(x),
    3: lambda op, x, alpha: op.Clip(x, 0, 6),
    4: lambda op, x, alpha: op.Elu(x, alpha=alpha),
    5: lambda op, x, alpha: op.LeakyRelu(x, alpha=alpha),
    6: lambda op, x, alpha: op.Abs(x),
    7: lambda op, x, alpha: op.Clip(x, -1, 1),
    8: lambda op, x, alpha: op.Softsign(x),
    9: lambda op, x, alpha: op.Softplus(x),
    10: lambda op, x, alpha: op.Tanh(x),
    11: lambda op, x, alpha: op.Selu(x),
    12: lambda op, x, alpha: op.HardSwish(x),
    13: lambda op, x, alpha: op.HardSigmoid(x, alpha=1 / 6, beta=0.5),
    14: lambda op, x, alpha: op.ThresholdedRelu(x, alpha=alpha),
    15: lambda op, x, alpha: x,
    17: lambda op, x, alpha: op.Sign(x),
    18: lambda op, x, alpha: op.Mul(x, op.Sigmoid(x)),
    19: lambda op, x, alpha: op.Gelu(x),
    20: lambda op, x, alpha: op.Gelu(x, approximate="tanh"),
    27: _celu,
}
"""By number of MindSpore Lite's `ActivationType`. 16, HARD_TANH, has bounds of its own."""

_ELTWISE = {0: "Mul", 1: "Add", 2: "Max"}
_HSIGMOID, _HARD_TANH, _GELU, _FAST_GELU = 13, 16, 19, 20


def activated(op: Builder, x: Tensor, activation_type: int, alpha: float = 0.0) -> Tensor:
    """`x` after the activation that is fused into the operator that computes it."""
    if activation_type not in _ACTIVATIONS:
        raise Unsupported(f"has activation_type {activation_type}, which is not known")
    return _ACTIVATIONS[activation_type](op, x, alpha)


@lite("Activation")
def _activation(
    op: Builder,
    x: Tensor,
    activation_type: int,
    alpha: float = 0.0,
    min_val: float = -1.0,
    max_val: float = 1.0,
    approximate: bool = False,
    beta: float = 0.0,
) -> Value:
    if activation_type == _HARD_TANH:
        return op.Clip(x, min_val, max_val)
    if activation_type == _HSIGMOID and beta:  # older releases write no beta, and have no use for alpha
        return op.HardSigmoid(x, alpha=alpha, beta=beta)
    activation_type = _FAST_GELU if activation_type == _GELU and approximate else activation_type
    return activated(op, x, activation_type, alpha)


@lites({"AddFusion": "Add", "SubFusion": "Sub", "MulFusion": "Mul", "DivFusion RealDiv": "Div"})
def _add_fusion(op: Builder, op_type: str, x: Tensor, y: Tensor, activation_type: int = 0) -> Value:
    """{op_type}, and the fused activation."""
    return activated(op, op.op(op_type, *promoted(op, x, y)), activation_type)


@lites({"AddN": "Sum", "Maximum": "Max", "Minimum": "Min"})
def _of_all(op: Builder, op_type: str, *x: Tensor) -> Value:
    return op.op(op_type, *x)


@lite("All")
def _all(op: Builder, x: Tensor, axes: Ints = (), keep_dims: int = 0) -> Value:
    return op.ReduceMin(x, axes or None, keepdims=keep_dims)


@lite("Clip")
def _lower_clip(
    op: Builder,
    x: Tensor,
    low: Tensor | None = None,
    high: Tensor | None = None,
    min: float | None = None,
    max: float | None = None,
) -> Value:
    return op.Clip(x, min if low is None else low, max if high is None else high)


@lite("Eltwise")
def _eltwise(op: Builder, x: Tensor, y: Tensor, mode: Annotated[str, _ELTWISE]) -> Value:
    """Mul, Add or Max, by mode."""
    return op.op(mode, x, y)


@lite("ExpFusion")
def _exp_fusion(op: Builder, x: Tensor, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Value:
    """Exp of scale * x + shift, times the logarithm of base where that is not e."""
    factor = 1.0 if base == -1 else float(math.log(base))
    return op.Exp(_scaled(x, scale * factor, shift * factor))


@lite("ReduceFusion")
def _reduce_fusion(
    op: Builder,
    x: Tensor,
    axes: Ints = (),
    mode: Annotated[str, _REDUCTIONS] = "ReduceMean",
    keep_dims: bool = False,
    reduce_to_end: bool = False,
    coeff: float = 0.0,
) -> Value:
    """ReduceMean, -Max, -Min, -Prod, -Sum, -SumSquare, -L1 or -L2 over axes, all where none are given.

    A reduction to the end keeps no dimensions: MindSpore Lite 2.0 ignores keep_dims there.
    """
    axes = (tuple(range(op.axis(axes[0], x), op.rank(x))) if axes else ()) if reduce_to_end else axes
    result = op.op(mode, x, axes or None, keepdims=keep_dims and not reduce_to_end)
    return result * coeff if reduce_to_end and coeff not in (0.0, 1.0) else result


def _scaled(x: Tensor, scale: float, shift: float) -> Tensor:
    y = x if scale == 1 else x * scale
    return y if shift == 0 else y + shift


_REDUCTIONS: Mapping[int, str] = {
    0: "ReduceMean",
    1: "ReduceMax",
    2: "ReduceMin",
    3: "ReduceProd",
    4: "ReduceSum",
    5: "ReduceSumSquare",
    6: "ReduceL1",
    7: "ReduceMin",  # of booleans: whether all are true
    8: "ReduceL2",
}
"""By number of `ReduceMode`."""


@lites({"ArgMaxFusion": ("ArgMax", "ReduceMax"), "ArgMinFusion": ("ArgMin", "ReduceMin")})
def arg(
    op: Builder,
    op_type: str,
    reduction: str,
    x: Tensor,
    axis: int = 0,
    top_k: Literal[1] = 1,
    keep_dims: bool = False,
    out_max_value: bool = False,
) -> Value:
    """{op_type} as int32; {reduction} for the value."""
    index = op.cast(op.op(op_type, x, axis=axis, keepdims=int(keep_dims)), INT32)
    if not out_max_value and len(op.declared) < 2:
        return index
    value = op.op(reduction, x, [axis], keepdims=int(keep_dims))
    return value if len(op.declared) < 2 else (index, value)


lite_formulas(
    {
        "CumSum": lambda op, x, axis, exclusive=False, reverse=False: op.CumSum(
            x, op.scalar(axis), exclusive=exclusive, reverse=reverse
        ),
        "Mod": lambda op, x, y: op.Mod(*promoted(op, x, y), fmod=1),
        "PowFusion": lambda op, x, y, scale=1.0, shift=0.0: op.Pow(_scaled(x, scale, shift), y),
    }
)


def _positive(op: Builder, step: Value) -> Value:
    """To divide by; the step of a tensor of zeros is any."""
    return op.Where(op.Greater(step, 0.0), step, 1.0)


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
