"""Elements in order: the largest, medians, quantiles, searching."""

from __future__ import annotations

import math

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float, promoted
from pinnace.ops.table import (
    DOUBLE,
    INT32,
    INT64,
    Dtype,
    Floats,
    Tensor,
    Tensors,
    formulas,
    primitive,
    primitives,
)
from pinnace.ops.values import Value


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
    """ReduceSum of what is less: each value is compared with all."""
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
    found = (
        op.transpose(found, [along, *[i for i in range(op.rank(x)) if i != along]]) if op.rank(q) else found
    )
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
