"""Requests that arrive at random, whether or not earlier ones are answered: an open loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from pinnace.bench.timing import RunLimit, milliseconds

_MOST_WAITING = 100_000
"""Number of waiting requests that ends a measurement: each takes memory."""

Submit = Callable[[], "Future[Any]"]


@dataclass(frozen=True)
class OpenLoad:
    """Answers to requests that arrive at a mean `rate` a second; latencies in ms, from the arrival.

    `withdrawn` requests still waited when the time was over, and count with the time that they had waited.
    """

    rate: float
    requests: int
    per_second: float
    p50: float
    p90: float
    p99: float
    max: float
    withdrawn: int


def arrive(submit: Submit, rate: float, limit: RunLimit) -> OpenLoad:
    """Submit requests at the times of a Poisson process until the limit, and wait for as long again.

    Latencies start when a request should have been submitted, so that a late start counts as waiting. Raises
    the error of a request.
    """
    clock, gaps = time.perf_counter_ns, np.random.default_rng(0)
    waiting: set[Future[Any]] = set()
    ended: list[tuple[int, int]] = []
    errors: list[BaseException] = []
    withdrawn = []

    def end(due: int, future: Future[Any]) -> None:
        ended.append((due, clock()))
        waiting.discard(future)  # with its outputs
        if future.cancelled():
            withdrawn.append(due)
        elif error := future.exception():
            errors.append(error)

    def ask(due: int) -> None:
        time.sleep(max(0, due - clock()) / 1e9)
        future = submit()
        waiting.add(future)
        future.add_done_callback(lambda done: end(due, done))

    due = clock()
    deadline, asked = due + limit.seconds * 1e9, 0
    while not errors and len(waiting) < _MOST_WAITING:
        # The clock counts too: it may pass faster than requests of a high rate can be submitted.
        if asked and (max(due, clock()) >= deadline if limit.runs is None else asked == limit.runs):
            break
        ask(due)
        asked += 1
        due += round(gaps.exponential(1e9 / rate))
    wait(list(waiting), limit.seconds)
    wait([future for future in list(waiting) if future.running() or not future.cancel()])
    if errors:
        raise errors[0]
    return _summary(rate, np.array(ended, np.int64), len(withdrawn))


def _summary(rate: float, noted: np.ndarray[Any, np.dtype[np.int64]], withdrawn: int) -> OpenLoad:
    taken = milliseconds(noted)
    p50, p90, p99 = map(float, np.percentile(taken, (50, 90, 99)))
    seconds = float(noted[:, 1].max() - noted[:, 0].min()) / 1e9
    per_second = (len(noted) - withdrawn) / seconds
    return OpenLoad(rate, len(noted), per_second, p50, p90, p99, float(taken.max()), withdrawn)
