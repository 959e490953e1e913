"""Common ways of writing a transformer: two collectives a layer, and ranks that compute what PyTorch does."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.deferred import import_onnx_ir

import_onnx_ir()
sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no part of the package

from benchmarks.models.language import bert, llama_block  # noqa: E402

from pinnace.distributed.shard import costs  # noqa: E402
from pinnace.distributed.shard.cutting import shard  # noqa: E402

DATA = Path(__file__).parents[1] / "data"
TRANSFORMERS, ZOO = DATA / "transformers", DATA / "zoo"
"""Made by `tools/with_others/make_transformers.py`, and by MindSpore."""
TOLERANCE = 1e-5  # float32, of the largest value: the sums of the ranks come in another order

# Of two layers: tables are gathered once, heads of the vocabulary and caches of keys and values are outputs.
COLLECTIVES = {
    "bert": {"AllReduce": 4, "AllGather": 1},
    "gpt2": {"AllReduce": 4 + 1, "AllGather": 1 + 1},
    "llama": {"AllReduce": 4 + 1, "AllGather": 1},
    "llama_fused": {"AllReduce": 4 + 1, "AllGather": 1},
    "vit": {"AllReduce": 4},
    "encoder": {"AllReduce": 4},
}
FILES = [TRANSFORMERS / f"{name}_{way}.onnx" for name in COLLECTIVES for way in ("script", "dynamo")]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Weights are small here, and count as those of large models do."""
    monkeypatch.setattr(costs, "HELD", 100)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_two_collectives_a_layer(tmp_path, path):
    shares = shard(path, 2, tmp_path, "tensor")
    for share in shares:
        assert kinds(tmp_path / share.file) == COLLECTIVES[path.stem.rpartition("_")[0]]
        assert share.weights <= 0.53 * share.whole  # norms and numbers are whole


@pytest.mark.parametrize(
    ("name", "layers", "others"), [("bert", 2, 2), ("llama", 2, 2), ("whisper_encoder", 2, 0)]
)
def test_two_collectives_a_layer_of_mindspore(tmp_path, name, layers, others):
    for share in shard(ZOO / f"{name}.mindir", 2, tmp_path, "tensor"):
        assert share.collectives == 2 * layers + others


def test_a_rotation_and_a_mask_of_constants(tmp_path):
    """As exporters write them for fixed shapes: each could be divided in several ways, for nothing."""
    rng = np.random.default_rng(1)
    weights = {name: rng.normal(size=(64, 64)).astype(np.float32) for name in ("q", "k", "v", "out")}
    weights |= {"angles": rng.normal(size=(1, 1, 8, 16)).astype(np.float32)}
    weights |= {"ones": np.ones((1, 1, 8, 8), np.float32), "heads": np.array([0, 0, 4, 16])}
    nodes = [helper.make_node(kind, ["angles"], [kind]) for kind in ("Cos", "Sin", "Tan", "Erf")]
    nodes += [
        helper.make_node("Trilu", ["ones"], ["seen"], upper=0),
        helper.make_node("Log", ["seen"], ["mask"]),
    ]
    for name in "qkv":
        nodes.append(helper.make_node("MatMul", ["x", name], [f"{name}0"]))
        nodes.append(helper.make_node("Reshape", [f"{name}0", "heads"], [f"{name}1"]))
        nodes.append(helper.make_node("Transpose", [f"{name}1"], [f"{name}2"], perm=[0, 2, 1, 3]))
    turned = {"q2": ("Cos", "Sin"), "k2": ("Tan", "Erf")}
    for name, (times, plus) in turned.items():
        nodes.append(helper.make_node("Mul", [name, times], [f"{name}a"]))
        nodes.append(helper.make_node("Add", [f"{name}a", plus], [f"{name}b"]))
    nodes.append(helper.make_node("Transpose", ["k2b"], ["kt"], perm=[0, 1, 3, 2]))
    chain = [("MatMul", "q2b", "kt"), ("Add", None, "mask"), ("Softmax", None), ("MatMul", None, "v2")]
    last = ""
    for number, (kind, *given) in enumerate(chain):
        nodes.append(helper.make_node(kind, [one or last for one in given], [f"s{number}"]))
        last = f"s{number}"
    nodes.append(helper.make_node("Transpose", [last], ["joined"], perm=[0, 2, 1, 3]))
    nodes.append(helper.make_node("Reshape", ["joined", "width"], ["row"]))
    nodes.append(helper.make_node("MatMul", ["row", "out"], ["y"]))
    weights["width"] = np.array([0, 0, 64])
    graph = helper.make_graph(
        nodes,
        "rotated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 64])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "rotated.onnx",
    )
    for share in shard(tmp_path / "rotated.onnx", 2, tmp_path, "tensor"):
        assert kinds(tmp_path / share.file) == {"AllReduce": 1}


def test_large_models_as_they_are(tmp_path, monkeypatch):
    """The shapes of BERT-base and TinyLlama, narrower; weights cost as much as those of the full width."""
    monkeypatch.setattr(costs, "HELD", 64)
    bert(tmp_path / "bert.onnx", 1, 128, 1000, width=96, heads=12, layers=12)
    for share in shard(tmp_path / "bert.onnx", 2, tmp_path, "tensor"):
        assert kinds(tmp_path / share.file) == {"AllReduce": 24, "AllGather": 1}
        assert share.sent == 128 * 96 * 4 * 24 + 128 * 96 * 2
    llama_block(tmp_path / "llama.onnx", 128, 32, 4, 352)
    for ranks in (2, 4):
        for share in shard(tmp_path / "llama.onnx", ranks, tmp_path, "tensor"):
            assert kinds(tmp_path / share.file) == {"AllReduce": 2}


