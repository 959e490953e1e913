"""The CPU cores that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, zip_longest
from pathlib import Path

from pinnace.machine.cgroup import cpu_quota

CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")


def allowed_cores() -> tuple[int, ...]:
    """Return the cores that this process may be scheduled on, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def usable_core_count() -> int:
    """Return the number of threads that can run in parallel: allowed cores, or the cgroup's quota if
    lower.
    """
    quota = cpu_quota()
    allowed = len(allowed_cores())
    return max(1, min(allowed, math.ceil(quota))) if quota else allowed


def cores_by_speed(fastest_first: bool) -> tuple[int, ...]:
    """Rank the allowed cores by maximum frequency, then by NUMA node, then by number.

    Consecutive cores keep the threads of one model near its memory.
    """
    sign = -1 if fastest_first else 1
    nodes = numa_nodes()
    ranked = sorted(allowed_cores(), key=lambda core: (sign * _max_frequency(core), nodes.get(core, 0), core))
    return tuple(ranked)


def workers_first(cores: Sequence[int], workers: int) -> tuple[int, ...]:
    """Reorder cores so that those of workers come first, taken from each NUMA node in turn.

    Workers compete for memory bandwidth, and each node has its own.
    """
    nodes = numa_nodes()
    by_node = groupby(sorted(cores, key=lambda core: nodes.get(core, 0)), lambda core: nodes.get(core, 0))
    turns = zip_longest(*(list(group) for _, group in by_node))
    first = [core for turn in turns for core in turn if core is not None][:workers]
    return (*first, *(core for core in cores if core not in first))


@contextmanager
def bound(cores: Collection[int]) -> Iterator[None]:
    """Bind the calling thread, and threads that it starts, to these cores in the block; () binds nothing."""
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
    """Return the NUMA node of each core, from sysfs; {} if unknown."""
    found = {}
    for path in _NODES.glob("node[0-9]*/cpulist"):
        found.update(dict.fromkeys(parse_cores(path.read_text()), int(path.parent.name[4:])))
    return found


def parse_cores(text: str) -> list[int]:
    """Parse a list of cores as sysfs writes it: "0-3,8"."""
    pairs = (part.partition("-") for part in text.strip().split(",") if part)
    return [core for first, _, last in pairs for core in range(int(first), int(last or first) + 1)]


def _max_frequency(core: int) -> int:
    """Return the maximum frequency in kHz; 0 if unknown, as in most virtual machines."""
    try:
        return int((CPUS / f"cpu{core}/cpufreq/cpuinfo_max_freq").read_text())
    except (OSError, ValueError):
        return 0
