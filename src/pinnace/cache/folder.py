"""The folder of a cache, private to its owner or installed by root, and marked as a cache.

Compiled models are loaded as they are, so anyone who can write to the folder, or replace a folder above,
decides what is computed, and anyone who can read it has the weights. Only names of the cache's own form are
touched. The mark, which makes backups skip the folder, is that of https://bford.info/cachedir/.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pinnace.machine.file_lock import locked
from pinnace.weights.digest import digest

# Models that are loaded need none of the modules for writing: shutil, tempfile.

_TAG = "CACHEDIR.TAG"
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# The compile cache of Pinnace.\n"
_SUBFOLDERS = (
    *("entries", "tensors", "refers", "known", "choices", "chosen"),
    *("machine", "models", "new", "locks"),
)
_OWN = r"[0-9a-f]{64}(-[0-9a-f]{64})?"  # digests, see `pinnace.weights.digest`
_NEW = "build-"
_LEFT = f"{_NEW}[a-z0-9_]{{8}}"  # as tempfile names it
_UNFINISHED = f"{_TAG}."
_PATIENCE = 10.0  # seconds; locks of the folder are held for milliseconds
_BOUNDED = ("known", "refers", "chosen", "locks")
_FULL = 1 << 16  # free bytes; engines do not say that they failed because the disk is full
_MOST = 1000  # files in each of these; the oldest go, and are written again when they are needed

Record = dict[str, Any]
"""A JSON object."""


class Folder:
    """A folder with subfolders of files or folders that are named by digests.

    Methods raise OSError if it cannot be read or written.
    """

    def __init__(self, root: Path, installed: bool = False) -> None:
        """Use the folder `root`, which need not exist.

        One that is `installed` must exist, may belong to root, and is only read. Raises PermissionError if
        others own it, can write to it or can replace it, and FileExistsError if it is not empty and not
        marked as a cache.
        """
        self._root, self.installed, self._is_checked = root, installed, False
        self._check()

    @property
    def root(self) -> Path:
        """The path, which is checked until the folder is there: others may make it first."""
        if not self._is_checked:
            self._check()
        return self._root

    def subfolder(self, name: str) -> Path:
        if self.installed:
            raise OSError(errno.EROFS, "this compile cache is only read", str(self.root))
        folder = self.root / name
        if not folder.is_dir():
            make_folder(self._root)
            if not (self.root / _TAG).exists():
                self._mark()
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def things(self, subfolder: str) -> list[Path]:
        """Return the contents of a subfolder with names of the cache's own form."""
        try:
            return [path for path in (self.root / subfolder).iterdir() if re.fullmatch(_OWN, path.name)]
        except FileNotFoundError:
            return []

    @contextmanager
    def lock(self, name: str, patience: float) -> Iterator[None]:
        """Hold a lock across processes. Raises TimeoutError after `patience` seconds."""
        with self._naming_full_disks(), locked(self.subfolder("locks") / name, patience):
            yield

    @contextmanager
    def new(self) -> Iterator[Path]:
        """Create a temporary folder that this process locks, and remove it afterwards."""
        import shutil

        with self.lock("new", _PATIENCE):
            self._sweep()
            folder, lock = make_locked(_NEW, self.subfolder("new"))
        try:
            with self._naming_full_disks():
                yield folder
        finally:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _naming_full_disks(self) -> Iterator[None]:
        """Turn what fails in the block when the disk is full into an OSError that says so."""
        import shutil

        try:
            yield
        except Exception as error:
            full = getattr(error, "errno", 0) == errno.ENOSPC
            if not full and (not self.root.exists() or shutil.disk_usage(self.root).free >= _FULL):
                raise
            raise OSError(errno.ENOSPC, "no space left on device", str(self.root)) from error

    def remove(self, thing: Path) -> bool:
        """Remove an item atomically. Returns False if it does not exist. Mappings of its files stay valid."""
        with self.new() as folder, suppress(FileNotFoundError):
            os.rename(thing, folder / thing.name)
            return True
        return False

    def write_record(self, subfolder: str, name: str, value: object) -> None:
        with self.new() as folder:
            (folder / name).write_text(sealed(json.dumps(value)), encoding="utf-8")
            make_private(folder)
            os.replace(folder / name, self.subfolder(subfolder) / name)

    def let_read(self) -> None:
        """Let every user read the cache, and none but the owner write."""
        own = [self.root / name for name in (_TAG, *_SUBFOLDERS)]
        below = [path for place in own for path in place.rglob("*")]
        for path in (self.root, *filter(Path.exists, own), *below):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def _mark(self) -> None:
        """Make it a cache; the mark appears whole, since others look for it at any time."""
        import tempfile

        file, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=self.root)
        with open(file, "w", encoding="ascii") as tag:
            tag.write(_TAG_TEXT)
        os.replace(name, self.root / _TAG)

    def _sweep(self) -> None:
        """Remove the folders of killed processes, and what is oldest; the caller holds the lock "new"."""
        for path in self.subfolder("new").iterdir():
            if re.fullmatch(_LEFT, path.name):
                with suppress(OSError):  # its writer is alive, or it was removed meanwhile
                    remove_abandoned(path)
        for room in _BOUNDED:
            things = self.things(room)
            if len(things) > _MOST:
                for path in sorted(things, key=_age)[:-_MOST]:
                    with suppress(OSError):  # a lock that is held, or it was removed meanwhile
                        _remove_unlocked(path)

    def _check(self) -> None:
        """Raise PermissionError or FileExistsError if the folder, as far as it exists, cannot be trusted."""
        root = self._root
        check_way(root)
        if not self.installed:
            _check_writable(root)
        try:
            inside = [name for name in os.listdir(root) if not name.startswith(_UNFINISHED)]
        except FileNotFoundError:
            if self.installed:
                raise
            return
        if (inside or self.installed) and not _is_marked(root):
            what = "not" if self.installed else "neither empty nor"
            raise FileExistsError(
                f"{root} is {what} a cache of Pinnace (it has no {_TAG}): name another folder"
            )
        check_owner(root, self.installed)
        for name in {_TAG, *_SUBFOLDERS}.intersection(inside):
            check_owner(root / name, self.installed, follow=False)
        self._is_checked = True


