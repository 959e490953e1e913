"""Profiles of the machine, and the engines that were chosen for models by them, stored in the cache."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from pinnace.cache import notes
from pinnace.cache.key import code
from pinnace.cache.store import Store
from pinnace.engines import installed
from pinnace.machine.cores import usable_core_count
from pinnace.machine.processor import identity
from pinnace.weights.digest import digest

if TYPE_CHECKING:
    from pinnace.engines.speed.profile import MachineProfile

_FOLDER, _CHOSEN = "machine", "chosen"


def profile(store: Store | None) -> MachineProfile:
    """Return the measured profile of this machine; without one that of the table."""
    from pinnace.engines.speed.profile import built_in, from_record  # a model that was chosen for needs none

    record = _measured(store)
    try:
        return built_in() if record is None else from_record(record)
    except (KeyError, TypeError, ValueError):  # of another version
        return built_in()


def gains(store: Store | None) -> str:
    """Return what rules gain by the measured profile of this machine, as `Target.gains` has it; else ""."""
    record = _measured(store)
    return json.dumps(record["rules"]) if isinstance(record, dict) and record.get("rules") else ""


def _measured(store: Store | None) -> Any:
    """Return the record of the profile that was measured on this machine; None if there is none."""
    if store is None or not any(map(os.path.isdir, store.places(_FOLDER))):
        return None
    return store.noted(_FOLDER, _place())


def keep(store: Store, measured: MachineProfile) -> None:
    """Store a measured profile; what was chosen by another one is forgotten. Raises OSError."""
    from pinnace.engines.speed.profile import as_record

    notes.keep(store.folder, _FOLDER, _place(), as_record(measured))
    for path in store.folder.things(_CHOSEN):
        path.unlink(missing_ok=True)


def chosen(store: Store, content: str, made_for: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what was chosen for a model file (`content`, its digest) and a target; None if nothing was."""
    found = store.noted(_CHOSEN, _name(store, content, made_for))
    return found if isinstance(found, dict) else None


def remember(store: Store, content: str, made_for: tuple[str, ...], choice: dict[str, Any]) -> None:
    """Store what was chosen. Raises OSError."""
    notes.keep(store.folder, _CHOSEN, _name(store, content, made_for), choice)


def _name(store: Store, content: str, made_for: tuple[str, ...]) -> str:
    return f"{content}-{digest(chr(0).join((*made_for, _place(), code(store))).encode())}"


def _place() -> str:
    versions = sorted(map(" ".join, installed().items()))
    return digest("\0".join((identity(), str(usable_core_count()), *versions)).encode())
