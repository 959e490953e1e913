"""Configurations that compete, and figures of several shapes and limits together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pinnace.bench.tuning import REFERENCE, Outcome, _limited, _together, configurations
from pinnace.cache.tuning import Configuration, Measurement


def test_configurations_have_room_on_the_cores():
    found = configurations(
        ["a", "b"], ["p", "q"], [1, 2, 8], [1, 2], 4, [Configuration("c", "r", 1, 1, form="f")]
    )
    assert {(one.threads, one.workers) for one in found} == {(1, 1), (2, 1), (8, 1), (1, 2), (2, 2)}
    assert [(one.provider, one.precision, one.form) for one in found[:5]] == [
        ("a", "p", ""),
        ("b", "p", ""),
        ("a", "q", ""),
        ("b", "q", ""),
        ("c", "r", "f"),
    ]
    assert len(found) == 5 * 5
    assert configurations(["a"], ["p"], [2], [2], 3) == []


def outcome(latency, throughput, deviation=0.0, p99=1.0, memory=1, reason=""):
    setup = replace(REFERENCE, threads=2)
    figures = Measurement(setup.provider, setup.precision, 2, 1, latency, throughput, deviation, p99, memory)
    return Outcome(setup, figures, "float32", reason)


def test_of_several_shapes_times_are_means_and_other_figures_the_largest():
    made = _together([outcome(1.0, 100.0, 0.1, 5.0, 7), outcome(4.0, 25.0, 0.2, 3.0, 9)])
    assert made.measured == Measurement(
        "onnxruntime", "enforce_fp32", 2, 1, pytest.approx(2), pytest.approx(50), 0.2, 5.0, 9
    )
    assert (made.computes_in, made.reason) == ("float32", "")


def test_a_configuration_that_is_bad_for_one_shape_is_bad():
    good, bad = outcome(1.0, 1.0), outcome(1.0, 1.0, reason="deviates")
    assert _together([good, bad]).reason == "deviates"
    failed = Outcome(good.setup, reason="failed")
    assert _together([good, failed]) is failed
    assert _together([Outcome(good.setup), good]).measured is None


@pytest.mark.parametrize(("limit", "reason"), [(None, ""), (5.0, ""), (4.9, "its p99 is above 4.9 ms")])
def test_a_limit_of_the_latency_refuses_what_is_above_it(limit, reason):
    assert _limited(outcome(1.0, 1.0, p99=5.0), limit).reason == reason
    bad = outcome(1.0, 1.0, p99=5.0, reason="deviates")
    assert _limited(bad, limit) is bad
    assert _limited(Outcome(REFERENCE), limit) == Outcome(REFERENCE)
