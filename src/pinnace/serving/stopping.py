"""Runs that another thread can stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pinnace.engines.protocol import Executable

T = TypeVar("T")


class Stoppable:
    """An execution whose run ends early when nobody wants its results.

    A stopped execution is replaced by another one with its state, so no stop can reach the next run.
    """

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self._execution = executable.execution()
        self._is_wanted: Callable[[], bool] | None = None  # that of the run in progress
        self._stopped = False
        self._lock = threading.RLock()  # reentrant: a signal handler may cancel a request

    def watched(self, is_wanted: Callable[[], bool], run: Callable[[], T]) -> T:
        """Return `run()`, which `stop_unwanted` ends early once `is_wanted()` is False."""
        with self._lock:
            self._is_wanted = is_wanted
        self.stop_unwanted()
        try:
            return run()
        finally:
            with self._lock:
                self._is_wanted, stopped, self._stopped = None, self._stopped, False
            if stopped:
                self._execution = self.executable.execution(self._execution.state)

    def stop_unwanted(self) -> None:
        """Stop the run in progress if nobody wants its results any more."""
        with self._lock:
            if self._is_wanted is not None and not self._is_wanted() and not self._stopped:
                self._stopped = True
                self._execution.stop()

    def halt(self) -> None:
        """Stop the run in progress, before the end of the process."""
        self._execution.stop(for_good=True)
