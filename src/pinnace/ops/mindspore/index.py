"""Gathering, scattering and slicing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room
from pinnace.ops import binding
from pinnace.ops.mindspore.array import along, counting, filled, places
from pinnace.ops.mindspore.math import beside
from pinnace.ops.table import Dims, Ints, Tensor, formulas, primitive, primitives
from pinnace.ops.values import BOOL, INT32, INT64, Value


@primitive("Gather", "GatherV2", "SparseGatherV2")
def gather(op: Builder, params: Tensor, indices: Tensor, axis: int, batch_dims: int = 0) -> Value:
    """Gather; with batch_dims GatherND."""
    if batch_dims == 0:
        return op.Gather(params, places(op, indices), axis=axis)
    axis, batch_dims = op.axis(axis, params), op.axis(batch_dims, indices)
    rest = [i for i in range(op.rank(params)) if i != axis]
    moved = [*rest[:batch_dims], axis, *rest[batch_dims:]]
    deep = op.Unsqueeze(op.cast(indices, INT64), [-1])
    found = op.GatherND(op.transpose(params, moved), deep, batch_dims=batch_dims)
    # Now: batch, the indices' own dimensions, then the others; the indices belong where the axis was.
    own = op.rank(indices) - batch_dims
    others = list(range(batch_dims + own, op.rank(found)))
    before = others[: axis - batch_dims]
    after = others[axis - batch_dims :]
    middle = list(range(batch_dims, batch_dims + own))
    return op.transpose(found, [*range(batch_dims), *before, *middle, *after])


@primitive("EmbeddingLookup", unused="bprop_return_sparse")
def _embedding_lookup(op: Builder, table: Tensor, ids: Tensor, offset: int = 0) -> Value:
    """Gather; zeros where the table has no row."""
    rows = op.tensor(op.dim(table, 0))
    here = op.cast(ids, INT64) - offset
    held = op.And(op.GreaterOrEqual(here, 0), op.Less(here, rows))
    found = op.Gather(table, op.Where(held, here, op.constant(0, np.int64)), axis=0)
    columns = [-1 - i for i in range(op.rank(table) - 1)]
    held = op.Unsqueeze(held, columns) if columns else held
    return op.Where(held, found, 0)


@primitive("GatherD")
def _gather_d(op: Builder, x: Tensor, dim: int, index: Tensor) -> Value:
    """GatherElements; the index may be smaller in other dimensions."""
    if op.rank(x) > 0 and op.rank(index) > 0:
        return op.GatherElements(x, places(op, index), axis=dim)
    x = x if op.rank(x) else op.reshape(x, [1])  # a scalar, which MindSpore takes for one element
    return op.Gather(x, places(op, index), axis=dim)


@primitive("IndexAddExt")
def _index_add_ext(
    op: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Value = 1
) -> Value:
    source = source * op.cast(op.operand(alpha, source), op.dtype(source)) if op.known(alpha) != 1 else source
    return put_slices(op, x, index, source, dim, "add")


@primitive("IndexSelect")
def _index_select(op: Builder, x: Tensor, axis: int, index: Tensor) -> Value:
    index = op.reshape(index, [1]) if op.rank(index) == 0 else index
    return op.Gather(x, places(op, index), axis=axis)


@primitive("InplaceUpdateV2")
def _inplace_update_v2(op: Builder, x: Tensor, indices: Value, v: Tensor) -> Value:
    where = op.reshape(op.tensor(indices), [-1, 1])
    return scattered_nd(op, x, where, v)


@primitive("MaskedScatter")
def _masked_scatter(op: Builder, x: Tensor, mask: Tensor, source: Tensor) -> Value:
    sizes = op.dims(x)
    whole = op.Expand(mask, op.vector(sizes))
    flat = op.cast(op.reshape(whole, [-1]), INT64)
    number = op.CumSum(flat, op.constant(0, np.int64)) - op.constant(1, np.int64)
    taken = op.Gather(op.reshape(source, [-1]), op.Max(number, 0), axis=0)
    return op.Where(whole, op.cast(op.reshape(taken, sizes), op.dtype(x)), x)


@primitive("NonZeroExt")
def _non_zero_ext(op: Builder, x: Tensor) -> Value:
    found = op.NonZero(x)
    return tuple([op.Gather(found, op.constant(i, np.int64), axis=0) for i in range(op.rank(x))])


@primitive("Scatter", "ScatterValue")
def _scatter(
    op: Builder, x: Tensor, dim: int, index: Tensor, src: Value, reduce: Annotated[str, _REDUCTIONS] = "none"
) -> Value:
    """ScatterElements; the source may be larger than the index."""
    return scattered(op, x, dim, index, cropped(op, src, index), reduce)


@primitive("ScatterAddExt")
def _scatter_add_ext(op: Builder, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Value:
    return scattered(op, x, dim, index, cropped(op, src, index), "add")


@primitive("ScatterNd")
def _scatter_nd(op: Builder, indices: Tensor, updates: Tensor, shape: Dims) -> Value:
    return scattered_nd(op, filled(op, 0, shape, op.dtype(updates)), indices, updates, "add")


@primitive("TensorScatterElements")
def _tensor_scatter_elements(
    op: Builder,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    reduce: Annotated[str, _REDUCTIONS] = "none",
) -> Value:
    return scattered(op, x, axis, indices, updates, reduce)


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


def _gather_nd(op: Builder, x: Tensor, indices: Tensor) -> Tensor:
    """GatherND; of one place without a dimension Gather."""
    if op.rank(indices):
        return op.GatherND(x, op.cast(indices, INT64))
    return op.Gather(x, places(op, indices), axis=0)


@primitive("MaskedSelect")
def masked_select(op: Builder, x: Tensor, mask: Tensor) -> Value:
    if op.shape(x) != op.shape(mask) or None in op.shape(x):
        both = op.Where(mask, x, x)
        mask = op.Expand(mask, op.Shape(both))
        x = both
    return op.Compress(op.reshape(x, [-1]), op.reshape(mask, [-1]), axis=0)


@primitive("Index", "InnerIndex")
def index(op: Builder, x: Tensor, indices: Value) -> Value:
    wanted = binding.tensors(op, indices)
    if any(op.dtype(t) is BOOL for t in wanted):
        raise Unsupported("indexes with a mask among other indices")
    return op.GatherND(x, _side_by_side(op, wanted))


def _side_by_side(op: Builder, indices: Sequence[Tensor]) -> Tensor:
    """Index tensors that broadcast, as one whose last dimension runs over them."""
    wide = [op.cast(i, INT64) for i in indices]
    total = wide[0]
    for other in wide[1:]:
        total = total + other
    nought = total * op.constant(0, np.int64)
    return op.Concat(*(op.Unsqueeze(i + nought, [-1]) for i in wide), axis=-1)


def scattered_nd(op: Builder, x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    if not op.rank(x):  # a scalar, which MindSpore takes for one row
        return op.reshape(scattered_nd(op, op.reshape(x, [1]), indices, updates, reduction), [])
    return op.ScatterND(x, op.cast(indices, INT64), op.cast(updates, op.dtype(x)), reduction=reduction)


_REDUCTIONS = {
    "0": "none",
    "1": "add",
    "2": "mul",
    "3": "none",
    "none": "none",
    "add": "add",
    "multiply": "mul",
    "update": "none",
}


def scattered(
    op: Builder, x: Tensor, axis: int, indices: Tensor, updates: Value, reduction: str = "none"
) -> Tensor:
    values = op.cast(op.operand(updates, x), op.dtype(x))
    if op.rank(values) == 0 and op.rank(x):
        values = op.Expand(values, op.Shape(indices))
    return op.ScatterElements(x, places(op, indices), values, axis=axis, reduction=reduction)


def cropped(op: Builder, x: Value, like: Tensor) -> Value:
    """The first elements of a tensor, as many along each dimension as another has."""
    if not isinstance(x, ir.Value) or op.rank(x) == 0 or op.shape(x) == op.shape(like):
        return x
    rank = op.rank(x)
    return op.Slice(x, [0] * rank, op.Shape(like), list(range(rank)))


def put_slices(
    op: Builder, x: Tensor, index: Tensor, source: Tensor, axis: int, reduction: str = "none"
) -> Tensor:
    """The slices of `source` in the place of those of `x` that the index names, or added to them."""
    column = along(op, places(op, index), op.axis(axis, source), op.rank(source))
    return scattered(op, x, axis, op.Expand(column, op.Shape(source)), source, reduction)


@primitive("IndexFillScalar", "IndexFillTensor", "IndexFill")
def index_fill(op: Builder, x: Tensor, dim: int, index: Tensor, value: Value) -> Value:
    """The value in the slices that the indices name, by Where."""
    if not op.rank(x):  # a scalar, which MindSpore takes for one element
        return op.reshape(index_fill(op, op.reshape(x, [1]), 0, index, value), [])
    size = op.dim(x, dim)
    numbers = counting(op, size)
    wanted = op.cast(op.reshape(index, [-1]), INT64)
    wanted = op.Where(op.Less(wanted, 0), wanted + op.tensor(size), wanted)
    same = op.Equal(op.Unsqueeze(numbers, [1]), op.Unsqueeze(wanted, [0]))
    named = op.cast(op.ReduceMax(op.cast(same, INT32), [1], keepdims=0), BOOL)
    return op.Where(along(op, named, op.axis(dim, x), op.rank(x)), beside(op, value, x), x)


@primitive("IndexPut")
def index_put(op: Builder, x: Tensor, values: Tensor, indices: Value, accumulate: bool = False) -> Value:
    where = _side_by_side(op, binding.tensors(op, indices))
    rest = op.Shape(x, start=len(binding.tensors(op, indices)))
    shape = op.Concat(op.Shape(where, end=-1), rest, axis=0)
    return scattered_nd(op, x, where, op.Expand(values, shape), "add" if accumulate else "none")


def put(op: Builder, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements put where `index` counts through all of `x`."""
    elements, index, source = (op.reshape(t, [-1]) for t in (x, index, source))
    flat = scattered(op, elements, 0, index, source, "add" if accumulate else "none")
    return op.Reshape(flat, op.Shape(x))


