from __future__ import annotations

import copy
import os
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.waiting import Execution

import pinnace
from pinnace import Context, DataType, Model, ModelType, PinnaceWarning, Tensor, TensorMeta
from pinnace.building.build import Built
from pinnace.engines.protocol import HERE
from pinnace.errors import (
    ArgumentTypeError,
    ConfigError,
    DataMismatchError,
    DeviceUnavailableError,
    ModelFormatError,
    ModelStateError,
)
from pinnace.options.target import Target
from pinnace.types import Port
from pinnace.weights.source import Source

API = Path(__file__).parents[1] / "data" / "api"
EFFICIENTNET = Path(pinnace.__file__).parent / "data" / "efficientnet_lite0.mindir"


@pytest.fixture
def build() -> Callable[[str], Model]:
    def build(name: str) -> Model:
        model = Model()
        model.build_from_file(str(API / f"{name}.onnx"), ModelType.ONNX, Context(thread_num=1))
        return model

    return build


def floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


class Counter:
    """An executable with a state: it adds its input to what it has."""

    inputs = (Port("x", DataType.FLOAT32, (2,)),)
    outputs = (Port("sum", DataType.FLOAT32, (2,)),)
    info = {"engine": "counter"}  # noqa: RUF012
    closed = 0
    takes_device_memory = writes_free = queues = is_light = False
    runs_in = HERE
    lost_by_fork = ""

    def first_state(self):
        return [np.zeros(2, np.float32)]

    def compute(self, arrays, state):
        state[0] = state[0] + arrays[0]
        return [state[0]]

    def execution(self, state=None):
        return Execution(self, state)

    def close(self):
        self.closed += 1


def build_gives(monkeypatch, executable) -> None:
    """Let builds of models give this executable."""
    spec = SimpleNamespace(source=Source("a model", memoryview(b"")), variable=(), target=Target())
    monkeypatch.setattr("pinnace.api.model.open_model", lambda *_: spec)
    monkeypatch.setattr("pinnace.api.base_model.build", lambda spec: Built(executable, spec, {}))


def test_inputs_and_outputs_are_told(build) -> None:
    model = build("pair")
    table, rows = model.get_inputs()
    assert (table.name, table.dtype, table.shape) == ("table", DataType.FLOAT32, [-1, 2])
    assert (rows.name, rows.dtype, rows.shape) == ("rows", DataType.INT64, [-1])
    total, twice = model.get_outputs()
    assert isinstance(total, TensorMeta)
    assert (total.name, total.shape, twice.name, twice.dtype) == ("sum", [-1, 2], "twice", DataType.INT64)


def test_inputs_are_new_each_time(build) -> None:
    model = build("add")
    first, second = model.get_inputs()[0], model.get_inputs()[0]
    first.set_data_from_numpy(floats(3, 4, 5))
    assert not second.has_data


def test_predict_by_position(build) -> None:
    model = build("pair")
    outputs = model.predict([Tensor(floats(3, 2)), Tensor(np.array([10, 20, 30]))])
    assert [o.name for o in outputs] == ["sum", "twice"]
    np.testing.assert_array_equal(outputs[0].get_data_to_numpy(), [[10, 11], [22, 23], [34, 35]])
    np.testing.assert_array_equal(np.asarray(outputs[1]), [20, 40, 60])


@pytest.mark.parametrize(
    "inputs",
    [
        [floats(3, 4, 5), floats(60)],
        (Tensor(floats(60)), Tensor(floats(3, 4, 5))),
        [floats(60).reshape(5, 4, 3).T.copy("F").T.reshape(3, 4, 5), floats(60).astype(">f4")],
    ],
    ids=["arrays", "tuple of tensors", "layouts"],
)
def test_predict_takes_arrays_and_tuples_and_flat_data(build, inputs) -> None:
    (result,) = build("add").predict(inputs)
    np.testing.assert_array_equal(np.asarray(result), floats(3, 4, 5) * 2)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([floats(3, 4, 5)], r"the model has 2 inputs \(x, y\), but got 1"),
        ([floats(3, 4, 5), floats(3, 4, 6)], r"input 'y' must have shape \[3, 4, 5\], but got \[3, 4, 6\]"),
        ([floats(3, 5, 4), floats(3, 4, 5)], r"input 'x' must have shape \[3, 4, 5\], but got \[3, 5, 4\]"),
        ([floats(59), floats(60)], r"input 'x' must have shape \[3, 4, 5\], but got \[59\]"),
        (
            [floats(3, 4, 5), np.ones((3, 4, 5))],
            r"input 'y' must be DataType.FLOAT32, but got DataType.FLOAT64",
        ),
    ],
)
def test_wrong_inputs_are_named(build, inputs: list, message: str) -> None:
    model = build("add")
    with pytest.raises(DataMismatchError, match="predict failed! " + message):
        model.predict(inputs)
    assert model.predict([floats(60), floats(60)])  # and the model goes on


