"""Sums and traces of steps that are made up."""

import json

import pytest

from pinnace.bench.profile import by_node, by_operator, trace
from pinnace.engines.steps import Step

RUNS = [
    [Step("conv1", "Conv", 0, 3000), Step("relu", "Relu", 3000, 1000), Step("conv2", "Conv", 4500, 2000)],
    [Step("conv1", "Conv", 100, 4000)],  # whose clock began anew
]


def test_steps_are_summed_by_operator_the_longest_first():
    conv, relu = by_operator(RUNS)
    assert (conv.name, conv.calls, conv.total, conv.share) == ("Conv", 3, 9.0, pytest.approx(0.9))
    assert (relu.name, relu.calls, relu.total, relu.share) == ("Relu", 1, 1.0, pytest.approx(0.1))


def test_steps_are_summed_by_node():
    assert [(s.name, s.operator, s.calls, s.total) for s in by_node(RUNS)] == [
        ("conv1", "Conv", 2, 7.0),
        ("conv2", "Conv", 1, 2.0),
        ("relu", "Relu", 1, 1.0),
    ]


def test_what_lies_within_a_step_counts_once():
    steps = [
        Step("loop", "Loop", 0, 10_000),
        Step("if", "If", 1_000, 5_000),
        Step("add", "Add", 2_000, 3_000),
        Step("mul", "Mul", 6_000, 1_000),  # begins where the branch ends
        Step("neg", "Neg", 10_000, 2_000),  # begins where the loop ends
        Step("conv", "Conv", 0, 8_000, thread=1),
    ]
    assert {s.name: s.total for s in by_operator([steps])} == {
        "Loop": 4.0, "If": 2.0, "Add": 3.0, "Mul": 1.0, "Neg": 2.0, "Conv": 8.0,
    }  # fmt: skip


def test_no_time_at_all_has_no_share():
    assert by_node([[Step("a", "A", 0, 0)]])[0].share == 0
    assert by_operator([]) == []


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
