"""Ranks that do not fit together, do not come, or die: every one of them says so, and none hangs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "distributed"


def raised(answers):
    return {rank: answer.get("raised", "") for rank, answer in answers.items()}


def test_other_collectives(ranks, way, tmp_path):
    for rank, name in enumerate(("all_reduce", "all_gather")):
        for kind in ("mindir", "npz"):
            shutil.copy(DATA / f"{name}_2_{rank}.{kind}", tmp_path / f"differ_2_{rank}.{kind}")
    answers, _ = ranks(way, tmp_path / "differ", 2)
    for message in raised(answers).values():
        assert message.startswith("DistributedError: the ranks do not run parts of one model")
        assert "AllReduce sum of float32[4, 4]" in message
        assert "AllGather of float32[4, 4]" in message
    assert len(answers) == 2


def test_missing_rank_is_named(ranks, way):
    answers, _ = ranks(way, DATA / "Matmul", 2, "--timeout", "5", "--do", "never 1")
    assert "rank 1 did not connect within 5 s" in raised(answers)[0]


def test_late_rank_is_named(ranks, way):
    answers, _ = ranks(way, DATA / "Matmul", 2, "--do", "stops 1")
    assert "rank 0 has waited 5 s for rank 1 in AllReduce" in raised(answers)[0]


def test_rank_that_raises_is_named(ranks, way):
    """The others need not wait until the time is over."""
    answers, errors = ranks(way, DATA / "Matmul", 2, "--do", "raises 1")
    assert "ZeroDivisionError" in errors
    message = raised(answers)[0]
    assert message.startswith(
        ("DistributedError: rank 1 (process ", "DistributedError: rank 0 lost the other ranks")
    )
    assert "AllReduce" in message


def test_killed_rank_is_named(ranks, way):
    answers, _ = ranks(way, DATA / "Matmul", 2, "--do", "die 1")
    message = raised(answers)[0]
    assert message.startswith("DistributedError: rank 1 (process ")
    assert "has ended while rank 0 waited for All" in message


def test_killed_rank_under_plain_mpirun_is_named(ranks):
    pytest.importorskip("mpi4py")
    answers, errors = ranks("mpi", DATA / "Matmul", 2, "--do", "die 1", launched=False)
    assert "rank 1" in errors + raised(answers).get(0, "")
    assert "All" in errors + raised(answers).get(0, "")


def test_single_process_is_refused():
    import pinnace

    model = pinnace.Model()
    with pytest.raises(pinnace.errors.ConfigError, match="start the ranks by mpirun"):
        model.build_from_file(str(DATA / "Matmul_2_0.mindir"), pinnace.ModelType.MINDIR)