def test_ranks_compute_what_pytorch_did(ranks, tmp_path):
    for path in FILES:
        shard(path, 2, tmp_path, "tensor")
        golden = TRANSFORMERS / f"{path.stem.rpartition('_')[0]}.npz"
        (tmp_path / f"{path.stem}.npz").write_bytes(golden.read_bytes())
    stems = ",".join(f"{tmp_path}/{path.stem}_{{rank}}.onnx" for path in FILES)
    answers, errors = ranks("sockets", stems, 2, "--golden", str(tmp_path))
    assert sorted(answers) == [0, 1], errors
    for answer in answers.values():
        assert not answer.get("raised")
        assert all(answer["shapes"].values()), answer
        assert answer["error"] <= TOLERANCE, answer


def test_four_ranks_have_rows_of_a_vocabulary(ranks, tmp_path):
    """A width that four ranks cannot share; indices from the end too."""
    write_lookup(tmp_path / "table.onnx")
    ids = np.array([[0, 16, -1, 5, -17, 12]])
    np.savez(tmp_path / "table.npz", run0_x0=ids, run0_y0=TABLE[ids])
    shares = shard(tmp_path / "table.onnx", 4, tmp_path, "tensor")
    beside = [share.weights - 4 * 15 * (n + 1) for share, n in zip(shares, (4, 4, 4, 5), strict=True)]
    assert all(0 < constants <= 6 * 8 for constants in beside)
    answers, _ = ranks("sockets", f"{tmp_path}/table_{{rank}}.onnx", 4, "--golden", str(tmp_path))
    assert [answers[rank]["error"] for rank in range(4)] == [0] * 4


def test_an_index_that_no_rank_has(ranks, tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "HELD", 1000)
    write_lookup(tmp_path / "table.onnx")
    np.savez(tmp_path / "table.npz", run0_x0=np.array([[0, 17, 1, 1, 1, 1]]), run0_y0=TABLE[:6])
    shard(tmp_path / "table.onnx", 2, tmp_path, "tensor")
    answers, _ = ranks("sockets", f"{tmp_path}/table_{{rank}}.onnx", 2, "--golden", str(tmp_path))
    assert all("indices element out of data bounds" in answers[rank]["raised"] for rank in range(2))


@pytest.mark.parametrize("kind", ["Transpose", "Gemm"])
def test_a_table_that_is_the_head_too(ranks, tmp_path, kind):
    """It is cut once: by columns, which are gathered once, and by which the head is a sum."""
    head = [helper.make_node("Gemm", ["rows", "table"], ["y"], transB=1)]
    if kind == "Transpose":
        head = [
            helper.make_node("Transpose", ["table"], ["t"]),
            helper.make_node("MatMul", ["rows", "t"], ["y"]),
        ]
    table = np.random.default_rng(1).normal(size=(61, 32)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["x"]),
            helper.make_node("Tanh", ["x"], ["rows"]),
            *head,
        ],
        "tied",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 61])],
        [numpy_helper.from_array(table, "table")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "tied.onnx",
    )
    ids = np.array([0, 60, 5, 5, 9, 1])
    np.savez(tmp_path / "tied.npz", run0_x0=ids, run0_y0=np.tanh(table[ids]) @ table.T)
    shares = shard(tmp_path / "tied.onnx", 2, tmp_path, "tensor")
    assert [share.weights for share in shares] == [61 * 32 * 2] * 2
    answers, _ = ranks("sockets", f"{tmp_path}/tied_{{rank}}.onnx", 2, "--golden", str(tmp_path))
    assert all(answers[rank]["error"] <= TOLERANCE for rank in range(2))


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_head_that_the_ranks_do_not_divide(ranks, tmp_path, kind, size):
    """It is cut by columns, of which zeros are added."""
    rng = np.random.default_rng(1)
    x, head, bias = (rng.normal(size=dims).astype(np.float32) for dims in ((6, 64), (64, 1001), 1001))
    product = [
        helper.make_node("MatMul", ["x", "head"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    if kind == "Gemm":
        product = [helper.make_node("Gemm", ["x", "head", "bias"], ["y"], transB=1)]
    graph = helper.make_graph(
        product,
        "head",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 1001])],
        [
            numpy_helper.from_array(head.T.copy() if kind == "Gemm" else head, "head"),
            numpy_helper.from_array(bias, "bias"),
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "head.onnx",
    )
    np.savez(tmp_path / "head.npz", run0_x0=x, run0_y0=x @ head + bias)
    for share in shard(tmp_path / "head.onnx", size, tmp_path, "tensor"):
        assert kinds(tmp_path / share.file) == {"AllGather": 1}
    answers, errors = ranks("sockets", f"{tmp_path}/head_{{rank}}.onnx", size, "--golden", str(tmp_path))
    assert sorted(answers) == [*range(size)], errors
    assert all(answers[rank]["error"] <= TOLERANCE for rank in range(size))


TABLE = np.random.default_rng(1).normal(size=(17, 15)).astype(np.float32)


def write_lookup(path):
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 15])],
        [numpy_helper.from_array(TABLE, "table")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def kinds(path):
    model = onnx.load(path, load_external_data=False)
    return Counter(node.op_type for node in model.graph.node if node.domain == "pinnace.distributed")
