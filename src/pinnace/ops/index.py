"""Gathering, scattering and slicing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.array import counting, filled
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.room import room
from pinnace.ops.table import Arguments, Dims, Ints, Tensor, find, primitive, primitives
from pinnace.ops.values import Unsupported, Value
from pinnace.program import Dialect

_END = int(np.iinfo(np.int64).max)


_BEGIN = int(np.iinfo(np.int64).min)


@function
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


@primitive("GatherD")
def gather_d(b: Builder, x: Tensor, dim: int, index: Tensor) -> Value:
    """GatherElements; the index may be smaller in other dimensions."""
    if not b.rank(x):  # a scalar, which MindSpore takes for one element
        return b.op("Gather", b.reshape(x, [1]), places(b, index), axis=0)
    if not b.rank(index):
        return b.op("Gather", x, places(b, index), axis=dim)
    return b.op("GatherElements", x, places(b, index), axis=dim)


@primitive("GatherNd", "GatherNdExt")
def gather_nd(b: Builder, x: Tensor, indices: Tensor) -> Value:
    """GatherND; of one place without a dimension Gather."""
    if b.rank(indices) == 0:
        return b.op("Gather", x, places(b, indices), axis=0)
    return b.op("GatherND", x, wide_places(b, indices))


@primitive("Embedding", unused="padding_idx norm_type scale_grad_by_freq")
def embedding(b: Builder, ids: Tensor, table: Tensor) -> Value:
    """Gather."""
    return b.op("Gather", table, places(b, ids), axis=0)


@primitive("EmbeddingLookup", unused="bprop_return_sparse")
def embedding_lookup(b: Builder, table: Tensor, ids: Tensor, offset: int = 0) -> Value:
    """Gather; zeros where the table has no row."""
    rows = b.tensor(b.dim(table, 0))
    here = b.op("Sub", b.cast(ids, ir.DataType.INT64), offset)
    held = b.op("And", b.op("GreaterOrEqual", here, 0), b.op("Less", here, rows))
    found = b.op("Gather", table, b.op("Where", held, here, b.constant(0, np.int64)), axis=0)
    beside = [-1 - i for i in range(b.rank(table) - 1)]
    held = b.op("Unsqueeze", held, beside) if beside else held
    return b.op("Where", held, found, b.like(0, table))


@primitive("IndexSelect")
def index_select(b: Builder, x: Tensor, axis: int, index: Tensor) -> Value:
    """Gather."""
    if b.rank(index) == 0:
        index = b.reshape(index, [1])
    return b.op("Gather", x, places(b, index), axis=axis)


@primitive("Take")
def take(b: Builder, x: Tensor, index: Tensor) -> Value:
    """Reshape and Gather."""
    return b.op("Gather", b.reshape(x, [-1]), places(b, index), axis=0)


@primitive("MaskedSelect")
def masked_select(b: Builder, x: Tensor, mask: Tensor) -> Value:
    """Expand, Reshape, Compress."""
    if b.shape(x) != b.shape(mask) or None in b.shape(x):
        both = b.op("Where", mask, x, x)
        mask = b.op("Expand", mask, b.op("Shape", both))
        x = both
    return b.op("Compress", b.reshape(x, [-1]), b.reshape(mask, [-1]), axis=0)


@primitive("NonZero", "InnerNonZero")
def non_zero(b: Builder, x: Tensor) -> Value:
    """NonZero and Transpose."""
    return b.transpose(b.op("NonZero", x), (1, 0))


@primitive("NonZeroExt")
def non_zero_ext(b: Builder, x: Tensor) -> Value:
    """NonZero, its rows as a tuple."""
    found = b.op("NonZero", x)
    return tuple(b.op("Gather", found, b.constant(i, np.int64), axis=0) for i in range(b.rank(x)))


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


@primitives(
    {
        "TensorScatterUpdate": "none",
        "TensorScatterAdd": "add",
        "TensorScatterMul": "mul",
        "TensorScatterMax": "max",
        "TensorScatterMin": "min",
    }
)
def tensor_scatter(b: Builder, reduction: str, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    """ScatterND, reduction {reduction}."""
    return scattered_nd(b, x, indices, updates, reduction)


@primitive("TensorScatterDiv")
def tensor_scatter_div(b: Builder, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    """Reciprocal and ScatterND, reduction mul."""
    return scattered_nd(b, x, indices, b.op("Reciprocal", updates), "mul")


@primitive("TensorScatterSub")
def tensor_scatter_sub(b: Builder, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    """Neg and ScatterND, reduction add."""
    return scattered_nd(b, x, indices, b.op("Neg", updates), "add")


@primitive("ScatterNd")
def scatter_nd(b: Builder, indices: Tensor, updates: Tensor, shape: Dims) -> Value:
    """ScatterND into zeros, reduction add."""
    return scattered_nd(b, filled(b, 0, shape, b.dtype(updates)), indices, updates, "add")


_REDUCTIONS = {
    "0": "none",
    "1": "add",
    "2": "mul",
    "none": "none",
    "add": "add",
    "multiply": "mul",
    "update": "none",
}


@primitive("TensorScatterElements")
def tensor_scatter_elements(
    b: Builder, x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduce: str = "none"
) -> Value:
    """ScatterElements."""
    return scattered(b, x, axis, indices, updates, _REDUCTIONS[reduce])


def scattered(
    b: Builder, x: Tensor, axis: int, indices: Tensor, updates: Value, reduction: str = "none"
) -> Tensor:
    """ScatterElements."""
    values = b.cast(b.operand(updates, x), b.dtype(x))
    if b.rank(values) == 0 and b.rank(x):
        values = b.op("Expand", values, b.op("Shape", indices))
    return b.op("ScatterElements", x, places(b, indices), values, axis=axis, reduction=reduction)


@primitive("Scatter")
def scatter(b: Builder, x: Tensor, dim: int, index: Tensor, src: Value, reduce: str = "none") -> Value:
    """ScatterElements; the source may be larger than the index."""
    return scattered(b, x, dim, index, _cropped(b, src, index), _REDUCTIONS[reduce])


@primitive("ScatterAddExt")
def scatter_add_ext(b: Builder, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Value:
    """ScatterElements, reduction add; the source may be larger than the index."""
    return scattered(b, x, dim, index, _cropped(b, src, index), "add")


def _cropped(b: Builder, x: Value, like: Tensor) -> Value:
    if not isinstance(x, ir.Value) or b.rank(x) == 0 or b.shape(x) == b.shape(like):
        return x
    rank = b.rank(x)
    return b.op("Slice", x, [0] * rank, b.op("Shape", like), list(range(rank)))


@primitive("ScatterValue")
def scatter_value(b: Builder, x: Tensor, dim: int, index: Tensor, src: Value, reduce: str = "none") -> Value:
    """ScatterElements."""
    return scattered(b, x, dim, index, src, _REDUCTIONS[reduce])


@primitive("IndexAddExt")
def index_add_ext(b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Value = 1) -> Value:
    """ScatterElements, reduction add."""
    if b.known(alpha) != 1:
        source = b.op("Mul", source, b.cast(b.operand(alpha, source), b.dtype(source)))
    return added_slices(b, x, index, source, dim)


def added_slices(b: Builder, x: Tensor, index: Tensor, source: Tensor, axis: int) -> Tensor:
    """The slices of `source` added to those of `x` that the index names."""
    return scattered(b, x, axis, _spread(b, index, source, axis), source, "add")


def _spread(b: Builder, index: Tensor, like: Tensor, axis: int) -> Tensor:
    """An index of slices, as one for every element of `like`."""
    where = b.axis(axis, like)
    column = b.reshape(places(b, index), [-1 if i == where else 1 for i in range(b.rank(like))])
    return b.op("Expand", column, b.op("Shape", like))


@primitive("IndexFillScalar", "IndexFillTensor", "IndexFill")
def index_fill(b: Builder, x: Tensor, dim: int, index: Tensor, value: Value) -> Value:
    """Where a slice's number is among the indices."""
    if not b.rank(x):  # a scalar, which MindSpore takes for one element
        return b.reshape(index_fill(b, b.reshape(x, [1]), 0, index, value), [])
    size = b.dim(x, dim)
    numbers = counting(b, size)
    wanted = wide_places(b, b.reshape(index, [-1]))
    wanted = b.op("Where", b.op("Less", wanted, 0), b.op("Add", wanted, b.tensor(size)), wanted)
    same = b.op("Equal", b.op("Unsqueeze", numbers, [1]), b.op("Unsqueeze", wanted, [0]))
    named = b.cast(b.op("ReduceMax", b.cast(same, ir.DataType.INT32), [1], keepdims=0), ir.DataType.BOOL)
    axis = b.axis(dim, x)
    mask = b.reshape(named, [-1 if i == axis else 1 for i in range(b.rank(x))])
    return b.op("Where", mask, b.cast(b.operand(value, x), b.dtype(x)), x)


