"""The protocol of the backends that compute parts of split requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pinnace.serving.splitting import Piece
from pinnace.types import Port


class Carrier(Protocol):
    """A backend that computes parts of requests: processes of this machine, or actors of a cluster."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the model."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the model."""

    @property
    def info(self) -> Mapping[str, str]:
        """User info of the model file and facts of the engine."""

    @property
    def devices(self) -> list[str]:
        """Names of the devices."""

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""

    @property
    def restarts(self) -> int:
        """Number of processes that replaced dead ones."""

    @property
    def retried(self) -> int:
        """Number of parts that were computed again."""

    def __len__(self) -> int:
        """Number of devices."""

    def occupied(self) -> tuple[int, int]:
        """Return the number of busy devices and the number of waiting parts."""

    def submit(self, parts: Sequence[Piece]) -> None:
        """Queue the parts. Raises `ModelStateError` if closed, `DeviceUnavailableError` if none is left."""

    def withdraw(self, parts: Sequence[Piece]) -> None:
        """Remove parts that still wait from the queue."""

    def close(self) -> None:
        """Fail the waiting parts, wait for the running ones, end the processes. May be called again."""
