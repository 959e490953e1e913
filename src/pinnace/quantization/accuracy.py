"""Accuracy of outputs: likeness to references, and the errors that MindSpore Lite's benchmark tool shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pinnace.errors import DataMismatchError
from pinnace.types import Array

Samples = Sequence[Sequence[Array]]

_RELATIVE, _ABSOLUTE = 1e-5, 1e-8  # smaller differences count as equal
_NOTHING = float(np.finfo(np.float32).eps)  # smaller reference values count as 0
_ANYTHING = 1e-5  # smaller errors against a reference of 0 do not count


@dataclass(frozen=True)
class Likeness:
    """The largest error and smallest cosine of an output, and the part of rows with the same largest element.

    Rows are those of the last dimension of the first output.
    """

    error: float
    cosine: float
    same_top: float

    def __str__(self) -> str:
        return f"error {self.error:.2g}, cosine {self.cosine:.6f}, same largest {self.same_top:.1%}"


def closeness(got: Samples, wanted: Samples) -> Likeness:
    """Compare the outputs of all samples with references."""
    samples = list(zip(got, wanted, strict=True))
    pairs = [pair for ours, theirs in samples for pair in zip(ours, theirs, strict=True)]
    floats = [[x.astype(np.float64).ravel() for x in pair] for pair in pairs if pair[1].dtype.kind in "fV"]
    tops = [a == b for ours, theirs in samples for a, b in _tops(ours[0], theirs[0])]
    return Likeness(
        error=max(deviation(ours, theirs) for ours, theirs in samples),
        cosine=min((cosine(a, b) for a, b in floats), default=1.0),
        same_top=float(np.mean(tops)) if tops else 1.0,
    )


def _tops(got: Array, wanted: Array) -> Iterator[tuple[int, int]]:
    """Return the places of the largest element of each row."""
    if wanted.ndim and wanted.size and wanted.dtype.kind in "fiu":
        rows = wanted.shape[-1]
        yield from zip(got.reshape(-1, rows).argmax(1), wanted.reshape(-1, rows).argmax(1), strict=True)


def deviation(got: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Return the largest relative error of an output: |got - wanted| / |wanted|, in the Euclidean norm.

    For zeros it is |got|. It is infinite if shapes differ, if texts differ, or if an infinity or NaN does not
    match.
    """
    return max((_error(a, b) for a, b in zip(got, wanted, strict=True)), default=0.0)


def cosine(got: npt.NDArray[np.float64], want: npt.NDArray[np.float64]) -> float:
    """Cosine of the angle between two arrays; 1 for two zeros, 0 if one is zero, NaN if a value is not
    finite.
    """
    lengths = float(np.linalg.norm(got)), float(np.linalg.norm(want))
    if 0 in lengths:
        return float(lengths[0] == lengths[1])
    return float(got / lengths[0] @ (want / lengths[1]))


def _error(got: Array, wanted: Array) -> float:
    if got.shape != wanted.shape:
        return float("inf")
    if got.dtype.kind not in "biufV":  # text
        return 0.0 if np.array_equal(got, wanted) else float("inf")
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    distance = float(np.linalg.norm(a[finite] - b[finite]))
    error = distance / (float(np.linalg.norm(b[finite])) or 1.0)
    return error if np.isfinite(error) else float("inf")


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
    and up to 1e-5 does not count. A value that is not finite makes the result infinite: the tool rejects such
    outputs, and none is near such a reference. Source: the tool's public source,
    `tools/benchmark/benchmark_base.h`.
    """
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return float("inf")
    error, size = np.abs(got - want), np.abs(want)
    zero = size < _NOTHING
    differs = (error > _ABSOLUTE + _RELATIVE * size) & ~(zero & (error <= _ANYTHING))
    if not differs.any():
        return 0.0
    return float(np.mean((error / np.where(zero, 1.0, size))[differs]))
