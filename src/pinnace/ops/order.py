"""Elements in order: the largest, medians, quantiles, searching."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value


@function
@primitive("TopkExt", unused="sorted")
def top_k(b: Builder, x: Tensor, k: Value, dim: int = -1, largest: bool = True) -> tuple[Tensor, ...]:
    """TopK."""
    size = b.op("Reshape", b.cast(b.tensor(k), ir.DataType.INT64), [1])
    return b.ops("TopK", 2, x, size, axis=dim, largest=int(largest))


functions(
    __name__,
    """
    lesser: x, values, right, dtype ->
        # The number of elements of sorted rows that are less than each value, or not greater.
        wanted, rows = Unsqueeze(values, [-1]), Unsqueeze(x, [-2]) if rank(x) > 1 else x
        above = op("Greater" if right else "GreaterOrEqual", *promoted(rows, wanted))
        below = ~above  # NaN is beyond all numbers, and not above any
        cast(ReduceSum(cast(below, INT64), [-1], keepdims=0), dtype)
    middle: x, axis, keep, ignore_nan=False ->
        # The lower median along an axis, and where it is.
        if ignore_nan and is_float(x):
            return middle_of_numbers(x, axis, keep)
        size = dim(x, axis)
        fixed = constant([(size - 1) // 2], np.int64) if isinstance(size, int) else None
        at = reshape((size - 1) / 2, [1]) if fixed is None else fixed
        picked(sorted_along(x, axis, False), at, axis, keep)
    middle_of_numbers: x, axis, keep ->
        # The lower median of what is not NaN, and where it is.
        nothing = IsNaN(x)
        places = sorted_along(Where(nothing, inf, x), axis, False)[1]
        numbers = ReduceSum(cast(~nothing, INT64), [axis], keepdims=1)
        place = GatherElements(places, Max((numbers - 1) / 2, 0), axis=axis)
        found = GatherElements(x, place, axis=axis), place
        found if keep else tuple([Squeeze(t, [axis]) for t in found])
    picked: ordered, at, axis, keep ->
        # The elements in one place, and their places before.
        found = [Gather(t, at, axis=axis) for t in ordered]
        tuple(found if keep else [Squeeze(t, [axis]) for t in found])
    """,
)


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
    LowerBound(False) UpperBound(True); out_type: right, x, values ->
        # ReduceSum of what is less: each value is compared with all.
        lesser(x, values, right, result(constant(0, np.int64)))
    Median: x, global_median: bool = False, axis: int = 0, keep_dims: bool = False,
        ignore_nan: bool = False ->
        # TopK of all elements, and Gather of the middle.
        if global_median or rank(x) == 0:
            return middle(reshape(x, [-1]), 0, False, ignore_nan)
        middle(x, axis, keep_dims, ignore_nan)
    MedianDim: x, dim: int = -1, keepdim: bool = False ->
        # TopK of all elements, and Gather of the lower one in the middle.
        middle(x, dim, keepdim)
    MedianExt: x -> middle(reshape(x, [-1]), 0, False)[0]
    NthElement: x, n: int, reverse: bool = False ->
        # TopK of all elements, and Gather of one.
        Gather(sorted_along(x, -1, reverse)[0], constant(n, np.int64), axis=-1)
    Quantile: x, q, dim: int | None = None, keep_dims: bool = False ->
        # TopK of all elements, and Gather of the two neighbours of each place.
        whole = dim is None or dim == _ALL
        if whole and keep_dims:
            raise Unsupported("keeps the dimensions of a quantile over everything")
        x = reshape(x, [-1]) if whole else x
        along = 0 if whole else axis(dim, x)
        values, _ = sorted_along(x, along, False)
        place = cast(q, dtype(x)) * cast(tensor(dim(x, along)) - constant(1, np.int64), dtype(x))
        below, above = [Gather(values, cast(v, INT64), axis=along) for v in (Floor(place), Ceil(place))]
        part = place - Floor(place)
        part = reshape(part, [-1, *[1] * (rank(x) - 1 - along)]) if rank(q) else part
        found = below + (above - below) * part
        found = transpose(found, [along, *[i for i in range(rank(x)) if i != along]]) if rank(q) else found
        Unsqueeze(found, [along + 1 if rank(q) else along]) if keep_dims else found
    SearchSorted: sorted_sequence, values, sorter = None, dtype: Dtype = INT64, right: bool = False ->
        # ReduceSum of what is less: each value is compared with all.
        if sorter is None:
            return lesser(sorted_sequence, values, right, dtype)
        lesser(GatherElements(sorted_sequence, cast(sorter, INT64), axis=-1), values, right, dtype)
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


_ALL = 10000
"""The `dim` that MindSpore writes where there is none."""
