"""MindSpore Lite: tables of embeddings, sparse and ragged tensors."""

from __future__ import annotations

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.ops.lite.math import lite, lite_formulas
from pinnace.ops.mindspore.array import counting
from pinnace.ops.mindspore.experts import inverse_order
from pinnace.ops.mindspore.segments import sorted_segments
from pinnace.ops.table import Tensor
from pinnace.ops.values import BOOL, INT32, INT64, UINT8, Value


@lite("EmbeddingLookupFusion")
def _embedding_lookup_fusion(op: Builder, *inputs: Tensor, max_norm: float = 0.0) -> Value:
    """Gather of the rows of all tables; rows longer than max_norm are shortened to it."""
    tables, indices = inputs[:-1], inputs[-1]
    table = tables[0] if len(tables) == 1 else op.Concat(*tables, axis=0)
    rows = op.Gather(table, indices, axis=0)
    if max_norm == 0:
        return rows
    axes = range(op.rank(indices), op.rank(rows))
    length = op.Sqrt(op.ReduceSumSquare(rows, axes, keepdims=1))
    shorter = rows * (max_norm / length)
    return op.Where(op.Greater(length, max_norm), shorter, rows)


@lite("HashtableLookup")
def _hashtable_lookup(op: Builder, x: Tensor, keys: Tensor, values: Tensor) -> Value:
    """Equal, ArgMax, Gather; zeros, and 0 as second result, for what is not among the keys."""
    hits = op.cast(op.Equal(op.Unsqueeze(x, [1]), op.Unsqueeze(keys, [0])), INT32)
    hit = op.ReduceMax(hits, [1], keepdims=0)
    rows = op.Gather(values, op.ArgMax(hits, axis=1, keepdims=0), axis=0)
    known = op.reshape(op.cast(hit, BOOL), [-1, *[1] * (op.rank(rows) - 1)])
    return (op.Where(known, rows, 0), op.cast(hit, UINT8))


@lite("SparseFillEmptyRows")
def _sparse_fill_empty_rows(
    op: Builder, indices: Tensor, values: Tensor, shape: Tensor, fill: Tensor
) -> Value:
    """The rows without a value by ScatterND; Concat of a first column for each, in order by TopK."""
    wide = op.cast(indices, INT64)
    row = op.Slice(wide, [0], [1], [1])
    count = op.Slice(op.cast(shape, INT64), [0], [1], [0])
    ones = op.Expand(op.like(False, op.Equal(row, row)), op.Shape(row, end=1))
    empty = op.ScatterND(op.Expand(op.constant(True), count), row, ones)
    missing = op.transpose(op.NonZero(empty), (1, 0))
    columns = op.static_shape(wide)[1]
    added = op.Pad(missing, [0, 0, 0, columns - 1])
    every = op.Concat(wide, added, axis=0)
    default = op.Expand(op.scalar(fill), op.Shape(missing, end=1))
    results = op.Concat(values, default, axis=0)
    key = op.Squeeze(op.Slice(every, [0], [1], [1]), [1])
    # Equal keys keep their order: TopK gives the lower place first.
    _, order = op.ops("TopK", 2, key, op.Shape(key), axis=0, largest=0, sorted=1)
    moved, entries = op.Gather(every, order, axis=0), op.Gather(results, order, axis=0)
    sources = counting(op, op.Size(row))
    positions = inverse_order(op, order)
    return (
        op.cast(moved, op.dtype(indices)),
        entries,
        empty,
        op.cast(op.Gather(positions, sources, axis=0), op.dtype(indices)),
    )


@lite("SparseReshape")
def _sparse_reshape(op: Builder, indices: Tensor, shape: Tensor, target: Tensor) -> Value:
    """The places in the flat tensor, by Mul and ReduceSum, in the new shape by Div and Mod."""
    before, after = op.cast(shape, INT64), op.cast(target, INT64)
    whole = op.ReduceProd(before, keepdims=1)
    free = op.Equal(after, -1)
    known = op.ReduceProd(op.Where(free, 1, after), keepdims=1)
    after = op.Where(free, whole / known, after)
    places = op.cast(indices, INT64) * _strides(op, before)
    flat = op.ReduceSum(places, [1], keepdims=1)
    moved = op.Mod(flat / _strides(op, after), after)
    return (op.cast(moved, op.dtype(indices)), op.cast(after, op.dtype(shape)))


@lite("SparseToDense")
def _sparse_to_dense(
    op: Builder, indices: Tensor, shape: Tensor, values: Tensor, default: Tensor | None = None
) -> Value:
    """Expand of the default, ScatterND of the values."""
    fill = op.like(0, values) if default is None else op.scalar(default)
    dense = op.Expand(fill, op.cast(shape, INT64))
    places = op.cast(indices, INT64)
    places = op.reshape(places, [-1, 1]) if op.rank(indices) < 2 else places
    values = op.reshape(values, [-1])
    return op.ScatterND(dense, places, op.Expand(values, op.Shape(places, end=1)))


def _strides(op: Builder, shape: Tensor) -> Tensor:
    """The number of elements that a step along each dimension passes."""
    (count,) = op.static_shape(shape)
    below = np.arange(count)[None, :] > np.arange(count)[:, None]
    factors = op.Where(op.constant(below), op.Unsqueeze(shape, [0]), 1)
    return op.ReduceProd(factors, [1], keepdims=0)


lite_formulas(
    {
        "InvertPermutation": lambda op, x: op.cast(inverse_order(op, op.cast(x, INT64)), op.dtype(x)),
        "SparseSegmentSum": lambda op, x, indices, ids: sorted_segments(
            op, "add", op.Gather(x, indices, axis=0), ids
        ),
    }
)
