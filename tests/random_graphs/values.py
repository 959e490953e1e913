"""Random numbers to compute with."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

_ODD = (np.nan, np.inf, -np.inf, -0.0, 1e-30, 3e4)


def array(rng: Generator, dtype: np.dtype, shape: tuple[int, ...], wild: bool = False) -> np.ndarray:
    """Numbers of a dtype. Floats are mostly quarters, so that sums and products of a few are exact.

    `wild`: now and then with NaN, infinities, -0 and integers up to the ends of the type.
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "OSU":
        return rng.choice(np.array(["", "a", "Bc", "ünd", "a b"], object), shape)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not wild or rng.random() < 0.5:
            least, most = max(least, -9), min(most, 9)
        return rng.integers(least, most, shape, dtype, endpoint=True)
    exact = rng.random() < 0.6
    found = rng.integers(-16, 17, shape) / 4 if exact else rng.standard_normal(shape)
    found = np.asarray(found)
    if wild:
        found = np.where(rng.random(shape) < 0.2, rng.choice(_ODD, shape), found)
    with np.errstate(over="ignore"):
        return found.astype(dtype)


def sizes(rng: Generator, rank: int) -> tuple[int, ...]:
    """A shape, of 1 now and then and of 0 rarely."""
    return tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4, 5, 8, 17], rank, p=_SHARES))


_SHARES = (0.02, 0.18, 0.25, 0.2, 0.15, 0.1, 0.07, 0.03)


def spread(rng: Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is broadcast to, or with, another one."""
    cut = shape[int(rng.integers(0, len(shape) + 1)) :] if rng.random() < 0.4 else shape
    kept = tuple(1 if rng.random() < 0.2 else n for n in cut)
    grown = (int(rng.integers(1, 4)),) if rng.random() < 0.08 and len(kept) == len(shape) < 5 else ()
    return grown + kept
