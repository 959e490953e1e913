"""Counts and latencies of all models of this process for Prometheus; needs the extra `metrics`.

from prometheus_client import REGISTRY, start_http_server
from pinnace.metrics import Collector

REGISTRY.register(Collector())
start_http_server(9100)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pinnace.api.owner import EngineOwner, owners
from pinnace.errors import ModelStateError
from pinnace.serving.stats import Stats

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Upper bounds of latencies in seconds; a request may be counted one bucket too high if it is within 3 %."""
_OUTCOMES = ("served", "failed", "refused", "withdrawn")


class Collector:
    """Collects `stats()` of every built Model, ModelParallelRunner, LiteInfer and DataParallel.

    The label `model` is the name of the model file; models of one name are counted together.
    """

    def collect(self) -> Iterator[Metric]:
        found = defaultdict(list)
        for owner in owners():
            stats = _stats(owner)
            if stats is not None:
                found[owner.model_name].append(stats)
        requests = CounterMetricFamily(
            "pinnace_requests", "Predictions by outcome.", labels=("model", "outcome")
        )
        batches = CounterMetricFamily(
            "pinnace_batches", "Runs that computed several predictions.", labels=["model"]
        )
        restarts = CounterMetricFamily("pinnace_restarts", "Restarts of device processes.", labels=["model"])
        queue = GaugeMetricFamily("pinnace_queue_length", "Predictions in the queue.", labels=["model"])
        workers = GaugeMetricFamily("pinnace_workers", "Workers by state.", labels=("model", "state"))
        seconds = HistogramMetricFamily(
            "pinnace_prediction_seconds", "Time from a prediction's arrival to its end.", labels=["model"]
        )
        for name, every in found.items():
            for outcome in _OUTCOMES:
                requests.add_metric((name, outcome), sum(getattr(stats, outcome) for stats in every))
            batches.add_metric([name], sum(stats.batches for stats in every))
            restarts.add_metric([name], sum(getattr(stats, "restarts", 0) for stats in every))
            queue.add_metric([name], sum(stats.queued for stats in every))
            workers.add_metric((name, "busy"), sum(stats.busy for stats in every))
            workers.add_metric((name, "idle"), sum(stats.workers - stats.busy for stats in every))
            total = sum(stats.latency.total for stats in every) / 1e3
            seconds.add_metric([name], buckets(_BUCKETS, _counts(every)), total)
        yield from (requests, batches, restarts, queue, workers, seconds)


def _stats(owner: EngineOwner) -> Stats | None:
    """Return the counts of a model; None if it is not built or closed."""
    try:
        return owner.stats()
    except ModelStateError:
        return None


def buckets(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return how many requests took at most each bound, as Prometheus wants them.

    `counts` has the number of those from the last bound to each one, and of those above all.
    """
    return list(zip((*map(str, bounds), "+Inf"), map(float, accumulate(counts)), strict=True))


def _counts(every: Sequence[Stats]) -> list[int]:
    counts = [0] * (len(_BUCKETS) + 1)
    for stats in every:
        for bound, count in zip(stats.latency.bounds, stats.latency.counts, strict=True):
            if count:
                counts[bisect_left(_BUCKETS, bound / 1e3)] += count
    return counts
