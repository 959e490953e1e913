"""Triton's extension "classification": the classes of an output with the highest values, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pinnace.server.failures import RequestError
from pinnace.types import Array, DataType

_MOST = 1 << 16
"""Classes of an output, each of which is a text that Python makes."""


def classified(name: str, array: Array, count: int, labels: Sequence[str], batched: bool) -> Array:
    """Return `value:index` or `value:index:label` of the `count` highest values of an output.

    The result has a row for each one of a batch; without batches all values are one row, as in Triton. Raises
    RequestError for outputs of other things than numbers, and for very many classes.
    """
    if DataType.from_numpy(array.dtype) in (DataType.BOOL, DataType.STRING):
        raise RequestError(f"output {name!r} has no numbers: parameter classification needs them")
    values = array if array.dtype.kind in "iu" else array.astype(np.float64)
    rows = values.reshape((len(values), math.prod(values.shape[1:])) if batched else (1, values.size))
    count = min(count, rows.shape[1])
    if len(rows) * max(count, 1) > _MOST:
        raise RequestError(f"output {name!r}: parameter classification gives at most {_MOST} classes")
    made = np.empty((len(rows), count), object)
    for place, row in zip(made, rows, strict=True):
        place[:] = [_text(row, index, labels) for index in _highest(row, count)]
    return made if batched else made[0]


def _highest(row: Array, count: int) -> list[int]:
    """Return the places of the highest values, the first one first if they are equal."""
    order: list[int] = (len(row) - 1 - np.argsort(row[::-1], kind="stable")[::-1][:count]).tolist()
    return order


def _text(row: Array, index: int, labels: Sequence[str]) -> str:
    value = f"{row[index]:d}" if row.dtype.kind in "iu" else f"{row[index]:f}"  # as C++'s to_string
    return ":".join([value, str(index), *labels[index : index + 1]])
