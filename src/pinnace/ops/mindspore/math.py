"""Elementwise arithmetic, comparison and logic."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor, formulas, primitive, primitives
from pinnace.ops.values import BOOL, DOUBLE, FLOAT, FLOAT16, INT32, INT64, Value

_LARGEST = {FLOAT16: 65504.0, ir.DataType.BFLOAT16: 3.3895313892515355e38}


def exp2(op: Builder, x: Tensor) -> Tensor:
    return op.Pow(2.0, floating(op, x))


def is_float(op: Builder, x: Tensor) -> bool:
    return op.dtype(x).is_floating_point()


def is_integer(op: Builder, x: Tensor) -> bool:
    return op.dtype(x).is_integer()


def log1p(op: Builder, x: Tensor) -> Tensor:
    """Twice Atanh of x / (x + 2), which is exact near zero; Log from 1 on."""
    x = floating(op, x)
    return op.Where(op.Less(x, 1.0), op.Atanh(x / (x + 2.0)) * 2.0, op.Log(x + 1.0))


def never(op: Builder, x: Tensor) -> Tensor:
    """False for every element of `x`, which holds no NaN."""
    return op.Not(op.Equal(x, x))


def trunc(op: Builder, x: Tensor) -> Value:
    """Sign, Abs, Floor, Mul; nothing for ints."""
    return op.Sign(x) * op.Floor(op.Abs(x)) if is_float(op, x) else x


@primitives(
    {
        **{name: name for name in ["Atanh", "Cos", "Cosh", "Erf", "Exp", "Log", "Sin", "Sinh", "Sqrt"]},
        "ACos AcosExt": "Acos",
        "Acosh AcoshExt": "Acosh",
        "Asin AsinExt": "Asin",
        "Asinh AsinhExt": "Asinh",
        "Atan AtanExt": "Atan",
        "Inv Reciprocal": "Reciprocal",
    }
)
def _of_floats(op: Builder, op_type: str, x: Tensor) -> Value:
    """{op_type}; ints as floats."""
    return op.op(op_type, floating(op, x))


@primitive("Tan")
def _tan(op: Builder, x: Tensor) -> Value:
    """Tan; ints as floats; Sin over Cos of float64, as onnxruntime has no kernel for it."""
    x = floating(op, x)
    return op.Sin(x) / op.Cos(x) if op.dtype(x) is DOUBLE else op.Tan(x)


def _expm1(op: Builder, x: Tensor) -> Value:
    """Twice Sinh of x / 2 by Exp of x / 2, which is exact near zero."""
    half = op.Max(floating(op, x) * 0.5, -20.0)  # Sinh is infinite far below, where Exp is 0
    return op.Sinh(half) * op.Exp(half) * 2.0


def _angle(op: Builder, x: Tensor) -> Tensor:
    x = floating(op, x)
    return op.Where(op.IsNaN(x), x, op.Where(op.Less(x, 0.0), op.like(math.pi, x), op.like(0.0, x)))


@primitive("Logit")
def _logit(op: Builder, x: Tensor, eps: float = -1.0) -> Value:
    """Log of x / (1 - x), x clipped to [eps, 1 - eps] where eps is not negative."""
    if eps > 0.5:  # an element raised to eps stays there, though 1 - eps is less
        return _odds(op, op.Where(op.Less(x, eps), op.like(eps, x), op.Min(x, 1.0 - eps)))
    return _odds(op, op.Clip(x, eps, 1.0 - eps) if eps >= 0 else x)


@primitive("NanToNum")
def _nan_to_num(
    op: Builder, x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """A number for NaN and each infinity, by Where."""
    if not is_float(op, x):
        return x
    largest = _LARGEST.get(op.dtype(x), float(np.finfo(np.float32).max))  # MindSpore's of float64, too
    above, below = op.IsInf(x, detect_negative=0), op.IsInf(x, detect_positive=0)
    x = op.Where(op.IsNaN(x), 0.0 if nan is None else nan, x)
    x = op.Where(above, largest if posinf is None else posinf, x)
    return op.Where(below, -largest if neginf is None else neginf, x)


@primitive("NextAfter")
def _next_after(op: Builder, x: Tensor, other: Tensor) -> Value:
    """Add of the distance to the next number, from the exponent, in float64."""
    kind = op.dtype(x)
    if kind not in (FLOAT, DOUBLE):
        raise Unsupported(f"computes with {kind.name}, but only float32 and float64 are supported")
    limits = np.finfo(kind.numpy())
    here, there = op.cast(x, DOUBLE), op.cast(other, DOUBLE)
    size, way, upwards = op.Abs(here), op.Sign(there - here), op.Sign(here)
    exponent = op.Floor(op.Log(size) / math.log(2.0))
    power = op.Pow(2.0, exponent)  # the logarithm is rounded: the exponent may be one off
    less = op.cast(op.Greater(power, size), DOUBLE)
    exponent = exponent - less + op.cast(op.LessOrEqual(power * 2.0, size), DOUBLE)
    # Towards zero from a power of two the numbers lie twice as dense.
    dense = op.And(op.Less(way * upwards, 0.0), op.Equal(op.Pow(2.0, exponent), size))
    exponent = op.Max(exponent - op.cast(dense, DOUBLE), float(limits.minexp)) - limits.nmant
    beyond = here + way * op.Pow(2.0, exponent)
    # From an infinity MindSpore gives the greatest number of float64, and of float32 the infinity.
    greatest = float(limits.max) if kind is DOUBLE else math.inf
    beyond = op.Where(op.IsInf(here), upwards * greatest, beyond)
    strange = op.Or(op.IsNaN(here), op.IsNaN(there))
    return op.cast(op.Where(strange, math.nan, op.Where(op.Equal(here, there), there, beyond)), kind)


@primitive("Round")
def _round(op: Builder, x: Tensor, decimals: int = 0) -> Value:
    """Round, between Mul and Div where decimals are asked for; nothing for ints."""
    if not decimals or not is_float(op, x):
        return op.Round(x) if is_float(op, x) else x
    scale = float(10 ** abs(decimals))
    return op.Round(x * scale) / scale if decimals > 0 else op.Round(x / scale) * scale


def _sinc(op: Builder, x: Tensor) -> Value:
    """Sin of x times pi over itself, and 1 at 0; NaN at False, as MindSpore has it."""
    turn = floating(op, x) * math.pi
    if op.dtype(x) is BOOL:
        return op.Sin(turn) / turn
    zero = op.Equal(turn, 0.0)
    safe = op.Where(zero, 1.0, turn)
    return op.Where(zero, 1.0, op.Sin(safe) / safe)


formulas(
    {
        "Abs": lambda op, x: op.Abs(x),
        "Angle": _angle,
        "BitwiseNot Invert": lambda op, x: op.BitwiseNot(x),
        "Ceil": lambda op, x: op.Ceil(x) if is_float(op, x) else x,
        "Eps": lambda op, x: op.Expand(op.like(float(np.finfo(op.dtype(x).numpy()).eps), x), op.Shape(x)),
        "Erfc": lambda op, x: 1 - op.Erf(floating(op, x)),
        "Exp2": exp2,
        "Expm1": _expm1,
        "Floor": lambda op, x: op.Floor(x) if is_float(op, x) else x,
        "Frac": lambda op, x: x - trunc(op, x),
        "Imag": lambda op, x: op.Expand(op.like(0.0, x), op.Shape(x)),
        "IsFinite": lambda op, x: op.Not(
            op.Or(op.IsInf(x), op.IsNaN(x)) if is_float(op, x) else never(op, x)
        ),
        "IsInf": lambda op, x: op.IsInf(x) if is_float(op, x) else never(op, x),
        "IsNan": lambda op, x: op.IsNaN(x) if is_float(op, x) else never(op, x),
        "IsNegInf": lambda op, x: op.IsInf(x, detect_positive=0) if is_float(op, x) else never(op, x),
        "Log10": lambda op, x: op.Log(floating(op, x)) / math.log(10),
        "Log1p": log1p,
        "Log2": lambda op, x: op.Log(floating(op, x)) / math.log(2),
        "Neg": lambda op, x: op.Neg(x),
        "Real Conj": lambda op, x: x,
        "Rint": lambda op, x: op.Round(x),
        "Rsqrt": lambda op, x: op.Reciprocal(op.Sqrt(floating(op, x))),
        "Sign": lambda op, x: op.Where(op.IsNaN(x), 0, op.Sign(x)) if is_float(op, x) else op.Sign(x),
        "Sinc": _sinc,
        "Square": lambda op, x: x * x,
        "Trunc": trunc,
    }
)


def _odds(op: Builder, x: Tensor) -> Tensor:
    return op.Log(x / (1.0 - x))


def floating(op: Builder, x: Tensor) -> Tensor:
    """Floats as they are; ints in the type that MindSpore computes in: that of the result, or float32."""
    if op.dtype(x).is_floating_point():
        return x
    wanted = op.result(x)
    return op.cast(x, wanted if wanted.is_floating_point() else FLOAT)


def promoted(op: Builder, x: Value, y: Value) -> tuple[Tensor, Tensor]:
    """Both in the type that holds both: MindSpore mixes types, ONNX does not."""
    if isinstance(x, ir.Value):
        first, second = x, op.operand(y, x)
    else:
        second = op.tensor(y)
        first = op.operand(x, second)
    wide = _wider(op.dtype(first), op.dtype(second))
    return op.cast(first, wide), op.cast(second, wide)


def _wider(first: ir.DataType, second: ir.DataType) -> ir.DataType:
    if ir.DataType.STRING in (first, second):
        raise Unsupported("computes with text")
    if first.is_floating_point() != second.is_floating_point():
        return first if first.is_floating_point() else second
    if first.bitwidth == second.bitwidth and first is not second:
        if first.is_floating_point():  # float16 and bfloat16
            return FLOAT
        return _signed_holder(first)
    wide, narrow = (first, second) if first.bitwidth > second.bitwidth else (second, first)
    return _signed_holder(wide) if wide.is_integer() and narrow.is_signed() > wide.is_signed() else wide


def _signed_holder(dtype: ir.DataType) -> ir.DataType:
    """The signed type that holds an unsigned one."""
    if dtype.bitwidth <= 8:
        return ir.DataType.INT16
    return INT32 if dtype.bitwidth <= 16 else INT64


def beside(op: Builder, value: Value, x: Tensor) -> Tensor:
    """`value` in the type of `x`."""
    return op.cast(op.operand(value, x), op.dtype(x))
