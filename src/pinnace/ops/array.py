"""Shapes, types, joining and splitting, filling, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.builder import Builder
from pinnace.ops.room import room, span
from pinnace.ops.table import Dims, Dtype, Ints, Tensor, Tensors, primitive
from pinnace.ops.values import RankUnknown, Unsupported, Value

# -- shape -----------------------------------------------------------------------------------------


@primitive("Shape", "shape_")
def shape(b: Builder, x: Value) -> Value:
    """Nothing for dimensions that are known, else Shape."""
    x = b.tensor(x)
    return tuple(b.dims(x))


@primitive("TensorShape", "DynamicShape")
def tensor_shape(b: Builder, x: Tensor) -> Value:
    """Shape."""
    return b.vector(b.dims(x))


@primitive("Rank")
def rank(b: Builder, x: Tensor) -> Value:
    """Nothing: the rank is known."""
    return b.rank(x)


@primitive("Size")
def size(b: Builder, x: Tensor) -> Value:
    """Nothing where the dimensions are known, else Size."""
    dims = b.shape(x)
    known = [d for d in dims if d is not None]
    return math.prod(known) if len(known) == len(dims) else b.op("Size", x)


@primitive("Contiguous", "Clone", "Copy")
def copied(b: Builder, x: Tensor) -> Value:
    """Identity."""
    return b.op("Identity", x)


@primitive("ViewAs")
def view_as(b: Builder, x: Tensor, other: Tensor) -> Value:
    """Reshape."""
    return b.reshape(x, b.dims(other))


@primitive("Reshape", "View", "ReshapeExt", "reshape_", "TransShape", unused="out_shape")
def reshape(b: Builder, x: Tensor, shape: Dims) -> Value:
    """Reshape."""
    return b.reshape(x, _one_free(b, x, shape))


def _one_free(b: Builder, x: Tensor, dims: Dims) -> Dims:
    """With a single dimension that only the run knows, -1 says as much and keeps the graph plain."""
    free = [i for i, d in enumerate(dims) if isinstance(d, ir.Value)]
    if len(free) != 1 or -1 in dims or 0 in dims:
        return dims
    return tuple(-1 if i in free else d for i, d in enumerate(dims))


@primitive("Flatten")
def flatten(b: Builder, x: Tensor, axis: int = 1) -> Value:
    """Flatten."""
    return b.op("Flatten", x, axis=axis)


@primitive("FlattenExt")
def flatten_ext(b: Builder, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Reshape."""
    if b.rank(x) == 0:
        return b.reshape(x, [1])
    first, last = b.axis(start_dim, x), b.axis(end_dim, x)
    dims = b.dims(x)
    inner = [d for d in dims[first : last + 1] if isinstance(d, int)]
    flat = math.prod(inner) if len(inner) == last + 1 - first else -1
    return b.reshape(x, [*dims[:first], flat, *dims[last + 1 :]])


@primitive("Transpose", "ConjugateTranspose")
def transpose(b: Builder, x: Tensor, perm: Ints) -> Value:
    """Transpose."""
    return b.transpose(x, [b.axis(p, x) for p in perm])


def transpose_ext(b: Builder, x: Tensor, dim0: int, dim1: int) -> Value:
    """Transpose."""
    perm = list(range(b.rank(x)))
    if not perm:
        return x
    first, second = b.axis(dim0, x), b.axis(dim1, x)
    perm[first], perm[second] = perm[second], perm[first]
    return b.transpose(x, perm)


@primitive("TExt")
def transposed(b: Builder, x: Tensor) -> Value:
    """Transpose of all dimensions."""
    return b.transpose(x, range(b.rank(x))[::-1])


@primitive("ExpandDims", "Unsqueeze")
def expand_dims(b: Builder, x: Value, axis: int) -> Value:
    """Unsqueeze."""
    return b.op("Unsqueeze", b.tensor(x), [axis])


@primitive("Squeeze")
def squeeze(b: Builder, x: Tensor, axis: Ints = ()) -> Value:
    """Squeeze, of dimensions that are not fixed at another size than 1."""
    if not axis:
        return b.op("Squeeze", x, None)
    single = sorted({b.axis(a, x) for a in axis if b.rank(x) and b.shape(x)[a] in (1, None)})
    return b.op("Squeeze", x, single) if single else x


