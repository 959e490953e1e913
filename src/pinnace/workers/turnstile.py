"""Admission in the order of arrival."""

from __future__ import annotations

import threading
from collections import deque

from pinnace.errors import ModelStateError


class _Waiter:
    """One who waits: its gate opens once, with a slot or, where the turnstile closes, without."""

    __slots__ = ("gate", "slot")

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.slot: int | None = None


class Turnstile:
    """Lets `slots` callers in at a time, first come first served, and tells each which slot it has.

    A slot that becomes free while others wait is handed to the one who has waited longest and never
    becomes free in between. So nobody can overtake, which `threading.Semaphore` allows: there a caller
    that comes again at once starves those who sleep.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._free = list(range(slots - 1, -1, -1))
        self._waiting: deque[_Waiter] = deque()
        self._closed = False

    def enter(self) -> int:
        """Wait for a slot and take it. Raises `ModelStateError` where the turnstile is or gets closed."""
        with self._mutex:
            if self._closed:
                raise ModelStateError("the model is closed")
            if self._free:
                return self._free.pop()
            waiter = _Waiter()
            self._waiting.append(waiter)
        try:
            waiter.gate.acquire()
        except BaseException:  # KeyboardInterrupt: what was handed to us goes to the next
            self._give_up(waiter)
            raise
        if waiter.slot is None:
            raise ModelStateError("the model was closed while this request waited for a worker")
        return waiter.slot

    def leave(self, slot: int) -> None:
        """Give a slot back."""
        with self._mutex:
            self._pass_on(slot)

    def close(self) -> None:
        """Turn away all who wait or come later, and return when everybody inside has left."""
        with self._mutex:
            self._closed = True
            while self._waiting:
                self._waiting.popleft().gate.release()
            while len(self._free) < self._slots:
                self._idle.wait()

    def _pass_on(self, slot: int) -> None:
        if self._waiting:
            waiter = self._waiting.popleft()
            waiter.slot = slot
            waiter.gate.release()
            return
        self._free.append(slot)
        if self._closed:
            self._idle.notify_all()

    def _give_up(self, waiter: _Waiter) -> None:
        with self._mutex:
            if waiter.slot is not None:
                self._pass_on(waiter.slot)
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
