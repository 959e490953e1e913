"""One model on several processes, beside onnxruntime in this one."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import Future
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.waiting import is_alive, until

import pinnace
from pinnace import DataParallel
from pinnace.errors import (
    ArgumentValueError,
    ConfigError,
    DataMismatchError,
    DeviceUnavailableError,
    EngineError,
    ModelFormatError,
    ModelStateError,
    PredictTimeoutError,
    UnsupportedModelError,
)
from pinnace.serving import processes, replicas
from pinnace.serving.splitting import SharedCounts, SplitPlan, SplitRequest
from pinnace.tensors.outputs import OutputPorts
from pinnace.types import DataType, Port

WAIT = 300  # seconds after which something hangs
WIDTH = 48

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True, scope="module")
def _simulated():
    patch = pytest.MonkeyPatch()
    patch.setenv("PINNACE_SIMULATE", "ascend:2")
    yield
    patch.undo()


def on_ascend():
    context = pinnace.Context()
    context.target = ["ascend"]
    return context


def saved(path, nodes, inputs, outputs, initializers=()):
    def value(name, shape, dtype=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, dtype, shape)

    graph = helper.make_graph(
        nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], list(initializers)
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return str(path)


def weights():
    values = np.random.default_rng(3).normal(size=(WIDTH, WIDTH)).astype(np.float32) / 7
    return [helper.make_tensor("w", TensorProto.FLOAT, values.shape, values.ravel())]


def layers(count):
    """x is multiplied by w, `count` times, and a step is added."""
    names = ["x", *(f"h{i}" for i in range(count))]
    products = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in pairwise(names)]
    return [*products, helper.make_node("Add", [names[-1], "step"], ["y"])]


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    """A model with a free batch; its second output has none."""
    nodes = [*layers(2), helper.make_node("Add", ["step", "step"], ["twice"])]
    path = tmp_path_factory.mktemp("models") / "free.onnx"
    inputs = [("x", ["n", WIDTH]), ("step", [1])]
    return saved(path, nodes, inputs, [("y", ["n", WIDTH]), ("twice", [1])], weights())


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """As above, and computes for some milliseconds a row of many."""
    path = tmp_path_factory.mktemp("models") / "slow.onnx"
    return saved(path, layers(40), [("x", ["n", WIDTH]), ("step", [1])], [("y", ["n", WIDTH])], weights())


@pytest.fixture(scope="module")
def two(free):
    with DataParallel(free, on_ascend()) as model:
        yield model


@pytest.fixture(scope="module")
def busy(slow):
    with DataParallel(slow, on_ascend()) as model:
        yield model


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)


STEP = np.array([0.5], np.float32)


def oracle(path, **inputs):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)


def check(outputs, wanted):
    assert len(outputs) == len(wanted)
    for output, right in zip(outputs, wanted, strict=True):
        # a product of fewer rows may be summed in another order
        np.testing.assert_allclose(output.get_data_to_numpy(), right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_a_batch_is_split_and_joined_in_order(two, free, count):
    x = rows(count)
    check(two.predict([x, STEP]), oracle(free, x=x, step=STEP))


def test_it_is_described(two):
    assert "ascend:0 (simulated on core" in str(two)
    assert two.get_model_info("device").count("simulated") == 2
    assert [(t.name, t.shape) for t in two.get_inputs()] == [("x", [-1, WIDTH]), ("step", [1])]
    assert [(t.name, t.shape) for t in two.get_outputs()] == [("y", [-1, WIDTH]), ("twice", [1])]
    assert two.get_model_info("engine")
    assert len(set(two.pids)) == 2
    assert os.getpid() not in two.pids


def test_tensors_go_in_as_well(two, free):
    x = rows(3)
    check(two.predict([pinnace.Tensor(x), pinnace.Tensor(STEP)]), oracle(free, x=x, step=STEP))


def test_many_requests_at_a_time(two, free):
    given = [rows(1 + i % 7, i) for i in range(60)]
    futures = [two.submit([x, STEP]) for x in given]
    for x, future in zip(given, futures, strict=True):
        check(future.result(WAIT), oracle(free, x=x, step=STEP))
    served = two.stats()
    assert served.failed == served.queued == served.busy == served.restarts == 0
    assert served.served >= 60
    assert served.latency.mean > 0


def test_wrong_inputs(two):
    with pytest.raises(DataMismatchError, match="'x' must have shape"):
        two.predict([rows(2)[:, :3], STEP])
    with pytest.raises(DataMismatchError, match=r"must be DataType\.FLOAT32"):
        two.predict([rows(2).astype(np.float64), STEP])
    with pytest.raises(DataMismatchError, match="2 inputs"):
        two.predict([rows(2)])


# -- how requests are split, without processes -----------------------------------------------------------


def computed(path, inputs, outputs, arrays, devices=2, axis=0, split=None):
    """What onnxruntime makes of the parts of a request, joined."""
    plan = SplitPlan.of(inputs, outputs, axis, split)
    request = SplitRequest(plan, arrays, devices, OutputPorts(outputs), SharedCounts(), None)
    for part in reversed(request.parts):
        named = {port.name: np.ascontiguousarray(a) for port, a in zip(inputs, part.arrays, strict=True)}
        part.take(oracle(path, **named))()
    return [tensor.get_data_to_numpy() for tensor in request.result(0)], len(request.parts)


def port(name, *shape):
    return Port(name, DataType.FLOAT32, shape)


def test_a_fixed_batch_takes_multiples(tmp_path):
    """As in the document: sample and states have a row each, the step goes to all."""
    nodes = [
        helper.make_node("Mul", ["sample", "timestep"], ["moved"]),
        helper.make_node("MatMul", ["moved", "states"], ["out"]),
    ]

    def model(batch):
        inputs = [("sample", [batch, 4, 3]), ("timestep", [1]), ("states", [batch, 3, 2])]
        return saved(tmp_path / f"{batch}.onnx", nodes, inputs, [("out", [batch, 4, 2])])

    random = np.random.default_rng(1)
    sample, states = (random.normal(size=s).astype(np.float32) for s in ((4, 4, 3), (4, 3, 2)))
    right = oracle(model(4), sample=sample, timestep=STEP, states=states)
    inputs = [port("sample", 1, 4, 3), port("timestep", 1), port("states", 1, 3, 2)]
    outputs = [port("out", 1, 4, 2)]
    results, parts = computed(model(1), inputs, outputs, [sample, STEP, states])
    np.testing.assert_allclose(results, right, rtol=1e-6)  # sums of three
    assert parts == 4
    with pytest.raises(DataMismatchError, match="'states' has 3 rows at axis 0, but 'sample' has 4"):
        computed("", inputs, outputs, [sample, STEP, states[:3]])
    with pytest.raises(DataMismatchError, match="2 rows at a time, but 3 is not a multiple"):
        computed("", [port("x", 2)], [port("y", 2)], [np.ones(3, np.float32)])


def test_another_axis_and_inputs_by_name(tmp_path):
    """`table` has a free second dimension as well, of the same size in the data, and is for all."""
    nodes = [helper.make_node("MatMul", ["table", "x"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, [("table", [3, "k"]), ("x", ["k", "n"])], [("y", [3, "n"])])
    inputs, outputs = [port("table", 3, -1), port("x", -1, -1)], [port("y", 3, -1)]
    table, x = rows(3)[:, :5], rows(5, 1)[:, :5]
    results, parts = computed(path, inputs, outputs, [table, x], axis=1, split=["x"])
    np.testing.assert_allclose(results[0], table @ x, rtol=1e-5)  # sums of five
    assert parts == 2
    with pytest.raises(ArgumentValueError, match="split names 'z', but the inputs are table, x"):
        SplitPlan.of(inputs, outputs, 0, ["z"])
    with pytest.raises(ArgumentValueError, match="axis 2: no input of the model has"):
        SplitPlan.of(inputs, outputs, 2, None)
    with pytest.raises(ArgumentValueError, match="axis 2: not all of x have"):
        SplitPlan.of(inputs, outputs, 2, ["x"])
    with pytest.raises(ArgumentValueError, match="different sizes at axis 0"):
        SplitPlan.of(inputs, outputs, 0, ["table", "x"])


@pytest.mark.parametrize(
    ("total", "devices", "sizes"), [(7, 3, [3, 2, 2]), (2, 3, [1, 1]), (0, 2, [0]), (4, 2, [2, 2])]
)
def test_uneven_parts(total, devices, sizes):
    plan = SplitPlan.of([port("x", -1, 2)], [port("y", -1)], 0, None)
    parts = plan.parts([np.zeros((total, 2), np.float32)], devices)
    assert [end - begin for begin, end, _ in parts] == sizes


def test_ports_of_any_rank(tmp_path):
    """An input of any rank goes to all, an output of any rank is joined where it has rows."""
    nodes = [helper.make_node("Add", ["x", "s"], ["y"])]
    path = saved(tmp_path / "any.onnx", nodes, [("x", ["n", WIDTH]), ("s", None)], [("y", None)])
    plan = SplitPlan.of([port("s", -2), port("x", -1, WIDTH)], [port("y", -2)], 0, None)
    assert (plan.candidates, plan.joined, plan.shapes) == ((False, True), (True,), ((-2,), (-1, WIDTH)))
    x = rows(3)
    results, parts = computed(path, [port("s", -2), port("x", -1, WIDTH)], [port("y", -2)], [STEP, x])
    np.testing.assert_array_equal(results[0], x + STEP)
    assert parts == 2


def test_results_that_depend_on_all_rows_cannot_be_joined(tmp_path):
    nodes = [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)]
    path = saved(tmp_path / "sum.onnx", nodes, [("x", ["n", WIDTH])], [("y", [])])
    with pytest.raises(DataMismatchError, match="'y' has no batch"):
        computed(path, [port("x", -1, WIDTH)], [port("y")], [rows(2)])


# -- errors of engines -----------------------------------------------------------------------------------


def test_an_engine_that_fails_tells_which_device(tmp_path, caplog):
    caplog.set_level(logging.INFO, "pinnace")
    nodes = [helper.make_node("Gather", ["table", "i"], ["y"])]
    table = helper.make_tensor("table", TensorProto.FLOAT, [3], [1, 2, 3])
    path = saved(tmp_path / "g.onnx", nodes, [("i", ["n"], TensorProto.INT64)], [("y", ["n"])], [table])
    with DataParallel(path, on_ascend(), device_ids=[1]) as model:
        (built,) = [record.getMessage() for record in caplog.records if record.name == "pinnace.build"]
        assert built.startswith(f"{path}: engine onnxruntime")
        assert "cache written" in built
        assert model.get_model_info("cache") == "written"
        assert "devices ascend:1" in built
        caplog.clear()
        with pytest.raises(EngineError, match=r"ascend:1 \(simulated.*onnxruntime"):
            model.predict([np.array([0, 7])], timeout=WAIT)
        (failed,) = [record.getMessage() for record in caplog.records if record.name == "pinnace.predictions"]
        assert failed.startswith("a prediction failed, inputs of shapes [(")
        np.testing.assert_array_equal(model.predict([np.array([2, 0])])[0].get_data_to_numpy(), [3, 1])
        assert (model.stats().failed, model.stats().restarts) == (1, 0)


# -- processes that die ----------------------------------------------------------------------------------


def test_the_death_of_a_process_costs_no_request(busy, slow):
    x = rows(512)
    (right,) = oracle(slow, x=x, step=STEP)
    futures = [busy.submit([x, STEP]) for _ in range(60)]
    first, _ = busy.pids
    os.kill(first, signal.SIGKILL)
    for future in futures:
        check(future.result(WAIT), [right])
    until(lambda: len(busy.pids) == 2 and first not in busy.pids)
    assert busy.stats().restarts == 1
    check(busy.predict([x, STEP], timeout=WAIT), [right])


def test_a_request_over_which_two_processes_die_fails_with_the_cause(busy, slow):
    future = busy.submit([rows(200_000), STEP])
    while not future.done():
        until(lambda: busy.stats().busy or future.done())
        for pid in busy.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with pytest.raises(DeviceUnavailableError, match="was killed by SIGKILL while it computed"):
        future.result(WAIT)
    until(lambda: len(busy.pids) == 2)
    x = rows(3)
    check(busy.predict([x, STEP], timeout=WAIT), oracle(slow, x=x, step=STEP))


def test_a_time_limit(busy, slow):
    with pytest.raises(PredictTimeoutError):
        busy.predict([rows(200_000), STEP], timeout=0.001)
    x = rows(2)
    check(busy.predict([x, STEP], timeout=WAIT), oracle(slow, x=x, step=STEP))
    until(lambda: not busy.stats().busy)  # the one that was given up, whose results are mapped at its end


def test_run_is_stopped_when_its_request_is_given_up_and_the_next_is_not(endless):
    """The second may be in the device's process, and must not begin there."""
    x = np.arange(4, dtype=np.float32)
    long, short = [np.array(1 << 62), x], [np.array(2), x]
    with DataParallel(endless, on_ascend(), split=["x"]) as two:
        pids = two.pids
        first, second = (two.submit(long) for _ in range(2))
        until(first.running)
        last = two.submit(short)
        assert second.cancel()
        assert first.cancel()
        check(last.result(WAIT), [x + 2])
        with pytest.raises(PredictTimeoutError, match=r"when its timeout of 0\.05 s expired"):
            two.submit(long, timeout=0.05).result(WAIT)
        with pytest.raises(PredictTimeoutError, match=r"when its timeout of 0\.05 s expired"):
            two.predict(long, timeout=0.05)
        check(two.predict(short), [x + 2])
        stats = two.stats()
        assert (stats.withdrawn, stats.served, stats.failed, stats.restarts) == (4, 2, 0, 0)
        assert two.pids == pids


