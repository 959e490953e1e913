"""Shapes and bounds that ONNX tells in ways of its own, as MindSpore's primitives take them.

Functions of the rules of both dialects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter import partly
from pinnace.converter.primitives import Primitives
from pinnace.ops import binding
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported, Value
from pinnace.program import Dialect, TypeInfo

_FAR = 1 << 62
_Ints = tuple[int, ...]


@function
def declared_shape(b: Builder) -> _Ints | None:
    """The shape that the file declares of the first result, None where it is free in part."""
    declared = b.declared[0] if b.declared else None
    if declared is None or declared.shape is None:
        return None
    known = tuple(d for d in declared.shape if d is not None)
    return known if len(known) == len(declared.shape) else None


function(binding.ints)


@function
def element_type(b: Builder, number: int) -> ir.DataType:
    """ONNX's element type of a number."""
    return ir.DataType(number)


@function
def results(b: Builder) -> int:
    """The number of results that are asked for."""
    return len(b.declared)


@function
def known_or_declared(b: Builder, count: ir.Value, axis: int) -> Value:
    """A count: of what is known, else the dimension that the file declares, else what the run knows."""
    known, declared = b.known(count), declared_shape(b)
    if known is not None:
        return int(np.asarray(known).reshape(-1)[0])
    return count if declared is None else declared[axis]


@function
def target(b: Builder, data: ir.Value, shape: ir.Value, allowzero: int, keeps: bool = False) -> Value:
    """The shape of a Reshape: 0 stands for the dimension at its place, also in the primitive if `keeps`."""
    found = partly.dims(shape)
    fixed = declared_shape(b) if b.known(shape) is None else None
    if found is None or fixed is not None:
        return fixed or shape
    own = b.shape(data) if 0 in found and not allowzero else ()
    whole = [own[i] if own and d == 0 else d for i, d in enumerate(found)]
    if whole.count(None) == 1 and -1 not in whole:
        whole[whole.index(None)] = -1
    if None not in whole:
        return tuple(whole)
    if own and not keeps:
        raise Unsupported("keeps several dimensions known only at run time: fix them by shapes of the inputs")
    return shape


@function
def told(b: Builder, shape: ir.Value) -> bool:
    """True where some dimensions of a shape are known, and none of these is zero."""
    found = partly.dims(shape)
    return found is not None and 0 not in found


@function
def matrix(b: Builder, x: ir.Value, axis: int) -> _Ints:
    """The two dimensions of a Flatten."""
    dims = b.shape(x)
    first, second = dims[:axis], dims[axis:]
    if None in first and None in second:
        raise Unsupported("keeps several dimensions known only at run time: fix them by shapes of the inputs")
    if None in first:
        return -1, math.prod(d for d in second if d is not None)
    return math.prod(d for d in first if d is not None), -1 if None in second else math.prod(second)  # type: ignore[arg-type]


@function
def broadcast(b: Primitives, data: ir.Value, shape: ir.Value) -> Value:
    """The shape of an Expand, to which both its input and `shape` are broadcast."""
    known = b.known(shape)
    if known is None:
        return declared_shape(b) or _at_least(b, data, shape)
    dims, own = tuple(known.tolist()), b.shape(data)
    rank = max(len(own), len(dims))
    pairs = zip((1,) * (rank - len(own)) + own, (1,) * (rank - len(dims)) + dims, strict=True)
    sizes = tuple(-1 if w is None else w if d == 1 else d for w, d in pairs)
    if -1 in sizes and b.dialect is Dialect.LITE and len(dims) >= len(own):  # of which it takes no -1
        return _at_least(b, data, b.constant(dims, np.int32))
    return sizes


def _at_least(b: Primitives, data: ir.Value, shape: ir.Value) -> ir.Value:
    """A shape known only at run time, with the larger of each dimension and that of a tensor."""
    own, (count,) = b.shape(data), b.static_shape(shape)
    if count < len(own):
        raise Unsupported(
            "has a shape known only at run time with fewer dimensions than its input: write those of size 1, too"
        )
    more = [0] * (count - len(own))
    lite = b.dialect is Dialect.LITE
    dtype = ir.DataType.INT32 if lite else ir.DataType.INT64
    if None not in own:  # 1 becomes any, nothing too
        least: list[Any] = [*more, *(0 if d == 1 else d for d in own)]
        return b.op("Maximum", b.cast(shape, dtype), b.constant(least, dtype.numpy()))
    sizes = b.op("Shape" if lite else "TensorShape", data)
    sizes.type, sizes.shape = ir.TensorType(dtype), ir.Shape([len(own)])
    ones = b.op("Equal", sizes, b.like(1, sizes))
    rest = b.op("SubFusion" if lite else "Sub", sizes, b.op("Cast", ones, to=dtype.value))
    if more:
        parts: Any = (b.constant(more, dtype.numpy()), rest)
        rest = b.op("Concat", *parts, axis=0) if lite else b.op("Concat", parts, 0)
    return b.op("Maximum", b.cast(shape, dtype), rest)


