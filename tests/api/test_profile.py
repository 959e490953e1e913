"""Times of nodes, by `profile`."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import pinnace
from pinnace.errors import ArgumentTypeError, ArgumentValueError, DataMismatchError, ModelStateError

X = np.ones((2, 64), np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    weights = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], np.eye(64, dtype=np.float32).ravel())
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "/fc/MatMul"),
        helper.make_node("Sin", ["a"], ["b"], "/first/Sin"),
        helper.make_node("Sin", ["b"], ["y"], "/second/Sin"),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "profiled", ports[:1], ports[1:], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = tmp_path_factory.mktemp("profile") / "profiled.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_nodes_have_the_names_of_the_file(path):
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(path)
        before = runner.predict([X])[0].numpy()
        found = runner.profile({"x": X}, runs=4)
        assert {(one.name, one.operator, one.calls) for one in found} == {
            ("/fc/MatMul", "MatMul", 4), ("/first/Sin", "Sin", 4), ("/second/Sin", "Sin", 4),
        }  # fmt: skip
        assert sum(one.share for one in found) == pytest.approx(1)
        assert isinstance(found, list)
        assert {one.name: one.calls for one in found.by_operator()} == {"MatMul": 4, "Sin": 8}
        assert len(found.runs) == 4
        np.testing.assert_array_equal(runner.predict([X])[0].numpy(), before)
        assert runner.stats().served == 2  # profiled runs are not counted
        runner.resize(runner.get_inputs(), [[3, 64]])
        with pytest.raises(DataMismatchError):
            runner.profile([X])
        assert len(runner.profile([np.ones((3, 64), np.float32)], 1)) == 3


def test_what_cannot_be_profiled(path):
    model = pinnace.Model()
    with pytest.raises(ModelStateError):
        model.profile([X])
    with pytest.raises(ArgumentTypeError):
        model.profile([X], runs=1.5)
    with pytest.raises(ArgumentValueError):
        model.profile([X], warm_up=-1)
