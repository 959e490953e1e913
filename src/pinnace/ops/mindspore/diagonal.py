"""Diagonals and triangles of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room, span
from pinnace.ops import binding
from pinnace.ops.mindspore.array import as_declared, counting, filled, size
from pinnace.ops.mindspore.math import beside
from pinnace.ops.table import Ints, Tensor, primitive, primitives
from pinnace.ops.values import INT32, INT64, Value


@primitive("Diag")
def diag(op: Builder, x: Tensor) -> Value:
    sizes = op.dims(x)
    row = op.reshape(x, [1, -1])
    places = counting(op, size(op, x))
    same_place = op.Equal(places, op.Unsqueeze(places, [1]))
    return op.reshape(op.Where(same_place, row, op.like(0, x)), [*sizes, *sizes])


@primitive("Diagonal")
def diagonal_of(op: Builder, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Transpose, and GatherND; of a matrix of free size at places that Range counts."""
    first, second = op.axis(dim1, x), op.axis(dim2, x)
    rest = [i for i in range(op.rank(x)) if i not in (first, second)]
    matrix = op.transpose(x, [first, second, *rest])
    height, width = op.shape(matrix)[:2]
    start = max(-offset, 0)
    if height is None or width is None:
        stops = op.Sub(op.Shape(matrix, start=0, end=2), [0, offset])
        rows = op.Range(start, op.ReduceMin(stops, keepdims=0), 1)
        places = op.Unsqueeze(rows, [1]) + op.constant([[0, offset]], np.int64)
    else:
        room(height, width)
        known = np.arange(start, max(min(height, width - offset), 0))
        places = op.constant(np.stack([known, known + offset], axis=1), np.int64)
    found = op.GatherND(matrix, places)
    return op.transpose(found, [*range(1, len(rest) + 1), 0])


@primitive("DiagExt")
def _diag_ext(op: Builder, x: Tensor, diagonal: int = 0) -> Value:
    """ScatterND of a vector into a diagonal of zeros, or the diagonal of a matrix."""
    if op.rank(x) == 2:
        return diagonal_of(op, x, diagonal)
    (count,) = op.static_shape(x)
    size = count + abs(diagonal)
    rows = np.arange(span(count)) + max(-diagonal, 0)
    places = np.stack([rows, rows + diagonal], axis=1)
    return op.ScatterND(filled(op, 0, (size, size), op.dtype(x)), op.constant(places, np.int64), x)


@primitive("DiagPart")
def _diag_part(op: Builder, x: Tensor) -> Value:
    if op.rank(x) == 2:
        return diagonal_of(op, x)
    sizes = op.static_shape(x)
    half = sizes[: len(sizes) // 2]
    count = math.prod(half)
    places = op.constant(np.arange(span(count)) * (count + 1), np.int64)
    return op.reshape(op.Gather(op.reshape(x, [-1]), places, axis=0), half)


@primitives({"Tril TrilExt": 0, "Triu": 1})
def _tril(op: Builder, upper: int, x: Tensor, diagonal: int = 0) -> Value:
    return op.Trilu(x, op.constant(diagonal, np.int64), upper=upper)


@primitives({"TrilIndices": np.tril_indices, "TriuIndices": np.triu_indices}, unused="dtype")
def triangle(
    op: Builder, places: Callable[[int, int, int], Any], *, row: int, col: int, offset: int = 0
) -> Value:
    room(row, col)
    return as_declared(op, np.stack(places(row, offset, col)), INT32)


@primitive("FillDiagonal")
def fill_diagonal(op: Builder, x: Tensor, fill_value: Value, wrap: bool = False) -> Value:
    if op.rank(x) == 2:
        rows, columns = (counting(op, op.dim(x, i)) for i in range(2))
        if wrap:
            rows = op.Mod(rows, op.Size(columns) + 1)
        mask = op.Equal(op.Unsqueeze(rows, [1]), columns)
    else:
        shape = op.static_shape(x)
        places = np.zeros(room(*shape), np.bool_)
        places[np.diag_indices(min(shape), len(shape))] = True
        mask = op.constant(places)
    return op.Where(mask, beside(op, fill_value, x), x)


_Align = Literal["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"]


def _tail(op: Builder, x: Tensor, count: int) -> tuple[int, ...]:
    """The last dimensions, which must be known now."""
    dims = tuple(d for d in op.shape(x)[-count:] if d is not None)
    if len(dims) != count:
        raise Unsupported(
            f"needs the last {count} dimensions fixed, but they are {list(op.shape(x)[-count:])}"
        )
    return dims


def _diagonal_places(rows: int, columns: int, offset: int) -> npt.NDArray[np.int64]:
    """The places of a diagonal in a flat matrix."""
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - row, columns - column), 0)
    room(count)
    return (np.arange(count) + row) * columns + np.arange(count) + column


