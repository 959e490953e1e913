"""Requests that are wrong in some way, made from one that is right."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

Feed = dict[str, np.ndarray]

_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38, -1.0, 0.0, 2.0**31, 1e9)
_INTEGERS = (-1, 0, 1, 2, -2, 3, 7, 100, 65536, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63))
_ROOM = 1 << 16
"""Elements of an input at the most."""


def mutated(rng: Generator, feed: Feed, empty: bool = True) -> Feed:
    """A request with one to three changes; some changes keep inputs consistent, so that it may be right.

    `empty`: also with inputs that have no elements.
    """
    while feed:
        found = dict(feed)
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            change = _CHANGES[int(rng.integers(len(_CHANGES)))]
            change(rng, found)
        if empty or all(array.size for array in found.values()):
            return found
    return feed


def _one_size(rng: Generator, feed: Feed) -> None:
    """Another size for one dimension of one input."""
    name, axis = _dimension(rng, feed)
    if name:
        size = _other(rng, feed[name].shape[axis])
        feed[name] = _resized(feed[name], {axis: size})


def _equal_sizes(rng: Generator, feed: Feed) -> None:
    """Another size for all dimensions that have the same one: likely, what belongs together."""
    name, axis = _dimension(rng, feed)
    if name:
        old = feed[name].shape[axis]
        new = _other(rng, old)
        for other, array in feed.items():
            feed[other] = _resized(array, {a: new for a, size in enumerate(array.shape) if size == old})


def _some_equal_sizes(rng: Generator, feed: Feed) -> None:
    """Another size for some of the dimensions that have the same one."""
    name, axis = _dimension(rng, feed)
    if name:
        old = feed[name].shape[axis]
        new = _other(rng, old)
        for other, array in feed.items():
            places = [a for a, size in enumerate(array.shape) if size == old and rng.random() < 0.5]
            feed[other] = _resized(array, dict.fromkeys(places, new))


def _swapped(rng: Generator, feed: Feed) -> None:
    """Two sizes of an input exchanged: as many elements, in another shape."""
    name, axis = _dimension(rng, feed)
    if name:
        shape = list(feed[name].shape)
        other = int(rng.integers(len(shape)))
        shape[axis], shape[other] = shape[other], shape[axis]
        feed[name] = feed[name].reshape(shape)


def _rank(rng: Generator, feed: Feed) -> None:
    """A dimension more or less."""
    name, axis = _dimension(rng, feed)
    if name:
        array = feed[name]
        fewer = rng.random() < 0.5 and array.shape[axis]
        feed[name] = np.ascontiguousarray(array.take(0, axis) if fewer else np.expand_dims(array, axis))


def _one_number(rng: Generator, feed: Feed) -> None:
    name = str(rng.choice(list(feed)))
    array = feed[name] = feed[name].copy()
    if array.size:
        array.flat[int(rng.integers(array.size))] = _extreme(rng, array)


def _all_numbers(rng: Generator, feed: Feed) -> None:
    name = str(rng.choice(list(feed)))
    feed[name] = np.full_like(feed[name], _extreme(rng, feed[name]))


def _some_number_more(rng: Generator, feed: Feed) -> None:
    """Integers beside those that are right: lengths, indices and sizes one off."""
    names = [n for n, a in feed.items() if a.dtype.kind in "iu"]
    if names:
        name = str(rng.choice(names))
        array = feed[name]
        step = rng.integers(-2, 3, array.shape).astype(np.int64)
        feed[name] = (array.astype(np.int64) + step).astype(array.dtype)


_CHANGES = (
    *(_one_size, _one_size, _one_size, _equal_sizes, _equal_sizes, _some_equal_sizes, _some_equal_sizes),
    *(_swapped, _rank),
    *(_one_number, _all_numbers, _some_number_more),
)


def _dimension(rng: Generator, feed: Feed) -> tuple[str, int]:
    places = [(name, axis) for name, array in feed.items() for axis in range(array.ndim)]
    return places[int(rng.integers(len(places)))] if places else ("", 0)


def _other(rng: Generator, size: int) -> int:
    return int(rng.choice([size + 1, size - 1 if size else 1, 0, 1, 2 * size, size // 2, size + 7, 257]))


def _resized(array: np.ndarray, sizes: dict[int, int]) -> np.ndarray:
    """The array with other sizes, filled with its own numbers, again where they do not suffice."""
    shape = [sizes.get(axis, size) for axis, size in enumerate(array.shape)]
    if not sizes or int(np.prod(shape)) > _ROOM:
        return array
    return np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)


def _extreme(rng: Generator, array: np.ndarray) -> object:
    kind = array.dtype.kind
    if kind == "b":
        return bool(rng.random() < 0.5)
    if kind in "iu":
        number = int(_INTEGERS[int(rng.integers(len(_INTEGERS)))])
        limits = np.iinfo(array.dtype)
        return min(max(number, int(limits.min)), int(limits.max))
    if kind == "V":  # of ml_dtypes: bfloat16, float8, int4
        return array.dtype.type(int(rng.integers(-1, 3)))
    if kind in "fc":
        return _FLOATS[int(rng.integers(len(_FLOATS)))]
    return str(rng.choice(["", "x", "long " * 50, "\0"]))
