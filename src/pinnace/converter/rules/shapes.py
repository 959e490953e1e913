"""Operators that change or tell shapes as primitives (see `rules`), and what rules ask of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import rule
from pinnace.converter.rules.int32 import from_int32, in_int32, reshaped
from pinnace.converter.rules.layout import joined, transposed
from pinnace.graph import shape_data
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import INT64, Value
from pinnace.program import Dialect, TypeInfo

_FAR = 1 << 62
_FREE = "keeps several dimensions known only at run time: fix them by shapes of the inputs"


def declared_dims(op: Builder) -> tuple[int | None, ...] | None:
    """The shape that the file declares of the first result, None where it declares none."""
    declared = op.declared[0] if op.declared else None
    return None if declared is None else declared.shape


def declared_shape(op: Builder) -> Ints | None:
    """The shape that the file declares of the first result, None where it is free in part."""
    declared = declared_dims(op)
    known = tuple(d for d in declared or () if d is not None)
    return None if declared is None or len(known) < len(declared) else known


def typed(op: Primitives, results: Any, *types: tuple[ir.DataType, Sequence[int | None] | None]) -> Any:
    """The results of a primitive, with their element types and shapes; no shape is that of the operator's."""
    values = results if isinstance(results, tuple) else (results,)
    for value, (dtype, shape) in zip(values, types, strict=True):
        shape = declared_dims(op) if shape is None else shape
        value.type, value.shape = ir.TensorType(dtype), None if shape is None else ir.Shape(shape)
    op.declare(*values)
    return results


def broadcast_to(op: Primitives, x: Tensor, shape: Ints) -> Tensor:
    return x if op.shape(x) == shape else typed(op, op.BroadcastTo(x, shape), (op.dtype(x), shape))


def flat(op: Primitives, x: Tensor) -> Tensor:
    known = op.known(x)
    return op.Reshape(x, (-1,)) if known is None else op.constant(known.reshape(-1))


def common(op: Primitives, x: Sequence[Tensor], rank: int) -> Tensor:
    """The shape to which tensors are broadcast, known only at run time, in MindSpore Lite."""
    whole: Tensor | None = None
    for v in x:
        sizes = op.Shape(v) if op.known(v) is None else op.constant(op.static_shape(v), np.int32)
        if op.rank(v) < rank:
            sizes = op.Concat([1] * (rank - op.rank(v)), sizes, axis=0)
        whole = sizes if whole is None else op.Maximum(whole, sizes)
    assert whole is not None
    return whole


# -- rules -----------------------------------------------------------------------------------------


