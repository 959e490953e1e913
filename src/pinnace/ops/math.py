"""Elementwise arithmetic, comparison and logic."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value

formulas(
    __name__,
    """
    Abs: x -> Abs(x)
    Angle: x ->
        # Pi where the number is less than 0, else 0.
        x = floating(x)
        side = Where(x < 0.0, like(pi, x), like(0.0, x))
        Where(IsNaN(x), x, side)
    BitwiseNot Invert: x -> BitwiseNot(x)
    Erfc: x -> 1 - Erf(floating(x))
    Expm1: x ->
        # Twice Sinh of x / 2 by Exp of x / 2, which is exact near zero.
        x = floating(x)
        half = Max(x * 0.5, -20.0)  # Sinh is infinite far below, where Exp is 0
        Sinh(half) * Exp(half) * 2.0
    Frac: x -> x - trunc(x)
    Imag: x -> Expand(like(0.0, x), Shape(x))
    IsFinite: x ->
        # Neither IsInf nor IsNaN; true for ints.
        whole = not is_float(x)
        ~(never(x) if whole else IsInf(x) | IsNaN(x))
    NanToNum: x, nan: float | None = None, posinf: float | None = None, neginf: float | None = None ->
        # A number for NaN and each infinity, by Where.
        if not is_float(x):
            return x
        largest = _LARGEST.get(dtype(x), float(np.finfo(np.float32).max))  # MindSpore's of float64, too
        cases = (
            (IsNaN(x), 0.0 if nan is None else nan),
            (IsInf(x, detect_negative=0), largest if posinf is None else posinf),
            (IsInf(x, detect_positive=0), -largest if neginf is None else neginf),
        )
        for condition, number in cases:
            x = Where(condition, number, x)
        x
    Neg: x -> Neg(x)
    Real Conj: x -> x
    Rint: x -> Round(x)
    Rsqrt: x -> Reciprocal(Sqrt(floating(x)))
    Sign: x ->
        # Sign; 0 for NaN.
        signs = Sign(x)
        Where(IsNaN(x), 0, signs) if is_float(x) else signs
    Sinc: x ->
        # Sin of x times pi over itself, and 1 at 0; NaN at False, as MindSpore has it.
        turn = floating(x) * pi
        if dtype(x) is BOOL:
            return Sin(turn) / turn
        zero = turn == 0.0
        safe = Where(zero, 1.0, turn)
        Where(zero, 1.0, Sin(safe) / safe)
    Square: x -> x * x
    """,
)


# -- one operand -----------------------------------------------------------------------------------


@function
def is_float(b: Builder, x: Tensor) -> bool:
    """True for a tensor of floats."""
    return b.dtype(x).is_floating_point()


@function
def is_integer(b: Builder, x: Tensor) -> bool:
    """True for a tensor of ints."""
    return b.dtype(x).is_integer()


@function
def floating(b: Builder, x: Tensor) -> Tensor:
    """Floats as they are; ints in the type that MindSpore computes in: that of the result, or float32."""
    if b.dtype(x).is_floating_point():
        return x
    wanted = b.result(x)
    return b.cast(x, wanted if wanted.is_floating_point() else ir.DataType.FLOAT)


@primitives(
    {
        "ACos AcosExt": "Acos",
        "Acosh AcoshExt": "Acosh",
        "Asin AsinExt": "Asin",
        "Asinh AsinhExt": "Asinh",
        "Atan AtanExt": "Atan",
        "Atanh": "Atanh",
        "Cos": "Cos",
        "Cosh": "Cosh",
        "Erf": "Erf",
        "Exp": "Exp",
        "Inv Reciprocal": "Reciprocal",
        "Log": "Log",
        "Sin": "Sin",
        "Sinh": "Sinh",
        "Sqrt": "Sqrt",
        "Tan": "Tan",
    }
)
def of_floats(b: Builder, op_type: str, x: Tensor) -> Value:
    """{op_type}; ints as floats."""
    return b.op(op_type, floating(b, x))


@primitives({"Ceil": "Ceil", "Floor": "Floor"})
def rounded(b: Builder, op_type: str, x: Tensor) -> Value:
    """{op_type}; nothing for ints."""
    return b.op(op_type, x) if b.dtype(x).is_floating_point() else x


@function
@primitive("Trunc")
def trunc(b: Builder, x: Tensor) -> Tensor:
    """Sign, Abs, Floor, Mul; nothing for ints."""
    if not b.dtype(x).is_floating_point():
        return x
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))


@primitive("Round")
def round_(b: Builder, x: Tensor, decimals: int = 0) -> Value:
    """Round, between Mul and Div where decimals are asked for; nothing for ints."""
    if not b.dtype(x).is_floating_point():
        return x
    if not decimals:
        return b.op("Round", x)
    scale = float(10 ** abs(decimals))
    first, second = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return b.op(second, b.op("Round", b.op(first, x, scale)), scale)


@primitives({"Log2": 2, "Log10": 10})
def log_of_base(b: Builder, base: int, x: Tensor) -> Value:
    """Log and Div by log {base}."""
    return b.op("Div", b.op("Log", floating(b, x)), math.log(base))


@function
@primitive("Log1p")
def log1p(b: Builder, x: Tensor) -> Tensor:
    """Twice Atanh of x / (x + 2), which is exact near zero; Log from 1 on."""
    x = floating(b, x)
    near = b.op("Mul", b.op("Atanh", b.op("Div", x, b.op("Add", x, 2.0))), 2.0)
    return b.op("Where", b.op("Less", x, 1.0), near, b.op("Log", b.op("Add", x, 1.0)))


@primitive("Exp2")
def exp2(b: Builder, x: Tensor) -> Tensor:
    """Pow of 2."""
    x = floating(b, x)
    return b.op("Pow", b.like(2.0, x), x)


@primitive("Logit")
def logit(b: Builder, x: Tensor, eps: float = -1.0) -> Value:
    """Log of x / (1 - x), x clipped to [eps, 1 - eps] where eps is not negative."""
    if eps > 0.5:  # an element raised to eps stays there, though 1 - eps is less
        least, most = b.like(eps, x), b.like(1.0 - eps, x)
        x = b.op("Where", b.op("Less", x, least), least, b.op("Min", x, most))
    elif eps >= 0:
        x = b.op("Clip", x, b.like(eps, x), b.like(1.0 - eps, x))
    return b.op("Log", b.op("Div", x, b.op("Sub", b.like(1.0, x), x)))


@primitives({"IsNan": ("IsNaN", None), "IsInf": ("IsInf", None), "IsNegInf": ("IsInf", 0)})
def not_finite(b: Builder, op_type: str, detect_positive: int | None, x: Tensor) -> Value:
    """{op_type}; false for ints."""
    floats = b.dtype(x).is_floating_point()
    return b.op(op_type, x, detect_positive=detect_positive) if floats else never(b, x)


@function
def never(b: Builder, x: Tensor) -> Tensor:
    """False for every element of `x`, which holds no NaN."""
    return b.op("Not", b.op("Equal", x, x))


_LARGEST = {ir.DataType.FLOAT16: 65504.0, ir.DataType.BFLOAT16: 3.3895313892515355e38}


# -- two operands ----------------------------------------------------------------------------------


@function
def promoted(b: Builder, x: Value, y: Value) -> tuple[Tensor, Tensor]:
    """Both in the type that holds both: MindSpore mixes types, ONNX does not."""
    if isinstance(x, ir.Value):
        first, second = x, b.operand(y, x)
    else:
        second = b.tensor(y)
        first = b.operand(x, second)
    wide = _wider(b.dtype(first), b.dtype(second))
    return b.cast(first, wide), b.cast(second, wide)


def _wider(first: ir.DataType, second: ir.DataType) -> ir.DataType:
    if ir.DataType.STRING in (first, second):
        raise Unsupported("computes with text")
    if first.is_floating_point() != second.is_floating_point():
        return first if first.is_floating_point() else second
    if first.bitwidth == second.bitwidth and first is not second:
        if first.is_floating_point():  # float16 and bfloat16
            return ir.DataType.FLOAT
        return _signed_holder(first)
    wide, narrow = (first, second) if first.bitwidth > second.bitwidth else (second, first)
    return _signed_holder(wide) if wide.is_integer() and narrow.is_signed() > wide.is_signed() else wide


def _signed_holder(dtype: ir.DataType) -> ir.DataType:
    """The signed type that holds an unsigned one."""
    if dtype.bitwidth <= 8:
        return ir.DataType.INT16
    return ir.DataType.INT32 if dtype.bitwidth <= 16 else ir.DataType.INT64


# -- numbers as machines hold them -----------------------------------------------------------------


_FRACTION = {ir.DataType.FLOAT: 23, ir.DataType.DOUBLE: 52}


_LOWEST = {ir.DataType.FLOAT: -126, ir.DataType.DOUBLE: -1022}


@primitive("NextAfter")
def next_after(b: Builder, x: Tensor, other: Tensor) -> Value:
    """Add of the distance to the next number, from the exponent, in float64."""
    kind = b.dtype(x)
    if kind not in _FRACTION:
        raise Unsupported(f"computes with {kind.name}, but only float32 and float64 are supported")
    here, there = (b.cast(t, ir.DataType.DOUBLE) for t in (x, other))
    size, way = b.op("Abs", here), b.op("Sign", b.op("Sub", there, here))
    upwards = b.op("Sign", here)
    exponent = b.op("Floor", b.op("Div", b.op("Log", size), np.log(2.0)))
    for _ in range(2):  # The logarithm is rounded: the exponent may be one off.
        power = b.op("Pow", b.like(2.0, here), exponent)
        exponent = b.op("Sub", exponent, b.cast(b.op("Greater", power, size), ir.DataType.DOUBLE))
        twice = b.op("LessOrEqual", b.op("Mul", power, 2.0), size)
        exponent = b.op("Add", exponent, b.cast(twice, ir.DataType.DOUBLE))
    # Towards zero from a power of two the numbers lie twice as dense.
    inwards = b.op("Less", b.op("Mul", way, upwards), 0.0)
    whole = b.op("Equal", b.op("Pow", b.like(2.0, here), exponent), size)
    exponent = b.op("Sub", exponent, b.cast(b.op("And", inwards, whole), ir.DataType.DOUBLE))
    exponent = b.op("Sub", b.op("Max", exponent, float(_LOWEST[kind])), float(_FRACTION[kind]))
    beyond = b.op("Add", here, b.op("Mul", way, b.op("Pow", b.like(2.0, here), exponent)))
    # From an infinity MindSpore gives the greatest number of float64, and of float32 the infinity.
    greatest = np.finfo(np.float64).max if kind is ir.DataType.DOUBLE else np.inf
    beyond = b.op("Where", b.op("IsInf", here), b.op("Mul", upwards, float(greatest)), beyond)
    result = b.op("Where", b.op("Equal", here, there), there, beyond)
    strange = b.op("Or", b.op("IsNaN", here), b.op("IsNaN", there))
    return b.cast(b.op("Where", strange, b.like(math.nan, here), result), kind)


@primitive("Eps")
def eps(b: Builder, x: Tensor) -> Value:
    """Expand of the distance from 1 to the next number."""
    return b.op("Expand", b.like(float(np.finfo(b.dtype(x).numpy()).eps), x), b.op("Shape", x))


# -- numbers that are complex elsewhere ------------------------------------------------------------


@function
def beside(b: Builder, value: Value, x: Tensor) -> Tensor:
    """`value` in the type of `x`."""
    return b.cast(b.operand(value, x), b.dtype(x))
