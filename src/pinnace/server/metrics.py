"""Metrics for Prometheus: histograms of time, and counts of failures by cause, for each model and version."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LABELS = ("model", "version")


class ModelMetrics:
    """The metrics of one version of a model."""

    def __init__(self, metrics: Metrics, model: str, version: str) -> None:
        self._metrics, self._labels = metrics, (model, version)
        self._seconds = metrics.seconds.labels(*self._labels)

    def served(self, seconds: float) -> None:
        """Count a request that was answered."""
        self._seconds.observe(seconds)

    def failed(self, cause: str) -> None:
        """Count a request that was not."""
        self._metrics.failures.labels(*self._labels, cause).inc()


class Metrics:
    """The metrics of a server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.seconds = Histogram(
            "pinnace_request_seconds", "Time from a request's arrival to its result, waiting included.",
            _LABELS, buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip
        self.failures = Counter(
            "pinnace_request_failures", "Requests without a result, by cause.", (*_LABELS, "cause"),
            registry=self._registry,
        )  # fmt: skip
        self.opened = Gauge("pinnace_model_bytes", "Memory of open models.", _LABELS, registry=self._registry)

    def of(self, model: str, version: str) -> ModelMetrics:
        """Return the metrics of a version."""
        return ModelMetrics(self, model, version)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' format."""
        return generate_latest(self._registry)