@primitive("MaskedScatter")
def masked_scatter(b: Builder, x: Tensor, mask: Tensor, source: Tensor) -> Value:
    """Where the mask holds, Gather of the source's next element."""
    dims = b.dims(x)
    whole = b.op("Expand", mask, b.vector(dims))
    flat = b.cast(b.reshape(whole, [-1]), ir.DataType.INT64)
    number = b.op("Sub", b.op("CumSum", flat, b.constant(0, np.int64)), b.constant(1, np.int64))
    taken = b.op("Gather", b.reshape(source, [-1]), b.op("Max", number, 0), axis=0)
    return b.op("Where", whole, b.cast(b.reshape(taken, dims), b.dtype(x)), x)


@primitive("IndexPut")
def index_put(b: Builder, x: Tensor, values: Tensor, indices: Value, accumulate: bool = False) -> Value:
    """ScatterND at the indices, side by side."""
    where = _side_by_side(b, binding.tensors(b, indices))
    rest = b.op("Shape", x, start=len(binding.tensors(b, indices)))
    shape = b.op("Concat", b.op("Shape", where, end=-1), rest, axis=0)
    return scattered_nd(b, x, where, b.op("Expand", values, shape), "add" if accumulate else "none")


def put(b: Builder, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements put where `index` counts through all of `x`."""
    flat = scattered(
        b,
        b.reshape(x, [-1]),
        0,
        b.reshape(index, [-1]),
        b.reshape(source, [-1]),
        "add" if accumulate else "none",
    )
    return b.op("Reshape", flat, b.op("Shape", x))


def copied_slices(b: Builder, x: Tensor, index: Tensor, source: Tensor, axis: int) -> Tensor:
    """The slices of `source` in the place of those of `x` that the index names."""
    return scattered(b, x, axis, _spread(b, index, source, axis), source)


def _rows(reduction: str, *names: str) -> None:
    @primitive(*names, lowered_to=f"ScatterND, reduction {_ROWS[reduction]}.")
    def lowering(b: Builder, x: Tensor, v: Tensor, *, indices: Ints) -> Value:
        where = b.constant([[i] for i in indices], np.int64)
        return scattered_nd(b, x, where, b.op("Neg", v) if reduction == "sub" else v, _ROWS[reduction])


_ROWS = {"add": "add", "sub": "add", "none": "none"}


_rows("add", "InplaceAdd")


_rows("sub", "InplaceSub")


_rows("none", "InplaceUpdate")


@primitive("InplaceUpdateV2")
def update_rows(b: Builder, x: Tensor, indices: Value, v: Tensor) -> Value:
    """ScatterND."""
    where = b.reshape(b.tensor(indices), [-1, 1])
    return scattered_nd(b, x, where, v)


@primitive("ScatterAddWithAxis")
def scatter_add_with_axis(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Value:
    """ScatterElements, reduction add."""
    return scattered(b, x, axis, indices, updates, "add")


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
    """Where, with a mask of the diagonal."""
    if b.rank(x) == 2 and None in b.shape(x):
        rows, columns = (counting(b, b.dim(x, i)) for i in range(2))
        if wrap:
            rows = b.op("Mod", rows, b.op("Add", b.op("Size", columns), 1))
        mask = b.op("Equal", b.op("Unsqueeze", rows, [1]), columns)
    else:
        mask = b.constant(_diagonal_mask(b.static_shape(x), wrap))
    return b.op("Where", mask, b.cast(b.operand(fill_value, x), b.dtype(x)), x)


def _diagonal_mask(shape: tuple[int, ...], wrap: bool) -> npt.NDArray[np.bool_]:
    mask = np.zeros(room(*shape), np.bool_)
    if len(shape) > 2:
        mask[np.diag_indices(min(shape), len(shape))] = True
    else:
        np.fill_diagonal(mask, True, wrap=wrap)
    return mask


# -- segments --------------------------------------------------------------------------------------


@primitives(
    {
        "UnsortedSegmentSum": "add",
        "UnsortedSegmentProd": "mul",
        "UnsortedSegmentMax": "max",
        "UnsortedSegmentMin": "min",
    }
)
def segments(b: Builder, reduction: str, x: Tensor, segment_ids: Tensor, num_segments: Dims) -> Value:
    """ScatterND, reduction {reduction}."""
    dims = b.dims(x, b.rank(segment_ids))
    start = filled(b, _neutral(reduction, b.dtype(x)), [*num_segments, *dims], b.dtype(x))
    where = b.op("Unsqueeze", wide_places(b, segment_ids), [-1])
    return scattered_nd(b, start, where, x, reduction)


def _neutral(reduction: str, dtype: ir.DataType) -> float:
    if reduction in ("add", "mul"):
        return float(reduction == "mul")
    limits = np.finfo(dtype.numpy()) if dtype.is_floating_point() else np.iinfo(dtype.numpy())
    return limits.min if reduction == "max" else limits.max


def _sorted_segments(reduction: str, name: str) -> None:
    how = "add, and Div by the counts" if reduction == "mean" else reduction

    @primitive(name, lowered_to=f"ScatterND, reduction {how}.")
    def lowering(b: Builder, x: Tensor, segment_ids: Tensor) -> Value:
        ids = wide_places(b, segment_ids)
        size = b.op("Add", b.op("ReduceMax", ids, keepdims=0), b.constant(1, np.int64))
        rest = b.dims(x, 1)
        result = _scattered_segments(b, x, ids, [size, *rest], "add" if reduction == "mean" else reduction)
        if reduction in ("add", "mul"):
            return result
        ones = filled(b, 1, [b.dim(x, 0), *[1] * len(rest)], b.dtype(x))
        counts = _scattered_segments(b, ones, ids, [size, *[1] * len(rest)], "add")
        if reduction == "mean":
            return b.op("Div", result, b.op("Max", counts, b.like(1, x)))
        return b.op("Where", b.op("Equal", counts, b.like(0, x)), b.like(0, x), result)


def _scattered_segments(
    b: Builder, x: Tensor, ids: Tensor, dims: Dims | list[int | Tensor], reduction: str
) -> Tensor:
    start = filled(b, _neutral(reduction, b.dtype(x)), dims, b.dtype(x))
    return scattered_nd(b, start, b.op("Unsqueeze", ids, [-1]), x, reduction)


_sorted_segments("add", "SegmentSum")


_sorted_segments("mean", "SegmentMean")


@primitive("SparseSegmentMean")
def sparse_segment_mean(b: Builder, x: Tensor, indices: Tensor, segment_ids: Tensor) -> Value:
    """Gather, and then as SegmentMean."""
    row = find(Dialect.MINDSPORE, "SegmentMean")
    assert row is not None  # the one above
    return row.lower(b, (b.op("Gather", x, places(b, indices), axis=0), segment_ids), {})


_sorted_segments("mul", "SegmentProd")


_sorted_segments("max", "SegmentMax")


_sorted_segments("min", "SegmentMin")


# -- sparse tensors: the places, (n, rank), and the values, (n,) -------------------------------------


@primitive("SparseToDense")
def sparse_to_dense(b: Builder, indices: Tensor, values: Tensor, shape: Dims) -> Value:
    """ScatterND into zeros."""
    return scattered_nd(b, filled(b, 0, shape, b.dtype(values)), indices, values)


@primitive("SparseTensorDenseAdd", unused="shape")
def sparse_dense_add(b: Builder, indices: Tensor, values: Tensor, shape: Value, dense: Tensor) -> Value:
    """ScatterND, reduction add."""
    return scattered_nd(b, dense, indices, values, "add")


@primitive("SparseTensorDenseMatmul")
def sparse_dense_matmul(
    b: Builder,
    indices: Tensor,
    values: Tensor,
    shape: Dims,
    dense: Tensor,
    adjoint_st: bool = False,
    adjoint_dt: bool = False,
) -> Value:
    """Gather of the rows that values meet, Mul, and ScatterND into zeros, reduction add."""
    dense = b.transpose(dense, (1, 0)) if adjoint_dt else dense
    row, column = (b.op("Gather", wide_places(b, indices), [i], axis=1) for i in (0, 1))
    to, of = (column, row) if adjoint_st else (row, column)
    met = b.op("Gather", dense, b.op("Squeeze", of, [1]), axis=0)
    product = b.op("Mul", b.op("Unsqueeze", values, [1]), met)
    size = (shape[1] if adjoint_st else shape[0], b.dim(dense, 1))
    return scattered_nd(b, filled(b, 0, size, b.dtype(values)), to, product, "add")


# -- slicing ---------------------------------------------------------------------------------------


@primitive("Slice")
def slice_(b: Builder, x: Tensor, begin: Dims, size: Dims) -> Value:
    """Slice."""
    ends = [_plus(b, start, length) for start, length in zip(begin, size, strict=True)]
    return b.op("Slice", x, b.vector(begin), b.vector(ends), list(range(len(begin))))


def _plus(b: Builder, start: int | Tensor, length: int | Tensor) -> int | Tensor:
    if isinstance(length, int) and length == -1:
        return _END
    if isinstance(start, int) and isinstance(length, int):
        return start + length
    if isinstance(start, int) and start == 0:
        return length
    return b.op("Add", *(b.cast(b.tensor(v), ir.DataType.INT64) for v in (start, length)))


@primitive("SliceExt")
def slice_ext(b: Builder, x: Tensor, dim: int, start: Value, end: Value, step: Value = 1) -> Value:
    """Slice."""
    return sliced(b, x, dim, start, end, step)


def sliced(b: Builder, x: Tensor, axis: int, start: Value, end: Value, step: Value = 1) -> Tensor:
    """Slice of one dimension."""
    bounds = (b.vector(binding.dims(b, v)) for v in (start, end))
    return b.op("Slice", x, *bounds, [axis], b.vector(binding.dims(b, step)))


@primitive("Narrow")
def narrow(b: Builder, x: Tensor, dim: int, start: Value, length: Value) -> Value:
    """Slice."""
    first, size = binding.dims(b, start)[0], binding.dims(b, length)[0]
    return sliced(b, x, dim, first, _plus(b, first, size))


class Masks(Arguments):
    """What StridedSlice does at each of its begins and ends, a bit for each."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0


@primitive("StridedSlice")
def strided_slice(b: Builder, x: Tensor, begin: Dims, end: Dims, strides: Dims, masks: Masks) -> Value:
    """Slice, Gather for a single place, Unsqueeze for a new axis."""
    specs = len(begin)
    own = specs - bin(masks.new_axis_mask & ((1 << specs) - 1)).count("1")
    axis, fresh = 0, []
    picked: list[tuple[int, int | Tensor]] = []
    cuts: list[_Cut] = []
    place = 0  # in the result
    for i in range(specs):
        bit = 1 << i
        if masks.ellipsis_mask & bit:
            skipped = b.rank(x) - (own - 1)
            axis, place = axis + skipped, place + skipped
        elif masks.new_axis_mask & bit:
            fresh.append(place)
            place += 1
        elif masks.shrink_axis_mask & bit:
            picked.append((axis, 0 if masks.begin_mask & bit else begin[i]))
            axis += 1
        else:
            cut = _cut(
                axis, begin[i], end[i], strides[i], bool(masks.begin_mask & bit), bool(masks.end_mask & bit)
            )
            cuts += [_kept_inside(b, x, cut)] if cut is not None else []
            axis, place = axis + 1, place + 1
    if cuts:
        axes, starts, ends, steps = zip(*cuts, strict=True)
        x = b.op("Slice", x, b.vector(starts), b.vector(ends), list(axes), b.vector(steps))
    for axis, where in reversed(picked):
        x = b.op("Gather", x, places(b, b.tensor(where)), axis=axis)
    return b.op("Unsqueeze", x, fresh) if fresh else x


_Cut = tuple[int, int | Tensor, int | Tensor, int | Tensor]


def _kept_inside(b: Builder, x: Tensor, cut: _Cut) -> _Cut:
    """A cut backwards from before the first element is empty; to ONNX it would begin with the first."""
    axis, begin, _, step = cut
    if not (isinstance(begin, int) and isinstance(step, int) and step < 0):
        return cut
    length = b.shape(x)[axis]
    before = length is not None and begin < -length and begin != _BEGIN
    return (axis, 0, 0, step) if before else cut


def _cut(
    axis: int, begin: int | Tensor, end: int | Tensor, step: int | Tensor, from_edge: bool, to_edge: bool
) -> _Cut | None:
    """One dimension's part of Slice; None where all of it stays."""
    backwards = isinstance(step, int) and step < 0
    if from_edge:
        begin = _END if backwards else 0
    if to_edge:
        end = _BEGIN if backwards else _END
    if all(isinstance(v, int) for v in (begin, end, step)) and (begin, end, step) == (0, _END, 1):
        return None
    return axis, begin, end, step