@function
def with_elements(b: Builder, x: Sequence[ir.Value], axis: int) -> Sequence[ir.Value]:
    """The parts of a Concat that have elements: MindSpore Lite waits forever for others."""
    return [part for part in x if b.shape(part)[axis] != 0] or x


@function
def cut(
    b: Builder, data: ir.Value, starts: ir.Value, ends: ir.Value, axes: _Ints | None, steps: _Ints | None
) -> tuple[Value, Value, _Ints]:
    """The begins, ends and steps of a Slice for all dimensions."""
    rank = b.rank(data)
    first, last = b.known(starts), b.known(ends)
    by = b.known(steps)
    if first is None or last is None or (by is None and steps is not None):
        if (axes or tuple(range(*b.static_shape(starts)))) != tuple(range(rank)):
            raise Unsupported(
                "has bounds of some dimensions known only at run time, and those of all are wanted"
            )
        return starts, ends, steps or (1,) * rank
    begin, end, step = [0] * rank, [_FAR] * rank, [1] * rank
    for i, axis in enumerate(range(len(first)) if axes is None else axes):
        begin[axis], end[axis], step[axis] = int(first[i]), int(last[i]), 1 if by is None else int(by[i])
    for axis, size in enumerate(b.shape(data)):
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


@function
def sizes_of(b: Builder, x: ir.Value, split: ir.Value | None, axis: int) -> _Ints:
    """The sizes of the parts of a Split, of which the last may be smaller."""
    count, known = len(b.declared), b.known(split)
    if known is not None:
        return tuple(map(int, known))
    if split is not None:
        return tuple(_declared_size(part, axis) for part in b.declared)
    size = b.shape(x)[axis]
    if size is None:
        raise Unsupported("has parts of a size known only at run time: fix it by shapes of the inputs")
    each = -(-size // count)
    return tuple(max(0, min(each, size - i * each)) for i in range(count))


def _declared_size(part: TypeInfo | None, axis: int) -> int:
    size = None if part is None or part.shape is None else part.shape[axis]
    if size is None:
        raise Unsupported("has parts of a size known only at run time: fix it by shapes of the inputs")
    return size


@function
def declared(b: Builder) -> _Ints:
    """The shape that the file declares of the result, which must be fixed."""
    shape = declared_shape(b)
    if shape is None:
        raise Unsupported("has axes known only at run time, and the model declares no shape of the result")
    return shape


@function
def both_sides(b: Builder, pads: _Ints, axes: _Ints | None, rank: int) -> list[int]:
    """Return the padding before each dimension, then after each."""
    count = len(pads) // 2
    whole = [0] * 2 * rank
    for i, axis in enumerate(range(count) if axes is None else axes):
        whole[axis % rank], whole[axis % rank + rank] = pads[i], pads[i + count]
    return whole


@function
def last_first(b: Builder, pads: Sequence[int]) -> _Ints:
    """Return the padding before and after the last dimension, then the one before it, ..."""
    rank = len(pads) // 2
    return tuple(pads[i + side * rank] for i in reversed(range(rank)) for side in (0, 1))


@function
def in_pairs(b: Builder, auto_pad: str, pads: _Ints, rank: int) -> _Ints:
    """Return the padding before and after the first dimension, then the second, ..."""
    if auto_pad not in ("NOTSET", "VALID"):
        raise Unsupported(f"has auto_pad {auto_pad}, and primitives want the padding itself")
    given = pads if pads and auto_pad == "NOTSET" else (0,) * 2 * rank
    return tuple(given[i + side * rank] for i in range(rank) for side in (0, 1))


@function
def pads_itself(b: Builder, x: ir.Value, auto_pad: str) -> bool:
    """True for windows that a primitive has to pad in the run, because the size of the image is free."""
    return auto_pad == "SAME_UPPER" and None in b.shape(x)[2:]


@function
def bounded(b: Primitives, x: ir.Value, low: ir.Value | None, high: ir.Value | None) -> ir.Value:
    """A tensor of no less than one bound, and no more than the other: ReLU6 is part of a convolution."""
    if b.known(low) == 0 and b.known(high) == 6 and b.dtype(x).is_floating_point():
        return b.op("ReLU6", x)
    for primitive, bound in (("Maximum", low), ("Minimum", high)):
        x = x if bound is None else b.op(primitive, x, b.cast(bound, b.dtype(bound)))
    return x