def _gathered(op: Builder, x: Tensor, folded: int, places: npt.NDArray[np.int64], *more: Tensor) -> Tensor:
    """Elements of the last `folded` dimensions as one; what `more` holds follows them."""
    lead = op.dims(x, stop=-folded)
    flat = op.reshape(x, [*lead, int(np.prod(_tail(op, x, folded)))]) if folded != 1 else x
    if more:
        parts = [op.Expand(m, op.vector([*lead, 1])) if op.rank(m) == 0 else m for m in more]
        flat = op.Concat(flat, *parts, axis=-1)
    return op.Gather(flat, places, axis=-1)


@primitive("MatrixBandPart")
def matrix_band_part(op: Builder, x: Tensor, lower: Tensor, upper: Tensor) -> Value:
    """Trilu twice: what lies further from the diagonal is 0."""
    whole = op.constant(1 << 30, np.int64)
    for limit, is_upper in ((lower, 1), (upper, 0)):
        known = op.known(limit)
        if known is not None and binding.int_(op, limit) < 0:
            continue
        far = op.scalar(op.cast(limit, INT64))
        far = op.Where(op.Less(far, 0), whole, far)
        x = op.Trilu(x, -far if is_upper else far, upper=is_upper)
    return x


class _Diagonals:
    """The diagonals `first` to `last` of a matrix as MindSpore packs them: one a row, the highest first."""

    def __init__(self, first: int, last: int, rows: int, columns: int, align: str) -> None:
        room(rows, columns)
        self.first, self.last, self.rows, self.columns = first, span(last - first) + first, rows, columns
        self.lengths = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in range(first, last + 1)}
        self.width = max(self.lengths.values())
        self.to_right = {True: align.startswith("RIGHT"), False: align.endswith("RIGHT")}

    def places(self) -> npt.NDArray[np.int64]:
        """(diagonals, width): the place of each element in the flat matrix, -1 where a row is filled up."""
        found = np.full(room(self.last - self.first + 1, self.width), -1)
        for d, count in self.lengths.items():
            start = self.width - count if self.to_right[d >= 0] else 0
            found[self.last - d, start : start + count] = _diagonal_places(self.rows, self.columns, d)
        return found

    def sources(self) -> npt.NDArray[np.int64]:
        """(rows, columns): the place of each element in the flat diagonals, -1 where it is on none."""
        found = np.full(self.rows * self.columns, -1)
        places = self.places()
        found[places[places >= 0]] = np.flatnonzero(places.reshape(-1) >= 0)
        return found.reshape(self.rows, self.columns)


def _band(k: Ints) -> tuple[int, int]:
    """The first and the last diagonal."""
    return k[0], k[-1]


@primitive("MatrixDiagV3")
def matrix_diag(
    op: Builder,
    x: Tensor,
    k: Ints,
    num_rows: int,
    num_cols: int,
    padding_value: Tensor,
    align: _Align = "RIGHT_LEFT",
) -> Value:
    """Gather, of the diagonals and of what fills up."""
    first, last = _band(k)
    folded = 1 if first == last else 2
    if first == last == 0 and num_rows < 0 and num_cols < 0 and op.shape(x)[-1] is None:
        places = counting(op, op.dim(x, -1))
        diagonal = op.Equal(op.Unsqueeze(places, [1]), places)
        return op.Where(diagonal, op.Unsqueeze(x, [-2]), op.scalar(padding_value))
    (width,) = _tail(op, x, 1)
    least = width - min(last, 0), width + max(first, 0)
    if num_rows < 0 and num_cols < 0:
        least = max(least), max(least)
    rows = least[0] if num_rows < 0 else num_rows
    columns = least[1] if num_cols < 0 else num_cols
    sources = _Diagonals(first, last, rows, columns, align).sources()
    count = (last - first + 1) * width
    return _gathered(op, x, folded, np.where(sources < 0, count, sources), op.scalar(padding_value))


@primitive("MatrixDiagPartV3")
def _matrix_diag_part_v3(
    op: Builder, x: Tensor, k: Ints, padding_value: Tensor, align: _Align = "RIGHT_LEFT"
) -> Value:
    """Gather, of the matrix and of what fills up."""
    first, last = _band(k)
    rows, columns = _tail(op, x, 2)
    places = _Diagonals(first, last, rows, columns, align).places()
    places = np.where(places < 0, rows * columns, places)
    return _gathered(op, x, 2, places[0] if first == last else places, op.scalar(padding_value))


@primitive("MatrixSetDiagV3")
def _matrix_set_diag_v3(
    op: Builder, x: Tensor, diagonal: Tensor, k: Ints, align: _Align = "RIGHT_LEFT"
) -> Value:
    """Gather, of the matrix and of the diagonals."""
    first, last = _band(k)
    rows, columns = _tail(op, x, 2)
    sources = _Diagonals(first, last, rows, columns, align).sources()
    own = np.arange(rows * columns).reshape(rows, columns)
    lead = op.dims(x, stop=-2)
    flat = diagonal if first == last else op.reshape(diagonal, [*lead, -1])
    return _gathered(op, x, 2, np.where(sources < 0, own, sources + rows * columns), flat)
