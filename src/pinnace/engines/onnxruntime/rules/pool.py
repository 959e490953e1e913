"""Average pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.matching import is_float32
from pinnace.graph.windows import windows
from pinnace.machine.processor import block_of_channels

_MAX_WINDOW = 49
"""Elements of a window up to which a convolution is faster."""


def average_pool(b: Builder, node: ir.Node) -> ir.Value | None:
    """AveragePool of images whose channels are no multiple of a block -> depthwise Conv.

    From operator set 19 on onnxruntime (seen in 1.31) processes such images element by element; the Conv is 4
    to 12 times as fast. If windows overlap the edge and padding does not count, the sums are divided by the
    number of elements inside.
    """
    x = node.inputs[0]
    over = windows(b, node)
    kernel, strides = over.kernel, over.strides
    plain = node.attributes.get_int("ceil_mode", 0) == 0 and "dilations" not in node.attributes
    if x is None or len(kernel) != 2 or math.prod(kernel) > _MAX_WINDOW or not plain or not is_float32(b, x):
        return None
    _, channels, *size = b.static_shape(x)
    if channels % block_of_channels() == 0:
        return None
    pads = over.padded(size)
    along = zip(size, kernel, strides, pads[:2], pads[2:], strict=True)
    if not all(
        max(p, q) < k <= n + p + q and (not over.is_same or (n - 1) // s * s + k >= n)
        for n, k, s, p, q in along
    ):
        return None  # the engine refuses it, or lets windows start inside the image
    window = math.prod(kernel)
    whole = not any(pads) or node.attributes.get_int("count_include_pad", 0) == 1
    weight = b.constant(np.full((channels, 1, *kernel), 1 / window if whole else 1, np.float32))
    y = b.op("Conv", x, weight, group=channels, kernel_shape=kernel, strides=strides, pads=pads)
    return y if whole else b.op("Mul", y, 1 / _counts(size, kernel, strides, pads))


def _counts(
    size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Return (1, 1, rows, columns): the number of elements of each window inside the image."""
    along = []
    for n, k, s, before, after in zip(size, kernel, strides, pads[:2], pads[2:], strict=True):
        starts = np.arange((n + before + after - k) // s + 1) * s - before
        along.append(np.minimum(starts + k, n) - np.maximum(starts, 0))
    return np.outer(*along).astype(np.float32)[None, None]
