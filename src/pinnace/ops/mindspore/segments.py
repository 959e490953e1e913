"""Elements in groups: segments, counts, unique ones; sparse tensors: places (n, rank) and values (n,)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import room
from pinnace.ops.mindspore.array import counting, filled, places
from pinnace.ops.mindspore.index import scattered_nd
from pinnace.ops.mindspore.math import beside
from pinnace.ops.mindspore.reduce import as_result, reduce
from pinnace.ops.table import Dims, Floats, Tensor, formulas, primitive, primitives
from pinnace.ops.values import DOUBLE, FLOAT, INT32, INT64, Value


def _neutral(reduction: str, dtype: ir.DataType) -> float:
    if reduction in ("add", "mul"):
        return float(reduction == "mul")
    limits = np.finfo(dtype.numpy()) if dtype.is_floating_point() else np.iinfo(dtype.numpy())
    return limits.min if reduction == "max" else limits.max


@primitives(
    {
        "SegmentSum": "add",
        "SegmentMean": "mean",
        "SegmentProd": "mul",
        "SegmentMax": "max",
        "SegmentMin": "min",
    }
)
def sorted_segments(op: Builder, reduction: str, x: Tensor, segment_ids: Tensor) -> Value:
    """ScatterND, reduction {reduction}; for a mean of the sums, and Div by the counts."""
    ids = op.cast(segment_ids, INT64)
    size = op.ReduceMax(ids, keepdims=0) + 1
    rest = op.dims(x, 1)
    result = _scattered_segments(op, x, ids, [size, *rest], "add" if reduction == "mean" else reduction)
    if reduction in ("add", "mul"):
        return result
    ones = filled(op, 1, [op.dim(x, 0), *[1] * len(rest)], op.dtype(x))
    counts = _scattered_segments(op, ones, ids, [size, *[1] * len(rest)], "add")
    if reduction == "mean":
        return result / op.Max(counts, op.like(1, x))
    return op.Where(op.Equal(counts, op.like(0, x)), op.like(0, x), result)


def _scattered_segments(
    op: Builder, x: Tensor, ids: Tensor, dims: Sequence[int | Tensor], reduction: str
) -> Tensor:
    start = filled(op, _neutral(reduction, op.dtype(x)), dims, op.dtype(x))
    return scattered_nd(op, start, op.Unsqueeze(ids, [-1]), x, reduction)


@primitive("SparseTensorDenseAdd", unused="shape")
def _sparse_tensor_dense_add(
    op: Builder, indices: Tensor, values: Tensor, shape: Value, dense: Tensor
) -> Value:
    return scattered_nd(op, dense, indices, values, "add")


@primitive("SparseTensorDenseMatmul")
def _sparse_tensor_dense_matmul(
    op: Builder,
    indices: Tensor,
    values: Tensor,
    shape: Dims,
    dense: Tensor,
    adjoint_st: bool = False,
    adjoint_dt: bool = False,
) -> Value:
    """Gather of the rows that values meet, Mul, and ScatterND into zeros, reduction add."""
    dense = op.transpose(dense, (1, 0)) if adjoint_dt else dense
    row, column = [op.Gather(op.cast(indices, INT64), [i], axis=1) for i in (0, 1)]
    to, of = (column, row) if adjoint_st else (row, column)
    met = op.Gather(dense, op.Squeeze(of, [1]), axis=0)
    product = op.Unsqueeze(values, [1]) * met
    size = shape[1] if adjoint_st else shape[0], op.dim(dense, 1)
    return scattered_nd(op, filled(op, 0, size, op.dtype(values)), to, product, "add")


@primitive("SparseToDense")
def _sparse_to_dense(op: Builder, indices: Tensor, values: Tensor, shape: Dims) -> Value:
    return scattered_nd(op, filled(op, 0, shape, op.dtype(values)), indices, values)


@primitives(
    {
        "UnsortedSegmentSum": "add",
        "UnsortedSegmentProd": "mul",
        "UnsortedSegmentMax": "max",
        "UnsortedSegmentMin": "min",
    }
)
def _unsorted_segment_sum(
    op: Builder, reduction: str, x: Tensor, segment_ids: Tensor, num_segments: Dims
) -> Value:
    """ScatterND, reduction {reduction}."""
    sizes = [*num_segments, *op.dims(x, op.rank(segment_ids))]
    return _scattered_segments(op, x, op.cast(segment_ids, INT64), sizes, reduction)


formulas(
    {
        "SparseSegmentMean": lambda op, x, indices, ids: sorted_segments(
            op, "mean", op.Gather(x, places(op, indices), axis=0), ids
        )
    }
)


@primitive("Bincount")
def _bincount(op: Builder, x: Tensor, size: Tensor, weights: Tensor) -> Value:
    length = op.Reshape(op.cast(size, INT64), [1])
    return _summed(op, length, op.cast(x, INT64), weights)


@primitive("BincountExt")
def _bincount_ext(op: Builder, x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Value:
    places = op.cast(x, INT64)
    longest = reduce(op, "ReduceMax", places, None) + 1
    size = op.reshape(op.Max(longest, minlength), [1])
    each = op.Expand(op.constant(1, np.int64), op.Shape(places)) if weights is None else weights
    return _summed(op, size, places, each)


@primitive("ConfusionMatrix", unused="dtype")
def _confusion_matrix(
    op: Builder, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, *, num_classes: int
) -> Value:
    columns = [op.Unsqueeze(op.cast(t, INT64), [-1]) for t in (labels, predictions)]
    each = op.Expand(op.constant(1, np.int32), op.Shape(labels)) if weights is None else weights
    zeros = op.constant(np.zeros(room(num_classes, num_classes), op.dtype(each).numpy()))
    return as_result(op, op.ScatterND(zeros, op.Concat(*columns, axis=-1), each, reduction="add"))


@primitive("Histogram", "HistcExt")
def _lower_histogram(op: Builder, x: Tensor, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Value:
    return _histogram(op, x, bins, min, max)


@primitive("HistogramFixedWidth", unused="dtype")
def _histogram_fixed_width(op: Builder, x: Tensor, value_range: Floats, nbins: int) -> Value:
    """As Histogram; what lies outside counts in the outermost bins."""
    low, high = value_range
    flat = op.cast(op.reshape(x, [-1]), DOUBLE)
    inside = op.Clip(flat, low, high)
    return _histogram(op, inside, nbins, low, high)


def _histogram(op: Builder, x: Tensor, bins: int, least: float, most: float) -> Tensor:
    """Between two bounds, or between the least and the greatest element where they are the same."""
    flat, whole = op.cast(op.reshape(x, [-1]), FLOAT), least == most
    low = reduce(op, "ReduceMin", flat, None) if whole else op.like(least, flat)
    high = reduce(op, "ReduceMax", flat, None) if whole else op.like(most, flat)
    equal = op.cast(op.Equal(low, high), FLOAT) if whole else None
    low, high = (low - equal, high + equal) if whole else (low, high)
    inside = op.And(op.GreaterOrEqual(flat, low), op.LessOrEqual(flat, high))
    number = op.cast(op.Floor((flat - low) / (high - low) * bins), INT64)
    number = op.Clip(number, op.constant(0, np.int64), op.constant(bins - 1, np.int64))
    zeros = op.constant(np.zeros(room(bins), np.int64))
    return as_result(op, op.ScatterElements(zeros, number, op.cast(inside, INT64), axis=0, reduction="add"))


def _summed(op: Builder, size: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """The sum of the values of each place."""
    zeros = op.Expand(op.like(0, values), size)
    return op.ScatterElements(zeros, places, values, axis=0, reduction="add")


@primitive("Unique")
def unique(op: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Unique, not sorted, and where each element is in it."""
    values, _, inverse, _ = op.ops("Unique", 4, op.reshape(x, [-1]), sorted=0)
    return values, op.cast(inverse, op.result(inverse, 1))


