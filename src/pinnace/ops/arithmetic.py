"""Arithmetic, comparison and logic of two operands, element by element."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, functions
from pinnace.ops.math import promoted
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Value

_EUCLID_STEPS = {8: 13, 16: 24, 32: 46, 64: 92}
"""Turns that Euclid's algorithm takes at most, by bits: the longest are those of Fibonacci's numbers."""
_POWERS = np.asarray([1 << i for i in range(64)], np.uint64)


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


functions(
    __name__,
    """
    divisor: x ->
        # Integers to divide by, with 1 for 0 and -1; itself where it is known to have neither.
        # ONNX has no results for the former, nor for the least number over the latter.
        value = known(x)
        if value is not None and not np.isin(value, (0, -1)).any():
            return x
        Where((x == 0) | (x == -1) if dtype(x).is_signed() else x == 0, 1, x)
    float_quotient: x, y -> floating(x) / floating(y)
    floor_quotient: x, y ->
        # Div and Floor; for ints Div, less 1 where it has a rest and rounded upwards.
        if is_float(x):
            return Floor(x / y)
        if dtype(x) is BOOL:
            return x & (y | ~y)  # over False, too, MindSpore gives the dividend
        floored_quotient(x, y)
    floored_quotient: x, y ->
        # Div of ints, rounded downwards.
        whole = quotient(x, y)
        if not dtype(x).is_signed():
            return whole
        # Taking the rest away before dividing would leave the type: 98 // -71 of int8.
        rest = x % divisor(y) != 0
        whole - cast(rest & Xor(x < 0, y < 0), dtype(x))
    greatest_divisor: x, y ->
        # Euclid's algorithm: as many turns as the type may need, and one to put the larger number first.
        # Numbers keep their signs until the end: the least has no positive one.
        large, small = x, y
        for _ in range(_EUCLID_STEPS[dtype(x).bitwidth] + 1):
            done = small == 0
            rest = large % divisor(small)
            large, small = Where(done, large, small), Where(done, small, rest)
        Abs(large)
    least_over_zero: below, whole ->
        # Ints that MindSpore computes as floats: over 0 the least of 32 and 64 bits, and 0 of fewer.
        value, kind = known(below), dtype(below)
        if value is not None and np.all(value):
            return whole
        Where(below == 0, np.iinfo(kind.numpy()).min if kind.bitwidth >= 32 else 0, whole)
    power_of_two: kind, exponent -> Gather(constant(_POWERS.astype(kind.numpy())), exponent, axis=0)
    quotient: x, y ->
        # Div of ints; over 0 the greatest, the least, or 0, as MindSpore has it.
        safe = divisor(y)
        if safe is y:
            return x / y
        signed, limits = dtype(x).is_signed(), np.iinfo(dtype(x).numpy())
        whole, over_zero = x / safe, like(limits.max, x)
        whole = Where(y == -1, 0 - x, whole) if signed else whole
        over_zero = Where(x < 0, limits.min, over_zero) if signed else over_zero
        Where(y == 0, Where(x == 0, 0, over_zero), whole)
    shift: y ->
        # The shift that processors make: modulo 64, or modulo 32 where that holds the type.
        BitwiseAnd(cast(y, INT64), 63 if dtype(y).bitwidth == 64 else 31)
    truncated_quotient: x, y ->
        # Div, for floats then rounded towards zero.
        if dtype(x) is BOOL:
            return x | ~y  # over False the quotient is more than 0
        trunc(x / y) if is_float(x) else quotient(x, y)
    without_nan: best, x, y ->
        # NaN only where both are.
        best = Where(IsNaN(y), x, best) if is_float(x) else best
        Where(IsNaN(x), y, best) if is_float(x) else best
    """,
)
bound_for_nan, _ = functions(
    __name__,
    """
    bound_for_nan: clipped, bound ->
        # The bound in the place of NaN, which Clip keeps and MindSpore's comparisons do not.
        clipped if bound is None or not is_float(clipped) else Where(IsNaN(clipped), bound, clipped)
    xlogy: x, y ->
        # Mul with Log, and 0 where the first operand is 0.
        x, y = floating(x), floating(y)
        product = x * Log(y)
        Where((x == 0.0) & ~IsNaN(y), 0.0, product)
    """,
    public=True,
)
formulas(
    __name__,
    """
    Atan2 Atan2Ext: y, x ->
        # Atan of the quotient, put into its quadrant by Where.
        y, x = floating(y), floating(x)
        base, half = Atan(y / Abs(x)), like(pi, x)  # Abs: -0.0 is 0 here
        below = (y < 0.0) | (Reciprocal(y) < 0.0)  # so is -0.0
        turned = Where(x < 0.0, Where(below, -half, half) - base, base)
        Where((x == 0.0) & (y == 0.0), 0.0, turned)
    Div Divs: x, y ->
        # Div; ints as floats.
        float_quotient(x, y)
    DivNoNan: x, y ->
        # Div, and 0 where the divisor is 0.
        zero = y == 0
        Where(zero, 0, x / Where(zero, 1, y))
    FloorDiv FloorDivScalar: x, y ->
        # Div and Floor; for ints Div, less 1 where it has a rest and rounded upwards.
        floor_quotient(x, y)
    FloorMod RemainderTensorTensor RemainderTensorScalar RemainderScalarTensor: x, y ->
        # Mod; for floats the rest of Floor of Div.
        if is_float(x):
            return x - Floor(x / y) * y
        least_over_zero(y, x % divisor(y))  # over 1 and -1 no rest is left
    Fmax: x, y ->
        # Max, NaN only where both are.
        without_nan(Max(x, y), x, y)
    Fmin: x, y ->
        # Min, NaN only where both are.
        without_nan(Min(x, y), x, y)
    Gcd: x, y ->
        # Mod, by Euclid's algorithm.
        greatest_divisor(x, y)
    Heaviside: x, values ->
        # 0 below zero, 1 above, and the second operand within 2**-52 of zero, by Where.
        is_zero = Abs(x) <= 2.0**-52 if is_float(x) else x == 0
        Where(is_zero, values, cast(x > 0, dtype(x)))
    Hypot: x, y ->
        # Sqrt of the sum of squares, the larger operand taken out.
        x, y = Abs(x), Abs(y)
        large, small = Max(x, y), Min(x, y)
        ratio = Where(small == large, 1.0, small / large)  # zeros and infinities have no quotient
        large * Sqrt(ratio * ratio + 1.0)
    Lcm: x, y ->
        # The product over Gcd.
        common = greatest_divisor(x, y)
        Abs(x / Where(common == 0, 1, common) * y)
    LeftShift: x, y ->
        # Mul with a power of 2.
        x * power_of_two(dtype(x), shift(y))
    LogAddExp: x, y ->
        # The larger operand, and Softplus of the negative distance.
        Max(x, y) + log1p(Exp(-Abs(x - y)))
    LogAddExp2: x, y ->
        # The same as LogAddExp, in powers of 2.
        Max(x, y) + log1p(exp2(-Abs(x - y))) / log(2.0)
    MulNoNan: x, y ->
        # Mul, and 0 where the second operand is 0.
        Where(y == 0, 0, x * y)
    NotEqual NeScalar: x, y -> ~(x == y)
    Pow PowTensorScalar PowScalarTensor: x, y ->
        # Pow; Mul for a square.
        exponent = known(y) if shape(y) == () else None
        x**y if exponent is None or exponent != 2 else x * x
    RealDiv: x, y ->
        # Div; of ints rounded towards zero where the result is one.
        quotient(x, y) if result(x).is_integer() and is_integer(x) else float_quotient(x, y)
    RightShift: x, y ->
        # FloorDiv by a power of 2, in two halves: the whole of it may be a number that the type has not.
        wide = dtype(x) if dtype(x).bitwidth == 64 else INT64
        number, whole = cast(x, wide), shift(y)
        half = whole / 2
        for part in (half, whole - half):
            number = floored_quotient(number, power_of_two(wide, part))
        cast(number, dtype(x))
    SquaredDifference: x, y ->
        # Sub, and Mul with itself.
        difference = x - y
        difference * difference
    TruncateDiv: x, y ->
        # Div, for floats then rounded towards zero.
        truncated_quotient(x, y)
    TruncateMod Mod FmodTensor FmodScalar: x, y ->
        # Mod with the dividend's sign.
        Mod(x, y if is_float(x) else divisor(y), fmod=1)
    Xdivy: x, y ->
        # Div, and 0 where the dividend is 0.
        Where(x == 0, 0, x / y)
    Xlogy XLogYScalarOther XLogYScalarSelf: x, y ->
        # Mul with Log, and 0 where the first operand is 0.
        xlogy(x, y)
    """,
    of_wider_type=True,
)
formulas(
    __name__,
    """
    Addcdiv AddcdivExt: x, first, second, value: Value = 1 ->
        # Add, of value times the quotient.
        part = quotient(first, second) if is_integer(x) else first / second
        x + part * beside(value, x)
    Addcmul AddcmulExt: x, first, second, value: Value = 1 -> x + first * second * beside(value, x)
    ApproximateEqual: x, y, tolerance: float = 1e-5 -> Abs(Sub(*promoted(x, y))) < tolerance
    CompareAndBitpack: x, threshold ->
        # Greater, and the sum of every eight bits, the first counting most, of truth values least.
        powers = 2.0 ** np.arange(8, dtype=np.float32)[:: 1 if dtype(x) is BOOL else -1]
        above = x if dtype(x) is BOOL else x > scalar(threshold)
        bits = reshape(cast(above, FLOAT), [*dims(x, stop=-1), -1, 8])
        cast(bits @ powers, UINT8)
    DivMod DivMods: x: Value, y: Value, rounding_mode: int | None = None ->
        # Div, and then what the rounding mode (1 towards zero, 2 down) asks for.
        x, y = promoted(x, y)
        if not rounding_mode:
            return float_quotient(x, y)
        whole = truncated_quotient(x, y) if rounding_mode == 1 else floor_quotient(x, y)
        whole = least_over_zero(y, whole) if rounding_mode == 1 and is_integer(whole) else whole
        cast(whole, result(whole))
    IsClose: x: Value, y: Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False ->
        # LessOrEqual of the distance and what is allowed; equal infinities are close.
        first, second = [floating(v) for v in promoted(x, y)]
        near = Abs(first - second) <= Abs(second) * rtol + atol
        close = near & ~IsInf(second) | (first == second)
        close | IsNaN(first) & IsNaN(second) if equal_nan else close
    Lerp LerpScalar: start, end, weight: Value -> start + (end - start) * beside(weight, start)
    PopulationCount: x ->
        # The sum of all bits, each told by BitwiseAnd.
        powers = constant(np.left_shift(1, np.arange(dtype(x).bitwidth)), np.int64)
        bits = cast(BitwiseAnd(Unsqueeze(cast(x, INT64), [-1]), powers), BOOL)
        cast(ReduceSum(cast(bits, INT64), [-1], keepdims=0), UINT8)
    """,
)


@primitives({"AddExt AddScalar": "Add", "SubExt SubScalar": "Sub"})
def with_alpha(b: Builder, op_type: str, x: Value, y: Value, alpha: Value = 1) -> Value:
    """{op_type}, the second operand times alpha."""
    first, second = promoted(b, x, y)
    if b.known(alpha) is None or binding.float_(b, alpha) != 1.0:
        second = b.op("Mul", second, b.cast(b.tensor(alpha), b.dtype(second)))
    return b.op(op_type, first, second)


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
