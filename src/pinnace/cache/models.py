"""Models from other machines, each in a folder with the files beside it; see `pinnace.serving.ray.models`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pinnace.cache.folder import make_private, size_of
from pinnace.cache.store import Store

_FOLDER = "models"


def find(store: Store, whole: str) -> Path | None:
    """Return the folder of a model, named by its digest; None if it is not here."""
    folder = store.root / _FOLDER / whole
    with suppress(OSError):
        os.utime(folder)
        return folder
    return None


def keep(store: Store, whole: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder of a model; if it is missing, `fill` writes it, in one process at a time.

    The least recently used models are removed until the rest is within the store's limit.
    """
    with store.writing(whole) as folder:
        found = find(store, whole)
        if found is not None:
            return found
        fill(folder)
        make_private(folder)
        destination = store.folder.subfolder(_FOLDER) / whole
        os.rename(folder, destination)
    by_age = sorted(store.folder.things(_FOLDER), key=lambda path: path.stat().st_mtime)
    while by_age[0] != destination and size_of(*by_age) > store.limit:
        store.folder.remove(by_age.pop(0))
    return destination
