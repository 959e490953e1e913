"""NonMaxSuppression, Unique, RoiAlign and GridSample as primitives (see `rules`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.grid_sample import Sampling
from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import rule
from pinnace.converter.rules.int32 import from_int32
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor
from pinnace.program import Dialect

_MOST = 1 << 10
"""Pairs of a picture and a class that are written, each with a node of its own."""
_ALL_SCORES = -3.4e38
_INT64 = number_of(ir.DataType.INT64)
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


def NonMaxSuppression(
    op: Primitives,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    score: Tensor | None = None,
    center_point_box: int = 0,
) -> Tensor:
    """In MindSpore a primitive for each class of each picture, whose results are joined."""
    if op.lite:
        most = op.constant(0, np.int64) if most is None else most
        overlap = op.constant(0, np.float32) if overlap is None else overlap
        rest = [] if score is None else [score]
        found = op.NonMaxSuppression(boxes, scores, most, overlap, *rest, center_point_box=center_point_box)
        return from_int32(op, found, ir.DataType.INT64)
    pictures, classes, _ = op.static_shape(scores)
    if not 0 < pictures * classes <= _MOST:
        raise Unsupported(f"is of {pictures} x {classes} pictures and classes, and {_MOST} can be written")
    limits = [
        _scalar(op, most, 0, np.int32),
        _scalar(op, overlap, 0, np.float32),
        _scalar(op, score, _ALL_SCORES, np.float32),
    ]
    boxes = _corners(op, boxes) if center_point_box else boxes
    rows = []
    for picture in range(pictures):
        own = _at(op, boxes, picture)
        of_classes = _at(op, scores, picture)
        for kind in range(classes):
            kept = op.NonMaxSuppressionV3(own, _at(op, of_classes, kind), *limits)
            column = op.Cast(op.ExpandDims(kept, 1), _INT64)
            nothing = op.Mul(column, op.constant(0, np.int64))
            named = [op.Add(nothing, op.constant(n, np.int64)) for n in (picture, kind)]
            rows.append(op.Concat((*named, column), 1))
    return rows[0] if len(rows) == 1 else op.Concat(tuple(rows), 0)


def _at(op: Primitives, x: Tensor, place: int | Sequence[int], axis: int = 0) -> Tensor:
    return op.Gather(x, op.constant(place, np.int64), axis)


def _scalar(op: Primitives, x: Tensor | None, default: float, dtype: type) -> Tensor:
    if x is None or op.known(x) is not None:
        number = default if x is None else op.known(x).reshape(-1)[0]
        most = np.iinfo(np.int32).max if dtype is np.int32 else None
        return op.constant(number if most is None else np.clip(number, None, most), dtype)
    whole = op.Reshape(x, ())
    return op.Cast(whole, number_of(ir.DataType.INT32)) if dtype is np.int32 else whole


def _corners(op: Primitives, boxes: Tensor) -> Tensor:
    """Boxes by two corners (y, x, y, x) of those by center and size (x, y, width, height)."""
    x, y, width, height = (_at(op, boxes, [i], 2) for i in range(4))
    half = op.like(0.5, boxes)
    far = [op.Mul(size, half) for size in (height, width)]
    ends = [op.op(p, c, f) for p in ("Sub", "Add") for c, f in zip((y, x), far, strict=True)]
    return op.Concat(tuple(ends), 2)


@rule(Dialect.MINDSPORE)
def Unique(op: Primitives, x: Tensor, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, ...]:
    """The place of each element is the least of those that are equal to it."""
    count = math.prod(op.static_shape(x)) if axis is None else op.static_shape(x)[axis]
    if axis is None:
        y, inverse = op.ops("Unique", 2, op.Reshape(x, (-1,)))  # in the order in which they come
        inverse, sorted_by = op.Cast(inverse, _INT64), y if sorted else None
    else:
        y, inverse, _ = op.ops("UniqueDim", 3, x, True, True, axis)
    at = op.ExpandDims(inverse, -1)
    size = _at(op, op.TensorShape(y), [axis or 0])
    none, beyond = (op.DynamicBroadcastTo(op.constant([n], np.int64), size) for n in (0, count))
    first = op.TensorScatterMin(beyond, at, op.constant(np.arange(count), np.int64))
    counts = op.TensorScatterAdd(none, at, op.constant(np.ones(count), np.int64))
    if axis is not None:
        sorted_by = None if sorted else first
    if sorted_by is None:
        return y, first, inverse, counts
    _, order = op.ops("Sort", 2, sorted_by)
    _, rank = op.ops("Sort", 2, op.Cast(order, number_of(ir.DataType.FLOAT)))
    y, first, counts = (op.Gather(v, order, i) for v, i in ((y, axis or 0), (first, 0), (counts, 0)))
    return y, first, op.Cast(op.Gather(rank, inverse, 0), _INT64), counts


@rule(Dialect.MINDSPORE)
def RoiAlign(
    op: Primitives,
    x: Tensor,
    corners: Tensor,
    pictures: Tensor,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """ROIAlign, whose regions begin with the number of the picture.

    It has half a pixel's shift where the end of a region counts as inside, so that it reaches one further.
    """
    if mode != "avg" or sampling_ratio < 1:
        raise Unsupported(
            f"has mode {mode} and sampling_ratio {sampling_ratio}, and ROIAlign avg of 1 and more"
        )
    shifted, dtype = coordinate_transformation_mode == "half_pixel", op.dtype(corners)
    if shifted:
        half = 0.5 / spatial_scale
        corners = op.Sub(corners, op.constant([half, half, half + 1, half + 1], dtype.numpy()))
    number = op.Cast(op.Reshape(pictures, (-1, 1)), number_of(dtype))
    return op.ROIAlign(
        x,
        op.Concat((number, corners), 1),
        pooled_height=output_height,
        pooled_width=output_width,
        spatial_scale=spatial_scale,
        sample_num=sampling_ratio,
        roi_end_mode=int(shifted),
    )


@rule(Dialect.MINDSPORE)
def GridSample(op: Primitives, x: Tensor, grid: Tensor, *, given: Sampling) -> Tensor:
    # Between two elements, MindSpore's nearest is the one that is further from zero.
    if given.mode not in ("linear", "bilinear"):
        raise Unsupported(f"has mode {given.mode}, and GridSampler is written for linear")
    border = _BORDERS[given.padding_mode]
    return op.op(f"GridSampler{op.rank(x) - 2}D", x, grid, 0, border, bool(given.align_corners))
