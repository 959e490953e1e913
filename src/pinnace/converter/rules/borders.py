"""Padding in MindSpore's own dialect, as MindSpore Lite 2.0 reads it, too: functions of `mindspore`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import shapes, windows
from pinnace.ops.formulas import function

_MOST = 1 << 18
"""Elements of a border that a file holds: one megabyte."""


@function
def with_border(b: Primitives, x: ir.Value, both: Sequence[int], filler: ir.Value) -> ir.Value:
    """A Pad with another number than zero: zeros, and a sum; MindSpore Lite 2.0 leaves PadV3 out in silence."""
    dims, number = b.shape(x), b.known(filler)
    sides = tuple((int(n), int(m)) for n, m in zip(both[: len(dims)], both[len(dims) :], strict=True))
    inside = [n if any(pair) else 1 for n, pair in zip(dims, sides, strict=True)]
    sizes = [n + sum(pair) for n, pair in zip(inside, sides, strict=True) if n is not None]
    floats = b.dtype(x).is_floating_point()
    if number is None or not floats or len(sizes) < len(dims) or math.prod(sizes) > _MOST:
        return b.op("PadV3", x, shapes.last_first(b, both), filler)
    border = np.pad(np.zeros([n or 0 for n in inside]), sides, constant_values=number.item())
    return b.op("Add", b.op("Pad", x, paddings=sides), b.constant(border, b.dtype(x).numpy()))


@function
def is_same(
    b: Primitives, x: ir.Value, kernel: Sequence[int], pads: Sequence[int], strides: Sequence[int]
) -> bool:
    """True for the padding of SAME_UPPER, which MindSpore's MaxPool computes itself."""
    if not any(pads) or None in b.shape(x)[2:]:
        return False
    unit = (1,) * len(kernel)
    return windows.explicit(b, x, tuple(kernel), "SAME_UPPER", unit, (), tuple(strides)) == tuple(pads)
