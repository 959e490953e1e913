"""Metrics of all models of the process, as Prometheus reads them."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import until

import pinnace
from pinnace.metrics import Collector

ADD = Path(__file__).parent / "data" / "api" / "add.onnx"
X = np.ones((3, 4, 5), np.float32)


def scraped() -> dict[tuple[str, ...], float]:
    """A scrape for models of `add.onnx`: values by name and labels."""
    registry = CollectorRegistry()
    registry.register(Collector())
    text = generate_latest(registry).decode()
    return {
        (
            sample.name.removeprefix("pinnace_"),
            *(v for k, v in sorted(sample.labels.items()) if k != "model"),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels["model"] == "add.onnx"
    }


@pytest.fixture
def alone():
    """No model of another test is left."""
    gc.collect()
    until(lambda: gc.collect() >= 0 and not scraped())


def test_a_scrape_counts_models_of_one_file_together(alone):
    context = pinnace.Context(thread_num=1)
    context.parallel.workers_num = 2
    with pinnace.Model() as model, pinnace.ModelParallelRunner() as runner, pinnace.Model() as unbuilt:
        model.build_from_file(ADD, pinnace.ModelType.ONNX)
        runner.build_from_file(ADD, context)
        for _ in range(3):
            model.predict([X, X])
            runner.predict([X, X])
        found = scraped()
        assert found["requests_total", "served"] == 6
        assert found["requests_total", "failed"] == found["requests_total", "refused"] == 0
        assert found["workers", "idle"] == 3
        assert found["workers", "busy"] == found["queue_length",] == 0
        assert found["prediction_seconds_count",] == found["prediction_seconds_bucket", "+Inf"] == 6
        assert found["batches_total",] == found["restarts_total",] == 0
        counts = [v for k, v in found.items() if k[0] == "prediction_seconds_bucket"]
        assert counts == sorted(counts)
        latency = model.stats().latency.total + runner.stats().latency.total
        assert found["prediction_seconds_sum",] == pytest.approx(latency / 1e3)
        assert not unbuilt.is_built
    assert not scraped()  # closed
