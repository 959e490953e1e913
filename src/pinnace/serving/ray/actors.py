"""Queues before the actors of a cluster: for whole requests, and for parts of them."""

from __future__ import annotations

from collections.abc import Sequence

from pinnace.serving.batching import Batching
from pinnace.serving.pool import Workers
from pinnace.serving.ray.fleet import Fleet
from pinnace.serving.splitting import Piece

_AHEAD = 2
"""Parts that an actor has at the same time: one is computed, and the next one travels."""


class ActorWorkers(Workers):
    """Workers that run on actors, any of them on any actor."""

    def __init__(
        self, fleet: Fleet, limit: int = 0, batching: Batching | None = None, ahead: int = 1
    ) -> None:
        """See `Workers`; `ahead` of them for each actor."""
        super().__init__(fleet, len(fleet) * ahead, (), limit, batching)
        self.fleet = fleet
        fleet.depth = ahead

    def _end(self) -> None:
        self.fleet.turn_away()
        super()._end()


class ActorCarrier:
    """See `Carrier`."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._workers = ActorWorkers(fleet, ahead=_AHEAD)
        self.inputs, self.outputs, self.info = fleet.inputs, fleet.outputs, fleet.info
        self.close = self._workers.close

    def __len__(self) -> int:
        return len(self._fleet)

    @property
    def devices(self) -> list[str]:
        """Where the actors are, or were last."""
        return self._fleet.devices

    @property
    def pids(self) -> list[int]:
        """The processes that run."""
        return self._fleet.pids

    @property
    def restarts(self) -> int:
        """How many actors have come back."""
        return self._fleet.restarts

    @property
    def retried(self) -> int:
        """How many parts were computed once more."""
        return self._fleet.retried

    def occupied(self) -> tuple[int, int]:
        """How many actors have something to do, and how many parts wait for one."""
        return self._fleet.busy, self._workers.stats().queued

    def submit(self, parts: Sequence[Piece]) -> None:
        """Let the parts be computed. Raises `ModelStateError` if closed."""
        for part in parts:
            self._workers.enqueue(part)

    def withdraw(self, parts: Sequence[Piece]) -> None:
        """Take off the queue what waits there still."""
        for part in parts:
            self._workers.withdraw(part)
