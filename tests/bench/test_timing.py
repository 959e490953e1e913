"""Statistics of times whose values are known by hand."""

import gc
import itertools
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from pinnace.bench import timing
from pinnace.bench.throughput import served, throughput
from pinnace.bench.timing import RunLimit, collector_off, latency, milliseconds, spans


def at(*pairs):
    """Spans of (begin, end) in milliseconds."""
    return np.array(pairs, np.int64).reshape(-1, 2) * 1_000_000


def test_percentiles_lie_between_samples():
    # 1, 2, ..., 101 ms in any order: the percentile p of these is 1 + p
    taken = np.random.default_rng(0).permutation(np.arange(1, 102))
    found = latency(at(*((1000 * i, 1000 * i + ms) for i, ms in enumerate(taken))))
    assert (found.runs, found.min, found.max) == (101, 1, 101)
    assert (found.p50, found.p90, found.p95, found.p99) == pytest.approx((51, 91, 96, 100))
    assert found.mean == pytest.approx(51)
    assert found.per_second == pytest.approx(1000 / 51)


def test_one_call_has_a_distribution_too():
    found = latency(at((3, 5)))
    assert (found.runs, found.mean, found.min, found.p50, found.p99, found.max) == (1, 2, 2, 2, 2, 2)
    assert found.per_second == 500


def test_calls_are_made_as_often_as_was_asked_for_one_after_the_other():
    seen = []
    noted = spans(lambda: seen.append(1), RunLimit(0.0, runs=7))
    assert len(seen) == len(noted) == 7
    assert (np.diff(noted.ravel()) >= 0).all()
    assert milliseconds(noted).shape == (7,)


def test_calls_go_on_until_the_time_is_over(monkeypatch):
    ticks = itertools.count(0, 1_000_000)  # every look at the clock takes a millisecond
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=lambda: next(ticks)))
    noted = spans(lambda: None, RunLimit(0.005))
    np.testing.assert_array_equal(noted, at((1, 2), (3, 4), (5, 6)))  # at 4 ms there is time for one more


def test_what_clients_get_ends_with_the_first_who_has_all():
    # 3 and 2 answers; after 30 ms only one client asks, so that 4 answers in 30 ms count
    found = throughput([at((0, 10), (10, 20), (20, 30)), at((0, 20), (20, 50))])
    assert (found.clients, found.runs) == (2, 5)
    assert found.per_second == pytest.approx(4 / 0.030)
    assert found.p50 == 10
    assert (found.fastest_client, found.slowest_client) == (10, 25)
    assert found.p99 == pytest.approx(20 + 0.96 * 10)  # place 0.99 * 4 in 10, 10, 10, 20, 30


def test_every_client_makes_its_own_call():
    counts = [0, 0, 0]

    def client(index):
        def call():
            counts[index] += 1

        return call

    noted = served([client(i) for i in range(3)], RunLimit(0.0, runs=4))
    assert counts == [4, 4, 4]
    assert [len(one) for one in noted] == [4, 4, 4]


def test_what_a_client_raises_comes_out():
    def fail():
        raise ArithmeticError("so it goes")

    with pytest.raises(ArithmeticError, match="so it goes"):
        served([lambda: None, fail], RunLimit(0.0, runs=2))


def test_ctrl_c_and_the_error_of_a_client_end_the_others_with_their_calls():
    """Clients that nothing ends take 100 s."""
    counts = [0, 0]

    def interrupt():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def fail():
        raise ArithmeticError("so it goes")

    def client(index, then):
        def call():
            time.sleep(0.001)
            counts[index] += 1
            if index and counts[index] == 3:
                then()

        return call

    for then, error in ((interrupt, KeyboardInterrupt), (fail, ArithmeticError)):
        counts[:] = [0, 0]
        with pytest.raises(error):
            served([client(0, then), client(1, then)], RunLimit(0.0, runs=100_000))
        assert max(counts) < 100_000


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_off_while_it_is_timed_and_as_it_was_after(was_on):
    try:
        gc.enable() if was_on else gc.disable()
        with collector_off():
            assert not gc.isenabled()
        assert gc.isenabled() is was_on
    finally:
        gc.enable()
