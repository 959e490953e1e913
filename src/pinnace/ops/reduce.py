"""Reductions over dimensions, and what runs along one: cumulative sums, sorting, the largest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.math import floating, log1p, promoted
from pinnace.ops.room import room
from pinnace.ops.running import running
from pinnace.ops.table import Dtype, Floats, Ints, Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value


def reduce(b: Builder, op_type: str, x: Tensor, axes: Sequence[int] | None, keep: bool = False) -> Tensor:
    """A reduction operator over `axes`; over all dimensions where there are none."""
    axes = list(axes) if axes and b.rank(x) else None  # MindSpore takes axes 0 and -1 of a scalar
    return b.op(op_type, x, axes, keepdims=int(keep))


@primitives({"ReduceMax Max": "ReduceMax", "ReduceMin Min": "ReduceMin"})
def reduction(b: Builder, op_type: str, x: Tensor, axis: Ints | None = (), keep_dims: bool = False) -> Value:
    """{op_type}."""
    return reduce(b, op_type, x, axis, keep_dims)


@primitives(
    {"ReduceAny Any AnyExt": ("ReduceMax", "ReduceSum"), "ReduceAll All": ("ReduceMin", "ReduceProd")}
)
def truth(
    b: Builder, op_type: str, of_nothing: str, x: Tensor, axis: Ints | None = (), keep_dims: bool = False
) -> Value:
    """{op_type} of what is not 0."""
    x = b.cast(x, ir.DataType.BOOL)
    if 0 not in b.shape(x):
        return reduce(b, op_type, x, axis, keep_dims)
    # There is no maximum of nothing.
    number = reduce(b, of_nothing, b.cast(x, ir.DataType.INT64), axis, keep_dims)
    return b.cast(number, ir.DataType.BOOL)


def _best(b: Builder, which: str, x: Tensor, axis: int, keep: bool) -> tuple[Tensor, Tensor]:
    if b.rank(x) == 0:
        return x, b.constant(0, np.int64)
    value = reduce(b, f"Reduce{which}", x, [axis], keep)
    return value, b.op(f"Arg{which}", x, axis=axis, keepdims=int(keep))


def _best_of(which: str, value_first: str, place_first: str) -> None:
    @primitive(value_first, lowered_to=f"Reduce{which}, and Arg{which}.")
    def value_and_place(b: Builder, x: Tensor, dim: int, keepdim: bool = False) -> Value:
        return _best(b, which, x, dim, keepdim)

    @primitive(place_first, unused="dimension", lowered_to=f"Arg{which}, and Reduce{which}.")
    def place_and_value(b: Builder, x: Tensor, axis: int = 0, keep_dims: bool = False) -> Value:
        value, index = _best(b, which, x, axis, keep_dims)
        return b.cast(index, b.result(index)), value


_best_of("Max", "MaxDim", "ArgMaxWithValue")


_best_of("Min", "MinDim", "ArgMinWithValue")


@primitives(
    {"ReduceSum SumExt": "ReduceSum", "ReduceProd ProdExt": "ReduceProd", "ReduceMean MeanExt": "ReduceMean"}
)
def reduction_in_type(
    b: Builder,
    op_type: str,
    x: Tensor,
    axis: Ints | None = (),
    keep_dims: bool = False,
    *,
    skip_mode: bool = False,
    dtype: Dtype | None = None,
) -> Value:
    """{op_type}, in the type of the result."""
    if skip_mode and not axis:
        return x
    return reduce(b, op_type, b.cast(x, dtype or b.result(x)), axis, keep_dims)


# -- spread ----------------------------------------------------------------------------------------


def variance(
    b: Builder, x: Tensor, axes: Sequence[int] | None, correction: int, keep: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance, its sum of squares divided by the count less `correction`, and the mean."""
    mean = reduce(b, "ReduceMean", x, axes, True)
    distance = b.op("Sub", x, mean)
    if correction:
        total = reduce(b, "ReduceSumSquare", distance, axes, keep)
        spread = b.op("Div", total, b.op("Sub", count(b, x, axes), b.like(correction, x)))
    else:
        spread = reduce(b, "ReduceMean", b.op("Mul", distance, distance), axes, keep)
    if not keep:
        mean = b.op("Squeeze", mean, [b.axis(a, x) for a in axes] if axes else None)
    return spread, mean


