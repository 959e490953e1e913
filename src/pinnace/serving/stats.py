"""Counts and latencies of requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from pinnace.errors import ArgumentValueError
from pinnace.escaping import html_table
from pinnace.serving.worker import BITS, STEPS, Counts

_NS = 1e6  # of a millisecond


def _longest(step: int) -> int:
    shift = max(0, (step >> BITS) - 1)
    return ((step - (shift << BITS) + 1) << shift) - 1


@dataclass(frozen=True, repr=False)
class Latency:
    """Distribution of the time from a request's arrival to its end, waiting included.

    `counts[i]` requests took at most `bounds[i]` ms and more than the previous bound. `total` is the sum of
    all, in ms.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def mean(self) -> float:
        """Mean latency in ms; 0 if no request was served."""
        return self.total / max(1, sum(self.counts))

    def percentile(self, percent: float) -> float:
        """Return the latency that `percent` of the requests do not exceed, in ms, right within 2 %; 0 if none
        was served.

        Raises `ArgumentValueError` unless 0 <= percent <= 100.
        """
        if not 0 <= percent <= 100:
            raise ArgumentValueError(f"percent must be between 0 and 100, but got {percent}.")
        wanted = percent / 100 * sum(self.counts)
        for step, reached in enumerate(accumulate(self.counts)):
            if reached and reached >= wanted:
                return (self.bounds[step] + (self.bounds[step - 1] if step else 0)) / 2
        return 0.0

    def __repr__(self) -> str:
        p50, p90, p99 = map(self.percentile, (50, 90, 99))
        return f"<Latency of {sum(self.counts)}: p50 {p50:.3g} ms, p90 {p90:.3g} ms, p99 {p99:.3g} ms>"


@dataclass(frozen=True, repr=False)
class Stats:
    """Counts of requests in the `seconds` since the model was built.

    `busy` of `workers` run a request; `queued` requests wait, in OpenVINO's own queue too; `served` got
    results, `failed` got an error of the engine; `refused` found the queue full; `withdrawn` were cancelled
    or timed out.
    `batches` is the number of runs that computed several requests together, `batched` that of the requests.
    """

    workers: int
    busy: int
    queued: int
    served: int
    failed: int
    refused: int
    withdrawn: int
    batches: int
    batched: int
    latency: Latency
    seconds: float = field(kw_only=True)

    @property
    def qps(self) -> float:
        """Served requests per second since the model was built."""
        return self.served / self.seconds if self.seconds else 0.0

    @property
    def p50(self) -> float:
        """Median latency in ms, see `Latency.percentile`."""
        return self.latency.percentile(50)

    @property
    def p90(self) -> float:
        """Latency in ms that 90 % of the requests do not exceed."""
        return self.latency.percentile(90)

    @property
    def p99(self) -> float:
        """Latency in ms that 99 % of the requests do not exceed."""
        return self.latency.percentile(99)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.served} served, {self.failed} failed, {self.queued} queued, "
            f"p50 {self.p50:.3g} ms, p90 {self.p90:.3g} ms, p99 {self.p99:.3g} ms, {self.qps:.4g} per second>"
        )

    def _repr_html_(self) -> str:
        names = ("served", "failed", "queued", "refused", "withdrawn")
        counts = [(name, getattr(self, name)) for name in names]
        times = [(f"{name}, ms", f"{getattr(self, name):.3g}") for name in ("p50", "p90", "p99")]
        return html_table(type(self).__name__, [*counts, *times, ("per second", f"{self.qps:.4g}")])


@cache
def _bounds() -> tuple[float, ...]:
    return tuple(_longest(step) / _NS for step in range(STEPS))


def latency(workers: Iterable[Counts]) -> Latency:
    """Merge the latencies of several workers."""
    workers = list(workers)
    steps = tuple(map(sum, zip(*(counts.steps for counts in workers), strict=True)))
    return Latency(_bounds(), steps, sum(counts.total for counts in workers) / _NS)
