"""Tensors in the memory of devices: simulated ones here, whose memory onnxruntime takes from the host's."""

import gc
import threading
import warnings

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pinnace
from pinnace import DataType, Tensor
from pinnace.engines.onnxruntime.device_memory import OrtArray, OrtDeviceMemory
from pinnace.errors import (
    ArgumentTypeError,
    DataMismatchError,
    DeviceUnavailableError,
    EngineError,
    ModelStateError,
    PinnaceWarning,
)
from pinnace.options.target import Target


@pytest.fixture(autouse=True)
def simulate(monkeypatch):
    set_to = lambda text: monkeypatch.setenv("PINNACE_SIMULATE", text)  # noqa: E731
    set_to("gpu:2,ascend:1")
    return set_to


def on(kind="gpu", number=0):
    context = pinnace.Context()
    context.target = [kind]
    getattr(context, kind).device_id = number
    return context


def graph_of(nodes, inputs, outputs, initializers=()):
    def ports(of):
        return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in of]

    graph = helper.make_graph(nodes, "g", ports(inputs), ports(outputs), list(initializers))
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


F = TensorProto.FLOAT
TWICE = graph_of(
    [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])],
    [("x", F, [2, 3])],
    [("y", F, [2, 3]), ("z", F, [2, 3])],
)
FREE = graph_of([helper.make_node("Add", ["x", "x"], ["y"])], [("x", F, ["n", 3])], [("y", F, ["n", 3])])
FREE_BOTH = graph_of(
    [helper.make_node("Add", ["x", "x"], ["y"])], [("x", F, ["n", "m"])], [("y", F, ["n", "m"])]
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def build():
    built = []

    def made(model=TWICE, context=None, kind=pinnace.Model):
        new = kind()
        built.append(new)
        new.build_from_buffer(model, pinnace.ModelType.ONNX, context or on())
        return new

    yield made
    for each in built:
        each.close()


@pytest.fixture
def bound(monkeypatch):
    """What sessions were given as device memory: (name, device, number, shape, address)."""
    seen = []

    def note(which):
        real = getattr(OrtArray, which)

        def noted(self, binding, name):
            block = self.block
            seen.append((which, name, block.place.device, self.shape, block.value.data_ptr()))
            real(self, binding, name)

        monkeypatch.setattr(OrtArray, which, noted)

    note("bind_input")
    note("bind_output")
    return seen


def address(tensor):
    return tensor.device_array().block.value.data_ptr()


# -- tensors ---------------------------------------------------------------------------------------------


def test_data_is_copied_there_and_back():
    array = X.copy()
    tensor = Tensor(array, device="gpu:1")
    assert tensor.on_device
    assert tensor.has_data
    assert tensor.device.startswith("gpu:1 (simulated on core")
    array[:] = 7
    read = tensor.get_data_to_numpy()
    np.testing.assert_array_equal(read, X)
    read[:] = 8
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), X)
    place = address(tensor)
    tensor.set_data_from_numpy((2 * X).ravel())
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), 2 * X)
    assert address(tensor) == place  # a model that is bound to it would find the new data there


@pytest.mark.parametrize("dtype", [d for d in DataType if d.value not in (0, 12, 2147483647)])
def test_every_dtype_comes_back_as_it_was(dtype):
    array = np.arange(6).reshape(3, 2).astype(dtype.to_numpy())
    tensor = Tensor(array, device="ascend")
    assert (tensor.dtype, tensor.shape) == (dtype, [3, 2])
    back = tensor.get_data_to_numpy()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_memory_that_nobody_wrote_holds_zeros():
    tensor = Tensor(shape=[2, 3], dtype=DataType.INT32, device="gpu")
    assert not tensor.has_data
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), np.zeros((2, 3), np.int32))
    assert tensor.has_data


@pytest.mark.parametrize("shape", [(0, 3), ()])
def test_nothing_and_one_number(shape):
    tensor = Tensor(np.full(shape, 5, np.float32), device="gpu")
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), np.full(shape, 5, np.float32))


def test_a_shape_of_the_same_size_keeps_the_memory():
    tensor = Tensor(X, device="gpu")
    place = address(tensor)
    tensor.shape = [3, 2]
    assert address(tensor) == place
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), X.reshape(3, 2))
    tensor.shape = [7]
    assert not tensor.has_data
    tensor.dtype = DataType.INT8
    assert tensor.get_data_to_numpy().tolist() == [0] * 7


