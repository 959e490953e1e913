"""What the one door says of models that cannot run, and how it is kept light."""

from __future__ import annotations

import gc
import pickle
import shutil

import pytest

from pinnace.building.build import build_model as build
from pinnace.building.build import no_garbage_collection
from pinnace.building.opening import inspect_model
from pinnace.errors import UnsupportedModelError
from pinnace.formats.mindir.schema import model_class
from pinnace.options.settings import Settings
from pinnace.options.target import Target


@pytest.fixture
def strange(data, tmp_path):
    """A model of MindSpore's with three primitives that nobody knows, one of them used twice."""
    model = model_class().FromString((data / "split" / "big_graph.mindir").read_bytes())
    names = {"MatMul": "MatWhat", "BiasAdd": "BiasWhy", "ReLU": "ReWho"}
    for primitive in model.primitives:
        primitive.op_type = names.get(primitive.op_type, primitive.op_type)
    path = tmp_path / "strange.mindir"
    path.write_bytes(model.SerializeToString())
    shutil.copytree(data / "split" / "big_variables", tmp_path / "big_variables")
    return path


def test_one_error_names_all_unsupported_primitives(strange):
    with pytest.raises(UnsupportedModelError) as caught:
        build(strange, None, Target(), Settings())
    found = {p.name: (p.count, p.first_node) for p in caught.value.primitives}
    assert found.keys() == {"MatWhat", "BiasWhy", "ReWho"}
    assert [found[n][0] for n in ("MatWhat", "BiasWhy", "ReWho")] == [2, 2, 1]
    for name, (count, node) in found.items():
        assert f"{name} x{count}, first at node {node!r}" in str(caught.value)


def test_inspect_names_them_too_and_still_tells_the_inputs(strange):
    report = inspect_model(strange)
    assert {p.name for p in report.unsupported} == {"MatWhat", "BiasWhy", "ReWho"}
    assert [(p.name, p.shape) for p in report.inputs] == [("x", (3, 16))]


def test_the_error_survives_a_process_boundary(strange):
    with pytest.raises(UnsupportedModelError) as caught:
        build(strange, None, Target(), Settings())
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.primitives) == (str(caught.value), caught.value.primitives)


def test_inspect_counts_what_is_there(data):
    report = inspect_model(data / "split" / "big_graph.mindir")
    assert report.dialect == "MindIR of MindSpore"
    assert report.producer == "MindSpore 2.10.0"
    # Dense(16, 64) and Dense(64, 8): four tensors of fp32.
    assert (report.parameters, report.parameter_bytes) == (4, 4 * (16 * 64 + 64 + 64 * 8 + 8))
    assert report.primitives["MatMul"] == 2
    assert report.unsupported == ()
    assert [(p.name, p.shape) for p in report.inputs] == [("x", (3, 16))]
    assert [p.shape for p in report.outputs] == [(3, 8)]


@pytest.mark.parametrize(("name", "reason"), [("rank", "free rank"), ("complex", "COMPLEX64")])
def test_what_cannot_be_an_input_is_refused_by_name(data, name, reason):
    path = data / "refused" / f"{name}.mindir"  # written by MindSpore 2.10.0: x + x, relu(x) + 1
    with pytest.raises(UnsupportedModelError, match=f"'x'.*{reason}|{reason}.*'x'"):
        build(path, None, Target(), Settings())
    assert [p.name for p in inspect_model(path).unsupported]


def test_builds_leave_the_garbage_collector_as_it_was():
    with no_garbage_collection():
        assert not gc.isenabled()
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
