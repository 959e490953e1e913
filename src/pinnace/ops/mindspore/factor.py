"""Factors of matrices: LU, QR, singular values, and the exponential."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room, span
from pinnace.ops.mindspore.array import counting, repeated
from pinnace.ops.mindspore.linalg import flipped, identity, solved, triangle
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import DOUBLE, INT64, Value


def _exchanges(op: Builder, pivots: Tensor, size: int | Tensor) -> Tensor:
    """The rows' order after row i was exchanged with row pivots[i], counted from 1, for i = 0, 1, ..."""
    rows = counting(op, size)
    wanted = op.cast(pivots, INT64) - 1
    batch = op.Concat(op.Shape(pivots, end=-1), op.Shape(rows), axis=0)

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        place = op.Unsqueeze(i, [0])
        other = op.Gather(wanted, place, axis=-1)
        order = op.Where(op.Equal(rows, other), i, op.Where(op.Equal(rows, i), other, rows))
        return [op.GatherElements(carried[0], order, axis=-1)]

    first = op.Expand(rows, batch)
    first.shape = ir.Shape([*op.shape(pivots)[:-1], size if isinstance(size, int) else None])
    return repeated(op, op.tensor(op.dim(pivots, -1)), [first], turn)[0]


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
    small = op.cast(x, DOUBLE) * 2.0 ** (-_HALVINGS)
    one = identity(op, small, -1)
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
    product = _mirrored(op, packed, factors, identity(op, packed, -2), backwards=True)
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


