"""Requests that wait for a worker."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pinnace.types import Array


class Request(Protocol):
    """One prediction. `arrived` is its time by `perf_counter_ns`."""

    arrays: Sequence[Array]
    outputs: Sequence[Array] | None
    arrived: int

    def begin(self) -> bool:
        """Return True if the request is to run, False if it was cancelled."""

    def succeed(self, results: list[Array]) -> None:
        """Pass the results to the caller."""

    def fail(self, error: BaseException) -> None:
        """Pass an error to the caller."""


class Blocking:
    """A request whose caller sleeps until it is done."""

    __slots__ = ("_error", "_gate", "_results", "arrays", "arrived", "outputs")

    def __init__(self, arrays: Sequence[Array], outputs: Sequence[Array] | None, arrived: int) -> None:
        self.arrays, self.outputs, self.arrived = arrays, outputs, arrived
        self._error: BaseException | None = None
        self._results: list[Array] = []
        self._gate = threading.Lock()
        self._gate.acquire()

    def begin(self) -> bool:
        """Return True: a caller that gives up removes the request from the queue first."""
        return True

    def succeed(self, results: list[Array]) -> None:
        """Wake the caller."""
        self._results = results
        self._gate.release()

    def fail(self, error: BaseException) -> None:
        """Wake the caller."""
        self._error = error
        self._gate.release()

    def wait(self, seconds: float | None) -> bool:
        """Sleep until the request is done, at most `seconds`. Returns whether it is done."""
        return self._gate.acquire(timeout=-1 if seconds is None else seconds)

    def results(self) -> list[Array]:
        """Return the results after `wait`, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._results
