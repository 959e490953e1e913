"""The number of threads that a process may have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from resource import RLIMIT_NPROC, getrlimit

from pinnace.machine.cgroup import folders, usable_memory

_KERNEL = Path("/proc/sys/kernel")
_STACK = 1 << 23
"""Bytes of a thread's stack."""


def most_threads() -> tuple[int, str]:
    """Return the number of threads that a process may have here, and what limits it."""
    return min(_limits())


def _limits() -> Iterator[tuple[int, str]]:
    yield usable_memory() // _STACK, f"usable memory, for stacks of {_STACK >> 20} MiB"
    if getrlimit(RLIMIT_NPROC)[0] > 0:
        yield getrlimit(RLIMIT_NPROC)[0], "ulimit -u"
    names = [(_KERNEL / name, f"kernel.{name}") for name in ("threads-max", "pid_max")]
    for file, name in (*names, *((folder / "pids.max", "pids.max") for folder in folders("pids"))):
        with suppress(OSError, ValueError):  # "max"
            yield int(file.read_text()), name
