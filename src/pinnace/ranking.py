"""Names of classes, and the classes with the highest values of a result."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pinnace.errors import ArgumentValueError
from pinnace.tensors.tensor import Tensor
from pinnace.types import Array

_MOST = 1 << 26
"""Largest number of characters that is read."""


@dataclass(frozen=True)
class Ranked:
    """A class: its name, its number, and the value that a result has for it."""

    label: str
    index: int
    value: float


def labels(
    result: Tensor | Array, names: Sequence[str] | str | os.PathLike[str], top: int = 5
) -> list[list[Ranked]]:
    """Return the `top` classes with the highest values of each row of a result, the highest first.

    `result` is a tensor or an array whose last dimension has a value for each class. `names` are the names of
    the classes in order, or the file that has them, as `pinnace run --labels` takes it: a name per line, or
    in JSON a list, or an object by number ("0", "1", ...).

    Raises ArgumentValueError if there are not as many values as names, or the file cannot be read.
    """
    names = read(names) if isinstance(names, str | os.PathLike) else names
    array = np.asarray(result)
    if not fits(array, names):
        raise ArgumentValueError(
            f"labels: {len(names)} names need as many numbers in the last dimension, not {array.dtype} "
            f"{list(array.shape)}"
        )
    rows = array.reshape(-1, len(names))
    return [[Ranked(names[i], int(i), float(row[i])) for i in row.argsort()[::-1][:top]] for row in rows]


def fits(array: Array, names: Sequence[str]) -> bool:
    """Return True if the last dimension of an array has a number for each name."""
    return bool(names) and array.ndim > 0 and array.dtype.kind in "iufV" and array.shape[-1] == len(names)


def read(path: str | os.PathLike[str]) -> list[str]:
    """Read the names of classes, as `labels` describes them. Raises ArgumentValueError and OSError."""
    with Path(path).open(encoding="utf-8-sig") as file:
        try:
            text = file.read(_MOST)
            if Path(path).suffix != ".json":
                return text.rstrip("\n").splitlines()
            held = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArgumentValueError(f"{path}: cannot be read as labels: {error}") from None
    if isinstance(held, dict):
        held = [held.get(str(i)) for i in range(len(held))]
    if not isinstance(held, list) or not all(isinstance(one, str | int | float) for one in held):
        raise ArgumentValueError(
            f'{path}: cannot be read as labels: JSON has a list of names, as in ["cat", "dog"], or an '
            'object by number, as in {"0": "cat", "1": "dog"}'
        )
    return list(map(str, held))
