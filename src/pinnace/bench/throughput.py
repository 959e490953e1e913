"""How much several clients are served at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import numpy as np

from pinnace.bench.timing import Call, RunLimit, Spans, milliseconds, spans


@dataclass(frozen=True)
class Throughput:
    """What clients got: answers a second to all, and times of answers in milliseconds.

    `slowest_client` and `fastest_client` are the means of the client who waited longest and of the one who
    waited least: where they lie apart somebody starves.
    """

    clients: int
    runs: int
    per_second: float
    p50: float
    p99: float
    slowest_client: float
    fastest_client: float


def served(calls: Sequence[Call], limit: RunLimit) -> list[Spans]:
    """Let one client for each of `calls` make it until the limit is reached; all begin at the same time.

    Raises what a call raised.
    """
    start = Barrier(len(calls))

    def client(call: Call) -> Spans:
        start.wait()
        return spans(call, limit)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(client, calls))


def throughput(clients: Sequence[Spans]) -> Throughput:
    """What clients got from the first request on until one of them had all its answers.

    After that fewer clients ask, and what they get is not what that many would.
    """
    began = min(noted[0, 0] for noted in clients)
    ended = min(noted[-1, 1] for noted in clients)
    answered = sum(int(np.count_nonzero(noted[:, 1] <= ended)) for noted in clients)
    taken = [milliseconds(noted) for noted in clients]
    p50, p99 = map(float, np.percentile(np.concatenate(taken), (50, 99)))
    means = [float(times.mean()) for times in taken]
    per_second = answered / ((ended - began) / 1e9)
    return Throughput(len(clients), sum(map(len, taken)), per_second, p50, p99, max(means), min(means))
