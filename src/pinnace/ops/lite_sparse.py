"""MindSpore Lite: tables of embeddings, sparse and ragged tensors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.experts import inverse_order
from pinnace.ops.lite_math import lite, lite_formulas
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


lite_formulas(
    __name__,
    """
    InvertPermutation: x -> cast(inverse_order(cast(x, INT64)), dtype(x))
    SparseSegmentSum: x, indices, segments -> sorted_segments('add', Gather(x, indices, axis=0), segments)
    """,
)


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
    positions = inverse_order(b, order)
    return (
        b.cast(moved, b.dtype(indices)),
        entries,
        empty,
        b.cast(b.op("Gather", positions, sources, axis=0), b.dtype(indices)),
    )
