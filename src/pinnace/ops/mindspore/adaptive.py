"""Pooling to a given size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.room import room, span
from pinnace.ops import binding
from pinnace.ops.mindspore.array import counting
from pinnace.ops.mindspore.pool import with_indices
from pinnace.ops.table import Tensor, primitives
from pinnace.ops.values import Value


@primitives(
    {
        "AdaptiveAvgPool1D": 1,
        "AdaptiveAvgPool2D AdaptiveAvgPool2DExt": 2,
        "AdaptiveAvgPool3D AdaptiveAvgPool3DExt": 3,
    }
)
def adaptive(b: Builder, rank: int, x: Tensor, output_size: Value) -> Value:
    """GlobalAveragePool, AveragePool, or MatMul with weights of means."""
    return _adaptive_average(b, x, _sizes(b, output_size, rank))


@primitives({"AdaptiveMaxPool1D": 1, "AdaptiveMaxPool2D": 2, "AdaptiveMaxPool3D": 3})
def adaptive_with_indices(b: Builder, rank: int, x: Tensor, output_size: Value) -> Value:
    """MaxPool, or Gather of every cell, ReduceMax and ArgMax."""
    value, place = _adaptive_max(b, x, _sizes(b, output_size, rank))
    return value, b.cast(place, b.result(place, 1))


def _sizes(b: Builder, value: Value, rank: int) -> list[int | None]:
    known = value if isinstance(value, tuple) else binding.ints(b, value)
    sizes = [None if v is None or binding.int_(b, v) == -1 else binding.int_(b, v) for v in known]
    return sizes * rank if len(sizes) == 1 else sizes


def _adaptive_average(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    first, own = b.rank(x) - len(sizes), b.dtype(x)
    if 0 in sizes:
        lead = [b.dim(x, i) for i in range(first)]
        rest = [b.dim(x, i) if s is None else s for i, s in enumerate(sizes, first)]
        return b.op("Expand", b.like(0, x), b.vector([*lead, *rest]))
    if own.is_integer():
        x = _averaged_along(b, b.cast(x, ir.DataType.DOUBLE), sizes)
        # Cut off towards zero; a mean that float64 has just below an integer is that integer.
        return b.cast(b.op("Div", b.op("Round", b.op("Mul", x, 2.0**20)), 2.0**20), own)
    if all(s == 1 for s in sizes):
        if first == 2:
            return b.op("GlobalAveragePool", x)
        return b.op("ReduceMean", x, list(range(first, b.rank(x))), keepdims=1)
    steps = _even_steps(b, x, sizes)
    if steps is not None and first == 2:
        return b.op("AveragePool", x, kernel_shape=steps, strides=steps)
    return _averaged_along(b, x, sizes)


def _averaged_along(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    for axis, size in enumerate(sizes, b.rank(x) - len(sizes)):
        if size is not None:
            x = _averaged(b, x, axis, size)
    return x


def _even_steps(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> list[int] | None:
    """The size of the cells where all are of one."""
    lengths = b.shape(x)[-len(sizes) :]
    if any(s is not None and (n is None or n % s) for n, s in zip(lengths, sizes, strict=True)):
        return None
    return [1 if s is None or n is None else n // s for n, s in zip(lengths, sizes, strict=True)]


def _averaged(b: Builder, x: Tensor, axis: int, size: int) -> Tensor:
    means = _means(b, x, axis, size)
    last = b.rank(x) - 1
    if axis == last:
        return b.op("MatMul", x, means)
    perm = [last if i == axis else axis if i == last else i for i in range(last + 1)]
    return b.transpose(b.op("MatMul", b.transpose(x, perm), means), perm)


def _means(b: Builder, x: Tensor, axis: int, size: int) -> Tensor:
    """(length, size): the share that each element has in each cell."""
    length = b.dim(x, axis)
    if isinstance(length, int):
        known = np.zeros(room(length, size), b.dtype(x).numpy())
        for i, (start, stop) in enumerate(_cells(length, size)):
            known[start:stop, i] = 1 / (stop - start)
        return b.constant(known)
    starts, stops = _free_cells(b, length, size)
    places = b.op("Unsqueeze", counting(b, length), [1])
    inside = b.op("And", b.op("GreaterOrEqual", places, starts), b.op("Less", places, stops))
    dtype = b.dtype(x)
    return b.op("Div", b.cast(inside, dtype), b.cast(b.op("Sub", stops, starts), dtype))


def _free_cells(b: Builder, length: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Starts and ends of cells as in `_cells`, of a length known only at run time."""
    index, parts = counting(b, size), b.constant(size, np.int64)
    starts = b.op("Div", b.op("Mul", index, length), parts)
    return starts, b.op("Div", b.op("Add", b.op("Mul", b.op("Add", index, 1), length), size - 1), parts)


