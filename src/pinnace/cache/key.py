"""Keys of compiled models: digests of everything that decides what they compute, and how.

The store has digests of files that were read before: a note for each size of a file has the states of files
of this size and their digests. A file in the same state, in the same boot of the machine, has the same
content: no program can set the time of the last change of an inode. But writing through a mapping sets the
times only if the page is not dirty yet. So a file that changed within the last minute, in which the kernel
writes its pages to the disk, is not noted; nor is one on a tmpfs, whose pages stay dirty.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.cache.entry import boot
from pinnace.machine.cgroup import is_memory
from pinnace.machine.processor import identity
from pinnace.options.target import Target
from pinnace.shapes import Shape
from pinnace.weights.digest import digest
from pinnace.weights.source import Source

if TYPE_CHECKING:
    from pinnace.cache.store import Store

_PACKAGES = (
    "distributed", "engines", "formats", "graph", "lowering", "machine", "ops", "quantization", "weights",
)  # fmt: skip
"""The packages of Pinnace that affect the result of a build."""


_KNOWN = "known"
"""The subfolder of digests by the sizes of files."""
_MOST = 32  # files of one size
_SETTLED = 60_000_000_000  # nanoseconds; twice the kernel's dirty_expire_centisecs

State = tuple[int, ...]


def content_of(source: Source, file: str = "") -> str:
    """Return the digest of a file of a model, "" for the model file without those that it refers to.

    Raises ModelFormatError if the file is missing.
    """
    name = digest(source.bytes_of(file))
    source.unload()  # otherwise its pages count as memory of this process
    return name


def whole_of(content: str, beside: Mapping[str, str]) -> str:
    """Return the digest of a model: that of its file (`content`), and those of the files `beside` it."""
    parts = [part for item in sorted(beside.items()) for part in item]
    return digest("\0".join((content, *parts)).encode())


MadeFor = tuple[str, Target, Collection[str], Mapping[str, str], tuple[Shape, ...]]
"""The engine, the target, the exchangeable weights, on whose values nothing depends, the element types by
node name, and the shapes of the inputs, () for those of the file."""


def key_of(whole: str, made_for: MadeFor, store: Store | None = None) -> str:
    """Return the key of a model (`whole`, from `whole_of`) compiled by an engine for a target.

    Threads and cores are not part of the key, as they are set on loading; nor is how the engine was chosen.
    `store` is for `code`.
    """
    engine, target, variable, plan, shapes = made_for
    words = (engine, target.device, target.precision, identity(), *sorted(variable))
    if plan:
        words += ("", *(word for item in sorted(plan.items()) for word in item))
    words += tuple(filter(None, (target.input_shape, target.output_type, target.form)))
    if shapes:
        words += ("\n", repr(shapes))
    return digest("\0".join((whole, *words, code(store))).encode())


_code = ""


def code(store: Store | None) -> str:
    """Return a digest of the source code that affects builds; `store`, if there is one, remembers it."""
    global _code
    _code = _code or _digest_of_code(store)
    return _code


def _digest_of_code(store: Store | None) -> str:
    root = Path(__file__).parents[1]
    files = sorted(entry.path for package in _PACKAGES for entry in _files(root / package))
    folders = {os.path.dirname(file) for file in files}
    states = [os.stat(place) for place in (str(root), *folders, *files)]
    times = max(s.st_mtime_ns for s in states), max(s.st_ctime_ns for s in states)
    state = states[0].st_dev, states[0].st_ino, sum(s.st_size for s in states), *times
    found = known_digest(store, state) if store else None
    if found is None:
        found = digest(b"\0".join(Path(file).read_bytes() for file in files))
        if store:
            keep_digest(store, state, found)
    return found


def _files(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".json")):
                yield entry
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)


def has_size(store: Store, size: int) -> bool:
    return any(path.exists() for path in store.places(_KNOWN, _size_name(size)))


def known_digest(store: Store, state: State) -> str | None:
    """Return the digest of the file in this state (`Source.state`); None if it is not known."""
    found: str | None = _known(store, state[2]).get(_state_key(state))
    return found


def keep_digest(store: Store, state: State, content: str) -> None:
    """Note the digest of a file that was in this state before and after it was read."""
    if time.time_ns() - max(state[3:]) < _SETTLED or is_memory(state[0]):
        return
    known = {**_known(store, state[2]), _state_key(state): content}
    with suppress(OSError):
        store.folder.write_record(_KNOWN, _size_name(state[2]), dict(list(known.items())[-_MOST:]))


def keep_size(store: Store, size: int) -> None:
    if not has_size(store, size):
        with suppress(OSError):
            store.folder.write_record(_KNOWN, _size_name(size), {})


def _known(store: Store, size: int) -> dict[str, str]:
    return store.record(_KNOWN, _size_name(size)) or {}


def _size_name(size: int) -> str:
    return digest(str(size).encode())


def _state_key(state: State) -> str:
    return " ".join((boot(), *map(str, state)))
