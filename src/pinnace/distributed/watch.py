"""Waiting of a rank, with checks of the other ranks and a time limit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from pinnace.distributed.roster import Roster
from pinnace.errors import DistributedError

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
_LOOK = 0.05
"""Seconds between checks of the roster."""


class Watch:
    """The waits of one rank. `seconds` is the limit of one wait; `what` is the operation, for errors."""

    def __init__(self, roster: Roster, rank: int, size: int, seconds: float) -> None:
        self.rank, self.seconds = rank, seconds
        self.what = "the start"
        self._roster, self._all = roster, range(size)
        self._broken: DistributedError | None = None
        self._sleeps_until = 0.0

    def begin(self, what: str) -> None:
        """Count one more collective. Raises the error that has separated the ranks before."""
        if self._broken is not None:
            raise DistributedError(f"{self._broken} (no collective can run any more: start the ranks again)")
        self.what = what
        self._roster.next_step()

    def wait(self, done: Callable[[], bool], ranks: Sequence[int]) -> None:
        """Return when `done()`. Raises DistributedError if a rank has ended or failed, or the time
        is over.
        """
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
            if now - looked > _LOOK:
                looked = now
                self.look()
                if now - start > self.seconds:
                    raise self.late(ranks)

    def shares_core(self, ranks: Iterable[int]) -> bool:
        """Return True if another of these ranks needs the core of this one."""
        return self._roster.share_a_core(ranks)

    def look(self) -> None:
        """Raise DistributedError if any rank has ended or failed."""
        failed, ended = self._roster.failed(self._all), self._roster.ended(self._all)
        for rank, verb in [*((r, "has ended") for r in ended), *((r, "has failed") for r in failed)]:
            process = self._roster.process(rank)
            raise self.broken(f"rank {rank} (process {process}) {verb} while rank {self.rank} waited for")

    def late(self, ranks: Sequence[int]) -> DistributedError:
        """Return the error for a wait that took too long."""
        behind = self._roster.behind(ranks)
        who = f"rank{'s' if len(behind) > 1 else ''} {', '.join(map(str, behind))}" if behind else "others"
        return self.broken(f"rank {self.rank} has waited {self.seconds:g} s for {who} in")

    def lost(self, error: Exception) -> DistributedError:
        """Return the error for an exception of a communicator, after checking for a moment which rank has
        ended.
        """
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
        self._broken = DistributedError(f"{how} {self.what}")
        self._roster.fail()
        return self._broken

    def fail(self, error: BaseException) -> None:
        """Mark this rank as failed for a reason of its own."""
        if self._broken is None:
            self._broken = DistributedError(f"rank {self.rank} has failed: {error}")
            self._roster.fail()

    def ended(self) -> list[int]:
        """Return the ranks whose process has ended."""
        return self._roster.ended(self._all)

    @property
    def is_broken(self) -> bool:
        """True if the ranks have lost each other."""
        return self._broken is not None
