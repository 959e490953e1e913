"""Counts of elements: histograms and the like."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.reduce import reduce
from pinnace.ops.room import room
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value

formulas(
    __name__,
    """
    Bincount: x, size, weights ->
        # ScatterElements, reduction add, into zeros.
        length = Reshape(cast(size, INT64), [1])
        summed(length, cast(x, INT64), weights)
    BincountExt: x, weights = None, minlength: int = 0 ->
        # ScatterElements, reduction add, into zeros.
        places = cast(x, INT64)
        longest = reduce("ReduceMax", places, None) + 1
        size = reshape(Max(longest, minlength), [1])
        each = Expand(constant(1, np.int64), Shape(places)) if weights is None else weights
        summed(size, places, each)
    HistogramFixedWidth; dtype: x, value_range: Floats, nbins: int ->
        # As Histogram; what lies outside counts in the outermost bins.
        low, high = value_range
        flat = cast(reshape(x, [-1]), DOUBLE)
        inside = Clip(flat, low, high)
        histogram(inside, bins=nbins, min=low, max=high)
    """,
)


functions(
    __name__,
    """
    summed: size, places, values ->
        # The sum of the values of each place.
        zeros = Expand(like(0, values), size)
        ScatterElements(zeros, places, values, axis=0, reduction="add")
    """,
)


@function
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
