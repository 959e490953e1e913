"""Open loops, with requests that are answered by hand."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from pinnace.bench import arrivals
from pinnace.bench.arrivals import arrive
from pinnace.bench.timing import RunLimit


class Clock:
    """Time that only passes in sleep."""

    now = 0

    def perf_counter_ns(self):
        return self.now

    def sleep(self, seconds):
        self.now += round(1e9 * seconds)


def test_all_requests_of_a_run_are_answered():
    with ThreadPoolExecutor(1) as pool:
        found = arrive(lambda: pool.submit(time.sleep, 0), 1e4, RunLimit(5.0, runs=50))
    assert (found.rate, found.requests, found.withdrawn) == (1e4, 50, 0)
    assert 0 < found.p50 <= found.p90 <= found.p99 <= found.max
    assert found.per_second > 0


def test_requests_arrive_though_none_is_answered_and_are_withdrawn():
    asked = []
    found = arrive(lambda: asked.append(Future()) or asked[-1], 1e4, RunLimit(0.02, runs=20))
    assert len(asked) == found.requests == found.withdrawn == 20
    assert found.per_second == 0
    assert found.p50 >= 20  # ms: they waited until the end


def test_latency_counts_from_the_arrival_and_not_from_the_submission():
    def slow():
        time.sleep(0.01)
        done = Future()
        done.set_result(None)
        return done

    found = arrive(slow, 1e6, RunLimit(5.0, runs=10))  # all arrive at once
    assert found.max >= 100  # the last one waited for the nine before


def test_arrivals_last_as_long_as_was_said_and_keep_the_rate(monkeypatch):
    monkeypatch.setattr(arrivals, "time", Clock())
    with ThreadPoolExecutor(1) as pool:
        found = arrive(lambda: pool.submit(int), 2000, RunLimit(0.5))
    # Poisson with mean 1000, from a fixed seed
    assert found.requests == pytest.approx(1000, abs=100)


def test_outputs_are_not_kept():
    alive, most = set(), []

    class Output:
        def __init__(self):
            alive.add(id(self))
            most.append(len(alive))

        def __del__(self):
            alive.discard(id(self))

    with ThreadPoolExecutor(1) as pool:
        arrive(lambda: pool.submit(Output), 200, RunLimit(5.0, runs=40))
    assert max(most) < 20


def test_an_error_ends_it():
    release = threading.Event()

    def fail():
        release.wait()
        raise KeyError("x")

    with ThreadPoolExecutor(1) as pool:
        release.set()
        with pytest.raises(KeyError):
            arrive(lambda: pool.submit(fail), 1e4, RunLimit(5.0))


def test_a_rate_beyond_all_machines_ends_in_time():
    found = arrive(Future, 1e30, RunLimit(0.05))
    assert found.withdrawn == found.requests > 0


def test_waiting_requests_are_limited(monkeypatch):
    monkeypatch.setattr(arrivals, "_MOST_WAITING", 10)
    assert arrive(Future, 1e6, RunLimit(0.01, runs=10**9)).requests == 10


def test_figures_are_those_of_all_requests(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(arrivals, "time", clock)
    durations = np.random.default_rng(0).permutation(np.arange(1, 102)).tolist()  # the percentile p is 1 + p

    def submit():
        clock.sleep(durations.pop() / 1e3)
        done = Future()
        done.set_result(None)
        return done

    found = arrive(submit, 1e-3, RunLimit(1.0, runs=101))  # a request in 1000 s: none waits for another one
    assert (found.requests, found.withdrawn) == (101, 0)
    assert (found.p50, found.p90, found.p99, found.max) == pytest.approx((51, 91, 100, 101))
    assert found.per_second == pytest.approx(1e-3, rel=0.3)
