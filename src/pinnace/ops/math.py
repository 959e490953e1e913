"""Elementwise arithmetic, comparison and logic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.builder import Builder
from pinnace.ops.table import Tensor, primitive, same
from pinnace.ops.values import Unsupported, Value

same(
    __name__,
    {
        "Abs": "Abs",
        "BitwiseNot": "BitwiseNot",
        "Invert": "BitwiseNot",
        "Neg": "Neg",
    },
)


# -- one operand -----------------------------------------------------------------------------------


@primitive("Sign")
def sign(b: Builder, x: Tensor) -> Value:
    """Sign; 0 for NaN."""
    signs = b.op("Sign", x)
    return b.op("Where", b.op("IsNaN", x), b.like(0, x), signs) if b.dtype(x).is_floating_point() else signs


def floating(b: Builder, x: Tensor) -> Tensor:
    """`x` as what MindSpore computes it in: the declared type of the result, or float32 for ints."""
    if b.dtype(x).is_floating_point():
        return x
    wanted = b.result(x)
    return b.cast(x, wanted if wanted.is_floating_point() else ir.DataType.FLOAT)


def _floating(op_type: str, *names: str) -> None:
    @primitive(*names, lowered_to=f"{op_type}; ints as floats.")
    def lowering(b: Builder, x: Tensor) -> Value:
        return b.op(op_type, floating(b, x))


_floating("Acos", "ACos", "AcosExt")
_floating("Acosh", "Acosh", "AcoshExt")
_floating("Asin", "Asin", "AsinExt")
_floating("Asinh", "Asinh", "AsinhExt")
_floating("Atan", "Atan", "AtanExt")
_floating("Atanh", "Atanh")
_floating("Cos", "Cos")
_floating("Cosh", "Cosh")
_floating("Erf", "Erf")
_floating("Exp", "Exp")
_floating("Reciprocal", "Inv", "Reciprocal")
_floating("Sin", "Sin")
_floating("Sinh", "Sinh")
_floating("Sqrt", "Sqrt")
_floating("Tan", "Tan")


def _rounding(op_type: str) -> None:
    @primitive(op_type, lowered_to=f"{op_type}; nothing for ints.")
    def lowering(b: Builder, x: Tensor) -> Value:
        return b.op(op_type, x) if b.dtype(x).is_floating_point() else x


_rounding("Ceil")
_rounding("Floor")


@primitive("Trunc")
def trunc(b: Builder, x: Tensor) -> Value:
    """Sign, Abs, Floor, Mul; nothing for ints."""
    if not b.dtype(x).is_floating_point():
        return x
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))


@primitive("Frac")
def frac(b: Builder, x: Tensor) -> Value:
    """The value less its Trunc."""
    return b.op("Sub", x, trunc(b, x))


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


@primitive("Rint")
def rint(b: Builder, x: Tensor) -> Value:
    """Round."""
    return b.op("Round", x)


@primitive("Square")
def square(b: Builder, x: Tensor) -> Value:
    """Mul with itself."""
    return b.op("Mul", x, x)


@primitive("Rsqrt")
def rsqrt(b: Builder, x: Tensor) -> Value:
    """Sqrt and Reciprocal."""
    return b.op("Reciprocal", b.op("Sqrt", floating(b, x)))


@primitive("Log")
def log(b: Builder, x: Tensor) -> Value:
    """Log."""
    return b.op("Log", floating(b, x))


def _log_of_base(name: str, base: int) -> None:
    @primitive(name, lowered_to=f"Log and Div by log {base}.")
    def lowering(b: Builder, x: Tensor) -> Value:
        return b.op("Div", log(b, x), math.log(base))


_log_of_base("Log2", 2)
_log_of_base("Log10", 10)


@primitive("Log1p")
def log1p(b: Builder, x: Tensor) -> Value:
    """Twice Atanh of x / (x + 2), which is exact near zero; Log from 1 on."""
    x = floating(b, x)
    near = b.op("Mul", b.op("Atanh", b.op("Div", x, b.op("Add", x, 2.0))), 2.0)
    return b.op("Where", b.op("Less", x, 1.0), near, b.op("Log", b.op("Add", x, 1.0)))


@primitive("Expm1")
def expm1(b: Builder, x: Tensor) -> Value:
    """Twice Sinh of x / 2 by Exp of x / 2, which is exact near zero."""
    x = floating(b, x)
    half = b.op("Max", b.op("Mul", x, 0.5), b.like(-20.0, x))  # Sinh is infinite far below, where Exp is 0
    return b.op("Mul", b.op("Mul", b.op("Sinh", half), b.op("Exp", half)), 2.0)


@primitive("Exp2")
def exp2(b: Builder, x: Tensor) -> Value:
    """Pow of 2."""
    x = floating(b, x)
    return b.op("Pow", b.like(2.0, x), x)


@primitive("Erfc")
def erfc(b: Builder, x: Tensor) -> Value:
    """1 less Erf."""
    x = floating(b, x)
    return b.op("Sub", b.like(1.0, x), b.op("Erf", x))


@primitive("Sinc")
def sinc(b: Builder, x: Tensor) -> Value:
    """Sin of x times pi over itself, and 1 at 0; NaN at False, as MindSpore has it."""
    turn = b.op("Mul", floating(b, x), math.pi)
    if b.dtype(x) is ir.DataType.BOOL:
        return b.op("Div", b.op("Sin", turn), turn)
    zero = b.op("Equal", turn, 0.0)
    safe = b.op("Where", zero, b.like(1.0, turn), turn)
    return b.op("Where", zero, b.like(1.0, turn), b.op("Div", b.op("Sin", safe), safe))


@primitive("Logit")
def logit(b: Builder, x: Tensor, eps: float = -1.0) -> Value:
    """Log of x / (1 - x), x clipped to [eps, 1 - eps] where eps is not negative."""
    if eps > 0.5:  # what is raised to eps is not cut to 1 - eps
        least, most = b.like(eps, x), b.like(1.0 - eps, x)
        x = b.op("Where", b.op("Less", x, least), least, b.op("Min", x, most))
    elif eps >= 0:
        x = b.op("Clip", x, b.like(eps, x), b.like(1.0 - eps, x))
    return b.op("Log", b.op("Div", x, b.op("Sub", b.like(1.0, x), x)))


def _strange(name: str, lowered_to: str, op_type: str, **attributes: Any) -> None:
    @primitive(name, lowered_to=f"{lowered_to}; false for ints.")
    def lowering(b: Builder, x: Tensor) -> Value:
        return b.op(op_type, x, **attributes) if b.dtype(x).is_floating_point() else never(b, x)


_strange("IsNan", "IsNaN", "IsNaN")
_strange("IsInf", "IsInf", "IsInf")
_strange("IsNegInf", "IsInf of the negative side", "IsInf", detect_positive=0)


@primitive("IsFinite")
def is_finite(b: Builder, x: Tensor) -> Value:
    """Neither IsInf nor IsNaN; true for ints."""
    if not b.dtype(x).is_floating_point():
        return b.op("Not", never(b, x))
    return b.op("Not", b.op("Or", b.op("IsInf", x), b.op("IsNaN", x)))


def never(b: Builder, x: Tensor) -> Tensor:
    """False for every element of `x`, which has no NaN."""
    return b.op("Not", b.op("Equal", x, x))


_LARGEST = {ir.DataType.FLOAT16: 65504.0, ir.DataType.BFLOAT16: 3.3895313892515355e38}


@primitive("NanToNum")
def nan_to_num(
    b: Builder, x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """Where, for NaN and both infinities."""
    if not b.dtype(x).is_floating_point():
        return x
    largest = _LARGEST.get(b.dtype(x), float(np.finfo(np.float32).max))  # MindSpore's of float64, too
    cases = (
        (b.op("IsNaN", x), 0.0 if nan is None else nan),
        (b.op("IsInf", x, detect_negative=0), largest if posinf is None else posinf),
        (b.op("IsInf", x, detect_positive=0), -largest if neginf is None else neginf),
    )
    for condition, number in cases:
        x = b.op("Where", condition, b.like(number, x), x)
    return x


# -- two operands ----------------------------------------------------------------------------------


def promoted(b: Builder, x: Value, y: Value) -> tuple[Tensor, Tensor]:
    """Both in the type that holds both: MindSpore's binary primitives mix types, ONNX's do not."""
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


def _binary(op_type: str, *names: str) -> None:
    @primitive(*names, lowered_to=f"{op_type}, both operands in the wider type.")
    def lowering(b: Builder, x: Value, y: Value) -> Value:
        return b.op(op_type, *promoted(b, x, y))


_binary("Add", "Add")
_binary("Sub", "Sub")
_binary("Mul", "Mul", "Muls")
_binary("Equal", "Equal", "EqScalar")
_binary("Greater", "Greater")
_binary("GreaterOrEqual", "GreaterEqual", "GreaterEqualScalar")
_binary("Less", "Less", "LessScalar")
_binary("LessOrEqual", "LessEqual")
_binary("BitwiseAnd", "BitwiseAnd", "BitwiseAndTensor", "BitwiseAndScalar")
_binary("BitwiseOr", "BitwiseOr", "BitwiseOrTensor", "BitwiseOrScalar")
_binary("BitwiseXor", "BitwiseXor", "BitwiseXorTensor", "BitwiseXorScalar")


def _truth(b: Builder, x: Value) -> Tensor:
    return b.cast(b.tensor(x), ir.DataType.BOOL)


def _logical(op_type: str, *names: str) -> None:
    @primitive(*names, lowered_to=f"{op_type}, of operands that are not zero.")
    def lowering(b: Builder, x: Value, y: Value) -> Value:
        return b.op(op_type, _truth(b, x), _truth(b, y))


_logical("And", "LogicalAnd")
_logical("Or", "LogicalOr")
_logical("Xor", "LogicalXor")


@primitive("LogicalNot")
def logical_not(b: Builder, x: Tensor) -> Value:
    """Not, of an operand that is not zero."""
    return b.op("Not", _truth(b, x))


@primitive("NotEqual", "NeScalar")
def not_equal(b: Builder, x: Value, y: Value) -> Value:
    """Equal and Not."""
    return b.op("Not", b.op("Equal", *promoted(b, x, y)))


@primitive("ApproximateEqual")
def approximate_equal(b: Builder, x: Tensor, y: Tensor, tolerance: float = 1e-5) -> Value:
    """Less, of the absolute difference."""
    return b.op("Less", b.op("Abs", b.op("Sub", *promoted(b, x, y))), tolerance)


def _with_alpha(op_type: str, *names: str) -> None:
    @primitive(*names, lowered_to=f"{op_type}, the second operand times alpha.")
    def lowering(b: Builder, x: Value, y: Value, alpha: Value = 1) -> Value:
        first, second = promoted(b, x, y)
        if b.known(alpha) is None or binding.float_(b, alpha) != 1.0:
            second = b.op("Mul", second, b.cast(b.tensor(alpha), b.dtype(second)))
        return b.op(op_type, first, second)


_with_alpha("Add", "AddExt", "AddScalar")
_with_alpha("Sub", "SubExt", "SubScalar")


@primitive("RealDiv")
def real_div(b: Builder, x: Value, y: Value) -> Value:
    """Div; of ints rounded towards zero where the result is one."""
    first, second = promoted(b, x, y)
    whole = b.result(first).is_integer() and b.dtype(first).is_integer()
    return _quotient(b, first, second) if whole else div(b, first, second)


@primitive("Div", "Divs")
def div(b: Builder, x: Value, y: Value) -> Value:
    """Div; ints as floats."""
    first, second = promoted(b, x, y)
    return b.op("Div", floating(b, first), floating(b, second))


@primitive("DivNoNan")
def div_no_nan(b: Builder, x: Value, y: Value) -> Value:
    """Div, and 0 where the divisor is 0."""
    first, second = promoted(b, x, y)
    zero = b.op("Equal", second, b.like(0, second))
    safe = b.op("Where", zero, b.like(1, second), second)
    quotient = b.op("Div", first, safe)
    return b.op("Where", zero, b.like(0, quotient), quotient)


@primitive("Xdivy")
def xdivy(b: Builder, x: Value, y: Value) -> Value:
    """Div, and 0 where the dividend is 0."""
    first, second = promoted(b, x, y)
    return b.op("Where", b.op("Equal", first, 0), b.like(0, first), b.op("Div", first, second))


@primitive("Xlogy", "XLogYScalarOther", "XLogYScalarSelf")
def xlogy(b: Builder, x: Value, y: Value) -> Value:
    """Mul with Log, and 0 where the first operand is 0."""
    first, second = promoted(b, x, y)
    first, second = floating(b, first), floating(b, second)
    product = b.op("Mul", first, b.op("Log", second))
    nothing = b.op("And", b.op("Equal", first, 0.0), b.op("Not", b.op("IsNaN", second)))
    return b.op("Where", nothing, b.like(0.0, first), product)


@primitive("FloorDiv", "FloorDivScalar")
def floor_div(b: Builder, x: Value, y: Value) -> Value:
    """Div and Floor; for ints Div, less 1 where it has a rest and rounded upwards."""
    first, second = promoted(b, x, y)
    if b.dtype(first).is_floating_point():
        return b.op("Floor", b.op("Div", first, second))
    if b.dtype(first) is ir.DataType.BOOL:  # over False, too, MindSpore gives the dividend
        return b.op("And", first, b.op("Or", second, b.op("Not", second)))
    quotient = _quotient(b, first, second)
    if not b.dtype(first).is_signed():
        return quotient
    # Taking the rest away before dividing would leave the type: 98 // -71 of int8.
    zero = b.like(0, first)
    rest = b.op("Not", b.op("Equal", b.op("Mod", first, _divisor(b, second)), zero))
    negative = b.op("Xor", b.op("Less", first, zero), b.op("Less", second, zero))
    return b.op("Sub", quotient, b.cast(b.op("And", rest, negative), b.dtype(first)))


def _quotient(b: Builder, first: Tensor, second: Tensor) -> Tensor:
    """Div of ints; over 0 the greatest, the least, or 0, as MindSpore has it."""
    divisor = _divisor(b, second)
    if divisor is second:
        return b.op("Div", first, second)
    kind, zero = b.dtype(first), b.like(0, first)
    limits = np.iinfo(kind.numpy())
    quotient, nothing = b.op("Div", first, divisor), b.like(limits.max, first)
    if kind.is_signed():
        turned = b.op("Sub", zero, first)
        quotient = b.op("Where", b.op("Equal", second, b.like(-1, second)), turned, quotient)
        nothing = b.op("Where", b.op("Less", first, zero), b.like(limits.min, first), nothing)
    nothing = b.op("Where", b.op("Equal", first, zero), zero, nothing)
    return b.op("Where", b.op("Equal", second, zero), nothing, quotient)


def _divisor(b: Builder, x: Tensor) -> Tensor:
    """Integers to divide by, with 1 for 0 and -1; itself where it is known to have neither.

    ONNX has no results for the former, nor for the least number over the latter.
    """
    value = b.known(x)
    if value is not None and not np.isin(value, (0, -1)).any():
        return x
    bad = b.op("Equal", x, b.like(0, x))
    if b.dtype(x).is_signed():
        bad = b.op("Or", bad, b.op("Equal", x, b.like(-1, x)))
    return b.op("Where", bad, b.like(1, x), x)


def _over_zero(b: Builder, divisor: Tensor, result: Tensor) -> Tensor:
    """Ints that MindSpore computes as floats: over 0 the least of 32 and 64 bits, and 0 of fewer."""
    value, kind = b.known(divisor), b.dtype(divisor)
    if value is not None and np.all(value):
        return result
    least = np.iinfo(kind.numpy()).min if kind.bitwidth >= 32 else 0
    return b.op("Where", b.op("Equal", divisor, b.like(0, divisor)), b.like(int(least), divisor), result)


@primitive("FloorMod", "RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor")
def floor_mod(b: Builder, x: Value, y: Value) -> Value:
    """Mod; for floats the rest of Floor of Div."""
    first, second = promoted(b, x, y)
    if not b.dtype(first).is_floating_point():
        return _over_zero(b, second, b.op("Mod", first, _divisor(b, second)))  # over 1 and -1 no rest is left
    whole = b.op("Floor", b.op("Div", first, second))
    return b.op("Sub", first, b.op("Mul", whole, second))


@primitive("TruncateDiv")
def truncate_div(b: Builder, x: Value, y: Value) -> Value:
    """Div, for floats then rounded towards zero."""
    first, second = promoted(b, x, y)
    if b.dtype(first) is ir.DataType.BOOL:
        return b.op("Or", first, b.op("Not", second))  # over nothing all is more than 0
    if not b.dtype(first).is_floating_point():
        return _quotient(b, first, second)
    return trunc(b, b.op("Div", first, second))


@primitive("TruncateMod", "Mod", "FmodTensor", "FmodScalar")
def truncate_mod(b: Builder, x: Value, y: Value) -> Value:
    """Mod with the dividend's sign."""
    first, second = promoted(b, x, y)
    if not b.dtype(first).is_floating_point():
        second = _divisor(b, second)
    return b.op("Mod", first, second, fmod=1)


