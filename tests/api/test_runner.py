from __future__ import annotations

import asyncio
import threading
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from tests.waiting import Execution, in_thread, until

from pinnace import (
    Context,
    CPUDeviceInfo,
    DataType,
    ModelParallelRunner,
    PinnaceWarning,
    RunnerConfig,
    Tensor,
)
from pinnace.building.build import Built
from pinnace.engines.protocol import HERE
from pinnace.errors import ConfigError, DataMismatchError, EngineError, ModelFormatError, ModelStateError
from pinnace.serving.pool import WorkerPool
from pinnace.types import Port
from pinnace.weights.source import Source

API = Path(__file__).parents[1] / "data" / "api"
ADD, CHAIN = str(API / "add.onnx"), str(API / "chain.onnx")

pytestmark = pytest.mark.filterwarnings("ignore:.*workers x .* threads are more than")


def context(workers: int = 0, threads: int = 1) -> Context:
    made = Context(thread_num=threads)
    made.parallel.workers_num = workers
    return made


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


class Gate:
    """An executable whose requests wait until they are let through."""

    inputs = (Port("x", DataType.FLOAT32, (1,)),)
    outputs = (Port("y", DataType.FLOAT32, (1,)),)
    info: dict[str, str] = {}  # noqa: RUF012
    takes_device_memory = writes_free = queues = is_light = False
    runs_in = HERE
    lost_by_fork = ""

    def __init__(self) -> None:
        self.open = threading.Semaphore(0)
        self.states: list[list] = []
        self.inside = self.most = self.closed = 0

    def first_state(self):
        self.states.append([np.zeros(1, np.float32)])
        return self.states[-1]

    def compute(self, arrays, state):
        self.inside += 1
        self.most = max(self.most, self.inside)
        assert self.open.acquire(timeout=300)
        self.inside -= 1
        if arrays[0][0] < 0:
            raise EngineError("negative")
        state[0] = state[0] + arrays[0]
        return [arrays[0]]

    def execution(self, state=None):
        return Execution(self, state)

    def close(self):
        self.closed += 1


def opened(_model, _kind, target_of, *_):
    """What the runner opens; builds of it are replaced."""
    return SimpleNamespace(source=Source("a model", memoryview(b"")), variable=(), target=target_of(None))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate()
    monkeypatch.setattr("pinnace.api.runner.open_model", opened)
    monkeypatch.setattr("pinnace.api.base_model.build", lambda spec: Built(made, spec, {}))
    return made


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_eight_clients_on_three_workers_get_right_results(provider: str) -> None:
    """200 predictions each: all right, none lost. `serving/test_pool.py` has the order of service."""
    clients, rounds = 8, 200
    rng = np.random.default_rng(0)
    inputs = (rng.standard_normal((clients, 64, 64)) / 8).astype(np.float32)
    wanted = inputs.copy()
    for _ in range(20):
        wanted = np.tanh(wanted @ inputs)
    served: Counter[int] = Counter()
    wrong: list = []
    start = threading.Barrier(clients)

    def client(me: int) -> None:
        start.wait()
        for _ in range(rounds):
            tensors = runner.get_inputs()
            tensors[0].set_data_from_numpy(inputs[me])
            (output,) = runner.predict(tensors)
            # float32 on both sides, summed in another order: twenty steps of 1e-7 each
            if not np.allclose(output.get_data_to_numpy(), wanted[me], atol=1e-5):
                wrong.append(me)
            served[me] += 1

    pytest.importorskip(provider)
    three = context(3)
    three.cpu.provider = provider
    with ModelParallelRunner() as runner:
        runner.build_from_file(CHAIN, three)
        threads = [in_thread(client, me) for me in range(clients)]
        for thread, _ in threads:
            thread.join(300)
    assert [outcome for _, outcome in threads] == [[None]] * clients
    assert wrong == []
    assert served == dict.fromkeys(range(clients), rounds)


def test_coroutines_of_brief_runs_take_turns_in_the_event_loop() -> None:
    runner, order = ModelParallelRunner(ADD, context(2)), []
    arrays = [ones(*(max(1, size) for size in tensor.shape)) for tensor in runner.get_inputs()]
    wanted = runner.predict(arrays)[0].get_data_to_numpy()
    live = runner._live
    assert live is not None

    def is_brief() -> bool:
        runner.submit(arrays).result(300)
        return live.workers.run_brief(arrays) is not None

    async def client(me: int) -> None:
        for _ in range(5):
            (y,) = await runner.apredict(arrays)
            np.testing.assert_array_equal(y.get_data_to_numpy(), wanted)
            order.append(me)

    async def both() -> None:
        await asyncio.gather(client(0), client(1))

    until(is_brief)
    with patch.object(WorkerPool, "enqueue", side_effect=AssertionError):
        asyncio.run(both())
    assert order == [0, 1] * 5
    runner.close()


