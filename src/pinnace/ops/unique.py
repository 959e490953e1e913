"""Unique elements, and elements as often as they are wanted."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value


@function
@primitive("Unique")
def unique(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Unique, not sorted, and where each element is in it."""
    values, _, inverse, _ = b.ops("Unique", 4, b.reshape(x, [-1]), sorted=0)
    return values, b.cast(inverse, b.result(inverse, 1))


formulas(
    __name__,
    """
    ListDiff; out_idx: x, y ->
        # Compress of what Equal finds nowhere among the others, and NonZero for the places.
        same = Unsqueeze(x, [1]) == Unsqueeze(y, [0])
        found = ReduceMax(cast(same, INT32), [1], keepdims=0)
        rest = found == 0
        where = Squeeze(NonZero(rest), [0])
        (Compress(x, rest, axis=0), cast(where, result(where, 1)))
    RaggedRange; Tsplits max_length: starts, limits, deltas ->
        # CumSum of the lengths, and Gather of each range's start and step, as often as it is long.
        exact = [cast(t, DOUBLE) for t in (starts, limits, deltas)]
        lengths = Ceil((exact[1] - exact[0]) / exact[2])
        count = Max(cast(lengths, INT64), 0)
        ends = CumSum(count, constant(0, np.int64))
        splits = Concat(constant([0], np.int64), ends, axis=0)
        numbers = counting(ReduceMax(splits, keepdims=0))
        own = repeat_interleave_tensor(counting(Size(starts)), count, 0)
        place = cast(numbers - Gather(splits, own, axis=0), dtype(starts))
        step = place * Gather(deltas, own, axis=0)
        values = Gather(starts, own, axis=0) + step
        (cast(splits, result(splits)), values)
    RepeatInterleaveInt; output_size: x, repeats: int, dim: int | None = None ->
        # Unsqueeze, Expand, Reshape.
        x, place = (reshape(x, [-1]), 0) if dim is None else (x, axis(dim, x))
        sizes = dims(x)
        wide = [*[1] * (place + 1), repeats, *[1] * (len(sizes) - place - 1)]
        repeated = Expand(Unsqueeze(x, [place + 1]), vector(wide))
        reshape(repeated, [*sizes[:place], -1, *sizes[place + 1 :]])
    Unique2(3) InnerUnique(2); sorted return_inverse return_counts: results, x ->
        # Unique, where each element is in it, and how many are equal: the first {results} of these.
        values, _, inverse, counts = ops("Unique", 4, reshape(x, [-1]), sorted=1)
        (values, Reshape(inverse, Shape(x)), counts)[:results]
    UniqueConsecutive; return_inverse return_counts: x, *, dim: int | None = None ->
        # Compress where an element differs from the one before it.
        place, end = 0 if dim is None else axis(dim, x), np.iinfo(np.int64).max
        flat = reshape(x, [-1]) if dim is None or not rank(x) else x
        changes = Slice(flat, [1], [end], [place]) != Slice(flat, [0], [-1], [place])
        others = [i for i in range(rank(flat)) if i != place]
        changes = ReduceMax(changes, others, keepdims=0) if others else changes
        first = Concat(constant([True], np.bool_), changes, axis=0)
        inverse = CumSum(cast(first, INT64), constant(0, np.int64)) - 1
        starts = Squeeze(NonZero(first), [0])
        ends = Concat(Slice(starts, [1], [end]), Shape(flat, start=place, end=place + 1), axis=0)
        placed = Reshape(inverse, Shape(x)) if dim is None else inverse
        Compress(flat, first, axis=place), placed, ends - starts
    UniqueDim; sorted return_inverse: x, *, dim: int ->
        # Unique slices, where each slice is in them, and how many are equal.
        values, _, inverse, counts = ops("Unique", 4, x, axis=dim, sorted=1)
        (values, inverse, counts)
    UniqueWithPad: x, pad_num: Value ->
        # Unique, not sorted, Concat with the filler, and where each element is in it.
        values, inverse = unique(x)
        missing = Size(x) - Size(values)
        filler = Expand(beside(pad_num, x), Unsqueeze(missing, [0]))
        (Concat(values, filler, axis=0), inverse)
    """,
)


@function
@primitive("RepeatInterleaveTensor", unused="output_size")
def repeat_interleave_tensor(b: Builder, x: Tensor, repeats: Tensor, dim: int | None = None) -> Value:
    """Gather, each place as often as it is asked for."""
    if dim is None:
        x, dim = b.reshape(x, [-1]), 0
    ends = b.op("CumSum", b.cast(repeats, ir.DataType.INT64), b.constant(0, np.int64))
    total = b.op("ReduceMax", ends, keepdims=0)
    numbers = counting(b, total)
    passed = b.op("GreaterOrEqual", b.op("Unsqueeze", numbers, [1]), b.op("Unsqueeze", ends, [0]))
    places = b.op("ReduceSum", b.cast(passed, ir.DataType.INT64), [1], keepdims=0)
    return b.op("Gather", x, places, axis=dim)
