"""Arithmetic, comparison and logic of two operands, element by element.

Quotients of tensors of one type are rounded and filled, where there is none, as MindSpore does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops import binding
from pinnace.ops.mindspore.math import beside, exp2, floating, is_float, is_integer, log1p, promoted, trunc
from pinnace.ops.table import Dtype, Tensor, primitive, primitives
from pinnace.ops.values import BOOL, FLOAT, FLOAT16, INT64, UINT8, Value

_POWERS = np.asarray([1 << i for i in range(64)], np.uint64)
_EUCLID_STEPS = {8: 13, 16: 24, 32: 46, 64: 92}
"""Turns that Euclid's algorithm takes at most, by bits: the longest are those of Fibonacci's numbers."""


def divisor(op: Builder, x: Tensor) -> Tensor:
    """Integers to divide by, with 1 for 0 and -1; itself where it is known to have neither."""
    # ONNX has no results for the former, nor for the least number over the latter.
    value = op.known(x)
    if value is not None and not np.isin(value, (0, -1)).any():
        return x
    zero = op.Equal(x, 0)
    return op.Where(op.Or(zero, op.Equal(x, -1)) if op.dtype(x).is_signed() else zero, 1, x)


def float_quotient(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div; ints as floats."""
    return floating(op, x) / floating(op, y)


