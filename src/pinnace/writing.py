"""Files that Pinnace writes for its user, each beside its place until it is whole."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pinnace.errors import FileWriteError, PinnaceError

_PREFIX = ".pinnace-"
_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")
"""Names of what a process has open, which is written to even if it is a file."""


@contextmanager
def replacing(path: Path, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Give a path of the same name in a new folder beside `path`; what is written there replaces `path`.

    Other files in that folder go beside `path`, those with its suffix last, as they name the others. After an
    error or Ctrl-C nothing is left, and a process that maps an older file keeps its bytes. Raises
    FileWriteError, also for a file that is among `inputs`.
    """
    check_output(path, inputs)
    stream, target = _is_stream(path), followed(path)
    above = None if stream else target.parent
    with _explained(path), TemporaryDirectory(prefix=_PREFIX, dir=above) as new, _explained(path):
        yield Path(new) / target.name
        if stream:
            _copy(Path(new), path)
        else:
            _move(Path(new), target, inputs)


def check_output(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise FileWriteError if a file cannot be written, or is one of `inputs`."""
    written = [path] if os.path.exists(path) else []
    touched = written if _is_stream(path) else [*written, followed(path).parent]
    refused = [one for one in touched if not os.access(one, os.W_OK)]
    reason = ""
    if not os.path.isdir(path.parent):
        reason = f"there is no folder {path.parent}"
    elif os.path.isdir(path):
        reason = "it is a folder"
    elif refused:
        reason = f"permission denied for {refused[0]}"
    elif written and any(os.path.exists(one) and os.path.samefile(one, path) for one in inputs):
        reason = "it is read for this: name another file"
    if reason:
        raise FileWriteError(f"{path} cannot be written: {reason}")


def followed(path: Path) -> Path:
    """Return the file that a symbolic link names, so that writing keeps the link."""
    return Path(os.path.realpath(path)) if path.is_symlink() and not _is_stream(path) else path


def _is_stream(path: Path) -> bool:
    """Return True for a terminal, a pipe, a device: what cannot be replaced."""
    special = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    return special or str(path).startswith(_STREAMS)


def _copy(new: Path, path: Path) -> None:
    """Write the only file of a folder to a stream."""
    made, *others = (file for file in new.rglob("*") if file.is_file())
    if others:
        raise FileWriteError(f"{path} cannot be written: it is no file, and there is more than one to write")
    with made.open("rb") as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)


def _move(new: Path, path: Path, inputs: Iterable[Path]) -> None:
    """Move the files of a folder beside and to `path`, with the modes of those that they replace."""
    files = (file for file in new.rglob("*") if file.is_file())
    moves = [
        (file, path.parent / file.relative_to(new))
        for file in sorted(files, key=lambda file: file.suffix == path.suffix)
    ]
    for _, target in moves:
        target.parent.mkdir(parents=True, exist_ok=True)
        check_output(target, inputs)
    for file, target in moves:
        if target.exists():
            shutil.copymode(target, file)
        file.replace(target)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Make one error, with the name of the file, of those that the block gets when it writes."""
    try:
        yield
    except OSError as error:
        own = error.filename is None or _PREFIX in str(error.filename)
        if isinstance(error, PinnaceError) or not own:
            raise
        # numpy does not tell why it wrote less than it should
        full = error.errno is None and not shutil.disk_usage(path.parent).free
        reason = os.strerror(errno.ENOSPC) if full else error.strerror or str(error)
        raise FileWriteError(f"{path} cannot be written: {reason.lower()}") from None
