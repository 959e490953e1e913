"""How long calls take."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Spans = npt.NDArray[np.int64]
"""When calls began and when they ended, in nanoseconds of one clock; shape [calls, 2]."""

Call = Callable[[], object]


@dataclass(frozen=True)
class RunLimit:
    """When a measurement ends: after `runs` calls, or, where that is None, with the call that is running
    after `seconds`.
    """

    seconds: float
    runs: int | None = None


@dataclass(frozen=True)
class CallLatency:
    """How the times of calls are distributed, in milliseconds; `per_second` is how many one caller makes.

    Percentiles lie between samples where they must, linearly.
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


def spans(call: Call, limit: RunLimit) -> Spans:
    """Call again and again, one call after the other, and note when each began and ended."""
    clock = time.perf_counter_ns
    noted: list[tuple[int, int]] = []
    ended = clock()
    deadline = ended + int(limit.seconds * 1e9)
    while ended < deadline if limit.runs is None else len(noted) < limit.runs:
        began = clock()
        call()
        ended = clock()
        noted.append((began, ended))
    return np.array(noted, np.int64).reshape(-1, 2)


def milliseconds(noted: Spans) -> npt.NDArray[np.float64]:
    """How long each call took."""
    return (noted[:, 1] - noted[:, 0]) / 1e6


def latency(noted: Spans) -> CallLatency:
    """The distribution of the times of at least one call."""
    taken = milliseconds(noted)
    p50, p90, p95, p99 = map(float, np.percentile(taken, (50, 90, 95, 99)))
    mean = float(taken.mean())
    return CallLatency(
        len(taken), mean, float(taken.min()), p50, p90, p95, p99, float(taken.max()), per_second=1e3 / mean
    )


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect garbage now and not while the block runs: a round would be counted as time of a call."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
