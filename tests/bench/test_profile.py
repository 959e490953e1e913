"""Traces of steps that are made up."""

import json

from pinnace.bench.profile import trace
from pinnace.engines.steps import Step

RUNS = [
    [Step("conv1", "Conv", 0, 3000), Step("relu", "Relu", 3000, 1000), Step("conv2", "Conv", 4500, 2000)],
    [Step("conv1", "Conv", 100, 4000)],  # whose clock began anew
]


def test_a_trace_is_in_the_form_that_chrome_and_perfetto_open():
    made = json.loads(trace(RUNS, "model.onnx"))
    named, *events = made["traceEvents"]
    assert (named["ph"], named["args"]) == ("M", {"name": "model.onnx"})
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [
        ("conv1", 0, 3000),
        ("relu", 3000, 1000),
        ("conv2", 4500, 2000),
        ("conv1", 6500, 4000),  # right after the run before
    ]
    assert {(e["ph"], e["pid"], e["tid"]) for e in events} == {("X", named["pid"], 0)}
    assert [e["cat"] for e in events] == ["Conv", "Relu", "Conv", "Conv"]
    assert [e["args"]["run"] for e in events] == [0, 0, 0, 1]