def test_tensors_of_tensors():
    host = Tensor(X)
    host.name = "x"
    there = Tensor(host, device="gpu:0")
    assert (there.name, there.device) == ("x", Tensor(device="gpu:0").device)
    same = Tensor(there)
    again = Tensor(there, device="GPU:0")
    assert address(same) == address(again) == address(there)
    other = Tensor(there, device="gpu:1")
    assert address(other) != address(there)
    back = Tensor(there, device="cpu")
    assert (back.device, back.on_device) == ("None:-1", False)
    for tensor in (same, again, other, back):
        np.testing.assert_array_equal(tensor.get_data_to_numpy(), X)


def test_numpy_and_dlpack_get_a_copy():
    tensor = Tensor(X, device="gpu")
    np.testing.assert_array_equal(np.asarray(tensor), X)
    np.testing.assert_array_equal(np.from_dlpack(tensor), X)
    assert tensor.__dlpack_device__() == (1, 0)  # 1 is kDLCPU of dlpack.h


def test_data_that_a_device_cannot_hold_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"text cannot be on gpu:0"):
        Tensor(np.array(["a"], object), device="gpu")
    with pytest.raises(ModelStateError, match="free dimensions"):
        Tensor(shape=[-1], dtype=DataType.INT8, device="gpu").get_data_to_numpy()
    tensor = Tensor(X, device="gpu")
    with pytest.raises(DataMismatchError, match=r"float64.*FLOAT32"):
        tensor.set_data_from_numpy(np.ones((2, 3)))
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), X)


def test_a_device_without_room_says_how_much_was_asked_for():
    huge = np.broadcast_to(np.zeros(1, np.int8), (1 << 60,))
    place = OrtDeviceMemory.of(Target(simulates="gpu:0 (simulated on core 0)"))
    with pytest.raises(
        EngineError,
        match=r"gpu:0 .*: 1152921504606846976 bytes cannot be allocated: the device is out of memory",
    ):
        place.hold(huge)


def test_devices_that_are_not_there(simulate):
    with pytest.raises(DeviceUnavailableError, match="gpu:2 is not available"):
        Tensor(X, device="gpu:2")
    simulate("gpu:1")
    with pytest.raises(DeviceUnavailableError, match=r"ascend:0 is not available: it needs an Ascend device"):
        Tensor(X, device="ascend")


# -- predictions -----------------------------------------------------------------------------------------


def test_inputs_and_outputs_where_they_are(build, bound):
    model = build()
    x, y = Tensor(X, device="gpu:0"), Tensor(shape=[2, 3], dtype=DataType.FLOAT32, device="gpu:0")
    z = Tensor(shape=[2, 3], dtype=DataType.FLOAT32)
    results = model.predict([x], [y, z])
    assert bound == [
        ("bind_input", "x", "cpu", (2, 3), address(x)),
        ("bind_output", "y", "cpu", (2, 3), address(y)),
    ]
    assert results[0] is y
    np.testing.assert_array_equal(y.get_data_to_numpy(), 2 * X)
    np.testing.assert_array_equal(z.get_data_to_numpy(), -X)
    np.testing.assert_array_equal(results[1].get_data_to_numpy(), -X)


@pytest.mark.parametrize("model", [TWICE, FREE])
def test_buffers_that_take_turns_are_bound_once(build, bound, model):
    made = build(model)
    others = [Tensor(shape=[2, 3], dtype=DataType.FLOAT32, device="gpu:0") for _ in made.get_outputs()[1:]]
    read, written = Tensor(X, device="gpu:0"), Tensor(np.zeros_like(X), device="gpu:0")
    for turn in range(1, 7):
        results = made.predict([read], [written, *others])
        assert results[0] is written
        np.testing.assert_array_equal(written.get_data_to_numpy(), 2**turn * X)
        read, written = written, read
    assert len(bound) == 2 * (2 + len(others))
    del results, others, read
    before = Tensor(7 * X, device="gpu:0")  # perhaps where one of them was
    made.predict([before], [written, *(Tensor() for _ in made.get_outputs()[1:])])
    np.testing.assert_array_equal(written.get_data_to_numpy(), 14 * X)


