"""Many requests over one executable."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace.errors import ModelStateError
from pinnace.workers.turnstile import Turnstile

if TYPE_CHECKING:  # importing an engine takes long, and this is imported by all
    from pinnace.engines.protocol import Array, Executable


class Workers:
    """`count` places where one executable runs, each with a state of its own, first come first served.

    A request runs in the thread that makes it.
    """

    def __init__(self, executable: Executable, count: int = 1) -> None:
        self.executable = executable
        self.count = count
        self._states = [executable.new_state() for _ in range(count)]
        self._turnstile = Turnstile(count)
        self._closing = threading.Lock()
        self._closed = False

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Wait for a worker and compute the outputs. Raises `EngineError`, or `ModelStateError` if closed."""
        slot = self._turnstile.enter()
        try:
            return self.executable.run(arrays, self._states[slot])
        finally:
            self._turnstile.leave(slot)

    def try_out(self, arrays: Sequence[Array]) -> list[Array]:
        """As `run`, on a state that is thrown away."""
        slot = self._turnstile.enter()
        try:
            executable = self.executable
            return executable.run(arrays, executable.new_state())
        finally:
            self._turnstile.leave(slot)

    def exchange(self, executable: Executable) -> None:
        """Run another executable from now on, on the states as they are.

        Requests that run finish on the one before, which is freed with the last of them. Raises
        `ModelStateError` if closed.
        """
        with self._closing:
            if self._closed:
                raise ModelStateError("the model was closed while its weights were exchanged")
            self.executable = executable

    def close(self) -> None:
        """Turn away who waits, wait for those who run, and free the executable. May be called again."""
        self._turnstile.close()
        with self._closing:
            if not self._closed:
                self._closed = True
                self.executable.close()
