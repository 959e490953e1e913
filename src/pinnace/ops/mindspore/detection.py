"""Ends of detection networks: suppression of boxes of several classes, and deformable attention."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.room import span
from pinnace.ops import binding
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value

_INT64 = ir.DataType.INT64


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
    """NonMaxSuppression of each class, TopK of what all of them keep, Gather."""
    batch, count, kinds, _ = op.static_shape(boxes)
    classes = op.static_shape(scores)[2]
    size = op.constant([count], np.int64)
    offered, each = _images(op, boxes, op.transpose(scores, (0, 2, 1)))
    per_class, total = [
        op.reshape(op.cast(t, ir.DataType.INT64), [1]) for t in (max_output_size_per_class, max_total_size)
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
    results = zip((found, best, op.cast(kind, ir.DataType.FLOAT)), masks, strict=True)
    kept = [_padded(op, op.Where(mask, t, 0.0), missing) for t, mask in results]
    return (*kept, op.ReduceSum(op.cast(there, ir.DataType.INT32), [1], keepdims=0))


def _images(op: Builder, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes (images, count, 4), scores (images, classes, count): a class with own boxes is an image."""
    batch, count, kinds, _ = op.static_shape(boxes)
    if kinds == 1:
        return op.reshape(boxes, [batch, count, 4]), scores
    images = batch * op.static_shape(scores)[1]
    offered = op.reshape(op.transpose(boxes, (0, 2, 1, 3)), [images, count, 4])
    return offered, op.reshape(scores, [images, 1, count])


def _padded(op: Builder, x: Tensor, missing: Tensor) -> Tensor:
    """Zeros after the rows of each image."""
    zeros = op.constant([0] * (op.rank(x) + 1), np.int64)
    after = op.constant([0] * (op.rank(x) - 2), np.int64)
    return op.Pad(x, op.Concat(zeros, missing, after, axis=0))


@primitive("MultiScaleDeformableAttn", unused="offset")
def multi_scale_deformable_attention(
    op: Builder, value: Tensor, shape: Value, offset: Value, locations: Tensor, weight: Tensor
) -> Value:
    """GridSample of each level, Mul by the weights, ReduceSum."""
    known = op.known(shape)
    if known is None:
        raise Unsupported("needs the sizes of the levels fixed")
    rows = (
        known
        if isinstance(known, np.ndarray)
        else [binding.ints(op, row) for row in binding.items(op, known)]
    )
    levels = np.asarray(rows, np.int64).reshape(-1, 2).tolist()
    batch, _, heads, width = op.static_shape(value)
    queries, points = op.dim(locations, 1), op.dim(locations, 4)
    grid = locations * 2.0 - 1.0
    start, total = 0, None
    for level, (height, across) in enumerate(levels):
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
