"""Inputs as people have them: by name, scalars, arrays of other libraries; outputs by name; paths."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, parser

import pinnace
from pinnace.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ConfigError,
    DataMismatchError,
    ModelFormatError,
    ModelStateError,
)
from pinnace.tensors.inputs import to_numpy


class Foreign:
    """An array of another library, which gives its data by DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnDevice(Foreign):
    """An array that DLPack does not give to numpy; `__array__` does."""

    def __dlpack__(self, **options):
        raise BufferError("not in host memory")

    def __array__(self, dtype=None, copy=None):
        return self.array


class Unreadable:
    """An array that its library does not give away."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("it requires grad: use detach()")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """scale * x + y, and -x."""
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2]), ("y", [2]), ("s", []))
    ]
    nodes = [
        helper.make_node("Mul", ["s", "x"], ["p"]),
        helper.make_node("Add", ["p", "y"], ["sum"]),
        helper.make_node("Neg", ["x"], ["minus"]),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("sum", "minus")]
    made = helper.make_model(
        helper.make_graph(nodes, "given", ports, outputs),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    path = tmp_path_factory.mktemp("given") / "given.onnx"
    path.write_bytes(made.SerializeToString())
    with pinnace.Model() as built:
        built.build_from_file(path, pinnace.ModelType.ONNX)  # a pathlib.Path
        yield built


X, Y, S = np.array([1, 2], np.float32), np.array([3, 5], np.float32), np.float32(10)


@pytest.mark.parametrize(
    "inputs",
    [
        [X, Y, S],
        (X, pinnace.Tensor(Y), np.array(10, np.float32)),
        {"s": S, "y": Y, "x": X},
        [Foreign(X), OnDevice(Y), S],
        {"x": OnDevice(X), "y": Foreign(Y), "s": pinnace.Tensor(np.array(10, np.float32))},
    ],
)
def test_inputs_as_people_have_them(model, inputs):
    for outputs in (model.predict(inputs), model.submit(inputs).result(300)):
        np.testing.assert_array_equal(outputs["sum"], [13, 25])
        np.testing.assert_array_equal(outputs["minus"], -X)
        assert isinstance(outputs, list)
        assert outputs[1] is outputs["minus"] is outputs[-1]
        assert outputs[:1] == [outputs["sum"]]
        assert list(dict(outputs)) == ["sum", "minus"]


def test_a_call_gives_numpy_arrays(model):
    arrays = model({"x": X, "y": Y, "s": S}, timeout=20)
    assert [type(array) for array in arrays] == [np.ndarray, np.ndarray]
    assert (arrays["sum"] + 1).tolist() == [14, 26]
    assert arrays["minus"] is arrays[1] is arrays[-1] is dict(arrays)["minus"]
    with pytest.raises(KeyError, match="no output 'logits'; there are 'sum', 'minus'"):
        arrays["logits"]


@pytest.mark.parametrize("timeout", [-1, float("inf"), float("nan"), 1e30])
def test_a_timeout_has_limits(model, timeout):
    with pytest.raises(ArgumentValueError, match=r"a number of seconds from 0 to \d+, not"):
        model({"x": X, "y": Y, "s": S}, timeout=timeout)


def test_memory_of_another_library_is_not_copied(model):
    read = model._live.inputs.arrays([Foreign(X), Y, S])
    assert np.shares_memory(read[0], X)


def test_an_output_that_is_not_there_names_those_that_are(model):
    with pytest.raises(KeyError, match="no output 'logits'; there are 'sum', 'minus'"):
        model.predict([X, Y, S])["logits"]


def test_filled_outputs_have_names_too(model):
    outputs: list = []
    assert model.predict([X, Y, S], outputs)["minus"] is outputs[1]
    assert model.predict([X, Y, S], outputs)["minus"] is outputs[1]


@pytest.mark.parametrize(
    "inputs", [{"x": X, "y": Y}, {"x": X, "y": Y, "z": S}, {"x": X, "y": Y, "s": S, "t": S}, {}]
)
def test_names_that_are_not_the_models(model, inputs):
    with pytest.raises(DataMismatchError, match=r"the model has 3 inputs \(x, y, s\), but got (x, y|none)"):
        model.predict(inputs)


@pytest.mark.parametrize("wrong", [1.0, [1, 2], "text", np.float32, None])
def test_what_is_no_array(model, wrong):
    with pytest.raises(ArgumentTypeError, match=r"inputs element must be Tensor, but got .* at index 1"):
        model.predict([X, wrong, S])
    with pytest.raises(ArgumentTypeError, match=r"inputs element must be Tensor, but got .* at index 1"):
        model.predict({"x": X, "y": wrong, "s": S})


def test_an_array_that_its_library_does_not_give_away(model):
    with pytest.raises(ArgumentTypeError, match=r"input 'y': numpy cannot read .*Unreadable.*: .*use detach"):
        model.predict([X, Unreadable(), S])


def test_wrong_types_and_shapes_of_others_are_named(model):
    with pytest.raises(
        DataMismatchError, match=r"input 'x' must be DataType.FLOAT32, but got DataType.FLOAT64"
    ):
        model.predict({"x": Foreign(X.astype(float)), "y": Y, "s": S})
    with pytest.raises(DataMismatchError, match=r"input 'y' must have shape \[2\], but got \[3\]"):
        model.predict([X, Foreign(np.zeros(3, np.float32)), S])


def picture_model(dtype, shape):
    graph = f"g ({dtype}{shape} x) => ({dtype}{shape} y) {{ y = Identity(x) }}"
    text = f'<ir_version: 10, opset_import: ["": 20]> {graph}'
    return pinnace.Model(parser.parse_model(text).SerializeToString(), pinnace.Context(thread_num=1))


def test_the_input_of_a_model_with_one_needs_no_list(model):
    one, x = picture_model("float", "[2, 2]"), np.ones((2, 2), np.float32)
    for given in (x, Foreign(x), pinnace.Tensor(x), [x], {"x": x}):
        np.testing.assert_array_equal(np.asarray(one.predict(given)[0]), x)
        np.testing.assert_array_equal(one(given)[0], x)
        np.testing.assert_array_equal(np.asarray(one.submit(given).result()[0]), x)
    for wrong in ("text", 1, None, np.ndarray):
        with pytest.raises(ArgumentTypeError, match="inputs must be list, but got"):
            one.predict(wrong)
    with pytest.raises(
        ArgumentTypeError, match=r"must be list, but got .*: the model has 3 inputs \(x, y, s\)"
    ):
        model.predict(X)
    with pytest.raises(ModelStateError, match="call build_from_file first"):
        pinnace.Model().predict(x)


@pytest.mark.parametrize(
    ("dtype", "shape", "given", "remedy"),
    [
        ("float", "[1, 3, 4, 5]", np.zeros((1, 3, 4, 5)), r"DataType.FLOAT64: x.astype\(np.float32\)"),
        ("bfloat16", "[1]", np.zeros(1, np.float32), r": x.astype\(ml_dtypes.bfloat16\)"),
        ("float", "[1, 3, 4, 5]", np.zeros((1, 4, 5, 3), np.float32), r"3\]: x.transpose\(0, 3, 1, 2\)"),
        ("float", "[n, 4, 5, 3]", np.zeros((2, 3, 4, 5), np.float32), r"5\]: x.transpose\(0, 2, 3, 1\)"),
        ("float", "[1, 3, 4, 5]", np.zeros((3, 4, 5), np.float32), r"5\]: x\[np.newaxis\]"),
        (
            "float",
            "[1, 3, 4, 5]",
            np.zeros((2, 3, 4, 5), np.float32),
            r"model.resize.*: \[2, 3, 4, 5\] for this",
        ),
        ("float", "[1, 3, 4, 5]", np.zeros(7, np.float32), r"but got \[7\]$"),
    ],
)
def test_an_error_of_type_or_shape_names_the_remedy(dtype, shape, given, remedy):
    with pytest.raises(DataMismatchError, match=remedy):
        picture_model(dtype, shape).predict(given)


def test_paths_of_pathlib(tmp_path):
    config = tmp_path / "options.ini"
    config.write_text("[runner]\nmax_queue=3\n")
    path = Path(__file__).parents[1] / "data" / "api" / "add.onnx"
    context = pinnace.Context(thread_num=1)
    context.parallel.workers_num = 1
    context.parallel.config_path = config
    assert context.parallel.config_path == str(config)
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(path, context)
        assert str(runner) == f"model_path: {path}."
    with pytest.raises(ConfigError, match="config_path does not exist"):
        pinnace.Model().build_from_file(path, pinnace.ModelType.ONNX, config_path=tmp_path / "none.ini")
    pinnace.ModelGroup().add_model([path])


def test_tensors_of_pytorch(model):
    torch = pytest.importorskip("torch")
    x, y = torch.from_numpy(X), torch.nn.Parameter(torch.from_numpy(Y))
    rows = torch.from_numpy(np.stack([X, Y]).T.copy())
    for inputs in ([x, y, torch.tensor(10.0)], {"s": torch.tensor(10.0), "x": rows[:, 0], "y": y * 1}):
        np.testing.assert_array_equal(model.predict(inputs)["sum"], [13, 25])
    for bfloat16 in (x.bfloat16(), rows[:, 0].bfloat16(), y.bfloat16() * 0 + x.bfloat16()):
        read = to_numpy(bfloat16, "x")
        assert read.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(read.astype(np.float32), X)
    assert np.shares_memory(to_numpy(y, "y"), Y)
    with pytest.raises(ArgumentTypeError, match=r"input 'x': numpy cannot read .*torch.Tensor.*: .*meta"):
        model.predict([x.to("meta"), y, S])


@pytest.mark.parametrize("kind", [pinnace.Model, pinnace.ModelParallelRunner])
def test_models_of_a_path_or_of_bytes(kind):
    path = Path(__file__).parents[1] / "data" / "api" / "add.onnx"
    for given, name in ((path, "add.onnx"), (str(path), "add.onnx"), (path.read_bytes(), kind.__name__)):
        with kind(given, pinnace.Context(thread_num=1)) as built:
            assert built.model_name == name
            assert built.get_model_info("threads") == "1"
    with pytest.raises(ModelFormatError, match="model_path does not exist"):
        kind("none.onnx")
    with pytest.raises(ArgumentTypeError, match="must be str, but got <class 'int'>"):
        kind(3)
    with pytest.raises(ArgumentTypeError, match="context must be Context"):
        kind(path, "cpu")
