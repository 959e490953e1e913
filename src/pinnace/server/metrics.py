"""Metrics for Prometheus: histograms of time, and counts of failures by cause, for each model and version."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LABELS = ("model", "version")


class ModelMetrics:
    """The metrics of one version of a model, which is open `users` times."""

    def __init__(self, metrics: Metrics, model: str, version: str) -> None:
        self.users = 0
        self._metrics, self._labels = metrics, (model, version)
        self._times = [one.labels(*self._labels) for one in metrics.histograms]
        self._causes = set[str]()

    def served(self, queued: float, computed: float) -> None:
        """Count a request that waited and ran so many seconds."""
        for histogram, seconds in zip(self._times, (queued + computed, queued, computed), strict=True):
            histogram.observe(seconds)

    def failed(self, cause: str) -> None:
        """Count a request without a result."""
        self._causes.add(cause)
        self._metrics.failures.labels(*self._labels, cause).inc()

    def opened(self, size: int) -> None:
        """Note the bytes that the version takes."""
        self._metrics.memory.labels(*self._labels).set(size)

    def closed(self) -> None:
        """Drop its series, unless it was loaded again: those of a thousand versions would take 16 MB."""
        self.users -= 1
        if self.users:
            return
        del self._metrics.open[self._labels]
        for one in (*self._metrics.histograms, self._metrics.memory):
            one.remove(*self._labels)
        for cause in self._causes:
            self._metrics.failures.remove(*self._labels, cause)


class Metrics:
    """The metrics of a server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.open: dict[tuple[str, str], ModelMetrics] = {}
        self.histograms = [
            self._histogram("request", "Time from a request's arrival to its result."),
            self._histogram("queue", "Time that a request waits for a worker."),
            self._histogram("compute", "Time from a request's start on a worker to its result."),
        ]
        self.failures = Counter(
            "pinnace_request_failures", "Requests without a result, by cause.", (*_LABELS, "cause"),
            registry=self._registry,
        )  # fmt: skip
        self.memory = Gauge("pinnace_model_bytes", "Memory of open models.", _LABELS, registry=self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"pinnace_{name}_seconds", text, _LABELS, buckets=_BUCKETS, registry=self._registry)

    def of(self, model: str, version: str) -> ModelMetrics:
        """Return the metrics of a version."""
        found = self.open.setdefault((model, version), ModelMetrics(self, model, version))
        found.users += 1
        return found

    def text(self) -> bytes:
        """Return all metrics in Prometheus' format."""
        return generate_latest(self._registry)
