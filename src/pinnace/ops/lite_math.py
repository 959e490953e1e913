"""MindSpore Lite: elementwise arithmetic with fused activations, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value
from pinnace.program import Dialect

lite = partial(primitive, dialect=Dialect.LITE)
lites = partial(primitives, dialect=Dialect.LITE)
lite_formulas = partial(formulas, dialect=Dialect.LITE)
Activation = Callable[[Builder, Tensor, float], Tensor]


def _one(op_type: str, **attributes: Any) -> Activation:
    return lambda b, x, alpha: b.op(op_type, x, **attributes)


def _with_alpha(op_type: str) -> Activation:
    return lambda b, x, alpha: b.op(op_type, x, alpha=alpha)


def _clip(low: float, high: float) -> Activation:
    return lambda b, x, alpha: b.op("Clip", x, low, high)


def _swish(b: Builder, x: Tensor, alpha: float) -> Tensor:
    return b.op("Mul", x, b.op("Sigmoid", x))


def _celu(b: Builder, x: Tensor, alpha: float) -> Tensor:
    if alpha <= 0:
        raise Unsupported(f"has activation_type 27 (CELU) and alpha {alpha}, which must be greater than 0")
    return b.op("Mul", b.op("Elu", b.op("Div", x, alpha)), alpha)


_ACTIVATIONS: Mapping[int, Activation] = {
    0: lambda b, x, alpha: x,
    1: _one("Relu"),
    2: _one("Sigmoid"),
    3: _clip(0, 6),
    4: _with_alpha("Elu"),
    5: _with_alpha("LeakyRelu"),
    6: _one("Abs"),
    7: _clip(-1, 1),
    8: _one("Softsign"),
    9: lambda b, x, alpha: b.op("Softplus", x),
    10: _one("Tanh"),
    11: _one("Selu"),
    12: _one("HardSwish"),
    13: _one("HardSigmoid", alpha=1 / 6, beta=0.5),
    14: _with_alpha("ThresholdedRelu"),
    15: lambda b, x, alpha: x,
    17: _one("Sign"),
    18: _swish,
    19: lambda b, x, alpha: b.op("Gelu", x),
    20: lambda b, x, alpha: b.op("Gelu", x, approximate="tanh"),
    27: _celu,
}
"""By number of MindSpore Lite's `ActivationType`. 16, HARD_TANH, has bounds of its own."""

_ELTWISE = {0: "Mul", 1: "Add", 2: "Max"}
_HSIGMOID, _HARD_TANH, _GELU, _FAST_GELU = 13, 16, 19, 20


@function
def activated(b: Builder, x: Tensor, activation_type: int, alpha: float = 0.0) -> Tensor:
    """`x` after the activation that is fused into the operator that computes it."""
    if activation_type not in _ACTIVATIONS:
        raise Unsupported(f"has activation_type {activation_type}, which is not known")
    return _ACTIVATIONS[activation_type](b, x, alpha)


lite_formulas(
    __name__,
    """
    Activation: x, activation_type: int, alpha: float = 0.0, min_val: float = -1.0, max_val: float = 1.0,
        approximate: bool = False, beta: float = 0.0 ->
        # The operator that activation_type names.
        if activation_type == _HARD_TANH:
            return Clip(x, min_val, max_val)
        if activation_type == _HSIGMOID and beta:  # older releases write no beta, and have no use for alpha
            return HardSigmoid(x, alpha=alpha, beta=beta)
        activation_type = _FAST_GELU if activation_type == _GELU and approximate else activation_type
        activated(x, activation_type, alpha)
    AddFusion("Add") SubFusion("Sub") MulFusion("Mul") DivFusion("Div") RealDiv("Div"): op_type, x, y,
        activation_type: int = 0 ->
        # {op_type}, and the fused activation.
        activated(op(op_type, *promoted(x, y)), activation_type)
    AddN: *x -> Sum(*x)
    All: x, axes: Ints = (), keep_dims: int = 0 -> ReduceMin(x, axes or None, keepdims=keep_dims)
    Clip: x, low = None, high = None, min: float | None = None, max: float | None = None ->
        # Clip.
        Clip(x, min if low is None else low, max if high is None else high)
    CumSum: x, axis, exclusive: bool = False, reverse: bool = False ->
        CumSum(x, scalar(axis), exclusive=exclusive, reverse=reverse)
    Eltwise: x, y, mode: OneOf[_ELTWISE] ->
        # Mul, Add or Max, by mode.
        op(mode, x, y)
    ExpFusion: x, base: float = -1.0, scale: float = 1.0, shift: float = 0.0 ->
        # Exp of scale * x + shift, times the logarithm of base where that is not e.
        factor = 1.0 if base == -1 else float(log(base))
        Exp(scaled(x, scale * factor, shift * factor))
    Maximum: *x -> Max(*x)
    Minimum: *x -> Min(*x)
    Mod: x, y -> Mod(*promoted(x, y), fmod=1)
    PowFusion: x, exponent, scale: float = 1.0, shift: float = 0.0 -> Pow(scaled(x, scale, shift), exponent)
    ReduceFusion: x, axes: Ints = (), mode: OneOf[_REDUCTIONS] = "ReduceMean", keep_dims: bool = False,
        reduce_to_end: bool = False, coeff: float = 0.0 ->
        # ReduceMean, -Max, -Min, -Prod, -Sum, -SumSquare, -L1 or -L2 over axes, all where none are given.
        axes = (tuple(range(axis(axes[0], x), rank(x))) if axes else ()) if reduce_to_end else axes
        result = op(mode, x, axes or None, keepdims=keep_dims)
        result * coeff if reduce_to_end and coeff not in (0.0, 1.0) else result
    SquaredDifference: x, y ->
        # Sub, and Mul with itself.
        difference = x - y
        difference * difference
    """,
)


functions(
    __name__,
    """
    scaled: x, scale, shift ->
        # Mul by a scale, Add of a shift.
        y = x if scale == 1 else x * scale
        y if shift == 0 else y + shift
    """,
)


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
    b: Builder,
    op_type: str,
    reduction: str,
    x: Tensor,
    axis: int = 0,
    top_k: Literal[1] = 1,
    keep_dims: bool = False,
    out_max_value: bool = False,
) -> Value:
    """{op_type} as int32; {reduction} for the value."""
    index = b.cast(b.op(op_type, x, axis=axis, keepdims=int(keep_dims)), ir.DataType.INT32)
    if not out_max_value and len(b.declared) < 2:
        return index
    value = b.op(reduction, x, [axis], keepdims=int(keep_dims))
    return value if len(b.declared) < 2 else (index, value)
