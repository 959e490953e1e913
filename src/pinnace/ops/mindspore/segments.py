"""Segments of tensors, and sparse ones: the places, (n, rank), and the values, (n,)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.array import filled
from pinnace.ops.mindspore.index import places, scattered_nd, wide_places
from pinnace.ops.table import Dims, Tensor, formulas, primitive, primitives
from pinnace.ops.values import Value


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
    ids = wide_places(op, segment_ids)
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
    row, column = [op.Gather(wide_places(op, indices), [i], axis=1) for i in (0, 1)]
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
    return _scattered_segments(op, x, wide_places(op, segment_ids), sizes, reduction)


formulas(
    {
        "SparseSegmentMean": lambda op, x, indices, ids: sorted_segments(
            op, "mean", op.Gather(x, places(op, indices), axis=0), ids
        )
    }
)
