"""Checks that each rank has its own file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from hashlib import blake2b

from pinnace.weights.source import Source

_PLACES, _PIECE = 64, 4096
"""Number and size in bytes of the samples of a file: parts of one model differ in nearly all of them."""


def fingerprint(source: Source, files: Sequence[str]) -> str:
    """Return a digest of samples of a model file and the `files` beside it."""
    found = blake2b(digest_size=16)
    for file in ("", *files):
        data = source.bytes_of(file)
        found.update(len(data).to_bytes(8, "little"))
        step = max(_PIECE, len(data) // _PLACES)
        for start in (*range(0, len(data), step), max(0, len(data) - _PIECE)):
            found.update(data[start : start + _PIECE])
    return found.hexdigest()


def suspicion(models: Sequence[str], contents: Sequence[str]) -> str:
    """Return why the ranks, in order, seem to have each other's files; "" if they do not."""
    for rank, content in enumerate(contents):
        first = contents.index(content)
        if first < rank:
            return (
                f"ranks {first} and {rank} have the same file ({models[first]} and {models[rank]}), but "
                f"each rank of a model that was cut needs its own part"
            )
    numbers = [re.findall(r"\d+", os.path.join(*model.rsplit(os.sep, 2)[-2:])) for model in models]
    if len({re.sub(r"\d+", "#", model) for model in models}) > 1:
        return ""
    differing = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    order = [int(number) for number in differing[0]] if len(differing) == 1 else []
    if sorted(order) == list(range(len(models))) and order != sorted(order):
        has = ", ".join(f"rank {rank} has {model}" for rank, model in enumerate(models))
        return f"ranks seem to have each other's files: {has}"
    return ""
