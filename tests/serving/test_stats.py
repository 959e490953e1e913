import math

import pytest

from pinnace.serving.stats import Tally, latency


def test_a_histogram_of_known_times():
    tally = Tally()
    for milliseconds in (1, 1, 1, 10, 100):
        tally.count(milliseconds * 1_000_000)
    seen = latency([tally, Tally()])
    assert sum(seen.counts) == 5
    assert seen.total == 113
    assert seen.mean == 113 / 5
    for percent, exact in ((50, 1), (60, 1), (80, 10), (100, 100)):
        assert exact <= seen.percentile(percent) <= exact * math.sqrt(2)


def test_the_bound_of_a_step_is_above_what_it_counts():
    for nanoseconds in (0, 1, 2, 3, 1000, 123_456_789, 2**63):
        tally = Tally()
        tally.count(nanoseconds)
        seen = latency([tally])
        (bound,) = (b for b, count in zip(seen.bounds, seen.counts, strict=True) if count)
        assert nanoseconds / 1e6 <= bound


def test_of_nothing():
    seen = latency([Tally()])
    assert (seen.mean, seen.percentile(99), seen.total) == (0, 0, 0)


@pytest.mark.parametrize("field", ["served", "failed", "batches"])
def test_a_new_tally_has_counted_nothing(field):
    assert getattr(Tally(), field) == 0
