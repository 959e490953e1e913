"""Ranks as threads of one process, whose lines `python -m tests.mutants` sees."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.distributed.conftest import table
from tests.distributed.test_ranks import DATA, TOLERANCE, stems
from tests.ports import free_port

import pinnace
from pinnace.errors import DataMismatchError, DistributedError, PinnaceError


@pytest.mark.parametrize("size", [2, 4])
def test_every_collective_between_threads(size, tmp_path, monkeypatch):
    monkeypatch.setenv("HCCL_IF_BASE_PORT", str(free_port()))
    monkeypatch.setenv("PINNACE_COMMUNICATOR", "sockets")
    config = table(tmp_path, size)

    def run(rank: int) -> None:
        context = pinnace.Context()
        context.cpu.thread_num = 1
        context.group_info_file = str(DATA / f"groups_{size}.pb")
        context.ascend.rank_id = rank
        for stem in stems(size).split(","):
            _compare(f"{stem}_{size}_{rank}", context, config)

    with ThreadPoolExecutor(size) as threads:
        list(threads.map(run, range(size)))


@pytest.fixture
def in_two_ranks(tmp_path, monkeypatch):
    """Gives what a function answers in each of two ranks, with the model of a collective of free rows."""
    monkeypatch.setenv("HCCL_IF_BASE_PORT", str(free_port()))
    monkeypatch.setenv("PINNACE_COMMUNICATOR", "sockets")
    config, path = table(tmp_path, 2), str(tmp_path / "free.onnx")

    def call(kind, do):
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [name, 4]) for name in "xy")
        node = helper.make_node(kind, ["x"], ["y"], domain="pinnace.distributed")
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("pinnace.distributed", 1)]
        graph = helper.make_graph([node], "free", [x], [y])
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)

        def run(rank):
            context = pinnace.Context()
            context.ascend.rank_id = rank
            model = pinnace.Model()
            model.build_from_file(path, pinnace.ModelType.ONNX, context, config)
            return do(model, rank)

        with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(2) as threads:
            return list(threads.map(run, range(2)))  # warned: both have one file

    return call


@pytest.mark.parametrize("kind", ["ReduceScatter", "AllToAll"])
def test_free_rows_that_the_ranks_cannot_share_are_refused(kind, in_two_ranks):
    """Those of 4 elements, in all 20, would come in halves."""

    def run(model, rank):
        told = [model.get_model_info(key) for key in ("rank", "communicator", "segments", "collectives")]
        assert told == [f"{rank} of 2", "sockets", "0", "1"]
        with pytest.raises(PinnaceError) as raised:
            model.predict([np.ones((5, 4), np.float32)])
        return raised.value

    found = next(one for one in in_two_ranks(kind, run) if isinstance(one, DataMismatchError))  # the first
    assert "has 5 rows, which 2 ranks cannot share" in str(found)


def test_free_rows_may_be_others_in_each_run_but_not_in_each_rank(in_two_ranks):
    def run(model, rank):
        for rows in (2, 3, 2):
            (output,) = model.predict([np.full((rows, 4), rank + 1, np.float32)])
            np.testing.assert_array_equal(output.get_data_to_numpy(), np.full((rows, 4), 3, np.float32))
        with pytest.raises(DistributedError) as raised:
            model.predict([np.ones((5 + rank, 4), np.float32)])
        with pytest.raises(DistributedError, match="no collective can run any more"):
            model.predict([np.ones((2, 4), np.float32)])
        return str(raised.value)

    errors = in_two_ranks("AllReduce", run)  # the other may notice that the first has failed
    sizes = ("[5, 4]", "[6, 4]")
    wanted = [
        f"rank {rank} has a tensor of shape {sizes[rank]} and rank {1 - rank} one of {sizes[1 - rank]} in"
        for rank in range(2)
    ]
    assert any(text in error for error, text in zip(errors, wanted, strict=True)), errors


def _compare(stem: str, context, config: str) -> None:
    golden = np.load(f"{stem}.npz")
    model = pinnace.Model()
    model.build_from_file(f"{stem}.mindir", pinnace.ModelType.MINDIR, context, config)
    outputs = [output.get_data_to_numpy() for output in model.predict([golden["x"]])]
    for output, name in zip(outputs, [name for name in golden if name != "x"], strict=True):
        expected = golden[name]
        assert (output.shape, output.dtype) == (expected.shape, expected.dtype), stem
        # MindSpore sums halves in halves, with a rounding for each rank.
        tolerance = TOLERANCE * (300 if expected.dtype == np.float16 else 1)
        np.testing.assert_allclose(output, expected, rtol=tolerance, atol=tolerance, err_msg=stem)
