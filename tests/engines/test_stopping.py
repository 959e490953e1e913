"""Predictions that run and that nobody waits for any more."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import CancelledError
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.waiting import LIMIT, in_thread, until

from pinnace import Context, Model, ModelParallelRunner, PredictTimeoutError
from pinnace.building.build import build_model as build
from pinnace.errors import EngineError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

X = np.arange(3, dtype=np.float32)
ENDLESS = [np.array(1 << 62), X]


def by_timeout(model):
    with pytest.raises(PredictTimeoutError, match="was running when its timeout"):
        model.predict(ENDLESS, timeout=0.05)


def by_timeout_of_a_future(model):
    with pytest.raises(PredictTimeoutError, match="was running when its timeout"):
        model.submit(ENDLESS, timeout=0.05).result(LIMIT)


def by_timeout_of_a_coroutine(model):
    with pytest.raises(PredictTimeoutError, match="was running when its timeout"):
        asyncio.run(model.apredict(ENDLESS, timeout=0.05))


def by_cancel(model):
    future = model.submit(ENDLESS)
    until(future.running)
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result()


def by_the_end_of_a_task(model):
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(model.apredict(ENDLESS), 0.05))


def by_interrupt(model):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else nothing ends the run
    ringing, _ = in_thread(lambda: (until(lambda: model.stats().busy), os.kill(os.getpid(), signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt):
        model.predict(ENDLESS)
    ringing.join(LIMIT)


WAYS = [by_timeout, by_timeout_of_a_future, by_timeout_of_a_coroutine, by_cancel, by_the_end_of_a_task]


@pytest.mark.parametrize("kind", [Model, ModelParallelRunner])
def test_a_run_for_nobody_ends_and_the_next_is_right(endless, kind):
    context = Context(thread_num=1)
    if kind is ModelParallelRunner:
        context.parallel.workers_num = 1
    with kind(endless, context) as model:
        for count, way in enumerate([*WAYS, by_interrupt], 1):
            way(model)
            until(lambda: not model.stats().busy)
            stats = model.stats()
            assert (stats.withdrawn, stats.failed, stats.served) == (count, 0, count - 1)
            np.testing.assert_array_equal(np.asarray(model.predict([np.array(2), X])[0]), X + 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_openvino_stops_a_run_and_the_next_is_right(tmp_path, threads):
    pytest.importorskip("openvino")
    rng, names = np.random.default_rng(0), ["x", *(f"h{i}" for i in range(400)), "y"]
    weights = rng.normal(size=(512, 512)).astype(np.float32) / 24
    graph = helper.make_graph(
        [helper.make_node("MatMul", [a, "w"], [b]) for a, b in pairwise(names)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [256, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [256, 512])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    path = str(tmp_path / "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    executable = build(path, None, Target(threads=threads, provider="openvino"), Settings())
    x = rng.normal(size=(256, 512)).astype(np.float32)
    right = executable.execution().run([x])[0].copy()
    stopped = executable.execution()
    infer, begun = stopped._infer, []
    stopped._infer = lambda: (begun.append(True), infer())
    running, outcome = in_thread(stopped.run, [x])
    until(lambda: begun)
    while running.is_alive():  # it may not have begun at the first
        stopped.stop()
    assert isinstance(outcome[0], EngineError)
    np.testing.assert_array_equal(executable.execution().run([x])[0], right)
    executable.close()
