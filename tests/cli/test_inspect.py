"""`pinnace inspect` on the carried model, whose facts MindSpore 2.10 and its exporter give."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace import Model, ModelType, formats
from pinnace.cli.quickstart import MODEL, data

# Parameters and their bytes: mindspore.nn.GraphCell(mindspore.load(...)).get_parameters() of MindSpore 2.10.
# Primitives: those of the nodes in the file. The network has as many Conv nodes in its ONNX export, too.
PARAMETERS, PARAMETER_BYTES = 247, 18776096
PRIMITIVES = {
    "Conv2D": 49,
    "BatchNorm": 49,
    "ReLU6": 33,
    "Add": 9,
    "ReduceMean": 1,
    "MatMul": 1,
    "Softmax": 1,
}


def test_json_tells_all_there_is(pinnace):
    report = pinnace("inspect", data(MODEL), "--json").json
    assert report["dialect"] == "MindIR of MindSpore"
    assert "MindSpore" in report["producer"]
    assert "2.10" in report["producer"]
    (given,), (made,) = report["inputs"], report["outputs"]
    assert (given["shape"], given["dtype"]) == ([1, 3, 224, 224], "FLOAT32")
    assert (made["shape"], made["dtype"]) == ([1, 1000], "FLOAT32")
    assert (report["parameters"], report["parameter_bytes"]) == (PARAMETERS, PARAMETER_BYTES)
    assert report["primitives"].items() >= PRIMITIVES.items()
    assert report["unsupported"] == []


def test_nodes_have_the_names_of_the_file(pinnace):
    """MindSpore's own: what its nodes are called in full, with the layer that they were made in."""
    answer = pinnace("inspect", data(MODEL), "--nodes")
    assert re.search(r"^ +Conv2D +Default/conv_stem-Conv2d/Conv2D-op0$", answer.out, re.MULTILINE)
    nodes = pinnace("inspect", data(MODEL), "--nodes", "--json").json["nodes"]
    assert {"name": "Default/sm-Softmax/Softmax-op0", "primitive": "Softmax"} in nodes
    assert "nodes" not in pinnace("inspect", data(MODEL), "--json").json


def test_weights_have_the_names_that_a_list_of_variable_weights_takes(pinnace, tmp_path):
    assert "weights" not in pinnace("inspect", data(MODEL), "--json").json
    listed = pinnace("inspect", data(MODEL), "--weights", "--json").json["weights"]
    assert {"name": "conv_stem.weight", "dtype": "FLOAT32", "shape": [32, 3, 3, 3]} in listed
    shown = pinnace("inspect", data(MODEL), "--weights", "--all").out
    assert re.search(r"^ +fc.bias +FLOAT32 +\[1000\]$", shown, re.MULTILINE)
    names = tmp_path / "names.txt"
    names.write_text("\n".join(weight["name"] for weight in listed))
    model = Model()
    options = {"common_context": {"variable_weights_file": str(names)}}
    model.build_from_file(data(MODEL), ModelType.MINDIR, None, "", options)  # takes every one of them


def test_the_text_reads_in_a_pipe(pinnace):
    answer = pinnace("inspect", data(MODEL))
    assert re.search(rf"parameters\s+{PARAMETERS} with {PARAMETER_BYTES} bytes \(18\.8 MB\)", answer.out)
    assert re.search(r"^\s*49\s+Conv2D\s*$", answer.out, re.MULTILINE)
    assert re.search(r"unsupported\n\s+none\n", answer.out)
    assert "\x1b" not in answer.out + answer.err


def test_what_cannot_run_is_named_with_count_and_first_node(pinnace, tmp_path):
    model = tmp_path / "model.mindir"
    model.write_bytes(data(MODEL).read_bytes().replace(b"ReLU6", b"ReLU9"))
    (refused,) = pinnace("inspect", model, "--json").json["unsupported"]
    assert (refused["name"], refused["count"]) == ("ReLU9", PRIMITIVES["ReLU6"])
    answer = pinnace("inspect", model)
    assert re.search(r"unsupported\n\s+33\s+ReLU9\s+first at \S+", answer.out)
    assert answer.code == 1
    assert "ReLU9 x33, first at node" in answer.err
    assert "export it again" in answer.err


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 100])
def test_a_file_that_is_no_model_is_one_error(pinnace, tmp_path, content):
    path = tmp_path / "some.mindir"
    path.write_bytes(content)
    answer = pinnace("inspect", path)
    assert answer.code == 1
    assert "some.mindir" in answer.err
    assert "Traceback" not in answer.err


