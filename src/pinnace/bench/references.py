"""Files with the expected outputs of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from pinnace.errors import ArgumentValueError
from pinnace.types import Array


def read(path: Path) -> dict[str, Array]:
    """Read a reference file: .npz, .npy (one array, named ""), or else calibration text.

    Raises ArgumentValueError if it cannot be read.
    """
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        if path.suffix == ".npy":
            return {"": np.load(path, allow_pickle=False)}
        return calibration(path.read_text(encoding="utf-8"))
    except (OSError, EOFError, ValueError) as error:
        raise ArgumentValueError(f"{path}: cannot be read as a reference: {error}") from error


def calibration(text: str) -> dict[str, Array]:
    """Parse the text format of `benchmarkDataFile` of MindSpore Lite's benchmark tool.

    Two lines for each output: "name number-of-dimensions dimension ...", then its values in row-major order;
    here the values may span several lines. Source: "Benchmark Tool" of MindSpore Lite's documentation. Raises
    ValueError with the line of a syntax error.
    """
    lines = enumerate(text.splitlines(), 1)
    arrays: dict[str, Array] = {}
    for number, line in lines:
        if line.strip():
            name, shape = _header(number, line)
            if name in arrays:
                raise ValueError(f"line {number}: {name!r} is given twice")
            arrays[name] = _values(name, shape, number, lines)
    return arrays


def assign(references: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """Map references to outputs: by name if all names are outputs', else by order.

    Raises ArgumentValueError if neither fits.
    """
    if references and set(references) <= set(names):
        return dict(references)
    if len(references) == len(names):
        return dict(zip(names, references.values(), strict=True))
    raise ArgumentValueError(
        f"the reference has {_listed(references)}, but the outputs are {_listed(names)}: use the same names, "
        "or as many arrays in the same order"
    )


def _header(number: int, line: str) -> tuple[str, tuple[int, ...]]:
    name, *numbers = line.split()
    try:
        count, *shape = map(int, numbers)
    except ValueError:
        count, shape = -1, []
    if count != len(shape) or any(size < 0 for size in shape):
        raise ValueError(
            f'line {number}: expected "name number-of-dimensions dimension ...", as in "prob 2 1 1000", '
            f"but found {line[:40]!r}"
        )
    return name, tuple(shape)


def _values(name: str, shape: tuple[int, ...], header: int, lines: Iterator[tuple[int, str]]) -> Array:
    wanted = int(np.prod(shape, dtype=object))
    found: list[float] = []
    while len(found) < wanted:
        number, line = next(lines, (0, ""))
        if not number:
            raise ValueError(f"line {header}: expected {wanted} values of {name!r}, but found {len(found)}")
        try:
            found.extend(map(float, islice(line.split(), wanted - len(found) + 1)))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if len(found) > wanted:
            raise ValueError(f"line {number}: expected {wanted} values of {name!r}, but found more")
    return np.array(found, np.float64).reshape(shape)


def _listed(names: Sequence[str] | Mapping[str, Array]) -> str:
    return ", ".join(map(repr, names)) or "nothing"
