"""Windows that slide over images, one Slice for each place in the window; pools whose steps vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.conv import is_last, is_same, is_valid, spatial
from pinnace.ops.padding import padded
from pinnace.ops.room import span
from pinnace.ops.table import Ints, Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value

_INT64 = ir.DataType.INT64


_MOST_PLACES = 1 << 14
"""Places of a window, each of which is a node: 128 x 128."""


def _windows(
    b: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], holes: Sequence[int]
) -> Iterator[tuple[tuple[int, int], Tensor]]:
    """The elements in each place of all windows of images (n, c, h, w), as (n, c, down, across)."""
    height, width = b.static_shape(x)[2:]
    if kernel[0] * kernel[1] > _MOST_PLACES:
        raise Unsupported(f"has windows of {list(kernel)}, and {_MOST_PLACES} places are the most")
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            starts = [row * holes[0], column * holes[1]]
            ends = [
                length - (k - 1) * hole + start
                for length, k, hole, start in zip((height, width), kernel, holes, starts, strict=True)
            ]
            yield (row, column), b.op("Slice", x, starts, ends, [2, 3], list(steps))


def _same(
    b: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], holes: Sequence[int], filler: float
) -> Tensor:
    """Padded so that there is a window for each step."""
    pairs: list[tuple[int | Tensor, int | Tensor]] = [(0, 0), (0, 0)]
    for length, k, step, hole in zip(b.static_shape(x)[2:], kernel, steps, holes, strict=True):
        total = max((length - 1) // step * step + (k - 1) * hole + 1 - length, 0)
        pairs.append((total // 2, total - total // 2))
    return padded(b, x, pairs, "constant", filler)


@primitive("ExtractImagePatches")
def extract_image_patches(
    b: Builder, x: Tensor, ksizes: Ints, strides: Ints, rates: Ints, padding: str = "VALID"
) -> Value:
    """Slice for each place of the window, Concat."""
    kernel, steps, holes = (spatial(v, 2) for v in (ksizes, strides, rates))
    if is_same(padding):
        x = _same(b, x, kernel, steps, holes, 0.0)
    elif not is_valid(padding):
        raise Unsupported(f"pads by {padding!r}, which is not known")
    return b.op("Concat", *(part for _, part in _windows(b, x, kernel, steps, holes)), axis=1)


# -- pools whose steps vary ------------------------------------------------------------------------


def _starts(b: Builder, sample: Tensor, length: int, window: int, count: int) -> Tensor:
    """The starts of `count` windows, (n, c, count), by a number between 0 and 1 for each channel."""
    if count == 1:
        return b.op("Expand", b.constant(length - window, np.int64), b.op("Shape", sample))
    # B. Graham, "Fractional Max-Pooling" (2014), section 2.1; the last window ends where the image does.
    step = b.like((length - window) / (count - 1), sample)
    numbers = np.arange(count - 1, dtype=b.dtype(sample).numpy())
    places = b.op("Floor", b.op("Mul", b.op("Add", sample, numbers), step))
    places = b.cast(b.op("Sub", places, b.op("Floor", b.op("Mul", sample, step))), _INT64)
    last = b.op("Expand", b.constant(length - window, np.int64), b.op("Shape", sample))
    return b.op("Concat", places, last, axis=-1)


@primitives({"FractionalMaxPoolWithFixedKsize": 2, "FractionalMaxPool3DWithFixedKsize": 3})
def fractional(
    b: Builder,
    rank: int,
    x: Tensor,
    samples: Tensor,
    *,
    ksize: Ints,
    output_shape: Ints,
    format: str = "NCHW",
) -> Value:
    """GatherElements of each window's elements, and TopK."""
    if is_last(format):
        raise Unsupported("has its channels last")
    kernel, sizes = spatial(ksize, rank), spatial(output_shape, rank)
    lengths = b.static_shape(x)[2:]
    lead = [b.dim(x, 0), b.dim(x, 1)]
    taken, total = x, b.constant(0, np.int64)
    for i, (length, k, count) in enumerate(zip(lengths, kernel, sizes, strict=True)):
        # The numbers come in the order of depth, height and width, those of images the other way round.
        own = i if rank == 3 else rank - 1 - i
        sample = b.op("Slice", samples, [own], [own + 1], [2])
        starts = b.op("Unsqueeze", _starts(b, sample, length, k, span(count)), [-1])
        places = b.reshape(b.op("Add", starts, np.arange(k)), [*lead, count * k])
        places = b.reshape(places, [*lead, *(-1 if j == i else 1 for j in range(rank))])
        stretched = [kernel[j] * sizes[j] if j <= i else lengths[j] for j in range(rank)]
        wide = b.op("Expand", places, b.vector([*lead, *stretched]))
        taken = b.op("GatherElements", taken, wide, axis=i + 2)
        total = b.op("Add", b.op("Mul", total, length), places)
    return _best(b, taken, total, lead, kernel, sizes)


def _best(
    b: Builder,
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
        rows.append(b.reshape(b.transpose(b.reshape(t, [*lead, *apart]), order), [*lead, *sizes, -1]))
    place = b.op("ArgMax", rows[0], axis=-1, keepdims=1)
    best, found = (b.op("Squeeze", b.op("GatherElements", t, place, axis=-1), [-1]) for t in rows)
    return best, b.cast(found, b.result(found, 1))
