"""Counts of elements: histograms and the like."""

from __future__ import annotations

from pinnace.ops.formulas import formulas, functions

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
    ConfusionMatrix; dtype: labels, predictions, weights = None, *, num_classes: int ->
        # ScatterND, reduction add, into zeros.
        columns = [Unsqueeze(cast(t, INT64), [-1]) for t in (labels, predictions)]
        each = Expand(constant(1, np.int32), Shape(labels)) if weights is None else weights
        zeros = constant(np.zeros(room(num_classes, num_classes), dtype(each).numpy()))
        as_result(ScatterND(zeros, Concat(*columns, axis=-1), each, reduction="add"))
    Histogram HistcExt: x, *, bins: int = 100, min: float = 0.0, max: float = 0.0 ->
        # The bin of each element by Floor, and ScatterElements, reduction add, of those inside.
        histogram(x, bins, min, max)
    HistogramFixedWidth; dtype: x, value_range: Floats, nbins: int ->
        # As Histogram; what lies outside counts in the outermost bins.
        low, high = value_range
        flat = cast(reshape(x, [-1]), DOUBLE)
        inside = Clip(flat, low, high)
        histogram(inside, nbins, low, high)
    """,
)


functions(
    __name__,
    """
    histogram: x, bins, least, most ->
        # Between two bounds, or between the least and the greatest element where they are the same.
        flat, whole = cast(reshape(x, [-1]), FLOAT), least == most
        low = reduce("ReduceMin", flat, None) if whole else like(least, flat)
        high = reduce("ReduceMax", flat, None) if whole else like(most, flat)
        equal = cast(low == high, FLOAT) if whole else None
        low, high = (low - equal, high + equal) if whole else (low, high)
        inside = (flat >= low) & (flat <= high)
        number = cast(Floor((flat - low) / (high - low) * bins), INT64)
        number = Clip(number, constant(0, np.int64), constant(bins - 1, np.int64))
        zeros = constant(np.zeros(room(bins), np.int64))
        as_result(ScatterElements(zeros, number, cast(inside, INT64), axis=0, reduction="add"))
    summed: size, places, values ->
        # The sum of the values of each place.
        zeros = Expand(like(0, values), size)
        ScatterElements(zeros, places, values, axis=0, reduction="add")
    """,
)