@primitive("ListDiff", unused="out_idx")
def _list_diff(op: Builder, x: Tensor, y: Tensor) -> Value:
    same = op.Equal(op.Unsqueeze(x, [1]), op.Unsqueeze(y, [0]))
    found = op.ReduceMax(op.cast(same, INT32), [1], keepdims=0)
    rest = op.Equal(found, 0)
    where = op.Squeeze(op.NonZero(rest), [0])
    return (op.Compress(x, rest, axis=0), op.cast(where, op.result(where, 1)))


@primitive("RaggedRange", unused="Tsplits max_length")
def _ragged_range(op: Builder, starts: Tensor, limits: Tensor, deltas: Tensor) -> Value:
    exact = [op.cast(t, DOUBLE) for t in (starts, limits, deltas)]
    lengths = op.Ceil((exact[1] - exact[0]) / exact[2])
    count = op.Max(op.cast(lengths, INT64), 0)
    ends = op.CumSum(count, op.constant(0, np.int64))
    splits = op.Concat(op.constant([0], np.int64), ends, axis=0)
    numbers = counting(op, op.ReduceMax(splits, keepdims=0))
    own = repeat_interleave_tensor(op, counting(op, op.Size(starts)), count, 0)
    place = op.cast(numbers - op.Gather(splits, own, axis=0), op.dtype(starts))
    step = place * op.Gather(deltas, own, axis=0)
    values = op.Gather(starts, own, axis=0) + step
    return (op.cast(splits, op.result(splits)), values)