def count(b: Builder, x: Tensor, axes: Sequence[int] | None) -> Tensor:
    """How many elements a reduction takes together, as a scalar of the type of `x`."""
    sizes = [b.dim(x, a) for a in (axes or range(b.rank(x)))]
    known = [d for d in sizes if isinstance(d, int)]
    total = b.constant(math.prod(known), np.int64)
    for size in sizes:
        if isinstance(size, ir.Value):
            total = b.op("Mul", total, size)
    return (
        b.constant(math.prod(known), b.dtype(x).numpy())
        if len(known) == len(sizes)
        else b.cast(total, b.dtype(x))
    )


@primitive("ReduceStd")
def reduce_std(
    b: Builder, x: Tensor, axis: Ints | None = (), unbiased: bool = True, keep_dims: bool = False
) -> Value:
    """Sqrt of the mean square distance, and ReduceMean."""
    spread, mean = variance(b, x, axis, int(unbiased), keep_dims)
    return b.op("Sqrt", spread), mean


def _spread(name: str, lowered_to: str, root: bool, with_mean: bool) -> None:
    @primitive(name, lowered_to=lowered_to)
    def lowering(
        b: Builder, x: Tensor, dim: Ints | None = None, correction: int = 1, keepdim: bool = False
    ) -> Value:
        spread, mean = variance(b, x, dim, correction, keepdim)
        spread = b.op("Sqrt", spread) if root else spread
        return (spread, mean) if with_mean else spread


_spread("Std", "Sqrt of the mean square distance.", True, False)


_spread("Var", "The mean square distance.", False, False)


_spread("VarMean", "The mean square distance, and ReduceMean.", False, True)


_spread("StdMean", "Sqrt of the mean square distance, and ReduceMean.", True, True)


_TINY = 1e-10
"""An epsilon that stands for none."""


# -- norms -----------------------------------------------------------------------------------------


def norm(b: Builder, x: Tensor, p: float, axes: Sequence[int] | None, keep: bool) -> Tensor:
    """The p-norm of vectors along `axes`."""
    if p == 2:
        return reduce(b, "ReduceL2", x, axes, keep)
    if p == 1:
        return reduce(b, "ReduceL1", x, axes, keep)
    size = b.op("Abs", x)
    if math.isinf(p):
        return reduce(b, "ReduceMax" if p > 0 else "ReduceMin", size, axes, keep)
    if p == 0:
        return reduce(b, "ReduceSum", b.cast(b.op("Not", b.op("Equal", x, 0.0)), b.dtype(x)), axes, keep)
    return b.op("Pow", reduce(b, "ReduceSum", b.op("Pow", size, p), axes, keep), 1.0 / p)


def _not_under(b: Builder, x: Tensor, epsilon: float) -> Tensor:
    """The norm, or epsilon where that is greater; the usual one is far less than what is computed with."""
    return x if epsilon <= _TINY else b.op("Max", x, epsilon)


@primitive("LpNorm", "LpNormV2")
def lp_norm(
    b: Builder,
    x: Tensor,
    *,
    p: float = 2.0,
    axis: Ints | None = None,
    keep_dims: bool = False,
    epsilon: float = 1e-12,
) -> Value:
    """ReduceL1, ReduceL2, ReduceMax, ReduceMin, or Pow of a sum of Pow; not under epsilon."""
    return _not_under(b, norm(b, x, p, axis, keep_dims), epsilon)


