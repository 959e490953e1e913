"""Factors of matrices: LU, QR, singular values, and the exponential."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.room import room, span
from pinnace.ops.mindspore.array import counting
from pinnace.ops.mindspore.linalg import flipped
from pinnace.ops.mindspore.solve import solved, triangle
from pinnace.ops.running import repeated
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value

_INT64 = ir.DataType.INT64


def _unit(b: Builder, x: Tensor, axis: int) -> Tensor:
    """A unit matrix of the size of one of the last two dimensions, for each matrix of `x`."""
    size = b.op("Shape", x, start=axis, end=None if axis == -1 else axis + 1)
    square = b.op("EyeLike", b.op("Expand", b.like(1.0, x), b.op("Concat", size, size, axis=0)))
    if b.rank(x) == 2:
        return square
    return b.op("Expand", square, b.op("Concat", b.op("Shape", x, end=-2), size, size, axis=0))


# -- LU --------------------------------------------------------------------------------------------


def _exchanges(b: Builder, pivots: Tensor, size: int | Tensor) -> Tensor:
    """The rows' order after row i was exchanged with row pivots[i], counted from 1, for i = 0, 1, ..."""
    rows = counting(b, size)
    wanted = b.op("Sub", b.cast(pivots, _INT64), 1)
    batch = b.op("Concat", b.op("Shape", pivots, end=-1), b.op("Shape", rows), axis=0)

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        place = b.op("Unsqueeze", i, [0])
        other = b.op("Gather", wanted, place, axis=-1)
        order = b.op(
            "Where", b.op("Equal", rows, other), i, b.op("Where", b.op("Equal", rows, i), other, rows)
        )
        return [b.op("GatherElements", carried[0], order, axis=-1)]

    first = b.op("Expand", rows, batch)
    first.shape = ir.Shape([*b.shape(pivots)[:-1], size if isinstance(size, int) else None])
    return repeated(b, b.tensor(b.dim(pivots, -1)), [first], turn)[0]


@primitive("LuSolve")
def _lu_solve(op: Builder, right: Tensor, data: Tensor, pivots: Tensor) -> Value:
    """The exchanges of rows in a Loop, and Gauss-Jordan elimination in a Loop, twice."""
    order = op.Unsqueeze(_exchanges(op, pivots, op.dim(data, -1)), [-1])
    shape = op.Shape(right)
    ordered = op.GatherElements(right, op.Expand(order, shape), axis=-2)
    return solved(op, triangle(op, data, True), solved(op, triangle(op, data, False, unit=True), ordered))


