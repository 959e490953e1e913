"""`MultiModelRunner`: models that the converter wrote in parts."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace import Converter, DataType, FmkType, Model, ModelExecutor, ModelType, MultiModelRunner, Tensor
from pinnace.converter.splitting import pairs
from pinnace.errors import (
    ConfigError,
    DataMismatchError,
    ModelFormatError,
    ModelStateError,
    NotSupportedError,
)

RANDOM = np.random.default_rng(0)
X, Z = (RANDOM.standard_normal((2, 4)).astype(np.float32) for _ in "xz")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A model of two inputs, in which the last node reads the first one's result, too."""
    weights = [numpy_helper.from_array(RANDOM.standard_normal((4, 4)).astype(np.float32), n) for n in "uvw"]
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "middle"),
        helper.make_node("MatMul", ["b", "v"], ["c"], "second"),
        helper.make_node("Add", ["c", "z"], ["d"], "third"),
        helper.make_node("MatMul", ["d", "w"], ["e"], "fourth"),
        helper.make_node("Add", ["e", "a"], ["y"], "last"),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in "xzy"]
    graph = helper.make_graph(nodes, "net", ports[:2], ports[2:], weights)
    path = tmp_path_factory.mktemp("split") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def truth(network):
    """What onnxruntime computes, by the names of nodes."""
    model = onnx.load(network)
    del model.graph.output[:]
    names = {node.output[0]: node.name for node in model.graph.node}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return dict(zip(names.values(), session.run(None, {"x": X, "z": Z}), strict=True)) | {"x": X, "z": Z}


def split(network, folder, text):
    """Convert with an option, and build the runner."""
    converter = Converter()
    (folder / "split.ini").write_text(f"[SplitGraph]\nsplit_node_name={text}\n")
    converter.convert(FmkType.ONNX, network, folder / "net", config_file=folder / "split.ini")
    runner = MultiModelRunner()
    runner.build_from_file(str(folder / "net.mindir"), ModelType.MINDIR)
    return runner.get_model_executor()


def check(executor, truth, inputs, outputs):
    """Compare an executor with onnxruntime; sums of float32 differ in their order."""
    tensors = executor.get_inputs()
    assert [tensor.name for tensor in tensors] == inputs
    assert all(tensor.dtype is DataType.FLOAT32 and tensor.shape == [2, 4] for tensor in tensors)
    assert [meta.name for meta in executor.get_outputs()] == outputs
    for tensor in tensors:
        tensor.set_data_from_numpy(truth[tensor.name])
    for results in (executor.predict(tensors), executor.predict([truth[name] for name in inputs])):
        for name, result in zip(outputs, results, strict=True):
            np.testing.assert_allclose(result.get_data_to_numpy(), truth[name], rtol=1e-5, atol=1e-5)


def test_executors_run_their_parts(network, truth, tmp_path):
    executors = split(network, tmp_path, "[[],[second]],[[second],[last]]")
    assert len(executors) == 3  # as mindspore_lite does, one gives the second what it begins with
    check(executors[0], truth, ["x"], ["second"])
    check(executors[1], truth, ["x"], ["first", "second"])
    check(executors[2], truth, ["first", "second", "z"], ["last"])
    assert sorted(p.name for p in tmp_path.glob("*.mindir")) == ["net.mindir", "net_0.mindir", "net_1.mindir"]


def test_the_model_in_one_piece_is_there_too(network, truth, tmp_path):
    split(network, tmp_path, "[[],[middle]]")
    (result,) = Model(tmp_path / "net.mindir").predict([X, Z])
    np.testing.assert_allclose(result.get_data_to_numpy(), truth["last"], rtol=1e-5, atol=1e-5)


