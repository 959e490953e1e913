"""Places in tensors, and axes known only at run time: functions of `parts`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.converter import partly
from pinnace.ops.builder import Builder, Operand
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported

_Ints = tuple[int, ...]
_FAR = 1 << 40
_OF_NOTHING = {
    "ReduceSum": 0.0,
    "ReduceProd": 1.0,
    "ReduceMean": np.nan,
    "ReduceMax": -np.inf,
    "ReduceMin": np.inf,
}
"""The results of reductions without elements."""


@function
def only(b: Builder, rank: int, axis: int) -> list[int]:
    """The dimensions of a vector that lies along an axis."""
    dims = [1] * rank
    dims[axis] = -1
    return dims


@function
def along(b: Builder, x: ir.Value, axis: int) -> ir.Value:
    """The places along an axis, as an operand beside a tensor."""
    dims = only(b, b.rank(x), axis)
    size = b.shape(x)[axis]
    if size is not None:
        return b.constant(np.arange(size).reshape(dims), np.int64)
    zero, one = (b.constant(n, np.int64) for n in (0, 1))
    return b.reshape(b.op("Range", zero, b.tensor(b.dim(x, axis)), one), dims)


def _from_front(b: Builder, axes: ir.Value, rank: int) -> ir.Value:
    """Axes counted from the front."""
    axes = b.cast(axes, ir.DataType.INT64)
    return b.op("Where", b.op("Less", axes, 0), b.op("Add", axes, rank), axes)


@function
def chosen(b: Builder, axis: ir.Value, x: ir.Value, by_axis: Sequence[ir.Value]) -> ir.Value:
    """The one of results of equal shape that belongs to an axis."""
    at = _from_front(b, b.scalar(axis), b.rank(x))
    result = by_axis[0]
    for i, other in enumerate(by_axis[1:], 1):
        result = b.op("Where", b.op("Equal", at, i), other, result)
    return result


@function
def whole_slice(
    b: Builder,
    data: ir.Value,
    starts: ir.Value,
    ends: ir.Value,
    axes: ir.Value | None,
    steps: ir.Value | None,
) -> ir.Value:
    """A Slice that says the bounds of all dimensions."""
    rank = b.rank(data)
    (count,) = b.static_shape(starts)
    known = list(range(count)) if axes is None else b.known(axes)
    if known is not None and list(known) == list(range(rank)):
        raise Unsupported("has bounds known only at run time, and as many of them as dimensions")
    at = b.constant(known, np.int64) if known is not None else axes
    assert at is not None
    at = _from_front(b, at, rank)

    def whole(part: ir.Value, other: int) -> ir.Value:
        """Bounds of all dimensions: those that are not given are `other`."""
        rest = b.constant([other] * rank, np.int64)
        return b.op("ScatterElements", rest, at, b.cast(part, ir.DataType.INT64))

    step = None if steps is None else whole(steps, 1)
    return b.op("Slice", data, whole(starts, 0), whole(ends, _FAR), list(range(rank)), step)


@function
def batched_gather(b: Builder, data: ir.Value, indices: ir.Value, batch_dims: int) -> ir.Value:
    """GatherND with the places in the batch dimensions among the indices."""
    dims = b.static_shape(indices)
    grids = np.indices(dims[:-1], np.int64)[:batch_dims]
    last = [b.constant(grid[..., None]) for grid in grids]
    return b.op("GatherND", data, b.op("Concat", *last, b.cast(indices, ir.DataType.INT64), axis=-1))


@function
def gathered_pads(
    b: Builder, x: ir.Value, pads: ir.Value, value: ir.Value | None, axes: ir.Value | None, mode: str
) -> ir.Value:
    """A Pad that repeats elements as Gather of each dimension; one that cuts as Slice."""
    known, at = b.known(pads), None if axes is None else b.known(axes)
    if known is None or (at is None and axes is not None):
        if axes is None:
            raise Unsupported("has a padding known only at run time, and repeats elements")
        return b.op("Pad", x, padded_at(b, x, pads, axes), value, mode=mode)
    count = len(known) // 2
    wide = [0] * 2 * b.rank(x)
    for i, axis in enumerate(range(count) if at is None else at):
        before, after = int(known[i]), int(known[i + count])
        if mode != "constant" and (before or after):
            x = b.op("Gather", x, _repeated(b, b.dim(x, axis), before, after, mode), axis=axis)
        elif min(before, after) < 0:
            x = b.op("Slice", x, [max(0, -before)], [min(0, after) or _FAR], [axis])
        wide[axis], wide[axis + b.rank(x)] = max(0, before), max(0, after)
    return x if mode != "constant" else b.op("Pad", x, wide, value)


def _repeated(b: Builder, size: int | ir.Value, before: int, after: int, mode: str) -> Operand:
    """The places that a padded dimension takes its elements from."""
    if isinstance(size, int):
        inside = np.arange(size)[max(0, -before) : size + min(0, after)]
        more = (max(0, before), max(0, after))
        return np.pad(inside, more, mode).astype(np.int64)  # type: ignore[call-overload,no-any-return]
    at = b.op("Range", b.constant(-before, np.int64), b.op("Add", size, after), b.constant(1, np.int64))
    last = b.op("Sub", size, 1)
    if mode == "reflect":
        return b.op("Abs", b.op("Sub", last, b.op("Abs", b.op("Sub", last, at))))
    if mode == "edge":
        return b.op("Max", b.op("Min", at, last), b.constant(0, np.int64))
    return b.op("Mod", at, size)


@function
def whole_shape(b: Builder, data: ir.Value, shape: ir.Value, allowzero: int) -> ir.Value:
    """A Reshape that says the dimensions at whose place 0 stands."""
    found = partly.dims(shape)
    if found is None or allowzero or 0 not in found:
        raise Unsupported("keeps several dimensions known only at run time: fix them by shapes of the inputs")
    parts = [
        b.dim(data, i) if d == 0 else d if d is not None else b.op("Gather", shape, b.constant(i, np.int64))
        for i, d in enumerate(found)
    ]
    return b.op("Reshape", data, b.vector(parts), allowzero=1)


@function
def grouped(b: Builder, op_type: str, data: ir.Value, axes: ir.Value, keepdims: int) -> ir.Value:
    """A reduction over axes known only at run time.

    The elements are sorted by what they keep of their place, so that those of one result are in one row.
    """
    dims, (count,) = b.static_shape(data), b.static_shape(axes)
    rank, size = len(dims), math.prod(dims)
    named = b.op("Equal", _from_front(b, axes, rank), b.constant(np.arange(rank)[:, None], np.int64))
    gone = b.op("ReduceMax", b.cast(named, ir.DataType.INT32), [1], keepdims=0)
    is_gone = b.cast(gone, ir.DataType.BOOL)
    steps = np.cumprod([1, *dims[:0:-1]])[::-1]
    steps_of_all = b.constant(np.indices(dims).reshape(rank, size).T * steps, np.int64)
    kept = b.op("Where", is_gone, b.constant(0, np.int64), steps_of_all)
    key = b.op(
        "Add",
        b.op("Mul", b.op("ReduceSum", kept, [1], keepdims=0), size),
        b.constant(np.arange(size), np.int64),
    )
    _, order = b.ops("TopK", 2, key, [size], axis=0, largest=0)
    flat = b.op("Gather", b.op("Reshape", data, [-1]), order)
    sizes = b.constant(dims, np.int64)
    one = b.constant(1, np.int64)
    length = b.op("ReduceProd", b.op("Where", is_gone, sizes, one), keepdims=1)
    rows = b.op("Reshape", flat, b.op("Concat", b.constant([-1], np.int64), length, axis=0))
    y = b.op(op_type, rows, [1], keepdims=0)
    shaped = "Reshape"
    if not size:  # of nothing, only the shape depends on the axes
        y, shaped = b.like(_OF_NOTHING[op_type], data), "Expand"
    if keepdims:
        return b.op(shaped, y, b.op("Where", is_gone, one, sizes))
    if rank == count:
        return b.op(shaped, y, b.constant([], np.int64))
    turn = b.op(
        "Add", b.op("Mul", b.cast(gone, ir.DataType.INT64), rank), b.constant(np.arange(rank), np.int64)
    )
    _, first = b.ops("TopK", 2, turn, [rank - count], axis=0, largest=0)
    return b.op(shaped, y, b.op("Gather", sizes, first))


@function
def places_of(b: Builder, indices: ir.Value, axis: int) -> ir.Value:
    """The places that ScatterElements writes, as ScatterND takes them."""
    dims = b.static_shape(indices)
    at = [b.constant(place.reshape(-1, 1), np.int64) for place in np.indices(dims)]
    at[axis] = b.op("Reshape", b.cast(indices, ir.DataType.INT64), [-1, 1])
    return b.op("Concat", *at, axis=1)


@function
def padded_at(b: Builder, x: ir.Value, pads: ir.Value, axes: ir.Value) -> ir.Value:
    """Return the padding of all dimensions from that of some, known only at run time."""
    rank = b.rank(x)
    at = _from_front(b, axes, rank)
    both = b.op("Concat", at, b.op("Add", at, rank), axis=0)
    return b.op("ScatterElements", b.constant([0] * 2 * rank, np.int64), both, pads)
