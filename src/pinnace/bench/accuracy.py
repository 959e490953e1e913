"""Errors of outputs against references, computed as the benchmark tool of MindSpore Lite does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pinnace.errors import DataMismatchError
from pinnace.quantising.likeness import cosine
from pinnace.types import Array

_RELATIVE, _ABSOLUTE = 1e-5, 1e-8  # smaller differences count as equal
_NOTHING = float(np.finfo(np.float32).eps)  # smaller reference values count as 0
_ANYTHING = 1e-5  # smaller errors against a reference of 0 do not count


@dataclass(frozen=True)
class Closeness:
    """Similarity of one output to its reference.

    `relative_error` is in percent. `cosine`, which MindSpore Lite calls the cosine distance, is the cosine of
    the angle between the two: 1 if they have the same direction.
    """

    name: str
    relative_error: float
    cosine: float


def compare(outputs: Mapping[str, Array], references: Mapping[str, Array]) -> list[Closeness]:
    """Compare each output that has a reference. Raises DataMismatchError if shapes differ."""
    return [_compare(name, outputs[name], reference) for name, reference in references.items()]


def mean_relative_error(outputs: Sequence[Closeness]) -> float:
    """Mean over the outputs, in percent."""
    return float(np.mean([output.relative_error for output in outputs]))


def mean_cosine(outputs: Sequence[Closeness]) -> float:
    """Mean over the outputs."""
    return float(np.mean([output.cosine for output in outputs]))


def _compare(name: str, output: Array, reference: Array) -> Closeness:
    if output.shape != reference.shape:
        raise DataMismatchError(
            f"output {name!r} has shape {list(output.shape)}, and its reference {list(reference.shape)}"
        )
    try:
        got, want = output.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    except ValueError:
        raise DataMismatchError(f"output {name!r} contains text, for which no error is defined") from None
    return Closeness(name, 100 * relative_error(got, want), cosine(got, want))


def relative_error(got: npt.NDArray[np.float64], want: npt.NDArray[np.float64]) -> float:
    """Mean of |got - want| / |want| over the values that differ; 0 if none does.

    Values within 1e-8 + 1e-5 |want| of each other do not differ. Where the reference is 0 the error is |got|,
    and up to 1e-5 does not count. A value that is not finite makes the result infinite, since the tool
    rejects such outputs. Source: the tool's public source, `tools/benchmark/benchmark_base.h`.
    """
    if not np.isfinite(got).all():
        return float("inf")
    error, size = np.abs(got - want), np.abs(want)
    zero = size < _NOTHING
    differs = (error > _ABSOLUTE + _RELATIVE * size) & ~(zero & (error <= _ANYTHING))
    if not differs.any():
        return 0.0
    return float(np.mean((error / np.where(zero, 1.0, size))[differs]))
