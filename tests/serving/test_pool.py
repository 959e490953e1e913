"""The queue in front of an executable: order, withdrawal, limits, threads, and what is left after."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from tests.waiting import Execution, in_thread, until

from pinnace.engines.protocol import ALL_RANKS, BY_SHAPES, HERE, OTHER_PROCESS
from pinnace.errors import (
    ConfigError,
    DataMismatchError,
    EngineError,
    ModelStateError,
    PredictTimeoutError,
    QueueFullError,
)
from pinnace.serving.batching import Batching
from pinnace.serving.pool import WorkerPool
from pinnace.types import DataType, Port

LONG = 300  # seconds after which a test has failed


class Gate:
    """An executable whose requests wait until they are let through, or none where `open` is None."""

    inputs = (Port("x", DataType.FLOAT32, (1,)),)
    outputs = (Port("y", DataType.FLOAT32, (1,)),)
    info: dict[str, str] = {}  # noqa: RUF012
    lost_by_fork = ""
    queues = is_light = False
    runs_in = HERE

    def __init__(self):
        self.open = threading.Semaphore(0)
        self.order: list[float] = []
        self.threads: list[str] = []
        self.closed = self.stops = 0

    def stop(self):
        self.stops += 1
        self.open.release()

    def first_state(self):
        return [np.zeros(1, np.float32)]

    def execution(self, state=None):
        return Execution(self, state)

    def compute(self, arrays, state):
        self.order.append(float(arrays[0][0]))
        self.threads.append(threading.current_thread().name)
        assert self.open.acquire(timeout=LONG)
        if self.stops:
            self.stops -= 1
            raise EngineError("stopped")
        if arrays[0][0] < 0:
            raise EngineError("negative")
        state[0] = state[0] + arrays[0]
        return [arrays[0] * 2]

    def close(self):
        self.closed += 1


@pytest.fixture
def gate():
    return Gate()


def one(value):
    return [np.array([value], np.float32)]


def number(results):
    return float(results[0][0])


def queued(workers, count):
    until(lambda: workers.stats().queued == count)


def test_caller_runs_on_an_idle_worker_and_worker_threads_serve_the_queue(gate):
    workers = WorkerPool(gate, 1)
    first = in_thread(workers.run, one(1))
    until(lambda: gate.order == [1])
    rest = []
    for value in range(2, 6):
        rest.append(in_thread(workers.run, one(value)))
        queued(workers, value - 1)
    gate.open.release(5)
    for thread, outcome in [first, *rest]:
        thread.join(LONG)
        assert not thread.is_alive()
        assert len(outcome) == 1
    assert [number(outcome[0]) for _, outcome in [first, *rest]] == [2, 4, 6, 8, 10]
    assert gate.order == [1, 2, 3, 4, 5]  # in the order of arrival
    assert gate.threads[0] != "pinnace-worker"
    assert gate.threads[1:] == ["pinnace-worker"] * 4
    workers.close()


def test_client_that_asks_again_waits_behind_all_others(gate):
    """So clients have fair shares; a plain semaphore starved some."""
    clients, rounds = 8, 3
    workers = WorkerPool(gate, 1)

    def client(me):
        for _ in range(rounds):
            workers.run(one(me))

    asking = []
    for me in range(clients):
        asking.append(in_thread(client, me))
        until(lambda me=me: len(gate.order) == 1 and workers.stats().queued == me)
    for served in range(1, clients * rounds + 1):
        left = clients * rounds - served
        gate.open.release()
        until(lambda served=served: workers.stats().served == served)
        until(lambda left=left: len(gate.order) == clients * rounds - max(0, left - 1))
        until(lambda left=left: workers.stats().queued == min(clients - 1, max(0, left - 1)))
    for thread, outcome in asking:
        thread.join(LONG)
        assert outcome == [None]
    assert gate.order == list(range(clients)) * rounds
    workers.close()


def test_requests_of_smaller_priority_run_first_and_equal_ones_in_their_order(gate):
    workers = WorkerPool(gate)
    futures = [workers.submit(one(0), number)]
    until(lambda: gate.order)
    given = [(1, 5), (2, 0), (3, -1), (4, 0), (5, -1), (6, 5)]
    futures += [workers.submit(one(value), number, priority=priority) for value, priority in given]
    gate.open.release(len(futures))
    wait(futures, LONG)
    assert gate.order == [0, 3, 5, 2, 4, 1, 6]
    workers.close()


def test_future_gives_the_presented_results(gate):
    workers = WorkerPool(gate, 2)
    futures = [workers.submit(one(value), number) for value in (1, 2, -3)]
    until(lambda: len(gate.order) == 2)
    assert futures[0].running()
    gate.open.release(3)
    assert [future.result(LONG) for future in futures[:2]] == [2, 4]
    with pytest.raises(EngineError, match="negative"):
        futures[2].result(LONG)
    stats = workers.stats()
    assert (stats.served, stats.failed, stats.queued) == (2, 1, 0)
    assert sum(stats.latency.counts) == 2
    workers.close()


def test_request_cancelled_in_the_queue_never_runs(gate):
    workers = WorkerPool(gate, 1)
    futures = [workers.submit(one(value), number) for value in (1, 2, 3)]
    until(lambda: gate.order == [1])
    assert futures[1].cancel()
    assert workers.stats().queued == 1
    gate.open.release(2)
    assert futures[2].result(LONG) == 6
    assert gate.order == [1, 3]
    with pytest.raises(CancelledError):
        futures[1].result(LONG)
    assert not futures[2].cancel()  # too late
    assert workers.stats().withdrawn == 1
    workers.close()


def ended(workers):
    """Wait until no request runs; return the counts of those that did."""
    until(lambda: not workers.stats().busy)
    stats = workers.stats()
    return stats.served, stats.failed, stats.withdrawn


@pytest.mark.parametrize("way", ["cancel", "timeout of run", "timeout of submit"])
def test_run_is_stopped_when_its_request_is_given_up_and_the_next_is_not(gate, way):
    workers = WorkerPool(gate, 1)
    place = workers._workers[0]._execution
    if way == "timeout of run":
        with pytest.raises(PredictTimeoutError, match=r"was running when its timeout of 0\.05 s"):
            workers.run(one(1), timeout=0.05)
    elif way == "timeout of submit":
        with pytest.raises(PredictTimeoutError, match=r"was running when its timeout of 0\.05 s"):
            workers.submit(one(1), number, timeout=0.05).result(LONG)
    else:
        future = workers.submit(one(1), number)
        until(lambda: gate.order == [1])
        assert future.cancel()
        assert wait([future], LONG).done == {future}  # others who wait for it are told
        assert not future.running()
    assert ended(workers) == (0, 0, 1)
    assert workers._workers[0]._execution is not place  # a stop that comes late finds no other run
    assert workers._workers[0]._execution.state is place.state
    gate.open.release()
    assert workers.submit(one(2), number).result(LONG) == 4
    assert ended(workers) == (1, 0, 1)
    workers.close()


def test_batch_is_stopped_when_all_its_requests_are_given_up(gate):
    class Free(Gate):
        inputs = (Port("x", DataType.FLOAT32, (-1,)),)
        outputs = (Port("y", DataType.FLOAT32, (-1,)),)

        def first_state(self):
            return []

        def compute(self, arrays, state):
            return super().compute(arrays, [np.zeros(2, np.float32)])

    gate = Free()
    workers = WorkerPool(gate, 1, batching=Batching(2, 60_000_000_000))
    for left, count in ((1, 1), (0, 4)):
        futures = [workers.submit(one(value), number) for value in (1, 2)]
        until(lambda count=count: len(gate.order) == count)  # both are in it
        for future in futures[left:]:
            assert future.cancel()
        if left:
            gate.open.release(3)  # the first batch is compared with its requests alone
            assert futures[0].result(LONG) == 2
        assert ended(workers) == (1, 0, 1 if left else 3)
    workers.close()


def test_waiting_request_expires(gate):
    workers = WorkerPool(gate, 1)
    first = workers.submit(one(1), number, timeout=LONG)
    with pytest.raises(PredictTimeoutError, match="was waiting for a worker when"):
        workers.submit(one(2), number, timeout=0.01).result(LONG)
    gate.open.release()
    assert first.result(LONG) == 2
    assert gate.order == [1]
    workers.close()


def test_callback_of_an_expired_request_may_wait_for_another_that_expires(gate):
    def submit_again(_):
        with pytest.raises(PredictTimeoutError):
            workers.submit(one(3), number, timeout=0.01).result(LONG)
        ended.set()

    workers, ended = WorkerPool(gate, 1), threading.Event()
    first = workers.submit(one(1), number)
    workers.submit(one(2), number, timeout=0.01).add_done_callback(submit_again)
    assert ended.wait(LONG)
    gate.open.release()
    assert first.result(LONG) == 2
    workers.close()


def test_signal_handler_that_raises_stops_the_run_of_the_main_thread(gate):
    """Python calls it in this thread only: an engine that ran here would let it wait."""

    class TimeIsUpError(Exception):
        pass

    def ring(*_):
        raise TimeIsUpError

    workers = WorkerPool(gate, 1)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for value in (1, 2):
            ringing = in_thread(
                lambda v=value: (until(lambda: v in gate.order), os.kill(os.getpid(), signal.SIGALRM))
            )
            with pytest.raises(TimeIsUpError):
                workers.run(one(value))
            ringing[0].join(LONG)
            assert ended(workers) == (0, 0, value)
    finally:
        signal.signal(signal.SIGALRM, before)
    gate.open.release(2)
    assert number(workers.run(one(3))) == 6  # quickly
    until(lambda: not workers.stats().busy)
    assert number(workers.run(one(4))) == 8
    assert gate.threads == ["pinnace-worker"] * 3 + ["MainThread"]
    workers.close()


def test_main_thread_does_not_run_larger_requests_than_were_quick():
    class Free(Gate):
        inputs = (Port("x", DataType.FLOAT32, (-1, 1)),)

        def compute(self, arrays, state):
            self.threads.append(threading.current_thread().name)
            return arrays

    gate = Free()
    workers = WorkerPool(gate, 1)
    for rows in (2, 4, 5, 1):
        workers.run([np.zeros((rows, 1), np.float32)])
        until(lambda: not workers.stats().busy)
    assert gate.threads == ["pinnace-worker", "MainThread", "pinnace-worker", "MainThread"]
    workers.close()


def test_run_with_timeout_leaves_the_queue(gate):
    workers = WorkerPool(gate, 1)
    first = in_thread(workers.run, one(1))
    until(lambda: gate.order == [1])
    with pytest.raises(PredictTimeoutError, match=r"was waiting for a worker when its timeout of 0\.02 s"):
        workers.run(one(2), timeout=0.02)
    assert workers.stats().queued == 0
    gate.open.release()
    first[0].join(LONG)
    with pytest.raises(PredictTimeoutError, match=r"was running when its timeout of 0\.05 s"):
        workers.run(one(3), timeout=0.05)
    until(lambda: workers.stats().busy == 0)
    gate.open.release()
    assert number(workers.run(one(4), timeout=LONG)) == 8
    assert gate.order == [1, 3, 4]
    workers.close()


def test_full_queue_refuses_requests(gate):
    workers = WorkerPool(gate, 1, limit=2)
    futures = [workers.submit(one(value), number) for value in (1,)]
    until(lambda: gate.order == [1])
    futures += [workers.submit(one(value), number) for value in (2, 3)]
    with pytest.raises(QueueFullError, match=r"2 predictions wait for 1 workers, and .* max_queue is 2"):
        workers.submit(one(4), number)
    with pytest.raises(QueueFullError):
        workers.run(one(5))
    gate.open.release(3)
    assert [future.result(LONG) for future in futures] == [2, 4, 6]
    assert workers.stats().refused == 2
    workers.close()


class Queueing(Gate):
    """An engine with a queue of its own."""

    queues = True


def test_engine_with_a_queue_gets_requests_ahead():
    gate = Queueing()
    workers = WorkerPool(gate, 1, limit=2)
    asking = []
    for value in (1, 2, 3):
        asking.append(in_thread(workers.run, one(value)))
        until(lambda value=value: len(gate.order) == value)
    stats = workers.stats()
    assert (stats.workers, stats.busy, stats.queued) == (1, 1, 2)
    with pytest.raises(QueueFullError, match=r"2 predictions wait for 1 workers, and .* max_queue is 2"):
        workers.run(one(4))
    assert workers.stats().refused == 1
    gate.open.release(3)
    for thread, outcome in asking:
        thread.join(LONG)
        assert len(outcome) == 1
    assert sorted(number(outcome[0]) for _, outcome in asking) == [2, 4, 6]
    workers.close()


class Light(Gate):
    """An engine whose executions cost nothing, and a model of free shapes."""

    inputs = (Port("x", DataType.FLOAT32, (-1,)),)
    outputs = (Port("y", DataType.FLOAT32, (-1,)),)
    info = {BY_SHAPES: "yes"}  # noqa: RUF012
    is_light = True


def learned_brief(gate, workers):
    """Run one element through the queue until it took so little time that other callers need not wait."""
    gate.open.release()
    workers.submit(one(0), number).result(LONG)
    return workers._workers[0].brief == 1


def test_callers_of_brief_runs_wait_for_no_worker_and_those_of_longer_ones_do():
    gate = Light()
    workers = WorkerPool(gate, 1)
    until(lambda: learned_brief(gate, workers))
    gate.order.clear()
    asking = [in_thread(workers.run, one(1))]
    until(lambda: gate.order == [1])
    asking += [in_thread(workers.run, one(value)) for value in (2, 3)]
    until(lambda: sorted(gate.order) == [1, 2, 3])
    served = workers.stats().served
    assert (workers.stats().workers, workers.stats().busy, workers.stats().queued) == (1, 1, 2)
    longer = in_thread(workers.run, [np.array([4, 4], np.float32)])
    queued(workers, 3)
    assert len(gate.order) == 3
    gate.open.release(4)
    for thread, outcome in [*asking, longer]:
        thread.join(LONG)
        assert len(outcome) == 1
    assert sorted(number(outcome[0]) for _, outcome in asking) == [2, 4, 6]
    assert workers.stats().served == served + 4
    workers.close()
    with pytest.raises(ModelStateError):
        workers.run(one(1))


def test_brief_runs_are_answered_at_once_unless_others_wait():
    gate = Light()
    workers = WorkerPool(gate, 1)
    assert workers.run_brief(one(1)) is None
    until(lambda: learned_brief(gate, workers))
    gate.open.release(2)
    assert number(workers.run_brief(one(1))) == 2
    assert workers.run_brief([np.array([4, 4], np.float32)]) is None  # may be longer
    assert workers.run_brief([np.empty((9, 0), np.float32)]) is None  # its result may have any size
    gate.open.acquire()
    running = in_thread(workers.run, [np.array([5, 5], np.float32)])
    until(lambda: workers.stats().busy)
    waiting = workers.submit([np.array([6, 6], np.float32)], number)
    assert workers.run_brief(one(1)) is None
    gate.open.release(2)
    assert waiting.result(LONG) == 12
    running[0].join(LONG)
    workers.close()


def test_callers_of_brief_runs_wait_where_runs_are_bound_to_cores():
    gate = Light()
    workers = WorkerPool(gate, 1, [min(os.sched_getaffinity(0))])
    until(lambda: learned_brief(gate, workers))
    gate.order.clear()
    asking = [in_thread(workers.run, one(value)) for value in (1, 2)]
    queued(workers, 1)
    assert len(gate.order) == 1
    gate.open.release(2)
    for thread, _ in asking:
        thread.join(LONG)
    workers.close()


def test_a_request_that_joins_a_batch_after_an_exchange_has_the_new_weights():
    class Rows(Light):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def execution(self, state=None):
            return Execution(self, [])

        def compute(self, arrays, state):
            return [arrays[0] * self.factor]

    workers = WorkerPool(Rows(1), 1, batching=Batching(2, 60_000_000_000))
    first = workers.submit(one(3), number)
    until(lambda: workers.stats().busy and not workers._waiting)  # it waits for another one
    workers.exchange(Rows(2))
    assert workers.submit(one(4), number).result(LONG) == 8
    assert first.result(LONG) == 6
    workers.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised in a finalizer
def test_exceptions_of_signal_handlers_leave_a_future_that_is_waited_for_usable():
    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    gate, times = Light(), random.Random(0)
    gate.compute = lambda arrays, _state: (time.sleep(3e-4), [arrays[0] * 2])[1]
    workers, interrupts = WorkerPool(gate, 1), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 2000:
            try:
                signal.setitimer(signal.ITIMER_REAL, times.uniform(1e-5, 8e-4))
                workers.submit(one(1), number).result()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert workers.submit(one(1), number).result(LONG) == 2
    workers.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised in a finalizer
def test_exceptions_of_signal_handlers_leave_the_pool_usable():
    """A timer raises at any place of some thousand predictions; another thread predicts afterwards."""

    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    gate = Light()
    gate.compute = lambda arrays, _state: [arrays[0] * 2]
    workers, interrupts = WorkerPool(gate, 1), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4)
                for value in range(10_000):
                    workers.run(one(value))
            except Interrupted:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    thread, outcome = in_thread(workers.run, one(1))
    thread.join(LONG)
    assert number(outcome[0]) == 2
    workers.close()


def test_engine_without_a_queue_replaces_one_that_has_it():
    """A resized model may run on another engine, which computes what it is given at once."""

    class Alone(Gate):
        def compute(self, arrays, state):
            assert turn.acquire(blocking=False), "two requests at once"
            try:
                return super().compute(arrays, state)
            finally:
                turn.release()

    turn = threading.Lock()
    gate, other = Queueing(), Alone()
    workers = WorkerPool(gate, 1)
    first = [workers.submit(one(value), number) for value in range(4)]
    until(lambda: len(gate.order) == 4)
    waiting = [workers.submit(one(value), number) for value in range(4, 8)]
    workers.exchange(other)
    gate.open.release(4)
    assert [future.result(LONG) for future in first] == [0, 2, 4, 6]
    other.open.release(4)
    assert [future.result(LONG) for future in waiting] == [8, 10, 12, 14]
    assert other.order == [4, 5, 6, 7]
    workers.close()


def test_executables_that_cannot_batch_or_keep_the_state_are_refused(gate):
    class Free(Gate):
        inputs = outputs = (Port("x", DataType.FLOAT32, (-1,)),)

        def first_state(self):
            return []

    class Fixed(Free):
        inputs = Gate.inputs

    with pytest.raises(ConfigError, match="first dimension of 'x' is not free"):
        WorkerPool(Free(), 1, batching=Batching(2, 0)).exchange(Fixed())
    with pytest.raises(DataMismatchError, match="keep values of other shapes"):
        WorkerPool(gate, 1).exchange(Free())


def test_close_refuses_waiting_requests_and_waits_for_running_ones(gate):
    workers = WorkerPool(gate, 1)
    futures = [workers.submit(one(value), number) for value in (1, 2)]
    until(lambda: gate.order == [1])
    closing = in_thread(workers.close)
    with pytest.raises(ModelStateError, match="closed while this request waited"):
        futures[1].result(LONG)
    assert closing[0].is_alive()
    assert gate.closed == 0
    gate.open.release()
    assert futures[0].result(LONG) == 2
    closing[0].join(LONG)
    assert gate.closed == 1
    for call in (lambda: workers.run(one(1)), lambda: workers.submit(one(1), number)):
        with pytest.raises(ModelStateError, match="is closed"):
            call()


def test_callback_may_predict_and_close(gate):
    """It runs in the worker's thread: to wait there for a worker would be to wait for itself."""
    workers = WorkerPool(gate, 1)
    seen: list = []

    def then(future):
        seen.append(number(workers.run(one(7))))
        workers.close()

    workers.submit(one(1), number).add_done_callback(then)
    gate.open.release(2)
    until(lambda: gate.closed == 1)
    assert seen == [14]


