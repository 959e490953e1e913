"""What takes parts of requests to where they are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pinnace.serving.splitting import Piece
from pinnace.types import Port


class Carrier(Protocol):
    """What takes parts of requests to devices: processes of this machine, or actors of a cluster."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Those of the model."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Those of the model."""

    @property
    def info(self) -> Mapping[str, str]:
        """Facts about the model."""

    @property
    def devices(self) -> list[str]:
        """Where it runs, in words."""

    @property
    def pids(self) -> list[int]:
        """The processes that run."""

    @property
    def restarts(self) -> int:
        """How many processes took the place of dead ones."""

    @property
    def retried(self) -> int:
        """How many parts were computed once more."""

    def __len__(self) -> int:
        """How many devices there are."""

    def occupied(self) -> tuple[int, int]:
        """How many devices have something to do, and how many parts wait for one."""

    def submit(self, parts: Sequence[Piece]) -> None:
        """Let the parts be computed. Raises `ModelStateError` if closed, `DeviceUnavailableError`."""

    def withdraw(self, parts: Sequence[Piece]) -> None:
        """Take off the queue what waits there still."""

    def close(self) -> None:
        """Turn away what waits, wait for what runs, and end the processes. May be called again."""