def _mirror(op: Builder, column: Tensor, i: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Householder's vector, 1 in place i, and factor for a column (..., m, 1), and what it leaves there."""
    zero = op.like(0.0, column)
    tail = op.Where(op.Unsqueeze(op.Greater(rows, i), [-1]), column, zero)
    alpha = op.Gather(column, op.Unsqueeze(i, [0]), axis=-2)
    rest = op.ReduceSumSquare(tail, [-2], keepdims=1)
    norm = op.Sqrt(alpha * alpha + rest)
    away = op.Where(op.Less(alpha, 0.0), norm, -norm)
    nothing = op.Equal(rest, zero)
    left = op.Where(nothing, alpha, away)
    factor = op.Where(nothing, zero, (left - alpha) / left)
    below = op.Where(nothing, zero, tail / (alpha - left))
    own = op.Unsqueeze(op.cast(op.Equal(rows, i), op.dtype(column)), [-1])
    return below + own, factor, left


def _reflect(op: Builder, vector: Tensor, factor: Tensor, x: Tensor) -> Value:
    """(1 - factor * v * v') @ x."""
    return x - vector * (factor * op.MatMul(flipped(op, vector), x))


def orthogonal(op: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Q' (..., m, m) and R (..., m, n) of x = Q @ R, by Householder's mirrors."""
    rows = counting(op, op.dim(x, -2))

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        rest, product = carried
        column = op.Gather(rest, op.Unsqueeze(i, [0]), axis=-1)
        vector, factor, _ = _mirror(op, column, i, rows)
        return [_reflect(op, vector, factor, rest), _reflect(op, vector, factor, product)]

    rest, product = repeated(op, _least(op, x), [x, identity(op, x, -2)], turn)
    return product, op.Trilu(rest, upper=1)


def _least(op: Builder, x: Tensor) -> Tensor:
    return op.ReduceMin(op.Shape(x, start=-2), keepdims=0)


def _economic(op: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Q (..., m, k) and R (..., k, n), where k is the lesser of m and n."""
    product, rest = orthogonal(op, x)
    count = op.Unsqueeze(_least(op, x), [0])
    return op.Slice(flipped(op, product), [0], count, [-1]), op.Slice(rest, [0], count, [-2])


@primitive("Qr")
def qr(op: Builder, x: Tensor, full_matrices: bool = False) -> Value:
    """Householder's mirrors in a Loop."""
    if not full_matrices:
        return _economic(op, x)
    product, rest = orthogonal(op, x)
    return flipped(op, product), rest


@primitive("LinalgQr")
def linalg_qr(op: Builder, x: Tensor, mode: str = "reduced") -> Value:
    if mode in ("complete", "1"):
        return qr(op, x, True)
    first, second = _economic(op, x)
    return (op.constant([], op.dtype(x).numpy()), second) if mode in ("r", "2") else (first, second)


@primitive("Geqrf")
def geqrf(op: Builder, x: Tensor) -> Value:
    """Householder's mirrors in a Loop, their vectors below the diagonal."""
    rows, columns = counting(op, op.dim(x, -2)), counting(op, op.dim(x, -1))
    zero = op.like(0.0, x)
    factors = op.ReduceSum(x, [-2], keepdims=1) * zero

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        packed, found = carried
        column = op.Gather(packed, op.Unsqueeze(i, [0]), axis=-1)
        vector, factor, _ = _mirror(op, column, i, rows)
        below = op.Unsqueeze(op.Greater(rows, i), [-1])
        own = op.Equal(columns, i)
        # The mirror works on what is not packed yet: column i and those after it, rows i and below.
        changed = op.Where(op.GreaterOrEqual(columns, i), _reflect(op, vector, factor, packed), packed)
        packed = op.Where(op.And(below, own), vector, changed)
        return [packed, op.Where(own, factor, found)]

    packed, found = repeated(op, _least(op, x), [x, factors], turn)
    found = op.Slice(found, [0], op.Unsqueeze(_least(op, x), [0]), [-1])
    return packed, op.Squeeze(found, [-2])


def _mirrored(op: Builder, packed: Tensor, factors: Tensor, start: Tensor, backwards: bool) -> Tensor:
    """The product of all mirrors (the last one first where `backwards`) times `start`."""
    rows = counting(op, op.dim(packed, -2))
    count = op.Squeeze(op.Shape(factors, start=-1), [0])
    last = count - 1

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        i = last - number if backwards else number
        place = op.Unsqueeze(i, [0])
        column = op.Gather(packed, place, axis=-1)
        below = op.Where(op.Unsqueeze(op.Greater(rows, i), [-1]), column, op.like(0.0, column))
        own = op.Unsqueeze(op.cast(op.Equal(rows, i), op.dtype(column)), [-1])
        factor = op.Unsqueeze(op.Gather(factors, place, axis=-1), [-1])
        return [_reflect(op, below + own, factor, carried[0])]

    return repeated(op, count, [start], turn)[0]


@primitive("Lstsq")
def lstsq(op: Builder, x: Tensor, right: Tensor) -> Value:
    """QR by Householder's mirrors, and Gauss-Jordan elimination, in Loops."""
    height, width = op.static_shape(x)[-2:]
    column = op.rank(right) == 1
    right = op.Unsqueeze(right, [-1]) if column else right
    if height >= width:
        first, second = _economic(op, x)
        return solved(op, second, op.MatMul(flipped(op, first), right))
    first, second = _economic(op, flipped(op, x))  # the shortest of all solutions
    return op.MatMul(first, solved(op, flipped(op, second), right))


_SWEEPS = 12
"""Turns through all pairs of columns: each one squares what is left of their products."""


def _singular(op: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U (..., m, n), the singular values (..., n), largest first, and V (..., n, n), for m >= n.

    Jacobi's rotations of pairs of columns: Golub and Van Loan, "Matrix Computations", 8.6.3.
    """
    size = op.static_shape(x)[-1]
    pairs = [(p, q) for p in range(span(size)) for q in range(p + 1, size)]
    room(len(pairs), 2)
    table = op.constant(np.asarray(pairs, np.int64).reshape(-1, 2))
    one, zero = op.like(1.0, x), op.like(0.0, x)
    columns = counting(op, size)

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        pair = op.Gather(table, op.Mod(number, op.constant(len(pairs), np.int64)), axis=0)
        first, second = op.ops("Split", 2, pair, axis=0, num_outputs=2)
        u, v = (op.Gather(carried[0], place, axis=-1) for place in (first, second))
        alpha, beta = (op.ReduceSumSquare(t, [-2], keepdims=1) for t in (u, v))
        gamma = op.ReduceSum(u * v, [-2], keepdims=1)
        done = op.Equal(gamma, zero)
        zeta = (beta - alpha) / (op.Where(done, one, gamma) * 2.0)
        root = op.Sqrt(zeta * zeta + 1.0)
        t = op.Reciprocal(op.Abs(zeta) + root)
        t = op.Where(op.Less(zeta, zero), -t, t)
        t = op.Where(done, zero, t)
        c = op.Reciprocal(op.Sqrt(t * t + 1.0))
        s = c * t
        return [_rotated(op, m, columns, (first, second), (c, s)) for m in carried]

    count = op.constant(len(pairs) * _SWEEPS, np.int64)
    turned, right = repeated(op, count, [x, identity(op, x, -1)], turn) if pairs else (x, identity(op, x, -1))
    values = op.ReduceL2(turned, [-2], keepdims=0)
    sorted_, order = op.ops("TopK", 2, values, [size], axis=-1, largest=1, sorted=1)
    turned, right = (
        op.GatherElements(m, op.Expand(op.Unsqueeze(order, [-2]), op.Shape(m)), axis=-1)
        for m in (turned, right)
    )
    scale = op.Unsqueeze(op.Where(op.Equal(sorted_, zero), one, sorted_), [-2])
    return turned / scale, sorted_, right


def _rotated(
    op: Builder, m: Tensor, columns: Tensor, pair: tuple[Tensor, Tensor], turn: tuple[Tensor, Tensor]
) -> Tensor:
    """Two columns of `m` turned in their plane."""
    (first, second), (c, s) = pair, turn
    u, v = (op.Gather(m, place, axis=-1) for place in pair)
    new_u = c * u - s * v
    new_v = s * u + c * v
    changed = op.Where(op.Equal(columns, second), new_v, m)
    return op.Where(op.Equal(columns, first), new_u, changed)


def _singular_values(op: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    height, width = op.static_shape(x)[-2:]
    if height >= width:
        return _singular(op, x)
    left, values, right = _singular(op, flipped(op, x))
    return right, values, left


_HALVINGS, _TERMS = 12, 12