def test_exchanged_weights_keep_the_state(gate):
    workers = WorkerPool(gate, 1)
    gate.open.release(2)
    workers.run(one(5))
    other = Gate()
    other.open.release(1)
    workers.exchange(other)
    workers.run(one(6))
    assert (gate.order, other.order) == ([5], [6])
    assert workers._workers[0]._execution.state[0].tolist() == [11]
    workers.close()
    assert (gate.closed, other.closed) == (0, 1)


def test_threads_end_with_a_forgotten_pool(gate):
    before = threading.active_count()
    workers = WorkerPool(gate, 2)
    gate.open.release(8)
    for future in [workers.submit(one(value), number) for value in range(8)]:
        future.result(LONG)
    there = weakref.ref(workers)
    del workers, future
    gc.collect()
    until(lambda: there() is None)
    until(lambda: threading.active_count() <= before)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor only")
def test_workers_run_on_their_cores_and_callers_keep_theirs():
    cores = sorted(os.sched_getaffinity(0))[:2]
    seen: list = []

    class Where(Gate):
        def compute(self, arrays, state):
            seen.append(os.sched_getaffinity(0))
            return super().compute(arrays, state)

    where = Where()
    workers = WorkerPool(where, 2, cores)
    futures = [workers.submit(one(value), number) for value in range(2)]  # in the workers' threads
    until(lambda: len(seen) == 2)
    assert sorted(seen, key=min) == [{cores[0]}, {cores[1]}]
    where.open.release(3)
    for future in futures:
        future.result(LONG)
    until(lambda: workers.stats().busy == 0)
    workers.run(one(1))  # in this thread
    assert seen[2] in ({cores[0]}, {cores[1]})
    assert os.sched_getaffinity(0) == set(cores) | os.sched_getaffinity(0)
    assert len(os.sched_getaffinity(0)) >= 2
    workers.close()


