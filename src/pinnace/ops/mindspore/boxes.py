"""Boxes in images: regions cut out, overlap, suppression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room, span
from pinnace.ops.mindspore.array import counting, repeated
from pinnace.ops.mindspore.math import trunc
from pinnace.ops.table import Floats, Ints, Pairs, Tensor, Tensors, primitive
from pinnace.ops.values import BOOL, FLOAT, INT32, INT64, UINT8, Value


@primitive("ROIAlign")
def roi_align(
    op: Builder,
    features: Tensor,
    rois: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sample_num: int = 2,
    roi_end_mode: Literal[0, 1] = 1,
) -> Value:
    number, corners = op.ops("Split", 2, rois, [1, 4], axis=1)
    where = "output_half_pixel"
    if roi_end_mode:
        # The end counts as inside, so a region reaches one further; and one below a pixel stays so small,
        # which ONNX has together with half a pixel's shift alone.
        where, half = "half_pixel", 0.5 / spatial_scale
        further = np.asarray([half, half, half + 1, half + 1], op.dtype(rois).numpy())
        corners = corners + op.constant(further)
    return op.RoiAlign(
        features,
        op.cast(corners, op.dtype(features)),
        op.cast(op.Squeeze(number, [1]), INT64),
        coordinate_transformation_mode=where,
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=sample_num,
        spatial_scale=spatial_scale,
    )


@primitive("CropAndResize")
def crop_and_resize(
    op: Builder,
    x: Tensor,
    boxes: Tensor,
    box_index: Tensor,
    crop_size: Ints,
    method: Literal["bilinear", "nearest", "bilinear_v2"] = "bilinear",
    extrapolation_value: float = 0.0,
) -> Value:
    images = op.transpose(op.cast(x, FLOAT), (0, 3, 1, 2))
    corners = op.ops("Split", 4, boxes, axis=1, num_outputs=4)
    spans = [(corners[i], corners[i + 2], op.dim(images, i + 2), crop_size[i]) for i in (0, 1)]
    positions = _at_pixels if method == "bilinear_v2" else _at_corners
    rows, columns = (positions(op, *span) for span in spans)
    rows, columns = op.Unsqueeze(rows, [2]), op.Unsqueeze(columns, [1])
    # (boxes, height, width): fractions of the image's width and height.
    one = op.constant(np.ones(room(1, *crop_size), np.float32))
    at = [columns, rows]
    if method == "nearest":
        at = [_rounded(op, v, op.dim(images, i)) for i, v in ((3, columns), (2, rows))]
    grid = op.Concat(*(op.Unsqueeze(v * one, [-1]) for v in at), axis=-1)
    taken = op.GridSample(
        op.Gather(images, box_index, axis=0),
        grid * 2.0 - 1.0,
        mode="nearest" if method == "nearest" else "linear",
        padding_mode="border",
        align_corners=1,
    )
    taken = op.transpose(taken, (0, 2, 3, 1))
    if method == "bilinear_v2":
        return taken
    inside = op.And(*(_inside(op, v, op.dim(images, i)) for i, v in ((2, rows), (3, columns))))
    return op.Where(op.Unsqueeze(inside, [-1]), taken, op.like(extrapolation_value, taken))


def _rounded(op: Builder, x: Tensor, length: Value) -> Value:
    """The nearest pixels, of two the later one, where GridSample takes the even one."""
    steps = op.Max(op.cast(op.tensor(length), FLOAT) - 1.0, 1.0)
    return op.Floor(x * steps + 0.5) / steps


def _at_corners(op: Builder, start: Tensor, stop: Tensor, length: Value, count: int) -> Value:
    """(boxes, count): evenly from start to stop, of one the middle; 0 and 1 are the image's ends."""
    steps = np.linspace(0, 1, span(count)) if count > 1 else np.asarray([0.5])
    return start + (stop - start) * steps[None].astype(np.float32)


def _at_pixels(op: Builder, start: Tensor, stop: Tensor, length: Value, count: int) -> Value:
    """(boxes, count): the middles of equal parts of the pixels from start's to stop's, both included."""
    pixels = op.cast(op.tensor(length), FLOAT)
    first, last = [trunc(op, v * pixels) for v in (start, stop)]
    ahead = op.Relu(last - first)
    middles = ((np.arange(count) + 0.5) / count)[None].astype(np.float32)
    places = first + op.Min(op.Relu((ahead + 1.0) * middles - 0.5), ahead)
    return places / op.Max(pixels - 1.0, 1.0)


