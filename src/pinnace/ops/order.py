"""Elements in order: the largest, medians, quantiles, searching."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.math import promoted
from pinnace.ops.table import Dtype, Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value


@function
@primitive("TopkExt", unused="sorted")
def top_k(b: Builder, x: Tensor, k: Value, dim: int = -1, largest: bool = True) -> tuple[Tensor, ...]:
    """TopK."""
    size = b.op("Reshape", b.cast(b.tensor(k), ir.DataType.INT64), [1])
    return b.ops("TopK", 2, x, size, axis=dim, largest=int(largest))


formulas(
    __name__,
    """
    ArgSort; stable: x, axis: int = -1, descending: bool = False -> sorted_along(x, axis, descending)[1]
    Bucketize: x, *, boundaries: Floats ->
        # ReduceSum of the boundaries that are not above.
        wide = Unsqueeze(cast(x, DOUBLE), [-1])
        # NaN is not
        passed = ~(wide < np.asarray(boundaries, np.float64))
        ReduceSum(cast(passed, INT32), [-1], keepdims=0)
    InTopK: x, target, k: int ->
        # Less: fewer than k elements are larger than the target's.
        place = Unsqueeze(cast(target, INT64), [-1])
        larger = x > GatherElements(x, place, axis=-1)
        number = ReduceSum(cast(larger, INT64), [-1], keepdims=0)
        number < constant(k, np.int64)
    Kthvalue: x, k: int, dim: int = -1, keepdim: bool = False ->
        # TopK of all elements, and Gather of one.
        picked(sorted_along(x, dim, False), [k - 1], dim, keepdim)
    MedianExt: x -> middle(reshape(x, [-1]), 0, False)[0]
    NthElement: x, n: int, reverse: bool = False ->
        # TopK of all elements, and Gather of one.
        Gather(sorted_along(x, -1, reverse)[0], constant(n, np.int64), axis=-1)
    Sort: x, axis: int = -1, descending: bool = False ->
        # TopK of all elements.
        values, places = sorted_along(x, axis, descending)
        (values, cast(places, INT32))
    TopK; sorted: x, k: Value ->
        # TopK of the last dimension.
        values, places = top_k(x, k)
        (values, cast(places, INT32))
    """,
)


@function
@primitive("SortExt", unused="stable")
def sorted_along(b: Builder, x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, ...]:
    """TopK of all elements; equal ones keep their order."""
    size = b.vector([b.dim(x, axis)])
    return b.ops("TopK", 2, x, size, axis=axis, largest=int(descending))


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


@function
@primitive("MedianDim")
def middle(b: Builder, x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, ...]:
    """TopK of all elements, and Gather of the lower one in the middle."""
    size = b.dim(x, dim)
    ordered = sorted_along(b, x, dim, False)
    if isinstance(size, int):
        at = b.constant([(size - 1) // 2], np.int64)
    else:
        at = b.reshape(b.op("Div", b.op("Sub", size, 1), 2), [1])
    return _picked(b, ordered, at, dim, keepdim)


@function
def _picked(
    b: Builder, ordered: tuple[Tensor, ...], at: Tensor | list[int], axis: int, keep: bool
) -> tuple[Tensor, ...]:
    """The elements in one place, and their places before."""
    found = [b.op("Gather", t, at, axis=axis) for t in ordered]
    return tuple(found if keep else [b.op("Squeeze", t, [axis]) for t in found])


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


_ALL = 10000
"""The `dim` that MindSpore writes where there is none."""


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
