"""Gathering, scattering and slicing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.room import room
from pinnace.ops import binding
from pinnace.ops.mindspore.array import along, counting, filled
from pinnace.ops.mindspore.math import beside
from pinnace.ops.table import Dims, Ints, OneOf, Tensor, primitive, primitives
from pinnace.ops.values import Value


def places(b: Builder, x: Tensor) -> Tensor:
    """Indices in a type that ONNX takes."""
    return x if b.dtype(x) in (ir.DataType.INT32, ir.DataType.INT64) else b.cast(x, ir.DataType.INT64)


def wide_places(b: Builder, x: Tensor) -> Tensor:
    """Indices as int64, which the ND operators want."""
    return b.cast(x, ir.DataType.INT64)


# -- gathering -------------------------------------------------------------------------------------


@primitive("Gather", "GatherV2", "SparseGatherV2")
def gather(b: Builder, params: Tensor, indices: Tensor, axis: int, batch_dims: int = 0) -> Value:
    """Gather; with batch_dims GatherND."""
    if batch_dims == 0:
        return b.op("Gather", params, places(b, indices), axis=axis)
    axis, batch_dims = b.axis(axis, params), b.axis(batch_dims, indices)
    rest = [i for i in range(b.rank(params)) if i != axis]
    moved = [*rest[:batch_dims], axis, *rest[batch_dims:]]
    deep = b.op("Unsqueeze", wide_places(b, indices), [-1])
    found = b.op("GatherND", b.transpose(params, moved), deep, batch_dims=batch_dims)
    # Now: batch, the indices' own dimensions, then the others; the indices belong where the axis was.
    own = b.rank(indices) - batch_dims
    others = list(range(batch_dims + own, b.rank(found)))
    before = others[: axis - batch_dims]
    after = others[axis - batch_dims :]
    middle = list(range(batch_dims, batch_dims + own))
    return b.transpose(found, [*range(batch_dims), *before, *middle, *after])


@primitive("Embedding", unused="padding_idx norm_type scale_grad_by_freq")
def _embedding(op: Builder, ids: Tensor, table: Tensor) -> Value:
    return op.Gather(table, places(op, ids), axis=0)


@primitive("EmbeddingLookup", unused="bprop_return_sparse")
def _embedding_lookup(op: Builder, table: Tensor, ids: Tensor, offset: int = 0) -> Value:
    """Gather; zeros where the table has no row."""
    rows = op.tensor(op.dim(table, 0))
    here = op.cast(ids, ir.DataType.INT64) - offset
    held = op.And(op.GreaterOrEqual(here, 0), op.Less(here, rows))
    found = op.Gather(table, op.Where(held, here, op.constant(0, np.int64)), axis=0)
    columns = [-1 - i for i in range(op.rank(table) - 1)]
    held = op.Unsqueeze(held, columns) if columns else held
    return op.Where(held, found, 0)


@primitive("GatherD")
def _gather_d(op: Builder, x: Tensor, dim: int, index: Tensor) -> Value:
    """GatherElements; the index may be smaller in other dimensions."""
    one_by_one = op.rank(x) > 0 and op.rank(index) > 0
    x = x if op.rank(x) else op.reshape(x, [1])  # a scalar, which MindSpore takes for one element
    return (
        op.GatherElements(x, places(op, index), axis=dim)
        if one_by_one
        else op.Gather(x, places(op, index), axis=dim)
    )


@primitive("GatherNd", "GatherNdExt")
def _gather_nd(op: Builder, x: Tensor, indices: Tensor) -> Value:
    """GatherND; of one place without a dimension Gather."""
    return (
        op.Gather(x, places(op, indices), axis=0)
        if op.rank(indices) == 0
        else op.GatherND(x, wide_places(op, indices))
    )


@primitive("IndexAddExt")
def _index_add_ext(
    op: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Value = 1
) -> Value:
    """ScatterElements, reduction add."""
    source = source * op.cast(op.operand(alpha, source), op.dtype(source)) if op.known(alpha) != 1 else source
    return added_slices(op, x, index, source, dim)


@primitive("IndexSelect")
def _index_select(op: Builder, x: Tensor, axis: int, index: Tensor) -> Value:
    """Gather."""
    index = op.reshape(index, [1]) if op.rank(index) == 0 else index
    return op.Gather(x, places(op, index), axis=axis)


@primitive("InplaceUpdateV2")
def _inplace_update_v2(op: Builder, x: Tensor, indices: Value, v: Tensor) -> Value:
    """ScatterND."""
    where = op.reshape(op.tensor(indices), [-1, 1])
    return scattered_nd(op, x, where, v)


@primitive("MaskedScatter")
def _masked_scatter(op: Builder, x: Tensor, mask: Tensor, source: Tensor) -> Value:
    """Gather of the source's next element, and Where by the mask."""
    sizes = op.dims(x)
    whole = op.Expand(mask, op.vector(sizes))
    flat = op.cast(op.reshape(whole, [-1]), ir.DataType.INT64)
    number = op.CumSum(flat, op.constant(0, np.int64)) - op.constant(1, np.int64)
    taken = op.Gather(op.reshape(source, [-1]), op.Max(number, 0), axis=0)
    return op.Where(whole, op.cast(op.reshape(taken, sizes), op.dtype(x)), x)


