"""Unique elements, and elements as often as they are wanted."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.math import beside
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Value


@primitive("Unique")
def unique(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Unique, not sorted, and where each element is in it."""
    values, _, inverse, _ = b.ops("Unique", 4, b.reshape(x, [-1]), sorted=0)
    return values, b.cast(inverse, b.result(inverse, 1))


@primitive("UniqueWithPad")
def unique_with_pad(b: Builder, x: Tensor, pad_num: Value) -> Value:
    """Unique, not sorted, Concat with the filler, and where each element is in it."""
    values, inverse = unique(b, x)
    missing = b.op("Sub", b.op("Size", x), b.op("Size", values))
    filler = b.op("Expand", beside(b, pad_num, x), b.op("Unsqueeze", missing, [0]))
    return b.op("Concat", values, filler, axis=0), inverse


@primitive("ListDiff", unused="out_idx")
def list_diff(b: Builder, x: Tensor, y: Tensor) -> Value:
    """Compress of what Equal finds nowhere among the others, and NonZero for the places."""
    same = b.op("Equal", b.op("Unsqueeze", x, [1]), b.op("Unsqueeze", y, [0]))
    found = b.op("ReduceMax", b.cast(same, ir.DataType.INT32), [1], keepdims=0)
    rest = b.op("Equal", found, 0)
    where = b.op("Squeeze", b.op("NonZero", rest), [0])
    return b.op("Compress", x, rest, axis=0), b.cast(where, b.result(where, 1))


@primitive("RaggedRange", unused="Tsplits max_length")
def ragged_range(b: Builder, starts: Tensor, limits: Tensor, deltas: Tensor) -> Value:
    """CumSum of the lengths, and Gather of each range's start and step, as often as it is long."""
    exact = [b.cast(t, ir.DataType.DOUBLE) for t in (starts, limits, deltas)]
    lengths = b.op("Ceil", b.op("Div", b.op("Sub", exact[1], exact[0]), exact[2]))
    count = b.op("Max", b.cast(lengths, ir.DataType.INT64), 0)
    ends = b.op("CumSum", count, b.constant(0, np.int64))
    splits = b.op("Concat", b.constant([0], np.int64), ends, axis=0)
    numbers = counting(b, b.op("ReduceMax", splits, keepdims=0))
    own = repeat_interleave_tensor(b, counting(b, b.op("Size", starts)), count, 0)
    place = b.cast(b.op("Sub", numbers, b.op("Gather", splits, own, axis=0)), b.dtype(starts))
    step = b.op("Mul", place, b.op("Gather", deltas, own, axis=0))
    values = b.op("Add", b.op("Gather", starts, own, axis=0), step)
    return b.cast(splits, b.result(splits)), values


@primitives({"Unique2": 3, "InnerUnique": 2}, unused="sorted return_inverse return_counts")
def unique2(b: Builder, results: int, x: Tensor) -> Value:
    """Unique, where each element is in it, and how many are equal: the first {results} of these."""
    values, _, inverse, counts = b.ops("Unique", 4, b.reshape(x, [-1]), sorted=1)
    return (values, b.op("Reshape", inverse, b.op("Shape", x)), counts)[:results]


@primitive("UniqueDim", unused="sorted return_inverse")
def unique_dim(b: Builder, x: Tensor, *, dim: int) -> Value:
    """Unique slices, where each slice is in them, and how many are equal."""
    values, _, inverse, counts = b.ops("Unique", 4, x, axis=dim, sorted=1)
    return values, inverse, counts


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


@primitive("RepeatInterleaveInt", unused="output_size")
def repeat_interleave(b: Builder, x: Tensor, repeats: int, dim: int | None = None) -> Value:
    """Unsqueeze, Expand, Reshape."""
    x, axis = (b.reshape(x, [-1]), 0) if dim is None else (x, b.axis(dim, x))
    dims = b.dims(x)
    wide = [*[1] * (axis + 1), repeats, *[1] * (len(dims) - axis - 1)]
    repeated = b.op("Expand", b.op("Unsqueeze", x, [axis + 1]), b.vector(wide))
    return b.reshape(repeated, [*dims[:axis], -1, *dims[axis + 1 :]])


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
