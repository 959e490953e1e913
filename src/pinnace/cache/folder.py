"""The folder of a cache: it belongs to its owner alone, and is marked as a cache.

Compiled models are loaded as they are, so whoever can write to the folder decides what is computed, and
whoever can read it has the weights. Only names of the cache's own form are touched. The mark is that of
https://bford.info/cachedir/, which backups leave out.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

_TAG = "CACHEDIR.TAG"
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# The compile cache of Pinnace.\n"
_ROOMS = ("entries", "tensors", "refers", "choices", "models", "new", "locks")
_OWN = re.compile(r"[0-9a-f]{64}(-[0-9a-f]{64})?")  # digests, see `pinnace.weights.digest`
_NEW = "build-"
_PATIENCE = 10.0  # seconds; who holds a lock of the folder itself needs milliseconds


class Folder:
    """A folder of rooms (folders again), each with things that are named by digests.

    Methods raise OSError where it cannot be read or written.
    """

    def __init__(self, root: Path) -> None:
        """Use the folder `root`, which need not exist.

        Raises PermissionError where others own it or can write to it, and FileExistsError where it holds
        something and is not marked as a cache.
        """
        self.root = root
        _check(root)

    def room(self, name: str) -> Path:
        """A room, made where it is not there."""
        folder = self.root / name
        if not folder.is_dir():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            tag = self.root / _TAG
            if not tag.exists():
                tag.touch(mode=0o600)
                tag.write_text(_TAG_TEXT, encoding="ascii")
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def things(self, room: str) -> list[Path]:
        """The things of a room under names of the cache's own form."""
        try:
            return [path for path in (self.root / room).iterdir() if _OWN.fullmatch(path.name)]
        except FileNotFoundError:
            return []

    @contextmanager
    def lock(self, name: str, patience: float) -> Iterator[None]:
        """A lock of all processes; TimeoutError after `patience` seconds."""
        try:
            with FileLock(self.room("locks") / name, timeout=patience, mode=0o600):
                yield
        except Timeout:
            raise TimeoutError(f"another process has held its lock {name} for {patience:g} s") from None

    @contextmanager
    def new(self) -> Iterator[Path]:
        """A folder of this process's own, locked as long as it is needed, gone after."""
        with self.lock("new", _PATIENCE):
            self._sweep()
            folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=self.room("new")))
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self, thing: Path) -> bool:
        """Take a thing away whole; False where it is not there. Who has it open keeps what is mapped."""
        with self.new() as folder, suppress(FileNotFoundError):
            os.rename(thing, folder / thing.name)
            return True
        return False

    def _sweep(self) -> None:
        """Remove what killed processes left; the lock "new" is held."""
        for path in self.room("new").glob(f"{_NEW}*"):
            try:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:  # gone, or not made here
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            except BlockingIOError:
                pass  # its writer lives
            finally:
                os.close(lock)


def make_private(folder: Path) -> None:
    """Let nobody but the owner read or write what a folder holds."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _check(root: Path) -> None:
    try:
        inside = os.listdir(root)
    except FileNotFoundError:
        return
    if inside and not _is_marked(root):
        raise FileExistsError(
            f"{root} is neither empty nor a cache of Pinnace (no {_TAG} says so): name another folder"
        )
    _check_owner(root)
    for name in {_TAG, *_ROOMS}.intersection(inside):
        _check_owner(root / name, follow=False)


def _is_marked(root: Path) -> bool:
    tag = root / _TAG
    return tag.is_file() and tag.read_bytes()[: len(_TAG_TEXT)] == _TAG_TEXT.encode()


def _check_owner(path: Path, follow: bool = True) -> None:
    status = path.stat(follow_symlinks=follow)
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(f"{path} is a link to another place")
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user (uid {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"other users can write to {path}: chmod go-w")
