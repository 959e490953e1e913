"""The processors this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu")
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
    """Allowed processors ranked by their highest frequency, in order of number among equals."""
    sign = -1 if fastest_first else 1
    return tuple(sorted(allowed_cores(), key=lambda core: (sign * _max_frequency(core), core)))


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
