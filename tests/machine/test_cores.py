from __future__ import annotations

import os
from pathlib import Path

import pytest

from pinnace.machine import cores


@pytest.mark.parametrize(("quota", "count"), [(0.0, 4), (1.5, 2), (0.2, 1), (16.0, 4)])
def test_usable_cores_are_those_allowed_and_granted(
    monkeypatch: pytest.MonkeyPatch, quota: float, count: int
) -> None:
    monkeypatch.setattr(cores, "allowed_cores", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(cores, "cpu_quota", lambda: quota)
    assert cores.usable_core_count() == count


def test_allowed_cores_follow_the_affinity_of_the_process() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores.allowed_cores() == (min(before),)
    finally:
        os.sched_setaffinity(0, before)


def test_speed_is_read_from_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for core, frequency in enumerate((1000, 3000, 3000)):
        folder = tmp_path / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "cpuinfo_max_freq").write_text(f"{frequency}\n")
    monkeypatch.setattr(cores, "CPUS", tmp_path)
    monkeypatch.setattr(cores, "allowed_cores", lambda: (0, 1, 2, 3))
    assert cores.cores_by_speed(fastest_first=True) == (1, 2, 0, 3)
    assert cores.cores_by_speed(fastest_first=False) == (3, 0, 1, 2)


@pytest.fixture
def two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight processors in two NUMA nodes, numbered as hyper-threads often are."""
    for node, cpulist in enumerate(("0-1,4-5", "2-3,6-7")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cpulist + "\n")
    monkeypatch.setattr(cores, "_NODES", tmp_path)
    monkeypatch.setattr(cores, "allowed_cores", lambda: tuple(range(8)))
    monkeypatch.setattr(cores, "_max_frequency", lambda core: 3000)


@pytest.mark.usefixtures("two_nodes")
def test_threads_of_one_model_stay_in_a_numa_node() -> None:
    assert cores.numa_nodes() == {0: 0, 1: 0, 4: 0, 5: 0, 2: 1, 3: 1, 6: 1, 7: 1}
    assert cores.cores_by_speed(fastest_first=True) == (0, 1, 4, 5, 2, 3, 6, 7)


@pytest.mark.usefixtures("two_nodes")
def test_workers_are_spread_over_numa_nodes() -> None:
    ranked = cores.cores_by_speed(fastest_first=True)
    assert cores.workers_first(ranked, 2) == (0, 2, 1, 4, 5, 3, 6, 7)
    assert cores.workers_first(ranked, 3)[:3] == (0, 2, 1)
    assert cores.workers_first((3,), 2) == (3,)


def test_a_system_that_tells_of_no_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_NODES", tmp_path / "none")
    assert cores.numa_nodes() == {}
    assert cores.workers_first((4, 2), 2) == (4, 2)


def test_threads_are_bound_for_a_block_and_none_where_no_core_is_named() -> None:
    before = os.sched_getaffinity(0)
    with cores.bound(()):
        assert os.sched_getaffinity(0) == before
    with cores.bound({max(before)}):
        assert os.sched_getaffinity(0) == {max(before)}
    assert os.sched_getaffinity(0) == before


def test_one_worker_for_each_core_takes_all_nodes_in_turn(two_nodes: None) -> None:
    assert cores.workers_first((0, 1, 4, 2), 4) == (0, 2, 1, 4)
