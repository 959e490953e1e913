"""Windows of convolutions and pools over images, whose first two dimensions are batch and channels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported

_MOST_PLACES = 1 << 14
"""Places of a window, each of which is a node: 128 x 128."""
_END = int(np.iinfo(np.int64).max)


class Windows(NamedTuple):
    """The windows of a node, a number for each dimension of the image."""

    padding: str
    """The attribute `auto_pad`."""
    kernel: tuple[int, ...]
    """Their elements."""
    reach: tuple[int, ...]
    """Their sizes with the holes of dilations."""
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    """The attribute `pads`: all before the image, then all after it; zeros with any `auto_pad`."""

    @property
    def is_same(self) -> bool:
        """True if there is a window for each stride that begins in the image."""
        return self.padding.startswith("SAME")

    def padded(self, size: Sequence[int]) -> list[int]:
        """Return the padding of images of `size`: all before the image, then all after it."""
        if not self.is_same:
            return list(self.pads)
        return same_pads(size, self.reach, self.strides, self.padding)


def windows(b: Builder, node: ir.Node) -> Windows:
    """Return the windows of a Conv or pool. Raises Unsupported where their sizes are not known."""
    kernel = tuple(node.attributes.get_ints("kernel_shape", ()))
    if not kernel:
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        if weight is None:
            raise Unsupported("has no sizes of windows")
        kernel = b.static_shape(weight)[2:]
    count = len(kernel)
    padding = node.attributes.get_string("auto_pad", "NOTSET")
    none = [0] * 2 * count
    dilations = node.attributes.get_ints("dilations", [1] * count)
    strides = node.attributes.get_ints("strides", [1] * count)
    pads = node.attributes.get_ints("pads", none) if padding == "NOTSET" else none
    if not count == len(dilations) == len(strides) == len(pads) / 2:
        raise Unsupported("has windows of several ranks")
    return Windows(padding, kernel, reach(kernel, dilations), tuple(strides), tuple(pads))


def reach(kernel: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of windows with their holes."""
    return tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))


def same_pads(size: Sequence[int], reach: Sequence[int], strides: Sequence[int], padding: str) -> list[int]:
    """Return the padding for a window at each stride that begins in the image, as SAME wants it."""
    along = zip(size, reach, strides, strict=True)
    return shared([max((-(-n // s) - 1) * s + r - n, 0) for n, r, s in along], padding)


def elements(
    b: Builder, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[list[int], ir.Value]]:
    """Yield the places in a window over the last dimensions, each with the elements there of all windows."""
    if math.prod(kernel) > _MOST_PLACES:
        raise Unsupported(f"has windows of {list(kernel)}, and {_MOST_PLACES} places are the most")
    axes = list(range(-len(kernel), 0))
    for place in map(list, np.ndindex(*kernel)):
        starts = [p * d for p, d in zip(place, dilations, strict=True)]
        # Counted from the end of the image, which may be free.
        ends = [start - (k - 1) * d or _END for start, k, d in zip(starts, kernel, dilations, strict=True)]
        yield place, b.op("Slice", x, starts, ends, axes, list(strides))


def overhang(length: int, reach: int, stride: int, before: int, after: int) -> int:
    """Return how far windows reach beyond the padding of one dimension, where their number is rounded up."""
    inside = length + before + after
    count = -(-(inside - reach) // stride) + 1
    count -= (count - 1) * stride >= length + before  # a window that begins in the padding is left out
    return max(0, (count - 1) * stride + reach - inside)


def shared(sums: Sequence[int], padding: str) -> list[int]:
    """Return halves of elements before each dimension, then after each; SAME_UPPER has an odd one behind."""
    less, more = [n // 2 for n in sums], [n - n // 2 for n in sums]
    return less + more if padding == "SAME_UPPER" else more + less