@primitive("Norm", "LinalgVectorNorm")
def vector_norm(
    b: Builder,
    x: Tensor,
    ord: float = 2.0,
    dim: Ints | None = None,
    keepdim: bool = False,
    dtype: Dtype | None = None,
) -> Value:
    """ReduceL1, ReduceL2, ReduceMax, ReduceMin, or Pow of a sum of Pow."""
    return norm(b, b.cast(x, dtype or b.result(x)), ord, dim, keepdim)


@primitive("L2Normalize")
def l2_normalize(b: Builder, x: Tensor, axis: Ints = (0,), epsilon: float = 1e-4) -> Value:
    """Div by Sqrt of ReduceSumSquare, not under epsilon."""
    total = reduce(b, "ReduceSumSquare", x, axis, True)
    return b.op("Div", x, b.op("Sqrt", b.op("Max", total, epsilon)))


@primitive("LogSumExp")
def log_sum_exp(b: Builder, x: Tensor, dim: Ints | None = None, keepdim: bool = False) -> Value:
    """ReduceLogSumExp."""
    return reduce(b, "ReduceLogSumExp", floating(b, x), dim, keepdim)


@primitive("CountNonZero")
def count_non_zero(b: Builder, x: Tensor, dim: Ints | None = None) -> Value:
    """ReduceSum of what is not zero."""
    there = b.cast(b.cast(x, ir.DataType.BOOL), ir.DataType.INT64)
    return b.cast(reduce(b, "ReduceSum", there, dim), b.result(there))


# -- places ----------------------------------------------------------------------------------------


def _arg(b: Builder, op_type: str, x: Tensor, axis: int | None, keep: bool, dtype: Dtype) -> Tensor:
    if axis is None or b.rank(x) == 0:
        x, axis = b.reshape(x, [-1]), 0
        keep = False
    return b.cast(b.op(op_type, x, axis=axis, keepdims=int(keep)), dtype)


