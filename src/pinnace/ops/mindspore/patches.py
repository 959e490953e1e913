"""Windows that slide over images, one Slice for each place in the window; pools whose windows vary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room, span
from pinnace.graph.windows import elements, reach, same_pads
from pinnace.ops import binding
from pinnace.ops.mindspore.array import counting, padded
from pinnace.ops.mindspore.conv import edges, layout_of, pad_mode_of, spatial
from pinnace.ops.mindspore.pool import with_indices
from pinnace.ops.table import Arguments, Ints, Tensor, primitive, primitives
from pinnace.ops.values import DOUBLE, INT64, Value
from pinnace.program import Layout


def _same_padded(
    op: Builder,
    x: Tensor,
    mode: str,
    kernel: Sequence[int],
    steps: Sequence[int],
    holes: Sequence[int],
    fill: float,
) -> Tensor:
    """An image with the padding of SAME or VALID."""
    word = pad_mode_of(mode)
    if word == "valid":
        return x
    if word != "same":
        raise Unsupported(f"has the padding {mode!r}, which is not supported")
    pads = same_pads(op.static_shape(x)[2:], reach(kernel, holes), steps, "SAME_UPPER")
    return padded(op, x, [(0, 0), (0, 0), *zip(pads[:2], pads[2:], strict=True)], "constant", fill)


@primitive("ExtractImagePatches")
def extract_image_patches(
    op: Builder, x: Tensor, ksizes: Ints, strides: Ints, rates: Ints, padding: str = "VALID"
) -> Value:
    kernel, steps, holes = (spatial(v, 2) for v in (ksizes, strides, rates))
    x = _same_padded(op, x, padding, kernel, steps, holes, 0.0)
    return op.Concat(*(part for _, part in elements(op, x, kernel, steps, holes)), axis=1)


@primitive("Dilation2D")
def dilation_2d(
    op: Builder,
    x: Tensor,
    filter: Tensor,
    stride: Ints,
    dilation: Ints,
    pad_mode: str = "SAME",
    data_format: Literal["NCHW"] = "NCHW",
) -> Value:
    """Slice for each place of the windows, plus its number of the filter; Max."""
    kernel, steps, holes = op.static_shape(filter)[1:], spatial(stride, 2), spatial(dilation, 2)
    x = _same_padded(op, x, pad_mode, kernel, steps, holes, -math.inf)
    parts = []
    for (row, column), part in elements(op, x, kernel, steps, holes):
        parts.append(part + op.Slice(filter, [row, column], [row + 1, column + 1], [1, 2]))
    return op.Max(*parts)


class _Columns(Arguments):
    """Size, dilation, padding and stride of a window that slides over images."""

    kernel_size: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)
    stride: Ints = (1,)


@primitives({"Im2Col": False, "Im2ColExt": True})
def im2col(op: Builder, flat: bool, x: Tensor, *, window: _Columns) -> Value:
    kernel, steps, holes = (spatial(v, 2) for v in (window.kernel_size, window.stride, window.dilation))
    before, after = edges(window.padding, 2)[:2], edges(window.padding, 2)[2:]
    for i, size in enumerate(op.shape(x)[2:]):
        # MindSpore rounds the number of windows towards zero, so that one may stick out; it is 0 there.
        reach = holes[i] * (kernel[i] - 1) + 1
        out = 0 if size is None else reach - before[i] - size - after[i]
        after[i] += out if 0 < out < steps[i] else 0
    image = padded(op, x, [(0, 0), (0, 0), *zip(before, after, strict=True)], "constant", 0.0)
    image = op.Unsqueeze(image, [2])
    found = op.Concat(*(part for _, part in elements(op, image, kernel, steps, holes)), axis=2)
    places = int(np.prod(kernel))
    batch, channels, height, width = (op.dim(found, i) for i in (0, 1, 3, 4))
    known = isinstance(height, int) and isinstance(width, int)
    count = height * width if known else op.tensor(height) * op.tensor(width)
    if not flat:
        return op.reshape(found, [batch, channels, places, count])
    if not isinstance(channels, int):
        raise Unsupported("needs the number of channels fixed")
    return op.reshape(found, [batch, channels * places, count])


@primitive("Col2Im", "Col2ImExt")
def col2im(op: Builder, x: Tensor, output_size: Ints, window: _Columns) -> Value:
    """Col2Im, after Reshape where the places of a window are a dimension of their own."""
    if op.rank(x) == 2:
        return op.Squeeze(_col2im(op, op.Unsqueeze(x, [0]), output_size, window), [0])
    if op.rank(x) == 4:
        batch, channels, places, count = (op.dim(x, i) for i in range(4))
        known = isinstance(channels, int) and isinstance(places, int)
        x = op.reshape(x, [batch, channels * places if known else -1, count])
    return _col2im(op, x, output_size, window)


def _col2im(op: Builder, x: Tensor, size: Ints, window: _Columns) -> Tensor:
    return op.Col2Im(
        x,
        list(size),
        spatial(window.kernel_size, 2),
        dilations=spatial(window.dilation, 2),
        pads=edges(window.padding, 2),
        strides=spatial(window.stride, 2),
    )


def _starts(op: Builder, sample: Tensor, length: int, window: int, count: int) -> Tensor:
    """The starts of `count` windows, (n, c, count), by a number between 0 and 1 for each channel."""
    if count == 1:
        return op.Expand(op.constant(length - window, np.int64), op.Shape(sample))
    # B. Graham, "Fractional Max-Pooling" (2014), section 2.1; the last window ends where the image does.
    step = op.like((length - window) / (count - 1), sample)
    numbers = np.arange(count - 1, dtype=op.dtype(sample).numpy())
    places = op.Floor((sample + numbers) * step)
    places = op.cast(places - op.Floor(sample * step), INT64)
    last = op.Expand(op.constant(length - window, np.int64), op.Shape(sample))
    return op.Concat(places, last, axis=-1)


@primitives({"FractionalMaxPoolWithFixedKsize": 2, "FractionalMaxPool3DWithFixedKsize": 3})
def fractional(
    op: Builder,
    rank: int,
    x: Tensor,
    samples: Tensor,
    *,
    ksize: Ints,
    output_shape: Ints,
    format: str = "NCHW",
) -> Value:
    if layout_of(format) is Layout.NHWC:
        raise Unsupported("has its channels last")
    kernel, sizes = spatial(ksize, rank), spatial(output_shape, rank)
    lengths = op.static_shape(x)[2:]
    lead = [op.dim(x, 0), op.dim(x, 1)]
    taken, total = x, op.constant(0, np.int64)
    for i, (length, k, count) in enumerate(zip(lengths, kernel, sizes, strict=True)):
        # The numbers come in the order of depth, height and width, those of images the other way round.
        own = i if rank == 3 else rank - 1 - i
        sample = op.Slice(samples, [own], [own + 1], [2])
        starts = op.Unsqueeze(_starts(op, sample, length, k, span(count)), [-1])
        places = op.reshape(starts + np.arange(k), [*lead, count * k])
        places = op.reshape(places, [*lead, *(-1 if j == i else 1 for j in range(rank))])
        stretched = [kernel[j] * sizes[j] if j <= i else lengths[j] for j in range(rank)]
        wide = op.Expand(places, op.vector([*lead, *stretched]))
        taken = op.GatherElements(taken, wide, axis=i + 2)
        total = total * length + places
    return _best(op, taken, total, lead, kernel, sizes)


def _best(
    op: Builder,
    taken: Tensor,
    places: Tensor,
    lead: Sequence[int | Tensor],
    kernel: Sequence[int],
    sizes: Sequence[int],
) -> Value:
    """The largest of each window, and its place."""
    rank = len(kernel)
    apart = [n for size, k in zip(sizes, kernel, strict=True) for n in (size, k)]
    order = [0, 1, *(2 + 2 * i for i in range(rank)), *(3 + 2 * i for i in range(rank))]
    rows = []
    for t in (taken, places):
        rows.append(op.reshape(op.transpose(op.reshape(t, [*lead, *apart]), order), [*lead, *sizes, -1]))
    place = op.ArgMax(rows[0], axis=-1, keepdims=1)
    best, found = (op.Squeeze(op.GatherElements(t, place, axis=-1), [-1]) for t in rows)
    return best, op.cast(found, op.result(found, 1))


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