def test_many_threads_lose_no_request(gate):
    """Callers, futures, timeouts and cancellations at once: each ends in exactly one way."""
    workers = WorkerPool(gate, 3, limit=50)
    gate.open.release(100_000)
    ends: list[str] = []

    def client(seed):
        rng = np.random.default_rng(seed)
        for turn in range(200):
            value = float(rng.integers(1, 100))
            try:
                match turn % 3:
                    case 0:
                        assert number(workers.run(one(value))) == 2 * value
                    case 1:
                        assert number(workers.run(one(value), timeout=LONG)) == 2 * value
                    case _:
                        future = workers.submit(one(value), number)
                        if rng.random() < 0.5 and future.cancel():
                            ends.append("withdrawn")
                            continue
                        assert future.result(LONG) == 2 * value
                ends.append("served")
            except QueueFullError:
                ends.append("refused")

    threads = [in_thread(client, seed) for seed in range(8)]
    for thread, outcome in threads:
        thread.join(LONG)
        assert outcome == [None]
    until(lambda: workers.stats().busy == 0)  # a future is done a moment before its worker is free
    stats = workers.stats()
    assert len(ends) == 8 * 200
    assert ends.count("served") == stats.served == sum(stats.latency.counts)
    assert ends.count("withdrawn") == stats.withdrawn
    assert (stats.busy, stats.queued, stats.failed) == (0, 0, 0)
    workers.close()


