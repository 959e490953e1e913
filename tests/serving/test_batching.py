"""Requests that are computed together: what onnxruntime gives for each alone is what each must get."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace import Context, ModelParallelRunner, PinnaceWarning
from pinnace.errors import ConfigError, EngineError
from pinnace.serving import batching

W = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
LONG = 300


def model(tmp_path, nodes, shapes=(("batch", 16), ("batch", 4)), kinds=(TensorProto.FLOAT,) * 2):
    x, y = (helper.make_tensor_value_info(n, k, s) for n, k, s in zip("xy", kinds, shapes, strict=True))
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(W, "w")])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@pytest.fixture
def dense(tmp_path):
    return model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])])


def started(path, rows=8, delay=20_000, workers=1):
    context = Context(thread_num=1)
    context.parallel.workers_num = workers
    context.parallel.config_info = {"runner": {"max_batch_size": str(rows), "max_queue_delay_us": str(delay)}}
    runner = ModelParallelRunner()
    runner.build_from_file(str(path), context)
    return runner


def test_each_gets_its_own_rows(dense):
    plain = onnxruntime.InferenceSession(dense)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((1 + i % 3, 16)).astype(np.float32) for i in range(40)]
    with started(dense) as runner:
        futures = [runner.submit([x]) for x in inputs]
        for x, future in zip(inputs, futures, strict=True):
            (y,) = future.result(LONG)
            # Sums of 16 products in float32, in another order than alone.
            np.testing.assert_allclose(np.asarray(y), plain.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
        stats = runner.stats()
    assert stats.served == 40
    assert 0 < stats.batches < 40


@pytest.mark.parametrize("rows", [2, 4])
def test_a_batch_is_run_at_once_when_it_is_full(dense, rows):
    with started(dense, rows=rows, delay=60_000_000) as runner:  # a minute: nobody waits for it
        futures = [runner.submit([np.ones((1, 16), np.float32)]) for _ in range(2 * rows)]
        for future in futures:
            future.result(LONG)
        assert runner.stats().batches == 2


def test_lone_request_waits_no_longer_than_max_queue_delay(dense):
    with started(dense, delay=1000) as runner:
        (y,) = runner.predict([np.ones((1, 16), np.float32)], timeout=LONG)
        np.testing.assert_allclose(np.asarray(y)[0], W.sum(0), rtol=1e-5)
        assert runner.stats().batches == 0


def test_one_that_is_wrong_spoils_no_other(tmp_path):
    """Row i picks a row of a table: one that picks beyond its end fails, alone as in a batch."""
    path = model(
        tmp_path,
        [helper.make_node("Gather", ["w", "x"], ["y"])],
        (("batch",), ("batch", 4)),
        (TensorProto.INT64, TensorProto.FLOAT),
    )
    with started(path, rows=8) as runner:
        futures = [runner.submit([np.array([row])]) for row in (0, 1, 99, 3, 4)]
        for row, future in zip((0, 1, 99, 3, 4), futures, strict=True):
            if row == 99:
                with pytest.raises(EngineError, match="indices element out of data bounds"):
                    future.result(LONG)
            else:
                np.testing.assert_array_equal(np.asarray(future.result(LONG)[0]), W[[row]])
        stats = runner.stats()
    assert (stats.served, stats.failed) == (4, 1)


def test_shapes_that_differ_are_not_joined(tmp_path):
    path = model(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], (("n", "m"), ("n", "m")))
    with started(path) as runner:
        inputs = [np.full((1, width), width, np.float32) for width in (3, 3, 5, 5, 3)]
        futures = [runner.submit([x]) for x in inputs]
        for x, future in zip(inputs, futures, strict=True):
            np.testing.assert_array_equal(np.asarray(future.result(LONG)[0]), x)


def test_results_that_are_no_rows_end_the_batching(tmp_path):
    path = model(tmp_path, [helper.make_node("NonZero", ["x"], ["y"])], (("n", 16), ("k", "m")),
                 (TensorProto.FLOAT, TensorProto.INT64))  # fmt: skip
    x = np.eye(1, 16, dtype=np.float32)
    with started(path, delay=1_000_000) as runner:
        with pytest.warns(PinnaceWarning, match="one by one"):
            results = [future.result(LONG) for future in [runner.submit([x]) for _ in range(8)]]
        for (positions,) in results:
            np.testing.assert_array_equal(np.asarray(positions), [[0], [0]])


ROWS_THAT_DEPEND = {
    "a softmax over the batch": "y = Softmax<axis=0>(x)",
    "the mean of all": "m = ReduceMean<keepdims=1>(x) y = Sub(x, m)",
    "sums of the rows before": "zero = Constant<value_int=0>() y = CumSum(x, zero)",
    "one scale of 8 bits": "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)",
}


@pytest.mark.parametrize("nodes", ROWS_THAT_DEPEND.values(), ids=ROWS_THAT_DEPEND)
def test_rows_that_depend_on_those_of_others_end_the_batching(tmp_path, nodes):
    path, rng = tmp_path / "model.onnx", np.random.default_rng(0)
    text = f'<ir_version: 8, opset_import: ["": 13]> g (float[n, 16] x) => (float[n, 16] y) {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), path)
    inputs = [rng.standard_normal((1, 16)).astype(np.float32) * scale for scale in (0.01, 100, 1, 10)]
    plain = onnxruntime.InferenceSession(path)
    with started(path, delay=1_000_000) as runner:
        with pytest.warns(
            PinnaceWarning, match="one by one from now on: a request got other rows than alone"
        ):
            results = [future.result(LONG) for future in [runner.submit([x]) for x in inputs]]
        for x, (y,) in zip(inputs, results, strict=True):
            np.testing.assert_array_equal(np.asarray(y), plain.run(None, {"x": x})[0])
        assert runner.stats().batches == 0


def test_rows_that_come_to_depend_on_others_are_noticed_later(tmp_path):
    """Only values above 100 do; every second power of 2 of batches is compared with single requests."""
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[n, 16] x) => (float[n, 16] y) {
        limit = Constant<value_float=100.0>() m = ReduceMax<keepdims=0>(x) high = Greater(m, limit)
        y = If(high) <then_branch = t () => (float[n, 16] a) { a = Softmax<axis=0>(x) },
                      else_branch = e () => (float[n, 16] b) { b = Relu(x) }> }"""
    path, small, large = tmp_path / "m.onnx", np.ones((1, 16), np.float32), np.full((1, 16), 200, np.float32)
    onnx.save(onnx.parser.parse_model(text), path)
    with started(path, rows=2, delay=1_000_000) as runner:

        def predict_pairs(x, count):
            for _ in range(count):
                for future in [runner.submit([x]) for _ in range(2)]:
                    future.result(LONG)

        predict_pairs(small, 3)
        with pytest.warns(PinnaceWarning, match="one by one"):
            predict_pairs(large, 5)
        np.testing.assert_array_equal(np.asarray(runner.submit([large]).result(LONG)[0]), 1)


