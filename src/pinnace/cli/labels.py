"""Names of classes, and the classes with the highest values of an output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinnace.cli.console import table
from pinnace.errors import ArgumentValueError
from pinnace.records import dataclass
from pinnace.types import Array

if TYPE_CHECKING:
    from pinnace import Tensor

TOP = 5
"""Number of classes shown."""
_MOST = 1 << 26
"""Largest number of characters that is read."""


@dataclass(frozen=True)
class Ranked:
    """A class, and the value that an output has for it."""

    label: str
    index: int
    value: float


def read(path: Path) -> list[str]:
    """Read the names of classes: a line each, or in JSON a list, or an object by number ("0", "1", ...).

    Raises ArgumentValueError and OSError.
    """
    with path.open(encoding="utf-8") as file:
        try:
            text = file.read(_MOST)
            if path.suffix != ".json":
                return text.splitlines()
            held = json.loads(text)
            return list(
                map(str, held if isinstance(held, list) else (held[str(i)] for i in range(len(held))))
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ArgumentValueError(
                f"{path}: cannot be read as labels: {error or type(error).__name__}"
            ) from None


def best(outputs: Sequence[Tensor], labels: Sequence[str]) -> dict[str, list[list[Ranked]]]:
    """Return the highest classes of each row of the outputs whose last dimension has a value for each label.

    Raises ArgumentValueError if there is no such output.
    """
    arrays = {output.name: output.get_data_to_numpy() for output in outputs}
    found = {
        name: [ranked(row, labels) for row in array.reshape(-1, len(labels))]
        for name, array in arrays.items()
        if array.ndim and array.dtype.kind in "iufV" and labels and array.shape[-1] == len(labels)
    }
    if not found:
        shapes = ", ".join(f"{name!r} {list(array.shape)}" for name, array in arrays.items())
        raise ArgumentValueError(
            f"--labels: no output has {len(labels)} values in its last dimension, one per label: {shapes}"
        )
    return found


def ranked(values: Array, labels: Sequence[str]) -> list[Ranked]:
    """Return the classes with the highest values."""
    return [Ranked(labels[i], int(i), float(values[i])) for i in values.argsort()[::-1][:TOP]]


def show(found: Mapping[str, Sequence[Sequence[Ranked]]]) -> None:
    """Print a table for each row of each output."""
    for name, rows in found.items():
        for number, row in enumerate(rows):
            title = f"highest of {name}" + (f", row {number}" if len(rows) > 1 else "")
            table(
                title,
                [(one.label, str(one.index), f"{one.value:.5g}") for one in row],
                ("label", "index", "value"),
            )


def as_json(found: Mapping[str, Sequence[Sequence[Ranked]]]) -> dict[str, Any]:
    """Return the classes of each row of each output for JSON, {} for no outputs."""
    best = {name: [[asdict(one) for one in row] for row in rows] for name, rows in found.items()}
    return {"best": best} if best else {}