def test_requests_after_an_exchange_have_the_new_weights_and_none_runs_after_the_end():
    """Callers and futures on two workers while executables are exchanged; no two requests share a worker."""

    class Version(Gate):
        def __init__(self, version):
            super().__init__()
            self.version = version

        def first_state(self):
            return [np.zeros(1, np.float32), threading.Lock()]

        def compute(self, arrays, state):
            assert state[1].acquire(blocking=False), "two requests at once"
            time.sleep(0)  # lets another thread run
            assert not self.closed
            state[1].release()
            return [np.float32([self.version])]

    known, last = 0, 200
    workers = WorkerPool(Version(known), 2)

    def client(way):
        with suppress(ModelStateError):  # at the end
            while True:
                before = known
                version = number(workers.run(one(1)) if way else workers.submit(one(1), list).result(LONG))
                assert version >= before

    threads = [in_thread(client, way) for way in (0, 1, 1)]
    with patch("pinnace.serving.pool._states", return_value=[]):  # of states, one of which is a lock here
        for version in range(1, last + 1):
            workers.exchange(Version(version))
            known = version
    workers.close()
    for thread, outcome in threads:
        thread.join(LONG)
        assert outcome == [None]


def test_callback_that_raises_costs_no_other_request(gate):
    workers = WorkerPool(gate, 1)
    first = workers.submit(one(1), number)
    first.add_done_callback(lambda _: sys.exit("by a callback"))
    gate.open.release(3)
    assert [workers.submit(one(value), number).result(LONG) for value in (2, 3)] == [4, 6]
    assert first.result(LONG) == 2
    workers.close()