@primitives({"InplaceAdd": ("add", 1), "InplaceSub": ("add", -1), "InplaceUpdate": ("none", 1)})
def rows(op: Builder, reduction: str, sign: int, x: Tensor, v: Tensor, *, indices: Ints) -> Value:
    """ScatterND, reduction {reduction}."""
    where = op.constant([[i] for i in indices], np.int64)
    return scattered_nd(op, x, where, -v if sign < 0 else v, reduction)


@primitive("TensorCopySlices")
def tensor_copy_slices(op: Builder, x: Tensor, value: Tensor, begin: Ints, end: Ints, strides: Ints) -> Value:
    """ScatterElements, at places that are known, of all elements in a row."""
    shape = op.static_shape(x)
    cut = tuple(slice(*bounds) for bounds in zip(begin, end, strides, strict=True))
    places = np.arange(math.prod(room(*shape))).reshape(shape)[cut]
    value = op.Expand(op.cast(value, op.dtype(x)), list(places.shape))
    return put(op, x, op.constant(places, np.int64), value)


formulas(
    {
        "Embedding": lambda op, ids, table: op.Gather(table, places(op, ids), axis=0),
        "GatherNd GatherNdExt": _gather_nd,
        "NonZero InnerNonZero": lambda op, x: op.transpose(op.NonZero(x), [1, 0]),
        "ScatterAddWithAxis": lambda op, x, indices, updates, axis=0: scattered(
            op, x, axis, indices, updates, "add"
        ),
        "Take": lambda op, x, index: op.Gather(op.reshape(x, [-1]), places(op, index), axis=0),
        "TensorScatterDiv": lambda op, x, indices, updates: scattered_nd(
            op, x, indices, op.Reciprocal(updates), "mul"
        ),
        "TensorScatterSub": lambda op, x, indices, updates: scattered_nd(op, x, indices, -updates, "add"),
    },
    unused="padding_idx norm_type scale_grad_by_freq",
)
