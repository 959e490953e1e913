"""Who is there: a table in shared memory with a row for each rank of this machine.

It answers what no communicator tells: which rank a collective waits for, and whether that still lives. Ranks
of other machines have empty rows; of them only the time limit tells.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

import numpy as np

from pinnace.errors import DistributedError

_PROCESS, _STARTED, _STEP, _FAILED = range(4)
_FOLDER = Path("/dev/shm")
_LEFT = 3600.0
"""Seconds after which a table that nobody has removed is one that a failed start has left."""


class Roster:
    """The rows of `size` ranks under a name that all ranks know; entering writes the own row."""

    def __init__(self, name: str, rank: int, size: int) -> None:
        safe = "".join(c if c.isalnum() else "-" for c in name)
        self._path = _own_folder() / safe
        self._rank = rank
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(file, size * 4 * 8)
            self._rows = np.frombuffer(mmap.mmap(file, size * 4 * 8), np.int64).reshape(size, 4)
        finally:
            os.close(file)
        self._own = self._rows[rank]
        self._own[:] = 0, _started(os.getpid()) or 0, 0, 0
        self._own[_PROCESS] = os.getpid()

    def __enter__(self) -> Self:
        """The table, while ranks meet; after that nobody needs its name, and less where they fail to."""
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def next_step(self) -> None:
        """Say that this rank begins one more collective."""
        self._own[_STEP] += 1

    def fail(self) -> None:
        """Say that this rank will not go on."""
        self._own[_FAILED] = 1

    def await_all(self, ranks: Iterable[int], seconds: float, what: str) -> None:
        """Wait until these ranks, of this machine, have entered; else DistributedError names the others."""
        deadline = time.monotonic() + seconds
        missing = list(ranks)
        while missing := [rank for rank in missing if not self._lives(rank)]:
            if time.monotonic() > deadline:
                names = _named(missing)
                raise DistributedError(
                    f"rank {self._rank}: {names} did not come within {seconds:g} s ({what}); start "
                    f"all ranks, and see what the others printed"
                )
            time.sleep(0.005)

    def leave(self) -> None:
        """Say that this rank is done: who does not need it any more may go on."""
        self._own[_PROCESS] = 0

    def remove(self) -> None:
        """Take the name away; those that have entered keep the table."""
        self._path.unlink(missing_ok=True)

    def ended(self, ranks: Iterable[int]) -> list[int]:
        """Those of the ranks whose process is no more."""
        return [r for r in ranks if self._rows[r, _PROCESS] and not self._lives(r)]

    def failed(self, ranks: Iterable[int]) -> list[int]:
        """Those of the ranks that have said that they will not go on."""
        return [r for r in ranks if r != self._rank and self._rows[r, _FAILED]]

    def behind(self, ranks: Iterable[int]) -> list[int]:
        """Those of the ranks that have begun fewer collectives than this one."""
        return [r for r in ranks if self._rows[r, _PROCESS] and self._rows[r, _STEP] < self._own[_STEP]]

    def process(self, rank: int) -> int:
        """The number of a rank's process."""
        return int(self._rows[rank, _PROCESS])

    def _lives(self, rank: int) -> bool:
        process, started = self._rows[rank, :2].tolist()
        return bool(process) and _started(process) == started


def _own_folder() -> Path:
    """The folder of this user's tables, which nobody else can write to: who cuts a table ends its readers.

    What killed ranks have left there is removed. DistributedError where it is another user's.
    """
    folder = _FOLDER / f"pinnace-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise DistributedError(
            f"ranks meet in {folder}, and others have made it or can open it (uid {status.st_uid}, mode "
            f"{stat.S_IMODE(status.st_mode):o}): remove it"
        )
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _LEFT:
                path.unlink()
    return folder


def _started(process: int) -> int | None:
    """When a process began, in ticks since the boot, None where there is none or it has ended (proc(5))."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _named(ranks: Iterable[int]) -> str:
    found = list(ranks)
    return ("rank " if len(found) == 1 else "ranks ") + ", ".join(map(str, found))