def Shape(op: Primitives, data: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    if start or end is not None:
        raise Unsupported("takes a part of the shape, and the primitive gives all of it")
    y = op.TensorShape(data)
    return from_int32(op, y, INT64) if op.lite else y


@rule(Dialect.LITE)
def Size(op: Primitives, data: Tensor) -> Tensor:
    return from_int32(op, op.Size(data), INT64)


def Identity(op: Primitives, x: Tensor) -> Tensor:
    return x


def Dropout(
    op: Primitives, data: Tensor, _ratio: Value = None, training_mode: bool = False, _seed: Value = None
) -> Tensor:
    check_inference(training_mode)
    return data


def check_inference(training_mode: bool) -> None:
    if training_mode:
        raise Unsupported("draws at random, as for training, and only a model for inference can be written")


def Reshape(op: Primitives, data: Tensor, shape: Tensor, allowzero: int = 0) -> Tensor:
    dims = _target(op, data, shape, allowzero)
    known = isinstance(dims, tuple)
    if op.mindspore:
        return op.Reshape(data, dims)
    if (allowzero and not _without_zeros(shape)) or (known and 0 in dims):
        raise Unsupported("has dimensions of size zero, which Lite's Reshape takes for those of its input")
    return reshaped(op, data, dims) if known else op.Reshape(data, in_int32(op, dims))


def Flatten(op: Primitives, x: Tensor, axis: int = 1) -> Tensor:
    dims = op.shape(x)
    first, second = dims[:axis], dims[axis:]
    if None in first and None in second:
        raise Unsupported(_FREE)
    rows, columns = (math.prod(d for d in part if d is not None) for part in (first, second))
    return op.Reshape(x, (-1, columns) if None in first else (rows, -1 if None in second else columns))


def Squeeze(op: Primitives, data: Tensor, axes: Value = None) -> Tensor:
    at = known_ints(op, axes)
    if at is None:
        return reshaped(op, data, _declared_target(op))
    if op.lite and op.dtype(data) is INT64 and op.rank(data) == len(at):  # of which Lite has no Squeeze
        return reshaped(op, data, ())
    return op.Squeeze(data, axis=at)


def Unsqueeze(op: Primitives, data: Tensor, axes: Value = None) -> Tensor:
    at = known_ints(op, axes)
    if at is None:
        return reshaped(op, data, _declared_target(op))
    for axis in sorted(a % (op.rank(data) + len(at)) for a in at):
        data = op.Unsqueeze(data, axis=(axis,)) if op.lite else op.ExpandDims(data, axis)
    return data


def known_ints(op: Primitives, axes: Value) -> Ints | None:
    """Axes that are known, none where none are given."""
    if not isinstance(axes, Tensor):
        return axes or ()
    known = op.known(axes)
    return None if known is None else tuple(map(int, known.reshape(-1)))


def _declared_target(op: Primitives) -> Ints:
    """The shape that the model declares of the result, of which one dimension may be free."""
    declared = declared_dims(op)
    if declared is None or declared.count(None) > 1 or (op.lite and 0 in declared):
        raise Unsupported("has axes known only at run time, and the model declares no shape of the result")
    return tuple(-1 if d is None else d for d in declared)


def Transpose(op: Primitives, data: Tensor, perm: Ints | None = None) -> Tensor:
    perm = perm or tuple(range(op.rank(data)))[::-1]
    return transposed(op, data, perm) if op.lite else op.Transpose(data, perm)


def Concat(op: Primitives, *inputs: Tensor, axis: int) -> Tensor:
    """A Concat of the parts that have elements: MindSpore Lite waits forever for others."""
    parts = [part for part in inputs if op.shape(part)[axis] != 0] or inputs
    return joined(op, parts, axis) if op.lite else op.Concat(parts, axis)


def Expand(op: Primitives, x: Tensor, shape: Tensor) -> Tensor:
    dims = _broadcast_shape(op, x, shape)
    if isinstance(dims, tuple):
        return op.BroadcastTo(x, shape=dims)
    return op.BroadcastTo(x, in_int32(op, dims)) if op.lite else op.DynamicBroadcastTo(x, dims)


def Tile(op: Primitives, x: Tensor, repeats: Tensor) -> Tensor:
    return op.TileFusion(x, in_int32(op, repeats)) if op.lite else op.Tile(x, repeats)


def Slice(
    op: Primitives,
    data: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    if op.mindspore:
        dims = known_ints(op, axes)
        if dims is None:
            raise Unsupported("has axes known only at run time, and StridedSlice wants them in the file")
        return op.StridedSlice(data, *_cut(op, data, starts, ends, dims or None, steps))
    (count,) = op.static_shape(starts)
    at = range(count) if axes is None else in_int32(op, axes)
    by = [1] * count if steps is None else in_int32(op, steps)
    return op.StridedSlice(data, _within_int32(op, starts, count), _within_int32(op, ends, count), at, by)


def Split(
    op: Primitives, x: Tensor, split: Tensor | None = None, axis: int = 0, _num_outputs: int | None = None
) -> Value:
    sizes, at = _sizes_of_parts(op, x, split, axis), axis % op.rank(x)
    count = len(sizes)
    if op.lite:
        return op.ops("Split", count, x, output_num=count, size_splits=sizes, axis=at)
    if count == 1:
        return x
    if min(sizes) == max(sizes):
        return op.ops("Split", count, x, axis, count)
    ends = [op.constant([end], np.int64) for end in (0, *np.cumsum(sizes))]  # Lite 2.0 has no SplitWithSize
    return tuple(op.StridedSlice(x, *_cut(op, x, *both, (axis,), None)) for both in pairwise(ends))


def Range(op: Primitives, *bounds: Tensor) -> Tensor:
    """A Range, whose numbers are int64 or float32 in MindSpore."""
    if op.lite:
        return op.Range(*bounds)
    dtype = op.dtype(bounds[0])
    known = [op.known(x) for x in bounds]
    numbers = [
        op.TensorToScalar(x) if number is None else number.reshape(-1)[0].item()
        for number, x in zip(known, bounds, strict=True)
    ]
    own = ir.DataType.FLOAT if dtype.is_floating_point() else INT64
    return op.cast(typed(op, op.Range(*numbers), (own, [None])), dtype)


@rule(Dialect.LITE)
def ConstantOfShape(op: Primitives, shape: Tensor, value: Value = None) -> Tensor:
    number = op.constant(0, np.float32) if value is None else op.constant(value.numpy()[0])
    return op.Fill(number, in_int32(op, shape))


# -- what they stand on ----------------------------------------------------------------------------


def _target(op: Primitives, data: Tensor, shape: Tensor, allowzero: int) -> Value:
    """The shape of a Reshape: 0 stands for the dimension at its place, in Lite's primitive, too."""
    found = shape_data.dims(shape)
    fixed = declared_shape(op) if op.known(shape) is None else None
    if found is None or fixed is not None:
        return fixed or shape
    own = op.shape(data) if 0 in found and not allowzero else ()
    whole = [own[i] if own and d == 0 else d for i, d in enumerate(found)]
    if whole.count(None) == 1 and -1 not in whole:
        whole[whole.index(None)] = -1
    if None not in whole:
        return tuple(whole)
    if own and op.mindspore:
        raise Unsupported(_FREE)
    return shape


def _without_zeros(shape: Tensor) -> bool:
    """True where some dimensions of a shape are known, and none of these is zero."""
    found = shape_data.dims(shape)
    return found is not None and 0 not in found


def _broadcast_shape(op: Primitives, data: Tensor, shape: Tensor) -> Value:
    """The shape of an Expand, to which both its input and `shape` are broadcast."""
    known = op.known(shape)
    if known is None:
        return declared_shape(op) or _at_least(op, data, shape)
    dims, own = tuple(known.tolist()), op.shape(data)
    rank = max(len(own), len(dims))
    pairs = zip((1,) * (rank - len(own)) + own, (1,) * (rank - len(dims)) + dims, strict=True)
    sizes = tuple(-1 if w is None else w if d == 1 else d for w, d in pairs)
    if -1 in sizes and op.lite and len(dims) >= len(own):  # of which it takes no -1
        return _at_least(op, data, op.constant(dims, np.int32))
    return sizes


def _at_least(op: Primitives, data: Tensor, shape: Tensor) -> Tensor:
    """A shape known only at run time, with the larger of each dimension and that of a tensor."""
    own, (count,) = op.shape(data), op.static_shape(shape)
    if count < len(own):
        raise Unsupported(
            "has fewer dimensions, known only at run time, than its input: write those of size 1, too"
        )
    more = [0] * (count - len(own))
    dtype = ir.DataType.INT32 if op.lite else INT64
    if None not in own:  # 1 becomes any, nothing too
        least: list[Any] = [*more, *(0 if d == 1 else d for d in own)]
        return op.Maximum(op.cast(shape, dtype), op.constant(least, dtype.numpy()))
    sizes = op.TensorShape(data)
    sizes.type, sizes.shape = ir.TensorType(dtype), ir.Shape([len(own)])
    ones = op.Equal(sizes, op.like(1, sizes))
    rest = op.Sub(sizes, op.cast(ones, dtype))
    if more:
        parts: Any = (op.constant(more, dtype.numpy()), rest)
        rest = op.Concat(*parts, axis=0) if op.lite else op.Concat(parts, 0)
    return op.Maximum(op.cast(shape, dtype), rest)


def _within_int32(op: Primitives, bounds: Tensor, count: int) -> Tensor:
    """The bounds of a slice as int32: those beyond its limits, which are beyond all sizes, are the limits."""
    near = in_int32(op, bounds)
    if op.known(bounds) is not None or op.names.get(bounds) in op.narrow or op.dtype(bounds) is not INT64:
        return near
    real = op.cast(bounds, ir.DataType.FLOAT)  # of which MindSpore Lite has comparisons
    limits = np.iinfo(np.int32)
    for is_beyond, limit in ((op.GreaterEqual, limits.max), (op.LessEqual, limits.min)):
        cut = np.full(count, limit, np.int32)
        chosen = op.Where(is_beyond(real, op.constant(cut, np.float32)), op.constant(cut), near)
        near = typed(op, chosen, (ir.DataType.INT32, (count,)))
    return near


def _cut(
    op: Primitives, data: Tensor, starts: Tensor, ends: Tensor, axes: Ints | None, steps: Value
) -> tuple[Value, Value, Value]:
    """The begins, ends and steps of a Slice for all dimensions."""
    rank = op.rank(data)
    first, last = op.known(starts), op.known(ends)
    by = op.known(steps)
    if first is None or last is None or (by is None and steps is not None):
        if (axes or tuple(range(*op.static_shape(starts)))) != tuple(range(rank)):
            raise Unsupported(
                "has bounds of some dimensions known only at run time, and those of all are wanted"
            )
        return starts, ends, steps or (1,) * rank
    begin, end, step = [0] * rank, [_FAR] * rank, [1] * rank
    for i, axis in enumerate(range(len(first)) if axes is None else axes):
        begin[axis], end[axis], step[axis] = int(first[i]), int(last[i]), 1 if by is None else int(by[i])
    for axis, size in enumerate(op.shape(data)):
        begin[axis], end[axis] = _bounds(begin[axis], end[axis], step[axis], size)
    return tuple(begin), tuple(end), tuple(step)


def _bounds(begin: int, end: int, step: int, size: int | None) -> tuple[int, int]:
    """The bounds of a slice within a dimension; before its begin is less than any negative place."""
    if size is None:
        far = (1 << 31) - 1
        return max(-far, min(begin, far)), max(-far, min(end, far))
    places = range(size)[slice(begin, end, step)]
    if not places:
        return 0, 0
    return places[0], places[-1] + 1 if step > 0 else places[-1] - 1 - (size if places[-1] == 0 else 0)


def _sizes_of_parts(op: Primitives, x: Tensor, split: Tensor | None, axis: int) -> Ints:
    """The sizes of the parts of a Split, of which the last may be smaller."""
    count, known = len(op.declared), op.known(split)
    if known is not None:
        return tuple(map(int, known))
    if split is not None:
        return tuple(_declared_size(part, axis) for part in op.declared)
    size = op.shape(x)[axis]
    if size is None:
        raise Unsupported("has parts of a size known only at run time: fix it by shapes of the inputs")
    each = -(-size // count)
    return tuple(max(0, min(each, size - i * each)) for i in range(count))


def _declared_size(part: TypeInfo | None, axis: int) -> int:
    size = None if part is None or part.shape is None else part.shape[axis]
    if size is None:
        raise Unsupported("has parts of a size known only at run time: fix it by shapes of the inputs")
    return size