def test_an_executor_of_several_parts(network, truth, tmp_path):
    (whole,) = split(network, tmp_path, "[[x],[middle,third,last]]")
    check(whole, truth, ["x", "z"], ["middle", "third", "last"])
    tensors = [Tensor(truth[name]) for name in ("z", "x")]
    for tensor, name in zip(tensors, "zx", strict=True):
        tensor.name = name
    filled = [Tensor(np.zeros((2, 4), np.float32)) for _ in range(3)]
    whole.predict(tensors, filled)  # by name
    np.testing.assert_allclose(filled[2].get_data_to_numpy(), truth["last"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[a],[b]", "must be pairs of names"),
        ("middle", "must be pairs of names"),
        ("[[middle],[]]", "a pair names no output"),
        ("[[],[nowhere]]", "no nodes 'nowhere'"),
        ("[[third],[middle]]", "'middle' is computed before 'first', 'third'"),
    ],
)
def test_wrong_pairs_are_named(network, tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        split(network, tmp_path, text)
    assert not list(tmp_path.glob("*.mindir"))


def test_pairs_are_read_as_mindspore_lite_does():
    assert pairs("[[],[a,b]],[[ a , b ],[c]]") == (((), ("a", "b")), (("a", "b"), ("c",)))
    assert pairs("[[a],[b]]") == ((("a",), ("b",)),)
    assert pairs("") == ()


def test_inputs_and_outputs_that_are_wrong_are_named(network, tmp_path):
    (one,) = split(network, tmp_path, "[[],[middle]]")
    with pytest.raises(TypeError, match=r"inputs must be list or tuple, but got <class 'dict'>\."):
        one.predict({})
    with pytest.raises(TypeError, match=r"inputs element must be Tensor, or numpy\."):
        one.predict([1])
    with pytest.raises(DataMismatchError, match="Input 'x' is missing"):
        one.predict([])
    with pytest.raises(DataMismatchError, match="has 1 inputs, but got 2"):
        one.predict([X, X])
    with pytest.raises(TypeError, match="outputs must be list"):
        one.predict([X], ())
    with pytest.raises(
        TypeError, match=r"outputs element must be Tensor, but got <class 'int'> at index 0\."
    ):
        one.predict([X], [1])
    with pytest.raises(ModelStateError, match="has no model"):
        ModelExecutor().get_inputs()


def test_a_runner_opens_only_models_in_parts(network, tmp_path):
    runner = MultiModelRunner()
    with pytest.raises(RuntimeError, match="build_from_file failed, model_path does not exist!"):
        runner.build_from_file("nothing.mindir", ModelType.MINDIR)
    with pytest.raises(RuntimeError, match="build_from_file failed, model_type only support MINDIR!"):
        runner.build_from_file(str(network), ModelType.MINDIR_LITE)
    Converter().convert(FmkType.ONNX, network, tmp_path / "whole")
    with pytest.raises(
        ModelFormatError, match=r"whole.mindir: the model has no parts: convert it with \[SplitGraph\]"
    ):
        runner.build_from_file(tmp_path / "whole.mindir", ModelType.MINDIR)
    with pytest.raises(TypeError, match="context must be Context"):
        runner.build_from_file(str(network), ModelType.MINDIR, 1)
    assert runner.get_model_executor() == []


def noted(*parts, **changes):
    executor = {"parts": parts, "inputs": ["x"], "outputs": ["y"]} | changes
    return json.dumps({"files": ["a", "b"], "executors": [executor]})


@pytest.mark.parametrize(
    "noted",
    [
        "{}", "[", '{"files": ["../x"], "executors": []}', noted(-1, 0), noted(1, 0), noted(0, 2), noted(0),
        noted(0, 1, 1), noted("a", "b"), noted(0, 1, inputs=1),
    ],
)  # fmt: skip
def test_damaged_notes_of_parts_are_an_error(network, tmp_path, noted):
    model = onnx.load(network)
    model.metadata_props.add(key="pinnace.split", value=noted)
    onnx.save(model, tmp_path / "net.onnx")
    Converter().convert(FmkType.ONNX, tmp_path / "net.onnx", tmp_path / "net")
    with pytest.raises(ModelFormatError, match="what it says of its parts is damaged"):
        MultiModelRunner().build_from_file(tmp_path / "net.mindir", ModelType.MINDIR)


def test_only_mindir_is_split(network, tmp_path):
    converter = Converter()
    converter.save_type = ModelType.MINDIR_LITE
    converter.set_config_info("SplitGraph", {"split_node_name": "[[],[middle]]"})
    with pytest.raises(NotSupportedError, match=r"\[SplitGraph\] is for .mindir"):
        converter.convert(FmkType.ONNX, network, tmp_path / "net")


def test_user_info_says_what_the_parts_are(network, tmp_path):
    split(network, tmp_path, "[[],[middle]]")
    model = Model(tmp_path / "net.mindir")
    described = json.loads(model.get_model_info("pinnace.split"))
    assert json.loads(json.loads(model.get_model_info("user_info"))["pinnace.split"]) == described
    assert described["files"] == ["net_0.mindir", "net_1.mindir"]
    assert described["executors"] == [{"parts": [0, 0], "inputs": ["x"], "outputs": ["middle"]}]
