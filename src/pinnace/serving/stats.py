"""Counts and latencies of requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

_STEPS = 128  # up to 2**64 ns
_NS = 1e6  # of a millisecond


@dataclass(frozen=True)
class Latency:
    """Distribution of the time from a request's arrival to its end, waiting included.

    `counts[i]` requests took at most `bounds[i]` ms and more than the previous bound; bounds grow by a factor
    of the square root of 2. `total` is the sum of all, in ms.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def mean(self) -> float:
        """Mean latency in ms; 0 if no request was served."""
        return self.total / max(1, sum(self.counts))

    def percentile(self, percent: float) -> float:
        """Bound the latency of `percent` of the requests, in ms; at most 1.42 times too large."""
        wanted = percent / 100 * sum(self.counts)
        reached = zip(accumulate(self.counts), self.bounds, strict=True)
        return next((bound for count, bound in reached if count and count >= wanted), 0.0)


@dataclass(frozen=True)
class Stats:
    """Counts of requests since the model was built.

    `busy` of `workers` run a request, `queued` requests wait; `served` got results, `failed` got an error of
    the engine; `refused` found the queue full; `withdrawn` were cancelled or timed out while they waited.
    `batches` is the number of runs that computed several requests together.
    """

    workers: int
    busy: int
    queued: int
    served: int
    failed: int
    refused: int
    withdrawn: int
    batches: int
    latency: Latency


class Tally:
    """Counts of one worker; only one thread at a time writes them."""

    __slots__ = ("batches", "failed", "steps", "total")

    def __init__(self) -> None:
        self.failed = self.batches = self.total = 0
        self.steps = [0] * (_STEPS + 1)

    @property
    def served(self) -> int:
        """Number of served requests."""
        return sum(self.steps)

    def count(self, nanoseconds: int) -> None:
        """Count a served request."""
        self.total += nanoseconds
        # The bit length of the square grows by one when the number grows by the square root of 2.
        self.steps[(nanoseconds * nanoseconds).bit_length()] += 1


def latency(tallies: Iterable[Tally]) -> Latency:
    """Merge the latencies of several workers."""
    tallies = list(tallies)
    counts = tuple(map(sum, zip(*(tally.steps for tally in tallies), strict=True)))
    bounds = tuple(2 ** (step / 2) / _NS for step in range(_STEPS + 1))
    return Latency(bounds, counts, sum(tally.total for tally in tallies) / _NS)
