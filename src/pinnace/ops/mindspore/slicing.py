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


def _plus(b: Builder, start: int | Tensor, length: int | Tensor) -> int | Tensor:
    if isinstance(length, int) and length == -1:
        return END
    if isinstance(start, int) and isinstance(length, int):
        return start + length
    if isinstance(start, int) and start == 0:
        return length
    return b.op("Add", *(b.cast(b.tensor(v), ir.DataType.INT64) for v in (start, length)))


@primitive("SliceExt")
def sliced(b: Builder, x: Tensor, dim: int, start: Value, end: Value, step: Value = 1) -> Tensor:
    """Slice of one dimension."""
    bounds = (b.vector(binding.dims(b, v)) for v in (start, end))
    return b.op("Slice", x, *bounds, [dim], b.vector(binding.dims(b, step)))


@primitive("Narrow")
def narrow(b: Builder, x: Tensor, dim: int, start: Value, length: Value) -> Value:
    """Slice."""
    first, size = binding.dims(b, start)[0], binding.dims(b, length)[0]
    return sliced(b, x, dim, first, _plus(b, first, size))


class Masks(Arguments):
    """The masks of StridedSlice, each with a bit for each of its begins and ends."""

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
        begin = END if backwards else 0
    if to_edge:
        end = _BEGIN if backwards else END
    if all(isinstance(v, int) for v in (begin, end, step)) and (begin, end, step) == (0, END, 1):
        return None
    return axis, begin, end, step
