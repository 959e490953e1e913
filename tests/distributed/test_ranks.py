"""Rank files that real MindSpore exported, run by ranks that talk through MPI or sockets.

Expected values: `tools/with_mindspore/make_distributed_goldens.py`;
`Matmul` is the pair of the project's first goldens.
"""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "distributed"

# Both sides compute in float32, sums of up to 64 products of numbers near 1.
TOLERANCE = 1e-5

COLLECTIVES = [
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_reduce_max",
    "all_reduce_min",
    "all_reduce_prod",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_v_blocks",
    "all_to_all_v_c",
    "all_to_all_v_c_t",
    "alone",
    "barrier",
    "batch",
    "borders",
    "broadcast",
    "broadcasts",
    "functions",
    "gather",
    "group",
    "group_broadcast",
    "kinds",
    "lists",
    "narrow",
    "neighbors",
    "posted",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_v",
    "reduce_scatter_v_max",
    "ring",
    "scatter",
    "written",
]
IN_FOUR = [
    *("all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v", "all_to_all_v_c", "batch"),
    *("borders", "broadcasts", "corners", "functions", "gather", "group_broadcast", "kinds", "lists"),
    *("neighbors", "reduce", "reduce_scatter", "reduce_scatter_v", "ring", "scatter", "written"),
]


def stems(size):
    return ",".join(str(DATA / name) for name in (IN_FOUR if size == 4 else COLLECTIVES))


def check(answers, size):
    assert sorted(answers) == list(range(size))
    for answer in answers.values():
        assert "raised" not in answer, answer["raised"]
        assert answer.get("error", "?") <= TOLERANCE, answer
        assert set(answer["shapes"].values()) == {True}


@pytest.mark.parametrize("name", ["Matmul", "mlp", "attention"])
def test_networks_in_two_ranks(ranks, way, name):
    answers, _ = ranks(way, DATA / name, 2)
    check(answers, 2)
    assert answers[1]["info"]["rank"] == "1 of 2"


@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_networks_in_four_ranks(ranks, way, name):
    answers, _ = ranks(way, DATA / name, 4)
    check(answers, 4)


@pytest.mark.parametrize("size", [2, 4])
def test_every_collective(ranks, way, size):
    answers, _ = ranks(way, stems(size), size, "--groups", str(DATA / f"groups_{size}.pb"))
    check(answers, size)


@pytest.mark.gpu
def test_every_collective_over_nccl(ranks):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs: NCCL takes one for each rank")
    answers, _ = ranks("nccl", stems(2), 2, "--groups", str(DATA / "groups_2.pb"), "--gpu")
    check(answers, 2)
    assert answers[0]["info"]["communicator"] == "torch.distributed: NCCL"


def test_groups_of_a_file(ranks, way):
    answers, _ = ranks(way, DATA / "group", 4, "--groups", str(DATA / "groups_4.pb"))
    check(answers, 4)


def test_plain_mpirun_needs_no_launcher(ranks):
    pytest.importorskip("mpi4py")
    answers, _ = ranks("mpi", DATA / "Matmul", 2, launched=False)
    check(answers, 2)
