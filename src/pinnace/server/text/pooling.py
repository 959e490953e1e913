"""Pooling: one row of numbers for a text, of those for its tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Floats = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Mask = np.ndarray[tuple[Any, ...], np.dtype[np.bool]]


def _first(tokens: Floats, mask: Mask) -> Floats:
    return _taken(tokens, mask.argmax(1))


def _last(tokens: Floats, mask: Mask) -> Floats:
    return _taken(tokens, mask.shape[1] - 1 - mask[:, ::-1].argmax(1))


def _taken(tokens: Floats, places: np.ndarray[Any, Any]) -> Floats:
    found: Floats = tokens[np.arange(len(tokens)), places]
    return found


def _max(tokens: Floats, mask: Mask) -> Floats:
    found: Floats = np.where(mask[:, :, None], tokens, -np.inf).max(1)
    return found


def _sum(tokens: Floats, mask: Mask) -> Floats:
    found: Floats = np.einsum("bth,bt->bh", tokens, mask.astype(tokens.dtype))
    return found


def _mean(tokens: Floats, mask: Mask) -> Floats:
    return _sum(tokens, mask) / _count(mask)


def _mean_sqrt(tokens: Floats, mask: Mask) -> Floats:
    return _sum(tokens, mask) / np.sqrt(_count(mask))


def _count(mask: Mask) -> Floats:
    found: Floats = mask.sum(1, dtype=np.float32, keepdims=True)
    return found


MODES: dict[str, Callable[[Floats, Mask], Floats]] = {
    "cls": _first, "max": _max, "mean": _mean, "mean_sqrt_len_tokens": _mean_sqrt, "lasttoken": _last,
}  # fmt: skip
"""Functions of tokens (text, token, number) and of which of them are there (text, token)."""


def normalized(rows: Floats) -> Floats:
    """Return rows of length 1."""
    found: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found
