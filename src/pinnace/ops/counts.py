"""Counts of elements: histograms and the like."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.reduce import reduce
from pinnace.ops.room import room
from pinnace.ops.table import Floats, Tensor, primitive
from pinnace.ops.values import Value


@primitive("Bincount")
def bincount_of_size(b: Builder, x: Tensor, size: Tensor, weights: Tensor) -> Value:
    """ScatterElements, reduction add, into zeros."""
    length = b.op("Reshape", b.cast(size, ir.DataType.INT64), [1])
    return _summed(b, length, b.cast(x, ir.DataType.INT64), weights)


def _summed(b: Builder, size: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """The sum of the values of each place."""
    zeros = b.op("Expand", b.like(0, values), size)
    return b.op("ScatterElements", zeros, places, values, axis=0, reduction="add")


@primitive("BincountExt")
def bincount(b: Builder, x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Value:
    """ScatterElements, reduction add, into zeros."""
    places = b.cast(x, ir.DataType.INT64)
    longest = b.op("Add", reduce(b, "ReduceMax", places, None), 1)
    size = b.reshape(b.op("Max", longest, minlength), [1])
    each = b.op("Expand", b.constant(1, np.int64), b.op("Shape", places)) if weights is None else weights
    return _summed(b, size, places, each)


@primitive("Histogram", "HistcExt")
def histogram(b: Builder, x: Tensor, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Value:
    """The bin of each element by Floor, and ScatterElements, reduction add, of those inside."""
    flat = b.cast(b.reshape(x, [-1]), ir.DataType.FLOAT)
    if min == max:
        low, high = reduce(b, "ReduceMin", flat, None), reduce(b, "ReduceMax", flat, None)
        equal = b.cast(b.op("Equal", low, high), ir.DataType.FLOAT)
        low, high = b.op("Sub", low, equal), b.op("Add", high, equal)
    else:
        low, high = b.like(min, flat), b.like(max, flat)
    inside = b.op("And", b.op("GreaterOrEqual", flat, low), b.op("LessOrEqual", flat, high))
    part = b.op("Div", b.op("Sub", flat, low), b.op("Sub", high, low))
    number = b.cast(b.op("Floor", b.op("Mul", part, float(bins))), ir.DataType.INT64)
    number = b.op("Clip", number, b.constant(0, np.int64), b.constant(bins - 1, np.int64))
    zeros = b.constant(np.zeros(room(bins), np.int64))
    counted = b.cast(inside, ir.DataType.INT64)
    total = b.op("ScatterElements", zeros, number, counted, axis=0, reduction="add")
    return b.cast(total, b.result(total))


@primitive("HistogramFixedWidth", unused="dtype")
def histogram_fixed_width(b: Builder, x: Tensor, value_range: Floats, nbins: int) -> Value:
    """As Histogram; what lies outside counts in the outermost bins."""
    low, high = value_range
    flat = b.cast(b.reshape(x, [-1]), ir.DataType.DOUBLE)
    inside = b.op("Clip", flat, b.like(low, flat), b.like(high, flat))
    return histogram(b, inside, bins=nbins, min=low, max=high)


@primitive("ConfusionMatrix", unused="dtype")
def confusion_matrix(
    b: Builder, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, *, num_classes: int
) -> Value:
    """ScatterND, reduction add, into zeros."""
    columns = [b.op("Unsqueeze", b.cast(t, ir.DataType.INT64), [-1]) for t in (labels, predictions)]
    each = b.op("Expand", b.constant(1, np.int32), b.op("Shape", labels)) if weights is None else weights
    zeros = b.constant(np.zeros(room(num_classes, num_classes), b.dtype(each).numpy()))
    total = b.op("ScatterND", zeros, b.op("Concat", *columns, axis=-1), each, reduction="add")
    return b.cast(total, b.result(total))