@primitive("NonZero", "InnerNonZero")
def _non_zero(op: Builder, x: Tensor) -> Value:
    return op.transpose(op.NonZero(x), [1, 0])


@primitive("NonZeroExt")
def _non_zero_ext(op: Builder, x: Tensor) -> Value:
    """NonZero, its rows as a tuple."""
    found = op.NonZero(x)
    return tuple([op.Gather(found, op.constant(i, np.int64), axis=0) for i in range(op.rank(x))])


@primitive("Scatter", "ScatterValue")
def _scatter(
    op: Builder,
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Value,
    reduce: Annotated[str, OneOf(_REDUCTIONS)] = "none",
) -> Value:
    """ScatterElements; the source may be larger than the index."""
    return scattered(op, x, dim, index, cropped(op, src, index), reduce)


@primitive("ScatterAddExt")
def _scatter_add_ext(op: Builder, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Value:
    return scattered(op, x, dim, index, cropped(op, src, index), "add")


@primitive("ScatterAddWithAxis")
def _scatter_add_with_axis(op: Builder, x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Value:
    return scattered(op, x, axis, indices, updates, "add")


@primitive("ScatterNd")
def _scatter_nd(op: Builder, indices: Tensor, updates: Tensor, shape: Dims) -> Value:
    return scattered_nd(op, filled(op, 0, shape, op.dtype(updates)), indices, updates, "add")


@primitive("Take")
def _take(op: Builder, x: Tensor, index: Tensor) -> Value:
    return op.Gather(op.reshape(x, [-1]), places(op, index), axis=0)


@primitive("TensorScatterDiv")
def _tensor_scatter_div(op: Builder, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    return scattered_nd(op, x, indices, op.Reciprocal(updates), "mul")


@primitive("TensorScatterElements")
def _tensor_scatter_elements(
    op: Builder,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    reduce: Annotated[str, OneOf(_REDUCTIONS)] = "none",
) -> Value:
    """ScatterElements."""
    return scattered(op, x, axis, indices, updates, reduce)


@primitive("TensorScatterSub")
def _tensor_scatter_sub(op: Builder, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    return scattered_nd(op, x, indices, -updates, "add")


@primitives(
    {
        "TensorScatterUpdate": "none",
        "TensorScatterAdd": "add",
        "TensorScatterMul": "mul",
        "TensorScatterMax": "max",
        "TensorScatterMin": "min",
    }
)
def _tensor_scatter_update(op: Builder, reduction: str, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    """ScatterND, reduction {reduction}."""
    return scattered_nd(op, x, indices, updates, reduction)


@primitive("MaskedSelect")
def masked_select(b: Builder, x: Tensor, mask: Tensor) -> Value:
    """Expand, Reshape, Compress."""
    if b.shape(x) != b.shape(mask) or None in b.shape(x):
        both = b.op("Where", mask, x, x)
        mask = b.op("Expand", mask, b.op("Shape", both))
        x = both
    return b.op("Compress", b.reshape(x, [-1]), b.reshape(mask, [-1]), axis=0)


@primitive("Index", "InnerIndex")
def index(b: Builder, x: Tensor, indices: Value) -> Value:
    """GatherND of the indices, side by side."""
    wanted = binding.tensors(b, indices)
    if any(b.dtype(t) is ir.DataType.BOOL for t in wanted):
        raise Unsupported("indexes with a mask among other indices")
    return b.op("GatherND", x, _side_by_side(b, wanted))


def _side_by_side(b: Builder, indices: Sequence[Tensor]) -> Tensor:
    """Index tensors that broadcast, as one whose last dimension runs over them."""
    wide = [wide_places(b, i) for i in indices]
    total = wide[0]
    for other in wide[1:]:
        total = b.op("Add", total, other)
    nought = b.op("Mul", total, b.constant(0, np.int64))
    return b.op("Concat", *(b.op("Unsqueeze", b.op("Add", i, nought), [-1]) for i in wide), axis=-1)


# -- scattering ------------------------------------------------------------------------------------


def scattered_nd(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """ScatterND."""
    if not b.rank(x):  # a scalar, which MindSpore takes for one row
        return b.reshape(scattered_nd(b, b.reshape(x, [1]), indices, updates, reduction), [])
    return b.op("ScatterND", x, wide_places(b, indices), b.cast(updates, b.dtype(x)), reduction=reduction)


_REDUCTIONS = {
    "0": "none",
    "1": "add",
    "2": "mul",
    "none": "none",
    "add": "add",
    "multiply": "mul",
    "update": "none",
}


def scattered(
    b: Builder, x: Tensor, axis: int, indices: Tensor, updates: Value, reduction: str = "none"
) -> Tensor:
    """ScatterElements."""
    values = b.cast(b.operand(updates, x), b.dtype(x))
    if b.rank(values) == 0 and b.rank(x):
        values = b.op("Expand", values, b.op("Shape", indices))
    return b.op("ScatterElements", x, places(b, indices), values, axis=axis, reduction=reduction)


def cropped(b: Builder, x: Value, like: Tensor) -> Value:
    """The first elements of a tensor, as many along each dimension as another has."""
    if not isinstance(x, ir.Value) or b.rank(x) == 0 or b.shape(x) == b.shape(like):
        return x
    rank = b.rank(x)
    return b.op("Slice", x, [0] * rank, b.op("Shape", like), list(range(rank)))


def added_slices(b: Builder, x: Tensor, index: Tensor, source: Tensor, axis: int) -> Tensor:
    """The slices of `source` added to those of `x` that the index names."""
    return scattered(b, x, axis, _spread(b, index, source, axis), source, "add")


def _spread(b: Builder, index: Tensor, like: Tensor, axis: int) -> Tensor:
    """An index of slices, as one for every element of `like`."""
    column = along(b, places(b, index), b.axis(axis, like), b.rank(like))
    return b.op("Expand", column, b.op("Shape", like))


@primitive("IndexFillScalar", "IndexFillTensor", "IndexFill")
def index_fill(b: Builder, x: Tensor, dim: int, index: Tensor, value: Value) -> Value:
    """The value in the slices that the indices name, by Where."""
    if not b.rank(x):  # a scalar, which MindSpore takes for one element
        return b.reshape(index_fill(b, b.reshape(x, [1]), 0, index, value), [])
    size = b.dim(x, dim)
    numbers = counting(b, size)
    wanted = wide_places(b, b.reshape(index, [-1]))
    wanted = b.op("Where", b.op("Less", wanted, 0), b.op("Add", wanted, b.tensor(size)), wanted)
    same = b.op("Equal", b.op("Unsqueeze", numbers, [1]), b.op("Unsqueeze", wanted, [0]))
    named = b.cast(b.op("ReduceMax", b.cast(same, ir.DataType.INT32), [1], keepdims=0), ir.DataType.BOOL)
    return b.op("Where", along(b, named, b.axis(dim, x), b.rank(x)), beside(b, value, x), x)


@primitive("IndexPut")
def index_put(b: Builder, x: Tensor, values: Tensor, indices: Value, accumulate: bool = False) -> Value:
    """ScatterND at the indices, side by side."""
    where = _side_by_side(b, binding.tensors(b, indices))
    rest = b.op("Shape", x, start=len(binding.tensors(b, indices)))
    shape = b.op("Concat", b.op("Shape", where, end=-1), rest, axis=0)
    return scattered_nd(b, x, where, b.op("Expand", values, shape), "add" if accumulate else "none")


def put(b: Builder, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements put where `index` counts through all of `x`."""
    elements, index, source = (b.reshape(t, [-1]) for t in (x, index, source))
    flat = scattered(b, elements, 0, index, source, "add" if accumulate else "none")
    return b.op("Reshape", flat, b.op("Shape", x))


def copied_slices(b: Builder, x: Tensor, index: Tensor, source: Tensor, axis: int) -> Tensor:
    """The slices of `source` in the place of those of `x` that the index names."""
    return scattered(b, x, axis, _spread(b, index, source, axis), source)


@primitives({"InplaceAdd": ("add", 1), "InplaceSub": ("add", -1), "InplaceUpdate": ("none", 1)})
def rows(b: Builder, reduction: str, sign: int, x: Tensor, v: Tensor, *, indices: Ints) -> Value:
    """ScatterND, reduction {reduction}."""
    where = b.constant([[i] for i in indices], np.int64)
    return scattered_nd(b, x, where, b.op("Neg", v) if sign < 0 else v, reduction)


@primitive("TensorCopySlices")
def tensor_copy_slices(b: Builder, x: Tensor, value: Tensor, begin: Ints, end: Ints, strides: Ints) -> Value:
    """ScatterElements, at places that are known, of all elements in a row."""
    shape = b.static_shape(x)
    cut = tuple(slice(*bounds) for bounds in zip(begin, end, strides, strict=True))
    places = np.arange(math.prod(room(*shape))).reshape(shape)[cut]
    value = b.op("Expand", b.cast(value, b.dtype(x)), list(places.shape))
    return put(b, x, b.constant(places, np.int64), value)


@primitive("FillDiagonal")
def fill_diagonal(b: Builder, x: Tensor, fill_value: Value, wrap: bool = False) -> Value:
    """The value on the diagonal, by Where."""
    if b.rank(x) == 2 and None in b.shape(x):
        rows, columns = (counting(b, b.dim(x, i)) for i in range(2))
        if wrap:
            rows = b.op("Mod", rows, b.op("Add", b.op("Size", columns), 1))
        mask = b.op("Equal", b.op("Unsqueeze", rows, [1]), columns)
    else:
        mask = b.constant(_diagonal_mask(b.static_shape(x), wrap))
    return b.op("Where", mask, beside(b, fill_value, x), x)


def _diagonal_mask(shape: tuple[int, ...], wrap: bool) -> npt.NDArray[np.bool_]:
    mask = np.zeros(room(*shape), np.bool_)
    if len(shape) > 2:
        mask[np.diag_indices(min(shape), len(shape))] = True
    else:
        np.fill_diagonal(mask, True, wrap=wrap)
    return mask