def _inside(op: Builder, x: Tensor, length: Value) -> Tensor:
    """Of an image of one pixel all places are that of the pixel."""
    single = isinstance(length, Tensor) or length == 1
    x = x * op.cast(op.Greater(op.tensor(length), 1), op.dtype(x)) if single else x
    return op.And(op.GreaterOrEqual(x, 0.0), op.LessOrEqual(x, 1.0))


@primitive("BoundingBoxDecode")
def _bounding_box_decode(
    op: Builder,
    anchor_box: Tensor,
    deltas: Tensor,
    max_shape: Ints,
    means: Floats = (0.0, 0.0, 0.0, 0.0),
    stds: Floats = (1.0, 1.0, 1.0, 1.0),
    wh_ratio_clip: float = 0.016,
) -> Value:
    """Mul, Add, Exp, Clip: the box that lies so from its anchor, inside of the image."""
    center, size = _center_and_size(op, anchor_box)
    deltas = deltas * _row(op, deltas, stds) + _row(op, deltas, means)
    moved, grown = op.ops("Split", 2, deltas, axis=1, num_outputs=2)
    limit = abs(math.log(wh_ratio_clip)) if wh_ratio_clip > 0 else math.inf
    grown = op.Clip(grown, -limit, limit)
    center = center + size * moved
    half = (size * op.Exp(grown) - 1.0) * 0.5
    height, width = [size if size >= 0 else math.inf for size in max_shape[:2]]
    last = _row(op, deltas, (width, height))
    return op.Concat(
        *[op.Min(op.Max(corner, 0.0), last) for corner in (center - half, center + half)], axis=1
    )


@primitive("BoundingBoxEncode")
def _bounding_box_encode(
    op: Builder,
    anchor_box: Tensor,
    groundtruth_box: Tensor,
    means: Floats = (0.0, 0.0, 0.0, 0.0),
    stds: Floats = (1.0, 1.0, 1.0, 1.0),
) -> Value:
    center, size = _center_and_size(op, anchor_box)
    wanted, wanted_size = _center_and_size(op, groundtruth_box)
    moved = (wanted - center) / size
    grown = op.Log(wanted_size / size)
    deltas = op.Concat(moved, grown, axis=1)
    mean, std = [_row(op, anchor_box, numbers) for numbers in (means, stds)]
    return (deltas - mean) / std


@primitive("CheckValid")
def _check_valid(op: Builder, bboxes: Tensor, img_metas: Tensor) -> Value:
    height, width, ratio = op.ops("Split", 3, img_metas, axis=0, num_outputs=3)
    last = [side * ratio - 1 for side in (width, height)]
    x1, y1, x2, y2 = _sides(op, bboxes)
    zero = op.like(0, bboxes)
    inside = op.And(op.GreaterOrEqual(x1, zero), op.GreaterOrEqual(y1, zero))
    inside = op.And(inside, op.LessOrEqual(x2, last[0]))
    inside = op.And(inside, op.LessOrEqual(y2, last[1]))
    return op.Squeeze(inside, [1])


@primitive("IOU")
def _iou(op: Builder, anchor_boxes: Tensor, gt_boxes: Tensor, mode: Literal["iou", "iof"] = "iou") -> Value:
    x1, y1, x2, y2 = [op.Transpose(side, perm=[1, 0]) for side in _sides(op, anchor_boxes)]
    u1, v1, u2, v2 = _sides(op, gt_boxes)
    width, height = [
        op.Relu(v) for v in (op.Min(x2, u2) - op.Max(x1, u1) + 1.0, op.Min(y2, v2) - op.Max(y1, v1) + 1.0)
    ]
    common, area = width * height, (u2 - u1 + 1.0) * (v2 - v1 + 1.0)
    area = area + (x2 - x1 + 1.0) * (y2 - y1 + 1.0) - common if mode == "iou" else area
    return common / area


