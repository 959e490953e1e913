"""Memory for results, used again once nobody has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from sys import getrefcount

import numpy as np

from pinnace.types import Array

_LEAST, _MOST = 1 << 16, 1 << 24
"""Bytes of arrays that are kept: smaller ones come from memory that the process has anyhow, larger ones would
take too much of it.
"""
_KEPT = 2
"""Arrays kept of a result: a caller often has the last one while the next one is computed."""


class Results:
    """Arrays for results of these shapes and dtypes; one thread at a time may ask for them.

    The system maps new memory page by page, which takes 2 ms for the 9.5 MB of a step of GPT-2 small.
    """

    def __init__(self, kinds: Sequence[tuple[tuple[int, ...], np.dtype[np.generic]]]) -> None:
        self._kinds = [(shape, dtype, _is_kept(shape, dtype)) for shape, dtype in kinds]
        self._kept: list[list[Array]] = [[] for _ in kinds]

    def new(self) -> list[Array]:
        """Return an array for each result, to which there is no other reference."""
        results = []
        for place, (shape, dtype, is_kept) in enumerate(self._kinds):
            results.append(self._one(self._kept[place], shape, dtype) if is_kept else np.empty(shape, dtype))
        return results

    def _one(self, kept: list[Array], shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        for place in range(len(kept)):
            if _references(kept, place) == _ALONE:
                return kept[place]
        kept.append(np.empty(shape, dtype))
        del kept[:-_KEPT]
        return kept[-1]


def _is_kept(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    return _LEAST <= math.prod(shape) * dtype.itemsize <= _MOST


def _references(arrays: list[Array], place: int) -> int:
    return getrefcount(arrays[place])


_ALONE = _references([np.empty(0)], 0)
"""References of an array that only the list has."""
