"""The report of a file: its dialect, its weights in all places, and the model that is written for others."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.building import report
from pinnace.building.opening import inspect_model

W = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("file", "dialect", "producer"),
    [
        ("api/dense.mindir", "MindIR of MindSpore Lite", ""),
        ("split/big_graph.mindir", "MindIR of MindSpore", "MindSpore 2.10.0"),
        ("converted/add_bcast.ms", "MindSpore Lite .ms", ""),
        ("api/dense.onnx", "ONNX", ""),
    ],
)
def test_a_file_is_named_by_its_writer_and_form(data, file, dialect, producer):
    found = inspect_model(data / file)
    assert found.dialect == dialect
    assert found.producer.startswith(producer)
    assert found.producer == found.producer.strip()


@pytest.fixture
def dense(tmp_path):
    """x @ w + 1, with user info, and the producer's name without a version."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", 3), ("y", 4))
    )
    one = numpy_helper.from_array(np.ones(4, np.float32))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("Constant", [], ["one"], value=one),
        helper.make_node("Add", ["h", "one"], ["h2"]),
        helper.make_node("Add", ["h2", "one"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(W, "w")])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="ours"
    )
    helper.set_model_props(model, {"labels": "cat, dog"})
    onnx.save(model, tmp_path / "dense.onnx")
    return tmp_path / "dense.onnx"


def test_an_onnx_file_is_counted_with_its_constants(dense):
    found = inspect_model(dense)
    assert (found.parameters, found.parameter_bytes) == (2, W.nbytes + 16)
    assert found.primitives == {"Add": 2, "MatMul": 1, "Constant": 1}
    assert next(iter(found.primitives)) == "Add"
    assert found.nodes[0] == ("first", "MatMul")
    assert (found.producer, found.user_info) == ("ours", {"labels": "cat, dog"})
    assert {one.name: (one.dtype, one.shape) for one in found.weights}["w"] == ("FLOAT32", (3, 4))


@pytest.mark.parametrize(("limit", "is_beside"), [(W.nbytes + 16, False), (W.nbytes + 15, True)])
def test_weights_beyond_the_limit_are_written_beside_the_graph(
    dense, tmp_path, monkeypatch, limit, is_beside
):
    monkeypatch.setattr(report, "_INLINE", limit)
    path = tmp_path / "written.onnx"
    inspect_model(dense, path)
    assert path.with_name("written.onnx.data").exists() is is_beside
    x = np.ones((2, 3), np.float32)
    (y,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_array_equal(y, x @ W + 2)  # whole numbers: exact


def test_by_default_a_model_up_to_a_gib_is_one_file():
    assert report._INLINE == 1 << 30
