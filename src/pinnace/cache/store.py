"""The folder of all entries, which any number of processes use at the same time.

    entries/KEY/     an entry each, see `pinnace.cache.entry`
    tensors/DIGEST   weights of entries; the entries' own files are hard links to these, so that models that
                     share a weight share its pages, and what no entry has any more has one link
    refers/CONTENT   the files that a model file refers to
    choices/...      what was measured of models, see `pinnace.cache.choices`
    models/WHOLE/    the files of a model that came from another machine, see `pinnace.cluster.models`
    new/             entries that are being written; each is locked by its writer
    locks/           for `filelock`

An entry appears whole, by being renamed. A process that is killed leaves a folder in `new`, which the next
writer removes: the kernel frees the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from pinnace.cache import entry as entries
from pinnace.cache.entry import Damaged, Entry
from pinnace.config import Settings
from pinnace.engines.protocol import TENSORS, Compiled
from pinnace.errors import ConfigError, warn
from pinnace.weights.digest import digest, digest_of_file

OFF = "off"
"""In place of a folder: no cache."""

_LIMIT = 10.0  # GB
_LOCKS = 64  # locks of writers, shared by models: as many files, and no more, stay in the folder


class Store:
    """A cache folder. Methods raise OSError where it cannot be read or written."""

    def __init__(self, root: Path, limit: int) -> None:
        """Use the folder `root`, which need not exist; `limit` is in bytes."""
        self.root, self.limit = root, limit

    @classmethod
    def of(cls, settings: Settings) -> Store | None:
        """The store of a build: `[ms_cache] serialize_path`, else PINNACE_CACHE_DIR, else the user's own.

        None where that says "off", and, with a warning, where it can be the name of no folder.
        PINNACE_CACHE_LIMIT is in GB. Raises ConfigError.
        """
        chosen = settings.get("ms_cache", "serialize_path") or os.environ.get("PINNACE_CACHE_DIR", "")
        if chosen == OFF:
            return None
        try:
            root = _root(chosen)
        except (RuntimeError, OSError, ValueError) as error:
            warn(f"compile cache: models are built without being kept, set PINNACE_CACHE_DIR: {error}")
            return None
        return cls(root, _limit())

    def find(self, key: str) -> Entry | None:
        """The entry of this key; None where there is none. A damaged one is removed with a warning."""
        folder = self._folder(key)
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
        """An empty folder to compile into, for `publish`; one process at a time has one for this `name`."""
        with self._lock(f"{int(name[:8], 16) % _LOCKS:02}"), self._new_folder() as folder:
            yield folder

    def publish(self, key: str, folder: Path, compiled: Compiled, model: str, engine: str) -> Entry:
        """Make a folder that an engine has written the entry of this key; the names are for people."""
        try:
            entries.write(folder, compiled, model, engine)
            for path in list(folder.rglob(f"{TENSORS}/*")):
                self._share(path)
            entries.stamp(folder)
            destination = self._made("entries") / key
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
            destination = self._made("models") / whole
            os.rename(folder, destination)
        by_age = sorted(self._made("models").iterdir(), key=lambda path: path.stat().st_mtime)
        while by_age[0] != destination and _bytes(*by_age) > self.limit:
            shutil.rmtree(by_age.pop(0), ignore_errors=True)
        return destination

    def refers(self, content: str) -> list[str]:
        """The files that a model file with this content refers to, as far as it was seen before."""
        return self.noted("refers", content) or []

    def set_refers(self, content: str, files: list[str]) -> None:
        """Remember the files that a model file refers to."""
        self.note("refers", content, sorted(files))

    def noted(self, room: str, name: str) -> Any:
        """The JSON value that was noted under this name; None where there is none, or where it is damaged."""
        try:
            seal, _, body = (self.root / room / name).read_text(encoding="utf-8").partition("\n")
            return json.loads(body) if digest(body.encode()) == seal else None
        except (OSError, ValueError):
            return None

    def note(self, room: str, name: str, value: object) -> None:
        """Keep a JSON value in the folder `room`; the first line of its file is the digest of the rest."""
        body = json.dumps(value)
        with self._new_folder() as folder:
            (folder / name).write_text(f"{digest(body.encode())}\n{body}", encoding="utf-8")
            os.replace(folder / name, self._made(room) / name)

    def entry_keys(self) -> list[str]:
        """Of all entries, the one used last first."""
        try:
            names = os.listdir(self.root / "entries")
        except FileNotFoundError:
            return []
        return sorted(names, key=lambda key: -entries.used(self._folder(key)))

    def entry(self, key: str) -> Entry:
        """An entry as it is; `Damaged` or FileNotFoundError."""
        return entries.read(self._folder(key))

    def used(self, key: str) -> float:
        """When an entry was last used, in seconds since 1970."""
        return entries.used(self._folder(key))

    def size(self, key: str | None = None) -> int:
        """Bytes of an entry, or of all: what several entries share counts once."""
        return _bytes(self.root / "entries" if key is None else self._folder(key))

    def verify(self, key: str) -> None:
        """Read every byte of an entry; `Damaged`."""
        entries.verify(self._folder(key))

    def remove(self, key: str) -> None:
        """Take an entry away; whoever has it open keeps what it has mapped."""
        with self._new_folder() as folder, suppress(FileNotFoundError):
            os.rename(self._folder(key), folder / key)

    def clear(self) -> None:
        """Take all away: entries, what killed writers left, what is remembered of models."""
        for key in self.entry_keys():
            self.remove(key)
        self._forget_unused_tensors()
        for room in ("refers", "choices", "models"):
            shutil.rmtree(self.root / room, ignore_errors=True)

    def _folder(self, key: str) -> Path:
        return self.root / "entries" / key

    def _made(self, name: str) -> Path:
        folder = self.root / name
        if not folder.is_dir():
            # Compiled models are loaded as they are: what others could write there is not to be trusted.
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(exist_ok=True)
        return folder

    def _lock(self, name: str, timeout: float = -1) -> FileLock:
        return FileLock(self._made("locks") / name, timeout=timeout)

    @contextmanager
    def _new_folder(self) -> Iterator[Path]:
        """A folder of this process's own, locked as long as it is needed, gone after."""
        with self._lock("new"):
            self._sweep()
            folder = Path(tempfile.mkdtemp(dir=self._made("new")))
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what killed processes left; the lock "new" is held."""
        for path in self._made("new").iterdir():
            try:
                lock = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
            except BlockingIOError:
                pass  # its writer lives
            finally:
                os.close(lock)

    def _evict(self, keep: str) -> None:
        """Take entries away that were not used for longest until the rest is within the limit.

        Left to another process where one is at it.
        """
        if self.size() <= self.limit:
            return
        try:
            with self._lock("evict", timeout=0):
                for key in reversed(self.entry_keys()):
                    if self.size() <= self.limit:
                        break
                    if key != keep:
                        self.remove(key)
                self._forget_unused_tensors()
        except Timeout:
            pass

    def _share(self, path: Path) -> None:
        """Make a weight's file and that of other entries with this weight the same one."""
        common = self._made("tensors") / path.name
        # A file system without hard links, or with no more for this file, or another process took it away:
        # the entry has its own then.
        with suppress(OSError):
            try:
                os.link(path, common)
            except FileExistsError:
                if digest_of_file(common) == path.name:
                    os.link(common, f"{path}.link")
                    os.replace(f"{path}.link", path)
                else:
                    common.unlink()  # damaged; entries that have it will notice
                    os.link(path, common)

    def _forget_unused_tensors(self) -> None:
        with suppress(FileNotFoundError):
            for path in (self.root / "tensors").iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_nlink == 1:
                        path.unlink()


def _bytes(*folders: Path) -> int:
    """Of all files of these folders, each once."""
    sizes = {}
    for folder in folders:
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):  # removed meanwhile
                status = path.stat()
                sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def _root(chosen: str) -> Path:
    """The folder of this name, the user's own for "".

    RuntimeError where nobody knows the home folder that it needs, OSError where the working directory is
    gone, ValueError where an engine cannot take the name: onnxruntime wants UTF-8.
    """
    folder = Path(chosen) if chosen else platformdirs.user_cache_path("pinnace")
    root = folder.expanduser().absolute()
    if b"\0" in str(root).encode():
        raise ValueError(f"{root} holds a null byte")
    return root


def _limit() -> int:
    said = os.environ.get("PINNACE_CACHE_LIMIT", "")
    try:
        return int(float(said or _LIMIT) * 1e9)
    except (ValueError, OverflowError):
        raise ConfigError(f"PINNACE_CACHE_LIMIT must be a number of GB, but got {said!r}") from None