def test_done_just_when_the_time_is_over(two, free, monkeypatch):
    """Between the end of the waiting and the look at what became of it."""

    def late(request, timeout=None):
        result = Future.result(request, WAIT)
        if timeout == 0.5:
            raise TimeoutError
        return result

    monkeypatch.setattr(SplitRequest, "result", late)
    x = rows(2)
    check(two.predict([x, STEP], timeout=0.5), oracle(free, x=x, step=STEP))


def test_devices_that_cannot_be_started_again(free, monkeypatch):
    monkeypatch.setattr(replicas, "_PAUSE", 0.001)
    with DataParallel(free, on_ascend()) as model:
        monkeypatch.setattr(processes, "_CHILD", "import sys; sys.exit('there is no way')")
        for pid in model.pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not model.pids)
        with pytest.raises(DeviceUnavailableError, match=r"no device is left.*there is no way"):
            model.predict([rows(2), STEP], timeout=WAIT)


def test_close_turns_away_what_waits(slow):
    model = DataParallel(slow, on_ascend())
    pids = model.pids
    x = rows(20_000)
    futures = [model.submit([x, STEP]) for _ in range(50)]  # some seconds of work
    until(lambda: model.stats().busy == 2)
    model.close()
    model.close()
    done = [future.exception(WAIT) for future in futures]
    assert done[0] is None
    assert isinstance(done[-1], ModelStateError)
    with pytest.raises(ModelStateError, match="closed"):
        model.predict([rows(2), STEP])
    assert not any(map(is_alive, pids))