def extreme(b: Builder, op_type: str, x: Value, y: Value) -> Tensor:
    """Max or Min as MindSpore compares: of NaN in `x` the result is `y`, of NaN in `y` it is NaN."""
    first, second = promoted(b, x, y)
    maker = first.producer()
    # A NaN of x * 0.1 is one of x, too: LeakyReLU is Maximum(x * 0.1, x) in files.
    scaled = (
        maker is not None and maker.op_type == "Mul" and second in maker.inputs and b.known(second) is None
    )
    if isinstance(x, ir.Value) and b.dtype(first).is_floating_point() and not scaled:
        first = b.op("Where", b.op("IsNaN", first), second, first)
    if b.dtype(first) is ir.DataType.FLOAT16:
        first, second = second, first  # of 0.0 and -0.0 the result is `y`, and kernels give the first
    return b.op(op_type, first, second)


def _extreme(op_type: str, name: str) -> None:
    @primitive(name, lowered_to=f"{op_type}; `y` where `x` is NaN.")
    def lowering(b: Builder, x: Value, y: Value) -> Value:
        return extreme(b, op_type, x, y)


_extreme("Max", "Maximum")
_extreme("Min", "Minimum")


def _without_nan(op_type: str, name: str) -> None:
    @primitive(name, lowered_to=f"{op_type}, NaN only where both are.")
    def lowering(b: Builder, x: Value, y: Value) -> Value:
        first, second = promoted(b, x, y)
        best = b.op(op_type, first, second)
        if not b.dtype(first).is_floating_point():
            return best
        best = b.op("Where", b.op("IsNaN", second), first, best)
        return b.op("Where", b.op("IsNaN", first), second, best)