def _cells(length: int, size: int) -> list[tuple[int, int]]:
    """Starts and ends of `size` cells that share out `length` elements."""
    span(16 * size)  # numbers that are kept for each
    return [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def _adaptive_max(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> tuple[Tensor, Tensor]:
    """The largest of every cell, and their places counted within a channel."""
    rank = len(sizes)
    steps = _even_steps(b, x, sizes)
    if steps is not None and b.rank(x) == rank + 2:
        return with_indices(b, x, steps, steps, (0,), (1,), False)
    lead, lengths = b.dims(x, stop=-rank), b.dims(x, -rank)
    known = [n for n in lengths if isinstance(n, int)]
    flat = b.reshape(x, [*lead, math.prod(known) if len(known) == rank else -1])
    if all(s == 1 for s in sizes):
        found = b.op("ReduceMax", flat, [-1], keepdims=0), b.op("ArgMax", flat, axis=-1, keepdims=0)
        value, place = (b.reshape(v, [*lead, *[1] * rank]) for v in found)
        return value, place
    counts = [n if s is None else s for n, s in zip(lengths, sizes, strict=True)]
    places = _places(b, lengths, sizes)
    cells = b.op("Gather", flat, places, axis=len(lead))
    value = b.op("ReduceMax", cells, [-1], keepdims=0)
    taken = b.op("ArgMax", cells, axis=-1, keepdims=1)
    grid = b.op("Expand", places, b.op("Shape", cells))
    place = b.op("Squeeze", b.op("GatherElements", grid, taken, axis=-1), [-1])
    return b.reshape(value, [*lead, *counts]), b.reshape(place, [*lead, *counts])


def _places(b: Builder, lengths: Sequence[int | Tensor], sizes: Sequence[int | None]) -> Tensor:
    """(cells, elements): the elements of every cell, the last one again where a cell has fewer."""
    known = [n for n in lengths if isinstance(n, int)]
    if len(known) == len(lengths):
        return b.constant(_known_places(known, sizes))
    flat = b.constant([[0]], np.int64)
    for length, size in zip(lengths, sizes, strict=True):
        along = b.op("Unsqueeze", _places_along(b, length, size), [0, 2])
        flat = b.op("Add", b.op("Mul", b.op("Unsqueeze", flat, [1, 3]), length), along)
        cells = b.op("ReduceProd", b.op("Shape", flat, start=0, end=2), keepdims=1)
        flat = b.op("Reshape", flat, b.op("Concat", cells, [-1], axis=0))
    return flat


def _known_places(lengths: Sequence[int], sizes: Sequence[int | None]) -> np.ndarray[Any, Any]:
    flat: np.ndarray[Any, Any] = np.zeros((1, 1), np.int64)
    for length, size in zip(lengths, sizes, strict=True):
        along = _known_along(length, length if size is None else size)
        shape = room(len(flat) * len(along), flat.shape[1] * along.shape[1])
        flat = (flat[:, None, :, None] * length + along[None, :, None, :]).reshape(shape)
    return flat


def _known_along(length: int, size: int) -> np.ndarray[Any, Any]:
    starts, stops = np.asarray(_cells(length, size)).T
    widest = int((stops - starts).max())
    room(size, widest)
    return np.asarray(np.minimum(starts[:, None] + np.arange(widest), stops[:, None] - 1))


def _places_along(b: Builder, length: int | Tensor, size: int | None) -> Tensor:
    """(cells, elements) of one axis."""
    if size is None:
        return b.op("Unsqueeze", counting(b, length), [1])
    if isinstance(length, int):
        return b.constant(_known_along(length, size), np.int64)
    starts, stops = (b.op("Unsqueeze", ends, [1]) for ends in _free_cells(b, length, size))
    widest = b.op("ReduceMax", b.op("Sub", stops, starts), keepdims=0)
    return b.op("Min", b.op("Add", starts, counting(b, widest)), b.op("Sub", stops, 1))
