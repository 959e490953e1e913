"""Display of the classes with the highest values of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pinnace.cli.console import table
from pinnace.errors import ArgumentValueError
from pinnace.ranking import Ranked, fits, labels

if TYPE_CHECKING:
    from pinnace import Tensor


def best(outputs: Sequence[Tensor], names: Sequence[str]) -> dict[str, list[list[Ranked]]]:
    """Return the highest classes of each row of the outputs whose last dimension has a value for each label.

    Raises ArgumentValueError if there is no such output.
    """
    arrays = {output.name: output.get_data_to_numpy() for output in outputs}
    found = {name: labels(array, names) for name, array in arrays.items() if fits(array, names)}
    if not found:
        shapes = ", ".join(f"{name!r} {list(array.shape)}" for name, array in arrays.items())
        raise ArgumentValueError(
            f"--labels: no output has {len(names)} values in its last dimension, one per label: {shapes}"
        )
    return found


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
