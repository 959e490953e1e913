"""Primitives of the search for the next word."""

from __future__ import annotations

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.room import span
from pinnace.ops.mindspore.index import places
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value


@primitive("NoRepeatNGram")
def no_repeat_ngram(b: Builder, sequences: Tensor, scores: Tensor, *, ngram_size: int = 1) -> Value:
    """Equal of all stretches with the last one; ScatterElements, reduction min, of the words that follow."""
    length = b.static_shape(sequences)[-1]
    count = length - ngram_size + 1
    least = float(np.finfo(b.dtype(scores).numpy()).min)
    banned = b.op("Slice", sequences, [ngram_size - 1], [length], [-1])
    lowest = b.op("Expand", b.like(least, scores), b.op("Shape", banned))
    same = None
    for i in range(span(ngram_size - 1)):
        part = b.op("Slice", sequences, [i], [i + count], [-1])
        last = b.op("Slice", sequences, [count + i], [count + i + 1], [-1])
        equal = b.op("Equal", part, last)
        same = equal if same is None else b.op("And", same, equal)
    if same is not None:
        highest = b.like(float(np.finfo(b.dtype(scores).numpy()).max), scores)
        lowest = b.op("Where", same, lowest, highest)
    return b.op("ScatterElements", scores, places(b, banned), lowest, axis=-1, reduction="min")
