"""Segments of tensors, and sparse ones: the places, (n, rank), and the values, (n,)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import filled
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.index import scattered_nd, wide_places
from pinnace.ops.table import Tensor, primitives
from pinnace.ops.values import Value


def _neutral(reduction: str, dtype: ir.DataType) -> float:
    if reduction in ("add", "mul"):
        return float(reduction == "mul")
    limits = np.finfo(dtype.numpy()) if dtype.is_floating_point() else np.iinfo(dtype.numpy())
    return limits.min if reduction == "max" else limits.max


@function
@primitives(
    {
        "SegmentSum": "add",
        "SegmentMean": "mean",
        "SegmentProd": "mul",
        "SegmentMax": "max",
        "SegmentMin": "min",
    }
)
def sorted_segments(b: Builder, reduction: str, x: Tensor, segment_ids: Tensor) -> Value:
    """ScatterND, reduction {reduction}; for a mean of the sums, and Div by the counts."""
    ids = wide_places(b, segment_ids)
    size = b.op("Add", b.op("ReduceMax", ids, keepdims=0), 1)
    rest = b.dims(x, 1)
    result = _scattered_segments(b, x, ids, [size, *rest], "add" if reduction == "mean" else reduction)
    if reduction in ("add", "mul"):
        return result
    ones = filled(b, 1, [b.dim(x, 0), *[1] * len(rest)], b.dtype(x))
    counts = _scattered_segments(b, ones, ids, [size, *[1] * len(rest)], "add")
    if reduction == "mean":
        return b.op("Div", result, b.op("Max", counts, b.like(1, x)))
    return b.op("Where", b.op("Equal", counts, b.like(0, x)), b.like(0, x), result)


@function
def _scattered_segments(
    b: Builder, x: Tensor, ids: Tensor, dims: Sequence[int | Tensor], reduction: str
) -> Tensor:
    start = filled(b, _neutral(reduction, b.dtype(x)), dims, b.dtype(x))
    return scattered_nd(b, start, b.op("Unsqueeze", ids, [-1]), x, reduction)


formulas(
    __name__,
    """
    SparseSegmentMean: x, indices, segment_ids ->
        sorted_segments("mean", Gather(x, places(indices), axis=0), segment_ids)
    SparseTensorDenseAdd; shape: indices, values, shape: Value, dense ->
        scattered_nd(dense, indices, values, "add")
    SparseTensorDenseMatmul: indices, values, shape: Dims, dense, adjoint_st: bool = False,
        adjoint_dt: bool = False ->
        # Gather of the rows that values meet, Mul, and ScatterND into zeros, reduction add.
        dense = transpose(dense, (1, 0)) if adjoint_dt else dense
        row, column = [Gather(wide_places(indices), [i], axis=1) for i in (0, 1)]
        to, of = (column, row) if adjoint_st else (row, column)
        met = Gather(dense, Squeeze(of, [1]), axis=0)
        product = Unsqueeze(values, [1]) * met
        size = shape[1] if adjoint_st else shape[0], dim(dense, 1)
        scattered_nd(filled(0, size, dtype(values)), to, product, "add")
    SparseToDense: indices, values, shape: Dims ->
        scattered_nd(filled(0, shape, dtype(values)), indices, values)
    UnsortedSegmentSum("add") UnsortedSegmentProd("mul") UnsortedSegmentMax("max")
        UnsortedSegmentMin("min"): reduction, x, segment_ids, num_segments: Dims ->
        # ScatterND, reduction {reduction}.
        sizes = [*num_segments, *dims(x, rank(segment_ids))]
        scattered_segments(x, wide_places(segment_ids), sizes, reduction)
    """,
)
