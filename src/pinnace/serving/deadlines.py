"""Calls at a later time, from one thread of the process."""

from __future__ import annotations

import os
import sched
import threading
from collections.abc import Callable
from contextlib import suppress


class _Deadlines:
    """Calls in order of their times, and the thread that makes them."""

    def __init__(self) -> None:
        self._calls = sched.scheduler()
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call in `seconds`. Returns a function that cancels this."""
        due = self._calls.enter(seconds, 0, call)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="pinnace-deadlines", daemon=True)
                self._thread.start()
        self._changed.set()

        def cancel() -> None:
            with suppress(ValueError):  # it was called
                self._calls.cancel(due)

        return cancel

    def _work(self) -> None:
        while True:
            self._changed.wait(self._calls.run(blocking=False))
            self._changed.clear()


_deadlines = _Deadlines()


def after(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Call in `seconds`, in a thread of its own. Returns a function that cancels this."""
    return _deadlines.after(seconds, call)


def _after_fork() -> None:
    global _deadlines
    _deadlines = _Deadlines()


os.register_at_fork(after_in_child=_after_fork)
