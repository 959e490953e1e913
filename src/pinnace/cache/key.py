"""Keys of compiled models: digests of everything that decides what they compute, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from pinnace.machine.processor import identity
from pinnace.options.target import Target
from pinnace.weights.digest import digest
from pinnace.weights.source import Source

_PACKAGES = ("compiler", "distributed", "engines", "formats", "machine", "ops", "quantising", "weights")
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
) -> str:
    """Return the key of a model (`whole`, from `whole_of`) compiled by an engine for a target.

    `variable` are the exchangeable weights, on whose values nothing depends. `plan` maps node names to
    element types; `shapes` are those of the inputs if they are not the file's. Threads and cores are not part
    of the key, as they are set on loading; nor is how the engine was chosen.
    """
    made_for = (engine, target.device, target.precision, identity(), *sorted(variable))
    if plan:
        made_for += ("", *(word for item in sorted(plan.items()) for word in item))
    made_for += tuple(filter(None, (target.input_shape, target.output_type, target.form)))
    if engine.startswith("onnxruntime"):
        made_for += tuple(filter(None, (target.gains, target.rules)))
    if shapes:
        made_for += ("\n", repr(shapes))
    return digest("\0".join((whole, *made_for, code())).encode())


@cache
def code() -> str:
    """Return a digest of the source code that affects builds."""
    root = Path(__file__).parents[1]
    found = (file for package in _PACKAGES for file in (root / package).rglob("*"))
    files = sorted(file for file in found if file.suffix in (".py", ".json"))
    return digest(b"\0".join(file.read_bytes() for file in files))
