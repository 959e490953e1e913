"""Elements in order: the largest, medians, searching; results that run along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.array import along, counting, repeated
from pinnace.ops.mindspore.math import is_float, log1p, promoted
from pinnace.ops.table import Dtype, Floats, Tensor, Tensors, formulas, primitive, primitives
from pinnace.ops.values import DOUBLE, INT32, INT64, Value


@primitive("TopkExt", unused="sorted")
def top_k(op: Builder, x: Tensor, k: Value, dim: int = -1, largest: bool = True) -> tuple[Tensor, ...]:
    size = op.Reshape(op.cast(op.tensor(k), INT64), [1])
    return op.ops("TopK", 2, x, size, axis=dim, largest=int(largest))


def _lesser(op: Builder, x: Tensor, values: Tensor, right: bool, dtype: Dtype) -> Tensor:
    """The number of elements of sorted rows that are less than each value, or not greater."""
    wanted, rows = op.Unsqueeze(values, [-1]), op.Unsqueeze(x, [-2]) if op.rank(x) > 1 else x
    above = op.op("Greater" if right else "GreaterOrEqual", *promoted(op, rows, wanted))
    below = op.Not(above)  # NaN is beyond all numbers, and not above any
    return op.cast(op.ReduceSum(op.cast(below, INT64), [-1], keepdims=0), dtype)


def _middle(op: Builder, x: Tensor, axis: int, keep: bool, ignore_nan: bool = False) -> Tensors:
    """The lower median along an axis, and where it is."""
    if ignore_nan and is_float(op, x):
        return _middle_of_numbers(op, x, axis, keep)
    size = op.dim(x, axis)
    if isinstance(size, int):
        at = op.constant([(size - 1) // 2], np.int64)
    else:
        at = op.reshape((size - 1) / 2, [1])
    return _picked(op, sorted_along(op, x, axis, False), at, axis, keep)


def _middle_of_numbers(op: Builder, x: Tensor, axis: int, keep: bool) -> Tensors:
    """The lower median of what is not NaN, and where it is."""
    nothing = op.IsNaN(x)
    places = sorted_along(op, op.Where(nothing, math.inf, x), axis, False)[1]
    numbers = op.ReduceSum(op.cast(op.Not(nothing), INT64), [axis], keepdims=1)
    place = op.GatherElements(places, op.Max((numbers - 1) / 2, 0), axis=axis)
    found = op.GatherElements(x, place, axis=axis), place
    return found if keep else tuple([op.Squeeze(t, [axis]) for t in found])


def _picked(op: Builder, ordered: Tensors, at: Value, axis: int, keep: bool) -> Tensors:
    """The elements in one place, and their places before."""
    found = [op.Gather(t, at, axis=axis) for t in ordered]
    return tuple(found if keep else [op.Squeeze(t, [axis]) for t in found])


@primitive("Bucketize")
def _bucketize(op: Builder, x: Tensor, *, boundaries: Floats) -> Value:
    """ReduceSum of the boundaries that are not above."""
    wide = op.Unsqueeze(op.cast(x, DOUBLE), [-1])
    # NaN is not
    passed = op.Not(op.Less(wide, np.asarray(boundaries, np.float64)))
    return op.ReduceSum(op.cast(passed, INT32), [-1], keepdims=0)


@primitive("InTopK")
def _in_top_k(op: Builder, x: Tensor, target: Tensor, k: int) -> Value:
    """Less: fewer than k elements are larger than the target's."""
    place = op.Unsqueeze(op.cast(target, INT64), [-1])
    larger = op.Greater(x, op.GatherElements(x, place, axis=-1))
    number = op.ReduceSum(op.cast(larger, INT64), [-1], keepdims=0)
    return op.Less(number, op.constant(k, np.int64))


