"""Arithmetic, comparison and logic of two operands, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.integers import divisor, floored_quotient, least_over_zero, quotient
from pinnace.ops.math import exp2, floating, log1p, promoted, trunc
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Value

_EUCLID_STEPS = {8: 13, 16: 24, 32: 46, 64: 92}
"""Turns that Euclid's algorithm takes at most, by bits: the longest are those of Fibonacci's numbers."""


Binary = Callable[[Builder, Tensor, Tensor], Tensor]


def of_two(*names: str) -> Callable[[Binary], Binary]:
    """Enter a function of two tensors for primitives whose operands differ in type: it gets the wider one."""

    def enter(formula: Binary) -> Binary:
        primitives({" ".join(names): formula})(_promoting)
        return formula

    return enter


def _promoting(b: Builder, formula: Binary, x: Value, y: Value) -> Value:
    """{formula.__doc__}"""
    return formula(b, *promoted(b, x, y))


@primitives(
    {
        "Add": "Add",
        "Sub": "Sub",
        "Mul Muls": "Mul",
        "Equal EqScalar": "Equal",
        "Greater": "Greater",
        "GreaterEqual GreaterEqualScalar": "GreaterOrEqual",
        "Less LessScalar": "Less",
        "LessEqual": "LessOrEqual",
        "BitwiseAnd BitwiseAndTensor BitwiseAndScalar": "BitwiseAnd",
        "BitwiseOr BitwiseOrTensor BitwiseOrScalar": "BitwiseOr",
        "BitwiseXor BitwiseXorTensor BitwiseXorScalar": "BitwiseXor",
    }
)
def binary(b: Builder, op_type: str, x: Value, y: Value) -> Value:
    """{op_type}, both operands in the wider type."""
    return b.op(op_type, *promoted(b, x, y))


@primitives({"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor", "LogicalNot": "Not"})
def logical(b: Builder, op_type: str, *operands: Value) -> Value:
    """{op_type}, of operands that are not zero."""
    return b.op(op_type, *(b.cast(b.tensor(x), ir.DataType.BOOL) for x in operands))


formulas(
    __name__,
    """
    Addcdiv AddcdivExt: x, first, second, value: Value = 1 ->
        # Add, of value times the quotient.
        part = quotient(first, second) if is_integer(x) else first / second
        x + part * beside(value, x)
    Addcmul AddcmulExt: x, first, second, value: Value = 1 -> x + first * second * beside(value, x)
    ApproximateEqual: x, y, tolerance: float = 1e-5 -> Abs(Sub(*promoted(x, y))) < tolerance
    IsClose: x: Value, y: Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False ->
        # LessOrEqual of the distance and what is allowed; equal infinities are close.
        first, second = [floating(v) for v in promoted(x, y)]
        allowed = Abs(second) * rtol + atol
        near = Abs(first - second) <= allowed
        finite = ~IsInf(second)
        close = near & finite | (first == second)
        close | IsNaN(first) & IsNaN(second) if equal_nan else close
    Lerp LerpScalar: start, end, weight: Value -> start + (end - start) * beside(weight, start)
    NotEqual NeScalar: x: Value, y: Value -> ~Equal(*promoted(x, y))
    """,
)


@primitives({"AddExt AddScalar": "Add", "SubExt SubScalar": "Sub"})
def with_alpha(b: Builder, op_type: str, x: Value, y: Value, alpha: Value = 1) -> Value:
    """{op_type}, the second operand times alpha."""
    first, second = promoted(b, x, y)
    if b.known(alpha) is None or binding.float_(b, alpha) != 1.0:
        second = b.op("Mul", second, b.cast(b.tensor(alpha), b.dtype(second)))
    return b.op(op_type, first, second)


@of_two("RealDiv")
def real_div(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div; of ints rounded towards zero where the result is one."""
    whole = b.result(x).is_integer() and b.dtype(x).is_integer()
    return quotient(b, x, y) if whole else div(b, x, y)


