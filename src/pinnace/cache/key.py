"""What a compiled model is filed under: everything that decides what it computes, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from pinnace.machine.processor import identity
from pinnace.options.target import Target
from pinnace.weights.digest import digest
from pinnace.weights.source import Source

_ROOMS = ("compiler", "distributed", "engines", "formats", "machine", "ops", "weights")
"""The parts of Pinnace that have a say in what a model becomes."""


def content_of(source: Source) -> str:
    """A name for the content of a model file, without the files that it refers to."""
    name = digest(source.data)
    source.unload()  # else all that was read would count as ours
    return name


def whole_of(content: str, source: Source, files: Iterable[str]) -> str:
    """A name for a model: its file (`content`) and the `files` beside it.

    Raises ModelFormatError where a file is missing.
    """
    beside = [part for file in sorted(files) for part in (file, digest(source.bytes_of(file)))]
    return digest("\0".join((content, *beside)).encode())


def key_of(
    whole: str,
    engine: str,
    target: Target,
    variable: Iterable[str],
    plan: Mapping[str, str],
    shapes: Sequence[tuple[int, ...]] = (),
) -> str:
    """A name for a model, as `whole_of` names it, compiled by an engine for a target.

    `variable` are the weights that may be exchanged: nothing rests on their values. `plan` gives element
    types of nodes by their names; `shapes` are those of the inputs, where they are not the file's. Threads
    and cores are not part of it: they are set when a model is loaded. Nor is what chose the engine.
    """
    made_for = (engine, target.device, target.precision, identity(), *sorted(variable))
    if plan:
        made_for += ("", *(word for item in sorted(plan.items()) for word in item))
    made_for += tuple(filter(None, (target.input_shape, target.output_type)))
    if shapes:
        made_for += ("\n", repr(shapes))
    return digest("\0".join((whole, *made_for, code())).encode())


@cache
def code() -> str:
    """A name for this version of Pinnace, which changes with every line of what compiles models."""
    root = Path(__file__).parents[1]
    found = (file for room in _ROOMS for file in (root / room).rglob("*"))
    files = sorted(file for file in found if file.suffix in (".py", ".json"))
    return digest(b"\0".join(file.read_bytes() for file in files))
