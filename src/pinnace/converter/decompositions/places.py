"""Places in tensors, and axes known only at run time (see `rules`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.converter.rules import operators
from pinnace.graph import shape_data
from pinnace.graph.builder import Builder, Operand
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor

FAR = 1 << 40
"""An end of a slice beyond all elements."""
_OF_NOTHING = {
    "ReduceSum": 0.0,
    "ReduceProd": 1.0,
    "ReduceMean": np.nan,
    "ReduceMax": -np.inf,
    "ReduceMin": np.inf,
}
"""The results of reductions without elements."""


def only(rank: int, axis: int) -> list[int]:
    """The dimensions of a vector that lies along an axis."""
    dims = [1] * rank
    dims[axis] = -1
    return dims


def along(op: Builder, x: Tensor, axis: int) -> Tensor:
    """The places along an axis, as an operand beside a tensor."""
    dims = only(op.rank(x), axis)
    size = op.shape(x)[axis]
    if size is not None:
        return op.constant(np.arange(size).reshape(dims), np.int64)
    zero, one = (op.constant(n, np.int64) for n in (0, 1))
    return op.reshape(op.Range(zero, op.tensor(op.dim(x, axis)), one), dims)


def _from_front(op: Builder, axes: Tensor, rank: int) -> Tensor:
    axes = op.cast(axes, ir.DataType.INT64)
    return op.Where(op.Less(axes, 0), axes + rank, axes)


def chosen(op: Builder, axis: Tensor, x: Tensor, by_axis: Sequence[Tensor]) -> Tensor:
    """The one of results of equal shape that belongs to an axis."""
    at = _from_front(op, op.scalar(axis), op.rank(x))
    result = by_axis[0]
    for i, other in enumerate(by_axis[1:], 1):
        result = op.Where(op.Equal(at, i), other, result)
    return result


def Slice(
    op: Builder,
    data: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    """A Slice that says the bounds of all dimensions."""
    rank = op.rank(data)
    (count,) = op.static_shape(starts)
    known = list(range(count)) if axes is None else op.known(axes)
    if known is not None and list(known) == list(range(rank)):
        raise Unsupported("has bounds known only at run time, and as many of them as dimensions")
    at = op.constant(known, np.int64) if known is not None else axes
    assert at is not None
    at = _from_front(op, at, rank)

    def whole(part: Tensor, other: int) -> Tensor:
        """Bounds of all dimensions: those that are not given are `other`."""
        rest = op.constant([other] * rank, np.int64)
        return op.ScatterElements(rest, at, op.cast(part, ir.DataType.INT64))

    step = None if steps is None else whole(steps, 1)
    return op.Slice(data, whole(starts, 0), whole(ends, FAR), list(range(rank)), step)


def GatherND(op: Builder, data: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """GatherND with the places in the batch dimensions among the indices."""
    dims = op.static_shape(indices)
    grids = np.indices(dims[:-1], np.int64)[:batch_dims]
    last = [op.constant(grid[..., None]) for grid in grids]
    return op.GatherND(data, op.Concat(*last, op.cast(indices, ir.DataType.INT64), axis=-1))


def Pad(
    op: Builder,
    x: Tensor,
    pads: Tensor,
    value: Tensor | None = None,
    axes: Tensor | None = None,
    mode: str = "constant",
) -> Tensor:
    """A Pad that repeats elements as Gather of each dimension; one that cuts as Slice."""
    known, at = op.known(pads), None if axes is None else op.known(axes)
    if known is None or (at is None and axes is not None):
        if axes is None:
            raise Unsupported("has a padding known only at run time, and repeats elements")
        return op.Pad(x, _padded_at(op, x, pads, axes), value, mode=mode)
    count = len(known) // 2
    wide = [0] * 2 * op.rank(x)
    for i, axis in enumerate(range(count) if at is None else at):
        before, after = int(known[i]), int(known[i + count])
        if mode != "constant" and (before or after):
            x = op.Gather(x, _repeated(op, op.dim(x, axis), before, after, mode), axis=axis)
        elif min(before, after) < 0:
            x = op.Slice(x, [max(0, -before)], [min(0, after) or FAR], [axis])
        wide[axis], wide[axis + op.rank(x)] = max(0, before), max(0, after)
    return x if mode != "constant" else op.Pad(x, wide, value)


def _repeated(op: Builder, size: int | Tensor, before: int, after: int, mode: str) -> Operand:
    """The places that a padded dimension takes its elements from."""
    if isinstance(size, int):
        inside = np.arange(size)[max(0, -before) : size + min(0, after)]
        more = (max(0, before), max(0, after))
        return np.pad(inside, more, mode).astype(np.int64)  # type: ignore[call-overload,no-any-return]
    at = op.Range(op.constant(-before, np.int64), size + after, op.constant(1, np.int64))
    last = size - 1
    if mode == "reflect":
        return op.Abs(last - op.Abs(last - at))
    if mode == "edge":
        return op.Max(op.Min(at, last), op.constant(0, np.int64))
    return op.Mod(at, size)


def Reshape(op: Builder, data: Tensor, shape: Tensor, allowzero: int = 0) -> Tensor:
    """A Reshape that says the dimensions at whose place 0 stands."""
    found = shape_data.dims(shape)
    if found is None or allowzero or 0 not in found:
        raise Unsupported("keeps several dimensions known only at run time: fix them by shapes of the inputs")
    parts = [
        op.dim(data, i) if d == 0 else d if d is not None else op.Gather(shape, op.constant(i, np.int64))
        for i, d in enumerate(found)
    ]
    return op.Reshape(data, op.vector(parts), allowzero=1)


@operators("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd")
def _grouped(
    op: Builder, op_type: str, data: Tensor, axes: Tensor, keepdims: int = 1, _noop_with_empty_axes: int = 0
) -> Tensor:
    """A reduction over axes known only at run time.

    The elements are sorted by what they keep of their place, so that those of one result are in one row.
    """
    dims, (count,) = op.static_shape(data), op.static_shape(axes)
    rank, size = len(dims), math.prod(dims)
    named = op.Equal(_from_front(op, axes, rank), op.constant(np.arange(rank)[:, None], np.int64))
    gone = op.ReduceMax(op.cast(named, ir.DataType.INT32), [1], keepdims=0)
    is_gone = op.cast(gone, ir.DataType.BOOL)
    steps = np.cumprod([1, *dims[:0:-1]])[::-1]
    steps_of_all = op.constant(np.indices(dims).reshape(rank, size).T * steps, np.int64)
    kept = op.Where(is_gone, op.constant(0, np.int64), steps_of_all)
    key = op.ReduceSum(kept, [1], keepdims=0) * size + op.constant(np.arange(size), np.int64)
    _, order = op.ops("TopK", 2, key, [size], axis=0, largest=0)
    flat = op.Gather(op.Reshape(data, [-1]), order)
    sizes = op.constant(dims, np.int64)
    one = op.constant(1, np.int64)
    length = op.ReduceProd(op.Where(is_gone, sizes, one))
    rows = op.Reshape(flat, op.Concat(op.constant([-1], np.int64), length, axis=0))
    y = op.op(op_type, rows, [1], keepdims=0)
    shaped = "Reshape"
    if not size:  # of nothing, only the shape depends on the axes
        y, shaped = op.like(_OF_NOTHING[op_type], data), "Expand"
    if keepdims:
        return op.op(shaped, y, op.Where(is_gone, one, sizes))
    if rank == count:
        return op.op(shaped, y, op.constant([], np.int64))
    turn = op.cast(gone, ir.DataType.INT64) * rank + op.constant(np.arange(rank), np.int64)
    _, first = op.ops("TopK", 2, turn, [rank - count], axis=0, largest=0)
    return op.op(shaped, y, op.Gather(sizes, first))


def ScatterElements(
    op: Builder, data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    dims = op.static_shape(indices)
    at = [op.constant(place.reshape(-1, 1), np.int64) for place in np.indices(dims)]
    at[axis] = op.Reshape(op.cast(indices, ir.DataType.INT64), [-1, 1])
    return op.ScatterND(data, op.Concat(*at, axis=1), op.Reshape(updates, [-1]), reduction=reduction)


def _padded_at(op: Builder, x: Tensor, pads: Tensor, axes: Tensor) -> Tensor:
    """Return the padding of all dimensions from that of some, known only at run time."""
    rank = op.rank(x)
    at = _from_front(op, axes, rank)
    both = op.Concat(at, at + rank, axis=0)
    return op.ScatterElements(op.constant([0] * 2 * rank, np.int64), both, pads)