def test_each_callback_may_submit_the_next(gate):
    """A chain of any length: its stack does not grow."""
    workers = WorkerPool(gate, 1)
    length = 2 * sys.getrecursionlimit()
    done = threading.Event()
    left = iter(range(1, length))

    def then(future):
        assert future.exception() is None
        value = next(left, None)
        if value is None:
            done.set()
        else:
            workers.submit(one(value), number).add_done_callback(then)

    workers.submit(one(0), number).add_done_callback(then)
    gate.open.release(length)
    assert done.wait(LONG)
    assert gate.order == list(range(length))
    workers.close()


def test_callback_may_wait_for_any_number_of_its_requests(gate):
    """Those beyond a hundred were left to a worker: the one that waited for them."""
    workers = WorkerPool(gate, 1)
    done = Future()

    def then(_):
        futures = [workers.submit(one(value), number) for value in range(150)]
        last = [workers.submit(one(value), number).result(LONG) for value in range(150)]
        done.set_result([future.result(LONG) for future in futures] + last)

    workers.submit(one(0), number).add_done_callback(then)
    gate.open.release(301)
    assert done.result(LONG) == 2 * [2 * value for value in range(150)]
    workers.close()


def test_close_waits_for_a_trial():
    """Weights that are lent are freed with the executable."""

    class Closing(Gate):
        def compute(self, arrays, state):
            closing, _ = in_thread(workers.close)
            try:
                until(lambda: workers._closed)
                closing.join(0.1)  # it would have come to the end
                seen.append(self.closed)
            finally:
                threads.append(closing)
            return [arrays[0] * 2]

    seen, threads = [], []
    workers = WorkerPool(Closing(), 1)
    assert number(workers.try_out(one(1))) == 2
    threads[0].join(LONG)
    assert (seen, workers.executable.closed) == ([0], 1)