def test_as_many_run_at_a_time_as_there_are_workers(gate: Gate) -> None:
    runner = ModelParallelRunner()
    runner.build_from_file(ADD, context(3))
    threads = [in_thread(runner.predict, [ones(1)]) for _ in range(7)]
    until(lambda: gate.inside == 3)
    gate.open.release(7)
    for thread, outcome in threads:
        thread.join(300)
        assert outcome[0][0].get_data_to_numpy().tolist() == [1]
    assert gate.most == 3
    assert sum(float(state[0][0]) for state in gate.states) == 7
    assert len(gate.states) == 3


def test_a_failing_request_gives_its_worker_back(gate: Gate) -> None:
    runner = ModelParallelRunner()
    runner.build_from_file(ADD, context(1))
    gate.open.release(3)
    for _ in range(2):
        with pytest.raises(EngineError, match="negative"):
            runner.predict([-ones(1)])
    assert runner.predict([ones(1)])


def test_close_waits_for_those_who_run_and_turns_away_the_rest(gate: Gate) -> None:
    runner = ModelParallelRunner()
    runner.build_from_file(ADD, context(1))
    running = in_thread(runner.predict, [ones(1)])
    until(lambda: gate.inside == 1)
    waiting = [in_thread(runner.predict, [ones(1)]) for _ in range(3)]
    until(lambda: runner.stats().queued == 3)
    closing = in_thread(runner.close)
    for thread, outcome in waiting:
        thread.join(300)
        assert isinstance(outcome[0], ModelStateError)
        assert "closed while this request waited" in str(outcome[0])
    assert closing[0].is_alive()
    assert gate.closed == 0
    gate.open.release()
    closing[0].join(300)
    running[0].join(300)
    assert running[1][0][0].get_data_to_numpy().tolist() == [1]
    assert gate.closed == 1
    for call in (runner.get_inputs, runner.get_outputs, lambda: runner.predict([ones(1)])):
        with pytest.raises(ModelStateError, match="the model is closed"):
            call()
    runner.close()
    assert gate.closed == 1


def test_close_under_load_loses_no_request() -> None:
    runner = ModelParallelRunner()
    runner.build_from_file(CHAIN, context(2))
    done: list[int] = []

    def client() -> int:
        count = 0
        try:
            while True:
                runner.predict([ones(64, 64)])
                count += 1
                done.append(1)
        except ModelStateError:
            return count

    threads = [in_thread(client) for _ in range(6)]
    until(lambda: len(done) > 20)
    runner.close()
    for thread, outcome in threads:
        thread.join(300)
        assert isinstance(outcome[0], int)
    assert sum(outcome[0] for _, outcome in threads) == len(done)


@pytest.mark.parametrize(
    ("cores", "threads", "workers", "want"),
    [(8, 0, 0, (8, 1)), (8, 2, 0, (4, 2)), (8, 16, 0, (1, 16)), (8, 0, 3, (3, 2)), (8, 2, 4, (4, 2))],
)
def test_number_of_workers_and_threads(
    monkeypatch: pytest.MonkeyPatch, gate: Gate, cores: int, threads: int, workers: int, want: tuple
) -> None:
    targets = []

    def noting(*given):
        targets.append(opened(*given).target)
        return opened(*given)

    monkeypatch.setattr("pinnace.api.runner.open_model", noting)
    for module in ("api.runner", "building.planning"):
        monkeypatch.setattr(f"pinnace.{module}.usable_core_count", lambda: cores)
    runner = ModelParallelRunner()
    runner.build_from_file(ADD, context(workers, threads))
    assert (targets[0].parallel_requests, targets[0].threads) == want
    assert len(gate.states) == want[0]


@pytest.mark.filterwarnings("default")
def test_more_threads_than_cores_are_said(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    for module in ("api.runner", "building.planning"):
        monkeypatch.setattr(f"pinnace.{module}.usable_core_count", lambda: 4)
    with pytest.warns(PinnaceWarning, match="3 workers x 2 threads are more than the 4 cores"):
        ModelParallelRunner().build_from_file(ADD, context(3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ModelParallelRunner().build_from_file(ADD, context(2, 2))
        ModelParallelRunner().build_from_file(ADD)


def test_without_configuration() -> None:
    with ModelParallelRunner() as runner:
        runner.build_from_file(ADD)
        assert [t.shape for t in runner.get_inputs()] == [[3, 4, 5], [3, 4, 5]]
        assert runner.get_outputs()[0].name == "sum"
        assert runner.predict([ones(60), ones(60)])[0].get_data_to_numpy().sum() == 120
        assert str(runner) == f"model_path: {ADD}."
        with pytest.raises(DataMismatchError, match="2 inputs"):
            runner.predict([ones(60)])


def test_the_way_of_older_releases() -> None:
    made = Context(thread_num=1, inter_op_parallel_num=1)
    made.append_device_info(CPUDeviceInfo(enable_fp16=False))
    config = RunnerConfig(context=made, workers_num=2)
    runner = ModelParallelRunner()
    runner.init(model_path=ADD, runner_config=config)
    inputs = runner.get_inputs()
    for tensor in inputs:
        tensor.set_data_from_numpy(ones(60))
    outputs: list[Tensor] = []
    runner.predict(inputs, outputs)
    assert outputs[0].get_tensor_name() == "sum"
    assert (outputs[0].get_data_size(), outputs[0].get_element_num()) == (240, 60)
    assert outputs[0].get_data_to_numpy().sum() == 120
    assert runner.stats().workers == 2


def test_runner_config_prints_as_in_the_pages_of_mindspore_lite() -> None:
    config = RunnerConfig(Context(), 0, {"weight": {"weight_path": "w"}})
    assert str(config) == (
        "workers num: 0,\nconfig info: weight: weight_path w,\ncontext: thread num: 0, bind mode: 0."
    )


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"context": 1}, TypeError, "context must be Context, but got <class 'int'>."),
        ({"workers_num": "1"}, TypeError, "workers_num must be int, but got <class 'str'>."),
        ({"workers_num": -1}, ValueError, "Set parallel failed, workers_num must be a non-negative int."),
        ({"config_info": 1}, TypeError, "config_info must be dict, but got <class 'int'>."),
        ({"config_path": 1}, TypeError, "config_path must be str, but got <class 'int'>."),
    ],
)
def test_arguments_of_runner_config(arguments: dict, kind: type, message: str) -> None:
    with pytest.raises(kind) as caught:
        RunnerConfig(**arguments)
    assert str(caught.value) == message