def test_outputs_that_nobody_gave_are_on_the_host(build):
    for inputs in ([Tensor(X, device="gpu:0")], [Tensor(X)], [X]):
        outputs = []
        results = build().predict(inputs, outputs)
        assert [tensor.device for tensor in (*results, *outputs)] == ["None:-1"] * 4
        np.testing.assert_array_equal(results[0].get_data_to_numpy(), 2 * X)
        np.testing.assert_array_equal(outputs[1].get_data_to_numpy(), -X)


def test_new_data_in_the_same_memory_is_seen(build):
    """On a real device onnxruntime copies what lies on the host when it is bound: at each run, therefore."""
    model = build()
    x, array = Tensor(X, device="gpu"), X.copy()
    for factor in (1, 5, 9):
        x.set_data_from_numpy(factor * X)
        array[:] = factor * X
        for given in (x, array):
            np.testing.assert_array_equal(model.predict([given])[0].get_data_to_numpy(), 2 * factor * X)


def test_one_models_output_is_the_next_ones_input(build, bound, monkeypatch):
    first, second = build(), build()
    middle, last = (Tensor(X, device="gpu:0") for _ in range(2))
    metas = second.get_outputs()
    with monkeypatch.context() as patch:
        for way in ("read", "write"):  # to and from the host
            patch.setattr(OrtArray, way, None)
        first.predict([X], [middle, metas[1]])
        second.predict([middle], [last, metas[1]])
    np.testing.assert_array_equal(last.get_data_to_numpy(), 4 * X)
    assert [row[1] for row in bound] == ["y", "x", "y"]


def test_results_stay_when_the_model_runs_again_and_is_freed(build):
    model = build()
    first = model.predict([X])[0].get_data_to_numpy()
    model.predict([5 * X])
    model.close()
    gc.collect()
    np.testing.assert_array_equal(first, 2 * X)


def test_an_output_that_is_an_input_too(build):
    model = build()
    both = Tensor(X, device="gpu:0")
    z = Tensor()
    model.predict([both], [both, z])
    np.testing.assert_array_equal(both.get_data_to_numpy(), 2 * X)
    np.testing.assert_array_equal(z.get_data_to_numpy(), -X)  # computed of what it was
    one = Tensor(shape=[2, 3], dtype=DataType.FLOAT32, device="gpu:0")
    model.predict([X], [one, Tensor(one)])
    assert one.get_data_to_numpy().tolist() in ((2 * X).tolist(), (-X).tolist())


def test_an_output_that_becomes_an_input_is_not_bound_as_before(build, bound):
    model = build()
    x, y, z = (Tensor(X, device="gpu:0") for _ in range(3))
    for _ in range(2):
        model.predict([x], [y, z])
    del bound[:]
    model.predict([y], [y, z])
    np.testing.assert_array_equal(y.get_data_to_numpy(), 4 * X)
    np.testing.assert_array_equal(z.get_data_to_numpy(), -2 * X)
    assert [row[1] for row in bound if row[0] == "bind_output"] == ["z"]


def test_free_dimensions(build, bound):
    model = build(FREE)
    for rows in (1, 4):
        x = np.full((rows, 3), rows, np.float32)
        y = Tensor(shape=[rows, 3], dtype=DataType.FLOAT32, device="gpu:0")
        model.predict([Tensor(x, device="gpu:0")], [y])
        np.testing.assert_array_equal(y.get_data_to_numpy(), 2 * x)
    assert len(bound) == 4
    with pytest.raises(EngineError, match="shape"):  # onnxruntime's own words
        model.predict([np.ones((3, 3), np.float32)], [y])


def test_flat_data_has_the_shape_of_the_input(build, bound):
    results = build().predict([Tensor(X.ravel(), device="gpu")])
    np.testing.assert_array_equal(results[0].get_data_to_numpy(), 2 * X)
    assert bound[0][3] == (2, 3)


def test_bfloat16(build):
    kind = TensorProto.BFLOAT16
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=F),
        helper.make_node("Add", ["f", "f"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=kind),
    ]
    model = build(graph_of(nodes, [("x", kind, [2, 3])], [("y", kind, [2, 3])]))
    x = X.astype(ml_dtypes.bfloat16)
    y = Tensor(shape=[2, 3], dtype=DataType.BFLOAT16, device="gpu")
    model.predict([Tensor(x, device="gpu")], [y])
    assert y.get_data_to_numpy().tolist() == (2 * X).tolist()
    assert model.predict([x])[0].get_data_to_numpy().tolist() == (2 * X).tolist()


