"""Windows that slide over images, one Slice for each place in the window; pools whose steps vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.room import span
from pinnace.ops.mindspore.array import END
from pinnace.ops.mindspore.conv import edges, is_last, is_same, is_valid, spatial
from pinnace.ops.mindspore.padding import padded
from pinnace.ops.table import INT64, Arguments, Ints, Tensor, primitive, primitives
from pinnace.ops.values import Value

_MOST_PLACES = 1 << 14
"""Places of a window, each of which is a node: 128 x 128."""


def _windows(
    op: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], holes: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """The elements in each place of all windows of images (..., h, w), as (..., down, across)."""
    if kernel[0] * kernel[1] > _MOST_PLACES:
        raise Unsupported(f"has windows of {list(kernel)}, and {_MOST_PLACES} places are the most")
    for place in np.ndindex(*kernel):
        starts = [int(p) * hole for p, hole in zip(place, holes, strict=True)]
        # Counted from the end of the image, which may be free.
        ends = [start - (k - 1) * hole or END for start, k, hole in zip(starts, kernel, holes, strict=True)]
        yield place, op.Slice(x, starts, ends, [-2, -1], list(steps))


def _same(
    op: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], holes: Sequence[int], filler: float
) -> Tensor:
    """Padded so that there is a window for each step."""
    pairs: list[tuple[int | Tensor, int | Tensor]] = [(0, 0), (0, 0)]
    for length, k, step, hole in zip(op.static_shape(x)[2:], kernel, steps, holes, strict=True):
        total = max((length - 1) // step * step + (k - 1) * hole + 1 - length, 0)
        pairs.append((total // 2, total - total // 2))
    return padded(op, x, pairs, "constant", filler)


@primitive("ExtractImagePatches")
def extract_image_patches(
    op: Builder, x: Tensor, ksizes: Ints, strides: Ints, rates: Ints, padding: str = "VALID"
) -> Value:
    kernel, steps, holes = (spatial(v, 2) for v in (ksizes, strides, rates))
    if is_same(padding):
        x = _same(op, x, kernel, steps, holes, 0.0)
    elif not is_valid(padding):
        raise Unsupported(f"has the padding {padding!r}, which is not supported")
    return op.Concat(*(part for _, part in _windows(op, x, kernel, steps, holes)), axis=1)


# -- windows as vectors ----------------------------------------------------------------------------


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
    found = op.Concat(*(part for _, part in _windows(op, image, kernel, steps, holes)), axis=2)
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


# -- pools whose steps vary ------------------------------------------------------------------------


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
    if is_last(format):
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
