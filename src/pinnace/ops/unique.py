"""Unique elements, and elements as often as they are wanted."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.table import Tensor, primitive, primitives
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


@primitives({"Unique2": 3, "InnerUnique": 2}, unused="sorted return_inverse return_counts")
def unique2(b: Builder, results: int, x: Tensor) -> Value:
    """Unique, where each element is in it, and how many are equal: the first {results} of these."""
    values, _, inverse, counts = b.ops("Unique", 4, b.reshape(x, [-1]), sorted=1)
    return (values, b.op("Reshape", inverse, b.op("Shape", x)), counts)[:results]


@primitive("UniqueConsecutive", unused="return_inverse return_counts")
def unique_consecutive(b: Builder, x: Tensor, *, dim: int | None = None) -> Value:
    """Compress where an element differs from the one before it."""
    axis = 0 if dim is None else b.axis(dim, x)
    flat = b.reshape(x, [-1]) if dim is None or not b.rank(x) else x
    end = int(np.iinfo(np.int64).max)
    after, before = b.op("Slice", flat, [1], [end], [axis]), b.op("Slice", flat, [0], [-1], [axis])
    changes = b.op("Not", b.op("Equal", after, before))
    others = [i for i in range(b.rank(flat)) if i != axis]
    if others:
        changes = b.op("ReduceMax", changes, others, keepdims=0)
    first = b.op("Concat", b.constant([True], np.bool_), changes, axis=0)
    number = b.op("CumSum", b.cast(first, ir.DataType.INT64), b.constant(0, np.int64))
    inverse = b.op("Sub", number, b.constant(1, np.int64))
    starts = b.op("Squeeze", b.op("NonZero", first), [0])
    size = b.op("Shape", flat, start=axis, end=axis + 1)
    ends = b.op("Concat", b.op("Slice", starts, [1], [end]), size, axis=0)
    placed = b.op("Reshape", inverse, b.op("Shape", x)) if dim is None else inverse
    return b.op("Compress", flat, first, axis=axis), placed, b.op("Sub", ends, starts)


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
