"""Queues for the actors of a cluster: of whole requests, and of parts."""

from __future__ import annotations

from collections.abc import Sequence

from pinnace.serving.batching import Batching
from pinnace.serving.pool import Workers
from pinnace.serving.ray.fleet import Fleet
from pinnace.serving.splitting import Piece

_AHEAD = 2
"""Parts on their way to one actor: one is computed while the next is sent."""


class ActorWorkers(Workers):
    """Workers that each run on any free actor."""

    def __init__(
        self, fleet: Fleet, limit: int = 0, batching: Batching | None = None, ahead: int = 1
    ) -> None:
        """See `Workers`; there are `ahead` workers for each actor."""
        super().__init__(fleet, len(fleet) * ahead, (), limit, batching)
        self.fleet = fleet
        fleet.depth = ahead

    def _end(self) -> None:
        self.fleet.turn_away()
        super()._end()


class ActorCarrier:
    """The `Carrier` of a cluster."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._workers = ActorWorkers(fleet, ahead=_AHEAD)
        self.inputs, self.outputs, self.info = fleet.inputs, fleet.outputs, fleet.info
        self.close = self._workers.close

    def __len__(self) -> int:
        return len(self._fleet)

    @property
    def devices(self) -> list[str]:
        """Names of the actors' devices, now or last."""
        return self._fleet.devices

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        return self._fleet.pids

    @property
    def restarts(self) -> int:
        """Number of actors that came back after a failure."""
        return self._fleet.restarts

    @property
    def retried(self) -> int:
        """Number of parts that were computed again."""
        return self._fleet.retried

    def occupied(self) -> tuple[int, int]:
        """Return the number of busy actors and the number of waiting parts."""
        return self._fleet.busy, self._workers.stats().queued

    def submit(self, parts: Sequence[Piece]) -> None:
        """Queue the parts. Raises `ModelStateError` if closed."""
        for part in parts:
            self._workers.enqueue(part)

    def withdraw(self, parts: Sequence[Piece]) -> None:
        """Remove parts that still wait from the queue."""
        for part in parts:
            self._workers.withdraw(part)
