"""Limits of control groups, as the kernel and containers lay out their files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pinnace.machine import cgroup

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
V1 = "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n"
V2 = "0::/system.slice/model.service\n"


@pytest.fixture
def laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Lay out files of `/sys/fs/cgroup`, and the process's groups."""

    def lay(own: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "own").write_text(own)
        monkeypatch.setattr(cgroup, "_ROOT", tmp_path / "fs")
        monkeypatch.setattr(cgroup, "_OWN", tmp_path / "own" if own else tmp_path / "none")

    return lay


def v1(folder: str, quota: int, period: int = 100000) -> dict[str, str]:
    """The files of a group of version 1."""
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": f"{period}\n"}


OWN, ABOVE = "system.slice/model.service/cpu.max", "system.slice/cpu.max"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("", {}, 0.0),
        ("", {"cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"cpu.max": "max 100000\n"}, 0.0),
        (V2, {"cpu.max": "garbage"}, 0.0),
        (V2, {OWN: "50000 100000\n"}, 0.5),
        (V2, {OWN: "max 100000\n", ABOVE: "250000 100000\n"}, 2.5),
        (V2, {OWN: "300000 100000\n", ABOVE: "200000 100000\n"}, 2.0),
        (V2, {f"unified/{OWN}": "50000 100000\n"}, 0.5),
        (V2, {"system.slice/other.service/cpu.max": "50000 100000\n"}, 0.0),
        ("0::/../../kubepods/pod1", {"cpu.max": "50000 100000\n"}, 0.5),  # the mount is the container's group
        (V1, v1("cpu,cpuacct/docker/abc", -1), 0.0),
        (V1, v1("cpu,cpuacct/docker/abc", 50000), 0.5),
        (V1, v1("cpu", 50000), 0.5),
        (V1, v1("cpu,cpuacct", 50000, 0), 0.0),
    ],
)
def test_quota(laid_out, own: str, files: dict[str, str], quota: float) -> None:
    laid_out(own, files)
    assert cgroup.cpu_quota() == quota


@pytest.mark.parametrize(
    ("own", "files", "seconds"),
    [
        (V2, {"system.slice/model.service/cpu.stat": "usage_usec 2500000\nuser_usec 2000000\n"}, 2.5),
        (V1, {"cpu,cpuacct/docker/abc/cpu.stat": "nr_periods 0\n"}, 0.0),
        (V1, {"cpu,cpuacct/docker/abc/cpuacct.usage": "1500000000\n"}, 1.5),
        ("", {}, 0.0),
    ],
)
def test_cpu_time_of_a_group(laid_out, own: str, files: dict[str, str], seconds: float) -> None:
    laid_out(own, files)
    assert cgroup.cpu_seconds() == seconds


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("", {}, MACHINE),
        (V2, {"system.slice/model.service/memory.max": "max\n"}, MACHINE),
        (V2, {"system.slice/model.service/memory.max": "8192\n", "system.slice/memory.max": "4096\n"}, 4096),
        (V1, {"memory/docker/abc/memory.limit_in_bytes": "1048576\n"}, 1048576),
        (V1, {"memory/docker/abc/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
    ],
)
def test_memory(laid_out, own: str, files: dict[str, str], limit: int) -> None:
    laid_out(own, files)
    assert cgroup.usable_memory() == limit


def test_this_process() -> None:
    """Whatever it is in: no error."""
    assert cgroup.cpu_quota() >= 0
    assert 0 < cgroup.usable_memory() <= MACHINE


def test_folders_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/shm is a tmpfs on every Linux (shm_overview(7))."""
    (tmp_path / "link").symlink_to("/dev/shm")
    assert cgroup.lies_in_memory(tmp_path / "link" / "missing" / "cache")
    assert not cgroup.is_memory(os.makedev(8, 1))
    monkeypatch.setattr(cgroup, "_MOUNTS", tmp_path / "none")
    assert not cgroup.lies_in_memory(Path("/dev/shm"))


def test_devices_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "21 1 0:34 / /a rw,relatime shared:7 - tmpfs tmpfs rw\n22 1 0:35 / /tmpfs rw - overlay tmpfs rw\n"
    )
    monkeypatch.setattr(cgroup, "_MOUNTS", mounts)
    found = [cgroup.is_memory(os.makedev(0, minor)) for minor in (34, 35, 36)]
    assert found == [True, False, False]


@pytest.mark.parametrize(
    ("kernel", "memory", "pids", "user", "most"),
    [
        ((3000, 9000), 1 << 40, "max", -1, (3000, "kernel.threads-max")),
        ((9000, 3000), 1 << 40, "max", -1, (3000, "kernel.pid_max")),
        ((3000, 9000), 1 << 33, "max", -1, (1024, "usable memory, for stacks of 8 MiB")),
        ((3000, 9000), 1 << 40, "50", -1, (50, "pids.max")),
        ((3000, 9000), 1 << 40, "max", 40, (40, "ulimit -u")),
    ],
)
def test_lowest_limit_of_threads_counts(monkeypatch, tmp_path, kernel, memory, pids, user, most):
    for name, limit in zip(("threads-max", "pid_max"), kernel, strict=True):
        (tmp_path / name).write_text(f"{limit}\n")
    (tmp_path / "pids.max").write_text(f"{pids}\n")
    monkeypatch.setattr(cgroup, "_KERNEL", tmp_path)
    monkeypatch.setattr(cgroup, "_folders", lambda _: [tmp_path])
    monkeypatch.setattr(cgroup, "usable_memory", lambda: memory)
    monkeypatch.setattr(cgroup, "getrlimit", lambda _: (user, 1 << 20))
    assert cgroup.most_threads() == most