def test_rows_that_differ_are_the_engines_to_tell(build) -> None:
    with pytest.raises(pinnace.errors.EngineError):
        build("pair").predict([floats(3, 2), np.array([1, 2])])


def test_an_input_without_data_is_refused(build) -> None:
    model = build("add")
    inputs = model.get_inputs()
    inputs[0].set_data_from_numpy(floats(60))
    with pytest.raises(RuntimeError, match=r"predict failed! input 'y' has no data: set_data_from_numpy"):
        model.predict(inputs)
    inputs[1].get_data_to_numpy()  # makes it zeros, as the message says
    (result,) = model.predict(inputs)
    np.testing.assert_array_equal(result.get_data_to_numpy().ravel(), floats(60))
    with pytest.raises(DataMismatchError, match=r"'x' has free dimensions \[-1, 3\] and no data"):
        build("dense").predict(build("dense").get_inputs())


def test_outputs_fill_an_empty_list(build) -> None:
    outputs: list = []
    returned = build("add").predict([floats(60), floats(60)], outputs)
    assert outputs == returned
    assert outputs[0].get_data_to_numpy()[2, 3, 4] == 118


def test_outputs_are_written_in_place(build) -> None:
    model = build("add")
    memory = np.full(60, -1, np.float32)
    given = Tensor(memory)
    model.predict([floats(60), floats(60)], [given])
    assert given.shape == [3, 4, 5]
    np.testing.assert_array_equal(memory, floats(60) * 2)


def test_outputs_of_free_shapes_are_written_in_place_if_they_fit(build) -> None:
    model, ones = build("dense"), np.ones((4, 3), np.float32)
    memory, smaller = np.full((4, 2), -1, np.float32), np.full((2, 2), -1, np.float32)
    for _ in range(2):
        given, other = Tensor(memory), Tensor(smaller)
        for rows in (4, 2):
            memory[:] = -1
            (result,) = model.predict([ones[:rows]], [given])
            assert result.shape == [rows, 2]
            assert np.asarray(result).tolist() == [[6, 9]] * rows  # as in tests/api/test_group.py
            assert (memory == -1).all() == (rows == 2)
        model.predict([ones], [other])
        assert np.asarray(other).tolist() == [[6, 9]] * 4
        assert (smaller == -1).all()


def test_outputs_of_other_kinds_get_the_data(build) -> None:
    model = build("add")
    empty, wrong = Tensor(), Tensor(np.ones(2, np.int8))
    for given in (empty, wrong):
        model.predict([floats(60), floats(60)], [given])
        np.testing.assert_array_equal(np.asarray(given), floats(3, 4, 5) * 2)
    metas: list = model.get_outputs()
    model.predict([floats(60), floats(60)], metas)
    assert metas[0].get_data_to_numpy().shape == (3, 4, 5)


def test_outputs_that_cannot_be_written_get_other_data(build) -> None:
    """Such as that of `np.frombuffer`; once that was a ValueError after the prediction."""
    held = np.frombuffer(bytes(240), np.float32).reshape(3, 4, 5)
    output = Tensor(held)
    build("add").predict([floats(3, 4, 5), floats(3, 4, 5)], [output])
    np.testing.assert_array_equal(output.get_data_to_numpy(), 2 * floats(3, 4, 5))
    assert not held.any()


