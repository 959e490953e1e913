"""What a rank does while it waits: it looks who else is there, and gives up in time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from pinnace.distributed.roster import Roster
from pinnace.errors import DistributedError

_SPIN = 0.005
"""Seconds for which a wait asks again and again, giving the core to others between; then it sleeps."""
_NAP = 0.0002
_LOOK = 0.05
"""Seconds between two looks at the roster."""


class Watch:
    """The waits of one rank. `seconds` is the most that one wait takes; `what` is waited for, for errors."""

    def __init__(self, roster: Roster, rank: int, size: int, seconds: float) -> None:
        self.rank, self.seconds = rank, seconds
        self.what = "the start"
        self._roster, self._all = roster, range(size)
        self._broken: DistributedError | None = None

    def begin(self, what: str) -> None:
        """One more collective begins. Raises again what has broken the ranks apart before."""
        if self._broken is not None:
            raise DistributedError(f"{self._broken} (since then no collective can run: start the ranks anew)")
        self.what = what
        self._roster.next_step()

    def wait(self, done: Callable[[], bool], ranks: Sequence[int]) -> None:
        """Return when `done()`; DistributedError where a rank has ended or failed, or the time is over."""
        start = time.monotonic()
        looked = start
        while not done():
            now = time.monotonic()
            if now - start < _SPIN:
                os.sched_yield()
                continue
            time.sleep(_NAP)
            if now - looked > _LOOK:
                looked = now
                self.look()
                if now - start > self.seconds:
                    raise self.late(ranks)

    def look(self) -> None:
        """DistributedError where a rank has ended or failed, of this group or not: it will be missed."""
        failed, ended = self._roster.failed(self._all), self._roster.ended(self._all)
        for rank, verb in [*((r, "has ended") for r in ended), *((r, "has failed") for r in failed)]:
            process = self._roster.process(rank)
            raise self.broken(f"rank {rank} (process {process}) {verb} while rank {self.rank} waited for")

    def late(self, ranks: Sequence[int]) -> DistributedError:
        """The error for a wait that took too long."""
        behind = self._roster.behind(ranks)
        who = f"rank{'s' if len(behind) > 1 else ''} {', '.join(map(str, behind))}" if behind else "others"
        return self.broken(f"rank {self.rank} has waited {self.seconds:g} s for {who} in")

    def lost(self, error: Exception) -> DistributedError:
        """The error for what a communicator raised: who has ended shows within a moment."""
        deadline = time.monotonic() + min(1.0, self.seconds)
        while time.monotonic() < deadline:
            try:
                self.look()
            except DistributedError as found:
                return found
            time.sleep(_NAP)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return self.broken(f"rank {self.rank} has lost the others ({reason}) in")

    def broken(self, how: str) -> DistributedError:
        """The error that ends this rank's part, said to the others too."""
        self._broken = DistributedError(f"{how} {self.what}")
        self._roster.fail()
        return self._broken

    def fail(self, error: BaseException) -> None:
        """This rank cannot go on, for a reason of its own: let the others know."""
        if self._broken is None:
            self._broken = DistributedError(f"rank {self.rank} has failed: {error}")
            self._roster.fail()

    def ended(self) -> list[int]:
        """The ranks whose process is no more."""
        return self._roster.ended(self._all)

    @property
    def is_broken(self) -> bool:
        """Whether ranks have lost each other."""
        return self._broken is not None