def _places(op_type: str, ext: str, *names: str) -> None:
    @primitive(*names, lowered_to=f"{op_type}.")
    def lowering(
        b: Builder, x: Tensor, axis: int | None = -1, output_type: Dtype = ir.DataType.INT32
    ) -> Value:
        return _arg(b, op_type, x, axis, False, output_type)

    @primitive(ext, lowered_to=f"{op_type}.")
    def lowering_ext(b: Builder, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Value:
        return _arg(b, op_type, x, dim, keepdim, ir.DataType.INT64)


_places("ArgMax", "ArgMaxExt", "Argmax", "ArgMax")


_places("ArgMin", "ArgMinExt", "Argmin", "ArgMin")


@primitive("TopK", unused="sorted")
def top_k(b: Builder, x: Tensor, k: Value) -> Value:
    """TopK of the last dimension."""
    values, places = b.ops(
        "TopK", 2, x, b.op("Reshape", b.cast(b.tensor(k), ir.DataType.INT64), [1]), axis=-1
    )
    return values, b.cast(places, ir.DataType.INT32)


@primitive("TopkExt", unused="sorted")
def top_k_ext(b: Builder, x: Tensor, k: Value, dim: int = -1, largest: bool = True) -> Value:
    """TopK."""
    size = b.op("Reshape", b.cast(b.tensor(k), ir.DataType.INT64), [1])
    return b.ops("TopK", 2, x, size, axis=dim, largest=int(largest))


def sorted_along(b: Builder, x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    """The elements along one dimension in order, and where they were; equal ones keep their order."""
    size = b.vector([b.dim(x, axis)])
    values, places = b.ops("TopK", 2, x, size, axis=axis, largest=int(descending))
    return values, places


@primitive("Sort")
def sort(b: Builder, x: Tensor, axis: int = -1, descending: bool = False) -> Value:
    """TopK of all elements."""
    values, places = sorted_along(b, x, axis, descending)
    return values, b.cast(places, ir.DataType.INT32)


@primitive("SortExt", unused="stable")
def sort_ext(b: Builder, x: Tensor, dim: int = -1, descending: bool = False) -> Value:
    """TopK of all elements."""
    return sorted_along(b, x, dim, descending)


# -- along a dimension -----------------------------------------------------------------------------


@primitive("CumSum")
def cum_sum(b: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    """CumSum."""
    return _cumulative(b, x, axis, b.result(x), exclusive, reverse)


@primitive("CumsumExt")
def cum_sum_ext(b: Builder, x: Tensor, dim: int, dtype: Dtype | None = None) -> Value:
    """CumSum, in the type of the result."""
    return _cumulative(b, x, dim, dtype or b.result(x))


def _cumulative(
    b: Builder, x: Tensor, axis: int, dtype: Dtype, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    where = b.constant(axis, np.int64)
    return b.op("CumSum", b.cast(x, dtype), where, exclusive=int(exclusive), reverse=int(reverse))


@primitive("CumProd")
def cum_prod(b: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    """Mul of each slice with the product before it; in a Loop where they are many or not known."""

    def product(first: Tensor, second: Tensor) -> Tensor:
        return b.op("Mul", first, second)

    return _folded(b, x, axis, exclusive, reverse, product, 1)


_Combine = Callable[[Tensor, Tensor], Tensor]


_BY_SLICES = 64
"""Slices from which on a graph with nodes for each of them takes long to build, and in the end is refused."""


def _folded(
    b: Builder, x: Tensor, axis: int, exclusive: bool, reverse: bool, combine: _Combine, neutral: float
) -> Tensor:
    """Each slice with those before it: slice by slice, in a Loop where they are many or not known."""
    size = b.dim(x, axis)
    if not isinstance(size, int) or size > _BY_SLICES:
        return _folded_free(b, x, axis, exclusive, reverse, combine, neutral)
    if size < 2 and not exclusive:
        return x
    parts = list(b.ops("Split", size, x, [1] * size, axis=axis)) if size > 1 else [x]
    if reverse:
        parts.reverse()
    if exclusive:
        parts = [b.op("Expand", b.like(neutral, x), b.op("Shape", parts[0])), *parts[:-1]]
    for i in range(1, size):
        parts[i] = combine(parts[i - 1], parts[i])
    if reverse:
        parts.reverse()
    return b.op("Concat", *parts, axis=axis)


def _folded_free(
    b: Builder, x: Tensor, axis: int, exclusive: bool, reverse: bool, combine: _Combine, neutral: float
) -> Tensor:
    def turned(t: Tensor) -> Tensor:
        return b.op("Slice", t, [-1], [int(np.iinfo(np.int64).min)], [axis], [-1]) if reverse else t

    def join(earlier: Sequence[Tensor], later: Sequence[Tensor], there: Tensor) -> Sequence[Tensor]:
        return [combine(b.op("Where", there, earlier[0], b.like(neutral, x)), later[0])]

    start = turned(x)
    if exclusive:
        first = b.op("Slice", start, [0], [1], [axis])
        nothing = b.op("Expand", b.like(neutral, x), b.op("Shape", first))
        start = b.op("Concat", nothing, b.op("Slice", start, [0], [-1], [axis]), axis=axis)
    return turned(running(b, [start], axis, join)[0])


def _running_best_free(b: Builder, op_type: str, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    def join(earlier: Sequence[Tensor], later: Sequence[Tensor], there: Tensor) -> Sequence[Tensor]:
        newer = b.op("GreaterOrEqual" if op_type == "Max" else "LessOrEqual", later[0], earlier[0])
        kept = b.op("Or", newer, b.op("Not", there))
        return [b.op("Where", kept, new, old) for old, new in zip(earlier, later, strict=True)]

    size = b.op("Squeeze", b.op("Shape", x, start=axis, end=axis + 1 or None), [0])
    numbers = counting(b, size)
    column = b.reshape(numbers, [-1 if i == b.axis(axis, x) else 1 for i in range(b.rank(x))])
    places = b.op("Expand", column, b.op("Shape", x))
    best, place = running(b, [x, places], axis, join)
    return best, place


# -- by comparing all with all ---------------------------------------------------------------------


def _running_best(b: Builder, op_type: str, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The best so far along a dimension, and where it was last seen: slice by slice."""
    size = b.dim(x, axis)
    if not isinstance(size, int):
        return _running_best_free(b, op_type, x, axis)
    parts = list(b.ops("Split", size, x, [1] * size, axis=axis)) if size > 1 else [x]
    best, place = parts[0], b.op("Expand", b.constant(0, np.int64), b.op("Shape", parts[0]))
    bests, places = [best], [place]
    for i, part in enumerate(parts[1:], 1):
        better = b.op("GreaterOrEqual" if op_type == "Max" else "LessOrEqual", part, best)
        best = b.op("Where", better, part, best)
        place = b.op("Where", better, b.constant(i, np.int64), place)
        bests.append(best)
        places.append(place)
    return b.op("Concat", *bests, axis=axis), b.op("Concat", *places, axis=axis)


@primitives({"Cummax": "Max", "Cummin CumminExt": "Min"})
def running_best(b: Builder, op_type: str, x: Tensor, axis: int) -> Value:
    """Where, slice by slice; in a Loop where the dimension is not known."""
    best, place = _running_best(b, op_type, x, axis)
    return best, b.cast(place, b.result(place, 1))


@primitive("CumulativeLogsumexp")
def cumulative_log_sum_exp(
    b: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False
) -> Value:
    """The logarithm of a sum of two exponentials, of each slice and what is before it."""

    def together(first: Tensor, second: Tensor) -> Tensor:
        same = b.op("Equal", first, second)  # infinities have no distance
        distance = b.op("Where", same, b.like(0, x), b.op("Abs", b.op("Sub", first, second)))
        return b.op("Add", b.op("Max", first, second), log1p(b, b.op("Exp", b.op("Neg", distance))))

    return _folded(b, x, axis, exclusive, reverse, together, float(np.finfo(b.dtype(x).numpy()).min))


@primitive("SearchSorted")
def search_sorted(
    b: Builder,
    sorted_sequence: Tensor,
    values: Tensor,
    sorter: Tensor | None = None,
    dtype: Dtype = ir.DataType.INT64,
    right: bool = False,
) -> Value:
    """ReduceSum of what is less: each value is compared with all."""
    if sorter is not None:
        sorted_sequence = b.op("GatherElements", sorted_sequence, b.cast(sorter, ir.DataType.INT64), axis=-1)
    wanted = b.op("Unsqueeze", values, [-1])
    if b.rank(sorted_sequence) > 1:
        sorted_sequence = b.op("Unsqueeze", sorted_sequence, [-2])
    # NaN is beyond all numbers, and not above any
    above = b.op("Greater" if right else "GreaterOrEqual", *promoted(b, sorted_sequence, wanted))
    below = b.cast(b.op("Not", above), ir.DataType.INT64)
    return b.cast(b.op("ReduceSum", below, [-1], keepdims=0), dtype)


@primitives({"LowerBound": False, "UpperBound": True}, unused="out_type")
def bound(b: Builder, right: bool, x: Tensor, values: Tensor) -> Value:
    """ReduceSum of what is less: each value is compared with all."""
    return search_sorted(b, x, values, dtype=b.result(b.constant(0, np.int64)), right=right)


@primitive("Bucketize")
def bucketize(b: Builder, x: Tensor, *, boundaries: Floats) -> Value:
    """ReduceSum of the boundaries that are not above."""
    wide = b.op("Unsqueeze", b.cast(x, ir.DataType.DOUBLE), [-1])
    passed = b.op("Not", b.op("Less", wide, np.asarray(boundaries, np.float64)))  # NaN is not
    return b.op("ReduceSum", b.cast(passed, ir.DataType.INT32), [-1], keepdims=0)


@primitive("EuclideanNorm")
def euclidean_norm(b: Builder, x: Tensor, axes: Ints, *, keep_dims: bool = False) -> Value:
    """ReduceL2."""
    return reduce(b, "ReduceL2", x, axes, keep_dims)


@primitive("NthElement")
def nth_element(b: Builder, x: Tensor, n: int, reverse: bool = False) -> Value:
    """TopK of all elements, and Gather of one."""
    return b.op("Gather", sorted_along(b, x, -1, reverse)[0], b.constant(n, np.int64), axis=-1)


@primitive("InTopK")
def in_top_k(b: Builder, x: Tensor, target: Tensor, k: int) -> Value:
    """Less: fewer than k elements are larger than the target's."""
    place = b.op("Unsqueeze", b.cast(target, ir.DataType.INT64), [-1])
    larger = b.op("Greater", x, b.op("GatherElements", x, place, axis=-1))
    number = b.op("ReduceSum", b.cast(larger, ir.DataType.INT64), [-1], keepdims=0)
    return b.op("Less", number, b.constant(k, np.int64))


def middle(b: Builder, x: Tensor, axis: int, keep: bool) -> tuple[Tensor, Tensor]:
    """The lower median along a dimension, and where it is."""
    values, places = sorted_along(b, x, axis, False)
    size = b.dim(x, axis)
    if isinstance(size, int):
        at = b.constant([(size - 1) // 2], np.int64)
    else:
        two = b.constant(2, np.int64)
        at = b.reshape(b.op("Div", b.op("Sub", size, b.constant(1, np.int64)), two), [1])
    found = [b.op("Gather", t, at, axis=axis) for t in (values, places)]
    first, second = found if keep else [b.op("Squeeze", t, [axis]) for t in found]
    return first, second


@primitive("Median")
def median(
    b: Builder,
    x: Tensor,
    global_median: bool = False,
    axis: int = 0,
    keep_dims: bool = False,
    ignore_nan: bool = False,
) -> Value:
    """TopK of all elements, and Gather of the middle."""
    if global_median or b.rank(x) == 0:
        x, axis, keep_dims = b.reshape(x, [-1]), 0, False
    if ignore_nan and b.dtype(x).is_floating_point():
        return _middle_of_numbers(b, x, axis, keep_dims)
    return middle(b, x, axis, keep_dims)


def _middle_of_numbers(b: Builder, x: Tensor, axis: int, keep: bool) -> tuple[Tensor, Tensor]:
    """The lower median of what is not NaN, and where it is."""
    nan = b.op("IsNaN", x)
    places = sorted_along(b, b.op("Where", nan, b.like(math.inf, x), x), axis, False)[1]
    numbers = b.op("ReduceSum", b.cast(b.op("Not", nan), ir.DataType.INT64), [axis], keepdims=1)
    at = b.op("Max", b.op("Div", b.op("Sub", numbers, 1), 2), 0)
    place = b.op("GatherElements", places, at, axis=axis)
    value = b.op("GatherElements", x, place, axis=axis)
    return (value, place) if keep else (b.op("Squeeze", value, [axis]), b.op("Squeeze", place, [axis]))


@primitive("MedianDim")
def median_dim(b: Builder, x: Tensor, dim: int = -1, keepdim: bool = False) -> Value:
    """TopK of all elements, and Gather of the middle."""
    return middle(b, x, dim, keepdim)


@primitive("MedianExt")
def median_ext(b: Builder, x: Tensor) -> Value:
    """TopK of all elements, and Gather of the middle."""
    return middle(b, b.reshape(x, [-1]), 0, False)[0]


@primitive("Kthvalue")
def kth_value(b: Builder, x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Value:
    """TopK of all elements, and Gather of one."""
    found = [b.op("Gather", t, [k - 1], axis=dim) for t in sorted_along(b, x, dim, False)]
    return tuple(found if keepdim else [b.op("Squeeze", t, [dim]) for t in found])


@primitive("ArgSort", unused="stable")
def arg_sort(b: Builder, x: Tensor, dim: int = -1, descending: bool = False) -> Value:
    """TopK of all elements."""
    return sorted_along(b, x, dim, descending)[1]


@primitive("Nansum")
def nansum(
    b: Builder, x: Tensor, dim: Ints | None = None, keepdim: bool = False, dtype: Dtype | None = None
) -> Value:
    """Where and ReduceSum."""
    if b.dtype(x).is_floating_point():
        x = b.op("Where", b.op("IsNaN", x), b.like(0, x), x)
    return reduce(b, "ReduceSum", b.cast(x, dtype or b.result(x)), dim, keepdim)


@primitive("Bincount")
def counted(b: Builder, x: Tensor, size: Tensor, weights: Tensor) -> Value:
    """ScatterElements, reduction add, into zeros."""
    length = b.op("Reshape", b.cast(size, ir.DataType.INT64), [1])
    zeros = b.op("Expand", b.like(0, weights), length)
    return b.op("ScatterElements", zeros, b.cast(x, ir.DataType.INT64), weights, axis=0, reduction="add")


@primitive("BincountExt")
def bincount(b: Builder, x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Value:
    """ScatterElements, reduction add, into zeros."""
    places = b.cast(x, ir.DataType.INT64)
    longest = b.op("Add", reduce(b, "ReduceMax", places, None), b.constant(1, np.int64))
    size = b.reshape(b.op("Max", longest, b.constant(minlength, np.int64)), [1])
    own = b.constant(1, np.int64) if weights is None else weights
    zeros = b.op("Expand", b.like(0, own), size)
    each = b.op("Expand", own, b.op("Shape", places)) if weights is None else own
    return b.op("ScatterElements", zeros, places, each, axis=0, reduction="add")


@primitive("Histogram", "HistcExt")
def histogram(b: Builder, x: Tensor, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Value:
    """The bin of each element by Floor, and ScatterElements, reduction add, of those inside."""
    flat = b.cast(b.reshape(x, [-1]), ir.DataType.FLOAT)
    if min == max:
        low, high = reduce(b, "ReduceMin", flat, None), reduce(b, "ReduceMax", flat, None)
        equal = b.cast(b.op("Equal", low, high), ir.DataType.FLOAT)
        low, high = b.op("Sub", low, equal), b.op("Add", high, equal)
    else:
        low, high = b.like(min, flat), b.like(max, flat)
    inside = b.op("And", b.op("GreaterOrEqual", flat, low), b.op("LessOrEqual", flat, high))
    part = b.op("Div", b.op("Sub", flat, low), b.op("Sub", high, low))
    number = b.cast(b.op("Floor", b.op("Mul", part, float(bins))), ir.DataType.INT64)
    number = b.op("Clip", number, b.constant(0, np.int64), b.constant(bins - 1, np.int64))
    zeros = b.constant(np.zeros(room(bins), np.int64))
    counted = b.cast(inside, ir.DataType.INT64)
    total = b.op("ScatterElements", zeros, number, counted, axis=0, reduction="add")
    return b.cast(total, b.result(total))


@primitive("HistogramFixedWidth", unused="dtype")
def histogram_fixed_width(b: Builder, x: Tensor, value_range: Floats, nbins: int) -> Value:
    """As Histogram; what lies outside counts in the outermost bins."""
    low, high = value_range
    flat = b.cast(b.reshape(x, [-1]), ir.DataType.DOUBLE)
    inside = b.op("Clip", flat, b.like(low, flat), b.like(high, flat))
    return histogram(b, inside, bins=nbins, min=low, max=high)


@primitive("ConfusionMatrix", unused="dtype")
def confusion_matrix(
    b: Builder, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, *, num_classes: int
) -> Value:
    """ScatterND, reduction add, into zeros."""
    columns = [b.op("Unsqueeze", b.cast(t, ir.DataType.INT64), [-1]) for t in (labels, predictions)]
    each = b.op("Expand", b.constant(1, np.int32), b.op("Shape", labels)) if weights is None else weights
    zeros = b.constant(np.zeros(room(num_classes, num_classes), b.dtype(each).numpy()))
    total = b.op("ScatterND", zeros, b.op("Concat", *columns, axis=-1), each, reduction="add")
    return b.cast(total, b.result(total))


@primitive("L2Loss")
def l2_loss(b: Builder, x: Tensor) -> Value:
    """ReduceSumSquare, halved."""
    return b.op("Mul", reduce(b, "ReduceSumSquare", x, None), 0.5)


@primitive("SquareSumAll")
def square_sum_all(b: Builder, x: Tensor, y: Tensor) -> Value:
    """ReduceSumSquare of each."""
    return tuple(reduce(b, "ReduceSumSquare", t, None) for t in (x, y))


@primitive("EqualCount")
def equal_count(b: Builder, x: Tensor, y: Tensor) -> Value:
    """Equal and ReduceSum."""
    total = b.op("ReduceSum", b.cast(b.op("Equal", x, y), ir.DataType.INT32), keepdims=0)
    return b.reshape(b.cast(total, b.result(total)), [1])


@primitive("EqualExt")
def equal_ext(b: Builder, x: Tensor, y: Tensor) -> Value:
    """Equal and ReduceMin; false where the shapes differ."""
    if b.static_shape(x) != b.static_shape(y):
        return b.constant(False)
    return reduce(b, "ReduceMin", b.op("Equal", *promoted(b, x, y)), None)


@primitive("FloatStatus")
def float_status(b: Builder, x: Tensor) -> Value:
    """1 where an element is no number or not finite, by IsNaN of the difference with itself."""
    strange = b.op("IsNaN", b.op("Sub", x, x))
    return b.reshape(reduce(b, "ReduceMax", b.cast(strange, ir.DataType.FLOAT), None), [1])


@primitive("Quantile")
def quantile(
    b: Builder,
    x: Tensor,
    q: Tensor,
    dim: int | None = None,
    keep_dims: bool = False,
    ignore_nan: bool = False,
) -> Value:
    """TopK of all elements, and Gather of the two neighbours of each place."""
    if ignore_nan:
        raise Unsupported("leaves out NaN")
    if dim is None or dim == _ALL:
        x, dim = b.reshape(x, [-1]), 0
        if keep_dims:
            raise Unsupported("keeps the dimensions of a quantile over everything")
    axis = b.axis(dim, x)
    values, _ = sorted_along(b, x, axis, False)
    last = b.cast(b.tensor(b.op("Sub", b.tensor(b.dim(x, axis)), b.constant(1, np.int64))), b.dtype(x))
    place = b.op("Mul", b.cast(q, b.dtype(x)), last)
    below, above = (
        b.op("Gather", values, b.cast(b.op(o, place), ir.DataType.INT64), axis=axis)
        for o in ("Floor", "Ceil")
    )
    part = b.op("Sub", place, b.op("Floor", place))
    tail = b.rank(x) - 1 - axis
    if b.rank(q):
        part = b.reshape(part, [-1, *[1] * tail])
    result = b.op("Add", below, b.op("Mul", b.op("Sub", above, below), part))
    if b.rank(q) == 0:
        return b.op("Unsqueeze", result, [axis]) if keep_dims else result
    moved = b.transpose(result, [axis, *[i for i in range(b.rank(x)) if i != axis]])
    return b.op("Unsqueeze", moved, [axis + 1]) if keep_dims else moved


_ALL = 10000
"""What MindSpore writes for `dim` where there is none."""
