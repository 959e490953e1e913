"""The folder of all entries, which any number of processes use at the same time.

    entries/KEY/     an entry each, see `pinnace.cache.entry`
    tensors/DIGEST   weights of entries; the entries' own files are hard links to these, so that models share
                     the pages of a weight, and an unused weight has a single link
    refers/CONTENT   the files that a model file refers to
    known/SIZE       digests of files that were read before, see `pinnace.cache.key`
    choices/...      measurements of models, see `pinnace.cache.tuning`
    models/WHOLE/    the files of a model from another machine, for `pinnace.serving.ray`
    new/             entries that are being written; each is locked by its writer
    locks/           one for each model that is being built, and one for `new`
    CACHEDIR.TAG     marks the folder as a cache

An entry appears whole, by a rename. A killed process leaves a folder in `new`, which the next writer removes,
as the kernel has freed its lock. `pinnace.cache.folder` checks the owner of the folder.

Below the folder that is written there may be others that are only read, such as that of a container's image.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

from pinnace.cache import entry as entries
from pinnace.cache.entry import Damaged, Entry
from pinnace.cache.folder import Folder, make_locked, make_private, read_record, remove_abandoned, size_of
from pinnace.engines.protocol import TENSORS, Compiled
from pinnace.errors import ConfigError, warn
from pinnace.machine.cgroup import lies_in_memory, usable_memory
from pinnace.options.settings import Settings
from pinnace.weights.digest import digest_of_file

OFF = "off"
"""Value in place of a folder: no cache."""

_MODELS = "models"
_LIMIT = 10.0  # GB
_NO_LIMIT = 1 << 62  # bytes
_BRIEFLY = 60.0  # seconds until the folder of a new private store is locked
_UNCOUNTED = 100  # the part of its limit, one in so many, that a process adds until it counts again

_counted: dict[Path, tuple[int, int]] = {}
"""Caches that this process writes: their size in bytes, and what it added since it counted all files.

