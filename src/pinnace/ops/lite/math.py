"""MindSpore Lite: elementwise arithmetic with fused activations, and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import promoted
from pinnace.ops.table import Ints, OneOf, Tensor, primitive, primitives
from pinnace.ops.values import Value
from pinnace.program import Dialect

lite = partial(primitive, dialect=Dialect.LITE)
lites = partial(primitives, dialect=Dialect.LITE)
Activation = Callable[[Builder, Tensor, float], Tensor]


def _one(op_type: str, **attributes: Any) -> Activation:
    return lambda op, x, alpha: op.op(op_type, x, **attributes)


def _with_alpha(op_type: str) -> Activation:
    return lambda op, x, alpha: op.op(op_type, x, alpha=alpha)


def _clip(low: float, high: float) -> Activation:
    return lambda op, x, alpha: op.Clip(x, low, high)


def _swish(op: Builder, x: Tensor, alpha: float) -> Value:
    return x * op.Sigmoid(x)


def _celu(op: Builder, x: Tensor, alpha: float) -> Value:
    if alpha <= 0:
        raise Unsupported(f"has activation_type 27 (CELU) and alpha {alpha}, which must be greater than 0")
    return op.Elu(x / alpha) * alpha


_ACTIVATIONS: Mapping[int, Activation] = {
    0: lambda op, x, alpha: x,
    1: _one("Relu"),
    2: _one("Sigmoid"),
    3: _clip(0, 6),
    4: _with_alpha("Elu"),
    5: _with_alpha("LeakyRelu"),
    6: _one("Abs"),
    7: _clip(-1, 1),
    8: _one("Softsign"),
    9: lambda op, x, alpha: op.Softplus(x),
    10: _one("Tanh"),
    11: _one("Selu"),
    12: _one("HardSwish"),
    13: _one("HardSigmoid", alpha=1 / 6, beta=0.5),
    14: _with_alpha("ThresholdedRelu"),
    15: lambda op, x, alpha: x,
    17: _one("Sign"),
    18: _swish,
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
    """The operator that activation_type names."""
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
    """{op_type}."""
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
    """Clip."""
    return op.Clip(x, min if low is None else low, max if high is None else high)


@lite("CumSum")
def _cum_sum(op: Builder, x: Tensor, axis: Tensor, exclusive: bool = False, reverse: bool = False) -> Value:
    return op.CumSum(x, op.scalar(axis), exclusive=exclusive, reverse=reverse)


@lite("Eltwise")
def _eltwise(op: Builder, x: Tensor, y: Tensor, mode: Annotated[str, OneOf(_ELTWISE)]) -> Value:
    """Mul, Add or Max, by mode."""
    return op.op(mode, x, y)


@lite("ExpFusion")
def _exp_fusion(op: Builder, x: Tensor, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Value:
    """Exp of scale * x + shift, times the logarithm of base where that is not e."""
    factor = 1.0 if base == -1 else float(math.log(base))
    return op.Exp(_scaled(op, x, scale * factor, shift * factor))


@lite("Mod")
def _mod(op: Builder, x: Tensor, y: Tensor) -> Value:
    return op.Mod(*promoted(op, x, y), fmod=1)


@lite("PowFusion")
def _pow_fusion(op: Builder, x: Tensor, exponent: Tensor, scale: float = 1.0, shift: float = 0.0) -> Value:
    return op.Pow(_scaled(op, x, scale, shift), exponent)


@lite("ReduceFusion")
def _reduce_fusion(
    op: Builder,
    x: Tensor,
    axes: Ints = (),
    mode: Annotated[str, OneOf(_REDUCTIONS)] = "ReduceMean",
    keep_dims: bool = False,
    reduce_to_end: bool = False,
    coeff: float = 0.0,
) -> Value:
    """ReduceMean, -Max, -Min, -Prod, -Sum, -SumSquare, -L1 or -L2 over axes, all where none are given."""
    axes = (tuple(range(op.axis(axes[0], x), op.rank(x))) if axes else ()) if reduce_to_end else axes
    result = op.op(mode, x, axes or None, keepdims=keep_dims)
    return result * coeff if reduce_to_end and coeff not in (0.0, 1.0) else result


@lite("SquaredDifference")
def _squared_difference(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Sub, and Mul with itself."""
    difference = x - y
    return difference * difference


def _scaled(op: Builder, x: Tensor, scale: float, shift: float) -> Tensor:
    """Mul by a scale, Add of a shift."""
    y = x if scale == 1 else x * scale
    return y if shift == 0 else y + shift


# -- reductions ------------------------------------------------------------------------------------


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
    index = op.cast(op.op(op_type, x, axis=axis, keepdims=int(keep_dims)), ir.DataType.INT32)
    if not out_max_value and len(op.declared) < 2:
        return index
    value = op.op(reduction, x, [axis], keepdims=int(keep_dims))
    return value if len(op.declared) < 2 else (index, value)
