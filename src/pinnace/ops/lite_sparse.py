"""MindSpore Lite: tables of embeddings, sparse and ragged tensors."""

from __future__ import annotations

from pinnace.ops.formulas import functions
from pinnace.ops.lite_math import lite_formulas

lite_formulas(
    __name__,
    """
    EmbeddingLookupFusion: *inputs, max_norm: float = 0.0 ->
        # Gather of the rows of all tables; rows longer than max_norm are shortened to it.
        tables, indices = inputs[:-1], inputs[-1]
        table = tables[0] if len(tables) == 1 else Concat(*tables, axis=0)
        rows = Gather(table, indices, axis=0)
        if max_norm == 0:
            return rows
        axes = range(rank(indices), rank(rows))
        length = Sqrt(ReduceSumSquare(rows, axes, keepdims=1))
        shorter = rows * (max_norm / length)
        Where(length > max_norm, shorter, rows)
    HashtableLookup: x, keys, values ->
        # Equal, ArgMax, Gather; zeros, and 0 as second result, for what is not among the keys.
        hits = cast(Unsqueeze(x, [1]) == Unsqueeze(keys, [0]), INT32)
        hit = ReduceMax(hits, [1], keepdims=0)
        rows = Gather(values, ArgMax(hits, axis=1, keepdims=0), axis=0)
        known = reshape(cast(hit, BOOL), [-1, *[1] * (rank(rows) - 1)])
        (Where(known, rows, 0), cast(hit, UINT8))
    InvertPermutation: x -> cast(inverse_order(cast(x, INT64)), dtype(x))
    SparseFillEmptyRows: indices, values, shape, fill ->
        # The rows without a value by ScatterND; Concat of a first column for each, in order by TopK.
        wide = cast(indices, INT64)
        row = Slice(wide, [0], [1], [1])
        count = Slice(cast(shape, INT64), [0], [1], [0])
        ones = Expand(like(False, row == row), Shape(row, end=1))
        empty = ScatterND(Expand(constant(True), count), row, ones)
        missing = transpose(NonZero(empty), (1, 0))
        columns = static_shape(wide)[1]
        added = Pad(missing, [0, 0, 0, columns - 1])
        every = Concat(wide, added, axis=0)
        default = Expand(scalar(fill), Shape(missing, end=1))
        results = Concat(values, default, axis=0)
        key = Squeeze(Slice(every, [0], [1], [1]), [1])
        # Equal keys keep their order: TopK gives the lower place first.
        _, order = ops("TopK", 2, key, Shape(key), axis=0, largest=0, sorted=1)
        moved, entries = Gather(every, order, axis=0), Gather(results, order, axis=0)
        sources = counting(Size(row))
        positions = inverse_order(order)
        (
            cast(moved, dtype(indices)),
            entries,
            empty,
            cast(Gather(positions, sources, axis=0), dtype(indices)),
        )
    SparseReshape: indices, shape, target ->
        # The places in the flat tensor, by Mul and ReduceSum, in the new shape by Div and Mod.
        before, after = cast(shape, INT64), cast(target, INT64)
        whole = ReduceProd(before, keepdims=1)
        free = after == -1
        known = ReduceProd(Where(free, 1, after), keepdims=1)
        after = Where(free, whole / known, after)
        places = cast(indices, INT64) * strides(before)
        flat = ReduceSum(places, [1], keepdims=1)
        moved = Mod(flat / strides(after), after)
        (cast(moved, dtype(indices)), cast(after, dtype(shape)))
    SparseSegmentSum: x, indices, segments -> sorted_segments("add", Gather(x, indices, axis=0), segments)
    SparseToDense: indices, shape, values, default = None ->
        # Expand of the default, ScatterND of the values.
        fill = like(0, values) if default is None else scalar(default)
        dense = Expand(fill, cast(shape, INT64))
        places = cast(indices, INT64)
        places = reshape(places, [-1, 1]) if rank(indices) < 2 else places
        values = reshape(values, [-1])
        ScatterND(dense, places, Expand(values, Shape(places, end=1)))
    """,
)


functions(
    __name__,
    """
    strides: shape ->
        # The number of elements that a step along each dimension passes.
        (count,) = static_shape(shape)
        below = np.arange(count)[None, :] > np.arange(count)[:, None]
        factors = Where(constant(below), Unsqueeze(shape, [0]), 1)
        ReduceProd(factors, [1], keepdims=0)
    """,
)
