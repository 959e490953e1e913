"""What onnxruntime notes of the nodes it runs."""

import os
import re
import tempfile
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from pinnace.building.build import build_model as build
from pinnace.building.opening import inspect_model
from pinnace.engines.names import Names
from pinnace.options.settings import Settings
from pinnace.options.target import Target

X = np.full((2, 2), 0.5, np.float32)
PROFILED = Target(provider="onnxruntime", threads=1, profile=True)


def value(name, kind=TensorProto.FLOAT, shape=(2, 2)):
    return helper.make_tensor_value_info(name, kind, shape)


def serialized(nodes, outputs):
    graph = helper.make_graph(nodes, "g", [value("x")], [value(name) for name in outputs])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.fixture
def model():
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["a"], name="first"),
        helper.make_node("Softmax", ["a"], ["y"], name="second"),
    ]
    return serialized(nodes, ["y"])


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
    return serialized(nodes, ["y"])


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


DATA = Path(__file__).parents[1] / "data"
FILES = [
    "versions/1.10.0/convolution.mindir",
    "versions/2.10.0/attention.mindir",
    "zoo/bert.mindir",
    "ms/network.ms",
    "lite_layers/attn_lite.mindir",
    "lite_layers/attn.ms",
]
OWN = re.compile(r"Reorder(In|Out)put.*|[A-Z]\w*_\d+|.*_[abcde]+_[abcde]+_.*")
"""Names of what engines add on their own, and of what OpenVINO writes anew without a word of what for."""


@pytest.mark.parametrize("provider", [name for name in ("onnxruntime", "openvino") if find_spec(name)])
@pytest.mark.parametrize("file", FILES)
def test_steps_have_the_names_of_the_file(file, provider):
    in_file = dict(inspect_model(DATA / file).nodes)
    executable = build(DATA / file, None, PROFILED._replace(provider=provider), Settings())
    arrays = [np.zeros(np.abs(port.shape), port.dtype.to_numpy()) for port in executable.inputs]
    executable.execution().run(arrays)
    (run,) = executable.profile()
    executable.close()
    named = [step for step in run if step.node in in_file]
    assert all(OWN.fullmatch(step.node) for step in run if step not in named)
    assert 2 * len(named) > len(run)
    convolved = {in_file[step.node] for step in named if step.operator in ("Conv", "Convolution")}
    assert convolved <= {"Conv2D", "Conv2DFusion", "AvgPool"}  # one is computed as the other


def test_nodes_of_onnx_without_a_name_have_that_of_their_output():
    nodes = [helper.make_node("MatMul", ["x", "x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    (run,), _ = profile(serialized(nodes, ["y"]), 1)
    assert [step.node for step in run] == ["a", "y"]


@pytest.mark.parametrize(
    ("engine", "operator", "name"),
    [
        ("a", "", "first"),
        ("a_nchwc", "", "first"),
        ("a_", "", "first"),
        ("fused a", "", "first"),
        ("b/more/words", "", "b"),  # the node has no name, but its result
        ("b", "FusedConv", "first"),
        ("e", "Conv", "e"),  # four nodes before it
        ("d", "Conv", "first"),
        ("d", "Relu", "b"),
        ("d", "Softmax", "d"),  # which no node of the chain is
        ("ab", "", "ab"),  # of another word
        ("new node", "", "new node"),
        ("", "", ""),
    ],
)
def test_nodes_of_an_engine_have_the_name_of_the_node_that_they_are_for(engine, operator, name):
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 21]> g (float[1,1,2,2] x, float[1,1,1,1] w) => (y) {
            a = Conv(x, w)  b = Relu(a)  c = Neg(b)  d = Abs(c)  e = Exp(d)  y = Sin(e)
        }"""
    )
    model.graph[0].name = "first"
    for node in list(model.graph)[1:]:
        node.name = node.outputs[0].name
    assert Names(model).of(engine, operator) == name
