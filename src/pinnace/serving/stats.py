"""What workers have done, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

_STEPS = 128  # up to 2**64 ns
_NS = 1e6  # of a millisecond


@dataclass(frozen=True)
class Latency:
    """How long requests took from their arrival to their end, those that waited in the queue included.

    `counts[i]` requests took at most `bounds[i]` ms and more than the bound before; bounds grow by a factor
    of the square root of 2. `total` is the sum of all, in ms.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def mean(self) -> float:
        """In ms; 0 where nothing was served."""
        return self.total / max(1, sum(self.counts))

    def percentile(self, percent: float) -> float:
        """An upper bound, in ms, of what `percent` of the requests took; at most 1.42 times too large."""
        wanted = percent / 100 * sum(self.counts)
        reached = zip(accumulate(self.counts), self.bounds, strict=True)
        return next((bound for count, bound in reached if count and count >= wanted), 0.0)


@dataclass(frozen=True)
class Stats:
    """Requests since the model was built, and now.

    `busy` of `workers` run a request, `queued` requests wait; `served` have got results, `failed` an error
    of the engine; `refused` found the queue full; `withdrawn` were cancelled, or timed out, while they
    waited. `batches` is the number of runs in which several requests were computed together.
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
    """What one worker has done; only one thread at a time writes it."""

    __slots__ = ("batches", "failed", "steps", "total")

    def __init__(self) -> None:
        self.failed = self.batches = self.total = 0
        self.steps = [0] * (_STEPS + 1)

    @property
    def served(self) -> int:
        """How many requests."""
        return sum(self.steps)

    def count(self, nanoseconds: int) -> None:
        """One more request was served."""
        self.total += nanoseconds
        # the number of bits of a square grows by one where the number grows by the square root of 2
        self.steps[(nanoseconds * nanoseconds).bit_length()] += 1


def latency(tallies: Iterable[Tally]) -> Latency:
    """All that workers have served."""
    tallies = list(tallies)
    counts = tuple(map(sum, zip(*(tally.steps for tally in tallies), strict=True)))
    bounds = tuple(2 ** (step / 2) / _NS for step in range(_STEPS + 1))
    return Latency(bounds, counts, sum(tally.total for tally in tallies) / _NS)