def test_wrong_outputs(build) -> None:
    model = build("add")
    with pytest.raises(TypeError, match="outputs must be list, but got <class 'tuple'>"):
        model.predict([floats(60), floats(60)], ())
    with pytest.raises(TypeError, match="outputs element must be Tensor, but got <class 'int'> at index 0"):
        model.predict([floats(60), floats(60)], [1])
    with pytest.raises(ValueError, match="each of the model's 1 outputs, but got 2"):
        model.predict([floats(60), floats(60)], [Tensor(), Tensor()])


def test_results_stay_when_the_model_runs_again(build) -> None:
    model = build("add")
    (first,) = model.predict([floats(60), floats(60)])
    model.predict([-floats(60), -floats(60)])
    model.close()
    np.testing.assert_array_equal(np.asarray(first), floats(3, 4, 5) * 2)


def test_free_dimensions_follow_the_data(build) -> None:
    model = build("dense")
    for rows in (1, 5, 2):
        (result,) = model.predict([np.ones((rows, 3), np.float32)])
        np.testing.assert_array_equal(np.asarray(result), [[6, 9]] * rows)


def test_resize_fixes_them(build) -> None:
    model = build("pair")
    inputs = model.get_inputs()
    model.resize(inputs, [[4, 2], [4]])
    assert [t.shape for t in inputs] == [t.shape for t in model.get_inputs()] == [[4, 2], [4]]
    total, twice = model.get_outputs()
    assert (total.shape, total.element_num, total.data_size, twice.shape) == ([4, 2], 8, 32, [4])
    with pytest.raises(DataMismatchError, match=r"'table' must have shape \[4, 2\], but got \[3, 2\]"):
        model.predict([floats(3, 2), np.arange(3)])
    inputs[0].set_data_from_numpy(floats(8))
    inputs[1].set_data_from_numpy(np.arange(4))
    assert model.predict(inputs)[0].shape == [4, 2]
    model.resize(inputs, ((3, 2), (3,)))
    assert model.predict([floats(3, 2), np.arange(3)])[0].shape == [3, 2]
    assert model.get_outputs()[0].shape == [3, 2]


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([[4, 2, 1], [4]], r"'table' has shape \[n, 2\] and cannot get \[4, 2, 1\]: it has 2 dimensions"),
        ([[4, 2], [0]], r"'rows' .* dimension 0 must be positive, or -1"),
        ([[4, -1], [4]], r"'table' .* dimension 1 must be positive$"),
        ([[4, 2], [1 << 50]], r"'rows' .* it exceeds any memory"),
    ],
)
def test_impossible_shapes(build, dims: list, message: str) -> None:
    model = build("pair")
    inputs = model.get_inputs()
    with pytest.raises(DataMismatchError, match=message):
        model.resize(inputs, dims)
    assert [t.shape for t in model.get_inputs()] == [[-1, 2], [-1]]
    with pytest.raises(DataMismatchError, match="2 inputs, but got 1"):
        model.resize(inputs[:1], dims[:1])


def test_a_buffer(build) -> None:
    model = Model()
    data = (API / "dense.onnx").read_bytes()
    for buffer in (data, bytearray(data), memoryview(data)):
        model.build_from_buffer(buffer, ModelType.ONNX)
        assert model.predict([np.ones((1, 3), np.float32)])[0].get_data_to_numpy().tolist() == [[6, 9]]
        model.close()
    with pytest.raises(TypeError, match="model must be bytes, but got <class 'str'>"):
        model.build_from_buffer("x", ModelType.ONNX)
    with pytest.raises(ModelFormatError):
        model.build_from_buffer(b"", ModelType.ONNX)


@pytest.mark.parametrize("place", ["outside.onnx", "."])
def test_a_buffer_with_weights_beside_a_file(tmp_path: Path, place: str) -> None:
    data = (API / "outside.onnx").read_bytes()
    config = tmp_path / "c.ini"
    config.write_text(f"[model_file]\nmindir_path={API / place}\n")
    for options in (
        {"config_dict": {"model_file": {"mindir_path": str(API / place)}}},
        {"config_dict": {"model_File": {"mindir_path": str(API / place)}}},
        {"config_dict": {"weight": {"weight_path": str(API / place)}}},
        {"config_path": str(config)},
    ):
        model = Model()
        model.build_from_buffer(data, ModelType.ONNX, **options)
        assert np.asarray(model.predict([np.ones(4, np.float32)])[0]).tolist() == [0, 1, 2, 3]
    with pytest.raises(ModelFormatError):
        Model().build_from_buffer(data, ModelType.ONNX)