@primitive("Kthvalue")
def _kthvalue(op: Builder, x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Value:
    return _picked(op, sorted_along(op, x, dim, False), [k - 1], dim, keepdim)


@primitives({"LowerBound": False, "UpperBound": True}, unused="out_type")
def _lower_bound(op: Builder, right: bool, x: Tensor, values: Tensor) -> Value:
    return _lesser(op, x, values, right, op.result(op.constant(0, np.int64)))


@primitive("Median")
def _median(
    op: Builder,
    x: Tensor,
    global_median: bool = False,
    axis: int = 0,
    keep_dims: bool = False,
    ignore_nan: bool = False,
) -> Value:
    if global_median or op.rank(x) == 0:
        return _middle(op, op.reshape(x, [-1]), 0, False, ignore_nan)
    return _middle(op, x, axis, keep_dims, ignore_nan)


@primitive("NthElement")
def _nth_element(op: Builder, x: Tensor, n: int, reverse: bool = False) -> Value:
    return op.Gather(sorted_along(op, x, -1, reverse)[0], op.constant(n, np.int64), axis=-1)


@primitive("Quantile")
def _quantile(op: Builder, x: Tensor, q: Tensor, dim: int | None = None, keep_dims: bool = False) -> Value:
    if dim is None or dim == _ALL:
        if keep_dims:
            raise Unsupported("keeps the dimensions of a quantile over everything")
        x, along = op.reshape(x, [-1]), 0
    else:
        along = op.axis(dim, x)
    values, _ = sorted_along(op, x, along, False)
    place = op.cast(q, op.dtype(x)) * op.cast(
        op.tensor(op.dim(x, along)) - op.constant(1, np.int64), op.dtype(x)
    )
    below, above = [
        op.Gather(values, op.cast(v, INT64), axis=along) for v in (op.Floor(place), op.Ceil(place))
    ]
    part = place - op.Floor(place)
    part = op.reshape(part, [-1, *[1] * (op.rank(x) - 1 - along)]) if op.rank(q) else part
    found = below + (above - below) * part
    if op.rank(q):
        found = op.transpose(found, [along, *[i for i in range(op.rank(x)) if i != along]])
    return op.Unsqueeze(found, [along + 1 if op.rank(q) else along]) if keep_dims else found


@primitive("SearchSorted")
def _search_sorted(
    op: Builder,
    sorted_sequence: Tensor,
    values: Tensor,
    sorter: Tensor | None = None,
    dtype: Dtype = INT64,
    right: bool = False,
) -> Value:
    """ReduceSum of what is less: each value is compared with all."""
    if sorter is None:
        return _lesser(op, sorted_sequence, values, right, dtype)
    return _lesser(
        op, op.GatherElements(sorted_sequence, op.cast(sorter, INT64), axis=-1), values, right, dtype
    )


@primitive("Sort")
def _sort(op: Builder, x: Tensor, axis: int = -1, descending: bool = False) -> Value:
    values, places = sorted_along(op, x, axis, descending)
    return (values, op.cast(places, INT32))


@primitive("TopK", unused="sorted")
def _top_k(op: Builder, x: Tensor, k: Value) -> Value:
    values, places = top_k(op, x, k)
    return (values, op.cast(places, INT32))


@primitive("SortExt", unused="stable")
def sorted_along(op: Builder, x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, ...]:
    """TopK of all elements; equal ones keep their order."""
    size = op.vector([op.dim(x, axis)])
    return op.ops("TopK", 2, x, size, axis=axis, largest=int(descending))


_ALL = 10000
"""The `dim` that MindSpore writes where there is none."""


formulas(
    {
        "ArgSort": lambda op, x, axis=-1, descending=False: sorted_along(op, x, axis, descending)[1],
        "MedianDim": lambda op, x, dim=-1, keepdim=False: _middle(op, x, dim, keepdim),
        "MedianExt": lambda op, x: _middle(op, op.reshape(x, [-1]), 0, False)[0],
    },
    unused="stable",
)


@primitives({"Cummax": "Max", "Cummin CumminExt": "Min"})
def _cummax(op: Builder, which: str, x: Tensor, axis: int) -> Value:
    """The better of each slice and those before it, by Where; in a Loop for a free dimension."""
    best, place = _running_best(op, "GreaterOrEqual" if which == "Max" else "LessOrEqual", x, axis)
    return (best, op.cast(place, op.result(place, 1)))


@primitive("CumProd")
def _cum_prod(op: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    """Mul of each slice with the product before it; in a Loop where they are many or not known."""
    return _folded(op, x, axis, exclusive, reverse, lambda op, x, y: op.Mul(x, y), 1)


@primitive("CumSum")
def _cum_sum(op: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    at = op.constant(axis, np.int64)
    return op.CumSum(op.cast(x, op.result(x)), at, exclusive=exclusive, reverse=reverse)


@primitive("CumsumExt")
def _cumsum_ext(op: Builder, x: Tensor, dim: int, dtype: Dtype | None = None) -> Value:
    return op.CumSum(op.cast(x, dtype or op.result(x)), op.constant(dim, np.int64))


@primitive("CumulativeLogsumexp")
def _cumulative_logsumexp(
    op: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False
) -> Value:
    """The logarithm of a sum of two exponentials, of each slice and what is before it."""
    return _folded(op, x, axis, exclusive, reverse, _log_sum_exp, float(np.finfo(op.dtype(x).numpy()).min))


def _log_sum_exp(op: Builder, x: Tensor, y: Tensor) -> Value:
    """The greater, and Log1p of Exp of the negative distance."""
    distance = op.Where(op.Equal(x, y), 0, op.Abs(x - y))  # infinities have no distance
    return op.Max(x, y) + log1p(op, op.Exp(-distance))


_Combine = Callable[[Builder, Tensor, Tensor], Tensor]


def _folded(
    op: Builder, x: Tensor, axis: int, exclusive: bool, reverse: bool, combine: _Combine, neutral: float
) -> Tensor:
    """Each slice with those before it."""

    def turned(t: Tensor) -> Tensor:
        return op.Slice(t, [-1], [int(np.iinfo(np.int64).min)], [axis], [-1]) if reverse else t

    def join(earlier: Sequence[Tensor], later: Sequence[Tensor], there: Tensor | None) -> Sequence[Tensor]:
        before = earlier[0] if there is None else op.Where(there, earlier[0], op.like(neutral, x))
        return [combine(op, before, later[0])]

    start = turned(x)
    if exclusive:
        first = op.Slice(start, [0], [1], [axis])
        nothing = op.Expand(op.like(neutral, x), op.Shape(first))
        start = op.Concat(nothing, op.Slice(start, [0], [-1], [axis]), axis=axis)
    return turned(running(op, [start], axis, join)[0])


def _running_best(op: Builder, better: str, x: Tensor, axis: int) -> tuple[Tensor, ...]:
    """The best so far along a dimension, and where it was last seen; NaN is the best of all."""
    has_nan = op.dtype(x).is_floating_point()

    def join(earlier: Sequence[Tensor], later: Sequence[Tensor], there: Tensor | None) -> Sequence[Tensor]:
        newer = op.op(better, later[0], earlier[0])
        newer = op.Or(newer, op.IsNaN(later[0])) if has_nan else newer
        kept = newer if there is None else op.Or(newer, op.Not(there))
        return [op.Where(kept, new, old) for old, new in zip(earlier, later, strict=True)]

    column = along(op, counting(op, op.dim(x, axis)), op.axis(axis, x), op.rank(x))
    return running(op, [x, op.Expand(column, op.Shape(x))], axis, join)


_BY_SLICES = 64
"""Slices from which on a graph with nodes for each of them takes long to build, and in the end is refused."""
Join = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | None], Sequence[Tensor]]
"""The result over two neighboring stretches, of both, and where there is an earlier: None is everywhere."""


def running(op: Builder, first: Sequence[Tensor], axis: int, join: Join) -> tuple[Tensor, ...]:
    """The results over all places up to each one, of what each place holds by itself.

    They come slice by slice, and by a Loop where these are many or not known.
    """
    axis = op.axis(axis, first[0])
    size = op.dim(first[0], axis)
    if size in (0, 1):
        return tuple(first)
    if isinstance(size, int) and size <= _BY_SLICES:
        apart = zip(*(op.ops("Split", size, t, [1] * size, axis=axis) for t in first), strict=True)
        slices = list(accumulate(apart, lambda earlier, later: tuple(join(earlier, later, None))))
        return tuple(op.Concat(*parts, axis=axis) for parts in zip(*slices, strict=True))
    places = counting(op, size)
    log = op.Log(op.cast(op.tensor(size), ir.DataType.FLOAT)) / float(np.log(2))
    turns = op.cast(op.Ceil(log), INT64) + 1  # one more: logarithms are rounded
    shape = [-1 if i == axis else 1 for i in range(op.rank(first[0]))]

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        *held, step = carried
        before = places - step
        there = op.reshape(op.GreaterOrEqual(before, 0), shape)
        earlier = [op.Gather(t, op.Max(before, 0), axis=axis) for t in held]
        return [*join(earlier, held, there), step * 2]

    return repeated(op, turns, [*first, op.constant(1, np.int64)], turn)[:-1]
