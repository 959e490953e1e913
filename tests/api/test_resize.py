"""resize: inputs of other shapes than the model file gives them."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, save

from pinnace import (
    Context,
    DataType,
    Model,
    ModelParallelRunner,
    ModelType,
    PinnaceWarning,
    Tensor,
)
from pinnace.errors import DataMismatchError, ModelStateError

API = Path(__file__).parents[1] / "data" / "api"


def opened(path: Path, kind: ModelType = ModelType.ONNX, **options) -> Model:
    model = Model()
    model.build_from_file(str(path), kind, Context(thread_num=1), **options)
    return model


def added(kind: str = "mindir") -> Model:
    """x + y, both [3, 4, 5]."""
    return opened(API / f"add.{kind}", ModelType.ONNX if kind == "onnx" else ModelType.MINDIR)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def results(model: Model, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [tensor.get_data_to_numpy() for tensor in model.predict(arrays)]


def network(nodes: list, given: dict, gives: dict, **weights: np.ndarray) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in given.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in gives.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def small_network() -> ModelProto:
    """A convolution, a pool, a product: sizes of the picture can change, its channels and the rest cannot."""
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["a"], pads=[1] * 4, name="conv"),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2], name="pool"),
        helper.make_node("GlobalAveragePool", ["b"], ["c"], name="mean"),
        helper.make_node("Flatten", ["c"], ["d"], name="flat"),
        helper.make_node("Gemm", ["d", "w", "bias"], ["y"], name="dense"),
    ]
    weights = {"kernel": normal(6, 3, 3, 3), "w": normal(6, 5), "bias": normal(5)}
    return network(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 5)}, **weights)


def by_onnxruntime(model: ModelProto, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What plain onnxruntime computes from the same file, whose inputs say other shapes."""
    edited = ModelProto()
    edited.CopyFrom(model)
    for port, array in zip(edited.graph.input, arrays, strict=False):
        del port.type.tensor_type.shape.dim[:]
        for size in array.shape:
            port.type.tensor_type.shape.dim.add().dim_value = size
    for port in edited.graph.output:
        port.type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(edited.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


@pytest.mark.parametrize("shape", [(4, 3, 8, 8), (1, 3, 16, 10), (2, 3, 5, 7)])
@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_a_network_of_onnx(tmp_path: Path, shape: tuple[int, ...], provider: str) -> None:
    if provider == "openvino":
        pytest.importorskip("openvino")
    save(small_network(), tmp_path / "m.onnx")
    context = Context(thread_num=1)
    context.cpu.provider = provider
    model = Model()
    model.build_from_file(str(tmp_path / "m.onnx"), ModelType.ONNX, context)
    before = results(model, [normal(1, 3, 8, 8)])
    model.resize(model.get_inputs(), [list(shape)])
    assert model.get_outputs()[0].shape == [shape[0], 5]
    x = normal(*shape)
    # Other kernels add in another order.
    np.testing.assert_allclose(
        results(model, [x])[0], by_onnxruntime(small_network(), [x])[0], rtol=1e-4, atol=1e-5
    )
    model.resize(model.get_inputs(), [[1, 3, 8, 8]])
    np.testing.assert_array_equal(results(model, [normal(1, 3, 8, 8)]), before)


REFUSED = {
    "conv": (
        small_network(),
        [[1, 4, 8, 8]],
        r"node 'conv' \(Conv\): channels and those of the weights differ: 4 and 3",
    ),
    "pool": (
        network([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[4, 4], name="pool")],
                {"x": (1, 3, 6, 6)}, {"y": (1, 3, 3, 3)}),
        [[1, 3, 2, 6]],
        r"node 'pool' \(MaxPool\): its window is larger than its input",
    ),
    "reshape": (
        network(
            [helper.make_node("Reshape", ["x", "shape"], ["y"], name="fold")],
            {"x": (2, 6)},
            {"y": (3, 4)},
            shape=np.array([3, 4]),
        ),
        [[4, 6]],
        r"node 'fold' \(Reshape\): the file asks for the shape \[3, 4\]; its inputs are \[4, 6\]",
    ),
    "product": (
        network([helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")], {"x": (2, 6)}, {"y": (2, 3)},
                w=normal(6, 3)),
        [[2, 7]],
        r"node 'dense' \(MatMul\): Incompatible dimensions",
    ),
    "gather": (
        network([helper.make_node("Gather", ["x", "i"], ["y"], name="last")], {"x": (4, 2)}, {"y": (2,)},
                i=np.array(3)),
        [[3, 2]],
        r"node 'last' \(Gather\): it takes index 3 of 3",
    ),
    "computed": (
        network(
            [
                helper.make_node("Shape", ["x"], ["s"]),
                helper.make_node("Gather", ["s", "zero"], ["n"]),
                helper.make_node("Mul", ["n", "two"], ["m"]),
                helper.make_node("Concat", ["m", "five"], ["t"], axis=0),
                helper.make_node("Reshape", ["x", "t"], ["y"], name="fold"),
            ],
            {"x": (2, 10)},
            {"y": (4, 5)},
            zero=np.array([0]), two=np.array([2]), five=np.array([5]),
        ),
        [[3, 11]],
        r"node 'fold' \(Reshape\): the file asks for the shape \[6, 5\]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_forbids_a_shape_is_named_and_nothing_changes(tmp_path: Path, name: str) -> None:
    proto, dims, message = REFUSED[name]
    save(proto, tmp_path / "m.onnx")
    model = opened(tmp_path / "m.onnx")
    inputs = model.get_inputs()
    shapes = [tensor.shape for tensor in inputs]
    arrays = [normal(*shape) for shape in shapes]
    before = results(model, arrays)
    with pytest.raises(DataMismatchError, match=message):
        model.resize(inputs, dims)
    assert [t.shape for t in (*inputs, *model.get_inputs())] == shapes * 2
    np.testing.assert_array_equal(results(model, arrays), before)


def test_a_shape_that_the_file_computes_follows(tmp_path: Path) -> None:
    proto, _, _ = REFUSED["computed"]
    save(proto, tmp_path / "m.onnx")
    model = opened(tmp_path / "m.onnx")
    model.resize(model.get_inputs(), [[3, 10]])
    assert model.get_outputs()[0].shape == [6, 5]
    assert results(model, [normal(3, 10)])[0].shape == (6, 5)


def test_what_the_file_says_of_results_is_not_believed(tmp_path: Path) -> None:
    proto = small_network()
    proto.graph.value_info.extend([helper.make_tensor_value_info("b", TensorProto.FLOAT, (1, 6, 4, 4))])
    save(proto, tmp_path / "m.onnx")
    model = opened(tmp_path / "m.onnx")
    x = normal(2, 3, 20, 20)
    model.resize(model.get_inputs(), [[2, 3, 20, 20]])
    np.testing.assert_allclose(
        results(model, [x])[0], by_onnxruntime(small_network(), [x])[0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["mindir", "onnx"])
def test_all_that_get_inputs_gave_follows(kind: str) -> None:
    """mindspore_lite 2.0.0 was seen to do this; shapes go by the order of the model's inputs."""
    model = added(kind)
    earlier, inputs = model.get_inputs(), model.get_inputs()
    model.resize(inputs[::-1], [[1, 4, 5], [2, 4, 5]])
    shapes = [[1, 4, 5], [2, 4, 5]]
    assert [t.shape for t in (*earlier, *inputs, *model.get_inputs())] == shapes * 3
    earlier[0].set_data_from_numpy(ones(1, 4, 5))
    earlier[1].set_data_from_numpy(ones(2, 4, 5))
    assert model.predict(earlier)[0].get_data_to_numpy().tolist() == (2 * ones(2, 4, 5)).tolist()


def test_data_of_the_shape_before() -> None:
    """What has as many elements stays; mindspore_lite says "predict failed!" of the rest."""
    model = added()
    inputs = model.get_inputs()
    for tensor in inputs:
        tensor.set_data_from_numpy(np.arange(60, dtype=np.float32))
    model.resize(inputs, [[4, 3, 5], [4, 3, 5]])
    assert inputs[0].get_data_to_numpy().tolist() == np.arange(60.0).reshape(4, 3, 5).tolist()
    assert model.predict(inputs)[0].get_data_to_numpy().ravel().tolist() == np.arange(0.0, 120, 2).tolist()
    model.resize(inputs, [[4, 4, 5], [4, 4, 5]])
    with pytest.raises(DataMismatchError, match=r"'x' has no data"):
        model.predict(inputs)
    for tensor in inputs:
        tensor.set_data_from_numpy(ones(4, 4, 5))
    assert model.predict(inputs)[0].shape == [4, 4, 5]


def test_back_to_what_is_free() -> None:
    model = opened(API / "dense.mindir", ModelType.MINDIR)
    model.resize(model.get_inputs(), [[4, 3]])
    with pytest.raises(DataMismatchError):
        model.predict([ones(2, 3)])
    model.resize(model.get_inputs(), [[-1, 3]])
    assert model.get_inputs()[0].shape == [-1, 3]
    assert [results(model, [ones(n, 3)])[0].shape for n in (1, 5)] == [(1, 2), (5, 2)]
    with pytest.raises(DataMismatchError, match=r"\(Gemm\): .*its inputs are \[-1, 4\] and \[3, 2\]"):
        model.resize(model.get_inputs(), [[4, 4]])
    assert results(model, [ones(2, 3)])[0].tolist() == [[6, 9]] * 2


def test_a_free_dimension_stays_free_beside_another(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    save(network(nodes, {"x": ("n", 3)}, {"y": ("n", 3)}), tmp_path / "m.onnx")
    model = opened(tmp_path / "m.onnx")
    model.resize(model.get_inputs(), [[-1, 7]])
    assert model.get_outputs()[0].shape == [-1, 7]
    assert [results(model, [ones(n, 7)])[0].shape for n in (1, 4)] == [(1, 7), (4, 7)]


def test_other_ranks_are_refused() -> None:
    """mindspore_lite takes them, and then Softmax runs along another axis than the file says."""
    model = added()
    with pytest.raises(DataMismatchError, match="it has 3 dimensions, and axes in the file refer to these"):
        model.resize(model.get_inputs(), [[4, 5], [4, 5]])


def test_a_buffer(tmp_path: Path) -> None:
    model = Model()
    model.build_from_buffer(small_network().SerializeToString(), ModelType.ONNX)
    x = normal(2, 3, 6, 6)
    model.resize(model.get_inputs(), [[2, 3, 6, 6]])
    np.testing.assert_allclose(
        results(model, [x])[0], by_onnxruntime(small_network(), [x])[0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "cache off"])
def test_weights_that_were_exchanged_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    if not kept:
        monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    proto = small_network()
    save(proto, tmp_path / "m.onnx")
    (tmp_path / "names.txt").write_text("w\nkernel")
    options = {"ascend_context": {"variable_weights_file": str(tmp_path / "names.txt")}}
    model = opened(tmp_path / "m.onnx", config_dict=options)

    def exchanged(**new: np.ndarray) -> list[Tensor]:
        for weight in proto.graph.initializer:
            if weight.name in new:
                weight.CopyFrom(numpy_helper.from_array(new[weight.name], weight.name))
        given = []
        for name, array in new.items():
            given.append(Tensor(array))
            given[-1].name = name
        return given

    def check(*shape: int) -> None:
        x = normal(*shape)
        np.testing.assert_allclose(
            results(model, [x])[0], by_onnxruntime(proto, [x])[0], rtol=1e-4, atol=1e-5
        )

    model.update_weights([exchanged(w=normal(6, 5) + 1)])
    model.resize(model.get_inputs(), [[2, 3, 10, 10]])
    check(2, 3, 10, 10)
    model.update_weights([exchanged(kernel=normal(6, 3, 3, 3) - 1)])
    check(2, 3, 10, 10)
    model.resize(model.get_inputs(), [[1, 3, 8, 8]])
    check(1, 3, 8, 8)
    model.update_weights([exchanged(w=normal(6, 5) - 2)])
    check(1, 3, 8, 8)


def test_states_survive() -> None:
    """One model multiplies by how often it was called, the other by a state as large as its input."""
    folder = Path(__file__).parents[1] / "data"
    path = folder / "mindspore_primitives" / "control_state_counter.mindir"
    model, other = opened(path, ModelType.MINDIR), opened(path, ModelType.MINDIR)
    expected = [results(other, [ones(3, 4)])[0][0].tolist() for _ in range(3)]
    assert results(model, [ones(3, 4)])[0].tolist() == [expected[0]] * 3
    model.resize(model.get_inputs(), [[5, 4]])
    assert results(model, [ones(5, 4)])[0].tolist() == [expected[1]] * 5
    model.resize(model.get_inputs(), [[3, 4]])
    assert results(model, [ones(3, 4)])[0].tolist() == [expected[2]] * 3

    path = folder / "mindspore_ops" / "ctl_state.mindir"
    model, other = opened(path, ModelType.MINDIR), opened(path, ModelType.MINDIR)
    results(model, [ones(3, 4)])
    with pytest.raises(DataMismatchError, match=r"\(Add\): .*its inputs are \[3, 4\] and \[5, 4\]"):
        model.resize(model.get_inputs(), [[5, 4]])
    results(other, [ones(3, 4)])
    np.testing.assert_array_equal(results(model, [ones(3, 4)]), results(other, [ones(3, 4)]))


def test_a_runner(tmp_path: Path) -> None:
    save(small_network(), tmp_path / "m.onnx")
    context = Context(thread_num=1)
    context.parallel.workers_num = 2
    runner = ModelParallelRunner()
    runner.build_from_file(str(tmp_path / "m.onnx"), context)
    runner.resize(runner.get_inputs(), [[2, 3, 6, 6]])
    x = normal(2, 3, 6, 6)
    np.testing.assert_allclose(
        results(runner, [x])[0], by_onnxruntime(small_network(), [x])[0], rtol=1e-4, atol=1e-5
    )


def test_simulated_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    save(small_network(), tmp_path / "m.onnx")
    context = Context()
    context.target = ["ascend"]
    context.parallel.device_ids = [0, 1]
    runner = ModelParallelRunner()
    runner.build_from_file(str(tmp_path / "m.onnx"), context)
    runner.resize(runner.get_inputs(), [[2, 3, 6, 6]])
    x = normal(2, 3, 6, 6)
    for _ in range(4):
        np.testing.assert_allclose(
            results(runner, [x])[0], by_onnxruntime(small_network(), [x])[0], rtol=1e-4, atol=1e-5
        )


def test_others_predict_meanwhile(tmp_path: Path) -> None:
    """Each prediction gives what its own input gives, or says that the shape is another one."""
    save(network([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, {"y": (2, 3)}), tmp_path / "m.onnx")
    runner = ModelParallelRunner()
    context = Context(thread_num=1)
    context.parallel.workers_num = 2
    runner.build_from_file(str(tmp_path / "m.onnx"), context)
    done, wrong = threading.Event(), []

    def predict(rows: int) -> None:
        x = np.full((rows, 3), rows, np.float32)
        while not done.is_set():
            try:
                (y,) = results(runner, [x])
            except DataMismatchError:
                continue
            except Exception as error:
                wrong.append(error)
            else:
                if y.tolist() != x.tolist():
                    wrong.append(y)

    threads = [threading.Thread(target=predict, args=(rows,)) for rows in (2, 2, 4, 4)]
    for thread in threads:
        thread.start()
    for rows in (4, 2, 3, 2, 4) * 4:
        runner.resize(runner.get_inputs(), [[rows, 3]])
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_closed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    model = added()
    live = model._live
    build = live.update.reshape

    def closing(shapes, install):
        model.close()
        build(shapes, install)

    monkeypatch.setattr(live.update, "reshape", closing)
    with pytest.raises(ModelStateError, match="was closed or built again while it was resized"):
        model.resize(model.get_inputs(), [[1, 4, 5], [1, 4, 5]])


def test_data_of_another_shape_is_warned_of_once() -> None:
    model = added()
    x, y = model.get_inputs()
    with pytest.warns(PinnaceWarning) as caught:
        x.set_data_from_numpy(ones(5, 4, 3))
    (warning,) = caught
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tensor, shape in ((x, (4, 5, 3)), (model.get_inputs()[0], (5, 4, 3))):
            tensor.set_data_from_numpy(ones(*shape))
    assert "'x' has shape [3, 4, 5] and was given data of shape [5, 4, 3]" in str(warning.message)
    assert warning.filename == __file__
    with pytest.warns(PinnaceWarning, match="input 'y'"):
        y.set_data_from_numpy(ones(4, 3, 5))


def test_right_data_is_taken_in_silence() -> None:
    """Flat data too, and such without dimensions of 1: these have no other order."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((3, 4, 5), (60,), (1, 3, 4, 1, 5)):
            added().get_inputs()[0].set_data_from_numpy(ones(*shape))
        Tensor(shape=[3, 4], dtype=DataType.FLOAT32).set_data_from_numpy(ones(4, 3))
