"""A lock that processes of one machine share."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from math import inf
from pathlib import Path

_PAUSE = 0.02  # seconds between two tries


@contextmanager
def locked(path: Path, patience: float = inf) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is not there.

    Raises TimeoutError if another process, or another caller in this one, still holds it after `patience`
    seconds, and OSError if the file cannot be opened.
    """
    end = time.monotonic() + patience
    while (file := _taken(path)) is None:
        if time.monotonic() >= end:
            raise TimeoutError(f"another process has held its lock {path.name} for {patience:g} s")
        time.sleep(_PAUSE)
    with file:
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open, too


def _taken(path: Path) -> FileIO | None:
    """Return the file, locked. Returns None if others hold the lock, or the file was just removed."""
    file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb")
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_nlink:
            return file
    return None
