"""The cached build: digests of models, entries of the compile cache, and tunings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pinnace.building.recipe import Recipe
from pinnace.errors import collected_warnings
from pinnace.machine.cores import usable_core_count

if TYPE_CHECKING:
    from pinnace.cache.choices import Tuning
    from pinnace.cache.entry import Entry
    from pinnace.cache.store import Store
    from pinnace.weights.source import Source


class Contents:
    """Digests of a model file and of the files that it refers to; each is read once, if at all.

    The `store`, if there is one, knows the digests of files that were read before.
    """

    def __init__(self, source: Source, store: Store | None = None) -> None:
        self._source, self._store = source, store
        self._wholes: dict[tuple[str, ...], str] = {}

    @cached_property
    def file(self) -> str:
        """The digest of the model file."""
        return self._digest("")

    def note_files(self, store: Store) -> None:
        """Store which other files the model refers to, as far as it was read. Raises OSError."""
        if self._source.files:
            store.set_refers(self.file, self._source.files)

    @property
    def is_new(self) -> bool:
        """True if the store knows no model of this size, so that nothing has to be read to look for it."""
        from pinnace.cache import known

        return self._store is None or not known.has_size(self._store, len(self._source.data))

    def whole(self, refers: Sequence[str]) -> str:
        """Return the digest of the model file together with the files that it refers to."""
        from pinnace.cache.key import whole_of

        files = tuple(refers)
        if files not in self._wholes:
            self._wholes[files] = whole_of(self.file, {file: self._digest(file) for file in files})
        return self._wholes[files]

    def key(self, recipe: Recipe, refers: Sequence[str]) -> str:
        """Return the cache key of a recipe."""
        from pinnace.cache.key import key_of

        made_for = recipe.engine.name, recipe.target, recipe.variable, recipe.plan, recipe.shapes
        return key_of(self.whole(refers), *made_for, store=self._store)

    def _digest(self, file: str) -> str:
        """Return the digest of a file of the model, "" for the model file. Notes it in the store."""
        from pinnace.cache import known
        from pinnace.cache.key import content_of

        state = self._source.state(file)
        found = known.find(self._store, state) if self._store and state else None
        if found is None:
            found = content_of(self._source, file)
            if self._store and state and state == self._source.state(file):
                known.keep(self._store, state, found)
        return found


def found_entry(recipe: Recipe, contents: Contents, store: Store) -> Entry | None:
    """Return the cache entry of a recipe, None if there is none. Raises OSError as `entry_of` does."""
    if contents.is_new:
        return None
    return store.find(contents.key(recipe, store.refers(contents.file)))


def entry_of(recipe: Recipe, contents: Contents, store: Store) -> Entry:
    """Return the cache entry of a recipe, and build it if there is none.

    Raises OSError if the cache cannot be used, and the errors of engine and compiler.
    """
    from pinnace.cache import known

    def key() -> str:
        return contents.key(recipe, store.refers(content))

    source, content = recipe.source, contents.file
    entry = store.find(key())
    if entry is None:
        with store.writing(content) as folder:
            entry = store.find(key())
            if entry is None:
                with collected_warnings() as said:  # loading the entry repeats the warnings, now and later
                    compiled = recipe.compiled(folder)
                source.unload()
                source.check_unchanged()
                contents.note_files(store)
                entry = store.publish(key(), folder, compiled, source.name, recipe.engine.name, said)
    known.keep_size(store, len(source.data))
    return entry


class Tunings:
    """Tunings of one model on this machine, in the compile cache; empty if the cache is off."""

    def __init__(self, store: Store | None, contents: Contents) -> None:
        self._store, self._contents = store, contents

    def find(self) -> Tuning | None:
        """Return the last tuning, or None."""
        if self._store is None or not self._store.has_choices:
            return None
        from pinnace.cache import choices

        return choices.find(self._store, self._contents.file, self._place(self._store))

    @property
    def exist(self) -> bool:
        """True if the model was tuned, also with other code, engines or cores."""
        if self._store is None or not self._store.has_choices:
            return False
        from pinnace.cache import choices

        return choices.has_any(self._store, self._contents.file)

    def keep(self, tuning: Tuning) -> bool:
        """Store a tuning. Returns False if the compile cache is off. Raises OSError.

        The model must have been read: the files that it refers to belong to its content.
        """
        from pinnace.cache import choices

        if self._store is not None:
            self._contents.note_files(self._store)
            choices.remember(self._store, self._contents.file, self._place(self._store), tuning)
        return self._store is not None

    def forget(self) -> int:
        """Delete the tunings of the model file on all machines, and return their number."""
        from pinnace.cache import choices

        return 0 if self._store is None else choices.forget(self._store, self._contents.file)

    def _place(self, store: Store) -> str:
        from pinnace import engines
        from pinnace.cache.choices import environment_of

        versions = map(" ".join, engines.installed().items())
        whole = self._contents.whole(store.refers(self._contents.file))
        return environment_of(store, whole, versions, usable_core_count())