_without_nan("Max", "Fmax")
_without_nan("Min", "Fmin")


@primitive("IsClose")
def is_close(
    b: Builder, x: Value, y: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Value:
    """LessOrEqual of the distance and what is allowed; equal infinities are close."""
    first, second = (floating(b, v) for v in promoted(b, x, y))
    allowed = b.op("Add", b.op("Mul", b.op("Abs", second), rtol), atol)
    near = b.op("LessOrEqual", b.op("Abs", b.op("Sub", first, second)), allowed)
    finite = b.op("Not", b.op("IsInf", second))
    close = b.op("Or", b.op("And", near, finite), b.op("Equal", first, second))
    if equal_nan:
        close = b.op("Or", close, b.op("And", b.op("IsNaN", first), b.op("IsNaN", second)))
    return close


@primitive("LeftShift")
def left_shift(b: Builder, x: Value, y: Value) -> Value:
    """Mul with a power of 2."""
    first, second = promoted(b, x, y)
    return b.op("Mul", first, _power_of_two(b, b.dtype(first), _places(b, second)))


@primitive("RightShift")
def right_shift(b: Builder, x: Value, y: Value) -> Value:
    """FloorDiv by a power of 2, in two halves: the whole of it may be a number that the type has not."""
    first, second = promoted(b, x, y)
    own = b.dtype(first)
    wide = own if own.bitwidth == 64 else ir.DataType.INT64
    number, places = b.cast(first, wide), _places(b, second)
    half = b.op("Div", places, 2)
    for part in (half, b.op("Sub", places, half)):
        number = b.tensor(floor_div(b, number, _power_of_two(b, wide, part)))
    return b.cast(number, own)


def _places(b: Builder, y: Tensor) -> Tensor:
    """By how many places processors shift: modulo 64, or modulo 32 where that holds the type."""
    mask = 63 if b.dtype(y).bitwidth == 64 else 31
    return b.op("BitwiseAnd", b.cast(y, ir.DataType.INT64), b.constant(mask, np.int64))


def _power_of_two(b: Builder, kind: ir.DataType, exponent: Tensor) -> Tensor:
    powers = np.asarray([1 << i for i in range(64)], np.uint64).astype(kind.numpy())
    return b.op("Gather", b.constant(powers), exponent, axis=0)


@primitive("PopulationCount")
def population_count(b: Builder, x: Tensor) -> Value:
    """The sum of all bits, each told by BitwiseAnd."""
    powers = b.constant(np.left_shift(1, np.arange(b.dtype(x).bitwidth)), np.int64)
    wide = b.op("Unsqueeze", b.cast(x, ir.DataType.INT64), [-1])
    bits = b.cast(b.cast(b.op("BitwiseAnd", wide, powers), ir.DataType.BOOL), ir.DataType.INT64)
    return b.cast(b.op("ReduceSum", bits, [-1], keepdims=0), ir.DataType.UINT8)


_EUCLID_STEPS = {8: 13, 16: 24, 32: 46, 64: 92}
"""Turns that Euclid's algorithm takes at most, by bits: the longest are those of Fibonacci's numbers."""


def greatest_divisor(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Euclid's algorithm, as many turns as the type may need, and one to put the larger number first.

    Numbers keep their signs until the end: the least has no positive one.
    """
    large, small = x, y
    for _ in range(_EUCLID_STEPS[b.dtype(x).bitwidth] + 1):
        done = b.op("Equal", small, b.like(0, small))
        rest = b.op("Mod", large, _divisor(b, small))
        large, small = b.op("Where", done, large, small), b.op("Where", done, small, rest)
    return b.op("Abs", large)


@primitive("Gcd")
def gcd(b: Builder, x: Value, y: Value) -> Value:
    """Mod, as often as Euclid's algorithm may need."""
    return greatest_divisor(b, *promoted(b, x, y))


@primitive("Lcm")
def lcm(b: Builder, x: Value, y: Value) -> Value:
    """The product over Gcd."""
    first, second = promoted(b, x, y)
    divisor = greatest_divisor(b, first, second)
    divisor = b.op("Where", b.op("Equal", divisor, b.like(0, divisor)), b.like(1, divisor), divisor)
    return b.op("Abs", b.op("Mul", b.op("Div", first, divisor), second))


@primitive("DivMod", "DivMods")
def div_mod(b: Builder, x: Value, y: Value, rounding_mode: int | None = None) -> Value:
    """Div, and then what the rounding mode (1 towards zero, 2 down) asks for."""
    if not rounding_mode:
        return div(b, x, y)
    whole = b.tensor(truncate_div(b, x, y) if rounding_mode == 1 else floor_div(b, x, y))
    if rounding_mode == 1 and b.dtype(whole).is_integer():
        whole = _over_zero(b, promoted(b, x, y)[1], whole)
    return b.cast(whole, b.result(whole))


@primitive("Pow", "PowTensorScalar", "PowScalarTensor")
def pow_(b: Builder, x: Value, y: Value) -> Value:
    """Pow; Mul for a square."""
    first, second = promoted(b, x, y)
    exponent = b.known(second) if b.shape(second) == () else None
    return b.op("Pow", first, second) if exponent is None or exponent != 2 else square(b, first)


@primitive("SquaredDifference")
def squared_difference(b: Builder, x: Value, y: Value) -> Value:
    """Sub, and Mul with itself."""
    return square(b, b.op("Sub", *promoted(b, x, y)))


@primitive("MulNoNan")
def mul_no_nan(b: Builder, x: Value, y: Value) -> Value:
    """Mul, and 0 where the second operand is 0."""
    first, second = promoted(b, x, y)
    product = b.op("Mul", first, second)
    return b.op("Where", b.op("Equal", second, b.like(0, second)), b.like(0, product), product)


@primitive("Atan2", "Atan2Ext")
def atan2(b: Builder, y: Value, x: Value) -> Value:
    """Atan of the quotient, put into its quadrant by Where."""
    first, second = promoted(b, y, x)
    y, x = floating(b, first), floating(b, second)
    zero, pi = b.like(0.0, x), b.like(math.pi, x)
    base = b.op("Atan", b.op("Div", y, b.op("Abs", x)))  # Abs: -0.0 is 0 here
    below = b.op("Or", b.op("Less", y, zero), b.op("Less", b.op("Reciprocal", y), zero))  # so is -0.0
    turn = b.op("Where", below, b.op("Neg", pi), pi)
    turned = b.op("Where", b.op("Less", x, zero), b.op("Sub", turn, base), base)
    origin = b.op("And", b.op("Equal", x, zero), b.op("Equal", y, zero))
    return b.op("Where", origin, zero, turned)


@primitive("Hypot")
def hypot(b: Builder, x: Value, y: Value) -> Value:
    """Sqrt of the sum of squares, the larger operand taken out."""
    first, second = (b.op("Abs", v) for v in promoted(b, x, y))
    large, small = b.op("Max", first, second), b.op("Min", first, second)
    # Zeros and infinities have no quotient.
    ratio = b.op("Where", b.op("Equal", small, large), b.like(1.0, large), b.op("Div", small, large))
    return b.op("Mul", large, b.op("Sqrt", b.op("Add", b.op("Mul", ratio, ratio), 1.0)))


@primitive("LogAddExp")
def log_add_exp(b: Builder, x: Value, y: Value) -> Value:
    """The larger operand, and Softplus of the negative distance."""
    first, second = promoted(b, x, y)
    distance = b.op("Abs", b.op("Sub", first, second))
    return b.op("Add", b.op("Max", first, second), log1p(b, b.op("Exp", b.op("Neg", distance))))


@primitive("LogAddExp2")
def log_add_exp2(b: Builder, x: Value, y: Value) -> Value:
    """The same as LogAddExp, in powers of 2."""
    first, second = promoted(b, x, y)
    distance = b.op("Abs", b.op("Sub", first, second))
    rest = log1p(b, exp2(b, b.op("Neg", distance)))
    return b.op("Add", b.op("Max", first, second), b.op("Div", rest, math.log(2.0)))


@primitive("Heaviside")
def heaviside(b: Builder, x: Value, values: Value) -> Value:
    """Where: 0 below zero, 1 above, and the second operand at zero."""
    first, second = promoted(b, x, values)
    step = b.cast(b.op("Greater", first, b.like(0, first)), b.dtype(first))
    return b.op("Where", b.op("Equal", first, b.like(0, first)), second, step)


@primitive("Lerp", "LerpScalar")
def lerp(b: Builder, start: Tensor, end: Tensor, weight: Value) -> Value:
    """The start, and the weight times the distance."""
    distance = b.op("Sub", end, start)
    return b.op("Add", start, b.op("Mul", distance, b.cast(b.operand(weight, start), b.dtype(start))))


@primitive("Addcmul", "AddcmulExt")
def addcmul(b: Builder, x: Tensor, first: Tensor, second: Tensor, value: Value = 1) -> Value:
    """Add, of value times the product."""
    return b.op("Add", x, b.op("Mul", b.op("Mul", first, second), b.cast(b.operand(value, x), b.dtype(x))))


@primitive("Addcdiv", "AddcdivExt")
def addcdiv(b: Builder, x: Tensor, first: Tensor, second: Tensor, value: Value = 1) -> Value:
    """Add, of value times the quotient."""
    quotient = _quotient(b, first, second) if b.dtype(x).is_integer() else b.op("Div", first, second)
    return b.op("Add", x, b.op("Mul", quotient, b.cast(b.operand(value, x), b.dtype(x))))


@primitive("AddN", "AccumulateNV2")
def add_n(b: Builder, *items: Value) -> Value:
    """Add, one after the other."""
    total, *rest = binding.tensors(b, items[0] if isinstance(items[0], tuple) else items)
    for item in rest:
        total = b.op("Add", total, item)
    return total


# -- bounds ----------------------------------------------------------------------------------------


@primitive("ClampScalar", "ClampTensor", "ClampMin", "ClipByValue")
def clamp(b: Builder, x: Tensor, clip_min: Value = None, clip_max: Value = None) -> Value:
    """Max and Min, or Clip where the bounds are numbers; in the type of the result."""
    wanted = b.result(x)
    if wanted is not b.dtype(x) and wanted.is_floating_point():
        x = b.cast(x, wanted)
    if all(bound is None or isinstance(bound, bool | int | float) for bound in (clip_min, clip_max)):
        # A bound that is left out is the largest finite number: infinities would become that.
        ends = (-math.inf, math.inf) if b.dtype(x).is_floating_point() else (None, None)
        bounds = [end if v is None else v for v, end in zip((clip_min, clip_max), ends, strict=True)]
        clipped = b.op("Clip", x, *(None if v is None else b.like(v, x) for v in bounds))
        given = [v for v in (clip_min, clip_max) if v is not None]
        return bound_for_nan(b, clipped, min(given, default=None))
    for op_type, bound in (("Max", clip_min), ("Min", clip_max)):
        if bound is not None:
            x = extreme(b, op_type, x, b.cast(b.tensor(bound), b.dtype(x)))
    return x


def bound_for_nan(b: Builder, clipped: Tensor, bound: Value) -> Tensor:
    """What MindSpore's comparisons make of NaN where Clip leaves it."""
    if bound is None or not b.dtype(clipped).is_floating_point():
        return clipped
    return b.op("Where", b.op("IsNaN", clipped), b.like(bound, clipped), clipped)


# -- numbers as machines hold them -----------------------------------------------------------------

_FRACTION = {ir.DataType.FLOAT: 23, ir.DataType.DOUBLE: 52}
_LOWEST = {ir.DataType.FLOAT: -126, ir.DataType.DOUBLE: -1022}


@primitive("NextAfter")
def next_after(b: Builder, x: Tensor, other: Tensor) -> Value:
    """Add of the distance to the next number, from the exponent, in float64."""
    kind = b.dtype(x)
    if kind not in _FRACTION:
        raise Unsupported(f"computes with {kind.name}, and only float32 and float64 are lowered")
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


@primitive("CompareAndBitpack")
def compare_and_bitpack(b: Builder, x: Tensor, threshold: Tensor) -> Value:
    """Greater, and the sum of every eight bits, the first counting most, of truth values least."""
    powers = 2.0 ** np.arange(8, dtype=np.float32)[:: 1 if b.dtype(x) is ir.DataType.BOOL else -1]
    above = x if b.dtype(x) is ir.DataType.BOOL else b.op("Greater", x, b.scalar(threshold))
    bits = b.cast(above, ir.DataType.FLOAT)
    bytes_ = b.reshape(bits, [*b.dims(x, stop=-1), -1, 8])
    return b.cast(b.op("MatMul", bytes_, powers), ir.DataType.UINT8)


# -- numbers that are complex elsewhere ------------------------------------------------------------


@primitive("Real", "Conj")
def real(b: Builder, x: Tensor) -> Value:
    """Nothing: the number is real."""
    return x


@primitive("Imag")
def imag(b: Builder, x: Tensor) -> Value:
    """Zeros: the number is real."""
    return b.op("Expand", b.like(0.0, x), b.op("Shape", x))


@primitive("Angle")
def angle(b: Builder, x: Tensor) -> Value:
    """Pi where the number is less than 0, else 0."""
    x = floating(b, x)
    side = b.op("Where", b.op("Less", x, 0.0), b.like(math.pi, x), b.like(0.0, x))
    return b.op("Where", b.op("IsNaN", x), x, side)
