"""Rank files that real MindSpore exported, run by ranks that talk through MPI, gloo or sockets.

Expected values: `tools/make_distributed_goldens.py`; `Matmul` is the pair of the project's first goldens.
"""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "distributed"

# Both sides compute in float32, sums of up to 64 products of numbers near 1.
TOLERANCE = 1e-5

COLLECTIVES = [
    "all_gather",
    "all_reduce",
    "all_reduce_max",
    "all_reduce_min",
    "all_reduce_prod",
    "all_to_all",
    "broadcast",
    "neighbors",
    "reduce_scatter",
    "ring",
]


def check(answers, size):
    assert sorted(answers) == list(range(size))
    for answer in answers.values():
        assert answer.get("error", "?") <= TOLERANCE, answer
        assert all(answer["shapes"])


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
    answers, _ = ranks(way, ",".join(str(DATA / name) for name in COLLECTIVES), size)
    check(answers, size)


@pytest.mark.gpu
def test_every_collective_over_nccl(ranks):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs: NCCL takes one for each rank")
    answers, _ = ranks("torch", ",".join(str(DATA / name) for name in COLLECTIVES), 2, "--gpu")
    check(answers, 2)
    assert answers[0]["info"]["communicator"] == "torch.distributed: NCCL"


def test_groups_of_a_file(ranks, way):
    answers, _ = ranks(way, DATA / "group", 4, "--groups", str(DATA / "groups_4.pb"))
    check(answers, 4)


def test_plain_mpirun_needs_no_launcher(ranks):
    pytest.importorskip("mpi4py")
    answers, _ = ranks("mpi", DATA / "Matmul", 2, launched=False)
    check(answers, 2)
