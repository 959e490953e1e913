"""The compile cache as the builds of one model see it: digests, entries, tunings and choices of engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinnace import engines
from pinnace.cache import key
from pinnace.cache.key import MadeFor
from pinnace.errors import ModelFormatError, collected_warnings
from pinnace.machine.cores import usable_core_count
from pinnace.machine.processor import identity
from pinnace.weights.digest import digest

if TYPE_CHECKING:
    from pinnace.cache.entry import Entry
    from pinnace.cache.store import Store
    from pinnace.cache.tuning import Tuning
    from pinnace.engines.protocol import Compiled
    from pinnace.weights.source import Source

_ENGINES = "chosen"
_TUNINGS = "choices"
"""The folders of the engines that were chosen for models, and of their tunings."""


class ModelCache:
    """The compile cache for one model file; without a `store` it finds nothing.

    A file is read once for its digest, if at all: the store knows those of files that were read before.
    """

    def __init__(self, source: Source, store: Store | None = None) -> None:
        self.source, self.store = source, store
        self._digests: dict[str, str] = {}
        """The digests of the model's files when they were first read, "" for the model file."""

    @property
    def content(self) -> str:
        return self._digest("")

    @property
    def is_new(self) -> bool:
        """True if the store knows no model of this size, so that nothing has to be read to look for it."""
        return self.store is None or not key.has_size(self.store, len(self.source.data))

    @property
    def refers(self) -> list[str]:
        """The other files of the model: those in the store, or without one those that were read."""
        return self.source.files if self.store is None else self.store.refers(self.content)

    def note_files(self) -> None:
        """Store which other files the model refers to, as far as it was read. Raises OSError."""
        if self.store is not None and self.source.files:
            self.store.set_refers(self.content, self.source.files)

    def whole(self, refers: Sequence[str]) -> str:
        return key.whole_of(self.content, {file: self._digest(file) for file in refers})

    def key(self, made_for: MadeFor, refers: Sequence[str]) -> str:
        """Return the key of an entry."""
        return key.key_of(self.whole(refers), made_for, self.store)

    def find(self, made_for: MadeFor) -> Entry | None:
        """Return the entry of the compiled model, None if there is none. Raises OSError."""
        if self.store is None or self.is_new:
            return None
        return self.store.find(self.key(made_for, self.refers))

    def find_or_write(self, made_for: MadeFor, compile_into: Callable[[Path], Compiled]) -> Entry:
        """Return the entry of the compiled model, and write it if there is none.

        Raises OSError if the cache cannot be used, ModelFormatError if a file of the model changes meanwhile,
        and the errors of engine and compiler.
        """
        store = self.store
        assert store is not None
        entry = store.find(self.key(made_for, self.refers))
        if entry is None:
            with store.writing(self.content) as folder:
                entry = store.find(self.key(made_for, self.refers))  # another process may have written it
                if entry is None:
                    for file in self.source.files:
                        self._digest(file)  # `_check_unchanged` compares it
                    with collected_warnings() as messages:  # loading the entry repeats them, now and later
                        compiled = compile_into(folder)
                    self.source.unload()
                    self._check_unchanged()
                    self.note_files()
                    own, engine = self.key(made_for, self.refers), made_for[0]
                    entry = store.publish(own, folder, compiled, self.source.name, engine, messages)
        key.keep_size(store, len(self.source.data))
        return entry

    def tuning(self) -> Tuning | None:
        if self.store is None or not self.store.has_tunings:
            return None
        from pinnace.cache.tuning import tuning_of

        return tuning_of(self.store.record(_TUNINGS, self._tuning_name))

    @property
    def was_tuned(self) -> bool:
        """True if the model was tuned, also with other code, engines or cores."""
        if self.store is None or not self.store.has_tunings:
            return False
        return any(path for place in self.store.places(_TUNINGS) for path in place.glob(f"{self.content}-*"))

    def keep_tuning(self, tuning: Tuning) -> bool:
        """Store a tuning, merged with the last one. Returns False if the cache is off. Raises OSError.

        The model must have been read: the files that it refers to belong to its content.
        """
        if self.store is None:
            return False
        self.note_files()
        record = asdict(tuning.after(self.tuning()))
        self.store.folder.write_record(_TUNINGS, self._tuning_name, record)
        return True

    def forget_tunings(self) -> int:
        """Delete the tunings of the model file on all machines, and return their number."""
        found = [] if self.store is None else list((self.store.root / _TUNINGS).glob(f"{self.content}-*"))
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)

    def engine_choice(self, wanted: Sequence[str]) -> dict[str, Any] | None:
        """Return the choice of an engine for what is `wanted` of it; None if none was made."""
        if self.store is None or self.is_new:
            return None
        found = self.store.record(_ENGINES, self._name_here(*wanted))
        return found if isinstance(found, dict) else None

    def keep_engine_choice(self, wanted: Sequence[str], choice: dict[str, Any]) -> None:
        """Store a choice, if the cache can be written."""
        if self.store is not None:
            with suppress(OSError):
                self.store.folder.write_record(_ENGINES, self._name_here(*wanted), choice)

    @property
    def _tuning_name(self) -> str:
        return self._name_here(self.whole(self.refers))

    def _name_here(self, *facts: str) -> str:
        """Return a name for what depends on facts, versions, CPU and cores."""
        versions = sorted(map(" ".join, engines.installed().items()))
        machine = (identity(), str(usable_core_count()), *versions, key.code(self.store))
        return f"{self.content}-{digest(chr(0).join((*facts, *machine)).encode())}"

    def _digest(self, file: str) -> str:
        if file not in self._digests:
            self._digests[file] = self._digest_now(file)
        return self._digests[file]

    def _digest_now(self, file: str) -> str:
        """Return the digest of a file of the model, "" for the model file. Notes it in the store."""
        state = self.source.state(file)
        found = key.known_digest(self.store, state) if self.store and state else None
        if found is None:
            found = key.content_of(self.source, file)
            if self.store and state and state == self.source.state(file):
                key.keep_digest(self.store, state, found)
        return found

    def _check_unchanged(self) -> None:
        """Raise ModelFormatError if a file is not what it was when it was first read.

        The times of a file that was written lately do not tell it (see `key`): it is read again.
        """
        self.source.check_unchanged()
        for file, content in self._digests.items():
            if self._digest_now(file) != content:
                name = f"{self.source.name}: {file!r}" if file else self.source.name
                raise ModelFormatError(f"{name}: changed during the build; build the model again")
