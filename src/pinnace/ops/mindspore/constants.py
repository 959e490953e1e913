"""Tensors that are known now: windows of signal processing, indices of triangles, powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.room import room, span
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Value


def _given(op: Builder, array: npt.NDArray[np.generic], otherwise: ir.DataType) -> Tensor:
    """A constant in the type that the file declares."""
    declared = op.declared[0] if op.declared else None
    return op.constant(array, (otherwise if declared is None else declared.dtype).numpy())


def _angles(length: int, periodic: bool) -> npt.NDArray[np.floating[Any]]:
    """Parts of a full turn, one for each place of a window."""
    return np.arange(span(length)) * (2 * np.pi / max(length if periodic else length - 1, 1))


@primitive("BartlettWindow", unused="dtype max_length")
def _bartlett_window(op: Builder, window_length: int, *, periodic: bool = True) -> Value:
    """A constant."""
    part = _angles(window_length, periodic) / (2 * math.pi)
    return _given(op, 1 - np.abs(2 * part - 1), ir.DataType.FLOAT)


@primitive("BlackmanWindow", unused="dtype max_length")
def _blackman_window(op: Builder, window_length: int, *, periodic: bool = True) -> Value:
    """A constant."""
    turn = _angles(window_length, periodic)
    return _given(op, 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn), ir.DataType.FLOAT)


@primitive("HammingWindow", unused="dtype")
def _hamming_window(
    op: Builder, length: int, *, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46
) -> Value:
    """A constant."""
    return _given(op, alpha - beta * np.cos(_angles(length, periodic)), ir.DataType.FLOAT)


@primitive("LogSpace", unused="dtype")
def _log_space(op: Builder, start: float, end: float, *, steps: int = 10, base: int = 10) -> Value:
    """A constant."""
    return _given(op, np.power(float(base), np.linspace(start, end, span(steps))), ir.DataType.FLOAT)


@primitives({"TrilIndices": np.tril_indices, "TriuIndices": np.triu_indices}, unused="dtype")
def triangle(
    op: Builder, places: Callable[[int, int, int], Any], *, row: int, col: int, offset: int = 0
) -> Value:
    """A constant."""
    room(row, col)
    return _given(op, np.stack(places(row, offset, col)), ir.DataType.INT32)
