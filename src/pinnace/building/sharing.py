"""Sharing of weights with other processes, as options of `[ascend_context]` request it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pinnace.building.spec import Sharing, Spec, Stages, compiled
from pinnace.cache.model import ModelCache
from pinnace.errors import ConfigError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.cache.entry import Entry
    from pinnace.cache.handover import Offer

_SECTION, _PIDS, _HANDLE = "ascend_context", "shareable_weight_pid_list", "shareable_weight_mem_handle"


def sharing_of(settings: Settings) -> Sharing | None:
    """Return what the settings ask for, or None. Raises ConfigError for an option that is empty."""
    given = settings.sections.get(_SECTION, {})
    for key, wanted in ((_PIDS, "ids of processes, as in '12, 34'"), (_HANDLE, "the handle of a model")):
        if not given.get(key, key).strip(" ,"):
            raise ConfigError(f"[{_SECTION}] {key} is empty: give {wanted}, or leave it out")
    found = Sharing(given.get(_PIDS, ""), given.get(_HANDLE, ""))
    return found if any(found) else None


def check_sharing(sharing: Sharing, target: Target) -> None:
    """Raise ConfigError if weights in the memory of an accelerator should be shared."""
    if target.device != "cpu":
        raise ConfigError(
            f"{_PIDS if sharing.pids else _HANDLE}: no engine shares the memory of "
            f"{target.device}:{target.device_id} between processes; leave it out, and each process has its "
            f"own copy of the weights"
        )


def shared_entry(spec: Spec, sharing: Sharing, stages: Stages) -> tuple[Entry, Callable[[], Offer] | None]:
    """Return the entry that another process lends, or else one built here and a function that offers it.

    Raises ConfigError and ModelStateError if processes or files do not allow it.
    """
    if not sharing.handle:
        return _lent(spec, sharing.pids, stages)
    from pinnace.cache.handover import receive

    def key(refers: Sequence[str]) -> str:
        return spec.cache.key(spec.made_for, refers)

    device, name = _device(spec.target), spec.source.name
    return receive(sharing.handle, spec.cache.content, key, device, name), None


def _lent(spec: Spec, pids: str, stages: Stages) -> tuple[Entry, Callable[[], Offer]]:
    from pinnace.cache.handover import Offer, admitted
    from pinnace.cache.store import private_store

    processes = admitted(pids)
    store = spec.cache.store
    try:
        holder = private_store(store) if store is None or store.installed else store
        cache = ModelCache(spec.source, holder)
        entry = cache.find_or_write(spec.made_for, lambda folder: compiled(spec, folder, stages))
    except OSError as error:
        raise ConfigError(
            f"{_PIDS}: processes share weights through the compile cache or, if it is off, through "
            f"temporary files (TMPDIR), which failed: {error}"
        ) from None
    made_for = cache.key(spec.made_for, ())
    terms = entry, cache.content, made_for, _device(spec.target), cache.refers, processes, holder
    return entry, partial(Offer, *terms)


def _device(target: Target) -> str:
    """Return the device that a target is or simulates, which must be that of the other process too."""
    return target.simulates.partition(" ")[0] or f"{target.device}:{target.device_id}"
