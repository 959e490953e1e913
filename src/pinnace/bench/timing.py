"""Durations of calls, and the memory of this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

import numpy as np
import numpy.typing as npt

from pinnace.building.build import no_garbage_collection
from pinnace.machine.memory import resident_memory, return_free_memory

Spans = npt.NDArray[np.int64]
"""Start and end of calls in nanoseconds of one clock; shape [calls, 2]."""

Call = Callable[[], object]
_NEVER = Event()


@dataclass(frozen=True)
class RunLimit:
    """End of a measurement: after `runs` calls, or, if that is None, with the first call to end after
    `seconds`.
    """

    seconds: float
    runs: int | None = None


@dataclass(frozen=True)
class CallLatency:
    """Latency distribution of calls in milliseconds; `per_second` is the rate of one caller.

    Percentiles are interpolated linearly.
    """

    runs: int
    mean: float
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float
    per_second: float


def spans(call: Call, limit: RunLimit, stopped: Event = _NEVER) -> Spans:
    """Call repeatedly, one call at a time, and record start and end of each; `stopped` ends it early."""
    clock = time.perf_counter_ns
    noted: list[tuple[int, int]] = []
    ended = clock()
    deadline = ended + int(limit.seconds * 1e9)
    while not stopped.is_set() and (ended < deadline if limit.runs is None else len(noted) < limit.runs):
        began = clock()
        call()
        ended = clock()
        noted.append((began, ended))
    return np.array(noted, np.int64).reshape(-1, 2)


def milliseconds(noted: Spans) -> npt.NDArray[np.float64]:
    return (noted[:, 1] - noted[:, 0]) / 1e6


def latency(noted: Spans) -> CallLatency:
    """Return the distribution of the durations of at least one call."""
    taken = milliseconds(noted)
    p50, p90, p95, p99 = map(float, np.percentile(taken, (50, 90, 95, 99)))
    mean = float(taken.mean())
    return CallLatency(
        len(taken), mean, float(taken.min()), p50, p90, p95, p99, float(taken.max()), per_second=1e3 / mean
    )


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect garbage now, and disable the collector in the block: its runs would count as time of a call."""
    gc.collect()
    with no_garbage_collection():
        yield


def resident() -> int:
    """Return the bytes of memory that this process holds, with pages of files that it maps.

    What was freed is given back to the system before, where the C library can do that.
    """
    gc.collect()
    return_free_memory()
    return resident_memory()[0]
