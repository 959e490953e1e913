"""Slices of tensors, joining tensors, and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, span
from pinnace.ops import binding
from pinnace.ops.mindspore.array import END, places
from pinnace.ops.table import Arguments, Dims, Ints, Tensor, Tensors, primitive
from pinnace.ops.values import INT64, Value

_BEGIN = int(np.iinfo(np.int64).min)


@primitive("Slice")
def _slice(op: Builder, x: Tensor, begin: Dims, size: Dims) -> Value:
    ends = [_plus(op, start, length) for start, length in zip(begin, size, strict=True)]
    return op.Slice(x, op.vector(begin), op.vector(ends), range(len(begin)))


def _plus(op: Builder, start: int | Tensor, length: int | Tensor) -> int | Tensor:
    if isinstance(length, int) and length == -1:
        return END
    if isinstance(start, int) and isinstance(length, int):
        return start + length
    if isinstance(start, int) and start == 0:
        return length
    return op.Add(*(op.cast(op.tensor(v), INT64) for v in (start, length)))


@primitive("SliceExt")
def sliced(op: Builder, x: Tensor, dim: int, start: Value, end: Value, step: Value = 1) -> Tensor:
    bounds = (op.vector(binding.dims(op, v)) for v in (start, end))
    return op.Slice(x, *bounds, [dim], op.vector(binding.dims(op, step)))


@primitive("Narrow")
def narrow(op: Builder, x: Tensor, dim: int, start: Value, length: Value) -> Value:
    first, size = binding.dims(op, start)[0], binding.dims(op, length)[0]
    if isinstance(first, int) and first >= 0:
        return sliced(op, x, dim, first, _plus(op, first, size))
    return sliced(op, sliced(op, x, dim, first, END), dim, 0, size)  # the end of the last places is no number


class Masks(Arguments):
    """The masks of StridedSlice, each with a bit for each of its begins and ends."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0


@primitive("StridedSlice")
def strided_slice(op: Builder, x: Tensor, begin: Dims, end: Dims, strides: Dims, masks: Masks) -> Value:
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


@primitive("Chunk")
def _chunk(op: Builder, x: Tensor, chunks: int, dim: int = 0) -> Value:
    """Split into parts of one size, the last one smaller."""
    total = _known_size(op, x, dim)
    return split_tensor(op, x, -(-total // chunks), dim) if total else (x,) * span(chunks)


@primitive("Concat", "ConcatD", "ParallelConcat", "SequenceConcat", unused="N inputNums shape")
def _concat(op: Builder, items: Tensors, axis: int = 0) -> Value:
    return items[0] if len(items) == 1 else op.Concat(*_same_type(op, items), axis=axis)


@primitive("SplitWithSize")
def _split_with_size(op: Builder, x: Tensor, split_sections: Ints, dim: int = 0) -> Value:
    return split_into(op, x, split_sections, dim)


@primitive("Stack", "StackExt", "Pack", unused="num N")
def _stack(op: Builder, items: Tensors, axis: int = 0) -> Value:
    axis = axis % (op.rank(items[0]) + 1)
    raised = [op.Unsqueeze(t, [axis]) for t in items]
    return op.Concat(*_same_type(op, raised), axis=axis)


@primitive("Unstack", unused="num")
def _unstack(op: Builder, x: Tensor, axis: int = 0) -> Value:
    count = op.dim(x, axis)
    if not isinstance(count, int):
        raise Unsupported("needs the dimension that it takes apart fixed")
    return tuple([op.Squeeze(part, [axis]) for part in split_into(op, x, [1] * count, axis)])


def _same_type(op: Builder, tensors: Value) -> Value:
    return [op.cast(t, op.dtype(tensors[0])) for t in tensors]


def split_into(op: Builder, x: Tensor, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
    return (x,) if len(sizes) == 1 else op.ops("Split", len(sizes), x, list(sizes), axis=axis)


@primitive("Split", unused="size_splits num_split")
def split(op: Builder, x: Tensor, axis: int = 0, output_num: int = 1) -> Value:
    """Split into equal parts."""
    _check_parts(op, x, axis, output_num)
    return (x,) if output_num == 1 else op.ops("Split", output_num, x, axis=axis, num_outputs=output_num)


def _check_parts(op: Builder, x: Tensor, axis: int, parts: int) -> None:
    """Refuse parts that are not equal, tens of thousands of empty ones among them."""
    try:
        size = op.shape(x)[axis]
    except Unsupported:  # not even the rank is known
        return
    if parts < 1 or (size or 0) % parts:
        raise Unsupported(f"splits a dimension of {size} into {parts} equal parts")


@primitive("SplitTensor")
def split_tensor(op: Builder, x: Tensor, split_size: int, dim: int = 0) -> Value:
    """Split into parts of one size, the last one smaller."""
    total = _known_size(op, x, dim)
    return split_into(op, x, [min(split_size, total - i) for i in range(0, total, split_size)], dim)


def _known_size(op: Builder, x: Tensor, axis: int) -> int:
    total = op.dim(x, axis)
    if not isinstance(total, int):
        raise Unsupported("needs the dimension that it splits fixed")
    return total


@primitive("SplitV", unused="num_split")
def split_v(op: Builder, x: Tensor, size_splits: Ints = (), split_dim: int = 0) -> Value:
    """Split; one size may be -1."""
    sizes = list(size_splits)
    total = op.dim(x, split_dim)
    if -1 in sizes and isinstance(total, int):
        sizes[sizes.index(-1)] = total - sum(s for s in sizes if s != -1)
    return split_into(op, x, sizes, split_dim)


@primitive("Meshgrid")
def meshgrid(op: Builder, items: Tensors, indexing: str = "1") -> Value:
    order = list(range(len(items)))
    if indexing in ("xy", "1") and len(items) > 1:
        order[:2] = [1, 0]
    sizes = [op.dim(items[i], 0) for i in order]
    return tuple(
        (
            op.Expand(op.reshape(t, [-1 if o == i else 1 for o in order]), op.vector(sizes))
            for i, t in enumerate(items)
        )
    )
