"""What onnxruntime notes of the nodes it runs."""

import os
import tempfile
from itertools import pairwise

import numpy as np
import pytest
from onnx import TensorProto, helper

from pinnace.build import build
from pinnace.config import Settings
from pinnace.target import Target

X = np.full((2, 2), 0.5, np.float32)
PROFILED = Target(provider="onnxruntime", threads=1, profile=True)


def value(name, kind=TensorProto.FLOAT, shape=(2, 2)):
    return helper.make_tensor_value_info(name, kind, shape)


def serialised(nodes, outputs):
    graph = helper.make_graph(nodes, "g", [value("x")], [value(name) for name in outputs])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.fixture
def model():
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["a"], name="first"),
        helper.make_node("Softmax", ["a"], ["y"], name="second"),
    ]
    return serialised(nodes, ["y"])


@pytest.fixture
def loop():
    """Three turns of Sin, and a Cos after."""
    body = helper.make_graph(
        [helper.make_node("Sin", ["s"], ["t"], name="inner"), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s")],
        [value("d", TensorProto.BOOL, []), value("t")],
    )
    count = helper.make_node("Constant", [], ["n"], value_int=3)
    nodes = [
        count,
        helper.make_node("Loop", ["n", "", "x"], ["z"], name="outer", body=body),
        helper.make_node("Cos", ["z"], ["y"], name="last"),
    ]
    return serialised(nodes, ["y"])


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def profile(model, runs, settings=None):
    executable = build(model, None, PROFILED, Settings.load(options=settings))
    try:
        execution = executable.execution()
        for _ in range(runs):
            execution.run([X])
        return executable.profile(), executable.profile()
    finally:
        executable.close()


def test_every_run_has_its_nodes_in_their_order(model):
    noted, again = profile(model, 3)
    assert [[(step.node, step.operator) for step in run] for run in noted] == [
        [("first", "MatMul"), ("second", "Softmax")]
    ] * 3
    steps = [step for run in noted for step in run]
    assert all(a.start + a.duration <= b.start for a, b in pairwise(steps))
    assert again == noted


def test_a_build_without_the_cache_is_profiled_too(model, monkeypatch):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    noted, _ = profile(model, 1)
    assert [step.operator for step in noted[0]] == ["MatMul", "Softmax"]


def test_steps_within_a_loop_lie_within_its_step(loop):
    (noted,), _ = profile(loop, 1)
    (outer,) = (step for step in noted if step.operator == "Loop")
    inner = [step for step in noted if step.node == "inner"]
    (last,) = (step for step in noted if step.node == "last")
    assert len(inner) == 3
    assert all(outer.start <= step.start < outer.start + outer.duration for step in inner)
    assert last.start >= outer.start + outer.duration


def test_no_file_is_left(model, temporary):
    profile(model, 1)
    assert os.listdir(temporary) == []


def test_a_model_from_the_cache_is_profiled_only_where_that_is_asked_for(model, temporary):
    profile(model, 1)
    executable = build(model, None, Target(provider="onnxruntime", threads=1), Settings())
    executable.execution().run([X])
    assert executable.profile() == []
    assert os.listdir(temporary) == []
    executable.close()