def sealed(body: str) -> str:
    """Return a text with its digest as the first line."""
    return f"{digest(body.encode())}\n{body}"


def unsealed(text: str) -> str | None:
    """Return the text that was sealed; None if it is damaged."""
    seal, _, body = text.partition("\n")
    return body if digest(body.encode()) == seal else None


def read_record(path: Path) -> Any:
    """Return the JSON value of a sealed file; None if there is none or it is damaged."""
    try:
        body = unsealed(path.read_text(encoding="utf-8")) if path.is_file() else None
        return None if body is None else json.loads(body)
    except (OSError, ValueError):
        return None


def make_locked(prefix: str, parent: Path | None = None) -> tuple[Path, int]:
    """Create a temporary folder, and lock it. Returns it and the descriptor of the lock."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def remove_abandoned(folder: Path) -> None:
    """Remove a folder of `make_locked` whose process has ended. Raises OSError if it is still locked."""
    import shutil

    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Create a folder and the missing ones above, all with this mode."""
    if not folder.is_dir():
        make_folder(folder.parent, mode)
        with suppress(FileExistsError):
            folder.mkdir(mode)
            folder.chmod(mode)  # whatever the umask


def make_private(folder: Path) -> None:
    """Remove all permissions of group and others below a folder."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def size_of(*folders: Path) -> int:
    """Return the size of all files below these folders, each inode once."""
    sizes = {}
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            with suppress(FileNotFoundError):  # removed meanwhile
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def check_way(path: Path) -> None:
    """Raise PermissionError if others can replace a folder, or a link on the way to it."""
    with suppress(FileNotFoundError):
        path.stat()  # a loop of links is an error here
    for place in (*reversed(path.parents), path):
        try:
            status = place.lstat()
        except FileNotFoundError:
            return
        if status.st_uid not in (0, os.geteuid()):
            whose = f"belongs to another user (uid {status.st_uid})"
            raise PermissionError(f"{place} {whose}, who could replace {path}")
        if stat.S_ISLNK(status.st_mode):
            check_way(place.parent / os.readlink(place))
        elif _others_write(status) and not status.st_mode & stat.S_ISVTX:
            raise PermissionError(f"other users can write to {place}, and could replace {path}: chmod go-w")


def _check_writable(folder: Path) -> None:
    """Raise PermissionError if a folder, or the one in which it would be created, cannot be written."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(f"{there} cannot be written")


def _others_write(status: os.stat_result) -> bool:
    """Return True if anyone but the owner, and a group that has no other user, can write."""
    of_group = status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid)
    return bool(of_group or status.st_mode & stat.S_IWOTH)


def _is_own_group(group: int) -> bool:
    """Return True for the group that has the user's name, and no other members."""
    import grp
    import pwd

    with suppress(KeyError):
        user, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
        return found.gr_name == user and {user}.issuperset(found.gr_mem)
    return False


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _remove_unlocked(path: Path) -> None:
    """Remove a file. Raises OSError if a process holds it as a lock."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def _is_marked(root: Path) -> bool:
    tag = root / _TAG
    return tag.is_file() and tag.read_bytes()[: len(_TAG_TEXT)] == _TAG_TEXT.encode()


def check_owner(path: Path, installed: bool = False, follow: bool = True) -> os.stat_result:
    """Return the state of a file or folder; root may own what is `installed`.

    Raises PermissionError if others own it or can write to it.
    """
    status = path.stat(follow_symlinks=follow)
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(f"{path} is a symbolic link")
    if status.st_uid != os.geteuid() and not (installed and status.st_uid == 0):
        raise PermissionError(f"{path} belongs to another user (uid {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"other users can write to {path}: chmod go-w")
    return status
