"""Operators that MindSpore Lite has no primitive for, as other operators of ONNX (see `rules`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions import common
from pinnace.converter.rules import operators, rule
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor
from pinnace.ops.values import Value
from pinnace.program import Dialect

_ARCTANGENT = (
    0.0028662257,
    -0.0161657367,
    0.0429096138,
    -0.0752896400,
    0.1065626393,
    -0.1420889944,
    0.1999355085,
    -0.3333314528,
    1.0,
)
"""Arctangent of x over x, as a polynomial of the square of x, to 2e-8 (Abramowitz and Stegun, 4.4.49)."""

_REDUCTIONS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_MOST = 1 << 8
"""Elements that are written one by one."""
_FORMULAS: Mapping[str, Callable[..., Value]] = {
    "Sign": lambda op, x: op.cast(op.Greater(x, 0), op.dtype(x)) - op.cast(op.Less(x, 0), op.dtype(x)),
    "IsNaN": lambda op, x: op.Not(op.Equal(x, x)),
    "Tan": lambda op, x: op.Sin(x) / op.Cos(x),
    "Sinh": lambda op, x: (op.Exp(x) - op.Exp(-x)) * 0.5,
    "Cosh": lambda op, x: (op.Exp(x) + op.Exp(-x)) * 0.5,
    "Asinh": lambda op, x: op.Sign(x) * op.Log(op.Abs(x) + op.Sqrt(x * x + 1.0)),
    "Acosh": lambda op, x: op.Log(x + op.Sqrt(x * x - 1.0)),
    "Atanh": lambda op, x: op.Log((x + 1.0) / (1.0 - x)) * 0.5,
    "Atan": lambda op, x: _arctangent(op, x),
    "Asin": lambda op, x: _arctangent(op, x / op.Sqrt(1.0 - x * x)),
    "Acos": lambda op, x: np.pi / 2 - _arctangent(op, x / op.Sqrt(1.0 - x * x)),
    "BitwiseNot": lambda op, x: _from_bits(op, 1 - _bits(op, x), x),
    "BitwiseAnd": lambda op, a, b: _from_bits(op, _bits(op, a) * _bits(op, b), a),
    "BitwiseOr": lambda op, a, b: _from_bits(op, op.Max(_bits(op, a), _bits(op, b)), a),
    "BitwiseXor": lambda op, a, b: _from_bits(op, op.Abs(_bits(op, a) - _bits(op, b)), a),
    "Xor": lambda op, a, b: op.Or(op.And(a, op.Not(b)), op.And(b, op.Not(a))),
}


@operators(only=Dialect.LITE, **_FORMULAS)
def _of_operands(op: Builder, value: Callable[..., Value], *x: Tensor) -> Value:
    return value(op, *x)


@rule(Dialect.LITE)
def IsInf(op: Builder, x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_positive and detect_negative:
        return op.Equal(op.Abs(x), np.inf)
    if not detect_positive and not detect_negative:
        return op.Greater(x, np.inf)
    return op.Equal(x, np.inf if detect_positive else -np.inf)


@rule(Dialect.LITE)
def BitShift(op: Builder, x: Tensor, by: Tensor, direction: str) -> Tensor:
    two, kind = op.constant(2.0, np.float64), op.dtype(x)
    double, whole = ir.DataType.DOUBLE, ir.DataType.UINT64
    grown = op.cast(op.Pow(two, op.cast(by, double)), whole)
    if direction == "LEFT":
        return op.cast(op.cast(x, whole) * grown, kind)
    if not kind.is_signed():
        return op.cast(op.cast(x, whole) / grown, kind)
    most = op.like(kind.bitwidth - 1, by)
    within = op.And(op.GreaterOrEqual(by, 0), op.LessOrEqual(by, most))
    shrunk = op.cast(x, double) / op.Pow(two, op.cast(op.Where(within, by, most), double))
    return op.cast(op.Floor(shrunk), kind)


@rule(Dialect.LITE)
def CumProd(op: Builder, x: Tensor, axis: Tensor, exclusive: int = 0, reverse: int = 0) -> Tensor:
    known = op.known(axis)
    if known is None:
        return common.cumulative(op, "CumProd", x, axis, exclusive, reverse)
    at = int(known.reshape(())) % op.rank(x)
    factors = op.Where(_before(op, x, at, exclusive, reverse), op.Unsqueeze(x, [at]), 1)
    return op.ReduceProd(factors, [at + 1], keepdims=0)


@rule(Dialect.LITE)
def TopK(
    op: Builder, x: Tensor, k: Tensor, axis: int = -1, largest: int = 1, _sorted: int = 1
) -> tuple[Tensor, ...]:
    if largest:
        raise Unsupported("wants the number of its results in the file")
    values, places = op.ops("TopK", 2, -x, k, axis=axis)
    return -values, places


@rule(Dialect.LITE)
def ScatterND(op: Builder, data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """A ScatterND that combines what is written with what is there, one by one."""
    operator = _REDUCTIONS[reduction]
    *rows, depth = op.static_shape(indices)
    count = int(np.prod(rows))
    if count > _MOST:
        raise Unsupported(f"writes {count} elements, and {_MOST} are supported")
    places = op.Reshape(indices, [count, depth])
    values = op.reshape(updates, [count, *op.static_shape(updates)[len(rows) :]])
    for i in range(count):
        place, value = (op.Slice(x, [i], [i + 1], [0]) for x in (places, values))
        data = op.ScatterND(data, place, op.op(operator, op.GatherND(data, place), value))
    return data


def _arctangent(op: Builder, x: Tensor) -> Value:
    size = op.Abs(x)
    small = op.Less(size, 1.0)
    inside = op.Where(small, size, op.Reciprocal(size))
    square = inside * inside
    total = square * _ARCTANGENT[0]
    for factor in _ARCTANGENT[1:-1]:
        total = (total + factor) * square
    angle = (total + _ARCTANGENT[-1]) * inside
    angle = op.Where(small, angle, op.like(np.pi / 2, x) - angle)
    return angle * op.Sign(x)


def _bits(op: Builder, x: Tensor) -> Tensor:
    """The bits of integers, along a new last dimension."""
    powers = op.constant(2 ** np.arange(op.dtype(x).bitwidth, dtype=np.uint64))
    wide = op.Unsqueeze(op.cast(x, ir.DataType.UINT64), [-1])
    return op.cast(op.Mod(wide / powers, op.constant(2, np.uint64)), ir.DataType.INT64)


def _from_bits(op: Builder, bits: Tensor, like: Tensor) -> Tensor:
    """The integers of the type of another tensor that have these bits."""
    powers = (2 ** np.arange(op.dtype(like).bitwidth, dtype=np.uint64)).astype(np.int64)
    return op.cast(op.ReduceSum(bits * op.constant(powers), [-1], keepdims=0), op.dtype(like))


def _before(op: Builder, x: Tensor, axis: int, exclusive: int, reverse: int) -> Tensor:
    """True where the second of two places along an axis comes before the first, or is it."""
    size = op.static_shape(x)[axis]
    seen = np.tri(size, size, -1 if exclusive else 0, dtype=np.bool_)
    seen = seen[::-1, ::-1] if reverse else seen
    return op.constant(seen.reshape((size, size) + (1,) * (op.rank(x) - axis - 1)))
