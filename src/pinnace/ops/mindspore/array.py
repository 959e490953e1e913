"""Shapes, types, filling, padding, rolling, and loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import span
from pinnace.ops.mindspore.math import beside, promoted
from pinnace.ops.table import Dims, Dtype, Ints, Pairs, Tensor, formulas, primitive, primitives
from pinnace.ops.values import BOOL, INT32, INT64, Value

END = int(np.iinfo(np.int64).max)
"""The end of a Slice along a dimension of any size."""


@primitive("Shape", "shape_")
def shape(op: Builder, x: Value) -> Value:
    """Nothing for dimensions that are known, else Shape."""
    x = op.tensor(x)
    return tuple(op.dims(x))


def _narrow(op: Builder, *x: Tensor) -> tuple[Tensor, ...]:
    """Operands without an Expand to the shape of another: MindSpore wants it, and ONNX does not."""
    for i, wide in enumerate(x):
        node = wide.producer()
        if node is None or node.op_type != "Expand" or node.inputs[0] is None:
            continue
        other = (*x[:i], node.inputs[0], *x[i + 1 :])
        dims = [(op.shape(v), op.shape(w)) for v, w in zip(x, other, strict=True)]
        if any(None in d for pair in dims for d in pair):
            continue
        before, after = (np.broadcast_shapes(*side) for side in zip(*dims, strict=True))
        x = other if after == before else x
    return x


@primitive("BroadcastTo", "DynamicBroadcastTo", "Expand")
def _broadcast_to(op: Builder, x: Tensor, shape: Dims) -> Value:
    return op.Expand(x, kept(op, shape))


@primitive("Cast", "cast", "ToDtype", unused="non_blocking copy")
def _cast(op: Builder, x: Value, dtype: Dtype) -> Value:
    return op.cast(op.tensor(x), dtype)


@primitives({"DataFormatDimMap": False, "DataFormatVecPermute": True})
def _data_format_dim_map(
    op: Builder, of_vector: bool, x: Tensor, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Value:
    """Gather, by the places that the letters of one layout have in the other."""
    places = [src_format.index(letter) for letter in dst_format]
    if of_vector:
        return op.Gather(x, places, axis=0)
    return op.Gather(op.constant(places, op.dtype(x).numpy()), x)


@primitive("ExpandDims", "Unsqueeze")
def _expand_dims(op: Builder, x: Value, axis: int) -> Value:
    return op.Unsqueeze(op.tensor(x), [axis])


@primitive("MaskedFill", "MaskedFillScalar")
def _masked_fill(op: Builder, x: Tensor, mask: Tensor, value: Value) -> Value:
    return op.Where(mask, beside(op, value, x), x)


@primitive("Reshape", "View", "ReshapeExt", "reshape_", "TransShape", unused="out_shape")
def _reshape(op: Builder, x: Tensor, shape: Dims) -> Value:
    return op.reshape(x, one_free(op, shape))


@primitive("ReverseSequence")
def _reverse_sequence(op: Builder, x: Tensor, seq_lengths: Tensor, seq_dim: int, batch_dim: int = 0) -> Value:
    lengths = op.cast(seq_lengths, INT64)
    rest = [i for i in range(op.rank(x)) if i not in (op.axis(seq_dim, x), op.axis(batch_dim, x))]
    perm = [op.axis(batch_dim, x), op.axis(seq_dim, x), *rest]
    turned = op.ReverseSequence(op.transpose(x, perm), lengths, batch_axis=0, time_axis=1)
    return op.transpose(turned, [perm.index(i) for i in range(len(perm))])


@primitive("ReverseV2")
def _reverse_v2(op: Builder, x: Tensor, axis: Ints) -> Value:
    count = len(axis)
    least = np.iinfo(np.int64).min
    return op.Slice(x, [-1] * count, [least] * count, [op.axis(a, x) for a in axis], [-1] * count)


@primitive("Select", "SelectV2", "Where")
def _select(op: Builder, condition: Tensor, x: Value, y: Value) -> Value:
    return op.Where(*_narrow(op, op.cast(condition, BOOL), *promoted(op, x, y)))


@primitive("Tile", "Repeat")
def _tile(op: Builder, x: Tensor, dims: Dims) -> Value:
    missing = len(dims) - op.rank(x)
    x = op.Unsqueeze(x, range(missing)) if missing > 0 else x
    return op.Tile(x, op.vector((1,) * -missing + tuple(dims)))


@primitive("ToDevice", unused="device non_blocking copy")
def _to_device(op: Builder, x: Tensor, *, dtype: Dtype | None = None) -> Value:
    return x if dtype is None else op.cast(x, dtype)


@primitive("Transpose", "ConjugateTranspose")
def _transpose(op: Builder, x: Tensor, perm: Ints) -> Value:
    return op.transpose(x, [op.axis(p, x) for p in perm])


def kept(op: Builder, dims: Dims) -> Tensor:
    """Dimensions for Expand, to which 1 is what -1 is to MindSpore: it keeps a dimension."""
    return op.vector([1 if isinstance(d, int) and d == -1 else d for d in dims])


@primitive("Size")
def size(op: Builder, x: Tensor) -> Value:
    """Nothing where the dimensions are known, else Size."""
    dims = op.shape(x)
    known = [d for d in dims if d is not None]
    return math.prod(known) if len(known) == len(dims) else op.Size(x)


def one_free(op: Builder, dims: Dims) -> Dims:
    """-1 for the one dimension known only at run time: that keeps the graph plain; 0 for -1 beside a 0."""
    if 0 in dims:
        return tuple(0 if isinstance(d, int) and d == -1 else d for d in dims)
    free = [i for i, d in enumerate(dims) if isinstance(d, ir.Value)]
    if len(free) != 1 or -1 in dims:
        return dims
    return tuple(-1 if i in free else d for i, d in enumerate(dims))


@primitive("FlattenExt")
def flatten_ext(op: Builder, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Value:
    if op.rank(x) == 0:
        return op.reshape(x, [1])
    first, last = op.axis(start_dim, x), op.axis(end_dim, x)
    dims = op.dims(x)
    inner = [d for d in dims[first : last + 1] if isinstance(d, int)]
    flat = math.prod(inner) if len(inner) == last + 1 - first else -1
    return op.reshape(x, [*dims[:first], flat, *dims[last + 1 :]])


@primitive("Squeeze")
def squeeze(op: Builder, x: Tensor, axis: Ints = ()) -> Value:
    """Squeeze, of dimensions that are not fixed at another size than 1."""
    if not axis:
        return op.Squeeze(x, None)
    single = sorted({op.axis(a, x) for a in axis if op.rank(x) and op.shape(x)[a] in (1, None)})
    return op.Squeeze(x, single) if single else x


@primitive("TileSize")
def tile_size(op: Builder, shape: Dims, out_shape: Dims, ndim: int) -> Value:
    """The number of repetitions of each dimension: Where, if it is known only at run time."""

    def times(have: int | Tensor, want: int | Tensor) -> int | Tensor:
        if isinstance(have, int) and isinstance(want, int):
            return 1 if have == want else want
        have, want = op.tensor(have), op.tensor(want)
        return op.Where(op.Equal(have, want), op.constant(1, np.int64), want)

    known = tuple(times(have, want) for have, want in zip(shape, out_shape, strict=False))
    return (*known, *[1] * (ndim - len(known)))


def filled(op: Builder, number: float | int | bool, dims: Sequence[int | ir.Value], dtype: Dtype) -> Tensor:
    """A tensor of one number: a constant where that is small."""
    known = [d for d in dims if isinstance(d, int)]
    if len(known) == len(dims) and math.prod(known) <= 64:
        return op.constant(np.full(known, number, dtype.numpy()))
    value = ir.tensor(np.asarray([number], dtype.numpy()))
    return op.ConstantOfShape(op.vector(dims), value=value)


def as_declared(op: Builder, array: npt.NDArray[np.generic], otherwise: ir.DataType) -> Tensor:
    """A constant in the type that the file declares."""
    declared = op.declared[0] if op.declared else None
    return op.constant(array, (otherwise if declared is None else declared.dtype).numpy())


def counting(op: Builder, count: int | Tensor) -> Tensor:
    """0, 1, 2 and so on: so many int64."""
    return op.constant(np.arange(span(count))) if isinstance(count, int) else op.Range(0, count, 1)


def along(op: Builder, x: Tensor, axis: int, rank: int) -> Tensor:
    """A vector along an axis, counted from the front, of as many dimensions."""
    return op.reshape(x, [-1 if i == axis else 1 for i in range(rank)])


def places(op: Builder, x: Tensor) -> Tensor:
    """Indices in a type that ONNX takes."""
    return x if op.dtype(x) in (INT32, INT64) else op.cast(x, INT64)


def repeated(
    op: Builder,
    count: Tensor,
    first: Sequence[Tensor],
    turn: Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]],
) -> tuple[Tensor, ...]:
    """Loop: `turn` takes the number of the turn and what is carried, and gives what is carried on.

    What it gives beyond that is stacked, a row for each turn, after what is carried in the end.
    """
    number, going = (
        ir.Value(name=op.fresh(), type=ir.TensorType(t), shape=ir.Shape([])) for t in (INT64, BOOL)
    )
    carried = [
        ir.Value(name=op.fresh(), type=ir.TensorType(op.dtype(v)), shape=ir.Shape(op.shape(v))) for v in first
    ]
    with op.scope() as nodes:
        results = [op.Identity(v) for v in (going, *turn(number, carried))]
    for result, variable in zip(results, (going, *carried), strict=False):
        result.type, result.shape = variable.type, variable.shape
    body = ir.Graph([number, going, *carried], results, nodes=nodes, name=op.fresh())
    finals = op.ops("Loop", len(results) - 1, count, op.constant(True), *first, body=body)
    for final, variable in zip(finals, carried, strict=False):
        final.type, final.shape = variable.type, variable.shape
    return finals


@primitive("Roll")
def roll(op: Builder, x: Tensor, shift: Ints, axis: Ints | None = None) -> Value:
    if not axis:
        flat = roll(op, op.reshape(x, [-1]), shift, (0,))
        return op.reshape(flat, op.dims(x))
    for step, dim in zip(shift, (op.axis(a, x) for a in axis), strict=True):
        size = op.dim(x, dim)
        first = -step % max(size, 1) if isinstance(size, int) else op.Mod(-step, op.Max(size, 1))
        if isinstance(first, ir.Value) or first:
            cut = op.vector([first])
            x = op.Concat(op.Slice(x, cut, [END], [dim]), op.Slice(x, [0], cut, [dim]), axis=dim)
    return x


@primitive("UnravelIndex")
def unravel_index(op: Builder, indices: Tensor, dims: Ints) -> Value:
    steps = [[math.prod(dims[i + 1 :])] for i in range(len(dims))]
    kind = op.dtype(indices).numpy()
    part = op.Unsqueeze(indices, [0]) / op.constant(steps, kind)
    return op.Mod(part, op.constant([[d] for d in dims], kind))


formulas(
    {
        "Clone Copy": lambda op, x: op.Identity(x),
        "ExpandAs": lambda op, x, other: op.Expand(x, op.Shape(other)),
        "Flatten": lambda op, x, axis=1: op.Flatten(x, axis=axis),
        "Rank": lambda op, x: op.rank(x),
        "TensorShape DynamicShape": lambda op, x: op.vector(op.dims(x)),
        "TExt": lambda op, x: op.transpose(x, range(op.rank(x))[::-1]),
        "TypeAs ToOther": lambda op, x, other: op.cast(x, op.dtype(other)),
        "ViewAs": lambda op, x, other: op.reshape(x, op.dims(other)),
    },
    unused="non_blocking copy",
)


_Pair = tuple[int | Tensor, int | Tensor]


def padded(
    op: Builder, x: Tensor, pairs: Sequence[_Pair], mode: str = "constant", value: Value = None
) -> Tensor:
    """Pad, with a pair (before, after) for each dimension."""
    pads = op.vector([p[0] for p in pairs] + [p[1] for p in pairs])
    filler = None if value is None else op.scalar(op.cast(op.tensor(value), op.dtype(x)))
    return op.Pad(x, pads, filler, mode=mode)


@primitive("Pad")
def pad(op: Builder, x: Tensor, paddings: Pairs) -> Value:
    """Pad with zeros."""
    return padded(op, x, paddings)


def _pairs(numbers: Sequence[int | Tensor]) -> list[_Pair]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@primitive("PadV3")
def pad_v3(
    op: Builder,
    x: Tensor,
    paddings: Dims,
    constant_value: Value = None,
    mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Value:
    """Pad; the pairs begin with the last dimension."""
    if paddings_contiguous:
        pairs = _pairs(paddings)
    else:
        half = len(paddings) // 2
        pairs = list(zip(paddings[:half], paddings[half:], strict=True))
    return padded(op, x, _from_last(op, x, pairs), _MODES.get(mode, mode), constant_value)


_MODES = {"circular": "wrap", "replicate": "edge"}


def _from_last(op: Builder, x: Tensor, pairs: Sequence[_Pair]) -> list[_Pair]:
    """A pair for each dimension, of pairs that begin with the last one."""
    return [(0, 0)] * (op.rank(x) - len(pairs)) + list(reversed(pairs))


@primitive("MirrorPad")
def mirror_pad(
    op: Builder, x: Tensor, paddings: Pairs, mode: Literal["REFLECT", "SYMMETRIC"] = "REFLECT"
) -> Value:
    """Pad, mode reflect; for SYMMETRIC Gather along each dimension."""
    return padded(op, x, paddings, "reflect") if mode == "REFLECT" else mirrored(op, x, paddings)


def mirrored(op: Builder, x: Tensor, paddings: Pairs) -> Tensor:
    """Each dimension between its mirror images, the border included."""
    for axis, (before, after) in enumerate(paddings):
        if before or after:
            size = op.static_shape(x)[axis]
            span(size + abs(before) + abs(after))
            places = np.pad(np.arange(size), (before, after), mode="symmetric")
            x = op.Gather(x, op.constant(places, np.int64), axis=axis)
    return x


@primitive("Padding")
def _padding(op: Builder, x: Tensor, pad_dim_size: int = 8) -> Value:
    return padded(op, x, [(0, 0)] * (op.rank(x) - 1) + [(0, pad_dim_size - 1)])


@primitives(
    {
        "ReflectionPad1D ReflectionPad2D ReflectionPad3D": "reflect",
        "ReplicationPad1D ReplicationPad2D ReplicationPad3D": "edge",
        "ConstantPadND": "constant",
    }
)
def _reflection_pad1_d(op: Builder, mode: str, x: Tensor, padding: Dims, value: Value = None) -> Value:
    """Pad, mode {mode}."""
    return padded(op, x, _from_last(op, x, _pairs(padding)), mode, value)
