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
def diag(b: Builder, x: Tensor) -> Value:
    """The vector on a diagonal of zeros, by Where."""
    sizes = b.dims(x)
    row = b.reshape(x, [1, -1])
    known = b.shape(x)
    if None in known:
        places = b.op("Range", 0, b.op("Size", x), 1)
        same_place = b.op("Equal", places, b.op("Unsqueeze", places, [1]))
    else:
        count = math.prod(d for d in known if d is not None)
        same_place = b.constant(np.eye(*room(count, count), dtype=np.bool_))
    return b.reshape(b.op("Where", same_place, row, b.like(0, x)), [*sizes, *sizes])


@primitive("Diagonal")
def diagonal_of(b: Builder, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Transpose, and GatherND; of a matrix of free size at places that Range counts."""
    first, second = b.axis(dim1, x), b.axis(dim2, x)
    rest = [i for i in range(b.rank(x)) if i not in (first, second)]
    matrix = b.transpose(x, [first, second, *rest])
    height, width = b.shape(matrix)[:2]
    start = max(-offset, 0)
    if height is None or width is None:
        stops = b.op("Sub", b.op("Shape", matrix, start=0, end=2), [0, offset])
        rows = b.op("Range", start, b.op("ReduceMin", stops, keepdims=0), 1)
        places = b.op("Add", b.op("Unsqueeze", rows, [1]), b.constant([[0, offset]], np.int64))
    else:
        room(height, width)
        known = np.arange(start, max(min(height, width - offset), 0))
        places = b.constant(np.stack([known, known + offset], axis=1), np.int64)
    found = b.op("GatherND", matrix, places)
    return b.transpose(found, [*range(1, len(rest) + 1), 0])


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