def test_an_input_without_data_is_refused_until_it_was_asked_for(build):
    model, x = build(), Tensor(shape=[2, 3], dtype=DataType.FLOAT32, device="gpu")
    with pytest.raises(DataMismatchError, match="'x' has no data"):
        model.predict([x])
    x.get_data_to_numpy()
    np.testing.assert_array_equal(model.predict([x])[0].get_data_to_numpy(), np.zeros((2, 3)))


def test_with_a_time_limit_results_reach_the_device_too(build, bound):
    y = Tensor(shape=[2, 3], dtype=DataType.FLOAT32, device="gpu")
    build().predict([X], [y, Tensor()], timeout=300)
    np.testing.assert_array_equal(y.get_data_to_numpy(), 2 * X)
    assert bound == []  # a prediction that is given up must not write into it later


def test_a_future(build):
    result = build().submit([Tensor(X, device="gpu")]).result(300)
    np.testing.assert_array_equal(result[0].get_data_to_numpy(), 2 * X)


def test_weights_that_were_exchanged(build, bound, tmp_path):
    w = helper.make_tensor("w", F, [3, 3], np.eye(3, dtype=np.float32).ravel())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    (tmp_path / "names").write_text("w\n", encoding="utf-8")
    model = pinnace.Model()
    model.build_from_buffer(
        graph_of(nodes, [("x", F, [2, 3])], [("y", F, [2, 3])], [w]),
        pinnace.ModelType.ONNX,
        on(),
        config_dict={"common_context": {"variable_weights_file": str(tmp_path / "names")}},
    )
    new = Tensor(3 * np.eye(3, dtype=np.float32), device="gpu")
    new.name = "w"
    x, y = Tensor(X, device="gpu"), Tensor(shape=[2, 3], dtype=DataType.FLOAT32, device="gpu")
    with model:
        model.update_weights([[new]])
        model.predict([x], [y])
    assert [row[4] for row in bound] == [address(x), address(y)]
    np.testing.assert_array_equal(y.get_data_to_numpy(), 3 * X)


def test_threads_that_share_a_model(build):
    model = build()
    wrong = []

    def client(number):
        x, y = (Tensor(np.full((2, 3), number, np.float32), device="gpu") for _ in range(2))
        for _ in range(50):
            model.predict([x], [y, Tensor()])
            if not (y.get_data_to_numpy() == 2 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- tensors of another device than the model's ----------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu:1", "ascend:0"])
def test_another_device(build, device):
    model = build()
    with pytest.raises(
        DataMismatchError,
        match=rf"input 'x' is a tensor on {device} \(simulated.*the model runs on gpu:0 \(simulated",
    ):
        model.predict([Tensor(X, device=device)])
    y = Tensor(shape=[2, 3], dtype=DataType.FLOAT32, device=device)
    with pytest.raises(DataMismatchError, match=rf"output 'y' is a tensor on {device}"):
        model.predict([X], [y, Tensor()])


def test_a_model_on_the_cpu_takes_none(build):
    model = build(context=pinnace.Context())
    with pytest.raises(DataMismatchError, match=r"input 'x' is a tensor on gpu:0 .* runs on cpu:0"):
        model.predict([Tensor(X, device="gpu:0")])
    with pytest.raises(DataMismatchError, match=r"output 'z' is a tensor on gpu:0 .* runs on cpu:0"):
        model.predict([X], [Tensor(), Tensor(X, device="gpu:0")])


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": [3, 3], "dtype": DataType.FLOAT32},
        {"shape": [2, 3], "dtype": DataType.FLOAT16},
        {"shape": [-1, 3], "dtype": DataType.FLOAT32},
        {},
    ],
)
def test_an_output_that_does_not_fit(build, wrong):
    with pytest.raises(DataMismatchError, match=r"output 'y' has DataType.FLOAT32 and shape \[2, 3\]"):
        build().predict([X], [Tensor(**wrong, device="gpu:0"), Tensor()])


