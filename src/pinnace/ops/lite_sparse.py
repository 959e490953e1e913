"""MindSpore Lite: tables of embeddings, sparse and ragged tensors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.lite_math import lite
from pinnace.ops.table import Tensor
from pinnace.ops.values import Value


@lite("EmbeddingLookupFusion")
def embedding_lookup(b: Builder, *inputs: Tensor, max_norm: float = 0.0) -> Value:
    """Gather of the rows of all tables; rows longer than max_norm are shortened to it."""
    *tables, indices = inputs
    table = tables[0] if len(tables) == 1 else b.op("Concat", *tables, axis=0)
    rows = b.op("Gather", table, indices, axis=0)
    if max_norm == 0:
        return rows
    axes = list(range(b.rank(indices), b.rank(rows)))
    length = b.op("Sqrt", b.op("ReduceSumSquare", rows, axes, keepdims=1))
    shorter = b.op("Mul", rows, b.op("Div", b.like(max_norm, rows), length))
    return b.op("Where", b.op("Greater", length, max_norm), shorter, rows)


@lite("HashtableLookup")
def hashtable_lookup(b: Builder, x: Tensor, keys: Tensor, values: Tensor) -> Value:
    """Equal, ArgMax, Gather; zeros, and 0 as second result, for what is not among the keys."""
    hits = b.cast(b.op("Equal", b.op("Unsqueeze", x, [1]), b.op("Unsqueeze", keys, [0])), ir.DataType.INT32)
    hit = b.op("ReduceMax", hits, [1], keepdims=0)
    rows = b.op("Gather", values, b.op("ArgMax", hits, axis=1, keepdims=0), axis=0)
    known = b.reshape(b.cast(hit, ir.DataType.BOOL), [-1, *[1] * (b.rank(rows) - 1)])
    return b.op("Where", known, rows, b.like(0, rows)), b.cast(hit, ir.DataType.UINT8)


@lite("SparseToDense")
def sparse_to_dense(
    b: Builder, indices: Tensor, shape: Tensor, values: Tensor, default: Tensor | None = None
) -> Value:
    """Expand of the default, ScatterND of the values."""
    fill = b.like(0, values) if default is None else b.scalar(default)
    dense = b.op("Expand", fill, b.cast(shape, ir.DataType.INT64))
    places = b.cast(indices, ir.DataType.INT64)
    places = b.reshape(places, [-1, 1]) if b.rank(indices) < 2 else places
    values = b.reshape(values, [-1])
    return b.op("ScatterND", dense, places, b.op("Expand", values, b.op("Shape", places, end=1)))


@lite("SparseReshape")
def sparse_reshape(b: Builder, indices: Tensor, shape: Tensor, target: Tensor) -> Value:
    """The places in the flat tensor, by Mul and ReduceSum, in the new shape by Div and Mod."""
    before, after = b.cast(shape, ir.DataType.INT64), b.cast(target, ir.DataType.INT64)
    whole = b.op("ReduceProd", before, keepdims=1)
    free = b.op("Equal", after, -1)
    known = b.op("ReduceProd", b.op("Where", free, b.like(1, after), after), keepdims=1)
    after = b.op("Where", free, b.op("Div", whole, known), after)
    places = b.op("Mul", b.cast(indices, ir.DataType.INT64), _strides(b, before))
    flat = b.op("ReduceSum", places, [1], keepdims=1)
    moved = b.op("Mod", b.op("Div", flat, _strides(b, after)), after)
    return b.cast(moved, b.dtype(indices)), b.cast(after, b.dtype(shape))


def _strides(b: Builder, shape: Tensor) -> Tensor:
    """The number of elements that a step along each dimension passes."""
    (rank,) = b.static_shape(shape)
    below = np.arange(rank)[None, :] > np.arange(rank)[:, None]
    factors = b.op("Where", b.constant(below), b.op("Unsqueeze", shape, [0]), b.like(1, shape))
    return b.op("ReduceProd", factors, [1], keepdims=0)


@lite("SparseSegmentSum")
def sparse_segment_sum(b: Builder, x: Tensor, indices: Tensor, segments: Tensor) -> Value:
    """Gather, ScatterND with addition."""
    rows = b.op("Gather", x, indices, axis=0)
    count = b.op("Add", b.op("ReduceMax", b.cast(segments, ir.DataType.INT64), keepdims=1), 1)
    shape = b.op("Concat", count, b.op("Shape", x, start=1), axis=0)
    zeros = b.op("Expand", b.like(0, x), shape)
    places = b.reshape(b.cast(segments, ir.DataType.INT64), [-1, 1])
    return b.op("ScatterND", zeros, places, rows, reduction="add")


@lite("SparseFillEmptyRows")
def sparse_fill_empty_rows(b: Builder, indices: Tensor, values: Tensor, shape: Tensor, fill: Tensor) -> Value:
    """The rows without a value by ScatterND; Concat of a first column for each, in order by TopK."""
    wide = b.cast(indices, ir.DataType.INT64)
    row = b.op("Slice", wide, [0], [1], [1])
    count = b.op("Slice", b.cast(shape, ir.DataType.INT64), [0], [1], [0])
    ones = b.op("Expand", b.like(False, b.op("Equal", row, row)), b.op("Shape", row, end=1))
    empty = b.op("ScatterND", b.op("Expand", b.constant(True), count), row, ones)
    missing = b.transpose(b.op("NonZero", empty), (1, 0))
    columns = b.static_shape(wide)[1]
    added = b.op("Pad", missing, [0, 0, 0, columns - 1])
    every = b.op("Concat", wide, added, axis=0)
    default = b.op("Expand", b.scalar(fill), b.op("Shape", missing, end=1))
    results = b.op("Concat", values, default, axis=0)
    key = b.op("Squeeze", b.op("Slice", every, [0], [1], [1]), [1])
    # Equal keys keep their order: TopK gives the lower place first.
    _, order = b.ops("TopK", 2, key, b.op("Shape", key), axis=0, largest=0, sorted=1)
    moved, entries = b.op("Gather", every, order, axis=0), b.op("Gather", results, order, axis=0)
    sources = counting(b, b.op("Size", row))
    positions = _positions(b, order)
    return (
        b.cast(moved, b.dtype(indices)),
        entries,
        empty,
        b.cast(b.op("Gather", positions, sources, axis=0), b.dtype(indices)),
    )


def _positions(b: Builder, order: Tensor) -> Tensor:
    """The inverse of a permutation."""
    count = counting(b, b.op("Size", order))
    return b.op("ScatterElements", order, order, count, axis=0)


@lite("InvertPermutation")
def invert_permutation(b: Builder, x: Tensor) -> Value:
    """ScatterElements of a Range."""
    return b.cast(_positions(b, b.cast(x, ir.DataType.INT64)), b.dtype(x))


@lite("RaggedRange")
def ragged_range(b: Builder, starts: Tensor, limits: Tensor, deltas: Tensor) -> Value:
    """The end of every range by CumSum, and the range of every element by Greater and ReduceSum."""
    start, limit, delta = (b.cast(v, ir.DataType.FLOAT) for v in (starts, limits, deltas))
    length = b.op("Ceil", b.op("Div", b.op("Sub", limit, start), delta))
    length = b.cast(b.op("Max", length, 0.0), ir.DataType.INT64)
    ends = b.op("CumSum", length, b.constant(0, np.int64))
    total = b.op("ReduceSum", length, keepdims=0)
    place = counting(b, total)
    past = b.op("GreaterOrEqual", b.op("Unsqueeze", place, [1]), b.op("Unsqueeze", ends, [0]))
    own = b.op("ReduceSum", b.cast(past, ir.DataType.INT64), [1], keepdims=0)
    step = b.op("Sub", place, b.op("Gather", b.op("Sub", ends, length), own, axis=0))
    offset = b.op("Mul", b.cast(step, b.dtype(deltas)), b.op("Gather", deltas, own, axis=0))
    splits = b.op("Concat", b.constant([0], np.int64), ends, axis=0)
    return b.cast(splits, ir.DataType.INT32), b.op("Add", b.op("Gather", starts, own, axis=0), offset)
