"""The folder of all entries, which any number of processes use at the same time.

    entries/KEY/     an entry each, see `pinnace.cache.entry`
    tensors/DIGEST   weights of entries; the entries' own files are hard links to these, so that models that
                     share a weight share its pages, and what no entry has any more has one link
    refers/CONTENT   the files that a model file refers to
    choices/...      what was measured of models, see `pinnace.cache.choices`
    models/WHOLE/    the files of a model that came from another machine, see `pinnace.serving.ray.models`
    new/             entries that are being written; each is locked by its writer
    locks/           one for each model that is being built, and one for `new`
    CACHEDIR.TAG     says that it is a cache

An entry appears whole, by being renamed. A process that is killed leaves a folder in `new`, which the next
writer removes: the kernel frees the lock. `pinnace.cache.folder` says whose the folder has to be.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import platformdirs

from pinnace.cache import entry as entries
from pinnace.cache.entry import Damaged, Entry
from pinnace.cache.folder import Folder, make_private
from pinnace.engines.protocol import TENSORS, Compiled
from pinnace.errors import ConfigError, warn
from pinnace.options.settings import Settings
from pinnace.weights.digest import digest, digest_of_file

OFF = "off"
"""In place of a folder: no cache."""

_LIMIT = 10.0  # GB
_PATIENCE = 60.0  # seconds that a build waits for another one of the same model, before it goes on by itself


class Store:
    """A cache folder. Methods raise OSError where it cannot be read or written."""

    def __init__(self, root: Path, limit: int) -> None:
        """Use the folder `root`, which need not exist; `limit` is in bytes. Raises as `Folder`."""
        self.root, self.limit = root, limit
        self._folder = Folder(root)

    @classmethod
    def of(cls, settings: Settings) -> Store | None:
        """The store of a build: that of `chosen`, and None, with a warning, where that cannot be used."""
        try:
            return cls.chosen(settings)
        except (OSError, ValueError) as error:
            warn(f"compile cache: models are built without being kept, set PINNACE_CACHE_DIR: {error}")
            return None

    @classmethod
    def chosen(cls, settings: Settings) -> Store | None:
        """The store of `[ms_cache] serialize_path`, else of PINNACE_CACHE_DIR, else the user's own.

        None where that says "off". PINNACE_CACHE_LIMIT is in GB. Raises ConfigError where that is no number,
        OSError or ValueError where the folder cannot be used.
        """
        name = settings.get("ms_cache", "serialize_path") or os.environ.get("PINNACE_CACHE_DIR", "")
        return None if name == OFF else cls(_root(name), _limit())

    def find(self, key: str) -> Entry | None:
        """The entry of this key; None where there is none. A damaged one is removed with a warning."""
        folder = self._path(key)
        try:
            found = entries.read(folder)
        except FileNotFoundError:
            return None
        except Damaged as damage:
            warn(f"compile cache: {damage}; the model is compiled again")
            self.remove(key)
            return None
        entries.touch(folder)
        return found

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """An empty folder to compile into, for `publish`; one process at a time has one for this `name`.

        TimeoutError where another one has it for too long.
        """
        with self._folder.lock(name, _PATIENCE), self._folder.new() as folder:
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
        """Make a folder that an engine has written the entry of this key; the texts are for people."""
        try:
            entries.write(folder, compiled, model, engine, warnings)
            make_private(folder)
            for path in list(folder.rglob(f"{TENSORS}/*")):
                self._share(path)
            entries.stamp(folder)
            destination = self._folder.room("entries") / key
            if destination.exists():  # where it was not remembered which files the model refers to
                self.remove(key)
            os.rename(folder, destination)
            self._evict(keep=key)
            return entries.read(destination)
        except Damaged as damage:  # somebody removes the whole cache
            raise OSError(str(damage)) from None

    def model(self, whole: str) -> Path | None:
        """The folder of a model that came from another machine; None where it is not here."""
        folder = self.root / "models" / whole
        with suppress(OSError):
            os.utime(folder)
            return folder
        return None

    def keep_model(self, whole: str, fill: Callable[[Path], None]) -> Path:
        """The folder of a model, which `fill` writes where it is not here; one process at a time does.

        Models that were not used for longest are taken away until the rest is within the limit.
        """
        with self.writing(whole) as folder:
            found = self.model(whole)
            if found is not None:
                return found
            fill(folder)
            make_private(folder)
            destination = self._folder.room("models") / whole
            os.rename(folder, destination)
        by_age = sorted(self._folder.things("models"), key=lambda path: path.stat().st_mtime)
        while by_age[0] != destination and _bytes(*by_age) > self.limit:
            self._folder.remove(by_age.pop(0))
        return destination

    def refers(self, content: str) -> list[str]:
        """The files that a model file with this content refers to, as far as it was seen before."""
        return self.noted("refers", content) or []

    def set_refers(self, content: str, files: list[str]) -> None:
        """Remember the files that a model file refers to."""
        self.note("refers", content, sorted(files))

    def noted(self, room: str, name: str) -> Any:
        """The JSON value that was noted under this name; None where there is none, or where it is damaged."""
        path = self.root / room / name
        try:
            if not path.is_file():
                return None
            seal, _, body = path.read_text(encoding="utf-8").partition("\n")
            return json.loads(body) if digest(body.encode()) == seal else None
        except (OSError, ValueError):
            return None

    def note(self, room: str, name: str, value: object) -> None:
        """Keep a JSON value in the folder `room`; the first line of its file is the digest of the rest."""
        body = json.dumps(value)
        with self._folder.new() as folder:
            (folder / name).write_text(f"{digest(body.encode())}\n{body}", encoding="utf-8")
            make_private(folder)
            os.replace(folder / name, self._folder.room(room) / name)

    def entry_keys(self) -> list[str]:
        """Of all entries, the one used last first."""
        return sorted((path.name for path in self._folder.things("entries")), key=lambda key: -self.used(key))

    def entry(self, key: str) -> Entry:
        """An entry as it is; `Damaged` or FileNotFoundError."""
        return entries.read(self._path(key))

    def used(self, key: str) -> float:
        """When an entry was last used, in seconds since 1970."""
        return entries.used(self._path(key))

    def size(self, key: str | None = None) -> int:
        """Bytes of an entry, or of all: what several entries share counts once."""
        return _bytes(*(self._folder.things("entries") if key is None else [self._path(key)]))

    def verify(self, key: str) -> None:
        """Read every byte of an entry; `Damaged`."""
        entries.verify(self._path(key))

    def remove(self, key: str) -> bool:
        """Take an entry away, and say whether it was there; whoever has it open keeps what it has mapped."""
        return self._folder.remove(self._path(key))

    def clear(self) -> dict[str, int]:
        """Take all away: entries, what killed writers left, what is remembered of models.

        Returns how many things of each room were removed, and under "bytes" how large they were.
        """
        rooms = ("entries", "tensors", "models", "choices", "refers", "locks")
        things = {room: self._folder.things(room) for room in rooms}
        size = _bytes(*(path for paths in things.values() for path in paths))
        removed = {room: sum(map(self._folder.remove, paths)) for room, paths in things.items()}
        return {**removed, "bytes": size}

    def _path(self, key: str) -> Path:
        return self.root / "entries" / key

    def _evict(self, keep: str) -> None:
        """Take entries away that were not used for longest until the rest is within the limit.

        Left to another process where one is at it.
        """
        if self.size() <= self.limit:
            return
        with suppress(TimeoutError), self._folder.lock("evict", 0):
            for key in reversed(self.entry_keys()):
                if self.size() <= self.limit:
                    break
                if key != keep:
                    self.remove(key)
            self._forget_unused_tensors()

    def _share(self, path: Path) -> None:
        """Make a weight's file and that of other entries with this weight the same one."""
        common = self._folder.room("tensors") / path.name
        # A file system without hard links, or with no more for this file, or another process took it away:
        # the entry has its own then.
        with suppress(OSError):
            try:
                os.link(path, common)
            except FileExistsError:
                if common.is_file() and digest_of_file(common) == path.name:
                    os.link(common, f"{path}.link")
                    os.replace(f"{path}.link", path)
                else:
                    common.unlink()  # damaged; entries that have it will notice
                    os.link(path, common)

    def _forget_unused_tensors(self) -> None:
        for path in self._folder.things("tensors"):
            with suppress(FileNotFoundError):
                if path.stat().st_nlink == 1:
                    path.unlink()


def _bytes(*folders: Path) -> int:
    """Of all files of these folders, each once."""
    sizes = {}
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            with suppress(FileNotFoundError):  # removed meanwhile
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def _root(chosen: str) -> Path:
    """The folder of this name, the user's own for "".

    OSError where the home folder that it needs is not known or the working directory is gone, ValueError
    where an engine cannot take the name: onnxruntime wants UTF-8.
    """
    try:
        folder = Path(chosen) if chosen else platformdirs.user_cache_path("pinnace")
        root = folder.expanduser().absolute()
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from None
    if b"\0" in str(root).encode():
        raise ValueError(f"{root} holds a null byte")
    return root


def _limit() -> int:
    said = os.environ.get("PINNACE_CACHE_LIMIT", "")
    try:
        return int(float(said or _LIMIT) * 1e9)
    except (ValueError, OverflowError):
        raise ConfigError(f"PINNACE_CACHE_LIMIT must be a number of GB, but got {said!r}") from None
