"""Predictions of some microseconds run in the event loop; all others go to a worker."""

import asyncio
import time

import numpy as np
import pytest
from tests.server import models

from pinnace.errors import DataMismatchError
from pinnace.server.metrics import Metrics
from pinnace.server.models import OpenModel
from pinnace.server.settings import ModelSettings

LONG = 60.0  # seconds: every model of this test is faster


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return a function that opens a model, which counts as brief if its shapes bound its time."""
    monkeypatch.setattr("pinnace.serving.worker._BRIEF", LONG * 1e9)
    made = []

    def one(write, **settings) -> OpenModel:
        path = write(tmp_path / "model.onnx")
        made.append(OpenModel("m", "1", path, ModelSettings(workers=1, threads=1, **settings), Metrics()))
        made[-1].warm_up()
        return made[-1]

    yield one
    for model in made:
        model.runner.close()


def ones(rows: int = 1) -> dict[str, np.ndarray]:
    return {name: np.ones((rows, 16), np.int32) for name in ("INPUT0", "INPUT1")}


def test_a_brief_model_answers_at_once_and_counts_the_request(opened):
    model = opened(models.simple)
    total, difference = model.predict_now(ones())
    assert (total == 2).all()
    assert (difference == 0).all()
    assert (model.counts.served, model.counts.queue_ns) == (1, 0)
    assert 0 < model.counts.compute_ns < LONG * 1e9
    assert time.time() - LONG < model.counts.last <= time.time()
    assert 0 < model.warm_ms < LONG * 1e3
    assert "workers x 1 threads, in process" in model.summary()


def test_larger_requests_than_those_of_the_warm_up_go_to_a_worker(opened):
    assert opened(models.simple).predict_now(ones(rows=2)) is None


def test_a_model_with_a_loop_goes_to_a_worker(opened):
    model = opened(models.rounds)
    assert model.predict_now(dict(zip((t.name for t in model.inputs), model.zeros, strict=True))) is None


def test_a_model_that_was_not_warmed_up_goes_to_a_worker(opened):
    assert opened(models.simple, warm_up=0).predict_now(ones()) is None


def test_a_model_in_a_process_of_its_own_goes_to_a_worker(opened):
    assert opened(models.simple, isolate=True).predict_now(ones()) is None


def test_a_model_on_another_device_goes_to_a_worker(opened, monkeypatch):
    monkeypatch.setenv("PINNACE_SIMULATE", "gpu:1")
    assert opened(models.simple, device="gpu").predict_now(ones()) is None


def test_a_model_that_zeros_do_not_suit_stays_cold_and_the_log_says_so(opened, caplog):
    model = opened(models.picking)
    assert model.warm_ms == 0
    assert model.predict_now(dict(zip((t.name for t in model.inputs), model.zeros, strict=True))) is None
    assert "in process" not in model.summary()
    assert "zeros do not warm it up" in caplog.text


def test_a_failure_at_once_is_counted_by_its_cause(opened):
    model = opened(models.simple)
    wrong = {name: array.astype(np.float32) for name, array in ones().items()}
    with pytest.raises(DataMismatchError):
        model.predict_now(wrong)
    assert model.counts.failures == 1
    assert model.counts.failed == {"invalid": 1}
    assert 0 < model.counts.failed_ns < LONG * 1e9


def test_a_request_counts_its_wait_and_its_run_apart(opened):
    model = opened(models.simple)
    assert model.counts.last == 0
    asyncio.run(model.predict(ones(rows=2)))
    counts = model.counts
    assert (counts.served, counts.failures) == (1, 0)
    assert 0 < counts.queue_ns < LONG * 1e9
    assert 0 < counts.compute_ns < LONG * 1e9


def test_a_model_in_use_is_closed_when_it_is_given_back(opened):
    model = opened(models.simple)

    async def used() -> None:
        with model.held():
            with model.held():
                assert model.busy
            closing = asyncio.ensure_future(model.close())
            await asyncio.sleep(0)
            assert not closing.done()
            assert model.busy
        assert not model.busy
        await closing

    asyncio.run(used())
    assert model.memory >= 1 << 18  # what the manual says of the least
