"""A compile cache of one process's own, for weights that are shared where there is no other.

It lies in the folder for temporary files (TMPDIR), in memory where that is a tmpfs. It goes with the last
that uses it; what a process that was killed has left is taken away by the next that makes one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary, finalize

from pinnace.cache.store import Store

_LIMIT = 1 << 62  # bytes: who has no cache has set no limit to one
_BRIEFLY = 60.0  # seconds in which a folder that was made is locked

_stores: WeakValueDictionary[int, Store] = WeakValueDictionary()


def private_store() -> Store:
    """The one of this process, made where nothing uses it yet. Raises OSError."""
    store = _stores.get(os.getpid())  # a child after a fork has its parent's, too
    if store is None:
        prefix = f"pinnace-{os.getuid()}-"
        _sweep(prefix)
        root = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(root, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = _stores[os.getpid()] = Store(root, _LIMIT)
        finalize(store, _remove, root, lock, os.getpid())
    return store


def _remove(root: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(root, ignore_errors=True)
        os.close(lock)


def _sweep(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # its owner lives, or another process takes it away
            if time.time() - path.stat().st_mtime > _BRIEFLY:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(lock)