@pytest.mark.parametrize("kept", [True, False])
def test_a_symbolic_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    """Stores of models are made of them; onnxruntime refuses weights that a link leads out of its folder."""
    if not kept:
        monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    link = tmp_path / "net.mindir"
    link.symlink_to(EFFICIENTNET)
    model = Model()
    model.build_from_file(link, ModelType.MINDIR)
    assert "net.mindir" in str(model)


def test_options_are_checked_before_the_build(tmp_path: Path) -> None:
    path = str(API / "add.onnx")
    with pytest.raises(ConfigError, match=r"config_path does not exist! \(no\)"):
        Model().build_from_file(path, ModelType.ONNX, None, "no")
    (tmp_path / "c.ini").write_text("x=1\n")
    with pytest.raises(ConfigError, match=r"c\.ini:1: 'x=1' is before the first"):
        Model().build_from_file(path, ModelType.ONNX, None, str(tmp_path / "c.ini"))
    with pytest.warns(PinnaceWarning, match="config_dict: unknown section"):
        Model().build_from_file(path, ModelType.ONNX, config_dict={"zzzz": {"a": "b"}})
    with pytest.raises(TypeError, match="config_dict_value must be dict, but got <class 'str'>"):
        Model().build_from_file(path, ModelType.ONNX, config_dict={"model_file": "x"})


def test_encrypted_models() -> None:
    path = str(API / "add.onnx")
    with pytest.raises(RuntimeError, match=r"add.onnx: is not encrypted \(byte 0\)"):
        Model().build_from_file(path, ModelType.ONNX, dec_key=b"0123456789ABCDEF")
    with pytest.raises(ValueError, match="dec_key must have 16, 24 or 32 bytes, but got 1"):
        Model().build_from_file(path, ModelType.ONNX, dec_key=b"1")
    with pytest.raises(ValueError, match="dec_mode must be in"):
        Model().build_from_file(path, ModelType.ONNX, dec_key=b"1", dec_mode="AES")
    with pytest.raises(TypeError, match="dec_key must be bytes, but got <class 'str'>"):
        Model().build_from_file(path, ModelType.ONNX, dec_key="0123456789ABCDEF")
    with pytest.raises(TypeError, match="dec_num_parallel must be int"):
        Model().build_from_file(path, ModelType.ONNX, dec_key=b"1", dec_num_parallel="1")
    with pytest.raises(ValueError, match="dec_mode must not be empty"):
        Model().build_from_file(path, ModelType.ONNX, dec_key=b"1", dec_mode="")


@pytest.mark.parametrize("target", ["gpu", "Ascend"])
def test_devices_that_are_not_there(target: str) -> None:
    context = Context()
    context.target = [target]
    with pytest.raises(DeviceUnavailableError, match=target.lower()):
        Model().build_from_file(str(API / "add.onnx"), ModelType.ONNX, context)


def test_info(build) -> None:
    assert int(Model().get_model_info("current_pid")) == os.getpid()
    with pytest.raises(TypeError, match="key must be str, but got <class 'NoneType'>"):
        Model().get_model_info()
    with pytest.raises(TypeError, match="key must be str"):
        Model().get_model_info(1)
    with pytest.raises(ModelStateError, match="the model is not built: call build_from_file first"):
        Model().get_model_info("engine")
    assert [Model().get_model_info(key) for key in ("input_shape", "dynamic_dims", "user_info")] == [""] * 3
    model = build("add")
    assert model.get_model_info("input_shape") == model.get_model_info("dynamic_dims") == ""
    assert model.get_model_info("engine").startswith("onnxruntime")
    with pytest.warns(PinnaceWarning, match=r"no key 'no such key'; the keys are .*memory, .*workers"):
        assert model.get_model_info("no such key") == ""
    assert re.fullmatch(r"private \d+, files [1-9]\d*", model.get_model_info("memory"))
    with pytest.raises(ModelStateError, match="name the processes that may use its weights"):
        model.get_model_info("shareable_weight_mem_handle")


