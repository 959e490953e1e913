"""The processors this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, zip_longest
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")
_CGROUP = Path("/sys/fs/cgroup")


def allowed_cores() -> tuple[int, ...]:
    """Processors that this process may be scheduled on, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def usable_core_count() -> int:
    """How many threads can compute at the same time: allowed cores, or less where a cgroup grants less."""
    quota = _cgroup_quota()
    allowed = len(allowed_cores())
    return max(1, min(allowed, math.ceil(quota))) if quota else allowed


def cores_by_speed(fastest_first: bool) -> tuple[int, ...]:
    """Allowed processors ranked by their highest frequency; equals by NUMA node, then by number.

    So the threads of one model stay where its memory is near.
    """
    sign = -1 if fastest_first else 1
    nodes = numa_nodes()
    ranked = sorted(allowed_cores(), key=lambda core: (sign * _max_frequency(core), nodes.get(core, 0), core))
    return tuple(ranked)


def spread(cores: Sequence[int], workers: int) -> tuple[int, ...]:
    """The same processors, those of the workers first: from each NUMA node in turn.

    Workers are what competes for memory; each node has its own way to it.
    """
    nodes = numa_nodes()
    by_node = groupby(sorted(cores, key=lambda core: nodes.get(core, 0)), lambda core: nodes.get(core, 0))
    turns = zip_longest(*(list(group) for _, group in by_node))
    first = [core for turn in turns for core in turn if core is not None][:workers]
    return (*first, *(core for core in cores if core not in first))


@contextmanager
def bound(cores: Collection[int]) -> Iterator[None]:
    """Bind the calling thread, and those that it starts, to these processors for a while; none binds none."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def numa_nodes() -> dict[int, int]:
    """The NUMA node of each processor, from sysfs; {} where the system tells of none."""
    found = {}
    for path in _NODES.glob("node[0-9]*/cpulist"):
        for part in path.read_text().strip().split(","):
            first, _, last = part.partition("-")
            if first:
                found.update(
                    dict.fromkeys(range(int(first), int(last or first) + 1), int(path.parent.name[4:]))
                )
    return found


def _max_frequency(core: int) -> int:
    """In kHz; 0 where the system does not tell, as in most virtual machines."""
    try:
        return int((_CPU / f"cpu{core}/cpufreq/cpuinfo_max_freq").read_text())
    except (OSError, ValueError):
        return 0


def _cgroup_quota() -> float:
    """Processors' worth of time that the cgroup grants; 0 where it sets no limit.

    cgroup v2 writes "quota period" or "max period" into `cpu.max`, v1 the two into files of their own.
    """
    try:
        if (_CGROUP / "cpu.max").exists():
            quota, period = (_CGROUP / "cpu.max").read_text().split()
        else:
            quota = (_CGROUP / "cpu/cpu.cfs_quota_us").read_text()
            period = (_CGROUP / "cpu/cpu.cfs_period_us").read_text()
        return max(0.0, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return 0.0
