"""Waits of a rank, which watch the other ranks and the time.

No communicator reports which rank a collective waits for, and whether its process lives. So ranks of one
machine have a table in shared memory, with a row for each. Ranks on other machines have empty rows; for them
only the time limit works.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pinnace.errors import DistributedError

_PROCESS, _STARTED, _STEP, _FAILED, _CORE = range(5)
"""Columns of the table."""
_WIDTH = 5
_core = ctypes.CDLL(None).sched_getcpu
_FOLDER = Path("/dev/shm")
_LEFT = 3600.0
"""Seconds after which a leftover table of a failed start is removed."""

_SPIN = 0.005
"""Seconds of polling, yielding the core in between, before a wait sleeps."""
_TAKEN = 0.00005
"""Seconds after which a core that was yielded has been used by another thread: as work of another rank."""
_WANTED = 0.5
"""Seconds for which waits poll only `WIRE` before they sleep after that."""
WIRE = 0.0001
"""Seconds that a collective of some hundred kilobytes takes between ranks that are there."""
_SHORTEST, _NAP = 0.00002, 0.0002
"""Seconds of a sleep: an eighth of what the wait has taken so far, between these."""
LOOK = 0.05
"""Seconds between checks of the other ranks."""


class Watchdog:
    """The waits of one rank of `size`. `seconds` is the limit of one wait; `operation` is named in errors.

    The table is a file at a path that only the ranks know, or only their user can make. It has its name until
    `unlink`, when the ranks have met, or failed to.
    """

    def __init__(self, table: Path, rank: int, size: int, seconds: float) -> None:
        self.rank, self.seconds = rank, seconds
        self.operation = "the start"
        self._path, self._all = table, range(size)
        self._error: DistributedError | None = None
        self._sleeps_until = 0.0
        try:
            self._rows = _mapped(table, size)
        except OSError as error:
            raise DistributedError(
                f"ranks of this machine cannot meet in {table}: {error.strerror}"
            ) from None
        for column, value in enumerate((0, _started(os.getpid()) or 0, 0, 0, _core())):
            self._rows[rank, column] = value
        self._rows[rank, _PROCESS] = os.getpid()

    def unlink(self) -> None:
        """Remove the name of the table, which ranks that have opened it keep."""
        self._path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Mark this rank as done, so that its end is no failure."""
        self._rows[self.rank, _PROCESS] = 0

    def await_all(self, ranks: Iterable[int], what: str) -> None:
        """Wait until these ranks of this machine have started. Raises DistributedError that names others."""
        deadline = time.monotonic() + self.seconds
        missing = list(ranks)
        while missing := [rank for rank in missing if not self._lives(rank)]:
            if time.monotonic() > deadline:
                raise DistributedError(
                    f"rank {self.rank}: {named(missing)} did not connect within {self.seconds:g} s ({what}); "
                    f"start all ranks, and see what the others printed"
                )
            time.sleep(0.005)

    def begin(self, operation: str) -> None:
        """Count one more collective. Raises the error that has separated the ranks before."""
        if self._error is not None:
            raise DistributedError(f"{self._error} (no collective can run any more: start the ranks again)")
        self.operation = operation
        self._rows[self.rank, _STEP] += 1
        self._rows[self.rank, _CORE] = _core()

    def wait(self, done: Callable[[], bool], ranks: Sequence[int]) -> None:
        """Return when `done()`. Raises DistributedError if a rank has ended or failed, or is late."""
        if done():
            return
        start = looked = time.monotonic()
        shares = self.shares_core(ranks)
        while not done():
            now = time.monotonic()
            if now - start < WIRE and not shares:
                continue
            if now - start < _SPIN and (shares or now > self._sleeps_until):
                os.sched_yield()
                if time.monotonic() - now > _TAKEN:
                    self._sleeps_until = now + _WANTED
                continue
            time.sleep(min(max((now - start) / 8, _SHORTEST), _NAP))
            if now - looked > LOOK:
                looked = now
                self.look()
                if now - start > self.seconds:
                    raise self.late(ranks)

    def shares_core(self, ranks: Iterable[int]) -> bool:
        """Return True if one of these other ranks has begun its last collective on the core of this one."""
        here = self._rows[self.rank, _CORE]
        return any(self._rows[r, _CORE] == here for r in ranks if r != self.rank and self._rows[r, _PROCESS])

    def look(self) -> None:
        """Raise DistributedError if any rank has ended or failed."""
        failed = [r for r in self._all if r != self.rank and self._rows[r, _FAILED]]
        for rank, verb in [*((r, "has ended") for r in self.ended()), *((r, "has failed") for r in failed)]:
            process = self._rows[rank, _PROCESS]
            raise self.broken(f"rank {rank} (process {process}) {verb} while rank {self.rank} waited for")

    def ended(self) -> list[int]:
        return [r for r in self._all if self._rows[r, _PROCESS] and not self._lives(r)]

    def late(self, ranks: Iterable[int]) -> DistributedError:
        """Return the error for a wait that took too long; it names the ranks that are behind."""
        own = self._rows[self.rank, _STEP]
        behind = [r for r in ranks if self._rows[r, _PROCESS] and self._rows[r, _STEP] < own]
        missing = named(behind) if behind else "others"
        return self.broken(f"rank {self.rank} has waited {self.seconds:g} s for {missing} in")

    def lost(self, error: Exception) -> DistributedError:
        """Return the error for an exception of a communicator, after looking whether a rank has ended."""
        deadline = time.monotonic() + min(1.0, self.seconds)
        while time.monotonic() < deadline:
            try:
                self.look()
            except DistributedError as found:
                return found
            time.sleep(_NAP)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return self.broken(f"rank {self.rank} lost the other ranks ({reason}) in")

    def broken(self, how: str) -> DistributedError:
        """Return the error that ends this rank's part, and mark the rank as failed."""
        self._error = DistributedError(f"{how} {self.operation}")
        self._rows[self.rank, _FAILED] = 1
        return self._error

    def fail(self, error: BaseException) -> None:
        """Mark this rank as failed for a reason of its own."""
        if self._error is None:
            self._error = DistributedError(f"rank {self.rank} has failed: {error}")
            self._rows[self.rank, _FAILED] = 1

    @property
    def is_broken(self) -> bool:
        """True if the ranks have lost each other."""
        return self._error is not None

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
    """Return the path of the table of a job, a random name by rank 0: other users cannot make it first.

    Removes leftovers of killed ranks.
    """
    own = f"pinnace-{os.getuid()}-"
    for path in _FOLDER.glob(f"{own}*"):
        with suppress(OSError):  # another rank removes it too, or another user has made it
            if time.time() - path.lstat().st_mtime > _LEFT:
                path.unlink()
    return _FOLDER / f"{own}{job}"


def _started(process: int) -> int | None:
    """Return the start time of a process in ticks since boot; None if it has ended (proc(5))."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def named(ranks: Sequence[int]) -> str:
    """Return ranks as text: "rank 1", "ranks 1, 2"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
