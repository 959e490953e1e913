"""Likeness of outputs to references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pinnace.types import Array

Samples = Sequence[Sequence[Array]]


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
