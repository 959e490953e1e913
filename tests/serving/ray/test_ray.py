"""One model on the nodes of a Ray cluster, two here, beside onnxruntime in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.waiting import is_alive, until

import pinnace
from pinnace.errors import (
    ConfigError,
    DataMismatchError,
    DeviceUnavailableError,
    EngineError,
    ModelStateError,
    NotSupportedError,
    UnsupportedModelError,
)

ray = pytest.importorskip("ray", reason="ray is missing: pip install ray")

from ray.cluster_utils import Cluster  # noqa: E402

from pinnace.serving.ray import fleet, models  # noqa: E402
from pinnace.serving.ray.membership import _enter  # noqa: E402

WAIT = 60  # seconds after which something hangs
WIDTH = 256
# A node that is killed is seen to be gone after 2 s, one that only answers slowly is not.
SYSTEM = {
    "prestart_worker_first_driver": False,
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 400,
    "health_check_timeout_ms": 10000,
    "health_check_failure_threshold": 5,
}


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """The folder of each node's compile cache."""
    return [tmp_path_factory.mktemp(f"cache{number}") for number in range(2)]


@pytest.fixture(scope="module")
def nodes(caches):
    """A cluster of two nodes, with this process in it."""

    def options(cache):
        variables = {"PINNACE_CACHE_DIR": str(cache), "PINNACE_SIMULATE": "ascend:2"}
        return {"num_cpus": 3, "object_store_memory": 100 << 20, "env_vars": variables}

    head = {**options(caches[0]), "include_dashboard": False, "_system_config": SYSTEM}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.second = cluster.add_node(**options(caches[1]))
        ray.init(address=cluster.address, logging_level=logging.WARNING, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def context(nodes):
    return on(nodes)


def on(nodes):
    context = pinnace.Context(thread_num=1)
    context.parallel.address = nodes.address
    return context


@pytest.fixture(scope="module")
def two(nodes, model):
    """An actor on each node."""
    with pinnace.DataParallel(model, on(nodes), device_ids=[0, 1]) as parallel:
        yield parallel


def saved(path, nodes, inputs, outputs, initializers=(), **options):
    def value(name, shape, dtype=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, dtype, shape)

    graph = helper.make_graph(
        nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], list(initializers)
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, **options)
    return str(path)


def product(path, **options):
    """y = x w, picked by `rows`: numbers that are not there are an error of the engine."""
    values = np.random.default_rng(3).normal(size=(WIDTH, WIDTH)).astype(np.float32) / 16
    weights = [helper.make_tensor("w", TensorProto.FLOAT, values.shape, values.tobytes(), raw=True)]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Gather", ["xw", "pick"], ["y"]),
    ]
    inputs = [("x", ["n", WIDTH]), ("pick", ["m"], TensorProto.INT64)]
    return saved(path, nodes, inputs, [("y", ["m", WIDTH])], weights, **options)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return product(tmp_path_factory.mktemp("models") / "model.onnx")


def rows(count, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
    return [x, np.zeros(count, np.int64)]


def oracle(path, inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(("x", "pick"), inputs, strict=True)))[0]


def in_parts(path, inputs, parts):
    """What the parts of a request give, joined: each picks from its own rows."""
    cut = zip(*(np.array_split(array, parts) for array in inputs), strict=True)
    return np.concatenate([oracle(path, part) for part in cut])


def check(outputs, right):
    # a product of fewer rows may be summed in another order
    np.testing.assert_allclose(outputs[0].get_data_to_numpy(), right, rtol=1e-4, atol=1e-5)