@primitive("BroadcastTo", "DynamicBroadcastTo", "Expand")
def broadcast_to(b: Builder, x: Tensor, shape: Dims) -> Value:
    """Expand."""
    # -1 keeps a dimension; Expand of 1 does.
    return b.op("Expand", x, b.vector([1 if isinstance(d, int) and d == -1 else d for d in shape]))


@primitive("ExpandAs")
def expand_as(b: Builder, x: Tensor, other: Tensor) -> Value:
    """Expand."""
    return b.op("Expand", x, b.op("Shape", other))


@primitive("Tile", "Repeat")
def tile(b: Builder, x: Tensor, dims: Dims) -> Value:
    """Tile."""
    missing = len(dims) - b.rank(x)
    if missing > 0:
        x = b.op("Unsqueeze", x, list(range(missing)))
    return b.op("Tile", x, b.vector((1,) * -missing + tuple(dims)))


@primitive("TileSize")
def tile_size(b: Builder, shape: Dims, out_shape: Dims, ndim: int) -> Value:
    """How often each dimension is repeated: Div where only the run knows."""

    def times(have: int | Tensor, want: int | Tensor) -> int | Tensor:
        if isinstance(have, int):
            return 1 if have == want else want
        return b.op("Div", b.tensor(want), b.op("Max", have, 1))

    known = tuple(times(have, want) for have, want in zip(shape, out_shape, strict=False))
    return (*known, *[1] * (ndim - len(known)))


@primitive("RepeatInterleaveInt", unused="output_size")
def repeat_interleave(b: Builder, x: Tensor, repeats: int, dim: int | None = None) -> Value:
    """Unsqueeze, Expand, Reshape."""
    if dim is None:
        x, dim = b.reshape(x, [-1]), 0
    axis = b.axis(dim, x)
    dims = b.dims(x)
    tall = b.op("Unsqueeze", x, [axis + 1])
    wide = b.op("Expand", tall, b.vector([*[1] * (axis + 1), repeats, *[1] * (len(dims) - axis - 1)]))
    return b.reshape(wide, [*dims[:axis], -1, *dims[axis + 1 :]])


# -- type ------------------------------------------------------------------------------------------


@primitive("Cast", "cast", "ToDtype", unused="non_blocking copy")
def cast(b: Builder, x: Value, dtype: Dtype) -> Value:
    """Cast; to bool, what is not zero."""
    return b.cast(b.tensor(x), dtype)


@primitive("TypeAs", "ToOther", unused="non_blocking copy")
def type_as(b: Builder, x: Tensor, other: Tensor) -> Value:
    """Cast."""
    return b.cast(x, b.dtype(other))


# -- joining and splitting -------------------------------------------------------------------------


