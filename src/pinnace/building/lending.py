"""Sharing of weights with other processes, as options of `[ascend_context]` request it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pinnace.building.cached import Contents, entry_of
from pinnace.building.recipe import Recipe
from pinnace.errors import ConfigError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.cache.entry import Entry
    from pinnace.cache.handover import Offer
    from pinnace.cache.store import Store

_PIDS, _HANDLE = "shareable_weight_pid_list", "shareable_weight_mem_handle"


class Sharing:
    """The weights that a model lends to other processes or borrows from one; false if it does neither."""

    def __init__(self, pids: str = "", handle: str = "") -> None:
        self._pids, self._handle = pids, handle

    @classmethod
    def of(cls, settings: Settings) -> Sharing:
        """Read the options of the settings. Raises ConfigError for one that is empty."""
        found = settings.sections.get("ascend_context", {})
        for key, wanted in ((_PIDS, "ids of processes, as in '12, 34'"), (_HANDLE, "the handle of a model")):
            if not found.get(key, key).strip(" ,"):
                raise ConfigError(f"[ascend_context] {key} is empty: give {wanted}, or leave it out")
        return cls(*(found.get(key, "") for key in (_PIDS, _HANDLE)))

    def __bool__(self) -> bool:
        return bool(self._pids or self._handle)

    def check(self, target: Target) -> None:
        """Raise ConfigError if weights in the memory of an accelerator should be shared."""
        for key, given in ((_PIDS, self._pids), (_HANDLE, self._handle)):
            if given and target.device != "cpu":
                raise ConfigError(
                    f"{key}: no engine shares the memory of {target.device}:{target.device_id} between "
                    f"processes; leave it out, and each process has its own copy of the weights"
                )

    def entry(
        self, recipe: Recipe, contents: Contents, store: Store | None
    ) -> tuple[Entry, Callable[[], Offer] | None]:
        """Return the entry that another process lends, or else one built here and a function that offers it.

        Raises ConfigError and ModelStateError if processes or files do not allow it.
        """
        from pinnace.cache.handover import receive

        if not self._handle:
            return self._lent(recipe, contents, store)

        def key(refers: Sequence[str]) -> str:
            return contents.key(recipe, refers)

        kind, name = _device(recipe.target), recipe.source.name
        return receive(self._handle, contents.file, key, kind, name), None

    def _lent(
        self, recipe: Recipe, contents: Contents, store: Store | None
    ) -> tuple[Entry, Callable[[], Offer]]:
        from pinnace.cache.handover import Offer, admitted
        from pinnace.cache.private import private_store

        processes = admitted(self._pids)
        try:
            holder = private_store(store) if store is None or store.installed else store
            entry = entry_of(recipe, contents, holder)
        except OSError as error:
            raise ConfigError(
                f"{_PIDS}: processes share weights through the compile cache or, if it is off, through "
                f"temporary files (TMPDIR), which failed: {error}"
            ) from None
        refers = holder.refers(contents.file)
        made_for, kind = contents.key(recipe, ()), _device(recipe.target)
        return entry, partial(Offer, entry, contents.file, made_for, kind, refers, processes, holder)


def _device(target: Target) -> str:
    """Return the device that a target is or simulates, which must be that of the other process too."""
    return target.simulates.partition(" ")[0] or f"{target.device}:{target.device_id}"
