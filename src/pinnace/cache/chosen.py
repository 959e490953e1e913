"""The engines that were chosen for models, stored in the cache."""

from __future__ import annotations

from typing import Any

from pinnace.cache import notes
from pinnace.cache.key import code
from pinnace.cache.store import Store
from pinnace.engines import installed
from pinnace.machine.cores import usable_core_count
from pinnace.machine.processor import identity
from pinnace.weights.digest import digest

_FOLDER = "chosen"


def find(store: Store, content: str, made_for: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what was chosen for a model file (`content`, its digest) and a target; None if nothing was."""
    found = store.noted(_FOLDER, _name(store, content, made_for))
    return found if isinstance(found, dict) else None


def remember(store: Store, content: str, made_for: tuple[str, ...], choice: dict[str, Any]) -> None:
    """Store what was chosen. Raises OSError."""
    notes.keep(store.folder, _FOLDER, _name(store, content, made_for), choice)


def _name(store: Store, content: str, made_for: tuple[str, ...]) -> str:
    versions = sorted(map(" ".join, installed().items()))
    place = (identity(), str(usable_core_count()), *versions, code(store))
    return f"{content}-{digest(chr(0).join((*made_for, *place)).encode())}"
