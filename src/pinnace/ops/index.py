"""Gathering, scattering and slicing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.array import along, counting
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.math import beside
from pinnace.ops.room import room
from pinnace.ops.table import Ints, Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value


@function
def places(b: Builder, x: Tensor) -> Tensor:
    """Indices in a type that ONNX takes."""
    return x if b.dtype(x) in (ir.DataType.INT32, ir.DataType.INT64) else b.cast(x, ir.DataType.INT64)


@function
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


formulas(
    __name__,
    """
    Embedding; padding_idx norm_type scale_grad_by_freq: ids, table -> Gather(table, places(ids), axis=0)
    EmbeddingLookup; bprop_return_sparse: table, ids, offset: int = 0 ->
        # Gather; zeros where the table has no row.
        rows = tensor(dim(table, 0))
        here = cast(ids, INT64) - offset
        held = (here >= 0) & (here < rows)
        found = Gather(table, Where(held, here, constant(0, np.int64)), axis=0)
        columns = [-1 - i for i in range(rank(table) - 1)]
        held = Unsqueeze(held, columns) if columns else held
        Where(held, found, 0)
    GatherD: x, dim: int, index ->
        # GatherElements; the index may be smaller in other dimensions.
        one_by_one = rank(x) > 0 and rank(index) > 0
        x = x if rank(x) else reshape(x, [1])  # a scalar, which MindSpore takes for one element
        GatherElements(x, places(index), axis=dim) if one_by_one else Gather(x, places(index), axis=dim)
    GatherNd GatherNdExt: x, indices ->
        # GatherND; of one place without a dimension Gather.
        Gather(x, places(indices), axis=0) if rank(indices) == 0 else GatherND(x, wide_places(indices))
    IndexAddExt: x, dim: int, index, source, alpha: Value = 1 ->
        # ScatterElements, reduction add.
        source = source * cast(operand(alpha, source), dtype(source)) if known(alpha) != 1 else source
        added_slices(x, index, source, dim)
    IndexSelect: x, axis: int, index ->
        # Gather.
        index = reshape(index, [1]) if rank(index) == 0 else index
        Gather(x, places(index), axis=axis)
    InplaceUpdateV2: x, indices: Value, v ->
        # ScatterND.
        where = reshape(tensor(indices), [-1, 1])
        scattered_nd(x, where, v)
    MaskedScatter: x, mask, source ->
        # Gather of the source's next element, and Where by the mask.
        sizes = dims(x)
        whole = Expand(mask, vector(sizes))
        flat = cast(reshape(whole, [-1]), INT64)
        number = CumSum(flat, constant(0, np.int64)) - constant(1, np.int64)
        taken = Gather(reshape(source, [-1]), Max(number, 0), axis=0)
        Where(whole, cast(reshape(taken, sizes), dtype(x)), x)
    NonZero InnerNonZero: x -> transpose(NonZero(x), [1, 0])
    NonZeroExt: x ->
        # NonZero, its rows as a tuple.
        found = NonZero(x)
        tuple([Gather(found, constant(i, np.int64), axis=0) for i in range(rank(x))])
    Scatter ScatterValue: x, dim: int, index, src: Value, reduce: OneOf[_REDUCTIONS] = "none" ->
        # ScatterElements; the source may be larger than the index.
        scattered(x, dim, index, cropped(src, index), reduce)
    ScatterAddExt: x, dim: int, index, src -> scattered(x, dim, index, cropped(src, index), "add")
    ScatterAddWithAxis: x, indices, updates, axis: int = 0 -> scattered(x, axis, indices, updates, "add")
    ScatterNd: indices, updates, shape: Dims ->
        scattered_nd(filled(0, shape, dtype(updates)), indices, updates, "add")
    Take: x, index -> Gather(reshape(x, [-1]), places(index), axis=0)
    TensorScatterDiv: x, indices, updates -> scattered_nd(x, indices, Reciprocal(updates), "mul")
    TensorScatterElements: x, indices, updates, axis: int = 0, reduce: OneOf[_REDUCTIONS] = "none" ->
        # ScatterElements.
        scattered(x, axis, indices, updates, reduce)
    TensorScatterSub: x, indices, updates -> scattered_nd(x, indices, -updates, "add")
    TensorScatterUpdate("none") TensorScatterAdd("add") TensorScatterMul("mul") TensorScatterMax("max")
        TensorScatterMin("min"): reduction, x, indices, updates ->
        # ScatterND, reduction {reduction}.
        scattered_nd(x, indices, updates, reduction)
    """,
)


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


@function
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


@function
def scattered(
    b: Builder, x: Tensor, axis: int, indices: Tensor, updates: Value, reduction: str = "none"
) -> Tensor:
    """ScatterElements."""
    values = b.cast(b.operand(updates, x), b.dtype(x))
    if b.rank(values) == 0 and b.rank(x):
        values = b.op("Expand", values, b.op("Shape", indices))
    return b.op("ScatterElements", x, places(b, indices), values, axis=axis, reduction=reduction)


@function
def cropped(b: Builder, x: Value, like: Tensor) -> Value:
    """The first elements of a tensor, as many along each dimension as another has."""
    if not isinstance(x, ir.Value) or b.rank(x) == 0 or b.shape(x) == b.shape(like):
        return x
    rank = b.rank(x)
    return b.op("Slice", x, [0] * rank, b.op("Shape", like), list(range(rank)))


@function
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


@function
@primitive("IndexPut")
def index_put(b: Builder, x: Tensor, values: Tensor, indices: Value, accumulate: bool = False) -> Value:
    """ScatterND at the indices, side by side."""
    where = _side_by_side(b, binding.tensors(b, indices))
    rest = b.op("Shape", x, start=len(binding.tensors(b, indices)))
    shape = b.op("Concat", b.op("Shape", where, end=-1), rest, axis=0)
    return scattered_nd(b, x, where, b.op("Expand", values, shape), "add" if accumulate else "none")


@function
def put(b: Builder, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements put where `index` counts through all of `x`."""
    elements, index, source = (b.reshape(t, [-1]) for t in (x, index, source))
    flat = scattered(b, elements, 0, index, source, "add" if accumulate else "none")
    return b.op("Reshape", flat, b.op("Shape", x))


@function
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
