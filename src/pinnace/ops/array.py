"""Shapes, types, joining and splitting, filling, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.room import span
from pinnace.ops.table import Dims, Dtype, Ints, Tensor, primitive
from pinnace.ops.values import Value

# -- shape -----------------------------------------------------------------------------------------

END = int(np.iinfo(np.int64).max)
"""The end of a Slice along a dimension of any size."""


@primitive("Shape", "shape_")
def shape(b: Builder, x: Value) -> Value:
    """Nothing for dimensions that are known, else Shape."""
    x = b.tensor(x)
    return tuple(b.dims(x))


@function
def _narrow(b: Builder, *x: Tensor) -> tuple[Tensor, ...]:
    """Operands without an Expand to the shape of another: MindSpore wants it, and ONNX does not."""
    for i, wide in enumerate(x):
        node = wide.producer()
        if node is None or node.op_type != "Expand" or node.inputs[0] is None:
            continue
        other = (*x[:i], node.inputs[0], *x[i + 1 :])
        dims = [(b.shape(v), b.shape(w)) for v, w in zip(x, other, strict=True)]
        if any(None in d for pair in dims for d in pair):
            continue
        before, after = (np.broadcast_shapes(*side) for side in zip(*dims, strict=True))
        x = other if after == before else x
    return x


formulas(
    __name__,
    """
    BroadcastTo DynamicBroadcastTo Expand: x, shape: Dims -> Expand(x, kept(shape))
    Cast cast ToDtype; non_blocking copy: x: Value, dtype: Dtype -> cast(tensor(x), dtype)
    Clone Copy: x -> Identity(x)
    DataFormatDimMap(False) DataFormatVecPermute(True): of_vector, x, *, src_format: str = "NHWC",
        dst_format: str = "NCHW" ->
        # Gather, by the places that the letters of one layout have in the other.
        places = [src_format.index(letter) for letter in dst_format]
        if of_vector:
            return Gather(x, places, axis=0)
        Gather(constant(places, dtype(x).numpy()), x)
    ExpandAs: x, other -> Expand(x, Shape(other))
    ExpandDims Unsqueeze: x: Value, axis: int -> Unsqueeze(tensor(x), [axis])
    Flatten: x, axis: int = 1 -> Flatten(x, axis=axis)
    MaskedFill MaskedFillScalar: x, mask, value: Value -> Where(mask, beside(value, x), x)
    Rank: x -> rank(x)
    Reshape View ReshapeExt reshape_ TransShape; out_shape: x, shape: Dims -> reshape(x, one_free(shape))
    ReverseSequence: x, seq_lengths, seq_dim: int, batch_dim: int = 0 ->
        # ReverseSequence, where the first two dimensions are batch and sequence.
        lengths = cast(seq_lengths, INT64)
        rest = [i for i in range(rank(x)) if i not in (axis(seq_dim, x), axis(batch_dim, x))]
        perm = [axis(batch_dim, x), axis(seq_dim, x), *rest]
        turned = ReverseSequence(transpose(x, perm), lengths, batch_axis=0, time_axis=1)
        transpose(turned, [perm.index(i) for i in range(len(perm))])
    ReverseV2: x, axis: Ints ->
        # Slice with step -1.
        count = len(axis)
        least = np.iinfo(np.int64).min
        Slice(x, [-1] * count, [least] * count, [axis(a, x) for a in axis], [-1] * count)
    Select SelectV2 Where: condition, x: Value, y: Value ->
        # Where.
        Where(*narrow(cast(condition, BOOL), *promoted(x, y)))
    TensorShape DynamicShape: x -> vector(dims(x))
    TExt: x -> transpose(x, range(rank(x))[::-1])
    Tile Repeat: x, dims: Dims ->
        # Tile.
        missing = len(dims) - rank(x)
        x = Unsqueeze(x, range(missing)) if missing > 0 else x
        Tile(x, vector((1,) * -missing + tuple(dims)))
    ToDevice; device non_blocking copy: x, *, dtype: Dtype | None = None ->
        # Cast, where a type is asked for.
        x if dtype is None else cast(x, dtype)
    Transpose ConjugateTranspose: x, perm: Ints ->
        # Transpose.
        transpose(x, [axis(p, x) for p in perm])
    TypeAs ToOther; non_blocking copy: x, other -> cast(x, dtype(other))
    ViewAs: x, other -> reshape(x, dims(other))
    """,
)


@function
def kept(b: Builder, dims: Dims) -> Tensor:
    """Dimensions for Expand, to which 1 is what -1 is to MindSpore: it keeps a dimension."""
    return b.vector([1 if isinstance(d, int) and d == -1 else d for d in dims])


@primitive("Size")
def size(b: Builder, x: Tensor) -> Value:
    """Nothing where the dimensions are known, else Size."""
    dims = b.shape(x)
    known = [d for d in dims if d is not None]
    return math.prod(known) if len(known) == len(dims) else b.op("Size", x)


@function
def one_free(b: Builder, dims: Dims) -> Dims:
    """-1 for the one dimension known only at run time: that keeps the graph plain; 0 for -1 beside a 0."""
    if 0 in dims:
        return tuple(0 if isinstance(d, int) and d == -1 else d for d in dims)
    free = [i for i, d in enumerate(dims) if isinstance(d, ir.Value)]
    if len(free) != 1 or -1 in dims:
        return dims
    return tuple(-1 if i in free else d for i, d in enumerate(dims))


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


@primitive("Squeeze")
def squeeze(b: Builder, x: Tensor, axis: Ints = ()) -> Value:
    """Squeeze, of dimensions that are not fixed at another size than 1."""
    if not axis:
        return b.op("Squeeze", x, None)
    single = sorted({b.axis(a, x) for a in axis if b.rank(x) and b.shape(x)[a] in (1, None)})
    return b.op("Squeeze", x, single) if single else x


@primitive("TileSize")
def tile_size(b: Builder, shape: Dims, out_shape: Dims, ndim: int) -> Value:
    """The number of repetitions of each dimension: Where, if it is known only at run time."""

    def times(have: int | Tensor, want: int | Tensor) -> int | Tensor:
        if isinstance(have, int) and isinstance(want, int):
            return 1 if have == want else want
        have, want = b.tensor(have), b.tensor(want)
        return b.op("Where", b.op("Equal", have, want), b.constant(1, np.int64), want)

    known = tuple(times(have, want) for have, want in zip(shape, out_shape, strict=False))
    return (*known, *[1] * (ndim - len(known)))


@function
def filled(b: Builder, number: float | int | bool, dims: Sequence[int | ir.Value], dtype: Dtype) -> Tensor:
    """A tensor of one number: a constant where that is small."""
    known = [d for d in dims if isinstance(d, int)]
    if len(known) == len(dims) and math.prod(known) <= 64:
        return b.constant(np.full(known, number, dtype.numpy()))
    value = ir.tensor(np.asarray([number], dtype.numpy()))
    return b.op("ConstantOfShape", b.vector(dims), value=value)


@function
def counting(b: Builder, count: int | Tensor) -> Tensor:
    """0, 1, 2 and so on: so many int64."""
    return b.constant(np.arange(span(count))) if isinstance(count, int) else b.op("Range", 0, count, 1)


def along(b: Builder, x: Tensor, axis: int, rank: int) -> Tensor:
    """A vector along an axis, counted from the front, of as many dimensions."""
    return b.reshape(x, [-1 if i == axis else 1 for i in range(rank)])


# -- order -----------------------------------------------------------------------------------------


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
    tail = b.op("Slice", x, [-step], [END], [axis])
    return b.op("Concat", tail, b.op("Slice", x, [0], [-step], [axis]), axis=axis)


@primitive("UnravelIndex")
def unravel_index(b: Builder, indices: Tensor, dims: Ints) -> Value:
    """Div by the product of the dimensions that follow, and Mod."""
    steps = [[math.prod(dims[i + 1 :])] for i in range(len(dims))]
    kind = b.dtype(indices).numpy()
    part = b.op("Div", b.op("Unsqueeze", indices, [0]), b.constant(steps, kind))
    return b.op("Mod", part, b.constant([[d] for d in dims], kind))
