"""Operators that MindSpore Lite has no primitive for, as formulas of other ONNX operators (see `parts`)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.converter.rules import Rules, places, rules
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported

assert places  # its functions are those of the rules

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
RULES: Rules = rules(
    __name__,
    """
    Sign: input -> cast(input > 0, dtype(input)) - cast(input < 0, dtype(input))
    IsNaN: X -> X != X
    IsInf: X, detect_negative: int = 1, detect_positive: int = 1 ->
        if detect_positive and detect_negative:
            return Abs(X) == inf
        if not detect_positive and not detect_negative:
            return X > inf
        X == (inf if detect_positive else -inf)
    Tan: input -> Sin(input) / Cos(input)
    Sinh: input -> (Exp(input) - Exp(-input)) * 0.5
    Cosh: input -> (Exp(input) + Exp(-input)) * 0.5
    Asinh: input -> Sign(input) * Log(Abs(input) + Sqrt(input * input + 1.0))
    Acosh: input -> Log(input + Sqrt(input * input - 1.0))
    Atanh: input -> Log((input + 1.0) / (1.0 - input)) * 0.5
    Atan: input -> arctangent(input)
    Asin: input -> arctangent(input / Sqrt(1.0 - input * input))
    Acos: input -> pi / 2 - arctangent(input / Sqrt(1.0 - input * input))
    Softsign: input -> input / (Abs(input) + 1.0)
    Xor: A, B -> (A & Not(B)) | (B & Not(A))
    BitShift: X, Y, direction: str ->
        grown = cast(Pow(constant(2.0, np.float64), cast(Y, DOUBLE)), UINT64)
        if direction == "LEFT":
            return cast(cast(X, UINT64) * grown, dtype(X))
        if not dtype(X).is_signed():
            return cast(cast(X, UINT64) / grown, dtype(X))
        most = like(dtype(X).bitwidth - 1, Y)
        within = (Y >= 0) & (Y <= most)
        cast(Floor(cast(X, DOUBLE) / Pow(constant(2.0, np.float64), cast(Where(within, Y, most), DOUBLE))), dtype(X))
    BitwiseAnd: A, B -> from_bits(bits(A) * bits(B), A)
    BitwiseOr: A, B -> from_bits(Max(bits(A), bits(B)), A)
    BitwiseXor: A, B -> from_bits(Abs(bits(A) - bits(B)), A)
    BitwiseNot: X -> from_bits(1 - bits(X), X)
    CumProd: x, axis: Value, exclusive: int = 0, reverse: int = 0 ->
        if known(axis) is None:
            return chosen(axis, x, [CumProd(x, constant(i, np.int64), exclusive=exclusive, reverse=reverse) for i in range(rank(x))])
        axis = int(known(axis).reshape(())) % rank(x)
        factors = Where(before(x, axis, exclusive, reverse), Unsqueeze(x, [axis]), 1)
        ReduceProd(factors, [axis + 1], keepdims=0)
    TopK: X, K, axis: int = -1, largest: int = 1, sorted: int = 1 ->
        if largest:
            raise Unsupported("wants the number of its results in the file")
        values, places = ops("TopK", 2, -X, K, axis=axis, sorted=1)
        (-values, places)
    Trilu: input, k = None, upper: int = 1 ->
        rows, columns = static_shape(input)[-2:]
        far = constant(np.arange(columns) - np.arange(rows).reshape(-1, 1), np.int64)
        least = constant(0, np.int64) if k is None else scalar(k)
        Where(far >= least if upper else far <= least, input, 0)
    LayerNormalization; stash_type: X, Scale, B = None, axis: int = -1, epsilon: float = 1e-5 ->
        normalised(X, Scale, B, axis, epsilon)
    ScatterND: data, indices, updates, reduction: str = "none" ->
        one_by_one(_REDUCTIONS[reduction], data, indices, updates)
    """,
)


@function
def _normalised(
    b: Builder, x: ir.Value, scale: ir.Value, shift: ir.Value | None, axis: int, epsilon: float
) -> ir.Value:
    """A LayerNormalization of one result."""
    if len(b.declared) > 1:
        raise Unsupported("has several results")
    axes = list(range(axis % b.rank(x), b.rank(x)))
    far = x - b.ReduceMean(x, axes)
    y: ir.Value = far / b.Sqrt(b.ReduceMean(far * far, axes) + epsilon) * scale
    return y if shift is None else b.Add(y, shift)


@function
def _arctangent(b: Builder, x: ir.Value) -> ir.Value:
    """The angle of which `x` is the tangent."""
    size = b.op("Abs", x)
    small = b.op("Less", size, 1.0)
    inside = b.op("Where", small, size, b.op("Reciprocal", size))
    square = b.op("Mul", inside, inside)
    total = b.op("Mul", square, _ARCTANGENT[0])
    for factor in _ARCTANGENT[1:-1]:
        total = b.op("Mul", b.op("Add", total, factor), square)
    angle = b.op("Mul", b.op("Add", total, _ARCTANGENT[-1]), inside)
    angle = b.op("Where", small, angle, b.op("Sub", b.like(np.pi / 2, x), angle))
    return b.op("Mul", angle, b.op("Sign", x))


@function
def _bits(b: Builder, x: ir.Value) -> ir.Value:
    """The bits of integers, along a new last dimension."""
    powers = b.constant(2 ** np.arange(b.dtype(x).bitwidth, dtype=np.uint64))
    wide = b.op("Unsqueeze", b.cast(x, ir.DataType.UINT64), [-1])
    return b.cast(b.op("Mod", b.op("Div", wide, powers), b.constant(2, np.uint64)), ir.DataType.INT64)


@function
def _from_bits(b: Builder, bits: ir.Value, like: ir.Value) -> ir.Value:
    """The integers of the type of another tensor that have these bits."""
    powers = (2 ** np.arange(b.dtype(like).bitwidth, dtype=np.uint64)).astype(np.int64)
    return b.cast(b.op("ReduceSum", b.op("Mul", bits, b.constant(powers)), [-1], keepdims=0), b.dtype(like))


@function
def _before(b: Builder, x: ir.Value, axis: int, exclusive: int, reverse: int) -> ir.Value:
    """True where the second of two places along an axis comes before the first, or is it."""
    size = b.static_shape(x)[axis]
    seen = np.tri(size, size, -1 if exclusive else 0, dtype=np.bool_)
    seen = seen[::-1, ::-1] if reverse else seen
    return b.constant(seen.reshape((size, size) + (1,) * (b.rank(x) - axis - 1)))


@function
def _one_by_one(b: Builder, operator: str, data: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    """A ScatterND that combines what is written with what is there."""
    *rows, depth = b.static_shape(indices)
    count = int(np.prod(rows))
    if count > _MOST:
        raise Unsupported(f"writes {count} elements, and {_MOST} are supported")
    places = b.op("Reshape", indices, [count, depth])
    values = b.reshape(updates, [count, *b.static_shape(updates)[len(rows) :]])
    for i in range(count):
        place, value = (b.op("Slice", x, [i], [i + 1], [0]) for x in (places, values))
        data = b.op("ScatterND", data, place, b.op(operator, b.op("GatherND", data, place), value))
    return data