def maps(pid):
    """The files that a process maps."""
    return {line.split()[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()}


def copies(caches):
    """How many models each node keeps that it was sent."""
    return [len(list(cache.glob("models/*"))) for cache in caches]


def test_a_local_cluster_where_none_is(model):
    """It is entered with the first model, and ends with the last one; each model is built of a buffer."""
    code = f"""
import logging, numpy, pathlib, pinnace, ray, signal
signal.alarm({WAIT})
logging.basicConfig()
context = pinnace.Context(thread_num=1)
context.parallel.cluster, context.parallel.workers_num = "ray", 1
runner = pinnace.ModelParallelRunner()
runner.build_from_buffer(pathlib.Path({model!r}).read_bytes(), context)
x, pick = numpy.ones((2, {WIDTH}), numpy.float32), numpy.array([1])
result = runner.predict([x, pick])[0].get_data_to_numpy()
result += 1  # it is the caller's own
runner.close()
print(ray.is_initialized(), result.sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "one is started here" in done.stderr
    initialized, total = done.stdout.split()[-2:]
    assert initialized == "False"
    ones = [np.ones((2, WIDTH), np.float32), np.array([1])]
    assert float(total) == pytest.approx(float((oracle(model, ones) + 1).sum()), rel=1e-4)  # a sum of many


def test_a_batch_is_split_over_the_nodes(two, model, caches):
    assert len(two.devices) == len(set(two.pids)) == 2
    assert all("cpu:0 of node " in device for device in two.devices)
    assert [tensor.shape for tensor in two.get_inputs()] == [[-1, WIDTH], [-1]]
    given = [rows(count, count) for count in (2, 3, 8, 400)]  # the last one goes by Ray's shared memory
    before = two.stats()
    futures = [two.submit(inputs) for inputs in given * 3]
    for inputs, future in zip(given * 3, futures, strict=True):
        check(future.result(WAIT), in_parts(model, inputs, 2))
    stats = two.stats()
    assert (stats.workers, stats.failed, stats.queued, stats.restarts) == (2, 0, 0, 0)
    assert stats.served == before.served + 12
    assert copies(caches) == [0, 0], "the file is there under its own path"


def test_errors_are_those_of_the_model(two, model):
    x, pick = rows(2)
    with pytest.raises(DataMismatchError, match="'x' must have shape"):
        two.predict([x[:, :3], pick])
    with pytest.raises(EngineError, match=r"cpu:0 of node .*indices element out of data bounds"):
        two.predict([x, pick + 7])
    check(two.predict([x, pick]), in_parts(model, [x, pick], 2))
    assert two.stats().failed == 1


def test_a_runner_gets_its_files_once_a_node(context, tmp_path, caches, monkeypatch):
    """Sent under a path that no node has, with a file beside it; three actors on simulated devices."""
    path = product(tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)

    class Elsewhere(models.Cargo):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.manifest = replace(self.manifest, path="/no/such/folder/m.onnx")

    monkeypatch.setattr(fleet, "Cargo", Elsewhere)
    context.target = ["ascend"]
    context.parallel.device_ids, context.parallel.workers_num = [0, 1, 2], 1
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(path, context)
        given = [rows(1 + number % 5, number) for number in range(40)]
        futures = [runner.submit(inputs) for inputs in given]
        for inputs, future in zip(given, futures, strict=True):
            check(future.result(WAIT), oracle(path, inputs))
        check(runner.predict(given[0], timeout=WAIT), oracle(path, given[0]))
        check(asyncio.run(runner.apredict(given[1])), oracle(path, given[1]))
        stats = runner.stats()
        assert (stats.workers, stats.served, stats.failed, stats.queued) == (3, 42, 0, 0)
        with pytest.raises(NotSupportedError, match="weights and shapes of a model on a cluster"):
            runner.update_weights([[]])
        devices = runner.get_model_info("device").split(", ")
        assert sorted(device.partition(" ")[0] for device in devices)[0::2] == ["ascend:0", "ascend:1"]
        assert all("(simulated on core" in device for device in devices)
        assert copies(caches) == [1, 1]
        pids = [replica.pid for replica in runner._live.workers.replicas._replicas]
        mapped = {name for pid in pids for name in maps(pid) if name.startswith(tuple(map(str, caches)))}
        weights = {Path(name).stat().st_ino for name in mapped if Path(name).stat().st_size >= WIDTH**2 * 4}
        assert len(weights) == 2, "one file of weights a node, which its actors map"
    until(lambda: not any(map(is_alive, pids)))
    runner.close()


def test_model_that_cannot_be_built_is_refused(context, model, tmp_path):
    nodes = [helper.make_node("NoSuch", ["x"], ["y"])]
    strange = saved(tmp_path / "strange.onnx", nodes, [("x", [1])], [("y", [1])])
    with pytest.raises(UnsupportedModelError, match="NoSuch x1"):
        pinnace.DataParallel(strange, context, device_ids=[0])
    with pytest.raises(
        DeviceUnavailableError, match="7 actors were requested, but the cluster has room for 6"
    ):
        pinnace.DataParallel(model, context, device_ids=[0, 1, 2, 3, 4, 5, 6])
    context.target = ["gpu"]
    with pytest.raises(DeviceUnavailableError, match="no node of the cluster has a device of the kind 'gpu'"):
        pinnace.DataParallel(model, context)
    other = pinnace.Context()
    other.parallel.address = "192.0.2.77:6379"
    with pytest.raises(ConfigError, match="and this process is in the Ray cluster"):
        pinnace.DataParallel(model, other)


def test_nobody_answers():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DeviceUnavailableError, match=f"no Ray cluster answers at '{address}'"):
            _enter(address)


class Clients:
    """Four that predict all the time; `failed` and `wrong` is what they were not to get."""

    def __init__(self, parallel, path):
        self.served, self.failed, self.wrong = [0] * 4, [], 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(parallel, path, i)) for i in range(4)]

    def _run(self, parallel, path, number):
        inputs = rows(2 + 2 * number, number)
        right = in_parts(path, inputs, 2)
        while not self._over.is_set():
            try:
                check(parallel.predict(inputs, timeout=WAIT), right)
            except AssertionError:
                self.wrong += 1
            except Exception as error:
                self.failed.append(error)
            else:
                self.served[number] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        until(lambda: min(self.served))
        return self

    def all_go_on(self):
        """Each of them is served some more times."""
        before = list(self.served)
        until(lambda: all(now > was + 2 for now, was in zip(self.served, before, strict=True)))

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()


def test_a_process_is_killed_under_load(two, model):
    with Clients(two, model) as clients:
        pids = two.pids
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: two.stats().restarts == 1)
        assert pids[0] not in two.pids
        assert len(two.pids) == 2
        clients.all_go_on()
    assert (clients.failed, clients.wrong) == ([], 0)


def test_a_request_over_which_actors_die_fails_with_the_cause(two, model, monkeypatch):
    before = two.stats()
    monkeypatch.setattr(two._replicas, "_tries", 1)
    for pid in two.pids:
        os.kill(pid, signal.SIGKILL)
    inputs = rows(2)
    with pytest.raises(DeviceUnavailableError, match=r"died.* while it computed this request"):
        two.predict(inputs, timeout=WAIT)
    until(lambda: two.stats().restarts == before.restarts + 2)
    check(two.predict(inputs, timeout=WAIT), in_parts(model, inputs, 2))


def test_a_node_is_killed_under_load(nodes, two, model):
    """What was there is computed on the other node, to which Ray brings the actor as well."""
    before = two.stats()
    with Clients(two, model) as clients:
        pids = two.pids
        nodes.remove_node(nodes.second, allow_graceful=False)
        clients.all_go_on()
        until(lambda: two.stats().restarts == before.restarts + 1)
        clients.all_go_on()
        assert len(set(two.pids) - set(pids)) == 1
        assert len(two.pids) == 2
    assert (clients.failed, clients.wrong) == ([], 0)
    assert two.stats().failed == before.failed


def test_close_ends_all_waiting(two, monkeypatch):
    """No actor is there, and none comes back: the last of the tests."""

    def never(replica):
        try:
            while True:
                ray.get(replica.actor.node.options(max_task_retries=-1).remote())
                time.sleep(0.1)
        except ray.exceptions.RayError as error:
            raise DeviceUnavailableError(str(error)) from None

    monkeypatch.setattr(fleet.ActorReplica, "start", never)
    for pid in two.pids:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(DeviceUnavailableError):  # it was tried on both
        two.predict(rows(2), timeout=WAIT)
    assert not two.pids
    future = two.submit(rows(2))
    actors = [replica.actor for replica in two._replicas._replicas]
    two.close()
    with pytest.raises(ModelStateError, match="closed while this request waited"):
        future.result(0)
    with pytest.raises(ModelStateError, match="closed"):
        two.predict(rows(2))
    for actor in actors:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(actor.node.remote(), timeout=WAIT)
    assert ray.is_initialized(), "who was in the cluster before stays there"
