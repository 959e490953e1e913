"""Rules of both dialects, and what they stand on: shapes and bounds as MindSpore's primitives take them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter import partly
from pinnace.converter.primitives import Primitives
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Value
from pinnace.program import Dialect, TypeInfo

_FAR = 1 << 62


def declared_shape(op: Builder) -> Ints | None:
    """The shape that the file declares of the first result, None where it is free in part."""
    declared = op.declared[0] if op.declared else None
    if declared is None or declared.shape is None:
        return None
    known = tuple(d for d in declared.shape if d is not None)
    return known if len(known) == len(declared.shape) else None


def target(op: Builder, data: Tensor, shape: Tensor, allowzero: int, keeps: bool = False) -> Value:
    """The shape of a Reshape: 0 stands for the dimension at its place, also in the primitive if `keeps`."""
    found = partly.dims(shape)
    fixed = declared_shape(op) if op.known(shape) is None else None
    if found is None or fixed is not None:
        return fixed or shape
    own = op.shape(data) if 0 in found and not allowzero else ()
    whole = [own[i] if own and d == 0 else d for i, d in enumerate(found)]
    if whole.count(None) == 1 and -1 not in whole:
        whole[whole.index(None)] = -1
    if None not in whole:
        return tuple(whole)
    if own and not keeps:
        raise Unsupported("keeps several dimensions known only at run time: fix them by shapes of the inputs")
    return shape


def told(op: Builder, shape: Tensor) -> bool:
    """True where some dimensions of a shape are known, and none of these is zero."""
    found = partly.dims(shape)
    return found is not None and 0 not in found


def matrix(op: Builder, x: Tensor, axis: int) -> Ints:
    """The two dimensions of a Flatten."""
    dims = op.shape(x)
    first, second = dims[:axis], dims[axis:]
    if None in first and None in second:
        raise Unsupported("keeps several dimensions known only at run time: fix them by shapes of the inputs")
    rows, columns = (math.prod(d for d in part if d is not None) for part in (first, second))
    return (-1, columns) if None in first else (rows, -1 if None in second else columns)


def broadcast(op: Primitives, data: Tensor, shape: Tensor) -> Value:
    """The shape of an Expand, to which both its input and `shape` are broadcast."""
    known = op.known(shape)
    if known is None:
        return declared_shape(op) or _at_least(op, data, shape)
    dims, own = tuple(known.tolist()), op.shape(data)
    rank = max(len(own), len(dims))
    pairs = zip((1,) * (rank - len(own)) + own, (1,) * (rank - len(dims)) + dims, strict=True)
    sizes = tuple(-1 if w is None else w if d == 1 else d for w, d in pairs)
    if -1 in sizes and op.dialect is Dialect.LITE and len(dims) >= len(own):  # of which it takes no -1
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
    lite = op.dialect is Dialect.LITE
    dtype = ir.DataType.INT32 if lite else ir.DataType.INT64
    if None not in own:  # 1 becomes any, nothing too
        least: list[Any] = [*more, *(0 if d == 1 else d for d in own)]
        return op.Maximum(op.cast(shape, dtype), op.constant(least, dtype.numpy()))
    sizes = op.op("Shape" if lite else "TensorShape", data)
    sizes.type, sizes.shape = ir.TensorType(dtype), ir.Shape([len(own)])
    ones = op.Equal(sizes, op.like(1, sizes))
    rest = op.op("SubFusion" if lite else "Sub", sizes, op.cast(ones, dtype))
    if more:
        parts: Any = (op.constant(more, dtype.numpy()), rest)
        rest = op.Concat(*parts, axis=0) if lite else op.Concat(parts, 0)
    return op.Maximum(op.cast(shape, dtype), rest)


def with_elements(op: Builder, x: Sequence[Tensor], axis: int) -> Sequence[Tensor]:
    """The parts of a Concat that have elements: MindSpore Lite waits forever for others."""
    return [part for part in x if op.shape(part)[axis] != 0] or x


def cut(
    op: Builder, data: Tensor, starts: Tensor, ends: Tensor, axes: Ints | None, steps: Ints | None
) -> tuple[Value, Value, Ints]:
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


def sizes_of(op: Builder, x: Tensor, split: Tensor | None, axis: int) -> Ints:
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


def declared(op: Builder) -> Ints:
    """The shape that the file declares of the result, which must be fixed."""
    shape = declared_shape(op)
    if shape is None:
        raise Unsupported("has axes known only at run time, and the model declares no shape of the result")
    return shape


def both_sides(pads: Ints, axes: Ints | None, rank: int) -> list[int]:
    """Return the padding before each dimension, then after each."""
    count = len(pads) // 2
    whole = [0] * 2 * rank
    for i, axis in enumerate(range(count) if axes is None else axes):
        whole[axis % rank], whole[axis % rank + rank] = pads[i], pads[i + count]
    return whole


def last_first(pads: Sequence[int]) -> Ints:
    """Return the padding before and after the last dimension, then the one before it, ..."""
    rank = len(pads) // 2
    return tuple(pads[i + side * rank] for i in reversed(range(rank)) for side in (0, 1))


def check_signs(op: Builder, x: Tensor, fmod: int) -> None:
    """Refuse a Mod of floats with the sign of the divisor."""
    if is_float(op, x) and not fmod:
        raise Unsupported(
            "is of floats with the sign of the divisor, and FloorMod is of integers: set fmod to 1"
        )


def Identity(op: Builder, x: Tensor) -> Tensor:
    return x


def Dropout(
    op: Builder, data: Tensor, _ratio: Value = None, training_mode: bool = False, _seed: Value = None
) -> Tensor:
    if training_mode:
        raise Unsupported("draws at random, as for training, and only a model for inference can be written")
    return data


def GatherND(op: Primitives, data: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        raise Unsupported(f"has {batch_dims} batch dimensions, and GatherNd none")
    return op.GatherNd(data, indices)
