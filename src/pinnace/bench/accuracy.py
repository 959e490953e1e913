"""How far outputs are from what they should be, as the benchmark tool of MindSpore Lite measures it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pinnace.errors import DataMismatchError

Array = npt.NDArray[Any]

_RELATIVE, _ABSOLUTE = 1e-5, 1e-8  # what differs by less is the same
_NOTHING = float(np.finfo(np.float32).eps)  # a wanted value below this is 0
_ANYTHING = 1e-5  # an error below this beside a wanted 0 is none


@dataclass(frozen=True)
class Closeness:
    """How close one output is to its reference.

    `relative_error` is in percent. `cosine` is what MindSpore Lite calls the cosine distance, and is the
    cosine of the angle between the two: 1 where they point the same way.
    """

    name: str
    relative_error: float
    cosine: float


def compare(outputs: Mapping[str, Array], references: Mapping[str, Array]) -> list[Closeness]:
    """How close each output that has a reference is to it; DataMismatchError where shapes differ."""
    return [_compare(name, outputs[name], reference) for name, reference in references.items()]


def mean_relative_error(outputs: Sequence[Closeness]) -> float:
    """In percent, over outputs."""
    return float(np.mean([output.relative_error for output in outputs]))


def mean_cosine(outputs: Sequence[Closeness]) -> float:
    """Over outputs."""
    return float(np.mean([output.cosine for output in outputs]))


def _compare(name: str, output: Array, reference: Array) -> Closeness:
    if output.shape != reference.shape:
        raise DataMismatchError(
            f"output {name!r} has shape {list(output.shape)}, and its reference {list(reference.shape)}"
        )
    try:
        got, want = output.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    except ValueError:
        raise DataMismatchError(f"output {name!r} is of text: only numbers have an error") from None
    return Closeness(name, 100 * relative_error(got, want), cosine(got, want))


def relative_error(got: npt.NDArray[np.float64], want: npt.NDArray[np.float64]) -> float:
    """The mean of |got - want| / |want| over the values that differ, 0 where none does.

    Values within 1e-8 + 1e-5 |want| of each other do not differ; where 0 is wanted the error is |got|, and
    one up to 1e-5 does not count. A value that is not finite makes the result infinite, since the tool
    refuses such outputs. Source: the tool's public source, `tools/benchmark/benchmark_base.h`.
    """
    if not np.isfinite(got).all():
        return float("inf")
    error, size = np.abs(got - want), np.abs(want)
    zero = size < _NOTHING
    differs = (error > _ABSOLUTE + _RELATIVE * size) & ~(zero & (error <= _ANYTHING))
    if not differs.any():
        return 0.0
    return float(np.mean((error / np.where(zero, 1.0, size))[differs]))


def cosine(got: npt.NDArray[np.float64], want: npt.NDArray[np.float64]) -> float:
    """The cosine of the angle between two arrays; of zeros with zeros 1, of zeros with others 0.

    NaN where a value is not finite.
    """
    lengths = float(np.linalg.norm(got)), float(np.linalg.norm(want))
    if 0 in lengths:
        return float(lengths[0] == lengths[1])
    return float(got / lengths[0] @ (want / lengths[1]))
