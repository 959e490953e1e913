"""Tensors that are known now: windows of signal processing, indices of triangles, powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.room import room, span
from pinnace.ops.table import Tensor, primitives
from pinnace.ops.values import Value


@function
def _given(b: Builder, array: npt.NDArray[np.generic], otherwise: ir.DataType) -> Tensor:
    """A constant in the type that the file declares."""
    declared = b.declared[0] if b.declared else None
    return b.constant(array, (otherwise if declared is None else declared.dtype).numpy())


def _angles(length: int, periodic: bool) -> npt.NDArray[np.floating[Any]]:
    """Parts of a full turn, one for each place of a window."""
    return np.arange(span(length)) * (2 * np.pi / max(length if periodic else length - 1, 1))


formulas(
    __name__,
    """
    BartlettWindow; dtype max_length: window_length: int, *, periodic: bool = True ->
        # A constant.
        part = _angles(window_length, periodic) / (2 * pi)
        given(1 - np.abs(2 * part - 1), FLOAT)
    BlackmanWindow; dtype max_length: window_length: int, *, periodic: bool = True ->
        # A constant.
        turn = _angles(window_length, periodic)
        given(0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn), FLOAT)
    HammingWindow; dtype: length: int, *, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46 ->
        # A constant.
        given(alpha - beta * np.cos(_angles(length, periodic)), FLOAT)
    LogSpace; dtype: start: float, end: float, *, steps: int = 10, base: int = 10 ->
        # A constant.
        given(np.power(float(base), np.linspace(start, end, span(steps))), FLOAT)
    """,
)


@primitives({"TrilIndices": np.tril_indices, "TriuIndices": np.triu_indices}, unused="dtype")
def triangle(
    b: Builder, places: Callable[[int, int, int], Any], *, row: int, col: int, offset: int = 0
) -> Value:
    """A constant."""
    room(row, col)
    return _given(b, np.stack(places(row, offset, col)), ir.DataType.INT32)
