"""Throughput of several concurrent clients."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, Event

import numpy as np

from pinnace.api.runner import ModelParallelRunner
from pinnace.bench.timing import Call, RunLimit, Spans, milliseconds, spans
from pinnace.types import Array


@dataclass(frozen=True)
class Throughput:
    """Throughput of all clients together, and latencies of answers in milliseconds.

    `slowest_client` and `fastest_client` are the largest and smallest mean latency of a client: if they are
    far apart, clients starve.
    """

    clients: int
    runs: int
    per_second: float
    p50: float
    p99: float
    slowest_client: float
    fastest_client: float


def caller(model: ModelParallelRunner, arrays: Sequence[Array]) -> Call:
    """Return the call of one client, which has inputs of its own."""
    tensors = model.get_inputs()
    for tensor, array in zip(tensors, arrays, strict=True):
        tensor.set_data_from_numpy(array)
    return lambda: model.predict(tensors)


def served(calls: Sequence[Call], limit: RunLimit) -> list[Spans]:
    """Run one client for each of `calls` until the limit; all start at the same time.

    Raises the error of a call. That, or Ctrl-C, ends the other clients with the calls that they wait for.
    """
    start, stopped = Barrier(len(calls)), Event()

    def client(call: Call) -> Spans:
        start.wait()
        try:
            return spans(call, limit, stopped)
        except BaseException:
            stopped.set()
            raise

    pool = ThreadPoolExecutor(len(calls))
    try:
        return list(pool.map(client, calls))
    finally:
        stopped.set()
        start.abort()  # clients that wait for those that Ctrl-C left out
        pool.shutdown(wait=False, cancel_futures=True)


def throughput(clients: Sequence[Spans]) -> Throughput:
    """Compute the throughput from the first request until the first client is done.

    After that fewer clients compete, which would distort the result.
    """
    began = min(noted[0, 0] for noted in clients)
    ended = min(noted[-1, 1] for noted in clients)
    answered = sum(int(np.count_nonzero(noted[:, 1] <= ended)) for noted in clients)
    taken = [milliseconds(noted) for noted in clients]
    p50, p99 = map(float, np.percentile(np.concatenate(taken), (50, 99)))
    means = [float(times.mean()) for times in taken]
    per_second = answered / ((ended - began) / 1e9)
    return Throughput(len(clients), sum(map(len, taken)), per_second, p50, p99, max(means), min(means))
