"""Diagonals and triangles of matrices."""

from __future__ import annotations

import math

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.room import room, span
from pinnace.ops.mindspore.array import filled
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Value


@primitive("Diag")
def diag(op: Builder, x: Tensor) -> Value:
    """The vector on a diagonal of zeros, by Where."""
    sizes = op.dims(x)
    row = op.reshape(x, [1, -1])
    known = op.shape(x)
    if None in known:
        places = op.Range(0, op.Size(x), 1)
        same_place = op.Equal(places, op.Unsqueeze(places, [1]))
    else:
        count = math.prod(d for d in known if d is not None)
        same_place = op.constant(np.eye(*room(count, count), dtype=np.bool_))
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
    """Reshape and Gather."""
    if op.rank(x) == 2:
        return diagonal_of(op, x)
    sizes = op.static_shape(x)
    half = sizes[: len(sizes) // 2]
    count = math.prod(half)
    places = op.constant(np.arange(span(count)) * (count + 1), np.int64)
    return op.reshape(op.Gather(op.reshape(x, [-1]), places, axis=0), half)


@primitives({"Tril TrilExt": 0, "Triu": 1})
def _tril(op: Builder, upper: int, x: Tensor, diagonal: int = 0) -> Value:
    """Trilu."""
    return op.Trilu(x, op.constant(diagonal, np.int64), upper=upper)