def test_constants_and_branches_count_as_weights(pinnace, tmp_path):
    weight = numpy_helper.from_array(np.zeros((4, 8), np.float32), "w")
    branch = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["o"])],
        "branch",
        [],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, [4, 8])],
        [weight],
    )
    nodes = [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.zeros(3, np.int64))),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8]),
            helper.make_tensor_value_info("k", TensorProto.INT64, [3]),
        ],
    )
    path = tmp_path / "branches.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    found = pinnace("inspect", path, "--json").json
    assert (found["parameters"], found["parameter_bytes"]) == (3, 2 * 128 + 24)


def test_the_lowered_model_is_written_as_onnx(pinnace, tmp_path):
    out = tmp_path / "out.onnx"
    assert (
        pinnace("inspect", Path(__file__).parents[1] / "data" / "api" / "add.mindir", "--onnx", out).code == 0
    )
    session = onnxruntime.InferenceSession(out)
    x = np.ones((3, 4, 5), np.float32)
    (total,) = session.run(None, {port.name: x for port in session.get_inputs()})
    np.testing.assert_array_equal(total, x + x)
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]


def test_a_model_is_read_once_also_for_onnx(pinnace, tmp_path, monkeypatch):
    read, seen = formats.read, []
    monkeypatch.setattr(formats, "read", lambda source: seen.append(source) or read(source))
    answer = pinnace("inspect", data(MODEL), "--onnx", tmp_path / "out.onnx")
    assert (answer.code, answer.err) == (0, f"wrote {tmp_path / 'out.onnx'}\n")
    assert len(seen) == 1
    assert (tmp_path / "out.onnx").exists()


@pytest.fixture
def long(onnx_file):
    """A graph of 30 nodes, whose file says a long thing, and one with control characters."""
    nodes = ["Neg x -> v0", *(f"Neg v{i - 1} -> v{i}" for i in range(1, 30))]
    path = onnx_file(nodes, ["x float 3"], ["v29 float 3"])
    model = onnx.load(path)
    helper.set_model_props(model, {"said": "a" * 300, "color": "\x1b[31mred\nsecond line"})
    onnx.save(model, path)
    return path


def test_long_values_and_lists_are_cut_with_a_count(pinnace, long):
    cut, whole = pinnace("inspect", long, "--nodes").out, pinnace("inspect", long, "--nodes", "--all").out
    assert f"{'a' * 200}... 100 characters more\n" in cut
    assert f"{'a' * 300}\n" in whole
    assert (len(re.findall("  Neg ", cut)), len(re.findall("  Neg ", whole))) == (20, 30)
    assert re.search(r"  \.\.\. +10 more; --all shows them\n", cut)
    assert "more" not in whole
    assert len(pinnace("inspect", long, "--nodes", "--json").json["nodes"]) == 30


def test_control_characters_are_escaped(pinnace, long):
    assert r"\x1b[31mred\nsecond line" in pinnace("inspect", long).out


def test_help_says_where_a_picture_comes_from(pinnace):
    assert "Netron" in pinnace("inspect", "--help").out


def test_a_model_that_cannot_be_lowered_is_shown_and_not_written(pinnace, tmp_path):
    model = tmp_path / "model.mindir"
    model.write_bytes(data(MODEL).read_bytes().replace(b"ReLU6", b"ReLU9"))
    answer = pinnace("inspect", model, "--onnx", tmp_path / "out.onnx")
    assert answer.code == 1
    assert "ReLU9" in answer.out
    assert "wrote" not in answer.err
    assert not (tmp_path / "out.onnx").exists()


def test_a_folder_that_is_not_there_is_said_before_anything_is_read(pinnace, tmp_path):
    answer = pinnace("inspect", tmp_path / "none.onnx", "--onnx", tmp_path / "no" / "out.onnx")
    assert answer.code == 1
    assert f"out.onnx cannot be written: there is no folder {tmp_path / 'no'}" in answer.err
