"""Signals of real numbers: cosine transforms, and the order of frequencies.

MindSpore computes cosine transforms of type 2, and 3 for the inverse, of orthonormal scale alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room, span
from pinnace.ops.mindspore.array import as_declared, padded, roll
from pinnace.ops.mindspore.math import floating
from pinnace.ops.table import Dtype, Ints, Tensor, primitive, primitives
from pinnace.ops.values import FLOAT, Value


def _cosines(size: int) -> npt.NDArray[np.floating[Any]]:
    """The orthonormal matrix of the transform: a row for each frequency."""
    room(size, size)
    frequency = np.arange(size).reshape(size, 1)
    turn = np.pi * frequency * (2 * np.arange(size) + 1) / (2 * size)
    return np.asarray(np.cos(turn) * np.sqrt(np.where(frequency == 0, 1, 2) / size))


def _transformed(op: Builder, x: Tensor, size: int | None, axis: int, inverse: bool) -> Tensor:
    axis = op.axis(axis, x)
    own = op.dim(x, axis)
    if not isinstance(own, int):
        raise Unsupported("needs the dimension that it transforms fixed")
    size = own if size is None else size
    if size < own:
        x = op.Slice(x, [0], [size], [axis])
    elif size > own:
        x = padded(op, x, [(0, size - own if i == axis else 0) for i in range(op.rank(x))], "constant")
    matrix = _cosines(size) if inverse else _cosines(size).T
    last = [i for i in range(op.rank(x)) if i != axis] + [axis]
    result = op.MatMul(op.transpose(x, last), op.constant(matrix, op.dtype(x).numpy()))
    return op.transpose(result, [last.index(i) for i in range(len(last))])


def _real(op: Builder, x: Tensor) -> Tensor:
    """`x` in the type of the result: that of float16 is float32."""
    x = floating(op, x)
    return op.cast(x, op.result(x))


# MindSpore knows but one norm, and one type, which the signature has.


@primitives({"FFTShift": False, "IFFTShift": True})
def shift(op: Builder, back: bool, x: Tensor, dim: Ints | None = None) -> Value:
    axes = [op.axis(d, x) for d in (dim if dim is not None else range(op.rank(x)))]
    sizes = [op.static_shape(x)[axis] for axis in axes]
    return roll(op, x, tuple(-(n // 2) if back else n // 2 for n in sizes), tuple(axes))


@primitives({"DCT": False, "IDCT": True}, unused="norm")
def _dct(op: Builder, inverse: bool, x: Tensor, *, n: int | None = None, axis: int = -1) -> Value:
    """MatMul with a matrix of cosines."""
    return _transformed(op, _real(op, x), n, axis, inverse)


@primitives({"DCTN": False, "IDCTN": True}, unused="norm")
def _dctn(op: Builder, inverse: bool, x: Tensor, *, s: Ints | None = None, axes: Ints | None = None) -> Value:
    x = _real(op, x)
    axes = axes or tuple(range(op.rank(x) - len(s) if s else 0, op.rank(x)))
    for axis, size in zip(axes, s or [None] * len(axes), strict=True):
        x = _transformed(op, x, size, axis, inverse)
    return x


@primitives({"FFTFreq": np.fft.fftfreq, "RFFTFreq": np.fft.rfftfreq})
def _fft_freq(
    op: Builder, function: Callable[[int, float], Any], n: int, d: float = 1.0, dtype: Dtype | None = None
) -> Value:
    return op.constant(function(n, d), (dtype or FLOAT).numpy())


def _angles(length: int, periodic: bool) -> npt.NDArray[np.floating[Any]]:
    """Parts of a full turn, one for each place of a window."""
    return np.arange(span(length)) * (2 * np.pi / max(length if periodic else length - 1, 1))


@primitives(
    {
        "BartlettWindow": lambda turn: 1 - np.abs(turn / np.pi - 1),
        "BlackmanWindow": lambda turn: 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn),
    },
    unused="dtype max_length",
)
def _window(
    op: Builder, function: Callable[[Any], Any], window_length: int, *, periodic: bool = True
) -> Value:
    """A constant."""
    return as_declared(op, function(_angles(window_length, periodic)), FLOAT)


@primitive("HammingWindow", unused="dtype")
def _hamming_window(
    op: Builder, length: int, *, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46
) -> Value:
    return as_declared(op, alpha - beta * np.cos(_angles(length, periodic)), FLOAT)