def named_shared_memory(pid):
    """Files in /dev/shm that a process has open or mapped."""
    found = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(path))
    return [one for one in found if "/dev/shm/" in one]


def leaves_nothing(free):
    def held():
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:pinnace")
        return len(os.listdir("/proc/self/fd")), threading.active_count(), mapped

    DataParallel(free, on_ascend()).close()  # what is made once, such as the files of libraries
    before = held()
    model = DataParallel(free, on_ascend())
    pids = model.pids
    model.predict([rows(4), STEP])
    # shared memory with a name would outlive whoever is killed
    assert not any(map(named_shared_memory, (os.getpid(), *pids)))
    os.kill(pids[0], signal.SIGKILL)
    until(lambda model=model: len(model.pids) == 2 and pids[0] not in model.pids)
    pids += model.pids
    model.predict([rows(4), STEP], timeout=WAIT)
    model.close()
    until(lambda: held() == before)  # while the closed model is still referred to
    del model
    gc.collect()
    until(lambda: not any(map(is_alive, pids)))
    until(lambda: held() == before)


def test_nothing_is_left(free):
    """In a process of its own, where no request of another test runs on."""
    code = f"from tests.api.test_data_parallel import leaves_nothing; leaves_nothing({free!r})"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


def test_finished_request_is_not_held(two):
    """Threads that wait for the next request kept data of the last one, and by its callbacks the model."""

    class Mine:
        pass

    mine, inputs, called = Mine(), [rows(4), STEP], threading.Event()
    held = [weakref.ref(mine), weakref.ref(inputs[0])]
    future = two.submit(inputs)
    future.add_done_callback(lambda _, mine=mine: called.set())
    assert called.wait(WAIT)
    held += [weakref.ref(future)]
    del mine, inputs, future
    until(lambda: gc.collect() >= 0 and not any(ref() for ref in held))


