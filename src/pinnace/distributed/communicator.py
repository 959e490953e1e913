"""What every way of talking to other ranks gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from pinnace.distributed.watch import Watch
from pinnace.engines.protocol import Array

Ranks = tuple[int, ...]
"""Members of a group, in its order; numbers are those of the world."""


class Link(Protocol):
    """The line of one executable to the same one in other ranks.

    Arrays are C-contiguous, results are written into `out`; groups are those that the link was made for, and
    hold this rank. One thread at a time. Raises `DistributedError` where another rank has ended, has
    failed or does not come in time.
    """

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        """The sum, max, min or prod of all `x`, for all."""

    def all_gather(self, group: Ranks, x: Array, out: Array) -> None:
        """All `x` one after the other, in the order of the group, for all."""

    def reduce_scatter(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        """Of the reduced `x` its own part, for each: parts lie one after the other along dimension 0."""

    def broadcast(self, group: Ranks, x: Array, out: Array, root: int) -> None:
        """The `x` of the rank `root`, for all."""

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        """Part i of `x` for member i; their parts for this rank one after the other."""

    def exchange(
        self, sends: Sequence[tuple[int, Array]], receives: Sequence[tuple[int, Array]], tag: int
    ) -> None:
        """Send each array to a rank, and receive into each array from a rank."""

    def barrier(self, group: Ranks) -> None:
        """Return when all have come."""


class Communicator(Protocol):
    """All ranks that were started together."""

    rank: int
    size: int
    watch: Watch
    name: str

    def gather(self, text: str) -> list[str]:
        """What each rank says, in order of rank, for all."""

    def link(self, groups: Sequence[Ranks]) -> Link:
        """A new line for these groups; all ranks call it with the same ones, in the same order."""


_LONGEST = 1 << 28
"""Bytes that a rank may have to say before it runs."""


def gathered(text: str, size: int, all_gather: Callable[[Array, Array], None], watch: Watch) -> list[str]:
    """What each of `size` ranks says; `all_gather` takes a vector and the memory for those of all."""
    data = np.frombuffer(text.encode(), np.uint8)
    lengths = np.empty(size, np.int64)
    all_gather(np.array([data.size], np.int64), lengths)
    if not 0 <= int(lengths.min()) <= int(lengths.max()) <= _LONGEST:
        raise watch.broken("a rank has more to say than there can be in")
    padded = np.zeros(max(1, int(lengths.max())), np.uint8)
    padded[: data.size] = data
    result = np.empty((size, padded.size), np.uint8)
    all_gather(padded, result)
    return [bytes(row[:n]).decode() for row, n in zip(result, lengths.tolist(), strict=True)]