def test_update_weights_takes_lists_of_lists_of_tensors(build) -> None:
    model = build("add")
    with pytest.raises(TypeError, match="weights must be list, but got <class 'int'>"):
        model.update_weights(1)
    with pytest.raises(TypeError, match="weight must be list"):
        model.update_weights([Tensor()])
    with pytest.raises(TypeError, match="weights element must be Tensor, but got <class 'int'> at index 01"):
        model.update_weights([[Tensor(), 1]])


@pytest.mark.parametrize("closed", [False, True])
def test_before_the_build_and_after_close(build, closed: bool) -> None:
    model = build("add") if closed else Model()
    if closed:
        model.close()
    for call in (
        model.get_inputs,
        model.get_outputs,
        lambda: model.predict([floats(60), floats(60)]),
        lambda: model.predict([floats(60), floats(60)], [Tensor()]),
        lambda: model.resize([Tensor()], [[1]]),
    ):
        with pytest.raises(
            ModelStateError, match="is closed" if closed else "not built: call build_from_file first"
        ):
            call()


def test_with_closes() -> None:
    with Model() as model:
        model.build_from_file(str(API / "add.onnx"), ModelType.ONNX)
        assert model.is_built
    assert not model.is_built
    model.close()
    model.build_from_file(str(API / "dense.onnx"), ModelType.ONNX)
    assert str(model) == f"model_path: {API / 'dense.onnx'}."


def test_a_failed_build_leaves_the_model_as_it_was() -> None:
    model = Model()
    with pytest.raises(ModelFormatError):
        model.build_from_file(str(API / "cases.txt"), ModelType.ONNX)
    assert str(model) == "model_path: ."
    model.build_from_file(str(API / "add.onnx"), ModelType.ONNX)
    with pytest.raises(ModelStateError, match="built already"):
        model.build_from_file(str(API / "dense.onnx"), ModelType.ONNX)
    assert len(model.get_inputs()) == 2


def test_every_model_has_its_own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = Counter()
    build_gives(monkeypatch, executable)
    first, second = Model(), Model()
    for model in (first, second):
        model.build_from_file(str(API / "add.onnx"), ModelType.ONNX)
    one = [np.ones(2, np.float32)]
    assert [float(first.predict(one)[0].get_data_to_numpy()[0]) for _ in range(3)] == [1, 2, 3]
    assert float(second.predict(one)[0].get_data_to_numpy()[0]) == 1
    first.close()
    first.close()
    assert executable.closed == 1


def test_asking_for_shapes_does_not_touch_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    class Free(Counter):
        inputs = (Port("x", DataType.FLOAT32, (-1,)),)
        outputs = (Port("sum", DataType.FLOAT32, (-1,)),)

    build_gives(monkeypatch, Free())
    model = Model()
    model.build_from_file(str(API / "add.onnx"), ModelType.ONNX)
    one = [np.ones(2, np.float32)]
    model.predict(one)
    model.resize(model.get_inputs(), [[2]])
    assert model.get_outputs()[0].shape == [2]
    assert np.asarray(model.predict(one)[0]).tolist() == [2, 2]


def test_threads_on_one_model_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone(Counter):
        busy = False

        def compute(self, arrays, state):
            assert not self.busy
            self.busy = True
            result = super().compute(arrays, state)
            threading.Event().wait(0.0001)
            self.busy = False
            return result

    build_gives(monkeypatch, Alone())
    model = Model()
    model.build_from_file(str(API / "add.onnx"), ModelType.ONNX)
    threads = [
        threading.Thread(target=lambda: [model.predict([np.ones(2, np.float32)]) for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert np.asarray(model.predict([np.zeros(2, np.float32)])[0]).tolist() == [80, 80]


@pytest.mark.parametrize("kind", [Model, pinnace.ModelParallelRunner, pinnace.DataParallel])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_is_not_copied(kind, how) -> None:
    """As an argument of `multiprocessing.Process` is; the error was about a lock of which no user knows."""
    with pytest.raises(
        ArgumentTypeError, match=f"a {kind.__name__} can neither be copied nor sent to another"
    ):
        how(kind.__new__(kind))


def test_right_calls_are_silent(build) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = build("pair")
        model.resize(model.get_inputs(), [[1, 2], [1]])
        model.predict([floats(1, 2), np.array([1])])