@primitive("NMSWithMask")
def _nms_with_mask(op: Builder, bboxes: Tensor, iou_threshold: float = 0.5) -> Value:
    wide = op.cast(bboxes, FLOAT)
    count = op.Shape(bboxes, start=0, end=1)
    scores = op.Slice(wide, [4], [5], [1])
    _, order = op.ops("TopK", 2, op.Squeeze(scores, [1]), count, axis=0)
    ranked = op.Gather(wide, order, axis=0)
    first, second, _ = op.ops("Split", 3, ranked, [2, 2, 1], axis=1)
    # A box whose second corner lies before the first overlaps none: ONNX would put the corners in order.
    corners = op.Concat(first, op.Max(first, second), axis=1)
    # The scores are those of a rank, so that those without an order of their own keep it.
    ranks = op.Range(op.scalar(count), op.constant(0, np.int64), op.constant(-1, np.int64))
    chosen = _suppressed(op, corners, op.cast(ranks, FLOAT), op.scalar(count), iou_threshold)
    nothing = op.Expand(op.constant(False), count)
    truth = op.Expand(op.constant(True), op.Shape(chosen))
    mask = op.ScatterElements(nothing, chosen, truth, axis=0)
    numbers = counting(op, op.scalar(count))
    return (op.cast(ranked, op.dtype(bboxes)), op.cast(numbers, INT32), mask)


@primitive("NonMaxSuppressionV3")
def _non_max_suppression_v3(
    op: Builder,
    boxes: Tensor,
    scores: Tensor,
    max_output_size: Tensor,
    iou_threshold: Tensor,
    score_threshold: Tensor,
) -> Value:
    boxes, scores = [op.cast(v, FLOAT) for v in (boxes, scores)]
    count = op.reshape(max_output_size, [1])
    return op.cast(_suppressed(op, boxes, scores, count, iou_threshold, score_threshold), INT32)


def _row(op: Builder, like: Tensor, numbers: Floats) -> Tensor:
    return op.constant(np.asarray([numbers], op.dtype(like).numpy()))


def _center_and_size(op: Builder, boxes: Tensor) -> Tensors:
    """(n, 2) each; a box of one pixel has the size 1."""
    start, stop = op.ops("Split", 2, boxes, axis=1, num_outputs=2)
    return (start + stop) * 0.5, stop - start + 1.0


def _sides(op: Builder, boxes: Tensor) -> Tensors:
    """Left, top, right and bottom of boxes (n, 4), each (n, 1)."""
    return op.ops("Split", 4, boxes, axis=1, num_outputs=4)


def _suppressed(op: Builder, boxes: Tensor, scores: Tensor, count: Tensor, *limits: Value) -> Tensor:
    """The numbers of the boxes that NonMaxSuppression leaves, best first."""
    limits_ = [op.cast(op.operand(v, scores), FLOAT) for v in limits]
    found = op.NonMaxSuppression(
        op.Unsqueeze(boxes, [0]),
        op.Unsqueeze(scores, [0, 1]),
        op.cast(count, INT64),
        *[op.reshape(v, [1]) for v in limits_],
    )
    return op.Squeeze(op.Slice(found, [2], [3], [1]), [1])


@primitive("NonMaxSuppressionWithOverlaps")
def non_max_suppression_with_overlaps(
    op: Builder,
    overlaps: Tensor,
    scores: Tensor,
    max_output_size: Tensor,
    overlap_threshold: Tensor,
    score_threshold: Tensor,
) -> Value:
    """TopK for the order; a Loop keeps each box unless a better one that is kept overlaps it."""
    count = op.Shape(scores)
    ranked, order = op.ops("TopK", 2, scores, count, axis=0)
    shown = op.Greater(ranked, op.cast(score_threshold, op.dtype(ranked)))
    ordered = op.Gather(op.Gather(overlaps, order, axis=0), order, axis=1)
    close = op.Greater(ordered, op.cast(overlap_threshold, op.dtype(ordered)))
    numbers = counting(op, op.scalar(count))

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        (kept,) = carried
        own = op.And(op.Equal(numbers, i), op.Gather(kept, i, axis=0))
        chosen = op.ReduceMax(op.cast(own, UINT8), keepdims=0)
        hidden = op.And(op.Gather(close, i, axis=1), op.Greater(numbers, i))
        hidden = op.And(hidden, op.cast(chosen, BOOL))
        return [op.And(kept, op.Not(hidden))]

    (kept,) = repeated(op, op.scalar(count), [shown], turn)
    chosen = op.Compress(order, kept, axis=0)
    limit = op.reshape(op.cast(max_output_size, INT64), [1])
    return op.cast(op.Slice(chosen, [0], limit, [0]), INT32)


