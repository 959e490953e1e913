"""When two results are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TOLERANCE = {
    # One step is 1.2e-7. Both sides sum in an order of their own, and approximate functions by a few steps;
    # OpenVINO's Softplus is off by 8e-6 near 0.
    "float32": (5e-5, 1e-5),
    # One step is 1e-3. Pinnace computes in float32 and rounds once, MindSpore often.
    "float16": (4e-3, 2e-3),
    # Where onnxruntime has no kernel for float64, a result has float32's precision.
    "float64": (5e-5, 5e-6),
}
"""Relative, and absolute where values are about 1, for each type that is not exact."""


def difference(
    results: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    moved: Sequence[Sequence[np.ndarray]] = (),
    inputs: Sequence[np.ndarray] = (),
) -> str:
    """What is the first thing that differs, in a line; "" where nothing does.

    `moved` are results of MindSpore for inputs one step off: what these change by, rounding may change. Of
    `inputs` in float16 a result in float32 may have the precision of float16.
    """
    half = any(x.dtype == np.float16 for x in inputs)
    if len(results) != len(expected):
        return f"differs: {len(results)} results, not {len(expected)}"
    for i, (got, wanted) in enumerate(zip(results, expected, strict=True)):
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            return f"differs: y{i} is {got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
        same = _same(got, wanted, "float16" if half else wanted.dtype.name)
        for run in moved:
            same |= _allowed(got, wanted, run[i])
        if not same.all():
            place = tuple(int(p) for p in np.argwhere(~np.atleast_1d(same))[0])
            values = f"{np.atleast_1d(got)[place]!r}, not {np.atleast_1d(wanted)[place]!r}"
            return f"differs: y{i}{list(place)} is {values} ({int((~same).sum())} of {same.size})"
    return ""


def _same(got: np.ndarray, wanted: np.ndarray, precision: str) -> np.ndarray:
    if wanted.dtype.name not in TOLERANCE:
        return np.asarray(got == wanted)
    relative, absolute = TOLERANCE[precision]
    with np.errstate(all="ignore"):
        near = np.isclose(got, wanted, rtol=relative, atol=absolute, equal_nan=True)
        signs = (got != 0) | (wanted != 0) | (np.signbit(got) == np.signbit(wanted))
    return np.asarray(near & signs)


def _allowed(got: np.ndarray, wanted: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Where a result is no farther off than ten times what one step of the inputs makes."""
    if moved.shape != wanted.shape or wanted.dtype.kind != "f":
        return np.asarray(moved.shape == wanted.shape and moved != wanted)
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64) for a in (got, wanted, moved)]
        return np.asarray(np.abs(wide[0] - wide[1]) <= 10 * np.abs(wide[2] - wide[1]))