@primitive("LuUnpack", unused="unpack_data unpack_pivots")
def _lu_unpack(
    op: Builder, data: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Value:
    """Trilu of the two halves; the exchanges of rows in a Loop, as a matrix by Equal."""
    height, width = op.dim(data, -2), op.dim(data, -1)
    if not isinstance(height, int) or not isinstance(width, int):
        raise Unsupported("needs the size of the matrix fixed")
    if op.rank(pivots) != op.rank(data) - 1:
        raise Unsupported("has not one vector of pivots for each matrix")
    order, least = _exchanges(op, pivots, height), min(height, width)
    same = op.Equal(op.Unsqueeze(order, [-2]), op.Unsqueeze(counting(op, height), [-1]))
    tall = op.Slice(data, [0], [least], [-1]) if width > least else data
    wide = op.Slice(data, [0], [least], [-2]) if height > least else data
    lower = op.Trilu(tall, op.constant(-1, np.int64), upper=0)
    lower = lower + op.constant(np.eye(height, least), op.dtype(data).numpy())
    return (op.cast(same, op.dtype(data)), lower, op.Trilu(wide, upper=1))


@primitive("MatrixExp")
def _matrix_exp(op: Builder, x: Tensor) -> Value:
    """MatMul of the powers of a small part, in float64, and of squares."""
    # After 12 halvings a norm of up to 1000 is below 1/4, and 12 terms are exact to 1e-17.
    small = op.cast(x, ir.DataType.DOUBLE) * 2.0 ** (-_HALVINGS)
    one = _unit(op, small, -1)
    result = one
    for k in range(_TERMS, 0, -1):
        result = one + op.MatMul(small, result) * (1.0 / k)
    for _ in range(_HALVINGS):
        result = op.MatMul(result, result)
    return op.cast(result, op.dtype(x))


@primitive("NuclearNorm", unused="dim")
def _nuclear_norm(op: Builder, x: Tensor, *, keepdim: bool = False) -> Value:
    """Jacobi's rotations in a Loop, and ReduceSum."""
    if op.rank(x) != 2:
        raise Unsupported("takes the norm of parts of a tensor, but only that of a matrix is supported")
    values = _singular_values(op, x)[1]
    total = op.ReduceSum(values, keepdims=0)
    return op.reshape(total, [1, 1]) if keepdim else total


@primitive("Orgqr")
def _orgqr(op: Builder, packed: Tensor, factors: Tensor) -> Value:
    """The product of Householder's mirrors, in a Loop."""
    product = _mirrored(op, packed, factors, _unit(op, packed, -2), backwards=True)
    return op.Slice(product, [0], op.Shape(packed, start=-1), [-1])


@primitive("Ormqr")
def _ormqr(
    op: Builder, packed: Tensor, factors: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Value:
    """The product of Householder's mirrors with a matrix, in a Loop."""
    start = other if left else flipped(op, other)
    product = _mirrored(op, packed, factors, start, backwards=left != transpose)
    return product if left else flipped(op, product)


@primitive("Svd")
def _svd(op: Builder, x: Tensor, full_matrices: bool = False, compute_uv: bool = True) -> Value:
    """Jacobi's rotations in a Loop."""
    left, values, right = _singular_values(op, x)
    empty = op.constant(0.0, op.dtype(x).numpy())
    if not compute_uv:
        return (values, empty, empty)
    height, width = op.static_shape(x)[-2:]
    if full_matrices and height != width:
        raise Unsupported("asks for the full matrices of a matrix that is not square")
    return (values, left, right)


# -- QR --------------------------------------------------------------------------------------------


def _mirror(b: Builder, column: Tensor, i: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Householder's vector, 1 in place i, and factor for a column (..., m, 1), and what it leaves there."""
    zero = b.like(0.0, column)
    tail = b.op("Where", b.op("Unsqueeze", b.op("Greater", rows, i), [-1]), column, zero)
    alpha = b.op("Gather", column, b.op("Unsqueeze", i, [0]), axis=-2)
    rest = b.op("ReduceSumSquare", tail, [-2], keepdims=1)
    norm = b.op("Sqrt", b.op("Add", b.op("Mul", alpha, alpha), rest))
    away = b.op("Where", b.op("Less", alpha, 0.0), norm, b.op("Neg", norm))
    nothing = b.op("Equal", rest, zero)
    left = b.op("Where", nothing, alpha, away)
    factor = b.op("Where", nothing, zero, b.op("Div", b.op("Sub", left, alpha), left))
    below = b.op("Where", nothing, zero, b.op("Div", tail, b.op("Sub", alpha, left)))
    own = b.op("Unsqueeze", b.cast(b.op("Equal", rows, i), b.dtype(column)), [-1])
    return b.op("Add", below, own), factor, left


def _reflect(b: Builder, vector: Tensor, factor: Tensor, x: Tensor) -> Tensor:
    """(1 - factor * v * v') @ x."""
    return b.op("Sub", x, b.op("Mul", vector, b.op("Mul", factor, b.op("MatMul", flipped(b, vector), x))))


def orthogonal(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Q' (..., m, m) and R (..., m, n) of x = Q @ R, by Householder's mirrors."""
    rows = counting(b, b.dim(x, -2))

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        rest, product = carried
        column = b.op("Gather", rest, b.op("Unsqueeze", i, [0]), axis=-1)
        vector, factor, _ = _mirror(b, column, i, rows)
        return [_reflect(b, vector, factor, rest), _reflect(b, vector, factor, product)]

    rest, product = repeated(b, _least(b, x), [x, _unit(b, x, -2)], turn)
    return product, b.op("Trilu", rest, upper=1)


def _least(b: Builder, x: Tensor) -> Tensor:
    return b.op("ReduceMin", b.op("Shape", x, start=-2), keepdims=0)


def _economic(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Q (..., m, k) and R (..., k, n), where k is the lesser of m and n."""
    product, rest = orthogonal(b, x)
    count = b.op("Unsqueeze", _least(b, x), [0])
    return b.op("Slice", flipped(b, product), [0], count, [-1]), b.op("Slice", rest, [0], count, [-2])


@primitive("Qr")
def qr(b: Builder, x: Tensor, full_matrices: bool = False) -> Value:
    """Householder's mirrors in a Loop."""
    if not full_matrices:
        return _economic(b, x)
    product, rest = orthogonal(b, x)
    return flipped(b, product), rest


@primitive("LinalgQr")
def linalg_qr(b: Builder, x: Tensor, mode: str = "reduced") -> Value:
    """Householder's mirrors in a Loop."""
    if mode in ("complete", "1"):
        return qr(b, x, True)
    first, second = _economic(b, x)
    return (b.constant([], b.dtype(x).numpy()), second) if mode in ("r", "2") else (first, second)


@primitive("Geqrf")
def geqrf(b: Builder, x: Tensor) -> Value:
    """Householder's mirrors in a Loop, their vectors below the diagonal."""
    rows, columns = counting(b, b.dim(x, -2)), counting(b, b.dim(x, -1))
    zero = b.like(0.0, x)
    factors = b.op("Mul", b.op("ReduceSum", x, [-2], keepdims=1), zero)

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        packed, found = carried
        column = b.op("Gather", packed, b.op("Unsqueeze", i, [0]), axis=-1)
        vector, factor, _ = _mirror(b, column, i, rows)
        below = b.op("Unsqueeze", b.op("Greater", rows, i), [-1])
        own = b.op("Equal", columns, i)
        # The mirror works on what is not packed yet: column i and those after it, rows i and below.
        changed = b.op(
            "Where", b.op("GreaterOrEqual", columns, i), _reflect(b, vector, factor, packed), packed
        )
        packed = b.op("Where", b.op("And", below, own), vector, changed)
        return [packed, b.op("Where", own, factor, found)]

    packed, found = repeated(b, _least(b, x), [x, factors], turn)
    found = b.op("Slice", found, [0], b.op("Unsqueeze", _least(b, x), [0]), [-1])
    return packed, b.op("Squeeze", found, [-2])


def _mirrored(b: Builder, packed: Tensor, factors: Tensor, start: Tensor, backwards: bool) -> Tensor:
    """The product of all mirrors (the last one first where `backwards`) times `start`."""
    rows = counting(b, b.dim(packed, -2))
    count = b.op("Squeeze", b.op("Shape", factors, start=-1), [0])
    last = b.op("Sub", count, 1)

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        i = b.op("Sub", last, number) if backwards else number
        place = b.op("Unsqueeze", i, [0])
        column = b.op("Gather", packed, place, axis=-1)
        below = b.op("Where", b.op("Unsqueeze", b.op("Greater", rows, i), [-1]), column, b.like(0.0, column))
        own = b.op("Unsqueeze", b.cast(b.op("Equal", rows, i), b.dtype(column)), [-1])
        factor = b.op("Unsqueeze", b.op("Gather", factors, place, axis=-1), [-1])
        return [_reflect(b, b.op("Add", below, own), factor, carried[0])]

    return repeated(b, count, [start], turn)[0]


@primitive("Lstsq")
def lstsq(b: Builder, x: Tensor, right: Tensor) -> Value:
    """QR by Householder's mirrors, and Gauss-Jordan elimination, in Loops."""
    height, width = b.static_shape(x)[-2:]
    column = b.rank(right) == 1
    right = b.op("Unsqueeze", right, [-1]) if column else right
    if height >= width:
        first, second = _economic(b, x)
        result = solved(b, second, b.op("MatMul", flipped(b, first), right))
    else:  # the shortest of all solutions
        first, second = _economic(b, flipped(b, x))
        result = b.op("MatMul", first, solved(b, flipped(b, second), right))
    return result


# -- singular values -------------------------------------------------------------------------------

_SWEEPS = 12
"""Turns through all pairs of columns: each one squares what is left of their products."""


def _singular(b: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U (..., m, n), the singular values (..., n), largest first, and V (..., n, n), for m >= n.

    Jacobi's rotations of pairs of columns: Golub and Van Loan, "Matrix Computations", 8.6.3.
    """
    size = b.static_shape(x)[-1]
    pairs = [(p, q) for p in range(span(size)) for q in range(p + 1, size)]
    room(len(pairs), 2)
    table = b.constant(np.asarray(pairs, np.int64).reshape(-1, 2))
    one, zero = b.like(1.0, x), b.like(0.0, x)
    columns = counting(b, size)

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        pair = b.op("Gather", table, b.op("Mod", number, b.constant(len(pairs), np.int64)), axis=0)
        first, second = b.ops("Split", 2, pair, axis=0, num_outputs=2)
        u, v = (b.op("Gather", carried[0], place, axis=-1) for place in (first, second))
        alpha, beta = (b.op("ReduceSumSquare", t, [-2], keepdims=1) for t in (u, v))
        gamma = b.op("ReduceSum", b.op("Mul", u, v), [-2], keepdims=1)
        done = b.op("Equal", gamma, zero)
        zeta = b.op("Div", b.op("Sub", beta, alpha), b.op("Mul", b.op("Where", done, one, gamma), 2.0))
        root = b.op("Sqrt", b.op("Add", b.op("Mul", zeta, zeta), 1.0))
        t = b.op("Reciprocal", b.op("Add", b.op("Abs", zeta), root))
        t = b.op("Where", b.op("Less", zeta, zero), b.op("Neg", t), t)
        t = b.op("Where", done, zero, t)
        c = b.op("Reciprocal", b.op("Sqrt", b.op("Add", b.op("Mul", t, t), 1.0)))
        s = b.op("Mul", c, t)
        return [_rotated(b, m, columns, (first, second), (c, s)) for m in carried]

    count = b.constant(len(pairs) * _SWEEPS, np.int64)
    turned, right = repeated(b, count, [x, _unit(b, x, -1)], turn) if pairs else (x, _unit(b, x, -1))
    values = b.op("ReduceL2", turned, [-2], keepdims=0)
    sorted_, order = b.ops("TopK", 2, values, [size], axis=-1, largest=1, sorted=1)
    turned, right = (
        b.op("GatherElements", m, b.op("Expand", b.op("Unsqueeze", order, [-2]), b.op("Shape", m)), axis=-1)
        for m in (turned, right)
    )
    scale = b.op("Unsqueeze", b.op("Where", b.op("Equal", sorted_, zero), one, sorted_), [-2])
    return b.op("Div", turned, scale), sorted_, right


def _rotated(
    b: Builder, m: Tensor, columns: Tensor, pair: tuple[Tensor, Tensor], turn: tuple[Tensor, Tensor]
) -> Tensor:
    """Two columns of `m` turned in their plane."""
    (first, second), (c, s) = pair, turn
    u, v = (b.op("Gather", m, place, axis=-1) for place in pair)
    new_u = b.op("Sub", b.op("Mul", c, u), b.op("Mul", s, v))
    new_v = b.op("Add", b.op("Mul", s, u), b.op("Mul", c, v))
    changed = b.op("Where", b.op("Equal", columns, second), new_v, m)
    return b.op("Where", b.op("Equal", columns, first), new_u, changed)


def _singular_values(b: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    height, width = b.static_shape(x)[-2:]
    if height >= width:
        return _singular(b, x)
    left, values, right = _singular(b, flipped(b, x))
    return right, values, left


# -- the exponential -------------------------------------------------------------------------------

_HALVINGS, _TERMS = 12, 12
