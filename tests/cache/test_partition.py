"""One rank's part in the compile cache: its segments are compiled once."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pinnace
from pinnace import formats
from pinnace.distributed import executable
from pinnace.engines.onnxruntime.engine import Onnxruntime
from pinnace.errors import PinnaceWarning

from .conftest import X


class Alone:
    """A communicator with one rank, and the link of it."""

    rank, size, name = 0, 1, "nobody"

    class watchdog:
        begin = fail = staticmethod(lambda what: None)

    def gather(self, text):
        return [text]

    def link(self, groups):
        return self

    def all_reduce(self, group, x, out, op):
        np.copyto(out, x)

    def all_gather(self, group, x, out):
        np.copyto(out, x)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setattr(executable, "communicator", lambda *_: Alone())


@pytest.fixture
def compiled(monkeypatch):
    """The graphs that were compiled, not loaded: their nodes' types."""
    seen = []
    compile_ = Onnxruntime.compile

    def counting(self, graph, *rest):
        seen.append([node.op_type for node in graph.model.graph])
        return compile_(self, graph, *rest)

    monkeypatch.setattr(Onnxruntime, "compile", counting)
    return seen


def make_part(path, rank=0):
    """relu of the sum of x w, and a weight that only a collective takes. Gives both weights."""
    rng = np.random.default_rng(rank)
    w, c = (rng.normal(size=shape).astype(np.float32) for shape in ((128, 512), (4, 3)))
    domain = "pinnace.distributed"
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("AllReduce", ["a"], ["b"], name="sum", domain=domain, op="sum"),
            helper.make_node("Relu", ["b"], ["y"]),
            helper.make_node("AllGather", ["c"], ["z"], name="parts", domain=domain),
        ],
        "part",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 128])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 512]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 3]),
        ],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(c, "c")],
        value_info=[helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 512]) for n in "ab"],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return w, c


@pytest.fixture
def part(tmp_path):
    path = tmp_path / "part_0.onnx"
    return path, make_part(path)


def predict(path):
    with pinnace.Model() as model:
        model.build_from_file(str(path), pinnace.ModelType.ONNX)
        assert model.get_model_info("rank") == "0 of 1"
        return [output.get_data_to_numpy() for output in model.predict([X])]


def check(found, weights):
    w, c = weights
    # 128 products summed in another order than numpy's
    assert found[0] == pytest.approx(np.maximum(X @ w, 0), rel=1e-4, abs=1e-4)
    np.testing.assert_array_equal(found[1], c)


def test_segments_are_compiled_once_and_the_file_is_not_read_again(cache, part, compiled, monkeypatch):
    path, weights = part
    check(predict(path), weights)
    assert compiled == [["MatMul"], ["Relu"]]
    monkeypatch.setattr(formats, "read", None)  # whoever calls it fails
    check(predict(path), weights)
    assert len(compiled) == 2
    assert len(list((cache / "entries").iterdir())) == 1


def test_every_rank_has_its_own(cache, part, compiled, tmp_path):
    path, weights = part
    other = tmp_path / "part_1.onnx"
    others = make_part(other, rank=1)
    for _ in range(2):
        check(predict(path), weights)
        check(predict(other), others)
    assert len(compiled) == 4


def test_damage_in_a_segment_is_noticed(cache, part, compiled):
    path, weights = part
    predict(path)
    graph = next(cache.glob("entries/*/segments/1/graph.onnx"))
    graph.write_bytes(graph.read_bytes()[:-1])
    with pytest.warns(PinnaceWarning, match="segments/1/graph.onnx has changed since it was written"):
        check(predict(path), weights)
    assert len(compiled) == 4


def test_a_cache_that_cannot_be_written(cache, part, compiled):
    path, weights = part
    cache.write_text("a file, not a folder")
    with pytest.warns(PinnaceWarning, match="compile cache: off"):
        check(predict(path), weights)
    assert not compiled


def test_weights_of_a_part_are_not_lent(cache, part, tmp_path):
    path, _ = part
    model = pinnace.Model()
    lends = {"ascend_context": {"shareable_weight_pid_list": "1"}}
    with pytest.raises(pinnace.errors.NotSupportedError, match="one rank's part cannot be lent"):
        model.build_from_file(str(path), pinnace.ModelType.ONNX, pinnace.Context(), "", lends)


def test_the_plan_stays_what_it_was(cache, part):
    predict(part[0])
    plan = json.loads(next(cache.glob("entries/*/plan.json")).read_text())
    kinds = [step.get("collective", {}).get("kind", "") for step in plan["steps"]]
    assert [kind for kind in kinds if kind] == ["AllReduce", "AllGather"]
    assert plan["constants"] == ["c"]