def test_models_that_cannot_say_why(tmp_path):
    fixed = model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], ((1, 16), (1, 4)))
    with pytest.raises(ConfigError, match=r"first dimension of 'x' is not free \(\[1, 16\]\)"):
        started(fixed)


def test_cancelled_while_its_batch_gathers(dense):
    with started(dense, rows=4, delay=60_000_000) as runner:
        futures = [runner.submit([np.ones((1, 16), np.float32)]) for _ in range(3)]
        done = threading.Event()
        futures[1].cancel()
        last = runner.submit([np.ones((1, 16), np.float32)])
        last.add_done_callback(lambda _: done.set())
        runner.submit([np.ones((1, 16), np.float32)])
        assert done.wait(LONG)
        assert futures[0].done()


@pytest.mark.parametrize("part", ["joined", "split"])
def test_no_memory_for_a_batch(dense, monkeypatch, part):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(batching, part, fail)
    with started(dense, rows=4, delay=60_000_000) as runner:
        futures = [runner.submit([np.full((1, 16), i, np.float32)]) for i in range(4)]
        for i, future in enumerate(futures):
            wanted = i * W.sum(axis=0, keepdims=True)
            # Sums of 16 products in float32, in another order.
            np.testing.assert_allclose(np.asarray(future.result(LONG)[0]), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_costs_no_request(tmp_path):
    path = model(tmp_path, [helper.make_node("NonZero", ["x"], ["y"])], (("n", 16), ("k", "m")),
                 (TensorProto.FLOAT, TensorProto.INT64))  # fmt: skip
    x = np.eye(1, 16, dtype=np.float32)
    with started(path, rows=4, delay=60_000_000) as runner:
        for future in [runner.submit([x]) for _ in range(4)]:
            np.testing.assert_array_equal(np.asarray(future.result(LONG)[0]), [[0], [0]])


def asked(*shapes):
    return SimpleNamespace(arrays=[np.zeros(shape) for shape in shapes])


def test_rows_of_a_request_are_those_of_all_its_inputs():
    assert batching.rows_of(asked((3, 2), (3,))) == 3
    assert batching.rows_of(asked((3, 2), (2,))) == 0
    assert batching.rows_of(asked((0, 2))) == 0
    assert batching.rows_of(SimpleNamespace(arrays=[object()])) == 0  # in memory of a device


@pytest.mark.parametrize(
    ("first", "waiting", "taken", "is_open"),
    [
        (2, [2, 3], 2, True), (2, [2, 4], 2, False), (2, [2, 5], 1, False), (8, [1], 0, False),
        (9, [], 0, False), (3, [], 0, True), (0, [1], 0, False), (2, [0, 1], 0, False),
    ],
)  # fmt: skip
def test_requests_join_in_their_order_until_one_does_not_fit(first, waiting, taken, is_open):
    batch, queue = [asked((first, 4))], deque(asked((rows, 4)) for rows in waiting)
    assert batching.Batching(8, 0).extend(batch, queue) is is_open
    assert len(batch) - 1 == taken


def test_requests_of_other_shapes_do_not_join():
    batch, queue = [asked((2, 4))], deque([asked((2, 5))])
    assert batching.Batching(8, 0).extend(batch, queue) is False
    assert len(queue) == 1


def test_results_are_split_into_copies_of_the_rows_of_each():
    requests = [asked((2, 4)), asked((1, 4))]
    result = np.arange(6).reshape(3, 2)
    first, second = batching.split([result], requests)
    assert (first[0].tolist(), second[0].tolist()) == ([[0, 1], [2, 3]], [[4, 5]])
    assert not np.shares_memory(first[0], result)
    for wrong in (np.zeros((2, 2)), np.zeros(())):
        with pytest.raises(EngineError, match="3 rows were given"):
            batching.split([result, wrong], requests)