def test_closed_by_a_callback_of_its_own(free):
    model = DataParallel(free, on_ascend(), device_ids=[0])
    pids = model.pids
    future = model.submit([rows(4), STEP])
    future.add_done_callback(lambda _: model.close())
    future.result(WAIT)
    until(lambda: not any(map(is_alive, pids)))


def test_a_callback_that_raises_anything_costs_no_other_request(free):
    x = rows(4)
    with DataParallel(free, on_ascend(), device_ids=[0]) as model:
        for _ in range(3):
            # A future that is done already calls back here, in the test's own thread.
            with suppress(SystemExit):
                model.submit([x, STEP]).add_done_callback(lambda _: sys.exit("by a callback"))
        check(model.predict([x, STEP], timeout=WAIT), oracle(free, x=x, step=STEP))


@pytest.mark.parametrize("again", ["predict", "submit"])
def test_predictions_within_callbacks(free, again):
    """The thread that hears what processes answer must not be the one that waits for an answer."""
    x = rows(4)
    with DataParallel(free, on_ascend()) as model:

        def predict(future):
            inputs = [x, STEP]
            done.set_result(
                model.predict(inputs, WAIT) if again == "predict" else model.submit(inputs).result(WAIT)
            )

        done = Future()
        model.submit([x, STEP]).add_done_callback(predict)
        check(done.result(2 * WAIT), oracle(free, x=x, step=STEP))