def test_init_from_bytes_and_wrong_arguments() -> None:
    runner = ModelParallelRunner()
    runner.init(Path(ADD).read_bytes())
    assert len(runner.get_inputs()) == 2
    runner.build_from_buffer(Path(CHAIN).read_bytes())
    assert len(runner.get_inputs()) == 1
    with pytest.raises(TypeError, match="runner_config must be RunnerConfig, but got"):
        runner.init(ADD, Context())
    with pytest.raises(TypeError, match="model_path must be str"):
        runner.init(1)
    with pytest.raises(TypeError, match="model must be bytes"):
        runner.build_from_buffer(ADD)
    with pytest.raises(ModelFormatError, match=r"model_path does not exist! \(no\)"):
        runner.init("no")


def test_config_info_goes_before_config_path(tmp_path: Path) -> None:
    """Weights beside a buffer: the file names a wrong place, the dict the right one."""
    data = (API / "outside.onnx").read_bytes()
    (tmp_path / "c.ini").write_text(f"[model_file]\nmindir_path={tmp_path}\n")
    made = context(1)
    made.parallel.config_path = str(tmp_path / "c.ini")
    runner = ModelParallelRunner()
    with pytest.raises(ModelFormatError):
        runner.build_from_buffer(data, made)
    made.parallel.config_info = {"model_file": {"mindir_path": str(API)}}
    runner.build_from_buffer(data, made)
    assert runner.predict([ones(4)])[0].get_data_to_numpy().tolist() == [0, 1, 2, 3]
    (tmp_path / "c.ini").write_text("[a\n")
    with pytest.raises(ConfigError, match=r"c\.ini:1"):
        runner.build_from_buffer(data, made)


def test_building_again_replaces_the_model(gate: Gate) -> None:
    runner = ModelParallelRunner()
    runner.build_from_file(ADD, context(1))
    runner.build_from_file(ADD, context(2))
    assert gate.closed == 1
    assert runner.stats().workers == 2


def test_models_of_several_inputs_and_free_dimensions_in_many_threads() -> None:
    with ModelParallelRunner() as runner:
        runner.build_from_file(str(API / "pair.onnx"), context(2))

        def client(rows: int) -> bool:
            table = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
            return all(
                np.array_equal(runner.predict([table, np.arange(rows)])[0], table + np.arange(rows)[:, None])
                for _ in range(50)
            )

        threads = [in_thread(client, rows) for rows in range(1, 6)]
        for thread, outcome in threads:
            thread.join(300)
            assert outcome == [True]


def test_more_workers_than_there_can_be_threads_are_an_error():
    runner = ModelParallelRunner()
    with pytest.raises(
        ConfigError, match=r"workers_num 10000000: a worker is a thread, and at most \d+ fit: \w+"
    ):
        runner.build_from_file(ADD, context(10_000_000))


def test_a_warning_of_a_build_points_at_the_line_that_builds():
    """Although functions of contextlib stand between Pinnace's."""
    made = context(1, threads=100_000)
    with pytest.warns(PinnaceWarning, match="thread_num 100000 is more than") as caught:
        ModelParallelRunner().build_from_file(ADD, made)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": ["ascend"]}, "not with devices other than the CPU"),
        ({"workers": 2}, "not with workers_num, as ranks run one request at a time"),
        ({"isolate": "true"}, "not with isolate, as ranks are processes"),
        ({"workers": 1}, "is not the file of rank 0"),
        ({"model": Path(ADD).read_bytes()}, "not with a model in memory"),
    ],
)
def test_what_does_not_go_with_ranks_is_named(change, message, monkeypatch):
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    made = context()
    made.target = change.get("target", ["cpu"])
    options = {"runner": {"ranks": "2", "isolate": change.get("isolate", "false")}}
    config = RunnerConfig(made, change.get("workers", 0), options)
    with pytest.raises(ConfigError, match=message):
        ModelParallelRunner().init(change.get("model", ADD), config)
