"""NonMaxSuppression, Unique, DeformConv, RoiAlign and MaxPool with places: functions of `mindspore`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported

_Ints = tuple[int, ...]
_MOST = 1 << 10
"""Pairs of a picture and a class that are written, each with a node of its own."""
_ALL_SCORES = -3.4e38
_INT64 = ir.DataType.INT64


@function
def suppressed_of_all(
    b: Primitives,
    boxes: ir.Value,
    scores: ir.Value,
    most: ir.Value | None,
    overlap: ir.Value | None,
    score: ir.Value | None,
    centers: bool,
) -> ir.Value:
    """A NonMaxSuppression: a primitive for each class of each picture, whose results are joined."""
    pictures, classes, _ = b.static_shape(scores)
    if not 0 < pictures * classes <= _MOST:
        raise Unsupported(f"is of {pictures} x {classes} pictures and classes, and {_MOST} can be written")
    limits = [
        _scalar(b, x, default, dtype)
        for x, default, dtype in (
            (most, 0, np.int32),
            (overlap, 0, np.float32),
            (score, _ALL_SCORES, np.float32),
        )
    ]
    boxes = _corners(b, boxes) if centers else boxes
    rows = []
    for picture in range(pictures):
        own = b.op("Gather", boxes, b.constant(picture, np.int64), 0)
        of_classes = b.op("Gather", scores, b.constant(picture, np.int64), 0)
        for kind in range(classes):
            one = b.op("Gather", of_classes, b.constant(kind, np.int64), 0)
            kept = b.op("NonMaxSuppressionV3", own, one, *limits)
            column = b.op("Cast", b.op("ExpandDims", kept, 1), number_of(_INT64))
            nothing = b.op("Mul", column, b.constant(0, np.int64))
            named = [b.op("Add", nothing, b.constant(n, np.int64)) for n in (picture, kind)]
            rows.append(_joined(b, (*named, column), 1))
    return rows[0] if len(rows) == 1 else _joined(b, rows, 0)


def _joined(b: Primitives, parts: Any, axis: int) -> ir.Value:
    return b.op("Concat", tuple(parts), axis)


def _scalar(b: Primitives, x: ir.Value | None, default: float, dtype: type) -> ir.Value:
    if x is None or b.known(x) is not None:
        number = default if x is None else b.known(x).reshape(-1)[0]
        return b.constant(
            np.clip(number, None, np.iinfo(np.int32).max) if dtype is np.int32 else number, dtype
        )
    whole = b.op("Reshape", x, ())
    return b.op("Cast", whole, number_of(ir.DataType.INT32)) if dtype is np.int32 else whole


def _corners(b: Primitives, boxes: ir.Value) -> ir.Value:
    """Boxes by two corners (y, x, y, x) of those by center and size (x, y, width, height)."""
    x, y, width, height = (b.op("Gather", boxes, b.constant([i], np.int64), 2) for i in range(4))
    half = b.like(0.5, boxes)
    far = [b.op("Mul", size, half) for size in (height, width)]
    ends = [b.op(p, c, f) for p in ("Sub", "Add") for c, f in zip((y, x), far, strict=True)]
    return _joined(b, ends, 2)


@function
def told_apart(b: Primitives, x: ir.Value, axis: int | None, in_order: bool) -> tuple[ir.Value, ...]:
    """A Unique; the place of each element is the least of those that are equal to it."""
    count = math.prod(b.static_shape(x)) if axis is None else b.static_shape(x)[axis]
    if axis is None:
        y, inverse = b.ops("Unique", 2, b.op("Reshape", x, (-1,)))  # in the order in which they come
        inverse, sorted_by = b.op("Cast", inverse, number_of(_INT64)), None if in_order else y
    else:
        y, inverse, _ = b.ops("UniqueDim", 3, x, True, True, axis)
    at = b.op("ExpandDims", inverse, -1)
    size = b.op("Gather", b.op("TensorShape", y), b.constant([axis or 0], np.int64), 0)
    none, beyond = (b.op("DynamicBroadcastTo", b.constant([n], np.int64), size) for n in (0, count))
    first = b.op("TensorScatterMin", beyond, at, b.constant(np.arange(count), np.int64))
    counts = b.op("TensorScatterAdd", none, at, b.constant(np.ones(count), np.int64))
    if axis is not None:
        sorted_by = first if in_order else None
    if sorted_by is None:
        return y, first, inverse, counts
    _, order = b.ops("Sort", 2, sorted_by)
    _, rank = b.ops("Sort", 2, b.op("Cast", order, number_of(ir.DataType.FLOAT)))
    y, first, counts = (b.op("Gather", v, order, i) for v, i in ((y, axis or 0), (first, 0), (counts, 0)))
    return y, first, b.op("Cast", b.op("Gather", rank, inverse, 0), number_of(_INT64)), counts


@function
def bent(
    b: Primitives,
    x: ir.Value,
    offset: ir.Value,
    mask: ir.Value | None,
    kernel: _Ints,
    dilations: _Ints,
    groups: int,
    pads: _Ints,
    strides: _Ints,
) -> ir.Value:
    """The elements of an image at the places of a kernel and their offsets, as one image."""
    batch, _, rows, columns = b.static_shape(offset)
    count = groups * math.prod(kernel)
    pairs = b.op("Reshape", offset, (batch, count, 2, rows, columns))
    down, right = (b.op("Gather", pairs, b.constant(i, np.int64), 2) for i in (0, 1))
    if mask is None:
        mask = b.constant(np.ones((batch, count, rows, columns)), b.dtype(x).numpy())
    top, left, bottom, end = pads
    return b.op(
        "DeformableOffsets",
        x,
        _joined(b, (right, down, mask), 1),
        strides=(1, 1, *strides),
        pads=(top, bottom, left, end),
        ksize=kernel,
        dilations=(1, 1, *dilations),
        deformable_groups=groups,
    )


@function
def pooled_with_places(
    b: Primitives, x: ir.Value, kernel: _Ints, ceil_mode: bool, sizes: Sequence[_Ints], by_columns: bool
) -> tuple[ir.Value, ir.Value]:
    """A MaxPool, and where in the whole tensor each element comes from."""
    dilations, pads, strides = sizes
    batch, channels, height, width = b.static_shape(x)
    if pads[:2] != pads[2:] or any(2 * p > k for p, k in zip(pads, kernel, strict=False)):
        raise Unsupported(
            f"pads by {pads}, and MindSpore's MaxPoolWithArgmaxV2 the same on both sides, at most half a window"
        )
    shape: dict[str, Any] = {"kernel_size": (1, 1, *kernel), "strides": (1, 1, *strides)}
    shape |= {"pads": (1, 1, *pads[:2]), "dilation": (1, 1, *dilations)}
    y, at = b.ops("MaxPoolWithArgmaxV2", 2, x, ceil_mode=ceil_mode, argmax_type=number_of(_INT64), **shape)
    if by_columns:
        size = b.constant(width, np.int64)
        at = b.op(
            "Add",
            b.op("Mul", b.op("FloorMod", at, size), b.constant(height, np.int64)),
            b.op("FloorDiv", at, size),
        )
    first = np.arange(batch * channels).reshape(batch, channels, 1, 1) * height * width
    return y, b.op("Add", at, b.constant(first, np.int64))


@function
def regions(
    b: Primitives, corners: ir.Value, pictures: ir.Value, shifted: bool, spatial_scale: float
) -> ir.Value:
    """The regions of a RoiAlign with the number of the picture, as ROIAlign takes them.

    ROIAlign has half a pixel's shift where the end of a region counts as inside, so that it reaches one further.
    """
    dtype = b.dtype(corners)
    if shifted:
        half = 0.5 / spatial_scale
        corners = b.op("Sub", corners, b.constant([half, half, half + 1, half + 1], dtype.numpy()))
    number = b.op("Cast", b.op("Reshape", pictures, (-1, 1)), number_of(dtype))
    return _joined(b, (number, corners), 1)
