"""Pooling to a given size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.room import room, span
from pinnace.ops import binding
from pinnace.ops.mindspore.array import counting
from pinnace.ops.mindspore.pool import with_indices
from pinnace.ops.table import DOUBLE, Tensor, primitives
from pinnace.ops.values import Value


@primitives(
    {
        "AdaptiveAvgPool1D": 1,
        "AdaptiveAvgPool2D AdaptiveAvgPool2DExt": 2,
        "AdaptiveAvgPool3D AdaptiveAvgPool3DExt": 3,
    }
)
def adaptive(op: Builder, rank: int, x: Tensor, output_size: Value) -> Value:
    return _adaptive_average(op, x, _sizes(op, output_size, rank))


@primitives({"AdaptiveMaxPool1D": 1, "AdaptiveMaxPool2D": 2, "AdaptiveMaxPool3D": 3})
def adaptive_with_indices(op: Builder, rank: int, x: Tensor, output_size: Value) -> Value:
    value, place = _adaptive_max(op, x, _sizes(op, output_size, rank))
    return value, op.cast(place, op.result(place, 1))


def _sizes(op: Builder, value: Value, rank: int) -> list[int | None]:
    known = value if isinstance(value, tuple) else binding.ints(op, value)
    sizes = [None if v is None or binding.int_(op, v) == -1 else binding.int_(op, v) for v in known]
    return sizes * rank if len(sizes) == 1 else sizes


def _adaptive_average(op: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    first, own = op.rank(x) - len(sizes), op.dtype(x)
    if 0 in sizes:
        lead = [op.dim(x, i) for i in range(first)]
        rest = [op.dim(x, i) if s is None else s for i, s in enumerate(sizes, first)]
        return op.Expand(op.like(0, x), op.vector([*lead, *rest]))
    if own.is_integer():
        x = _averaged_along(op, op.cast(x, DOUBLE), sizes)
        # Cut off towards zero; a mean that float64 has just below an integer is that integer.
        return op.cast(op.Round(x * 2.0**20) / 2.0**20, own)
    if all(s == 1 for s in sizes):
        if first == 2:
            return op.GlobalAveragePool(x)
        return op.ReduceMean(x, list(range(first, op.rank(x))), keepdims=1)
    steps = _even_steps(op, x, sizes)
    if steps is not None and first == 2:
        return op.AveragePool(x, kernel_shape=steps, strides=steps)
    return _averaged_along(op, x, sizes)


def _averaged_along(op: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    for axis, size in enumerate(sizes, op.rank(x) - len(sizes)):
        if size is not None:
            x = _averaged(op, x, axis, size)
    return x


def _even_steps(op: Builder, x: Tensor, sizes: Sequence[int | None]) -> list[int] | None:
    """The size of the cells where all are of one."""
    lengths = op.shape(x)[-len(sizes) :]
    if any(s is not None and (n is None or n % s) for n, s in zip(lengths, sizes, strict=True)):
        return None
    return [1 if s is None or n is None else n // s for n, s in zip(lengths, sizes, strict=True)]


def _averaged(op: Builder, x: Tensor, axis: int, size: int) -> Tensor:
    means = _means(op, x, axis, size)
    last = op.rank(x) - 1
    if axis == last:
        return op.MatMul(x, means)
    perm = [last if i == axis else axis if i == last else i for i in range(last + 1)]
    return op.transpose(op.MatMul(op.transpose(x, perm), means), perm)


def _means(op: Builder, x: Tensor, axis: int, size: int) -> Value:
    """(length, size): the share that each element has in each cell."""
    length = op.dim(x, axis)
    if isinstance(length, int):
        known = np.zeros(room(length, size), op.dtype(x).numpy())
        for i, (start, stop) in enumerate(_cells(length, size)):
            known[start:stop, i] = 1 / (stop - start)
        return op.constant(known)
    starts, stops = _free_cells(op, length, size)
    places = op.Unsqueeze(counting(op, length), [1])
    inside = op.And(op.GreaterOrEqual(places, starts), op.Less(places, stops))
    dtype = op.dtype(x)
    return op.cast(inside, dtype) / op.cast(stops - starts, dtype)


def _free_cells(op: Builder, length: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Starts and ends of cells as in `_cells`, of a length known only at run time."""
    index, parts = counting(op, size), op.constant(size, np.int64)
    starts = index * length / parts
    return starts, ((index + 1) * length + (size - 1)) / parts


def _cells(length: int, size: int) -> list[tuple[int, int]]:
    """Starts and ends of `size` cells that share out `length` elements."""
    span(16 * size)  # numbers that are kept for each
    return [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def _adaptive_max(op: Builder, x: Tensor, sizes: Sequence[int | None]) -> tuple[Tensor, Tensor]:
    """The largest of every cell, and their places counted within a channel."""
    rank = len(sizes)
    steps = _even_steps(op, x, sizes)
    if steps is not None and op.rank(x) == rank + 2:
        return with_indices(op, x, steps, steps, (0,), (1,), False)
    lead, lengths = op.dims(x, stop=-rank), op.dims(x, -rank)
    known = [n for n in lengths if isinstance(n, int)]
    flat = op.reshape(x, [*lead, math.prod(known) if len(known) == rank else -1])
    if all(s == 1 for s in sizes):
        found = op.ReduceMax(flat, [-1], keepdims=0), op.ArgMax(flat, axis=-1, keepdims=0)
        value, place = (op.reshape(v, [*lead, *[1] * rank]) for v in found)
        return value, place
    counts = [n if s is None else s for n, s in zip(lengths, sizes, strict=True)]
    places = _places(op, lengths, sizes)
    cells = op.Gather(flat, places, axis=len(lead))
    value = op.ReduceMax(cells, [-1], keepdims=0)
    taken = op.ArgMax(cells, axis=-1, keepdims=1)
    grid = op.Expand(places, op.Shape(cells))
    place = op.Squeeze(op.GatherElements(grid, taken, axis=-1), [-1])
    return op.reshape(value, [*lead, *counts]), op.reshape(place, [*lead, *counts])


def _places(op: Builder, lengths: Sequence[int | Tensor], sizes: Sequence[int | None]) -> Tensor:
    """(cells, elements): the elements of every cell, the last one again where a cell has fewer."""
    known = [n for n in lengths if isinstance(n, int)]
    if len(known) == len(lengths):
        return op.constant(_known_places(known, sizes))
    flat = op.constant([[0]], np.int64)
    for length, size in zip(lengths, sizes, strict=True):
        along = op.Unsqueeze(_places_along(op, length, size), [0, 2])
        flat = op.Unsqueeze(flat, [1, 3]) * length + along
        cells = op.ReduceProd(op.Shape(flat, start=0, end=2), keepdims=1)
        flat = op.Reshape(flat, op.Concat(cells, [-1], axis=0))
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


def _places_along(op: Builder, length: int | Tensor, size: int | None) -> Tensor:
    """(cells, elements) of one axis."""
    if size is None:
        return op.Unsqueeze(counting(op, length), [1])
    if isinstance(length, int):
        return op.constant(_known_along(length, size), np.int64)
    starts, stops = (op.Unsqueeze(ends, [1]) for ends in _free_cells(op, length, size))
    widest = op.ReduceMax(stops - starts, keepdims=0)
    return op.Min(starts + counting(op, widest), stops - 1)