A count takes 0.5 s for 3,500 entries.
"""


class Store:
    """A cache folder, and the stores `below` it, which are only read.

    Methods raise OSError if the folder cannot be read or written.
    """

    patience = 30.0
    """Seconds that a build waits for another build of the same model before it continues alone."""

    def __init__(self, root: Path, limit: int, installed: bool = False) -> None:
        """Use the folder `root`, as `Folder` does. `limit` is in bytes."""
        self._limit, self.installed = limit, installed
        self.folder = Folder(root, installed)
        self.below: Sequence[Store] = ()

    @property
    def root(self) -> Path:
        return self.folder.root

    @classmethod
    def of(cls, settings: Settings) -> Store | None:
        """Return the store that `from_settings` selects; None with a warning if it cannot be used."""
        try:
            return cls.from_settings(settings)
        except (OSError, ValueError) as error:
            warn(f"compile cache: off ({error}); set PINNACE_CACHE_DIR to a usable folder")
            return None

    @classmethod
    def from_settings(cls, settings: Settings) -> Store | None:
        """Return the store of `[ms_cache] serialize_path`, else of PINNACE_CACHE_DIR, else the user's own.

        PINNACE_CACHE_DIR may name several folders: the first is written, unless it belongs to root or cannot
        be written. Warns of folders that are not used so. Returns None for "off". PINNACE_CACHE_LIMIT is in
        GB. Raises ConfigError if that is no number, OSError if no folder can be used.
        """
        name, limit = settings.get("ms_cache", "serialize_path"), _limit()
        names = [name] if name else os.environ.get("PINNACE_CACHE_DIR", "").split(os.pathsep)
        found: list[Store] = []
        problems: dict[str, str] = {}
        for place, name in enumerate(names):
            if name == OFF or (place and not name):
                continue
            for installed in (False, True)[place > 0 :]:
                try:
                    found.append(cls(_root(name), limit, installed=installed))
                    break
                except (OSError, ValueError) as error:
                    problems.setdefault(name, str(error))
        problem = "; ".join(problems.values())
        if not found:
            if problem:
                raise OSError(problem)
            return None
        if problem:
            used = (f"{store.root}{' (only read)' * store.installed}" for store in found)
            warn(f"compile cache: {problem}; used is {', '.join(used)}")
        found[0].below = found[1:]
        return found[0]

    @classmethod
    def around(cls, entry: Entry) -> Store | None:
        """Return the store of an entry, without a limit; None if it is gone or only read."""
        root = entry.folder.parents[1]
        with suppress(OSError):
            if os.access(root / "entries", os.W_OK):
                return cls(root, _NO_LIMIT)
        return None

    @property
    def limit(self) -> int:
        """Size in bytes that the cache may have: as configured, in memory at most half of what this process
        may use.
        """
        return min(self._limit, usable_memory() // 2) if lies_in_memory(self.root) else self._limit

    @property
    def has_tunings(self) -> bool:
        """True if tunings are stored: otherwise no model has to be hashed to look for its own."""
        return any(map(os.path.isdir, self.places("choices")))  # False too for a folder without permission

    def places(self, *names: str) -> Iterator[Path]:
        """Yield the path of these names in this folder and in those below."""
        for store in (self, *self.below):
            yield store.root.joinpath(*names)

    def record(self, subfolder: str, name: str) -> Any:
        """Return the JSON value stored under this name, here or else below; None if there is none."""
        found = (read_record(path) for path in self.places(subfolder, name))
        return next((value for value in found if value is not None), None)

    def find(self, key: str) -> Entry | None:
        """Return the entry of this key, here or else below; None if there is none.

        A damaged entry is removed with a warning.
        """
        found = (store._found(key) for store in (self, *self.below))
        return next((entry for entry in found if entry is not None), None)

    def _found(self, key: str) -> Entry | None:
        try:
            found = self.entry(key)
        except FileNotFoundError:
            return None
        except Damaged as damage:
            warn(f"compile cache: {damage}; the model is compiled again")
            if not self.installed:
                self.remove(key)
            return None
        if not self.installed:
            entries.touch(found.folder)
        return found

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Provide an empty folder to compile into, for `publish`, to one process at a time for each `name`.

        Raises TimeoutError if another process holds it for too long.
        """
        with self.folder.lock(name, self.patience), self.folder.new() as folder:
            yield folder

    def publish(
        self,
        key: str,
        folder: Path,
        compiled: Compiled,
        model: str,
        engine: str,
        warnings: Sequence[str] = (),
    ) -> Entry:
        """Turn a folder that an engine has written into the entry of this key; the texts are for people."""
        try:
            entries.write(folder, compiled, model, engine, warnings)
            make_private(folder)
            for path in list(folder.rglob(f"{TENSORS}/*")):
                self._share(path)
            entries.stamp(folder)
            destination = self.folder.subfolder("entries") / key
            if destination.exists():  # the files that the model refers to were not known before
                self.remove(key)
            os.rename(folder, destination)
            self._make_room(key)
            return entries.read(destination)
        except Damaged as damage:  # the whole cache is being removed
            raise OSError(str(damage)) from None

    def refers(self, content: str) -> list[str]:
        """Return the files that a model file with this content refers to, as far as known."""
        return self.record("refers", content) or []

    def set_refers(self, content: str, files: list[str]) -> None:
        self.folder.write_record("refers", content, sorted(files))

    def entry_keys(self) -> list[str]:
        """Return the keys of all entries, the last used first."""
        return sorted((path.name for path in self.folder.things("entries")), key=lambda key: -self.used(key))

    def entry(self, key: str) -> Entry:
        """Return an entry. Raises `Damaged` or FileNotFoundError."""
        return entries.read(self._path(key), self.installed)

    def used(self, key: str) -> float:
        """Return the time of an entry's last use in seconds since 1970."""
        return entries.used(self._path(key))

    def size(self, key: str | None = None) -> int:
        """Return the size of an entry or of all in bytes; shared files count once."""
        return size_of(*(self.folder.things("entries") if key is None else [self._path(key)]))

    def verify(self, key: str) -> None:
        """Check the owner of an entry and read every byte of it. Raises `Damaged`."""
        entries.verify(self.entry(key).folder)

    def remove(self, key: str) -> bool:
        """Remove an entry. Returns False if it does not exist. Mappings of its files stay valid."""
        return self.folder.remove(self._path(key))

    def find_model(self, whole: str) -> Path | None:
        """Return the folder of a model from another machine, named by its digest; None if it is not here."""
        folder = self.root / _MODELS / whole
        with suppress(OSError):
            os.utime(folder)
            return folder
        return None

    def keep_model(self, whole: str, fill: Callable[[Path], None]) -> Path:
        """Return the folder of a model; if it is missing, `fill` writes it, in one process at a time.

        The least recently used models are removed until the rest is within the store's limit.
        """
        with self.writing(whole) as folder:
            found = self.find_model(whole)
            if found is not None:
                return found
            fill(folder)
            make_private(folder)
            destination = self.folder.subfolder(_MODELS) / whole
            os.rename(folder, destination)
        by_age = sorted(self.folder.things(_MODELS), key=lambda path: path.stat().st_mtime)
        while by_age[0] != destination and size_of(*by_age) > self.limit:
            self.folder.remove(by_age.pop(0))
        return destination

    def clear(self) -> dict[str, int]:
        """Remove everything: entries, leftovers of killed writers, data about models.

        Returns the number of removed items by subfolder, and under "bytes" their size.
        """
        rooms = "entries tensors models choices chosen machine refers known locks"
        things = {name: self.folder.things(name) for name in rooms.split()}
        size = size_of(*(path for paths in things.values() for path in paths))
        removed = {name: sum(map(self.folder.remove, paths)) for name, paths in things.items()}
        return {**removed, "bytes": size}

    def _path(self, key: str) -> Path:
        return self.root / "entries" / key

    def _make_room(self, added: str) -> None:
        """Evict entries if the cache is too large with one that was added.

        What other processes add is seen when the files are counted.
        """
        limit, own = self.limit, self.size(added)
        size, uncounted = (number + own for number in _counted.get(self.root, (limit, 0)))
        if size > limit or uncounted > limit // _UNCOUNTED:
            size, uncounted = self.size(), 0
            if size > limit:
                self._evict(keep=added)
        _counted[self.root] = size, uncounted

    def _evict(self, keep: str) -> None:
        """Remove the least recently used entries until the rest is within the limit.

        Does nothing if another process is doing it.
        """
        with suppress(TimeoutError), self.folder.lock("evict", 0):
            for key in reversed(self.entry_keys()):
                if self.size() <= self.limit:
                    break
                if key != keep:
                    self.remove(key)
            self._forget_unused_tensors()

    def _share(self, path: Path) -> None:
        """Replace a weight's file by a hard link to that of other entries with this weight."""
        common = self.folder.subfolder("tensors") / path.name
        # Without hard links, beyond their maximum, or after a removal by another process the entry keeps its
        # own file.
        with suppress(OSError):
            try:
                os.link(path, common)
            except FileExistsError:
                if common.is_file() and digest_of_file(common) == path.name:
                    os.link(common, f"{path}.link")
                    os.replace(f"{path}.link", path)
                else:
                    common.unlink()  # damaged; entries with this file will notice
                    os.link(path, common)

    def _forget_unused_tensors(self) -> None:
        for path in self.folder.things("tensors"):
            with suppress(FileNotFoundError):
                if path.stat().st_nlink == 1:
                    path.unlink()


