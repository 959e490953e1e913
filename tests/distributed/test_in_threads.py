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


@pytest.mark.parametrize("kind", ["ReduceScatter", "AllToAll"])
def test_free_rows_that_the_ranks_cannot_share_are_refused(kind, tmp_path, monkeypatch):
    """Those of 4 elements, in all 20, would come in halves."""
    monkeypatch.setenv("HCCL_IF_BASE_PORT", str(free_port()))
    monkeypatch.setenv("PINNACE_COMMUNICATOR", "sockets")
    config, path = table(tmp_path, 2), str(tmp_path / "free.onnx")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [name, 4]) for name in "xy")
    node = helper.make_node(kind, ["x"], ["y"], domain="pinnace.distributed")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("pinnace.distributed", 1)]
    graph = helper.make_graph([node], "free", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)

    def run(rank: int) -> None:
        context = pinnace.Context()
        context.ascend.rank_id = rank
        model = pinnace.Model()
        model.build_from_file(path, pinnace.ModelType.ONNX, context, config)
        told = [model.get_model_info(key) for key in ("rank", "communicator", "segments", "collectives")]
        assert told == [f"{rank} of 2", "sockets", "0", "1"]
        with pytest.raises(pinnace.errors.DataMismatchError, match="has 5 rows, which 2 ranks cannot share"):
            model.predict([np.ones((5, 4), np.float32)])

    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(2) as threads:
        list(threads.map(run, range(2)))  # warned: both have one file


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