def same_type(b: Builder, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors in the type of the first."""
    return [b.cast(t, b.dtype(tensors[0])) for t in tensors]


@primitive("Concat", "ConcatD", "ParallelConcat", "SequenceConcat", unused="N inputNums")
def concat(b: Builder, items: Tensors, axis: int = 0) -> Value:
    """Concat."""
    return items[0] if len(items) == 1 else b.op("Concat", *same_type(b, items), axis=axis)


@primitive("Stack", "StackExt", "Pack", unused="num N")
def stack(b: Builder, items: Tensors, axis: int = 0) -> Value:
    """Unsqueeze of each, and Concat."""
    axis = axis % (b.rank(items[0]) + 1)
    raised = [b.op("Unsqueeze", t, [axis]) for t in items]
    return b.op("Concat", *same_type(b, raised), axis=axis)


@primitive("Unstack", unused="num")
def unstack(b: Builder, x: Tensor, axis: int = 0) -> Value:
    """Split, and Squeeze of each."""
    count = b.dim(x, axis)
    if not isinstance(count, int):
        raise Unsupported("takes apart a dimension that only the run knows")
    return tuple(b.op("Squeeze", part, [axis]) for part in split_into(b, x, [1] * count, axis))


def split_into(b: Builder, x: Tensor, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
    """Parts of the given sizes."""
    return (x,) if len(sizes) == 1 else b.ops("Split", len(sizes), x, list(sizes), axis=axis)


@primitive("Split", unused="size_splits num_split")
def split(b: Builder, x: Tensor, axis: int = 0, output_num: int = 1) -> Value:
    """Split into equal parts."""
    _check_parts(b, x, axis, output_num)
    return (x,) if output_num == 1 else b.ops("Split", output_num, x, axis=axis, num_outputs=output_num)


def _check_parts(b: Builder, x: Tensor, axis: int, parts: int) -> None:
    """Refuse parts that are not equal, tens of thousands of empty ones among them."""
    try:
        size = b.shape(x)[axis]
    except Unsupported:  # not even the rank is known
        return
    if parts < 1 or (size or 0) % parts:
        raise Unsupported(f"splits a dimension of {size} into {parts} equal parts")


@primitive("SplitTensor")
def split_tensor(b: Builder, x: Tensor, split_size: int, dim: int = 0) -> Value:
    """Split into parts of one size, the last one smaller."""
    total = b.dim(x, dim)
    if not isinstance(total, int):
        raise Unsupported("splits a dimension that only the run knows")
    return split_into(b, x, [min(split_size, total - i) for i in range(0, total, split_size)], dim)


@primitive("SplitWithSize")
def split_with_size(b: Builder, x: Tensor, split_sections: Ints, dim: int = 0) -> Value:
    """Split."""
    return split_into(b, x, split_sections, dim)


@primitive("SplitV", unused="num_split")
def split_v(b: Builder, x: Tensor, size_splits: Ints = (), split_dim: int = 0) -> Value:
    """Split; one size may be -1."""
    sizes = list(size_splits)
    total = b.dim(x, split_dim)
    if -1 in sizes and isinstance(total, int):
        sizes[sizes.index(-1)] = total - sum(s for s in sizes if s != -1)
    return split_into(b, x, sizes, split_dim)


@primitive("Chunk")
def chunk(b: Builder, x: Tensor, chunks: int, dim: int = 0) -> Value:
    """Split into parts of one size, the last one smaller."""
    total = b.dim(x, dim)
    if not isinstance(total, int):
        raise Unsupported("splits a dimension that only the run knows")
    return split_tensor(b, x, -(-total // chunks), dim) if total else (x,) * span(chunks)


@primitive("Meshgrid")
def meshgrid(b: Builder, items: Tensors, indexing: str = "1") -> Value:
    """Reshape and Expand of each."""
    order = list(range(len(items)))
    if indexing in ("xy", "1") and len(items) > 1:
        order[:2] = [1, 0]
    sizes = [b.dim(items[i], 0) for i in order]
    return tuple(
        b.op("Expand", b.reshape(t, [-1 if o == i else 1 for o in order]), b.vector(sizes))
        for i, t in enumerate(items)
    )


# -- filling ---------------------------------------------------------------------------------------


def filled(b: Builder, number: float | int | bool, dims: Sequence[int | ir.Value], dtype: Dtype) -> Tensor:
    """A tensor of one number: a constant where that is small."""
    known = [d for d in dims if isinstance(d, int)]
    if len(known) == len(dims) and math.prod(known) <= 64:
        return b.constant(np.full(known, number, dtype.numpy()))
    value = ir.tensor(np.asarray([number], dtype.numpy()))
    return b.op("ConstantOfShape", b.vector(dims), value=value)


def _fillings(number: int, alike: str, sized: str, new: str) -> None:
    """Primitives that fill the shape of a tensor, a size, and a size with the type of a tensor."""
    row = partial(primitive, unused="device pin_memory", lowered_to=f"ConstantOfShape of {number}.")

    @row(*alike.split())
    def filled_like(b: Builder, x: Tensor, dtype: Dtype | None = None) -> Value:
        dtype = dtype or b.dtype(x)
        try:
            return filled(b, number, b.dims(x), dtype)
        except RankUnknown:
            return b.op("Expand", b.constant(number, dtype.numpy()), b.op("Shape", x))

    @row(*sized.split())
    def filled_sized(b: Builder, size: Dims, dtype: Dtype | None = None) -> Value:
        return filled(b, number, size, dtype or ir.DataType.FLOAT)

    @row(*new.split())
    def filled_new(b: Builder, x: Tensor, size: Dims, dtype: Dtype | None = None) -> Value:
        return filled(b, number, size, dtype or b.dtype(x))


_fillings(0, "ZerosLike ZerosLikeExt EmptyLike", "Zeros Empty", "NewZeros NewEmpty")
_fillings(1, "OnesLike OnesLikeExt", "Ones", "NewOnes")


@primitive("FillScalar", "FillTensor", "FillV2")
def fill(b: Builder, shape: Dims, value: Value, dtype: Dtype | None = None) -> Value:
    """Expand."""
    number = b.tensor(value)
    number = b.cast(number, dtype or b.result(number))
    return b.op("Expand", b.scalar(number), b.vector(shape))


@primitive("Fill")
def fill_typed(b: Builder, dtype: Dtype, shape: Dims, value: Value) -> Value:
    """Expand."""
    return fill(b, shape, value, dtype)


@primitive("NewFull")
def new_full(b: Builder, x: Tensor, size: Dims, value: Value, dtype: Dtype | None = None) -> Value:
    """Expand."""
    return fill(b, size, value, dtype or b.dtype(x))


@primitive("FullLike", "Fills")
def full_like(b: Builder, x: Tensor, value: Value, dtype: Dtype | None = None) -> Value:
    """Expand."""
    return fill(b, tuple(b.dims(x)), value, dtype or b.dtype(x))


def _of_numbers(value: Any) -> Any:
    if np.asarray(value).dtype.kind not in "biuf":
        raise Unsupported("ranges over something else than numbers")
    return value


@primitive("Range", "Arange", unused="dtype maxlen d_type")
def range_(b: Builder, start: Value, limit: Value, delta: Value) -> Value:
    """Range, or a constant."""
    known = [b.known(v) for v in (start, limit, delta)]
    dtype = b.declared[0].dtype if b.declared and b.declared[0] is not None else None
    if all(k is not None for k in known):
        first, last, step = (np.asarray(k).reshape(-1)[0].item() for k in map(_of_numbers, known))
        span(math.ceil((last - first) / step))
        numbers = np.arange(first, last, step)
        if dtype is None:
            dtype = ir.DataType.FLOAT if numbers.dtype.kind == "f" else ir.DataType.INT64
        if numbers.size <= 64:
            return b.constant(numbers.astype(dtype.numpy()))
    tensors = [b.scalar(b.tensor(v)) for v in (start, limit, delta)]
    dtype = dtype or b.dtype(tensors[0])
    return b.op("Range", *(b.cast(t, dtype) for t in tensors))


@primitive("LinSpace", "LinSpaceExt")
def lin_space(b: Builder, start: Value, stop: Value, num: Value, dtype: Dtype | None = None) -> Value:
    """Range, scaled."""
    first, last = b.tensor(start), b.tensor(stop)
    kind = dtype or b.result(first)
    count = b.known(num)
    ends = b.known(first), b.known(last)
    if count is not None and all(e is not None for e in ends):
        lo, hi = (float(np.reshape(e, -1)[0]) for e in ends)
        return b.constant(np.linspace(lo, hi, span(binding.int_(b, num))).astype(kind.numpy()))
    steps = b.cast(counting(b, b.scalar(b.tensor(num))), kind)
    gaps = b.op("Max", b.cast(b.op("Sub", b.scalar(b.tensor(num)), b.constant(1, np.int64)), kind), 1)
    slope = b.op("Div", b.op("Sub", b.cast(last, kind), b.cast(first, kind)), gaps)
    return b.op("Add", b.scalar(b.cast(first, kind)), b.op("Mul", steps, b.scalar(slope)))


@primitive("Eye")
def eye(b: Builder, n: int, m: int | None = None, dtype: Dtype = ir.DataType.FLOAT) -> Value:
    """A constant."""
    return b.constant(np.eye(*room(n, m if m is not None and m >= 0 else n), dtype=dtype.numpy()))


@primitive("OneHot", "OneHotExt")
def one_hot(
    b: Builder, indices: Tensor, depth: Value, on_value: Value = 1, off_value: Value = 0, axis: int = -1
) -> Value:
    """Equal with Range, and Where."""
    axis = axis % (b.rank(indices) + 1)
    number = b.cast(b.scalar(b.tensor(depth)), ir.DataType.INT64)
    known = b.known(number)
    classes = counting(b, number if known is None else int(known))
    classes = b.reshape(classes, [-1, *[1] * (b.rank(indices) - axis)])
    place = b.op("Unsqueeze", b.cast(indices, ir.DataType.INT64), [axis])
    on = b.tensor(on_value)
    off = b.cast(b.tensor(off_value), b.dtype(on))
    return b.op("Where", b.op("Equal", place, classes), b.scalar(on), b.scalar(off))


# -- choosing --------------------------------------------------------------------------------------


@primitive("Select", "SelectV2", "Where")
def select(b: Builder, condition: Tensor, x: Value, y: Value) -> Value:
    """Where."""
    from pinnace.ops.math import promoted

    return b.op("Where", b.cast(condition, ir.DataType.BOOL), *promoted(b, x, y))


@primitive("MaskedFill", "MaskedFillScalar")
def masked_fill(b: Builder, x: Tensor, mask: Tensor, value: Value) -> Value:
    """Where."""
    filler = b.cast(b.operand(value, x), b.dtype(x))
    return b.op("Where", mask, filler, x)


def _triangle(upper: int, *names: str) -> None:
    @primitive(*names, lowered_to="Trilu.")
    def lowering(b: Builder, x: Tensor, diagonal: int = 0) -> Value:
        return b.op("Trilu", x, b.constant(diagonal, np.int64), upper=upper)


_triangle(0, "Tril", "TrilExt")
_triangle(1, "Triu")


# -- diagonals -------------------------------------------------------------------------------------


def counting(b: Builder, count: int | Tensor) -> Tensor:
    """0, 1, 2 and so on: so many int64."""
    return b.constant(np.arange(span(count))) if isinstance(count, int) else b.op("Range", 0, count, 1)


@primitive("Diag")
def diag(b: Builder, x: Tensor) -> Value:
    """Where, of an identity matrix."""
    sizes = b.dims(x)
    row = b.reshape(x, [1, -1])
    known = b.shape(x)
    if None in known:
        places = b.op("Range", 0, b.op("Size", x), 1)
        same_place = b.op("Equal", places, b.op("Unsqueeze", places, [1]))
    else:
        count = math.prod(d for d in known if d is not None)
        same_place = b.constant(np.eye(*room(count, count), dtype=np.bool_))
    return b.reshape(b.op("Where", same_place, row, b.like(0, x)), [*sizes, *sizes])


@primitive("Diagonal")
def diagonal_of(b: Builder, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Transpose, and GatherND; of a matrix of free size at places that Range counts."""
    first, second = b.axis(dim1, x), b.axis(dim2, x)
    rest = [i for i in range(b.rank(x)) if i not in (first, second)]
    matrix = b.transpose(x, [first, second, *rest])
    height, width = b.shape(matrix)[:2]
    start = max(-offset, 0)
    if height is None or width is None:
        stops = b.op("Sub", b.op("Shape", matrix, start=0, end=2), [0, offset])
        rows = b.op("Range", start, b.op("ReduceMin", stops, keepdims=0), 1)
        places = b.op("Add", b.op("Unsqueeze", rows, [1]), b.constant([[0, offset]], np.int64))
    else:
        room(height, width)
        known = np.arange(start, max(min(height, width - offset), 0))
        places = b.constant(np.stack([known, known + offset], axis=1), np.int64)
    found = b.op("GatherND", matrix, places)
    return b.transpose(found, [*range(1, len(rest) + 1), 0])


@primitive("DiagPart")
def diag_part(b: Builder, x: Tensor) -> Value:
    """Reshape and Gather."""
    if b.rank(x) == 2:
        return diagonal_of(b, x)
    sizes = b.static_shape(x)
    half = sizes[: len(sizes) // 2]
    count = math.prod(half)
    places = b.constant(np.arange(span(count)) * (count + 1), np.int64)
    return b.reshape(b.op("Gather", b.reshape(x, [-1]), places, axis=0), half)


# -- order -----------------------------------------------------------------------------------------


@primitive("ReverseV2")
def reverse(b: Builder, x: Tensor, axis: Ints) -> Value:
    """Slice with step -1."""
    count = len(axis)
    least = int(np.iinfo(np.int64).min)
    return b.op("Slice", x, [-1] * count, [least] * count, [b.axis(a, x) for a in axis], [-1] * count)


@primitive("ReverseSequence")
def reverse_sequence(b: Builder, x: Tensor, seq_lengths: Tensor, seq_dim: int, batch_dim: int = 0) -> Value:
    """ReverseSequence, where the first two dimensions are batch and sequence."""
    lengths = b.cast(seq_lengths, ir.DataType.INT64)
    rest = [i for i in range(b.rank(x)) if i not in (b.axis(seq_dim, x), b.axis(batch_dim, x))]
    perm = [b.axis(batch_dim, x), b.axis(seq_dim, x), *rest]
    turned = b.op("ReverseSequence", b.transpose(x, perm), lengths, batch_axis=0, time_axis=1)
    return b.transpose(turned, [perm.index(i) for i in range(len(perm))])


@primitive("Roll")
def roll(b: Builder, x: Tensor, shift: Ints, axis: Ints | None = None) -> Value:
    """Slice twice and Concat, for each dimension."""
    if not axis:
        flat = roll(b, b.reshape(x, [-1]), shift, (0,))
        return b.reshape(flat, b.dims(x))
    for step, dim in zip(shift, axis, strict=True):
        x = _rolled(b, x, step, b.axis(dim, x))
    return x


def _rolled(b: Builder, x: Tensor, step: int, axis: int) -> Tensor:
    size = b.dim(x, axis)
    if isinstance(size, int):
        step %= max(size, 1)
    if step == 0:
        return x
    end = int(np.iinfo(np.int64).max)
    tail = b.op("Slice", x, [-step], [end], [axis])
    return b.op("Concat", tail, b.op("Slice", x, [0], [-step], [axis]), axis=axis)


# -- padding ---------------------------------------------------------------------------------------


def padded(
    b: Builder, x: Tensor, pairs: Sequence[tuple[int | Tensor, int | Tensor]], mode: str, value: Value = None
) -> Tensor:
    """Pad, with a pair (before, after) for each dimension."""
    pads = b.vector([p[0] for p in pairs] + [p[1] for p in pairs])
    filler = None if value is None else b.scalar(b.cast(b.tensor(value), b.dtype(x)))
    return b.op("Pad", x, pads, filler, mode=mode)


@primitive("Pad")
def pad(b: Builder, x: Tensor, paddings: Value) -> Value:
    """Pad with zeros."""
    flat = binding.ints(
        b,
        paddings
        if not isinstance(paddings, tuple)
        else tuple(n for pair in paddings for n in binding.ints(b, pair)),
    )
    return padded(b, x, list(zip(flat[::2], flat[1::2], strict=True)), "constant")


@primitive("PadV3")
def pad_v3(
    b: Builder,
    x: Tensor,
    paddings: Dims,
    constant_value: Value = None,
    mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Value:
    """Pad; the pairs begin with the last dimension."""
    if paddings_contiguous:
        pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    else:
        half = len(paddings) // 2
        pairs = list(zip(paddings[:half], paddings[half:], strict=True))
    return padded(b, x, _from_last(b, x, pairs), _PAD_MODES.get(mode, mode), constant_value)


_PAD_MODES = {"circular": "wrap", "replicate": "edge"}


def _from_last(
    b: Builder, x: Tensor, pairs: Sequence[tuple[int | Tensor, int | Tensor]]
) -> list[tuple[int | Tensor, int | Tensor]]:
    return [(0, 0)] * (b.rank(x) - len(pairs)) + list(reversed(pairs))


def _pad_last(mode: str, *names: str) -> None:
    @primitive(*names, lowered_to=f"Pad, mode {mode}.")
    def lowering(b: Builder, x: Tensor, padding: Dims) -> Value:
        pairs = list(zip(padding[::2], padding[1::2], strict=True))
        return padded(b, x, _from_last(b, x, pairs), mode)


_pad_last("reflect", "ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D")
_pad_last("edge", "ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D")


@primitive("ConstantPadND")
def constant_pad(b: Builder, x: Tensor, padding: Dims, value: Value = 0.0) -> Value:
    """Pad."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    return padded(b, x, _from_last(b, x, pairs), "constant", value)


@primitive("MirrorPad")
def mirror_pad(b: Builder, x: Tensor, paddings: Value, mode: str = "REFLECT") -> Value:
    """Pad, mode reflect; for SYMMETRIC Gather along each dimension."""
    flat = binding.ints(b, paddings)
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    if mode.upper() == "REFLECT":
        return padded(b, x, pairs, "reflect")
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            size = b.static_shape(x)[axis]
            span(size + abs(before) + abs(after))
            places = np.pad(np.arange(size), (before, after), mode="symmetric")
            x = b.op("Gather", x, b.constant(places, np.int64), axis=axis)
    return x


@primitive("Padding")
def padding_(b: Builder, x: Tensor, pad_dim_size: int = 8) -> Value:
    """Pad of the last dimension, which has one element."""
    return padded(b, x, [(0, 0)] * (b.rank(x) - 1) + [(0, pad_dim_size - 1)], "constant")


# -- unique elements -------------------------------------------------------------------------------


def _first_seen(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    values, _, inverse, _ = b.ops("Unique", 4, b.reshape(x, [-1]), sorted=0)
    return values, inverse


@primitive("Unique")
def unique(b: Builder, x: Tensor) -> Value:
    """Unique, not sorted, and where each element is in it."""
    values, inverse = _first_seen(b, x)
    return values, b.cast(inverse, b.result(inverse, 1))


@primitive("UniqueWithPad")
def unique_with_pad(b: Builder, x: Tensor, pad_num: Value) -> Value:
    """Unique, not sorted, Concat with the filler, and where each element is in it."""
    values, inverse = _first_seen(b, x)
    missing = b.op("Sub", b.op("Size", x), b.op("Size", values))
    filler = b.op("Expand", b.cast(b.operand(pad_num, x), b.dtype(x)), b.op("Unsqueeze", missing, [0]))
    return b.op("Concat", values, filler, axis=0), b.cast(inverse, b.result(inverse, 1))


@primitive("ListDiff", unused="out_idx")
def list_diff(b: Builder, x: Tensor, y: Tensor) -> Value:
    """Compress of what Equal finds nowhere among the others, and NonZero for the places."""
    same = b.op("Equal", b.op("Unsqueeze", x, [1]), b.op("Unsqueeze", y, [0]))
    found = b.op("ReduceMax", b.cast(same, ir.DataType.INT32), [1], keepdims=0)
    rest = b.op("Equal", found, 0)
    where = b.op("Squeeze", b.op("NonZero", rest), [0])
    return b.op("Compress", x, rest, axis=0), b.cast(where, b.result(where, 1))


@primitive("UnravelIndex")
def unravel_index(b: Builder, indices: Tensor, dims: Ints) -> Value:
    """Div by the product of the dimensions that follow, and Mod."""
    steps = [[math.prod(dims[i + 1 :])] for i in range(len(dims))]
    kind = b.dtype(indices).numpy()
    part = b.op("Div", b.op("Unsqueeze", indices, [0]), b.constant(steps, kind))
    return b.op("Mod", part, b.constant([[d] for d in dims], kind))


@primitive("RaggedRange", unused="Tsplits max_length")
def ragged_range(b: Builder, starts: Tensor, limits: Tensor, deltas: Tensor) -> Value:
    """CumSum of the lengths, and Gather of each range's start and step, as often as it is long."""
    exact = [b.cast(t, ir.DataType.DOUBLE) for t in (starts, limits, deltas)]
    lengths = b.op("Ceil", b.op("Div", b.op("Sub", exact[1], exact[0]), exact[2]))
    count = b.op("Max", b.cast(lengths, ir.DataType.INT64), 0)
    ends = b.op("CumSum", count, b.constant(0, np.int64))
    splits = b.op("Concat", b.constant([0], np.int64), ends, axis=0)
    numbers = counting(b, b.op("ReduceMax", splits, keepdims=0))
    own = repeat_interleave_tensor(b, counting(b, b.op("Size", starts)), count, 0)
    place = b.cast(b.op("Sub", numbers, b.op("Gather", splits, own, axis=0)), b.dtype(starts))
    step = b.op("Mul", place, b.op("Gather", deltas, own, axis=0))
    values = b.op("Add", b.op("Gather", starts, own, axis=0), step)
    return b.cast(splits, b.result(splits)), values


@primitive("Unique2", unused="sorted return_inverse return_counts")
def unique2(b: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Unique, where each element is in it, and how many are equal."""
    values, _, inverse, counts = b.ops("Unique", 4, b.reshape(x, [-1]), sorted=1)
    return values, b.op("Reshape", inverse, b.op("Shape", x)), counts


@primitive("InnerUnique", unused="sorted return_inverse")
def inner_unique(b: Builder, x: Tensor) -> Value:
    """Unique, and where each element is in it."""
    return unique2(b, x)[:2]


@primitive("UniqueDim", unused="sorted return_inverse")
def unique_dim(b: Builder, x: Tensor, *, dim: int) -> Value:
    """Unique slices, where each slice is in them, and how many are equal."""
    values, _, inverse, counts = b.ops("Unique", 4, x, axis=dim, sorted=1)
    return values, inverse, counts


@primitive("UniqueConsecutive", unused="return_inverse return_counts")
def unique_consecutive(b: Builder, x: Tensor, *, dim: int | None = None) -> Value:
    """Compress where an element differs from the one before it."""
    axis = 0 if dim is None else b.axis(dim, x)
    flat = b.reshape(x, [-1]) if dim is None or not b.rank(x) else x
    end = int(np.iinfo(np.int64).max)
    after, before = b.op("Slice", flat, [1], [end], [axis]), b.op("Slice", flat, [0], [-1], [axis])
    changes = b.op("Not", b.op("Equal", after, before))
    others = [i for i in range(b.rank(flat)) if i != axis]
    if others:
        changes = b.op("ReduceMax", changes, others, keepdims=0)
    first = b.op("Concat", b.constant([True], np.bool_), changes, axis=0)
    number = b.op("CumSum", b.cast(first, ir.DataType.INT64), b.constant(0, np.int64))
    inverse = b.op("Sub", number, b.constant(1, np.int64))
    starts = b.op("Squeeze", b.op("NonZero", first), [0])
    size = b.op("Shape", flat, start=axis, end=axis + 1)
    ends = b.op("Concat", b.op("Slice", starts, [1], [end]), size, axis=0)
    placed = b.op("Reshape", inverse, b.op("Shape", x)) if dim is None else inverse
    return b.op("Compress", flat, first, axis=axis), placed, b.op("Sub", ends, starts)


@primitive("RepeatInterleaveTensor", unused="output_size")
def repeat_interleave_tensor(b: Builder, x: Tensor, repeats: Tensor, dim: int | None = None) -> Value:
    """Gather, each place as often as it is asked for."""
    if dim is None:
        x, dim = b.reshape(x, [-1]), 0
    ends = b.op("CumSum", b.cast(repeats, ir.DataType.INT64), b.constant(0, np.int64))
    total = b.op("ReduceMax", ends, keepdims=0)
    numbers = counting(b, total)
    passed = b.op("GreaterOrEqual", b.op("Unsqueeze", numbers, [1]), b.op("Unsqueeze", ends, [0]))
    places = b.op("ReduceSum", b.cast(passed, ir.DataType.INT64), [1], keepdims=0)
    return b.op("Gather", x, places, axis=dim)


@primitive("DiagExt")
def diag_ext(b: Builder, x: Tensor, diagonal: int = 0) -> Value:
    """A vector on a diagonal of zeros, or the diagonal of a matrix."""
    if b.rank(x) == 2:
        return diagonal_of(b, x, diagonal)
    (count,) = b.static_shape(x)
    size = count + abs(diagonal)
    rows = np.arange(span(count)) + max(-diagonal, 0)
    places = np.stack([rows, rows + diagonal], axis=1)
    return b.op("ScatterND", filled(b, 0, (size, size), b.dtype(x)), b.constant(places, np.int64), x)


# -- names of layouts ------------------------------------------------------------------------------


@primitive("DataFormatDimMap")
def data_format_dim_map(
    b: Builder, x: Tensor, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Value:
    """Gather from a constant."""
    table = b.constant([src_format.index(letter) for letter in dst_format], b.dtype(x).numpy())
    return b.op("Gather", table, x)


@primitive("DataFormatVecPermute")
def data_format_vec_permute(
    b: Builder, x: Tensor, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Value:
    """Gather."""
    return b.op("Gather", x, [src_format.index(letter) for letter in dst_format], axis=0)


@primitive("ToDevice", unused="device non_blocking copy")
def to_device(b: Builder, x: Tensor, *, dtype: Dtype | None = None) -> Value:
    """Cast, where a type is asked for."""
    return x if dtype is None else b.cast(x, dtype)