def floor_quotient(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div and Floor; for ints Div, less 1 where it has a rest and rounded upwards."""
    if is_float(op, x):
        return op.Floor(x / y)
    if op.dtype(x) is BOOL:
        return op.And(x, op.Or(y, op.Not(y)))  # over False, too, MindSpore gives the dividend
    return floored_quotient(op, x, y)


def floored_quotient(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div of ints, rounded downwards."""
    whole = quotient(op, x, y)
    if not op.dtype(x).is_signed():
        return whole
    # Taking the rest away before dividing would leave the type: 98 // -71 of int8.
    rest = op.Not(op.Equal(op.Mod(x, divisor(op, y)), 0))
    return whole - op.cast(op.And(rest, op.Xor(op.Less(x, 0), op.Less(y, 0))), op.dtype(x))


def greatest_divisor(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Euclid's algorithm: as many turns as the type may need, and one to put the larger number first."""
    # Numbers keep their signs until the end: the least has no positive one.
    large, small = x, y
    for _ in range(_EUCLID_STEPS[op.dtype(x).bitwidth] + 1):
        done = op.Equal(small, 0)
        rest = op.Mod(large, divisor(op, small))
        large, small = op.Where(done, large, small), op.Where(done, small, rest)
    return op.Abs(large)


def least_over_zero(op: Builder, below: Tensor, whole: Tensor) -> Tensor:
    """Ints that MindSpore computes as floats: over 0 the least of 32 and 64 bits, and 0 of fewer."""
    value, kind = op.known(below), op.dtype(below)
    if value is not None and np.all(value):
        return whole
    return op.Where(op.Equal(below, 0), np.iinfo(kind.numpy()).min if kind.bitwidth >= 32 else 0, whole)


def quotient(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div of ints; over 0 the greatest, the least, or 0, as MindSpore has it."""
    safe = divisor(op, y)
    if safe is y:
        return x / y
    signed, limits = op.dtype(x).is_signed(), np.iinfo(op.dtype(x).numpy())
    whole, over_zero = x / safe, op.like(limits.max, x)
    whole = op.Where(op.Equal(y, -1), 0 - x, whole) if signed else whole
    over_zero = op.Where(op.Less(x, 0), limits.min, over_zero) if signed else over_zero
    return op.Where(op.Equal(y, 0), op.Where(op.Equal(x, 0), 0, over_zero), whole)


def truncated_quotient(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div, for floats then rounded towards zero."""
    if op.dtype(x) is BOOL:
        return op.Or(x, op.Not(y))  # over False the quotient is more than 0
    return trunc(op, x / y) if is_float(op, x) else quotient(op, x, y)


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
def binary(op: Builder, op_type: str, x: Value, y: Value) -> Value:
    """{op_type}, both operands in the wider type."""
    return op.op(op_type, *promoted(op, x, y))


@primitives({"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor", "LogicalNot": "Not"})
def logical(op: Builder, op_type: str, *operands: Value) -> Value:
    """{op_type}, of operands that are not zero."""
    return op.op(op_type, *(op.cast(op.tensor(x), BOOL) for x in operands))


def _power_of_two(op: Builder, kind: Dtype, exponent: Tensor) -> Tensor:
    return op.Gather(op.constant(_POWERS.astype(kind.numpy())), exponent, axis=0)


def _shift(op: Builder, y: Tensor) -> Tensor:
    """The shift that processors make: modulo 64, or modulo 32 where that holds the type."""
    return op.BitwiseAnd(op.cast(y, INT64), 63 if op.dtype(y).bitwidth == 64 else 31)


def _without_nan(op: Builder, best: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """NaN only where both are."""
    return op.Where(op.IsNaN(x), y, op.Where(op.IsNaN(y), x, best)) if is_float(op, x) else best


def bound_for_nan(op: Builder, clipped: Tensor, bound: float | None) -> Tensor:
    """The bound in the place of NaN, which Clip keeps and MindSpore's comparisons do not."""
    keeps = bound is None or not is_float(op, clipped)
    return clipped if keeps else op.Where(op.IsNaN(clipped), bound, clipped)


def xlogy(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Mul with Log, and 0 where the first operand is 0."""
    x, y = floating(op, x), floating(op, y)
    product = x * op.Log(y)
    return op.Where(op.And(op.Equal(x, 0.0), op.Not(op.IsNaN(y))), 0.0, product)


def _atan2(op: Builder, y: Tensor, x: Tensor) -> Tensor:
    """Atan of the quotient, put into its quadrant by Where."""
    y, x = floating(op, y), floating(op, x)
    base, half = op.Atan(y / op.Abs(x)), op.like(math.pi, x)  # Abs: -0.0 is 0 here
    below = op.Or(op.Less(y, 0.0), op.Less(op.Reciprocal(y), 0.0))  # so is -0.0
    turned = op.Where(op.Less(x, 0.0), op.Where(below, -half, half) - base, base)
    return op.Where(op.And(op.Equal(x, 0.0), op.Equal(y, 0.0)), 0.0, turned)


def _div_no_nan(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div, and 0 where the divisor is 0."""
    zero = op.Equal(y, 0)
    return op.Where(zero, 0, x / op.Where(zero, 1, y))


def _floor_mod(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Mod; for floats the rest of Floor of Div."""
    if is_float(op, x):
        return x - op.Floor(x / y) * y
    return least_over_zero(op, y, op.Mod(x, divisor(op, y)))  # over 1 and -1 no rest is left


def _heaviside(op: Builder, x: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, and the second operand within 2**-52 of zero, by Where."""
    is_zero = op.LessOrEqual(op.Abs(x), 2.0**-52) if is_float(op, x) else op.Equal(x, 0)
    return op.Where(is_zero, values, op.cast(op.Greater(x, 0), op.dtype(x)))


def _hypot(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Sqrt of the sum of squares, the larger operand taken out."""
    x, y = op.Abs(x), op.Abs(y)
    large, small = op.Max(x, y), op.Min(x, y)
    ratio = op.Where(op.Equal(small, large), 1.0, small / large)  # zeros and infinities have no quotient
    return large * op.Sqrt(ratio * ratio + 1.0)


def _lcm(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The product over Gcd."""
    common = greatest_divisor(op, x, y)
    return op.Abs(x / op.Where(op.Equal(common, 0), 1, common) * y)


def _pow(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Pow; Mul for a square."""
    exponent = op.known(y) if op.shape(y) == () else None
    return op.Pow(x, y) if exponent is None or exponent != 2 else x * x


def _real_div(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div; of ints rounded towards zero where the result is one."""
    whole = op.result(x).is_integer() and is_integer(op, x)
    return quotient(op, x, y) if whole else float_quotient(op, x, y)


def _right_shift(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    """FloorDiv by a power of 2, in two halves: the whole of it may be a number that the type has not."""
    wide = op.dtype(x) if op.dtype(x).bitwidth == 64 else INT64
    number, whole = op.cast(x, wide), _shift(op, y)
    half = whole / 2
    for part in (half, whole - half):
        number = floored_quotient(op, number, _power_of_two(op, wide, part))
    return op.cast(number, op.dtype(x))


def squared_difference(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Sub, and Mul with itself."""
    difference = x - y
    return difference * difference


@primitives(
    {
        "Atan2 Atan2Ext": _atan2,
        "Div Divs": float_quotient,
        "DivNoNan": _div_no_nan,
        "FloorDiv FloorDivScalar": floor_quotient,
        "FloorMod RemainderTensorTensor RemainderTensorScalar RemainderScalarTensor": _floor_mod,
        "Fmax": lambda op, x, y: _without_nan(op, op.Max(x, y), x, y),
        "Fmin": lambda op, x, y: _without_nan(op, op.Min(x, y), x, y),
        "Gcd": greatest_divisor,
        "Heaviside": _heaviside,
        "Hypot": _hypot,
        "Lcm": _lcm,
        "LeftShift": lambda op, x, y: x * _power_of_two(op, op.dtype(x), _shift(op, y)),
        "LogAddExp": lambda op, x, y: op.Max(x, y) + log1p(op, op.Exp(-op.Abs(x - y))),
        "LogAddExp2": lambda op, x, y: op.Max(x, y) + log1p(op, exp2(op, -op.Abs(x - y))) / math.log(2.0),
        "MulNoNan": lambda op, x, y: op.Where(op.Equal(y, 0), 0, x * y),
        "NotEqual NeScalar": lambda op, x, y: op.Not(op.Equal(x, y)),
        "Outer Ger": lambda op, x, y: op.Unsqueeze(x, [1]) * op.Unsqueeze(y, [0]),
        "Pow PowTensorScalar PowScalarTensor": _pow,
        "RealDiv": _real_div,
        "RightShift": _right_shift,
        "SquaredDifference": squared_difference,
        "TruncateDiv": truncated_quotient,
        "TruncateMod Mod FmodTensor FmodScalar": lambda op, x, y: op.Mod(
            x, y if is_float(op, x) else divisor(op, y), fmod=1
        ),
        "Xdivy": lambda op, x, y: op.Where(op.Equal(x, 0), 0, x / y),
        "Xlogy XLogYScalarOther XLogYScalarSelf": xlogy,
    }
)
def _of_two(op: Builder, function: Callable[[Builder, Tensor, Tensor], Value], x: Value, y: Value) -> Value:
    return function(op, *promoted(op, x, y))


@primitive("Addcdiv", "AddcdivExt")
def _addcdiv(op: Builder, x: Tensor, first: Tensor, second: Tensor, value: Value = 1) -> Value:
    """Add, of value times the quotient."""
    part = quotient(op, first, second) if is_integer(op, x) else first / second
    return x + part * beside(op, value, x)


@primitive("Addcmul", "AddcmulExt")
def _addcmul(op: Builder, x: Tensor, first: Tensor, second: Tensor, value: Value = 1) -> Value:
    return x + first * second * beside(op, value, x)


@primitive("ApproximateEqual")
def _approximate_equal(op: Builder, x: Tensor, y: Tensor, tolerance: float = 1e-5) -> Value:
    return op.Less(op.Abs(op.Sub(*promoted(op, x, y))), tolerance)


@primitive("CompareAndBitpack")
def _compare_and_bitpack(op: Builder, x: Tensor, threshold: Tensor) -> Value:
    """Greater, and the sum of every eight bits, the first counting most, of truth values least."""
    powers = 2.0 ** np.arange(8, dtype=np.float32)[:: 1 if op.dtype(x) is BOOL else -1]
    above = x if op.dtype(x) is BOOL else op.Greater(x, op.scalar(threshold))
    bits = op.reshape(op.cast(above, FLOAT), [*op.dims(x, stop=-1), -1, 8])
    return op.cast(op.MatMul(bits, powers), UINT8)


@primitive("DivMod", "DivMods")
def _div_mod(op: Builder, x: Value, y: Value, rounding_mode: int | None = None) -> Value:
    """Div, and then what the rounding mode (1 towards zero, 2 down) asks for."""
    x, y = promoted(op, x, y)
    if not rounding_mode:
        return float_quotient(op, x, y)
    whole = truncated_quotient(op, x, y) if rounding_mode == 1 else floor_quotient(op, x, y)
    whole = least_over_zero(op, y, whole) if rounding_mode == 1 and is_integer(op, whole) else whole
    return op.cast(whole, op.result(whole))


@primitive("IsClose")
def _is_close(
    op: Builder, x: Value, y: Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Value:
    """LessOrEqual of the distance and what is allowed; equal infinities are close."""
    first, second = [floating(op, v) for v in promoted(op, x, y)]
    near = op.LessOrEqual(op.Abs(first - second), op.Abs(second) * rtol + atol)
    close = op.Or(op.And(near, op.Not(op.IsInf(second))), op.Equal(first, second))
    return op.Or(close, op.And(op.IsNaN(first), op.IsNaN(second))) if equal_nan else close


@primitive("Lerp", "LerpScalar")
def _lerp(op: Builder, start: Tensor, end: Tensor, weight: Value) -> Value:
    return start + (end - start) * beside(op, weight, start)


@primitive("PopulationCount")
def _population_count(op: Builder, x: Tensor) -> Value:
    """The sum of all bits, each told by BitwiseAnd."""
    powers = op.constant(np.left_shift(1, np.arange(op.dtype(x).bitwidth)), np.int64)
    bits = op.cast(op.BitwiseAnd(op.Unsqueeze(op.cast(x, INT64), [-1]), powers), BOOL)
    return op.cast(op.ReduceSum(op.cast(bits, INT64), [-1], keepdims=0), UINT8)


@primitives({"AddExt AddScalar": "Add", "SubExt SubScalar": "Sub"})
def with_alpha(op: Builder, op_type: str, x: Value, y: Value, alpha: Value = 1) -> Value:
    """{op_type}, the second operand times alpha."""
    first, second = promoted(op, x, y)
    if op.known(alpha) is None or binding.float_(op, alpha) != 1.0:
        second = second * op.cast(op.tensor(alpha), op.dtype(second))
    return op.op(op_type, first, second)


@primitives({"Maximum": "Max", "Minimum": "Min"})
def extreme(op: Builder, op_type: str, x: Value, y: Value) -> Tensor:
    """{op_type}; `y` where `x` is NaN, and NaN where `y` is."""
    first, second = promoted(op, x, y)
    maker = first.producer()
    # A NaN of x * 0.1 is one of x, too: LeakyReLU is Maximum(x * 0.1, x) in files.
    scaled = (
        maker is not None and maker.op_type == "Mul" and second in maker.inputs and op.known(second) is None
    )
    if isinstance(x, ir.Value) and op.dtype(first).is_floating_point() and not scaled:
        first = op.Where(op.IsNaN(first), second, first)
    if op.dtype(first) is FLOAT16:
        first, second = second, first  # of 0.0 and -0.0 the result is `y`, and kernels give the first
    return op.op(op_type, first, second)


@primitive("AddN", "AccumulateNV2")
def add_n(op: Builder, *items: Value) -> Value:
    """Add, one after the other."""
    first, *rest = binding.tensors(op, items[0] if isinstance(items[0], tuple) else items)
    return sum(rest, start=first)


@primitive("ClampScalar", "ClampTensor", "ClampMin", "ClipByValue")
def clamp(op: Builder, x: Tensor, clip_min: Value = None, clip_max: Value = None) -> Value:
    """Max and Min, or Clip where the bounds are numbers; in the type of the result."""
    x = op.cast(x, op.result(x))
    if all(bound is None or isinstance(bound, bool | int | float) for bound in (clip_min, clip_max)):
        # A bound that is left out is the largest finite number: infinities would become that.
        ends = (-math.inf, math.inf) if op.dtype(x).is_floating_point() else (None, None)
        bounds = [end if v is None else v for v, end in zip((clip_min, clip_max), ends, strict=True)]
        clipped = op.Clip(x, *(None if v is None else op.like(v, x) for v in bounds))
        given = [v for v in (clip_min, clip_max) if v is not None]
        return bound_for_nan(op, clipped, min(given, default=None))
    for op_type, bound in (("Max", clip_min), ("Min", clip_max)):
        if bound is not None:
            x = extreme(op, op_type, x, op.cast(op.tensor(bound), op.dtype(x)))
    return x