@pytest.mark.parametrize(
    ("model", "shape", "binds"),
    [(TWICE, [6], True), (TWICE, [3, 2], True), (FREE, [6], True), (FREE_BOTH, [6, 1, 1], False)],
)
def test_an_output_of_another_shape_gets_as_many_elements_with_one_warning(build, bound, model, shape, binds):
    made = build(model)
    y = Tensor(shape=shape, dtype=DataType.FLOAT32, device="gpu:0")
    others = [Tensor() for _ in made.get_outputs()[1:]]
    with pytest.warns(PinnaceWarning, match=r"output 'y' has shape .* keeps its own"):
        made.predict([X], [y, *others])
    with warnings.catch_warnings(action="error"):
        made.predict([3 * X], [y, *others])
    np.testing.assert_array_equal(y.get_data_to_numpy(), 6 * X.reshape(shape))
    assert [row[1] for row in bound if row[0] == "bind_output"] == ["y", "y"] * binds


@pytest.mark.parametrize(("columns", "shape"), [(3, [7]), (3, [2, 4]), (0, [7])])
def test_an_output_whose_size_no_result_has_is_refused(build, columns, shape):
    add = helper.make_node("Add", ["x", "x"], ["y"])
    model = build(graph_of([add], [("x", F, ["n", columns])], [("y", F, ["n", columns])]))
    message = rf"output 'y' has DataType.FLOAT32 and shape \[n, {columns}\]"
    with pytest.raises(DataMismatchError, match=message):
        model.predict([X[:, :columns]], [Tensor(shape=shape, dtype=DataType.FLOAT32, device="gpu:0")])


def test_an_output_of_another_shape_with_other_elements_is_refused_when_the_run_shows_it(build):
    y = Tensor(shape=[9, 1, 1], dtype=DataType.FLOAT32, device="gpu:0")
    message = r"'y' has .*shape \[2, 3\].* has .* and \[9, 1, 1\]"
    with pytest.warns(PinnaceWarning), pytest.raises(DataMismatchError, match=message):
        build(FREE_BOTH).predict([X], [y])


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tensor": np.ones((2, 4), np.float32)}, r"input 'x' must have shape \[2, 3\], but got \[2, 4\]"),
        ({"tensor": np.ones((2, 3))}, "input 'x' must be DataType.FLOAT32"),
        ({"shape": [2, 3], "dtype": DataType.FLOAT32}, "input 'x' has no data"),
    ],
)
def test_an_input_that_does_not_fit(build, wrong, message, is_first):
    model = build()
    if not is_first:
        model.predict([Tensor(X, device="gpu:0")])
    with pytest.raises(DataMismatchError, match=message):
        model.predict([Tensor(**wrong, device="gpu:0")])


def test_a_runner_on_several_devices_takes_none(tmp_path):
    (tmp_path / "m.onnx").write_bytes(TWICE)
    context = on()
    context.parallel.device_ids = [0, 1]
    context.parallel.workers_num = 1
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(str(tmp_path / "m.onnx"), context)
        with pytest.raises(DataMismatchError, match=r"on gpu:0 .*runs on gpu:0 \(.*, gpu:1 \("):
            runner.predict([Tensor(X, device="gpu:0")])
        np.testing.assert_array_equal(runner.predict([X])[0].get_data_to_numpy(), 2 * X)


def test_a_runner_does_not_join_requests_on_a_device(tmp_path):
    onnx.save(onnx.load_model_from_string(FREE), tmp_path / "m.onnx")
    context = on()
    context.parallel.workers_num = 1
    context.parallel.config_info = {"runner": {"max_batch_size": "8", "max_queue_delay_us": "2000"}}
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(str(tmp_path / "m.onnx"), context)
        there = Tensor(X, device="gpu:0")
        futures = [runner.submit([there if n % 2 else X]) for n in range(12)]
        for future in futures:
            np.testing.assert_array_equal(future.result(300)[0].get_data_to_numpy(), 2 * X)


def test_data_parallel_takes_them_from_any_device(tmp_path):
    (tmp_path / "m.onnx").write_bytes(TWICE)
    with pinnace.DataParallel(str(tmp_path / "m.onnx"), on(), device_ids=[1]) as model:
        results = model.predict([Tensor(X, device="ascend:0")])
    np.testing.assert_array_equal(results[0].get_data_to_numpy(), 2 * X)
