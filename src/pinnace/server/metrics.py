"""Metrics for Prometheus: histograms of time, and counts of failures by cause, for each model and version."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pinnace.metrics import buckets

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LABELS = ("model", "version")
_TIMES = {
    "request": "Time from a request's arrival to its result.",
    "queue": "Time that a request waits for a worker.",
    "compute": "Time from a request's start on a worker to its result.",
}


class _Times:
    """A histogram of seconds. One of prometheus_client takes a lock, and more than twice as long."""

    def __init__(self) -> None:
        self.counts, self.total = [0] * (len(_BUCKETS) + 1), 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds


class ModelMetrics:
    """The metrics of one version of a model, which is open `users` times; the event loop counts."""

    def __init__(self) -> None:
        self.users = self.size = 0
        self.request, self.queue, self.compute = _Times(), _Times(), _Times()
        self.failures = Counter[str]()

    def served(self, queued: float, computed: float) -> None:
        """Count a request that waited and ran so many seconds."""
        self.request.add(queued + computed)
        self.queue.add(queued)
        self.compute.add(computed)


class Metrics:
    """The metrics of a server."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], ModelMetrics] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def opened(self, model: str, version: str) -> ModelMetrics:
        """Return the metrics of a version."""
        found = self._open.setdefault((model, version), ModelMetrics())
        found.users += 1
        return found

    def closed(self, model: str, version: str) -> None:
        """Drop the metrics of a version, unless it was loaded again."""
        self._open[model, version].users -= 1
        if not self._open[model, version].users:
            del self._open[model, version]

    def collect(self) -> Iterator[Metric]:
        every = list(self._open.items())  # a thread may open a model
        for name, text in _TIMES.items():
            times = HistogramMetricFamily(f"pinnace_{name}_seconds", text, labels=_LABELS)
            for labels, metrics in every:
                one: _Times = getattr(metrics, name)
                times.add_metric(labels, buckets(_BUCKETS, one.counts), one.total)
            yield times
        failures = CounterMetricFamily(
            "pinnace_request_failures", "Requests without a result, by cause.", labels=(*_LABELS, "cause")
        )
        memory = GaugeMetricFamily("pinnace_model_bytes", "Memory of open models.", labels=_LABELS)
        for labels, metrics in every:
            memory.add_metric(labels, metrics.size)
            for cause, count in metrics.failures.items():
                failures.add_metric((*labels, cause), count)
        yield from (failures, memory)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' format."""
        return generate_latest(self._registry)
