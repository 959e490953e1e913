"""Digests of model files that were read before.

A note for each size of a file has the states of files of this size and their digests. A file in the same
state, in the same boot of the machine, has the same content: no program can set the time of the last change
of an inode. But writing through a mapping sets the times only if the page is not dirty yet. So a file that
changed within the last minute, in which the kernel writes its pages to the disk, is not noted; nor is one on
a tmpfs, whose pages stay dirty.
"""

from __future__ import annotations

import time
from contextlib import suppress

from pinnace.cache import notes
from pinnace.cache.entry import boot
from pinnace.cache.store import Store
from pinnace.machine.cgroup import is_memory
from pinnace.weights.digest import digest

_FOLDER = "known"
_MOST = 32  # files of one size
_SETTLED = 60_000_000_000  # nanoseconds; twice the kernel's dirty_expire_centisecs

State = tuple[int, ...]


def has_size(store: Store, size: int) -> bool:
    """Return True if a model of this size may be known."""
    return any(path.exists() for path in store.places(_FOLDER, _name(size)))


def find(store: Store, state: State) -> str | None:
    """Return the digest of the file in this state (`Source.state`); None if it is not known."""
    found: str | None = _noted(store, state[2]).get(_key(state))
    return found


def keep(store: Store, state: State, content: str) -> None:
    """Note the digest of a file that was in this state before and after it was read."""
    if time.time_ns() - max(state[3:]) < _SETTLED or is_memory(state[0]):
        return
    known = {**_noted(store, state[2]), _key(state): content}
    with suppress(OSError):
        notes.keep(store.folder, _FOLDER, _name(state[2]), dict(list(known.items())[-_MOST:]))


def keep_size(store: Store, size: int) -> None:
    """Note that models of this size are known."""
    if not has_size(store, size):
        with suppress(OSError):
            notes.keep(store.folder, _FOLDER, _name(size), {})


def _noted(store: Store, size: int) -> dict[str, str]:
    return store.noted(_FOLDER, _name(size)) or {}


def _name(size: int) -> str:
    return digest(str(size).encode())


def _key(state: State) -> str:
    return " ".join((boot(), *map(str, state)))
