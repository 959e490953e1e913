"""Threads and conditions that tests wait for, and a stub of an execution."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT = 300
"""Seconds after which a test fails instead of waiting on."""


def in_thread(call: Callable[..., Any], *arguments: Any) -> tuple[threading.Thread, list[Any]]:
    """Call in a thread; the list returned holds the result or the error when the thread ends."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(call(*arguments))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, outcome


def until(condition: Callable[[], Any], seconds: float = LIMIT) -> None:
    """Wait until a condition is true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


def is_alive(pid: int) -> bool:
    """Return True unless a process has ended, or waits as a zombie for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Execution:
    """An execution of a stub that has `first_state` and `compute`."""

    def __init__(self, executable: Any, state: Any) -> None:
        self.executable, self.state = executable, executable.first_state() if state is None else state

    def run(self, arrays: list[Any], outputs: Any = None) -> list[Any]:
        """Compute; stubs return their outputs and write into none."""
        assert outputs is None
        return self.executable.compute(arrays, self.state)

    def stop(self, for_good: bool = False) -> None:
        """End the run if the stub can."""
        if hasattr(self.executable, "stop"):
            self.executable.stop()
