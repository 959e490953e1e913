"""A worker's idea of how long requests take, its counts, and the stop of a run."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from pinnace.engines.protocol import BY_SHAPES, HERE
from pinnace.errors import DataMismatchError, EngineError
from pinnace.serving import worker as module
from pinnace.serving.worker import Worker, elements
from pinnace.types import DataType, Port

MS = 1_000_000


class Execution:
    """Takes so many nanoseconds, by a clock of the test."""

    def __init__(self, clock, state=None):
        self.clock, self.state, self.error, self.stops = clock, state, None, []

    def run(self, arrays, outputs=None):
        self.clock.now += self.clock.takes
        if self.error:
            raise self.error
        return list(arrays)

    def stop(self, for_good=False):
        self.stops.append(for_good)


@pytest.fixture
def made(monkeypatch):
    """A worker of a model with the input x, and its clock."""
    clock = SimpleNamespace(now=0, takes=MS)
    monkeypatch.setattr(module, "perf_counter_ns", lambda: clock.now)

    def make(*shape, info=None):
        executable = SimpleNamespace(
            inputs=(Port("x", DataType.FLOAT32, shape),),
            info=info or {},
            runs_in=HERE,
            made=[],
            execution=lambda state=None: (
                executable.made.append(Execution(clock, state)) or executable.made[-1]
            ),
        )
        return Worker(executable, frozenset()), clock

    return make


class Request:
    """A request that somebody wants, or nobody."""

    outputs = None

    def __init__(self, *arrays, wanted=True, arrived=0):
        self.arrays, self.wanted, self.arrived = arrays, wanted, arrived
        self.results = self.error = None

    def done(self):
        return not self.wanted

    def claim(self):
        return self.wanted

    def succeed(self, results):
        self.results = results

    def fail(self, error):
        self.error = error


def floats(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("milliseconds", "quick"),
    [(1, 16), (12.4, 16), (12.5, 8), (49.9, 8), (50, 0), (60, 0)],  # a quarter of 50 ms, and 50 ms
)
def test_requests_of_known_numbers_of_elements_are_quick(made, milliseconds, quick):
    worker, clock = made(-1, 4)
    clock.takes = int(milliseconds * MS)
    worker.perform(Request(floats(2, 4)))
    assert worker.quick == quick


def test_all_requests_of_fixed_shapes_are_quick_and_a_slow_one_ends_that(made):
    worker, clock = made(2, 4)
    worker.perform(Request(floats(2, 4)))
    assert worker.quick == math.inf
    clock.takes = 50 * MS
    worker.perform(Request(floats(2, 4), arrived=clock.now))
    assert worker.quick == math.inf
    clock.takes = 51 * MS
    worker.perform(Request(floats(2, 4), arrived=clock.now))
    assert worker.quick == 0


@pytest.mark.parametrize(
    ("number", "info", "is_quick"),
    [
        (np.array(3), {}, False),
        (np.array([3], np.int32), {}, False),
        (np.array([True]), {}, False),
        (np.array([3.0], np.float32), {}, True),
        (np.array([3, 4]), {}, True),
        (np.array(3), {BY_SHAPES: "yes"}, True),
    ],
)
def test_a_number_may_be_the_rounds_of_a_loop(made, number, info, is_quick):
    worker, _ = made(-1, info=info)
    worker.perform(Request(number))
    assert bool(worker.quick) is is_quick


def test_the_log_has_the_time_and_shapes_of_each_prediction(made, caplog):
    caplog.set_level("DEBUG", "pinnace.predictions")
    worker, clock = made(-1, info={"file": "net.onnx"})
    clock.takes = 1500 * MS
    worker.perform(Request(floats(2, 3)))
    worker.executable.made[-1].error = EngineError("broken")
    worker.perform(Request(floats(2, 3)))
    first, second = (vars(record) for record in caplog.records)
    assert {
        "event": "prediction",
        "model": "net.onnx",
        "seconds": 1.5,
        "shapes": [(2, 3)],
    }.items() <= first.items()
    assert "took 1500.000 ms" in first["message"]
    failed = {"event": "prediction failed", "model": "net.onnx", "shapes": [(2, 3)], "kind": "EngineError"}
    assert failed.items() <= second.items()


def test_elements_of_all_arrays_count():
    assert elements([floats(2, 3), floats(4), floats()]) == 11


def test_results_failures_and_withdrawals_are_counted(made):
    worker, clock = made(-1)
    good, gone, bad = Request(floats(1)), Request(floats(1), wanted=False), Request(floats(1))
    worker.perform(good)
    worker.perform(gone)
    worker.executable.made[-1].error = EngineError("broken")
    worker.perform(bad)
    assert good.results is not None
    assert (gone.results, gone.error) == (None, None)
    assert str(bad.error) == "broken"
    counts = worker.counts
    assert (counts.served, counts.failed, counts.withdrawn, counts.batches) == (1, 1, 1, 0)
    assert counts.total == MS
    clock.now = 7 * MS
    worker.finish([Request(arrived=2 * MS), Request(wanted=False)], [[floats(1)], [floats(1)]])
    assert (counts.served, counts.withdrawn, counts.batches, counts.total) == (2, 2, 1, 6 * MS)


def test_a_shape_that_was_resized_away_is_said(made):
    worker, _ = made(-1, 4)
    worker.executable.made[-1].error = EngineError("broken")
    request = Request(floats(2, 5))
    worker.perform(request)
    assert isinstance(request.error, DataMismatchError)
    assert "has shape [2, 5], but the model was resized to [-1, 4]" in str(request.error)


def test_a_run_that_nobody_wants_is_stopped_once_and_the_next_has_another_execution(made):
    worker, _ = made(-1)
    (first,) = worker.executable.made
    first.state = "kept"
    wanted = [True]

    def run():
        worker.stop_unwanted()
        assert first.stops == []
        wanted[0] = False
        worker.stop_unwanted()
        worker.stop_unwanted()
        return "done"

    assert worker.watched(lambda: wanted[0], run) == "done"
    assert first.stops == [False]
    assert [one.state for one in worker.executable.made] == ["kept", "kept"]
    worker.stop_unwanted()
    worker.stop_for_good()
    assert worker.executable.made[1].stops == [True]
    worker.watched(lambda: True, lambda: None)
    assert len(worker.executable.made) == 2


def test_a_worker_is_taken_by_one_thread_and_adopts_another_executable(made):
    worker, _ = made(2)
    assert (worker.taken(), worker.taken()) == (True, False)
    assert worker.user
    worker.release()
    assert (worker.user, worker.taken()) == (0, True)
    worker.quick = 5.0
    worker.adopt(worker.executable)
    assert worker.quick == 5.0
    worker.executable.made[-1].state = "kept"
    other, _ = made(3)
    worker.adopt(other.executable)
    assert (worker.quick, other.executable.made[-1].state) == (0.0, "kept")


def test_an_attempt_is_not_counted_and_has_no_result_if_the_engine_fails(made):
    worker, _ = made(-1)
    assert len(worker.attempt([floats(1)])) == 1
    worker.executable.made[-1].error = EngineError("broken")
    assert worker.attempt([floats(1)]) is None
    assert (worker.counts.served, worker.counts.failed) == (0, 0)