def test_processes_end_with_the_one_that_started_them(free):
    code = f"""
import os, signal, pinnace
context = pinnace.Context()
context.target = ["ascend"]
model = pinnace.DataParallel({free!r}, context)
print(*model.pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = list(map(int, done.stdout.split()))
    assert len(pids) == 2
    until(lambda: not any(map(is_alive, pids)))


def test_processes_end_though_a_forked_child_lives_on(free):
    """It had the sockets whose end tells them that nobody is there."""
    code = f"""
import os, signal, pinnace
context = pinnace.Context()
context.target = ["ascend"]
model = pinnace.DataParallel({free!r}, context)
child = os.fork()
if not child:
    signal.pause()
print(child, *model.pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child, *pids = map(int, parent.stdout.readline().split())
        assert parent.wait(WAIT) == -signal.SIGKILL
        try:
            assert len(pids) == 2
            until(lambda: not any(map(is_alive, pids)))
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("available", range(2))
def test_without_threads_no_process_stays(free, monkeypatch, available):
    started = []

    class Scarce(threading.Thread):
        def start(self):
            if self.name.startswith("pinnace-"):
                if len(started) == available:
                    raise RuntimeError("can't start new thread")
                started.append(self)
            super().start()

    spawned, spawn = [], subprocess.Popen

    def spawning(*arguments, **options):
        spawned.append(spawn(*arguments, **options))
        return spawned[-1]

    monkeypatch.setattr(threading, "Thread", Scarce)
    monkeypatch.setattr(subprocess, "Popen", spawning)
    with pytest.raises(DeviceUnavailableError, match=r"ascend:1.*can't start new thread"):
        DataParallel(free, on_ascend())
    assert len(spawned) <= available
    assert not any(is_alive(process.pid) for process in spawned)
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_shared_memory_that_the_system_refuses(two, free, monkeypatch, side):
    class Full:
        def views(self, shapes, dtypes):
            raise OSError(errno.EMFILE, "Too many open files")

    for replica in two._replicas._replicas:
        for slot in replica._slots:
            monkeypatch.setattr(slot, side, Full())
    x = rows(4)
    with pytest.raises(EngineError, match=r"ascend:\d .*Too many open files"):
        two.predict([x, STEP], timeout=WAIT)
    monkeypatch.undo()
    check(two.predict([x, STEP], timeout=WAIT), oracle(free, x=x, step=STEP))


@pytest.mark.parametrize("what", ["Slot", "Channel"])
def test_too_many_open_files(free, monkeypatch, what):
    class Full:
        def __init__(self):
            raise OSError(errno.EMFILE, "Too many open files")

        pair = classmethod(__init__)

    monkeypatch.setattr(processes, what, Full)
    with pytest.raises(DeviceUnavailableError, match=r"ascend:0 .*cannot be started.*Too many open files"):
        DataParallel(free, on_ascend())


# -- what goes wrong before ------------------------------------------------------------------------------


def test_failures_at_the_start_are_those_of_the_process(tmp_path, monkeypatch, data, free):
    with pytest.raises(ModelFormatError, match="does not exist"):
        DataParallel(str(tmp_path / "none.onnx"))
    (tmp_path / "bad.onnx").write_bytes(b"no model at all")
    with pytest.raises(ModelFormatError, match=r"ascend:0 \(simulated.*bad.onnx"):
        DataParallel(str(tmp_path / "bad.onnx"), on_ascend(), device_ids=[0])
    nodes = [helper.make_node("NoSuch", ["x"], ["y"])]
    strange = saved(tmp_path / "strange.onnx", nodes, [("x", [1])], [("y", [1])])
    with pytest.raises(UnsupportedModelError, match="NoSuch x1") as caught:
        DataParallel(strange, on_ascend(), device_ids=[0])
    assert caught.value.primitives[0].name == "NoSuch"
    monkeypatch.setattr(processes, "_CHILD", "import os; os.abort()")
    with pytest.raises(DeviceUnavailableError, match="killed by SIGABRT before it was ready"):
        DataParallel(free, on_ascend())


_LATE = "import json, os, sys; os.write(json.loads(sys.argv[1])['stderr'], b'it is late'); os.abort()"


@pytest.mark.parametrize("is_open", [True, False])
def test_processes_write_to_stderr_where_there_is_one(free, monkeypatch, capfd, is_open):
    def closed(descriptor):
        raise OSError(errno.EBADF, f"{descriptor} is closed")

    monkeypatch.setattr(processes, "_CHILD", _LATE)
    if not is_open:
        monkeypatch.setattr(os, "dup", closed)
    with pytest.raises(DeviceUnavailableError, match="killed by SIGABRT"):
        DataParallel(free, on_ascend(), device_ids=[0])
    monkeypatch.undo()
    assert ("it is late" in capfd.readouterr().err) is is_open


def test_long_things_are_told(tmp_path, monkeypatch):
    """Options of a megabyte go to the process, and user info of a megabyte comes back; or it has died."""
    nodes = [helper.make_node("Neg", ["x"], ["y"], name="last")]
    path = saved(tmp_path / "long.onnx", nodes, [("x", ["n"])], [("y", ["n"])])
    model = onnx.load(path)
    helper.set_model_props(model, {"history": "long " * 200_000})
    onnx.save(model, path)
    options = {"execution_plan": {f"node_{i}": "data_type:float32" for i in range(20_000)}}
    with DataParallel(path, on_ascend(), config_dict=options) as both:
        assert both.get_model_info("history") == "long " * 200_000
        check(both.predict([np.ones(4, np.float32)]), [-np.ones(4, np.float32)])
    monkeypatch.setattr(processes, "_CHILD", "import os; os.abort()")
    with pytest.raises(DeviceUnavailableError, match="killed by SIGABRT before it was ready"):
        DataParallel(path, on_ascend(), config_dict=options)


def test_wrong_devices(free):
    with pytest.raises(DeviceUnavailableError, match="ascend:2 is not available"):
        DataParallel(free, on_ascend(), device_ids=[0, 2])
    with pytest.raises(ConfigError, match="none twice"):
        DataParallel(free, on_ascend(), device_ids=[1, 1])
    with pytest.raises(DeviceUnavailableError, match="the CPU is one device, 0"):
        DataParallel(free, device_ids=[0, 1])
    context = pinnace.Context()
    context.target = ["gpu"]
    with pytest.raises(DeviceUnavailableError, match=r"no device of the kind 'gpu' can be used: \S"):
        DataParallel(free, context)


def test_text_has_no_place_in_shared_memory(tmp_path):
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    kind = TensorProto.STRING
    path = saved(tmp_path / "text.onnx", nodes, [("x", ["n"], kind)], [("y", ["n"], kind)])
    with pytest.raises(EngineError, match="'x' contains text"):
        DataParallel(path, on_ascend(), device_ids=[0])
