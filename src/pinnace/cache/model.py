"""The compile cache as the builds of one model see it: digests, entries, tunings and choices of engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinnace import engines
from pinnace.cache import known, notes
from pinnace.cache.key import MadeFor, code, content_of, key_of, whole_of
from pinnace.errors import collected_warnings
from pinnace.machine.cores import usable_core_count
from pinnace.machine.processor import identity
from pinnace.weights.digest import digest

if TYPE_CHECKING:
    from pinnace.cache.choices import Tuning
    from pinnace.cache.entry import Entry
    from pinnace.cache.store import Store
    from pinnace.engines.protocol import Compiled
    from pinnace.weights.source import Source

_ENGINES = "chosen"
"""The folder of the engines that were chosen for models."""


class ModelCache:
    """The compile cache for one model file; without a `store` it finds nothing.

    A file is read once for its digest, if at all: the store knows those of files that were read before.
    """

    def __init__(self, source: Source, store: Store | None = None) -> None:
        self.source, self.store = source, store
        self._wholes: dict[tuple[str, ...], str] = {}

    @cached_property
    def content(self) -> str:
        """The digest of the model file."""
        return self._digest("")

    @property
    def is_new(self) -> bool:
        """True if the store knows no model of this size, so that nothing has to be read to look for it."""
        return self.store is None or not known.has_size(self.store, len(self.source.data))

    @property
    def refers(self) -> list[str]:
        """The other files of the model: those in the store, or without one those that were read."""
        return self.source.files if self.store is None else self.store.refers(self.content)

    def note_files(self) -> None:
        """Store which other files the model refers to, as far as it was read. Raises OSError."""
        if self.store is not None and self.source.files:
            self.store.set_refers(self.content, self.source.files)

    def whole(self, refers: Sequence[str]) -> str:
        """Return the digest of the model file together with the files that it refers to."""
        files = tuple(refers)
        if files not in self._wholes:
            self._wholes[files] = whole_of(self.content, {file: self._digest(file) for file in files})
        return self._wholes[files]

    def key(self, made_for: MadeFor, refers: Sequence[str]) -> str:
        """Return the key of an entry."""
        return key_of(self.whole(refers), made_for, self.store)

    def find(self, made_for: MadeFor) -> Entry | None:
        """Return the entry of the compiled model, None if there is none. Raises OSError."""
        if self.store is None or self.is_new:
            return None
        return self.store.find(self.key(made_for, self.refers))

    def find_or_write(self, made_for: MadeFor, compile_into: Callable[[Path], Compiled]) -> Entry:
        """Return the entry of the compiled model, and write it if there is none.

        Raises OSError if the cache cannot be used, and the errors of engine and compiler.
        """
        store = self.store
        assert store is not None
        entry = store.find(self.key(made_for, self.refers))
        if entry is None:
            with store.writing(self.content) as folder:
                entry = store.find(self.key(made_for, self.refers))  # another process may have written it
                if entry is None:
                    with collected_warnings() as messages:  # loading the entry repeats them, now and later
                        compiled = compile_into(folder)
                    self.source.unload()
                    self.source.check_unchanged()
                    self.note_files()
                    key, engine = self.key(made_for, self.refers), made_for[0]
                    entry = store.publish(key, folder, compiled, self.source.name, engine, messages)
        known.keep_size(store, len(self.source.data))
        return entry

    def tuning(self) -> Tuning | None:
        """Return the last tuning of the model on this machine, or None."""
        if self.store is None or not self.store.has_choices:
            return None
        from pinnace.cache import choices

        return choices.find(self.store, self.content, self._environment)

    @property
    def was_tuned(self) -> bool:
        """True if the model was tuned, also with other code, engines or cores."""
        if self.store is None or not self.store.has_choices:
            return False
        from pinnace.cache import choices

        return choices.has_any(self.store, self.content)

    def keep_tuning(self, tuning: Tuning) -> bool:
        """Store a tuning. Returns False if the compile cache is off. Raises OSError.

        The model must have been read: the files that it refers to belong to its content.
        """
        from pinnace.cache import choices

        if self.store is not None:
            self.note_files()
            choices.remember(self.store, self.content, self._environment, tuning)
        return self.store is not None

    def forget_tunings(self) -> int:
        """Delete the tunings of the model file on all machines, and return their number."""
        from pinnace.cache import choices

        return 0 if self.store is None else choices.forget(self.store, self.content)

    def engine_choice(self, wanted: Sequence[str]) -> dict[str, Any] | None:
        """Return the choice of an engine for what is `wanted` of it; None if none was made."""
        if self.store is None or self.is_new:
            return None
        found = self.store.noted(_ENGINES, self._choice_name(wanted))
        return found if isinstance(found, dict) else None

    def keep_engine_choice(self, wanted: Sequence[str], choice: dict[str, Any]) -> None:
        """Store a choice, if the cache can be written."""
        if self.store is not None:
            with suppress(OSError):
                notes.keep(self.store.folder, _ENGINES, self._choice_name(wanted), choice)

    def _choice_name(self, wanted: Sequence[str]) -> str:
        machine = (identity(), str(usable_core_count()), *_engine_versions(), code(self.store))
        return f"{self.content}-{digest(chr(0).join((*wanted, *machine)).encode())}"

    @property
    def _environment(self) -> str:
        """A digest of all that figures of a tuning depend on: model, versions, CPU and cores."""
        machine = (identity(), str(usable_core_count()), *_engine_versions(), code(self.store))
        return digest("\0".join((self.whole(self.refers), *machine)).encode())

    def _digest(self, file: str) -> str:
        """Return the digest of a file of the model, "" for the model file. Notes it in the store."""
        state = self.source.state(file)
        found = known.find(self.store, state) if self.store and state else None
        if found is None:
            found = content_of(self.source, file)
            if self.store and state and state == self.source.state(file):
                known.keep(self.store, state, found)
        return found


def _engine_versions() -> list[str]:
    return sorted(map(" ".join, engines.installed().items()))
