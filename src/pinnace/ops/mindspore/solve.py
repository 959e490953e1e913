"""Systems of linear equations, which ONNX has no operator for: elimination in a Loop over the columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.array import END, counting
from pinnace.ops.mindspore.cumulative import repeated
from pinnace.ops.mindspore.linalg import flipped
from pinnace.ops.mindspore.math import floating
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value


def solved(op: Builder, matrix: Tensor, right: Tensor) -> Tensor:
    """The solution of `matrix @ x = right`, (..., n, n) and (..., n, m), by Gauss-Jordan with row pivots."""
    size = op.Squeeze(op.Shape(matrix, start=-1), [0])
    rows = counting(op, size)
    joined = op.Concat(matrix, right, axis=-1)

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        m = _exchanged(op, carried[0], i, rows)
        pivot = op.Gather(m, op.Unsqueeze(i, [0]), axis=-2)
        pivot = pivot / op.Gather(pivot, op.Unsqueeze(i, [0]), axis=-1)
        column = op.Gather(m, op.Unsqueeze(i, [0]), axis=-1)
        own = op.Unsqueeze(op.cast(op.Equal(rows, i), op.dtype(m)), [-1])
        return [m - (column - own) * pivot]

    (done,) = repeated(op, size, [joined], turn)
    end = op.constant([END], np.int64)
    return op.Slice(done, op.Unsqueeze(size, [0]), end, [-1])


def _exchanged(op: Builder, m: Tensor, i: Tensor, rows: Tensor) -> Tensor:
    """Row `i` exchanged with the one below that is largest in column `i`."""
    size = op.Abs(op.Gather(m, i, axis=-1))
    below = op.Where(op.GreaterOrEqual(rows, i), size, op.like(-1.0, m))
    largest = op.ArgMax(below, axis=-1, keepdims=1)
    order = op.Where(op.Equal(rows, largest), i, rows)
    order = op.Where(op.Equal(rows, i), largest, order)
    return op.GatherElements(m, op.Expand(op.Unsqueeze(order, [-1]), op.Shape(m)), axis=-2)


def inverse(op: Builder, x: Tensor) -> Tensor:
    """The inverses of matrices (..., n, n)."""
    return solved(op, x, op.Expand(_identity(op, x), op.Shape(x)))


def _identity(op: Builder, x: Tensor) -> Tensor:
    matrix = op.Expand(op.like(1.0, x), op.Shape(x, start=-2))
    return op.EyeLike(matrix)


def triangle(op: Builder, x: Tensor, upper: bool, unit: bool = False) -> Value:
    """Half of a matrix; with `unit` its diagonal is 1."""
    if not unit:
        return op.Trilu(x, upper=int(upper))
    half = op.Trilu(x, op.constant(1 if upper else -1, np.int64), upper=int(upper))
    return half + _identity(op, x)


@primitive("CholeskyInverse")
def _cholesky_inverse(op: Builder, x: Tensor, upper: bool = False) -> Value:
    """MatMul, and Gauss-Jordan elimination in a Loop."""
    # MindSpore reads both triangles
    inverted = inverse(op, x)
    first, second = (inverted, flipped(op, inverted)) if upper else (flipped(op, inverted), inverted)
    return op.MatMul(first, second)


@primitive("CholeskySolve")
def _cholesky_solve(op: Builder, right: Tensor, factor: Tensor, upper: bool = False) -> Value:
    """Gauss-Jordan elimination in a Loop, twice."""
    half = triangle(op, factor, upper)
    first, second = (flipped(op, half), half) if upper else (half, flipped(op, half))
    return solved(op, second, solved(op, first, right))


@primitive("MatrixInverse", "MatrixInverseExt")
def _matrix_inverse(op: Builder, x: Tensor, adjoint: bool = False) -> Value:
    return inverse(op, flipped(op, x) if adjoint else x)


@primitive("MatrixSolve")
def _matrix_solve(op: Builder, matrix: Tensor, rhs: Tensor, adjoint: bool = False) -> Value:
    return solved(op, flipped(op, matrix) if adjoint else matrix, rhs)


@primitive("MatrixTriangularSolve")
def _matrix_triangular_solve(
    op: Builder, matrix: Tensor, rhs: Tensor, lower: bool = True, adjoint: bool = False
) -> Value:
    """Trilu, and Gauss-Jordan elimination in a Loop."""
    half = triangle(op, matrix, not lower)
    return solved(op, flipped(op, half) if adjoint else half, rhs)


@primitive("SolveTriangular")
def _solve_triangular(
    op: Builder, a: Tensor, right: Tensor, trans: int = 0, lower: bool = False, unit_diagonal: bool = False
) -> Value:
    """Trilu, and Gauss-Jordan elimination in a Loop; of integers in the result's type."""
    a, right = floating(op, a), floating(op, right)
    half = triangle(op, a, not lower, unit_diagonal)
    half = flipped(op, half) if trans else half
    return (
        solved(op, half, right)
        if op.rank(right) == op.rank(a)
        else op.Squeeze(solved(op, half, op.Unsqueeze(right, [-1])), [-1])
    )


@primitive("TriangularSolve")
def _triangular_solve(
    op: Builder,
    right: Tensor,
    a: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Value:
    """Trilu, and Gauss-Jordan elimination in a Loop."""
    half = triangle(op, a, upper, unitriangular)
    return (solved(op, flipped(op, half) if transpose else half, right), a)


@primitive("MatrixPower")
def matrix_power(op: Builder, x: Tensor, n: int) -> Value:
    """MatMul of squares; of the inverse where n is negative."""
    base = inverse(op, x) if n < 0 else x
    result: Tensor | None = None
    for bit in bin(abs(n))[:1:-1]:
        if bit == "1":
            result = base if result is None else op.MatMul(result, base)
        base = op.MatMul(base, base)
    return op.Expand(_identity(op, x), op.Shape(x)) if result is None else result


@primitive("Cholesky")
def cholesky(op: Builder, x: Tensor, upper: bool = False) -> Value:
    """A column a turn of a Loop."""
    size = op.Squeeze(op.Shape(x, start=-1), [0])
    rows = counting(op, size)
    zero = op.like(0.0, x)

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        rest, found = carried
        place = op.Unsqueeze(i, [0])
        column = op.Gather(rest, place, axis=-1)
        column = column / op.Sqrt(op.Gather(column, place, axis=-2))
        from_here = op.Unsqueeze(op.GreaterOrEqual(rows, i), [-1])
        column = op.Where(from_here, column, zero)
        rest = rest - column * flipped(op, column)
        return rest, found + column * op.cast(op.Equal(rows, i), op.dtype(x))

    _, lower = repeated(op, size, [x, x * zero], turn)
    return flipped(op, lower) if upper else lower
