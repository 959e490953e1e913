"""Descriptions of models, counts and the repository, of models that are stubs."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from pinnace.server import messages
from pinnace.server.models import Counts
from pinnace.server.settings import ModelSettings
from pinnace.types import DataType, Port


def opened(version="1", **facts):
    stats = SimpleNamespace(served=9, batches=0, batched=0, p50=1.5, p99=2.5, queued=3, busy=1, workers=2)
    made = {
        "name": "m",
        "version": version,
        "settings": ModelSettings(),
        "inputs": [Port("x", DataType.FLOAT32, (-1, 3)), Port("t", DataType.STRING, (-1,))],
        "outputs": [Port("y", DataType.BFLOAT16, (-1, 2))],
        "workers": 2,
        "memory": 1000,
        "counts": Counts(5, 10, 200, Counter({"invalid": 2, "timeout": 1}), 70, 12.5),
        "runner": SimpleNamespace(stats=lambda: stats),
        "stats": stats,
    }
    return SimpleNamespace(**(made | facts))


def repository(*entries):
    return SimpleNamespace(entries=entries, server_name="ours")


def entry(name, *versions, state="READY", reason=""):
    return SimpleNamespace(name=name, open={one: opened(one) for one in versions}, state=state, reason=reason)


def test_a_model_has_its_tensors_and_its_versions_by_number():
    answer = messages.model(entry("m", "10", "9"), opened())
    assert answer == {
        "name": "m",
        "versions": ["9", "10"],
        "platform": "pinnace",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "t", "datatype": "BYTES", "shape": [-1]},
        ],
        "outputs": [{"name": "y", "datatype": "BF16", "shape": [-1, 2]}],
    }


@pytest.mark.parametrize("size", [0, 1])
def test_a_configuration_without_batches_has_whole_shapes(size):
    answer = messages.config(opened(settings=ModelSettings(max_batch_size=size)))
    assert answer["max_batch_size"] == 0
    assert "dynamic_batching" not in answer
    assert answer["name"] == "m"
    assert answer["platform"] == answer["backend"] == "pinnace"
    assert [(one["data_type"], one["dims"]) for one in answer["input"]] == [
        ("TYPE_FP32", [-1, 3]),
        ("TYPE_STRING", [-1]),
    ]
    assert answer["instance_group"] == [{"name": "m", "count": 2}]


def test_a_configuration_with_batches_lacks_their_dimension():
    answer = messages.config(opened(settings=ModelSettings(max_batch_size=2, max_queue_delay_us=50)))
    assert answer["max_batch_size"] == 2
    assert answer["dynamic_batching"] == {"max_queue_delay_microseconds": 50}
    assert [one["dims"] for one in (*answer["input"], *answer["output"])] == [[3], [], [2]]


@pytest.mark.parametrize(("batched", "batches", "runs"), [(0, 0, 5), (4, 2, 3), (5, 1, 1)])
def test_statistics_are_sums_of_requests_and_runs(batched, batches, runs):
    one = opened()
    one.stats.batched, one.stats.batches = batched, batches
    found = messages.statistics(one)
    assert (found["inference_count"], found["execution_count"], found["last_inference"]) == (5, runs, 12500)
    assert found["inference_stats"] == {
        "success": {"count": 5, "ns": 210},
        "fail": {"count": 3, "ns": 70},
        "queue": {"count": 5, "ns": 10},
        "compute_input": {"count": 5, "ns": 0},
        "compute_infer": {"count": 5, "ns": 200},
        "compute_output": {"count": 5, "ns": 0},
    }
    assert found["batch_stats"] == []  # of Triton's extension, whose clients read all fields


def test_the_index_has_all_versions_or_those_that_are_ready():
    found = repository(entry("a", "10", "9"), entry("b", state="UNAVAILABLE", reason="broken"))
    assert messages.index(found) == [
        {"name": "a", "version": "9", "state": "READY", "reason": ""},
        {"name": "a", "version": "10", "state": "READY", "reason": ""},
        {"name": "b", "version": "", "state": "UNAVAILABLE", "reason": "broken"},
    ]
    assert [one["name"] for one in messages.index(found, ready=True)] == ["a", "a"]
    assert len(messages.all_statistics(found)) == 2


def test_the_page_has_figures_of_what_is_open():
    found = repository(entry("a", "1"), entry("b", state="UNAVAILABLE"))
    first, second = messages.status(found)["models"]
    assert first == {
        "name": "a", "version": "1", "state": "READY", "reason": "", "p50": 1.5, "p99": 2.5, "queued": 3,
        "busy": 1, "workers": 2, "served": 5, "failed": 3, "memory": 1000,
    }  # fmt: skip
    assert second == {"name": "b", "version": "", "state": "UNAVAILABLE", "reason": ""}


def test_the_server_has_its_name_version_and_extensions():
    answer = messages.server(repository())
    assert answer["name"] == "ours"
    assert {"binary_tensor_data", "statistics", "system_shared_memory"} <= {*answer["extensions"]}


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ((-1, 3, 224, 224), "FORMAT_NCHW"),
        ((-1, 224, 224, 1), "FORMAT_NHWC"),
        ((1, 3, 5, 3), "FORMAT_NONE"),
        ((3, 224, 224), "FORMAT_NONE"),
    ],
)
def test_a_configuration_says_where_pictures_have_their_channels(shape, named):
    made = opened(inputs=[Port("x", DataType.FLOAT32, shape)])
    assert [one["format"] for one in messages.config(made)["input"]] == [named]
