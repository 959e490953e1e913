"""Sums of steps that are made up."""

import pytest

from pinnace.engines.steps import Profile, Step

RUNS = [
    [Step("conv1", "Conv", 0, 3000), Step("relu", "Relu", 3000, 1000), Step("conv2", "Conv", 4500, 2000)],
    [Step("conv1", "Conv", 100, 4000)],  # whose clock began anew
]


def test_steps_are_summed_by_operator_the_longest_first():
    conv, relu = Profile(RUNS).by_operator()
    assert (conv.name, conv.calls, conv.total, conv.share) == ("Conv", 3, 9.0, pytest.approx(0.9))
    assert (relu.name, relu.calls, relu.total, relu.share) == ("Relu", 1, 1.0, pytest.approx(0.1))


def test_steps_are_summed_by_node():
    assert [(s.name, s.operator, s.calls, s.total) for s in Profile(RUNS)] == [
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
    assert {s.name: s.total for s in Profile([steps]).by_operator()} == {
        "Loop": 4.0, "If": 2.0, "Add": 3.0, "Mul": 1.0, "Neg": 2.0, "Conv": 8.0,
    }  # fmt: skip


def test_no_time_at_all_has_no_share():
    assert Profile([[Step("a", "A", 0, 0)]])[0].share == 0
    assert Profile([]) == Profile([]).by_operator() == []
