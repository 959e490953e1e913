"""Models that `pinnace shard` has cut: together the ranks compute what MindSpore computed of the whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from typer.testing import CliRunner

from pinnace.cli import app
from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, NotSupportedError

import_onnx_ir()

from pinnace.converter.convert import save_mindir  # noqa: E402
from pinnace.distributed.segments import partition  # noqa: E402
from pinnace.distributed.shard import costs  # noqa: E402
from pinnace.distributed.shard.cutting import shard  # noqa: E402
from pinnace.formats import read  # noqa: E402
from pinnace.weights.source import Source  # noqa: E402

ZOO = Path(__file__).parents[1] / "data" / "zoo"

# Of the largest value, as for the whole networks: the sums of the ranks come in another order.
TOLERANCE = 1e-5
LOOSER = 1e-4  # dbnet: the step between its two maps is 50 times as steep as they are

TENSOR = ["bert", "llama", "t5", "two_tower", "whisper_encoder", "diffusion_unet"]
PIPELINE = [*TENSOR, "crnn", "dbnet", "lstm_tagger"]


@pytest.fixture
def small(monkeypatch):
    """The networks of the zoo are small: their weights count as those of large models do."""
    monkeypatch.setattr(costs, "HELD", 100)


@pytest.mark.parametrize(("strategy", "names"), [("tensor", TENSOR), ("pipeline", PIPELINE)])
def test_two_ranks_compute_what_the_whole_does(ranks, way, tmp_path, small, strategy, names):
    for name in names:
        shard(ZOO / f"{name}.mindir", 2, tmp_path, strategy)
    stems = ",".join(f"{tmp_path}/{name}_{{rank}}.onnx" for name in names)
    answers, _ = ranks(way, stems, 2, "--golden", str(ZOO))
    assert sorted(answers) == [0, 1]
    for answer in answers.values():
        assert answer["error"] <= (LOOSER if "dbnet" in names else TOLERANCE), answer
        assert all(answer["shapes"].values())


def test_parts_in_mindir_compute_what_the_whole_does(ranks, tmp_path, small):
    """MindSpore 2.10 gives the same for those of the first strategy; its CPU has no Send."""
    stems = []
    for strategy, name in (("tensor", "bert"), ("tensor", "t5"), ("pipeline", "bert"), ("pipeline", "crnn")):
        shares = shard(ZOO / f"{name}.mindir", 2, tmp_path / strategy, strategy, save=save_mindir)
        assert [share.file for share in shares] == [f"{name}_0.mindir", f"{name}_1.mindir"]
        stems.append(f"{tmp_path}/{strategy}/{name}_{{rank}}.mindir")
    answers, _ = ranks("sockets", ",".join(stems), 2, "--golden", str(ZOO))
    assert sorted(answers) == [0, 1]
    for answer in answers.values():
        assert answer["error"] <= TOLERANCE, answer
        assert all(answer["shapes"].values())


@pytest.mark.parametrize("strategy", ["tensor", "pipeline"])
def test_parts_in_mindir_know_their_place_and_their_names(tmp_path, small, strategy):
    whole = read(Source.of_file(ZOO / "bert.mindir"))
    for rank, share in enumerate(shard(ZOO / "bert.mindir", 2, tmp_path, strategy, save=save_mindir)):
        part = read(Source.of_file(tmp_path / share.file))
        assert (part.input_names, part.output_names) == (whole.input_names, whole.output_names)
        assert (partition(part.user_info).rank, partition(part.user_info).size) == (rank, 2)


def test_an_operator_without_a_primitive(tmp_path):
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["h"]),
        onnx.helper.make_node("RandomNormalLike", ["h"], ["y"], seed=1.0),
    ]
    ports = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 64]) for name in "xy")
    given, result = ([port] for port in ports)
    weight = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = onnx.helper.make_graph(nodes, "g", given, result, [weight])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    with pytest.raises(NotSupportedError, match=r"RandomNormalLike x1(?s:.*)--format onnx"):
        shard(tmp_path / "m.onnx", 2, tmp_path / "parts", "pipeline", save=save_mindir)
    assert not list((tmp_path / "parts").iterdir())


def test_four_ranks(ranks, tmp_path, small):
    pytest.importorskip("mpi4py")
    shard(ZOO / "bert.mindir", 4, tmp_path, "pipeline")
    answers, _ = ranks("mpi", f"{tmp_path}/bert_{{rank}}.onnx", 4, "--golden", str(ZOO))
    assert [answers[rank]["error"] <= TOLERANCE for rank in range(4)] == [True] * 4


def test_every_large_weight_is_in_one_rank(tmp_path, small):
    """Parameters, that is: a table that lowering has computed, as of positions, may be in both."""
    shares = shard(ZOO / "t5.mindir", 2, tmp_path, "tensor")
    assert all(share.weights <= 0.55 * share.whole for share in shares)
    parts = [_weights(tmp_path / share.file) for share in shares]
    large = {name for name, array in parts[0].items() if array.nbytes > 1024 and name[0] != "%"}
    assert large
    assert not [name for name in large if np.array_equal(parts[0][name], parts[1][name])]


def test_pipeline_holds_each_weight_once(tmp_path, small):
    shares = shard(ZOO / "crnn.mindir", 3, tmp_path, "pipeline")
    whole = shares[0].whole
    assert sum(share.weights for share in shares) == pytest.approx(whole, rel=0.01)
    assert max(share.weights for share in shares) < 0.6 * whole


def test_parts_of_another_place(ranks, tmp_path, small):
    pytest.importorskip("mpi4py")
    shard(ZOO / "bert.mindir", 2, tmp_path / "a", "pipeline")
    (tmp_path / "b").mkdir()
    for rank in range(2):
        for kind in ("onnx", "data"):
            (tmp_path / "b" / f"bert_{rank}.{kind}").write_bytes(
                (tmp_path / "a" / f"bert_1.{kind}").read_bytes()
            )
    for rank in range(2):
        model = onnx.load(tmp_path / "b" / f"bert_{rank}.onnx", load_external_data=False)
        for weight in model.graph.initializer:
            for entry in weight.external_data:
                entry.value = f"bert_{rank}.data" if entry.key == "location" else entry.value
        onnx.save(model, tmp_path / "b" / f"bert_{rank}.onnx")
    answers, _ = ranks("mpi", f"{tmp_path}/b/bert_{{rank}}.onnx", 2, "--golden", str(ZOO), "--timeout", "60")
    for answer in answers.values():
        assert "which is the part for rank 1 of 2" in answer["raised"]


def test_parts_tell_models_apart_by_weights_in_other_files(tmp_path, small):
    """Two trainings of one network: the graphs are the same to the last byte."""
    names = set()
    for training in range(2):
        weight = onnx.numpy_helper.from_array(np.full((64, 64), training, np.float32), "w")
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
            "g",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 64])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 64])],
            [weight],
        )
        path = tmp_path / str(training) / "m.onnx"
        path.parent.mkdir()
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
        shard(path, 2, path.parent / "parts", "tensor")
        for rank in range(2):
            made = onnx.load(path.parent / "parts" / f"m_{rank}.onnx", load_external_data=False)
            names.add(json.loads(made.metadata_props[0].value)["model"])
    assert len(names) == 2


def test_nothing_to_cut(tmp_path):
    with pytest.raises(ConfigError, match="use --strategy pipeline"):
        shard(ZOO / "crnn.mindir", 2, tmp_path, "tensor")


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([1, 2], r"\[1, 2\]: it is \[1, 1, 32, 64\]"),
        ([2, 1, 32, 64], r"\[2, 1, 32, 64\]: it is \[1, 1, 32, 64\]"),
        ([1, 1, 0, 64], "at least 1"),
    ],
)
def test_a_shape_that_no_input_has(tmp_path, dims, message):
    with pytest.raises(ConfigError, match=message):
        shard(ZOO / "crnn.mindir", 2, tmp_path, "pipeline", {"image": dims})


def test_the_command_reports(tmp_path):
    command = ["shard", str(ZOO / "bert.mindir"), "-n", "2", "--output", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    shares = json.loads(answer.stdout)
    assert [share["file"] for share in shares] == ["bert_0.mindir", "bert_1.mindir"]
    assert all((tmp_path / share["file"]).exists() for share in shares)


def _weights(path: Path) -> dict[str, np.ndarray]:
    model = onnx.load(path)
    return {weight.name: onnx.numpy_helper.to_array(weight) for weight in model.graph.initializer}