class Ringing(Gate):
    """An executable whose requests of 1 are interrupted by a signal."""

    def compute(self, arrays, state):
        if arrays[0][0] == 1:
            signal.raise_signal(signal.SIGUSR1)
        return [arrays[0] * 2]


@pytest.mark.parametrize("timeout", [None, LONG])
def test_signal_handler_cannot_predict_on_the_worker_that_it_interrupts(timeout):
    workers, other, outcome = WorkerPool(Ringing(), 1), WorkerPool(Gate(), 1), []
    other.executable.open.release(1)

    def handler(*_):
        with pytest.raises(ModelStateError, match="interrupted another one of the same model and thread"):
            workers.run(one(3), timeout=timeout)
        outcome.append(number(other.run(one(5))))
        outcome.append(workers.stats().busy)

    workers.run(one(0))  # it is quick, so the next one runs in this thread
    until(lambda: not workers.stats().busy)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert number(workers.run(one(1))) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert outcome == [10, 1]
    assert number(workers.run(one(2))) == 4
    workers.close()
    other.close()


def test_nothing_is_tried_out_on_a_closed_model(gate):
    workers = WorkerPool(gate, 1)
    workers.close()
    with pytest.raises(ModelStateError, match="closed"):
        workers.try_out(one(1))


FORGOTTEN = """
import sys, time
from tests.serving.test_pool import Gate, in_thread, one, queued
from pinnace.serving.batching import Batching
from pinnace.serving.pool import WorkerPool

class Slow:
    def __del__(self, sleep=time.sleep, write=sys.stdout.write):
        sleep(0.3)
        write("freed")

gate = Gate()
gate.slow = Slow()
pool = WorkerPool(gate, 2)
callers = [in_thread(pool.run, one(1)) for _ in range(5)]
queued(pool, 3)
gate.open.release(5)
for thread, _ in callers:
    thread.join()
del gate, pool, callers, thread, _
"""


