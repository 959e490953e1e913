"""MindSpore Lite: images resized and rearranged, in the layout of the model, and what detectors end with."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.lite.math import lite, lites
from pinnace.ops.mindspore import boxes as mindspore
from pinnace.ops.mindspore import image
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Floats, Ints, Lowering, Pairs, Tensor
from pinnace.ops.values import FLOAT, INT64, Value
from pinnace.program import Layout


@lites({"DepthToSpace": "DepthToSpace", "SpaceToDepth": "SpaceToDepth"}, unused="format")
def _depth_to_space(op: Builder, op_type: str, x: Tensor, block_size: int, mode: str = "") -> Value:
    y = op.op(op_type, channels_first(op, x), blocksize=block_size, mode=mode or None)
    return channels_back(op, y, x)


@lite("Resize", unused="format extrapolation_value")
def _resize(
    op: Builder,
    x: Tensor,
    target: Tensor | None = None,
    new_height: int = 0,
    new_width: int = 0,
    method: Annotated[str, _METHODS] = "linear",
    coordinate_transform_mode: Annotated[str, _COORDINATES] = "asymmetric",
    nearest_mode: int = 0,
    cubic_coeff: float = -0.75,
    exclude_outside: int = 0,
) -> Value:
    """Resize; target holds factors (floats) or sizes (ints) for height and width."""
    wanted = op.constant((new_height, new_width), np.int64) if target is None else target
    if op.static_shape(wanted) != (2,):
        raise Unsupported(f"has a target of shape {op.shape(wanted)}, and height and width are expected")
    factors, sizes = (wanted, None) if is_float(op, wanted) else (None, op.cast(wanted, INT64))
    # Rounding as usual is what MindSpore Lite does between aligned corners, and cutting off elsewhere.
    usual = "round_prefer_ceil" if coordinate_transform_mode == "align_corners" else "floor"
    y = op.Resize(
        channels_first(op, x),
        None,
        factors,
        sizes,
        axes=[2, 3],
        mode=method,
        coordinate_transformation_mode=coordinate_transform_mode,
        nearest_mode=_NEAREST.get(nearest_mode, usual) if method == "nearest" else None,
        cubic_coeff_a=cubic_coeff if method == "cubic" else None,
        exclude_outside=exclude_outside or None,
    )
    return channels_back(op, y, x)


_METHODS = {0: "linear", 1: "nearest", 2: "cubic"}
_COORDINATES = {0: "asymmetric", 1: "align_corners", 2: "half_pixel"}
_NEAREST = {1: "round_prefer_floor", 2: "round_prefer_ceil", 3: "floor", 4: "ceil"}


@lites(
    {"SpaceToBatch SpaceToBatchND": image.space_to_batch, "BatchToSpace BatchToSpaceND": image.batch_to_space}
)
def blocks(
    op: Builder,
    plain: Lowering,
    x: Tensor,
    *,
    block_size: Ints = (),
    block_shape: Ints = (),
    paddings: Pairs = (),
    crops: Pairs = (),
) -> Value:
    return channels_back(
        op, plain(op, channels_first(op, x), block_size or block_shape, paddings or crops), x
    )


@lite("PriorBox")
def prior_box(
    op: Builder,
    feature: Tensor,
    image: Tensor,
    *,
    min_sizes: Ints = (),
    max_sizes: Ints = (),
    aspect_ratios: Floats = (),
    variances: Floats = (),
    image_size_w: int = 0,
    image_size_h: int = 0,
    step_w: float = 0.0,
    step_h: float = 0.0,
    clip: bool = False,
    flip: bool = True,
    offset: float = 0.5,
) -> Value:
    """A constant: corners of boxes around each place of the feature map, and their variances."""
    rows, columns = _height_width(op, feature)
    seen_height, seen_width = _height_width(op, image)
    height = rows * step_h if step_h else image_size_h or seen_height
    width = columns * step_w if step_w else image_size_w or seen_width
    sizes = _prior_sizes(min_sizes, max_sizes, aspect_ratios, flip)
    room(rows, columns, len(sizes), 4)
    half = np.array(sizes, np.float64) / 2
    x = (np.arange(columns) + offset) * (width / columns)
    y = (np.arange(rows) + offset) * (height / rows)
    center = np.stack(np.broadcast_arrays(x[None, :, None], y[:, None, None]), -1)
    scale = np.array([width, height])
    corners = np.concatenate([(center - half) / scale, (center + half) / scale], -1).reshape(-1)
    corners = corners.clip(0, 1) if clip else corners
    tiled = np.resize(np.array(variances or (0.1,), np.float64), corners.shape)
    dims = (1, 2, -1, 1) if op.layout is Layout.NCHW else (1, -1, 1, 2)  # the same order of numbers in either
    return op.constant(np.stack([corners, tiled]).reshape(dims), np.float32)


def _prior_sizes(
    min_sizes: Ints, max_sizes: Ints, aspect_ratios: Floats, flip: bool
) -> list[tuple[float, float]]:
    ratios = [1.0]
    for ratio in aspect_ratios:
        for one in (ratio, 1 / ratio) if flip else (ratio,):
            if all(abs(one - r) >= 1e-6 for r in ratios):
                ratios.append(one)
    sizes: list[tuple[float, float]] = []
    for i, least in enumerate(min_sizes):
        sizes.append((least, least))
        if max_sizes:
            sizes.append((math.sqrt(least * max_sizes[i]),) * 2)
        sizes += [(least * math.sqrt(r), least / math.sqrt(r)) for r in ratios if abs(r - 1) >= 1e-6]
    return sizes


def _height_width(op: Builder, x: Tensor) -> tuple[int, int]:
    shape = op.static_shape(x)
    height, width = shape[2:4] if op.layout is Layout.NCHW else shape[1:3]
    return height, width


@lite("ROIPooling")
def _roi_pooling(op: Builder, x: Tensor, rois: Tensor, pooled_h: int, pooled_w: int, scale: float) -> Value:
    """MaxRoiPool; regions are image, y, x, y, x."""
    picture = channels_first(op, x)
    turned = op.Gather(rois, np.array([0, 2, 1, 4, 3]), axis=1)
    pooled = op.MaxRoiPool(picture, turned, pooled_shape=[pooled_h, pooled_w], spatial_scale=scale)
    return channels_back(op, pooled, x)


class _Limits(NamedTuple):
    overlap: float
    score: float
    classes: int
    shown: int


@lite("DetectionPostProcess", unused="format input_size")
def detection_post_process(
    op: Builder,
    boxes: Tensor,
    scores: Tensor,
    anchors: Tensor,
    *,
    scale: Floats = (5.0, 5.0, 10.0, 10.0),
    nms_iou_threshold: float = 0.5,
    nms_score_threshold: float = 0.0,
    max_detections: int = 10,
    detections_per_class: int = 100,
    max_classes_per_detection: int = 1,
    num_classes: int = 1,
    use_regular_nms: bool = False,
) -> Value:
    """Boxes from anchors; NonMaxSuppression, of all classes or of each, and TopK of what it keeps."""
    if not use_regular_nms and max_classes_per_detection != 1:
        raise Unsupported(f"shows {max_classes_per_detection} classes of a box, but only 1 is supported")
    corners = _decoded(op, boxes, anchors, scale)
    columns = op.static_shape(scores)[2]
    # The first column is that of the background, where there is one.
    own = op.Slice(scores, [columns - num_classes], [columns], [2])
    limits = _Limits(nms_iou_threshold, nms_score_threshold, num_classes, max_detections)
    if use_regular_nms:
        label, box, score = _each_class(op, corners, own, limits, detections_per_class)
    else:
        label, box, score = _best_class(op, corners, own, limits)
    return _shown(op, corners, label, box, score, limits)


def _decoded(op: Builder, boxes: Tensor, anchors: Tensor, scale: Floats) -> Tensor:
    """Corners (y, x, y, x) of boxes that are given relative to anchors (y, x, height, width)."""
    y_x, size = (op.Slice(boxes, [i], [i + 2], [2]) for i in (0, 2))
    anchor_y_x, anchor_size = (op.Slice(op.Reshape(anchors, [1, -1, 4]), [i], [i + 2], [2]) for i in (0, 2))
    size_scale = np.asarray(scale[:2], np.float32)
    center_scale = np.asarray(scale[:1:-1], np.float32)  # x before y
    center = y_x / center_scale * anchor_size + anchor_y_x
    half = op.Exp(size / size_scale) * anchor_size * 0.5
    return op.Concat(center - half, center + half, axis=2)


Found = tuple[Tensor, Tensor, Tensor]
"""Class, box and score of each detection."""


def _best_class(op: Builder, corners: Tensor, scores: Tensor, limits: _Limits) -> Found:
    best = op.ReduceMax(scores, [2], keepdims=1)
    kept = _kept(op, corners, op.transpose(best, (0, 2, 1)), limits.shown, limits)
    box = op.Gather(kept, np.asarray(2), axis=1)
    label = op.Squeeze(op.ArgMax(scores, axis=2, keepdims=0), [0])
    score = op.Reshape(best, [-1])
    return op.Gather(label, box, axis=0), box, op.Gather(score, box, axis=0)


def _each_class(op: Builder, corners: Tensor, scores: Tensor, limits: _Limits, most: int) -> Found:
    turned = op.transpose(scores, (0, 2, 1))
    kept = _kept(op, corners, turned, most, limits)
    label, box = (op.Gather(kept, np.asarray(i), axis=1) for i in (1, 2))
    return label, box, op.GatherND(turned, kept)


def _kept(op: Builder, corners: Tensor, scores: Tensor, most: int, limits: _Limits) -> Tensor:
    overlap, score = (op.constant([limit], np.float32) for limit in (limits.overlap, limits.score))
    return op.NonMaxSuppression(corners, scores, [most], overlap, score)


def _shown(op: Builder, corners: Tensor, label: Tensor, box: Tensor, score: Tensor, limits: _Limits) -> Value:
    """The best detections and their number; zeros after them."""
    found = op.Shape(score)
    count = op.Min(found, op.constant([limits.shown], np.int64))
    best, order = op.ops("TopK", 2, score, count, axis=0)
    missing = op.constant([limits.shown], np.int64) - count
    pads = op.Concat(op.constant([0], np.int64), missing, axis=0)

    def filled(x: Tensor) -> Tensor:
        return op.Unsqueeze(op.Pad(x, pads, op.like(0, x), [0]), [0])

    places = op.Gather(op.Squeeze(corners, [0]), op.Gather(box, order, axis=0), axis=0)
    labels = op.cast(op.Gather(label, order, axis=0), FLOAT)
    return filled(places), filled(labels), filled(best), op.cast(count, FLOAT)


@lite("CropAndResize")
def crop_and_resize(
    op: Builder,
    x: Tensor,
    boxes: Tensor,
    box_index: Tensor,
    crop_size: Ints,
    extrapolation_value: float = 0.0,
) -> Value:
    return mindspore.crop_and_resize(
        op, x, boxes, box_index, crop_size, extrapolation_value=extrapolation_value
    )