@of_two("Div", "Divs")
def div(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div; ints as floats."""
    return b.op("Div", floating(b, x), floating(b, y))


@of_two("DivNoNan")
def div_no_nan(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div, and 0 where the divisor is 0."""
    zero = b.op("Equal", y, b.like(0, y))
    quotient = b.op("Div", x, b.op("Where", zero, b.like(1, y), y))
    return b.op("Where", zero, b.like(0, quotient), quotient)


@of_two("Xdivy")
def xdivy(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div, and 0 where the dividend is 0."""
    return b.op("Where", b.op("Equal", x, 0), b.like(0, x), b.op("Div", x, y))


@function
@of_two("Xlogy", "XLogYScalarOther", "XLogYScalarSelf")
def xlogy(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Mul with Log, and 0 where the first operand is 0."""
    x, y = floating(b, x), floating(b, y)
    product = b.op("Mul", x, b.op("Log", y))
    nothing = b.op("And", b.op("Equal", x, 0.0), b.op("Not", b.op("IsNaN", y)))
    return b.op("Where", nothing, b.like(0.0, x), product)


@of_two("FloorDiv", "FloorDivScalar")
def floor_div(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div and Floor; for ints Div, less 1 where it has a rest and rounded upwards."""
    if b.dtype(x).is_floating_point():
        return b.op("Floor", b.op("Div", x, y))
    if b.dtype(x) is ir.DataType.BOOL:  # over False, too, MindSpore gives the dividend
        return b.op("And", x, b.op("Or", y, b.op("Not", y)))
    return floored_quotient(b, x, y)


@of_two("FloorMod", "RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor")
def floor_mod(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Mod; for floats the rest of Floor of Div."""
    if not b.dtype(x).is_floating_point():
        return least_over_zero(b, y, b.op("Mod", x, divisor(b, y)))  # over 1 and -1 no rest is left
    return b.op("Sub", x, b.op("Mul", b.op("Floor", b.op("Div", x, y)), y))


@of_two("TruncateDiv")
def truncate_div(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div, for floats then rounded towards zero."""
    if b.dtype(x) is ir.DataType.BOOL:
        return b.op("Or", x, b.op("Not", y))  # over False the quotient is more than 0
    if not b.dtype(x).is_floating_point():
        return quotient(b, x, y)
    return trunc(b, b.op("Div", x, y))


@of_two("TruncateMod", "Mod", "FmodTensor", "FmodScalar")
def truncate_mod(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Mod with the dividend's sign."""
    return b.op("Mod", x, y if b.dtype(x).is_floating_point() else divisor(b, y), fmod=1)


@primitives({"Maximum": "Max", "Minimum": "Min"})
def extreme(b: Builder, op_type: str, x: Value, y: Value) -> Tensor:
    """{op_type}; `y` where `x` is NaN, and NaN where `y` is."""
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


@primitives({"Fmax": "Max", "Fmin": "Min"})
def without_nan(b: Builder, op_type: str, x: Value, y: Value) -> Value:
    """{op_type}, NaN only where both are."""
    first, second = promoted(b, x, y)
    best = b.op(op_type, first, second)
    if not b.dtype(first).is_floating_point():
        return best
    best = b.op("Where", b.op("IsNaN", second), first, best)
    return b.op("Where", b.op("IsNaN", first), second, best)


@of_two("LeftShift")
def left_shift(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Mul with a power of 2."""
    return b.op("Mul", x, _power_of_two(b, b.dtype(x), _shift(b, y)))


@of_two("RightShift")
def right_shift(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """FloorDiv by a power of 2, in two halves: the whole of it may be a number that the type has not."""
    own = b.dtype(x)
    wide = own if own.bitwidth == 64 else ir.DataType.INT64
    number, shift = b.cast(x, wide), _shift(b, y)
    half = b.op("Div", shift, 2)
    for part in (half, b.op("Sub", shift, half)):
        number = floored_quotient(b, number, _power_of_two(b, wide, part))
    return b.cast(number, own)


def _shift(b: Builder, y: Tensor) -> Tensor:
    """The shift that processors make: modulo 64, or modulo 32 where that holds the type."""
    mask = 63 if b.dtype(y).bitwidth == 64 else 31
    return b.op("BitwiseAnd", b.cast(y, ir.DataType.INT64), mask)


def _power_of_two(b: Builder, kind: ir.DataType, exponent: Tensor) -> Tensor:
    powers = np.asarray([1 << i for i in range(64)], np.uint64).astype(kind.numpy())
    return b.op("Gather", b.constant(powers), exponent, axis=0)


@of_two("Gcd")
def greatest_divisor(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Mod, by Euclid's algorithm: as many turns as the type may need, and one to put the larger number first.

    Numbers keep their signs until the end: the least has no positive one.
    """
    large, small = x, y
    for _ in range(_EUCLID_STEPS[b.dtype(x).bitwidth] + 1):
        done = b.op("Equal", small, b.like(0, small))
        rest = b.op("Mod", large, divisor(b, small))
        large, small = b.op("Where", done, large, small), b.op("Where", done, small, rest)
    return b.op("Abs", large)


@of_two("Lcm")
def lcm(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The product over Gcd."""
    common = greatest_divisor(b, x, y)
    common = b.op("Where", b.op("Equal", common, b.like(0, common)), b.like(1, common), common)
    return b.op("Abs", b.op("Mul", b.op("Div", x, common), y))


@primitive("DivMod", "DivMods")
def div_mod(b: Builder, x: Value, y: Value, rounding_mode: int | None = None) -> Value:
    """Div, and then what the rounding mode (1 towards zero, 2 down) asks for."""
    first, second = promoted(b, x, y)
    if not rounding_mode:
        return div(b, first, second)
    whole = truncate_div(b, first, second) if rounding_mode == 1 else floor_div(b, first, second)
    if rounding_mode == 1 and b.dtype(whole).is_integer():
        whole = least_over_zero(b, second, whole)
    return b.cast(whole, b.result(whole))


@of_two("Pow", "PowTensorScalar", "PowScalarTensor")
def pow_(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Pow; Mul for a square."""
    exponent = b.known(y) if b.shape(y) == () else None
    return b.op("Pow", x, y) if exponent is None or exponent != 2 else b.op("Mul", x, x)


@of_two("SquaredDifference")
def squared_difference(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Sub, and Mul with itself."""
    difference = b.op("Sub", x, y)
    return b.op("Mul", difference, difference)


@of_two("MulNoNan")
def mul_no_nan(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Mul, and 0 where the second operand is 0."""
    product = b.op("Mul", x, y)
    return b.op("Where", b.op("Equal", y, b.like(0, y)), b.like(0, product), product)


@of_two("Atan2", "Atan2Ext")
def atan2(b: Builder, y: Tensor, x: Tensor) -> Tensor:
    """Atan of the quotient, put into its quadrant by Where."""
    y, x = floating(b, y), floating(b, x)
    zero, pi = b.like(0.0, x), b.like(math.pi, x)
    base = b.op("Atan", b.op("Div", y, b.op("Abs", x)))  # Abs: -0.0 is 0 here
    below = b.op("Or", b.op("Less", y, zero), b.op("Less", b.op("Reciprocal", y), zero))  # so is -0.0
    turn = b.op("Where", below, b.op("Neg", pi), pi)
    turned = b.op("Where", b.op("Less", x, zero), b.op("Sub", turn, base), base)
    origin = b.op("And", b.op("Equal", x, zero), b.op("Equal", y, zero))
    return b.op("Where", origin, zero, turned)


@of_two("Hypot")
def hypot(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Sqrt of the sum of squares, the larger operand taken out."""
    x, y = b.op("Abs", x), b.op("Abs", y)
    large, small = b.op("Max", x, y), b.op("Min", x, y)
    # Zeros and infinities have no quotient.
    ratio = b.op("Where", b.op("Equal", small, large), b.like(1.0, large), b.op("Div", small, large))
    return b.op("Mul", large, b.op("Sqrt", b.op("Add", b.op("Mul", ratio, ratio), 1.0)))


@of_two("LogAddExp")
def log_add_exp(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The larger operand, and Softplus of the negative distance."""
    distance = b.op("Abs", b.op("Sub", x, y))
    return b.op("Add", b.op("Max", x, y), log1p(b, b.op("Exp", b.op("Neg", distance))))


@of_two("LogAddExp2")
def log_add_exp2(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The same as LogAddExp, in powers of 2."""
    distance = b.op("Abs", b.op("Sub", x, y))
    rest = log1p(b, exp2(b, b.op("Neg", distance)))
    return b.op("Add", b.op("Max", x, y), b.op("Div", rest, math.log(2.0)))


@of_two("Heaviside")
def heaviside(b: Builder, x: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, and the second operand within 2**-52 of zero, by Where."""
    step = b.cast(b.op("Greater", x, b.like(0, x)), b.dtype(x))
    if b.dtype(x).is_floating_point():
        is_zero = b.op("LessOrEqual", b.op("Abs", x), b.like(2.0**-52, x))
    else:
        is_zero = b.op("Equal", x, b.like(0, x))
    return b.op("Where", is_zero, values, step)


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


@function
def bound_for_nan(b: Builder, clipped: Tensor, bound: Value) -> Tensor:
    """The bound in the place of NaN, which Clip keeps and MindSpore's comparisons do not."""
    if bound is None or not b.dtype(clipped).is_floating_point():
        return clipped
    return b.op("Where", b.op("IsNaN", clipped), b.like(bound, clipped), clipped)
