"""Quotients of tensors of one type, as MindSpore rounds them and fills where there is none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.math import floating, is_float, trunc
from pinnace.ops.table import Tensor
from pinnace.ops.values import Value

_EUCLID_STEPS = {8: 13, 16: 24, 32: 46, 64: 92}
"""Turns that Euclid's algorithm takes at most, by bits: the longest are those of Fibonacci's numbers."""


def divisor(op: Builder, x: Tensor) -> Tensor:
    """Integers to divide by, with 1 for 0 and -1; itself where it is known to have neither."""
    # ONNX has no results for the former, nor for the least number over the latter.
    value = op.known(x)
    if value is not None and not np.isin(value, (0, -1)).any():
        return x
    return op.Where(
        op.Or(op.Equal(x, 0), op.Equal(x, -1)) if op.dtype(x).is_signed() else op.Equal(x, 0), 1, x
    )


def float_quotient(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div; ints as floats."""
    return floating(op, x) / floating(op, y)


def floor_quotient(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Div and Floor; for ints Div, less 1 where it has a rest and rounded upwards."""
    if is_float(op, x):
        return op.Floor(x / y)
    if op.dtype(x) is ir.DataType.BOOL:
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
    if op.dtype(x) is ir.DataType.BOOL:
        return op.Or(x, op.Not(y))  # over False the quotient is more than 0
    return trunc(op, x / y) if is_float(op, x) else quotient(op, x, y)
