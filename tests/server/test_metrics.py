"""Metrics of a server."""

from __future__ import annotations

import urllib.request

import pytest
import tritonclient.http
from prometheus_client.parser import text_string_to_metric_families
from tests.server.test_protocol import A, B, inputs
from tritonclient.utils import InferenceServerException

from pinnace.server.metrics import Metrics


def test_histograms_and_failures_have_model_and_version(serving, simple):
    server = serving(simple)
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    for _ in range(5):
        client.infer("simple", inputs(tritonclient.http, A, B))
    for _ in range(2):
        with pytest.raises(InferenceServerException):
            client.infer("simple", inputs(tritonclient.http, A[:, :3], B))
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=10) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    samples = {
        (sample.name, sample.labels.get("cause", sample.labels.get("le"))): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("model") == "simple" and sample.labels["version"] == "1"
    }
    assert samples["pinnace_request_seconds_count", None] == 5
    assert samples["pinnace_request_seconds_bucket", "+Inf"] == 5
    assert samples["pinnace_request_failures_total", "invalid"] == 2
    assert samples["pinnace_queue_seconds_count", None] == 5
    assert samples["pinnace_compute_seconds_count", None] == 5
    assert samples["pinnace_model_bytes", None] > 0


def test_the_failures_before_a_model_was_loaded_again_go_with_it():
    metrics = Metrics()
    metrics.opened("m", "1").failures["timeout"] += 1
    metrics.opened("m", "1")
    metrics.closed("m", "1")
    assert b'cause="timeout"' in metrics.text()
    metrics.closed("m", "1")
    assert b'model="m"' not in metrics.text()


def test_a_model_that_is_loaded_again_keeps_its_series_and_one_that_is_closed_has_none(serving, simple):
    server = serving(simple)
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    client.load_model("simple")
    client.infer("simple", inputs(tritonclient.http, A, B))
    assert (
        b'pinnace_request_seconds_count{model="simple",version="1"} 1.0' in server.repository.metrics.text()
    )
    client.unload_model("simple")
    assert b'model="simple"' not in server.repository.metrics.text()
