"""Replicas that are stubs: who gets a request, what a lost one costs, and the end."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest
from tests.waiting import LIMIT, in_thread, until

from pinnace.errors import DeviceUnavailableError, EngineError, ModelStateError
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.serving import processes, ranks
from pinnace.serving import replicas as module
from pinnace.serving.replicas import Replica, ReplicaLostError, ReplicaSet
from pinnace.types import DataType, Port

X = [np.ones(2, np.float32)]


class Stub(Replica):
    """Answers by twice the input, once its gate is open; `losses` and `errors` come first."""

    def __init__(self, device, losses=(), failures=()):
        super().__init__(device)
        self.losses, self.failures = list(losses), list(failures)
        self.gate, self.gone, self.starts, self.runs, self.stops = (
            threading.Event(),
            threading.Event(),
            0,
            0,
            0,
        )
        self.gate.set()
        self.freed = False

    def start(self):
        self.starts += 1
        if self.failures:
            raise self.failures.pop(0)
        self.gone.clear()
        self.pid = 100 + self.starts
        ports = [Port("x", DataType.FLOAT32, (2,)).record()]
        facts = dict.fromkeys(module._FACTS, "") | {"file": "net.onnx"}
        return {"inputs": ports, "outputs": ports, "info": facts, "private": 10, "files": 7, "keeps": 1}

    def run(self, arrays, take, execution):
        execution.stop_by(self.stop)
        self.runs += 1
        assert self.gate.wait(LIMIT)
        if self.losses:
            raise self.losses.pop(0)
        return take([2 * array for array in arrays])

    def stop(self):
        self.stops += 1

    def wait(self):
        self.gone.wait(LIMIT)

    def leave(self):
        self.gone.set()

    def end(self):
        self.gone.set()

    def free(self):
        self.freed = True


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE", 0.001)


@pytest.fixture
def replicas():
    made = []

    def make(*stubs, **options):
        made.append(ReplicaSet(stubs, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def lost(harmless=False):
    return ReplicaLostError("cpu:0: its process ended", harmless)


def test_a_request_goes_to_the_replica_with_the_least_to_do(replicas):
    one, other = Stub("cpu:0"), Stub("cpu:1")
    both = replicas(one, other, depth=2)
    one.gate.clear()
    other.gate.clear()
    threads = []
    for count in range(1, 5):
        threads.append(in_thread(both.execution().run, X))
        until(lambda count=count: one.runs + other.runs == count)
        assert abs(one.running - other.running) <= 1
    assert (one.running, other.running, both.busy) == (2, 2, 2)
    waiting, answers = in_thread(both.execution().run, X)
    one.gate.set()
    other.gate.set()
    for thread, results in (*threads, (waiting, answers)):
        thread.join(LIMIT)
        np.testing.assert_array_equal(results[0][0], [2, 2])
    assert (both.busy, both.retried, both.restarts) == (0, 0, 0)


def test_facts_are_those_of_all_replicas(replicas):
    both = replicas(Stub("cpu:0"), Stub("cpu:1"))
    assert (len(both), both.devices, both.pids) == (2, ["cpu:0", "cpu:1"], [101, 101])
    assert (both.memory, both.keeps) == ("private 20, files 7", 1)
    assert [port.name for port in (*both.inputs, *both.outputs)] == ["x", "x"]
    assert len(both.execution().state) == 1
    assert both.profile() == []


def test_a_lost_replica_is_restarted_and_its_request_computed_once_more(replicas, caplog):
    caplog.set_level("WARNING", "pinnace.serving")
    one = Stub("cpu:0", [lost()])
    alone = replicas(one)
    assert caplog.records == []
    np.testing.assert_array_equal(alone.execution().run(X)[0], [2, 2])
    assert (one.starts, alone.restarts, alone.retried) == (2, 1, 1)
    assert [record.event for record in caplog.records] == ["restarted"]


@pytest.mark.parametrize(
    ("losses", "tries", "is_answered"),
    [
        ([lost(), lost()], 2, False),
        ([lost(), lost()], 3, True),
        ([lost()], 1, False),
        ([lost(True), lost(True), lost()], 2, True),
        ([lost(True)], 1, True),
    ],
)
def test_a_request_over_which_replicas_die_fails(replicas, losses, tries, is_answered):
    alone = replicas(Stub("cpu:0", losses), tries=tries)
    if is_answered:
        assert len(alone.execution().run(X)) == 1
    else:
        with pytest.raises(DeviceUnavailableError, match="its process ended while it computed this request"):
            alone.execution().run(X)
    until(lambda: alone.pids)  # it is back
    assert alone.restarts == len(losses)


@pytest.mark.parametrize(
    "workers", [partial(ranks.workers, ["m"], Target()), partial(processes.workers, "m", [Target()])]
)
def test_another_process_does_not_die_over_the_same_request(monkeypatch, workers):
    one = Stub("cpu:0", [lost()])
    for place in (ranks, processes):
        monkeypatch.setattr(place, "processes", lambda *_: [one])
    pool = workers(Settings(), 1, None)
    with pytest.raises(DeviceUnavailableError, match="while it computed this request"):
        pool.replicas.execution().run(X)
    assert one.runs == 1
    pool.close()


def test_an_error_of_the_replica_is_the_requests_alone(replicas):
    one = Stub("cpu:0", [EngineError("wrong input")])
    alone = replicas(one)
    with pytest.raises(EngineError, match="wrong input"):
        alone.execution().run(X)
    assert len(alone.execution().run(X)) == 1
    assert (one.starts, alone.retried, one.running) == (1, 0, 0)


def test_results_go_into_given_outputs(replicas):
    given = [np.zeros(2, np.float32)]
    results = replicas(Stub("cpu:0")).execution().run(X, given)
    assert results[0] is given[0]
    np.testing.assert_array_equal(given[0], [2, 2])


def test_a_replica_that_cannot_start_again_is_tried_five_times(replicas):
    one = Stub("cpu:0", [lost(True)])
    alone = replicas(one)
    one.failures = [EngineError(f"no {number}") for number in range(9)]
    with pytest.raises(DeviceUnavailableError, match="no device is left: no 4"):
        alone.execution().run(X)
    assert one.starts == 1 + 5


def test_the_other_replica_serves_when_one_is_gone_for_good(replicas):
    one, other = Stub("cpu:0", [lost(True)]), Stub("cpu:1")
    both = replicas(one, other)
    one.failures = [OSError("no")] * 9
    for _ in range(3):
        assert len(both.execution().run(X)) == 1
    until(lambda: one.failure)
    assert both.pids == [101]


def test_the_first_failure_of_a_start_is_raised_and_all_end():
    good, bad = Stub("cpu:0"), Stub("cpu:1", failures=[EngineError("no model")])
    ended = []
    with pytest.raises(EngineError, match="no model"):
        ReplicaSet([good, bad], on_close=lambda: ended.append(True))
    assert ended == [True]
    assert good.freed
    assert bad.starts == 1


def test_a_request_waits_for_a_restart_no_longer_than_the_patience(replicas):
    one = Stub("cpu:0", [lost(True)])
    alone = replicas(one, patience=0.05)
    started = threading.Event()
    one.start = lambda: (started.wait(LIMIT), Stub.start(one))[1]
    with pytest.raises(DeviceUnavailableError, match="no device has restarted within 0 s"):
        alone.execution().run(X)
    started.set()


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (lambda alone, execution: execution.stop(), EngineError, "stopped while it waited for a device"),
        (lambda alone, execution: alone.turn_away(), ModelStateError, "closed while this request waited"),
    ],
)
def test_a_request_that_waits_for_a_device_can_be_ended(replicas, act, kind, message):
    one = Stub("cpu:0", [lost(True)])
    alone = replicas(one)
    started = threading.Event()
    one.start = lambda: (started.wait(LIMIT), Stub.start(one))[1]
    execution = alone.execution()
    thread, outcome = in_thread(execution.run, X)
    until(lambda: not alone.pids)
    act(alone, execution)
    thread.join(LIMIT)
    started.set()
    assert isinstance(outcome[0], kind)
    assert message in str(outcome[0])


def test_a_stop_reaches_the_run_and_one_that_came_before_it(replicas):
    one = Stub("cpu:0")
    alone = replicas(one)
    execution = alone.execution()
    execution.stop()
    execution.run(X)
    assert one.stops == 1
    execution.stop()
    assert one.stops == 1  # its run is over
