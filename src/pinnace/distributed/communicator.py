"""Communicators between ranks, and their links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pinnace.distributed.watchdog import Watchdog
from pinnace.types import Array

Ranks = tuple[int, ...]
"""Members of a group, in its order, by their numbers in the world."""

Message = tuple[int, Array]
"""Another rank, and the array that is sent to it or received from it; contiguous."""

_LONGEST = 1 << 28
"""Maximum bytes of a rank's text in `gather`."""


class Link(Protocol):
    """The connection of one executable to the same one in other ranks.

    Arrays are C-contiguous, results are written to `out`; groups are those that the link was made for, and
    contain this rank. One thread at a time may use it. Methods raise `DistributedError` if another rank has
    ended, has failed or is late.
    """

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        """Give all ranks the sum, max, min or prod of all `x`."""

    def all_gather(self, group: Ranks, x: Array, out: Array) -> None:
        """Give all ranks the concatenation of all `x`, in the order of the group."""

    def reduce_scatter(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        """Give each rank its part of the reduced `x`, along dimension 0."""

    def broadcast(self, group: Ranks, x: Array, out: Array, root: int) -> None:
        """Give all ranks the `x` of the rank `root`."""

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        """Send part i of `x` to member i; `out` is the concatenation of the received parts."""

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        """Send each array to another rank, and receive each array from another rank."""

    def barrier(self, group: Ranks) -> None:
        """Return when all ranks of the group have called it."""


class Communicator(ABC):
    """The ranks that were started together: the world."""

    rank: int
    size: int
    watchdog: Watchdog
    name: str
    everyone: Link
    """A link whose group is the world."""

    @abstractmethod
    def link(self, groups: Sequence[Ranks]) -> Link:
        """Return a new link for these groups. All ranks must call it with the same ones in the same order."""

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in order of rank."""
        world = tuple(range(self.size))
        data = np.frombuffer(text.encode(), np.uint8)
        lengths = np.empty(self.size, np.int64)
        self.everyone.all_gather(world, np.array([data.size], np.int64), lengths)
        if not 0 <= int(lengths.min()) <= int(lengths.max()) <= _LONGEST:
            raise self.watchdog.broken("a rank sent too long a text in")
        padded = np.zeros(max(1, int(lengths.max())), np.uint8)
        padded[: data.size] = data
        rows = np.empty((self.size, padded.size), np.uint8)
        self.everyone.all_gather(world, padded, rows)
        return [bytes(row[:n]).decode() for row, n in zip(rows, lengths.tolist(), strict=True)]


def as_bytes(array: Array) -> Array:
    """View an array as bytes, as its type does not matter for a transfer."""
    return array.reshape(-1).view(np.uint8)
