"""A temporary compile cache of this process, for sharing weights when no other cache can be written.

It is in the folder for temporary files (TMPDIR), in memory if that is a tmpfs, and is removed with its last
user. The folder of a killed process is removed by the next process that makes one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary, finalize

from pinnace.cache.folder import make_locked, remove_abandoned
from pinnace.cache.store import Store

_LIMIT = 1 << 62  # bytes; no limit was configured for it
_BRIEFLY = 60.0  # seconds until a new folder is locked

_stores: WeakValueDictionary[int, Store] = WeakValueDictionary()


def private_store(below: Store | None = None) -> Store:
    """Return the store of this process, above one that is only read; create it if needed. Raises OSError."""
    store = _stores.get(os.getpid())  # a forked child has its parent's store in this dict, too
    if store is None:
        prefix = f"pinnace-{os.getuid()}-"
        _sweep(prefix)
        root, lock = make_locked(prefix)
        store = _stores[os.getpid()] = Store(root, _LIMIT)
        finalize(store, _remove, root, lock, os.getpid())
    store.below = () if below is None else (below, *below.below)
    return store


def _remove(root: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(root, ignore_errors=True)
        os.close(lock)


def _sweep(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # its owner lives, or another process removes it
            if time.time() - path.stat().st_mtime > _BRIEFLY:
                remove_abandoned(path)