@primitive("RepeatInterleaveInt", unused="output_size")
def _repeat_interleave_int(op: Builder, x: Tensor, repeats: int, dim: int | None = None) -> Value:
    x, place = (op.reshape(x, [-1]), 0) if dim is None else (x, op.axis(dim, x))
    sizes = op.dims(x)
    wide = [*[1] * (place + 1), repeats, *[1] * (len(sizes) - place - 1)]
    repeated = op.Expand(op.Unsqueeze(x, [place + 1]), op.vector(wide))
    return op.reshape(repeated, [*sizes[:place], -1, *sizes[place + 1 :]])


@primitives({"Unique2": 3, "InnerUnique": 2}, unused="sorted return_inverse return_counts")
def _unique2(op: Builder, results: int, x: Tensor) -> Value:
    """Unique, where each element is in it, and how many are equal: the first {results} of these."""
    values, _, inverse, counts = op.ops("Unique", 4, op.reshape(x, [-1]), sorted=1)
    return (values, op.Reshape(inverse, op.Shape(x)), counts)[:results]


@primitive("UniqueConsecutive", unused="return_inverse return_counts")
def _unique_consecutive(op: Builder, x: Tensor, *, dim: int | None = None) -> Value:
    """Compress where an element differs from the one before it."""
    place, end = 0 if dim is None else op.axis(dim, x), np.iinfo(np.int64).max
    flat = op.reshape(x, [-1]) if dim is None or not op.rank(x) else x
    changes = op.Not(op.Equal(op.Slice(flat, [1], [end], [place]), op.Slice(flat, [0], [-1], [place])))
    others = [i for i in range(op.rank(flat)) if i != place]
    changes = op.ReduceMax(changes, others, keepdims=0) if others else changes
    first = op.Concat(op.constant([True], np.bool_), changes, axis=0)
    inverse = op.CumSum(op.cast(first, INT64), op.constant(0, np.int64)) - 1
    starts = op.Squeeze(op.NonZero(first), [0])
    ends = op.Concat(op.Slice(starts, [1], [end]), op.Shape(flat, start=place, end=place + 1), axis=0)
    placed = op.Reshape(inverse, op.Shape(x)) if dim is None else inverse
    return op.Compress(flat, first, axis=place), placed, ends - starts


@primitive("UniqueDim", unused="sorted return_inverse")
def _unique_dim(op: Builder, x: Tensor, *, dim: int) -> Value:
    """Unique slices, where each slice is in them, and how many are equal."""
    values, _, inverse, counts = op.ops("Unique", 4, x, axis=dim, sorted=1)
    return (values, inverse, counts)


@primitive("UniqueWithPad")
def _unique_with_pad(op: Builder, x: Tensor, pad_num: Value) -> Value:
    """Unique, not sorted, Concat with the filler, and where each element is in it."""
    values, inverse = unique(op, x)
    missing = op.Size(x) - op.Size(values)
    filler = op.Expand(beside(op, pad_num, x), op.Unsqueeze(missing, [0]))
    return (op.Concat(values, filler, axis=0), inverse)


@primitive("RepeatInterleaveTensor", unused="output_size")
def repeat_interleave_tensor(op: Builder, x: Tensor, repeats: Tensor, dim: int | None = None) -> Value:
    if dim is None:
        x, dim = op.reshape(x, [-1]), 0
    ends = op.CumSum(op.cast(repeats, INT64), op.constant(0, np.int64))
    total = op.ReduceMax(ends, keepdims=0)
    numbers = counting(op, total)
    passed = op.GreaterOrEqual(op.Unsqueeze(numbers, [1]), op.Unsqueeze(ends, [0]))
    places = op.ReduceSum(op.cast(passed, INT64), [1], keepdims=0)
    return op.Gather(x, places, axis=dim)