def test_forgotten_pool_is_freed_before_the_process_ends():
    """An engine that frees a model in a thread of an ending interpreter aborts the process."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FORGOTTEN], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "freed"), done.stderr


def test_what_all_ranks_compute_is_not_left_out_by_one():
    """Others add their part of each request to this rank's part of the same request."""
    gate = Gate()
    gate.runs_in = ALL_RANKS
    workers = WorkerPool(gate, 1)
    first = workers.submit(one(1), number)
    until(lambda: gate.order == [1])
    given = one(2)
    cancelled, last = workers.submit(given, number), workers.submit(one(3), number)
    assert cancelled.cancel()
    with pytest.raises(PredictTimeoutError):
        workers.run(one(4), timeout=0.01)
    given[0][:] = 9  # the caller's own again
    gate.open.release(4)
    assert (first.result(LONG), last.result(LONG)) == (2, 6)
    until(lambda: workers.stats().withdrawn == 2)
    assert gate.order == [1, 2, 3, 4]


def test_no_run_in_another_process_is_quick():
    """A signal handler in the main thread would leave its answer to the next request."""
    gate = Gate()
    gate.runs_in = OTHER_PROCESS
    workers = WorkerPool(gate, 1)
    gate.open.release(3)
    for _ in range(3):
        assert number(workers.run(one(1))) == 2
    assert workers._workers[0].quick == 0
    assert threading.current_thread().name not in gate.threads
