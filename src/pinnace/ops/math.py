"""Elementwise arithmetic, comparison and logic."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.table import Tensor
from pinnace.ops.values import Unsupported, Value

_LARGEST = {ir.DataType.FLOAT16: 65504.0, ir.DataType.BFLOAT16: 3.3895313892515355e38}
_FRACTION = {ir.DataType.FLOAT: 23, ir.DataType.DOUBLE: 52}
"""Bits behind the point."""
_LOWEST = {ir.DataType.FLOAT: -126, ir.DataType.DOUBLE: -1022}
"""The least exponents."""

functions(
    __name__,
    """
    exp2: x -> 2.0 ** floating(x)
    is_float: x -> dtype(x).is_floating_point()
    is_integer: x -> dtype(x).is_integer()
    log1p: x ->
        # Twice Atanh of x / (x + 2), which is exact near zero; Log from 1 on.
        x = floating(x)
        Where(x < 1.0, Atanh(x / (x + 2.0)) * 2.0, Log(x + 1.0))
    never: x ->
        # False for every element of `x`, which holds no NaN.
        x != x
    trunc: x -> Sign(x) * Floor(Abs(x)) if is_float(x) else x
    """,
    public=True,
)
formulas(
    __name__,
    """
    ACos AcosExt: x -> Acos(floating(x))
    Abs: x -> Abs(x)
    Acosh AcoshExt: x -> Acosh(floating(x))
    Angle: x ->
        # Pi where the number is less than 0, else 0.
        x = floating(x)
        Where(IsNaN(x), x, Where(x < 0.0, like(pi, x), like(0.0, x)))
    Asin AsinExt: x -> Asin(floating(x))
    Asinh AsinhExt: x -> Asinh(floating(x))
    Atan AtanExt: x -> Atan(floating(x))
    Atanh: x -> Atanh(floating(x))
    BitwiseNot Invert: x -> BitwiseNot(x)
    Ceil: x -> Ceil(x) if is_float(x) else x
    Cos: x -> Cos(floating(x))
    Cosh: x -> Cosh(floating(x))
    Eps: x ->
        # Expand of the distance from 1 to the next number.
        Expand(like(float(np.finfo(dtype(x).numpy()).eps), x), Shape(x))
    Erf: x -> Erf(floating(x))
    Erfc: x -> 1 - Erf(floating(x))
    Exp: x -> Exp(floating(x))
    Exp2: x -> exp2(x)
    Expm1: x ->
        # Twice Sinh of x / 2 by Exp of x / 2, which is exact near zero.
        half = Max(floating(x) * 0.5, -20.0)  # Sinh is infinite far below, where Exp is 0
        Sinh(half) * Exp(half) * 2.0
    Floor: x -> Floor(x) if is_float(x) else x
    Frac: x -> x - trunc(x)
    Imag: x -> Expand(like(0.0, x), Shape(x))
    Inv Reciprocal: x -> Reciprocal(floating(x))
    IsFinite: x ->
        # Neither IsInf nor IsNaN; true for ints.
        ~(IsInf(x) | IsNaN(x) if is_float(x) else never(x))
    IsInf: x -> IsInf(x) if is_float(x) else never(x)
    IsNan: x -> IsNaN(x) if is_float(x) else never(x)
    IsNegInf: x -> IsInf(x, detect_positive=0) if is_float(x) else never(x)
    Log: x -> Log(floating(x))
    Log10: x -> Log(floating(x)) / log(10)
    Log1p: x ->
        # Twice Atanh of x / (x + 2), which is exact near zero; Log from 1 on.
        log1p(x)
    Log2: x -> Log(floating(x)) / log(2)
    Logit: x, eps: float = -1.0 ->
        # Log of x / (1 - x), x clipped to [eps, 1 - eps] where eps is not negative.
        if eps > 0.5:  # an element raised to eps stays there, though 1 - eps is less
            return odds(Where(x < eps, like(eps, x), Min(x, 1.0 - eps)))
        odds(Clip(x, eps, 1.0 - eps) if eps >= 0 else x)
    NanToNum: x, nan: float | None = None, posinf: float | None = None, neginf: float | None = None ->
        # A number for NaN and each infinity, by Where.
        if not is_float(x):
            return x
        largest = _LARGEST.get(dtype(x), float(np.finfo(np.float32).max))  # MindSpore's of float64, too
        above, below = IsInf(x, detect_negative=0), IsInf(x, detect_positive=0)
        x = Where(IsNaN(x), 0.0 if nan is None else nan, x)
        x = Where(above, largest if posinf is None else posinf, x)
        Where(below, -largest if neginf is None else neginf, x)
    Neg: x -> Neg(x)
    NextAfter: x, other ->
        # Add of the distance to the next number, from the exponent, in float64.
        if dtype(x) not in _FRACTION:
            raise Unsupported(f"computes with {dtype(x).name}, but only float32 and float64 are supported")
        here, there = cast(x, DOUBLE), cast(other, DOUBLE)
        size, way, upwards = Abs(here), Sign(there - here), Sign(here)
        exponent = Floor(Log(size) / log(2.0))
        for _ in range(2):  # the logarithm is rounded: the exponent may be one off
            power = 2.0**exponent
            exponent = exponent - cast(power > size, DOUBLE) + cast(power * 2.0 <= size, DOUBLE)
        # Towards zero from a power of two the numbers lie twice as dense.
        dense = (way * upwards < 0.0) & (2.0**exponent == size)
        exponent = Max(exponent - cast(dense, DOUBLE), _LOWEST[dtype(x)]) - _FRACTION[dtype(x)]
        beyond = here + way * 2.0**exponent
        # From an infinity MindSpore gives the greatest number of float64, and of float32 the infinity.
        greatest = float(np.finfo(np.float64).max) if dtype(x) is DOUBLE else inf
        beyond = Where(IsInf(here), upwards * greatest, beyond)
        strange = IsNaN(here) | IsNaN(there)
        cast(Where(strange, nan, Where(here == there, there, beyond)), dtype(x))
    Real Conj: x -> x
    Rint: x -> Round(x)
    Round: x, decimals: int = 0 ->
        # Round, between Mul and Div where decimals are asked for; nothing for ints.
        if not decimals or not is_float(x):
            return Round(x) if is_float(x) else x
        scale = float(10 ** abs(decimals))
        Round(x * scale) / scale if decimals > 0 else Round(x / scale) * scale
    Rsqrt: x -> Reciprocal(Sqrt(floating(x)))
    Sign: x ->
        # Sign; 0 for NaN.
        Where(IsNaN(x), 0, Sign(x)) if is_float(x) else Sign(x)
    Sin: x -> Sin(floating(x))
    Sinc: x ->
        # Sin of x times pi over itself, and 1 at 0; NaN at False, as MindSpore has it.
        turn = floating(x) * pi
        if dtype(x) is BOOL:
            return Sin(turn) / turn
        zero = turn == 0.0
        safe = Where(zero, 1.0, turn)
        Where(zero, 1.0, Sin(safe) / safe)
    Sinh: x -> Sinh(floating(x))
    Sqrt: x -> Sqrt(floating(x))
    Square: x -> x * x
    Tan: x -> Tan(floating(x))
    Trunc: x ->
        # Sign, Abs, Floor, Mul; nothing for ints.
        trunc(x)
    """,
)
functions(
    __name__,
    """
    odds: x -> Log(x / (1.0 - x))
    """,
)

# -- one operand -----------------------------------------------------------------------------------


@function
def floating(b: Builder, x: Tensor) -> Tensor:
    """Floats as they are; ints in the type that MindSpore computes in: that of the result, or float32."""
    if b.dtype(x).is_floating_point():
        return x
    wanted = b.result(x)
    return b.cast(x, wanted if wanted.is_floating_point() else ir.DataType.FLOAT)


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


@function
def beside(b: Builder, value: Value, x: Tensor) -> Tensor:
    """`value` in the type of `x`."""
    return b.cast(b.operand(value, x), b.dtype(x))
