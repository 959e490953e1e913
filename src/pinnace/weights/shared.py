"""Weights of this process by content, so that models with equal tensors hold them once."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from pinnace.types import Array

_known: WeakValueDictionary[tuple[str, tuple[int, ...], str], Array] = WeakValueDictionary()
_lock = threading.Lock()


def shared(digest: str, array: Array) -> Array:
    """Return an array with these bytes that a model of this process holds already, else `array`.

    `digest` is that of the bytes (`weights.digest`). Arrays are forgotten with the last model that holds
    them.
    """
    key = (digest, array.shape, array.dtype.str)
    with _lock:
        return _known.setdefault(key, array)
