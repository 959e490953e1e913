"""Slices of tensors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops import binding
from pinnace.ops.mindspore.array import END
from pinnace.ops.mindspore.index import places
from pinnace.ops.table import Arguments, Dims, Tensor, primitive
from pinnace.ops.values import Value

_BEGIN = int(np.iinfo(np.int64).min)


@primitive("Slice")
def _slice(op: Builder, x: Tensor, begin: Dims, size: Dims) -> Value:
    """Slice."""
    ends = [_plus(op, start, length) for start, length in zip(begin, size, strict=True)]
    return op.Slice(x, op.vector(begin), op.vector(ends), range(len(begin)))


def _plus(op: Builder, start: int | Tensor, length: int | Tensor) -> int | Tensor:
    if isinstance(length, int) and length == -1:
        return END
    if isinstance(start, int) and isinstance(length, int):
        return start + length
    if isinstance(start, int) and start == 0:
        return length
    return op.Add(*(op.cast(op.tensor(v), ir.DataType.INT64) for v in (start, length)))


@primitive("SliceExt")
def sliced(op: Builder, x: Tensor, dim: int, start: Value, end: Value, step: Value = 1) -> Tensor:
    """Slice of one dimension."""
    bounds = (op.vector(binding.dims(op, v)) for v in (start, end))
    return op.Slice(x, *bounds, [dim], op.vector(binding.dims(op, step)))


@primitive("Narrow")
def narrow(op: Builder, x: Tensor, dim: int, start: Value, length: Value) -> Value:
    """Slice."""
    first, size = binding.dims(op, start)[0], binding.dims(op, length)[0]
    return sliced(op, x, dim, first, _plus(op, first, size))


class Masks(Arguments):
    """The masks of StridedSlice, each with a bit for each of its begins and ends."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0


@primitive("StridedSlice")
def strided_slice(op: Builder, x: Tensor, begin: Dims, end: Dims, strides: Dims, masks: Masks) -> Value:
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
            skipped = op.rank(x) - (own - 1)
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
            cuts += [_kept_inside(op, x, cut)] if cut is not None else []
            axis, place = axis + 1, place + 1
    if cuts:
        axes, starts, ends, steps = zip(*cuts, strict=True)
        x = op.Slice(x, op.vector(starts), op.vector(ends), list(axes), op.vector(steps))
    for axis, where in reversed(picked):
        x = op.Gather(x, places(op, op.tensor(where)), axis=axis)
    return op.Unsqueeze(x, fresh) if fresh else x


_Cut = tuple[int, int | Tensor, int | Tensor, int | Tensor]


def _kept_inside(op: Builder, x: Tensor, cut: _Cut) -> _Cut:
    """A cut backwards from before the first element is empty; to ONNX it would begin with the first."""
    axis, begin, _, step = cut
    if not (isinstance(begin, int) and isinstance(step, int) and step < 0):
        return cut
    length = op.shape(x)[axis]
    before = length is not None and begin < -length and begin != _BEGIN
    return (axis, 0, 0, step) if before else cut


def _cut(
    axis: int, begin: int | Tensor, end: int | Tensor, step: int | Tensor, from_edge: bool, to_edge: bool
) -> _Cut | None:
    """One dimension's part of Slice; None where all of it stays."""
    backwards = isinstance(step, int) and step < 0
    if from_edge:
        begin = END if backwards else 0
    if to_edge:
        end = _BEGIN if backwards else END
    if all(isinstance(v, int) for v in (begin, end, step)) and (begin, end, step) == (0, END, 1):
        return None
    return axis, begin, end, step
