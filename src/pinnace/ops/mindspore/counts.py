"""Counts of elements: histograms and the like."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.room import room
from pinnace.ops.mindspore.reduce import as_result, reduce
from pinnace.ops.table import Floats, Tensor, primitive
from pinnace.ops.values import Value


@primitive("Bincount")
def _bincount(op: Builder, x: Tensor, size: Tensor, weights: Tensor) -> Value:
    """ScatterElements, reduction add, into zeros."""
    length = op.Reshape(op.cast(size, ir.DataType.INT64), [1])
    return _summed(op, length, op.cast(x, ir.DataType.INT64), weights)


@primitive("BincountExt")
def _bincount_ext(op: Builder, x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Value:
    """ScatterElements, reduction add, into zeros."""
    places = op.cast(x, ir.DataType.INT64)
    longest = reduce(op, "ReduceMax", places, None) + 1
    size = op.reshape(op.Max(longest, minlength), [1])
    each = op.Expand(op.constant(1, np.int64), op.Shape(places)) if weights is None else weights
    return _summed(op, size, places, each)


@primitive("ConfusionMatrix", unused="dtype")
def _confusion_matrix(
    op: Builder, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, *, num_classes: int
) -> Value:
    """ScatterND, reduction add, into zeros."""
    columns = [op.Unsqueeze(op.cast(t, ir.DataType.INT64), [-1]) for t in (labels, predictions)]
    each = op.Expand(op.constant(1, np.int32), op.Shape(labels)) if weights is None else weights
    zeros = op.constant(np.zeros(room(num_classes, num_classes), op.dtype(each).numpy()))
    return as_result(op, op.ScatterND(zeros, op.Concat(*columns, axis=-1), each, reduction="add"))


@primitive("Histogram", "HistcExt")
def _lower_histogram(op: Builder, x: Tensor, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Value:
    """The bin of each element by Floor, and ScatterElements, reduction add, of those inside."""
    return _histogram(op, x, bins, min, max)


@primitive("HistogramFixedWidth", unused="dtype")
def _histogram_fixed_width(op: Builder, x: Tensor, value_range: Floats, nbins: int) -> Value:
    """As Histogram; what lies outside counts in the outermost bins."""
    low, high = value_range
    flat = op.cast(op.reshape(x, [-1]), ir.DataType.DOUBLE)
    inside = op.Clip(flat, low, high)
    return _histogram(op, inside, nbins, low, high)


def _histogram(op: Builder, x: Tensor, bins: int, least: float, most: float) -> Tensor:
    """Between two bounds, or between the least and the greatest element where they are the same."""
    flat, whole = op.cast(op.reshape(x, [-1]), ir.DataType.FLOAT), least == most
    low = reduce(op, "ReduceMin", flat, None) if whole else op.like(least, flat)
    high = reduce(op, "ReduceMax", flat, None) if whole else op.like(most, flat)
    equal = op.cast(op.Equal(low, high), ir.DataType.FLOAT) if whole else None
    low, high = (low - equal, high + equal) if whole else (low, high)
    inside = op.And(op.GreaterOrEqual(flat, low), op.LessOrEqual(flat, high))
    number = op.cast(op.Floor((flat - low) / (high - low) * bins), ir.DataType.INT64)
    number = op.Clip(number, op.constant(0, np.int64), op.constant(bins - 1, np.int64))
    zeros = op.constant(np.zeros(room(bins), np.int64))
    return as_result(
        op, op.ScatterElements(zeros, number, op.cast(inside, ir.DataType.INT64), axis=0, reduction="add")
    )


def _summed(op: Builder, size: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """The sum of the values of each place."""
    zeros = op.Expand(op.like(0, values), size)
    return op.ScatterElements(zeros, places, values, axis=0, reduction="add")
