"""The roster: a table in shared memory with a row for each rank of this machine.

It shows which rank a collective waits for, and whether its process lives, which no communicator reports.
Ranks on other machines have empty rows; for them only the time limit works.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from pinnace.errors import DistributedError

_PROCESS, _STARTED, _STEP, _FAILED, _CORE = range(5)
_WIDTH = 5
_core = ctypes.CDLL(None).sched_getcpu
_FOLDER = Path("/dev/shm")
_LEFT = 3600.0
"""Seconds after which a leftover table of a failed start is removed."""


class Roster:
    """The rows of `size` ranks in a file whose path only they know, or only their user can make; creating
    it writes this rank's row.
    """

    def __init__(self, path: Path, rank: int, size: int) -> None:
        self._path, self._rank = path, rank
        try:
            self._rows = _mapped(path, size)
        except OSError as error:
            raise DistributedError(f"ranks of this machine cannot meet in {path}: {error.strerror}") from None
        for place, value in enumerate((0, _started(os.getpid()) or 0, 0, 0, _core())):
            self._rows[rank, place] = value
        self._rows[rank, _PROCESS] = os.getpid()

    def __enter__(self) -> Self:
        """Return the roster. Its name is removed afterwards: after the ranks have met, or failed to, it is
        not needed.
        """
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def next_step(self) -> None:
        """Count one more collective of this rank, and note the core that it runs on."""
        self._rows[self._rank, _STEP] += 1
        self._rows[self._rank, _CORE] = _core()

    def fail(self) -> None:
        """Mark this rank as failed."""
        self._rows[self._rank, _FAILED] = 1

    def await_all(self, ranks: Iterable[int], seconds: float, what: str) -> None:
        """Wait until these ranks of this machine have entered. Raises DistributedError with the
        missing ones.
        """
        deadline = time.monotonic() + seconds
        missing = list(ranks)
        while missing := [rank for rank in missing if not self._lives(rank)]:
            if time.monotonic() > deadline:
                names = _named(missing)
                raise DistributedError(
                    f"rank {self._rank}: {names} did not connect within {seconds:g} s ({what}); start "
                    f"all ranks, and see what the others printed"
                )
            time.sleep(0.005)

    def leave(self) -> None:
        """Mark this rank as done, so that its end is no failure."""
        self._rows[self._rank, _PROCESS] = 0

    def remove(self) -> None:
        """Remove the name; ranks that have entered keep the table."""
        self._path.unlink(missing_ok=True)

    def ended(self, ranks: Iterable[int]) -> list[int]:
        """Return the ranks whose process has ended."""
        return [r for r in ranks if self._rows[r, _PROCESS] and not self._lives(r)]

    def failed(self, ranks: Iterable[int]) -> list[int]:
        """Return the other ranks that are marked as failed."""
        return [r for r in ranks if r != self._rank and self._rows[r, _FAILED]]

    def behind(self, ranks: Iterable[int]) -> list[int]:
        """Return the ranks that have begun fewer collectives than this one."""
        own = self._rows[self._rank, _STEP]
        return [r for r in ranks if self._rows[r, _PROCESS] and self._rows[r, _STEP] < own]

    def share_a_core(self, ranks: Iterable[int]) -> bool:
        """Return True if one of these other ranks has begun its last collective on the core of this one."""
        here = self._rows[self._rank, _CORE]
        return any(self._rows[r, _CORE] == here for r in ranks if r != self._rank and self._rows[r, _PROCESS])

    def process(self, rank: int) -> int:
        """Return the process id of a rank."""
        return self._rows[rank, _PROCESS]

    def _lives(self, rank: int) -> bool:
        process = self._rows[rank, _PROCESS]
        return bool(process) and _started(process) == self._rows[rank, _STARTED]


def _mapped(path: Path, size: int) -> memoryview:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(file, 0, size * _WIDTH * 8)  # in a full folder, writing later would be a SIGBUS
        return memoryview(mmap.mmap(file, size * _WIDTH * 8)).cast("q", (size, _WIDTH))
    finally:
        os.close(file)


def table_of(job: str) -> Path:
    """Return the path of the table of a job, a random name that rank 0 gave it: other users cannot make it
    first. Removes leftovers of killed ranks.
    """
    own = f"pinnace-{os.getuid()}-"
    for path in _FOLDER.glob(f"{own}*"):
        with suppress(OSError):  # another rank removes it too, or another user has made it
            if time.time() - path.lstat().st_mtime > _LEFT:
                path.unlink()
    return _FOLDER / f"{own}{job}"


def _started(process: int) -> int | None:
    """Return the start time of a process in ticks since boot; None if it does not exist or has ended
    (proc(5)).
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _named(ranks: Iterable[int]) -> str:
    found = list(ranks)
    return ("rank " if len(found) == 1 else "ranks ") + ", ".join(map(str, found))
