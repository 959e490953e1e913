"""Integers: quotients as MindSpore rounds them, shifts, bits, common divisors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value


def floored_quotient(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div of ints, rounded downwards."""
    result = quotient(b, x, y)
    if not b.dtype(x).is_signed():
        return result
    # Taking the rest away before dividing would leave the type: 98 // -71 of int8.
    zero = b.like(0, x)
    rest = b.op("Not", b.op("Equal", b.op("Mod", x, divisor(b, y)), zero))
    negative = b.op("Xor", b.op("Less", x, zero), b.op("Less", y, zero))
    return b.op("Sub", result, b.cast(b.op("And", rest, negative), b.dtype(x)))


@function
def quotient(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Div of ints; over 0 the greatest, the least, or 0, as MindSpore has it."""
    safe = divisor(b, y)
    if safe is y:
        return b.op("Div", x, y)
    kind, zero = b.dtype(x), b.like(0, x)
    limits = np.iinfo(kind.numpy())
    result, over_zero = b.op("Div", x, safe), b.like(limits.max, x)
    if kind.is_signed():
        negated = b.op("Sub", zero, x)
        result = b.op("Where", b.op("Equal", y, b.like(-1, y)), negated, result)
        over_zero = b.op("Where", b.op("Less", x, zero), b.like(limits.min, x), over_zero)
    over_zero = b.op("Where", b.op("Equal", x, zero), zero, over_zero)
    return b.op("Where", b.op("Equal", y, zero), over_zero, result)


def divisor(b: Builder, x: Tensor) -> Tensor:
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


@function
def least_over_zero(b: Builder, divisor: Tensor, result: Tensor) -> Tensor:
    """Ints that MindSpore computes as floats: over 0 the least of 32 and 64 bits, and 0 of fewer."""
    value, kind = b.known(divisor), b.dtype(divisor)
    if value is not None and np.all(value):
        return result
    least = np.iinfo(kind.numpy()).min if kind.bitwidth >= 32 else 0
    return b.op("Where", b.op("Equal", divisor, b.like(0, divisor)), b.like(int(least), divisor), result)


@primitive("PopulationCount")
def population_count(b: Builder, x: Tensor) -> Value:
    """The sum of all bits, each told by BitwiseAnd."""
    powers = b.constant(np.left_shift(1, np.arange(b.dtype(x).bitwidth)), np.int64)
    wide = b.op("Unsqueeze", b.cast(x, ir.DataType.INT64), [-1])
    bits = b.cast(b.cast(b.op("BitwiseAnd", wide, powers), ir.DataType.BOOL), ir.DataType.INT64)
    return b.cast(b.op("ReduceSum", bits, [-1], keepdims=0), ir.DataType.UINT8)


formulas(
    __name__,
    """
    CompareAndBitpack: x, threshold ->
        # Greater, and the sum of every eight bits, the first counting most, of truth values least.
        powers = 2.0 ** np.arange(8, dtype=np.float32)[:: 1 if dtype(x) is BOOL else -1]
        above = x if dtype(x) is BOOL else x > scalar(threshold)
        bits = cast(above, FLOAT)
        bytes_ = reshape(bits, [*dims(x, stop=-1), -1, 8])
        cast(bytes_ @ powers, UINT8)
    """,
)
