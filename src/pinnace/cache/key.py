"""Keys of compiled models: digests of everything that decides what they compute, and how."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.cache import known
from pinnace.machine.processor import identity
from pinnace.options.target import Target
from pinnace.weights.digest import digest
from pinnace.weights.source import Source

if TYPE_CHECKING:
    from pinnace.cache.store import Store

_PACKAGES = (
    "distributed", "engines", "formats", "graph", "lowering", "machine", "ops", "quantization", "weights",
)  # fmt: skip
"""The packages of Pinnace that affect the result of a build."""


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


def key_of(
    whole: str,
    engine: str,
    target: Target,
    variable: Iterable[str],
    plan: Mapping[str, str],
    shapes: Sequence[tuple[int, ...]] = (),
    store: Store | None = None,
) -> str:
    """Return the key of a model (`whole`, from `whole_of`) compiled by an engine for a target.

    `variable` are the exchangeable weights, on whose values nothing depends. `plan` maps node names to
    element types; `shapes` are those of the inputs if they are not the file's. Threads and cores are not part
    of the key, as they are set on loading; nor is how the engine was chosen. `store` is for `code`.
    """
    made_for = (engine, target.device, target.precision, identity(), *sorted(variable))
    if plan:
        made_for += ("", *(word for item in sorted(plan.items()) for word in item))
    made_for += tuple(filter(None, (target.input_shape, target.output_type, target.form)))
    if shapes:
        made_for += ("\n", repr(shapes))
    return digest("\0".join((whole, *made_for, code(store))).encode())


@cache
def code(store: Store | None) -> str:
    """Return a digest of the source code that affects builds; `store`, if there is one, remembers it."""
    root = Path(__file__).parents[1]
    files = sorted(entry.path for package in _PACKAGES for entry in _files(root / package))
    folders = {os.path.dirname(file) for file in files}
    states = [os.stat(place) for place in (str(root), *folders, *files)]
    times = max(s.st_mtime_ns for s in states), max(s.st_ctime_ns for s in states)
    state = states[0].st_dev, states[0].st_ino, sum(s.st_size for s in states), *times
    found = known.find(store, state) if store else None
    if found is None:
        found = digest(b"\0".join(Path(file).read_bytes() for file in files))
        if store:
            known.keep(store, state, found)
    return found


def _files(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".json")):
                yield entry
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)