@primitive("CombinedNonMaxSuppression")
def _combined_non_max_suppression(
    op: Builder,
    boxes: Tensor,
    scores: Tensor,
    max_output_size_per_class: Tensor,
    max_total_size: Tensor,
    iou_threshold: Tensor,
    score_threshold: Tensor,
    *,
    clip_boxes: bool = True,
    pad_per_class: bool = False,
) -> Value:
    batch, count, kinds, _ = op.static_shape(boxes)
    classes = op.static_shape(scores)[2]
    size = op.constant([count], np.int64)
    offered, each = _images(op, boxes, op.transpose(scores, (0, 2, 1)))
    per_class, total = [
        op.reshape(op.cast(t, INT64), [1]) for t in (max_output_size_per_class, max_total_size)
    ]
    limits = [op.reshape(t, [1]) for t in (iou_threshold, score_threshold)]
    chosen = op.NonMaxSuppression(offered, each, per_class, *limits)
    # The scores of what is kept, all else far below: (batch, classes * boxes).
    nothing = op.Expand(op.constant(-math.inf, np.float32), op.Shape(each))
    field = op.ScatterND(nothing, chosen, op.GatherND(each, chosen))
    field = op.reshape(field, [batch, classes * count])
    wanted = op.Min(total, per_class * classes) if pad_per_class else total
    offers = op.Min(wanted, classes * count)
    best, places = op.ops("TopK", 2, field, offers, axis=1, largest=1, sorted=1)
    there = op.Not(op.IsInf(best))
    kind, box = places / size, op.Mod(places, size)
    table = op.reshape(op.transpose(boxes, (0, 2, 1, 3)), [batch, kinds * count, 4])
    found = op.GatherND(table, op.Unsqueeze(places if kinds > 1 else box, [-1]), batch_dims=1)
    found = op.Clip(found, 0.0, 1.0) if clip_boxes else found
    missing = wanted - offers
    masks = op.Unsqueeze(there, [-1]), there, there
    results = zip((found, best, op.cast(kind, FLOAT)), masks, strict=True)
    kept = [_padded(op, op.Where(mask, t, 0.0), missing) for t, mask in results]
    return (*kept, op.ReduceSum(op.cast(there, INT32), [1], keepdims=0))


def _images(op: Builder, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes (images, count, 4), scores (images, classes, count): a class with own boxes is an image."""
    batch, count, kinds, _ = op.static_shape(boxes)
    if kinds == 1:
        return op.reshape(boxes, [batch, count, 4]), scores
    images = batch * op.static_shape(scores)[1]
    offered = op.reshape(op.transpose(boxes, (0, 2, 1, 3)), [images, count, 4])
    return offered, op.reshape(scores, [images, 1, count])


def _padded(op: Builder, x: Tensor, missing: Tensor) -> Tensor:
    zeros = op.constant([0] * (op.rank(x) + 1), np.int64)
    after = op.constant([0] * (op.rank(x) - 2), np.int64)
    return op.Pad(x, op.Concat(zeros, missing, after, axis=0))


@primitive("MultiScaleDeformableAttn", unused="offset")
def multi_scale_deformable_attention(
    op: Builder, value: Tensor, shape: Pairs, offset: Value, locations: Tensor, weight: Tensor
) -> Value:
    batch, _, heads, width = op.static_shape(value)
    queries, points = op.dim(locations, 1), op.dim(locations, 4)
    grid = locations * 2.0 - 1.0
    start, total = 0, None
    for level, (height, across) in enumerate(shape):
        span(height * across)
        end = start + height * across
        part = op.transpose(op.Slice(value, [start], [end], [1]), (0, 2, 3, 1))
        images = op.reshape(part, [batch * heads, width, height, across])
        at = op.constant(level, np.int64)
        places = op.transpose(op.Gather(grid, at, axis=3), (0, 2, 1, 3, 4))
        places = op.reshape(places, [batch * heads, queries, points, 2])
        sampled = op.GridSample(images, places, mode="linear", padding_mode="zeros", align_corners=0)
        factor = op.transpose(op.Gather(weight, at, axis=3), (0, 2, 1, 3))
        factor = op.reshape(factor, [batch * heads, 1, queries, points])
        here = op.ReduceSum(sampled * factor, [-1], keepdims=0)
        total = here if total is None else total + here
        start = end
    if total is None:
        raise Unsupported("has no levels")
    return op.transpose(op.reshape(total, [batch, heads * width, queries]), (0, 2, 1))
