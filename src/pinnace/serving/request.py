"""Requests that wait for a worker."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from pinnace.errors import PredictTimeoutError
from pinnace.types import Array

_GLANCE = 0.5
"""Seconds after which a sleeping thread looks for signals: one from just before it slept wakes it not."""


class UnwantedError(Exception):
    """The client of a request has given it up, so its results have nobody to go to."""

    def __init__(self) -> None:
        super().__init__("its client had given it up")


def timed_out(seconds: float | None, began: bool) -> PredictTimeoutError:
    what = "was running" if began else "was waiting for a worker"
    return PredictTimeoutError(f"the prediction {what} when its timeout of {seconds} s expired")


class Request(Protocol):
    """One prediction. `arrived` is its time by `perf_counter_ns`; a smaller `priority` runs first."""

    arrays: Sequence[Array]
    outputs: list[Array] | None
    arrived: int
    priority: int

    def begin(self) -> bool:
        """Return True if the request is to run, False if it was given up."""

    def done(self) -> bool:
        """Return True if nobody waits for the results: it has ended, or was given up."""

    def claim(self) -> bool:
        """Return True if the caller of this is the one who ends it; the client cannot give it up any more."""

    def succeed(self, results: list[Array]) -> None:
        """Pass the results to the client, after `claim`."""

    def fail(self, error: BaseException) -> None:
        """Pass an error to the client, after `claim`."""


class BlockingRequest:
    """A request whose caller sleeps until it is done."""

    __slots__ = ("_error", "_gate", "_results", "arrays", "arrived", "given_up", "outputs")
    priority = 0

    def __init__(self, arrays: Sequence[Array], outputs: list[Array] | None, arrived: int) -> None:
        self.arrays, self.outputs, self.arrived = arrays, outputs, arrived
        self.given_up = False  # its caller does not wait any longer
        self._error: BaseException | None = None
        self._results: list[Array] = []
        self._gate = threading.Lock()
        self._gate.acquire()

    def begin(self) -> bool:
        return not self.given_up

    claim = begin

    def done(self) -> bool:
        return self.given_up

    def succeed(self, results: list[Array]) -> None:
        self._results = results
        self._gate.release()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._gate.release()

    def wait(self, seconds: float | None) -> bool:
        """Sleep until the request is done, at most `seconds`. Returns whether it is done."""
        if seconds is not None:
            return self._gate.acquire(timeout=seconds)
        while not self._gate.acquire(timeout=_GLANCE):
            pass
        return True

    def results(self) -> list[Array]:
        if self._error is not None:
            raise self._error
        return self._results
