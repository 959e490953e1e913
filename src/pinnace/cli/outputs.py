"""Display of outputs: as lines, as JSON, as files, and the classes with their highest values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pinnace.cli.console import fold, plain, table
from pinnace.errors import ArgumentValueError
from pinnace.escaping import shown
from pinnace.ranking import Ranked, fits, labels
from pinnace.types import DataType
from pinnace.writing import replacing

if TYPE_CHECKING:
    from pinnace import Tensor

FIRST_VALUES = 50
"""Number of values shown of an output."""


def show(outputs: Sequence[Tensor]) -> None:
    """Print the two lines that mindspore_lite's examples print of an output, with shape and type between."""
    for output in outputs:
        elements = f"tensor elements num is:{output.element_num}"
        values = " ".join(map(str, output.get_data_to_numpy().flatten()[:FIRST_VALUES]))
        for line in (
            f"tensor's name is:{shown(output.name)} data size is:{output.data_size} {elements}",
            f"tensor's shape is:{list(output.shape)} data type is:{output.dtype.name}",
            f"output data is: {values}",
        ):
            print(fold(plain(line)))


def facts(tensor: Tensor) -> dict[str, Any]:
    """Describe a tensor for JSON; `size` is in bytes."""
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype.name,
        "size": tensor.data_size,
        "elements": tensor.element_num,
    }


def first_values(output: Tensor) -> list[Any]:
    """Return the first values for JSON."""
    return [finite(value) for value in output.get_data_to_numpy().flatten()[:FIRST_VALUES].tolist()]


def finite(value: Any) -> Any:
    """Return NaN and infinities, which JSON lacks, as strings."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


_LONGEST = 250
"""Bytes of a file's name without its suffix."""


def save(folder: Path, outputs: Sequence[Tensor], inputs: Iterable[Path]) -> list[Path]:
    """Write every output as NAME.npy, but over none of `inputs`.

    Characters that file names must not have become _; of a name that is longer than a file's, the rest goes.
    """
    names = [re.sub(r"[^\w.-]", "_", output.name).encode()[:_LONGEST] for output in outputs]
    paths = [folder / f"{name.decode(errors='ignore')}.npy" for name in names]
    if len(set(paths)) < len(paths):
        raise ArgumentValueError(f"--save: two outputs would both be written to the same file of {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(paths[0], inputs) as first:
        for path, output in zip(paths, outputs, strict=True):
            np.save(first.with_name(path.name), _storable(output))
    return paths


def _storable(output: Tensor) -> npt.NDArray[Any]:
    """Convert the values to a type that .npy files can hold without pickle."""
    array = output.get_data_to_numpy()
    stored = {DataType.STRING: np.str_, DataType.BFLOAT16: np.float32}.get(output.dtype, array.dtype)
    return array.astype(stored, copy=False)


def best_classes(outputs: Sequence[Tensor], names: Sequence[str]) -> dict[str, list[list[Ranked]]]:
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


def show_classes(found: Mapping[str, Sequence[Sequence[Ranked]]]) -> None:
    for name, rows in found.items():
        for number, row in enumerate(rows):
            title = f"highest of {name}" + (f", row {number}" if len(rows) > 1 else "")
            table(
                title,
                [(one.label, str(one.index), f"{one.value:.5g}") for one in row],
                ("label", "index", "value"),
            )


def classes_as_json(found: Mapping[str, Sequence[Sequence[Ranked]]]) -> dict[str, Any]:
    """Return the classes of each row of each output for JSON, {} for no outputs."""
    best = {name: [[asdict(one) for one in row] for row in rows] for name, rows in found.items()}
    return {"best": best} if best else {}
