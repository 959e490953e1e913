"""Limits of this process, above all of its control groups: those of systemd, Docker and Kubernetes.

`/proc/self/cgroup` names the process's group in each hierarchy; a limit of a parent counts too (cgroups(7),
the kernel's documents cgroup-v2 and cgroup-v1). Where a container sees the group's path of its host, which
is not mounted there, the root of the mount is the container's own group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from resource import RLIMIT_NPROC, getrlimit

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_MOUNTS = Path("/proc/self/mountinfo")
_KERNEL = Path("/proc/sys/kernel")
_STACK = 1 << 23
"""Bytes of a thread's stack."""


def cpu_quota() -> float:
    """Return the number of cores that the lowest quota amounts to; 0 without a limit.

    Version 2 writes "quota period" or "max period" into `cpu.max`, version 1 has a file for each of the two.
    """
    found = [text.split() for text in _texts("cpu", "cpu.max")]
    for folder in _folders("cpu"):
        with suppress(OSError):
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            found.append([(folder / file).read_text().strip() for file in files])
    quotas = []
    for quota_and_period in found:
        with suppress(ValueError, ZeroDivisionError):
            quota, period = map(int, quota_and_period)
            quotas.append(quota / period)
    return min((quota for quota in quotas if quota > 0), default=0.0)


def cpu_seconds() -> float:
    """Return the CPU time that all processes of this process's group have used; 0 if it is unknown."""
    for text in _texts("cpu", "cpu.stat"):
        for line in text.splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
    for text in _texts("cpuacct", "cpuacct.usage"):
        return int(text) / 1e9
    return 0.0


def usable_memory() -> int:
    """Return the bytes of memory that this process may use: those of the machine, or the lowest limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for text in (*_texts("memory", "memory.max"), *_texts("memory", "memory.limit_in_bytes")):
        with suppress(ValueError):  # "max"
            limits.append(int(text))
    return min(limit for limit in limits if limit > 0)


def most_threads() -> tuple[int, str]:
    """Return the number of threads that a process may have here, and what limits it."""
    return min(_limits())


def _limits() -> Iterator[tuple[int, str]]:
    yield usable_memory() // _STACK, f"usable memory, for stacks of {_STACK >> 20} MiB"
    if getrlimit(RLIMIT_NPROC)[0] > 0:
        yield getrlimit(RLIMIT_NPROC)[0], "ulimit -u"
    names = [(_KERNEL / name, f"kernel.{name}") for name in ("threads-max", "pid_max")]
    for file, name in (*names, *((folder / "pids.max", "pids.max") for folder in _folders("pids"))):
        with suppress(OSError, ValueError):  # "max"
            yield int(file.read_text()), name


def lies_in_memory(path: Path) -> bool:
    """Return True for a path on a tmpfs, whose files count as memory of the groups that write them."""
    while not path.exists():
        path = path.parent
    return is_memory(path.stat().st_dev)


def is_memory(device: int) -> bool:
    """Return True for the number of a device (`st_dev`) that is a tmpfs.

    A line of mountinfo (proc_pid_mountinfo(5)) has the device third, and the type after a dash.
    """
    if os.major(device):  # a disk
        return False
    with suppress(OSError):
        mounts = [line.partition(" - ") for line in _MOUNTS.read_text().splitlines()]
        kinds = {mount.split()[2]: kind.split()[0] for mount, _, kind in mounts}
        return kinds.get(f"0:{os.minor(device)}") in ("tmpfs", "ramfs")
    return False


def _texts(controller: str, file: str) -> Iterator[str]:
    """Yield the contents of a file in the process's groups of a controller, and in their parents."""
    for folder in _folders(controller):
        with suppress(OSError):
            yield (folder / file).read_text()


def _folders(controller: str) -> Iterator[Path]:
    """Yield the _folders of the process's groups of a controller, and of their parents."""
    places = {"": "/", controller: "/"}
    with suppress(OSError):
        for line in _OWN.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or controller in controllers.split(","):
                places[controllers] = path
    for controllers, path in places.items():
        names = (controllers,) if controllers else ("", "unified")
        for name in names:
            group = _ROOT / name / path.lstrip("/")
            while group.is_relative_to(_ROOT / name):
                yield group
                group = group.parent