def _root(name: str) -> Path:
    """Return the folder of this name, the user's default for "".

    Raises OSError if the home folder is unknown or the working directory is gone, ValueError for a name that
    an engine cannot take: onnxruntime requires UTF-8.
    """
    try:
        folder = Path(name) if name else _of_user()
        root = folder.expanduser().absolute()
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from None
    if b"\0" in str(root).encode():
        raise ValueError(f"{root} contains a null byte")
    return root


def _of_user() -> Path:
    import platformdirs  # is not needed where the folder is given

    return platformdirs.user_cache_path("pinnace")


def _limit() -> int:
    text = os.environ.get("PINNACE_CACHE_LIMIT", "")
    try:
        return int(float(text or _LIMIT) * 1e9)
    except (ValueError, OverflowError):
        raise ConfigError(f"PINNACE_CACHE_LIMIT must be a number of GB, but got {text!r}") from None


_private: WeakValueDictionary[int, Store] = WeakValueDictionary()


def private_store(below: Store | None = None) -> Store:
    """Return the temporary store of this process, above one that is only read; create it if needed.

    It shares weights when no other cache can be written. It is in the folder for temporary files (TMPDIR), in
    memory if that is a tmpfs, and is removed with its last user. The folder of a killed process is removed by
    the next process that makes one. Raises OSError.
    """
    store = _private.get(os.getpid())  # a forked child has its parent's store in this dict, too
    if store is None:
        prefix = f"pinnace-{os.getuid()}-"
        _sweep_private(prefix)
        root, lock = make_locked(prefix)
        store = _private[os.getpid()] = Store(root, _NO_LIMIT)
        finalize(store, _remove_private, root, lock, os.getpid())
    store.below = () if below is None else (below, *below.below)
    return store


def store_for_sharing(settings: Settings) -> Store | None:
    """Return the store for weights that models share: the compile cache, or else one of this process.

    Warns if neither can be written.
    """
    store = Store.of(settings)
    if store is not None and not store.installed:
        return store
    try:
        return private_store(store)
    except OSError as error:
        warn(
            f"ModelGroup: models share weights through the compile cache or, if it is off, through temporary "
            f"files (TMPDIR), which failed: {error}; each model has its own copy of the weights"
        )
        return store


def _remove_private(root: Path, lock: int, owner: int) -> None:
    import shutil

    if os.getpid() == owner:
        shutil.rmtree(root, ignore_errors=True)
        os.close(lock)


def _sweep_private(prefix: str) -> None:
    import tempfile

    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # its owner lives, or another process removes it
            if time.time() - path.stat().st_mtime > _BRIEFLY:
                remove_abandoned(path)
