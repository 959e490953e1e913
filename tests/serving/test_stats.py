import math

import numpy as np
import pytest

from pinnace.errors import ArgumentValueError
from pinnace.serving.stats import Stats, latency
from pinnace.serving.worker import Counts


def test_a_histogram_of_known_times():
    counts = Counts()
    for milliseconds in (1, 1, 1, 10, 100):
        counts.count(milliseconds * 1_000_000)
    seen = latency([counts, Counts()])
    assert sum(seen.counts) == 5
    assert seen.total == 113
    assert seen.mean == 113 / 5
    for percent, exact in ((0, 1), (50, 1), (60, 1), (80, 10), (100, 100)):
        assert seen.percentile(percent) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("nanoseconds", [0, 1, 2, 31, 32, 63, 64, 65, 1000, 123_456_789, 5 * 10**18])
def test_a_time_lies_between_the_bounds_of_its_step(nanoseconds):
    counts = Counts()
    counts.count(nanoseconds)
    seen = latency([counts])
    step = seen.counts.index(1)
    before = -1 if step == 0 else seen.bounds[step - 1]
    assert before < nanoseconds / 1e6 <= seen.bounds[step]
    assert before < seen.percentile(50) <= seen.bounds[step]


def test_a_bound_is_the_longest_time_of_its_step():
    bounds = latency([Counts()]).bounds
    for step in range(400):
        counts = Counts()
        for nanoseconds in (round(bounds[step] * 1e6), round(bounds[step] * 1e6) + 1):
            counts.count(nanoseconds)
        assert [counts.steps[step], counts.steps[step + 1], sum(counts.steps)] == [1, 1, 2]


def test_percentiles_are_right_within_two_percent():
    """The bounds of steps are 3 % apart, and the middle is given."""
    taken = np.random.default_rng(0).lognormal(15, 2, 20000).astype(int)
    counts = Counts()
    for nanoseconds in taken:
        counts.count(int(nanoseconds))
    seen = latency([counts])
    for percent in (0.1, 1, 25, 50, 90, 99, 99.9):
        exact = np.percentile(taken, percent, method="inverted_cdf") / 1e6
        assert seen.percentile(percent) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("percent", [-0.1, 100.1, math.nan])
def test_percentiles_outside_of_0_to_100(percent):
    with pytest.raises(ArgumentValueError, match="between 0 and 100"):
        latency([Counts()]).percentile(percent)


def test_a_summary_in_one_line():
    counts = Counts()
    for milliseconds in (1, 1, 1, 10):
        counts.count(milliseconds * 1_000_000)
    found = Stats(2, 1, 3, 4, 0, 0, 0, 0, 0, latency([counts]), seconds=8)
    assert (found.p50, found.p99, found.qps) == (
        found.latency.percentile(50),
        found.latency.percentile(99),
        0.5,
    )
    assert repr(found).startswith("<Stats: 4 served, 0 failed, 3 queued, p50 ")
    assert "\n" not in repr(found)


def test_of_nothing():
    seen = latency([Counts()])
    assert (seen.mean, seen.percentile(99), seen.total) == (0, 0, 0)


@pytest.mark.parametrize("field", ["served", "failed", "batches"])
def test_a_new_tally_has_counted_nothing(field):
    assert getattr(Counts(), field) == 0
