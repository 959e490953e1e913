"""Primitives of the search for the next word."""

from __future__ import annotations

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.room import span
from pinnace.ops.mindspore.index import places
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value


@primitive("NoRepeatNGram")
def no_repeat_ngram(op: Builder, sequences: Tensor, scores: Tensor, *, ngram_size: int = 1) -> Value:
    """Equal of all stretches with the last one; ScatterElements, reduction min, of the words that follow."""
    length = op.static_shape(sequences)[-1]
    count = length - ngram_size + 1
    least = float(np.finfo(op.dtype(scores).numpy()).min)
    banned = op.Slice(sequences, [ngram_size - 1], [length], [-1])
    lowest = op.Expand(op.like(least, scores), op.Shape(banned))
    same = None
    for i in range(span(ngram_size - 1)):
        part = op.Slice(sequences, [i], [i + count], [-1])
        last = op.Slice(sequences, [count + i], [count + i + 1], [-1])
        equal = op.Equal(part, last)
        same = equal if same is None else op.And(same, equal)
    if same is not None:
        highest = op.like(float(np.finfo(op.dtype(scores).numpy()).max), scores)
        lowest = op.Where(same, lowest, highest)
    return op.ScatterElements(scores, places(op, banned), lowest, axis=-1, reduction="min")
