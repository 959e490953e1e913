"""Lowerings of MindSpore's in forms that no golden has, such as free dimensions and scalars, beside numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.ops.applied import results

from pinnace.program import Dialect

RANDOM = np.random.default_rng(12)
X = RANDOM.normal(size=(2, 3, 7, 5)).astype(np.float32)
Y = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
MATRIX, TALL = RANDOM.normal(size=(4, 5)).astype(np.float32), RANDOM.normal(size=(7, 3)).astype(np.float32)
HOLES = np.where(RANDOM.random((3, 5)) < 0.4, np.nan, RANDOM.normal(size=(3, 5))).astype(np.float32)
HOLES[1] = np.nan
SCALAR = np.array(-1.5, np.float32)


def diagonal(x: np.ndarray) -> np.ndarray:
    return np.diag(x.ravel()).reshape(*x.shape, *x.shape)


def filled(x: np.ndarray, number: float, wrap: bool) -> np.ndarray:
    y = x.copy()
    np.fill_diagonal(y, number, wrap)
    return y


def cells(length: int, size: int) -> list[slice]:
    """Where adaptive pooling finds its cells: from the floor of their starts to the ceiling of their ends."""
    return [slice(i * length // size, math.ceil((i + 1) * length / size)) for i in range(size)]


def pooled(x: np.ndarray, sizes: tuple[int, ...], take) -> np.ndarray:
    lead = x.ndim - len(sizes)
    y = np.empty((*x.shape[:lead], *sizes), x.dtype)
    parts = [cells(n, size) for n, size in zip(x.shape[lead:], sizes, strict=True)]
    for place in np.ndindex(sizes):
        cell = x[(..., *(part[i] for part, i in zip(parts, place, strict=True)))]
        y[(..., *place)] = take(cell, tuple(range(lead, x.ndim)))
    return y


def first_of(x: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Places, counted within a channel, of numbers that each channel has once."""
    flat = x.reshape(*x.shape[:2], 1, -1) == best.reshape(*best.shape[:2], -1, 1)
    return flat.argmax(-1).reshape(best.shape)


def middle(x: np.ndarray, axis: int) -> np.ndarray:
    """The lower median."""
    return np.sort(x, axis).take((x.shape[axis] - 1) // 2, axis)


def middle_of_numbers(row: np.ndarray) -> float:
    numbers = np.sort(row[~np.isnan(row)])
    return numbers[(len(numbers) - 1) // 2] if len(numbers) else np.nan


LARGEST = pooled(X, (3, 2), np.max)
CUBE = pooled(X[:, None], (2, 3, 2), np.max)
ANY_SHAPE = [
    ("Diag", [Y[0, :2, :2]], {}, diagonal(Y[0, :2, :2])),
    ("Diagonal", [MATRIX], {}, MATRIX.diagonal()),
    ("Diagonal", [MATRIX, 1], {}, MATRIX.diagonal(1)),
    ("Diagonal", [MATRIX, -2], {}, MATRIX.diagonal(-2)),
    ("Diagonal", [MATRIX, 3, 1, 0], {}, MATRIX.diagonal(3, 1, 0)),
    ("Diagonal", [Y, 1, -1, 0], {}, Y.diagonal(1, -1, 0)),
    ("FillDiagonal", [TALL], {"fill_value": 2.5, "wrap": True}, filled(TALL, 2.5, True)),
    ("FillDiagonal", [TALL], {"fill_value": 2.5}, filled(TALL, 2.5, False)),
    ("FillDiagonal", [TALL.T], {"fill_value": 2.5, "wrap": True}, filled(TALL.T, 2.5, True)),
    ("MatrixDiagV3", [MATRIX, (0,), -1, -1, np.array(7, np.float32)], {},
     np.where(np.eye(5, dtype=bool), MATRIX[:, None], 7)),
    ("Cross", [Y, Y[::-1]], {}, np.cross(Y, Y[::-1], axis=1)),
    ("Cross", [Y, Y[::-1], -2], {}, np.cross(Y, Y[::-1], axis=1)),
    ("Cross", [TALL, TALL[::-1]], {}, np.cross(TALL, TALL[::-1])),
    ("Median", [MATRIX], {"axis": 0}, middle(MATRIX, 0)),
    ("Median", [MATRIX], {"axis": -1, "keep_dims": True}, middle(MATRIX, 1)[:, None]),
    ("Median", [HOLES], {"axis": 1, "ignore_nan": True}, np.array([middle_of_numbers(row) for row in HOLES])),
    ("AdaptiveAvgPool1D", [X[0], (2,)], {}, pooled(X[0], (2,), np.mean)),
    ("AdaptiveAvgPool2D", [X], {"output_size": (3, 2)}, pooled(X, (3, 2), np.mean)),
    ("AdaptiveAvgPool2D", [X], {"output_size": (-1, 4)}, pooled(X, (7, 4), np.mean)),
    ("AdaptiveAvgPool2D", [X], {"output_size": (1, 1)}, pooled(X, (1, 1), np.mean)),
    ("AdaptiveAvgPool3D", [X], {"output_size": (2, 3, 4)}, pooled(X, (2, 3, 4), np.mean)),
    ("AdaptiveAvgPool3D", [X], {"output_size": (1,)}, pooled(X, (1, 1, 1), np.mean)),
    ("AdaptiveMaxPool2D", [X, (3, 2)], {}, LARGEST, first_of(X, LARGEST)),
    ("AdaptiveMaxPool2D", [X, (-1, 2)], {},
     pooled(X, (7, 2), np.max), first_of(X, pooled(X, (7, 2), np.max))),
    ("AdaptiveMaxPool2D", [X, (1, 1)], {},
     X.max((2, 3), keepdims=True), X.reshape(2, 3, -1).argmax(2)[..., None, None]),
    ("AdaptiveMaxPool3D", [X[:, None], (2, 3, 2)], {}, CUBE, first_of(X[:, None], CUBE)),
    ("ReduceStd", [Y, (0, 2)], {}, Y.std((0, 2), ddof=1), Y.mean((0, 2))),
    ("ReduceStd", [Y, (1,), False, True], {}, Y.std(1, keepdims=True), Y.mean(1, keepdims=True)),
    ("Var", [Y, (1, 2), 0], {}, Y.var((1, 2))),
    ("Var", [Y, None, 2], {}, Y.var(ddof=2)),
    ("ReduceMean", [Y, (-1,)], {}, Y.mean(-1)),
    ("FlattenExt", [Y, 1, -1], {}, Y.reshape(2, 12)),
    ("FlattenExt", [Y, 0, 1], {}, Y.reshape(6, 4)),
    ("Squeeze", [Y[:1]], {"axis": (0,)}, Y[0]),
    ("Slice", [Y, (0, 1, 2), (2, 1, -1)], {}, Y[:, 1:2, 2:]),
    ("PixelShuffle", [X[:, :1].repeat(4, 1) * np.arange(4, dtype=np.float32)[:, None, None], 2], {},
     (X[:, 0, :, None, :, None] * np.arange(4, dtype=np.float32).reshape(2, 1, 2)).reshape(2, 1, 14, 10)),
    ("Softmax", [SCALAR], {}, 1.0),
    ("LogSoftmax", [SCALAR], {}, 0.0),
    ("PReLU", [SCALAR, np.array([0.5], np.float32)], {}, -0.75),
    ("FlattenExt", [SCALAR], {}, [-1.5]),
    ("TensorScatterUpdate", [SCALAR, np.array([0]), np.array(3, np.float32)], {}, 3.0),
    ("IndexFill", [SCALAR, 0, np.array([0]), 4.0], {}, 4.0),
    ("MaxDim", [SCALAR, 0], {}, -1.5, 0),
    ("ArgMaxWithValue", [MATRIX], {"axis": 1, "keep_dims": True},
     MATRIX.argmax(1)[:, None], MATRIX.max(1)[:, None]),
    ("SmoothL1Loss", [MATRIX, 2 * MATRIX, 0.0], {}, abs(MATRIX)),
    ("SmoothL1Loss", [MATRIX, 2 * MATRIX, 0.5, "mean"], {},
     np.where(abs(MATRIX) < 0.5, MATRIX**2, abs(MATRIX) - 0.25).mean()),
    ("Sinc", [MATRIX], {}, np.sinc(MATRIX)),
    ("Sinc", [np.array([0.0, 1.0, 0.5], np.float32)], {}, [1, 0, 2 / np.pi]),
    ("Logit", [np.array([0.1, 0.3, 0.7, 0.9], np.float32), 0.2], {},
     [np.log(p / (1 - p)) for p in (0.2, 0.3, 0.7, 0.8)]),
    ("SearchSorted", [np.sort(MATRIX), MATRIX[:, :2]], {},
     (np.sort(MATRIX)[:, None] < MATRIX[:, :2, None]).sum(-1)),
    ("SearchSorted", [np.sort(MATRIX), MATRIX[:, :2]], {"right": True},
     (np.sort(MATRIX)[:, None] <= MATRIX[:, :2, None]).sum(-1)),
]  # fmt: skip


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("case", ANY_SHAPE, ids=lambda case: case[0])
def test_gives_what_its_formula_gives_for_dimensions_that_are(case, free):
    name, given, attributes, *expected = case
    found = results(Dialect.MINDSPORE, name, given, free=free, **attributes)
    for result, value in zip(found, expected, strict=False):
        assert result.shape == np.shape(value)
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)  # sums of some dozen float32


FIXED = [
    ("ReduceAny", [np.zeros((0, 3), np.float32), (0,)], {}, [False] * 3),
    ("ReduceAll", [np.zeros((0, 3), np.float32), (0,)], {}, [True] * 3),
    ("AdaptiveAvgPool2D", [X], {"output_size": (0, 2)}, np.zeros((2, 3, 0, 2))),
    ("AdaptiveAvgPool2D", [(X * 9).astype(np.int32)], {"output_size": (3, 2)},
     np.trunc(pooled((X * 9).astype(np.int32).astype(np.float64), (3, 2), np.mean))),
    ("NanToNum", [np.arange(3)], {}, [0, 1, 2]),
    ("Sinc", [np.array([True])], {}, [0]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "attributes", "expected"), FIXED)
def test_gives_what_its_formula_gives(name, given, attributes, expected):
    (result,) = results(Dialect.MINDSPORE, name, given, **attributes)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize(("first", "second", "wide"), [
    ("int8", "uint8", "int16"), ("uint8", "int8", "int16"), ("uint16", "int16", "int32"),
    ("int8", "uint16", "int32"),
    ("int32", "uint32", "int64"), ("int64", "uint8", "int64"), ("int32", "int16", "int32"),
    ("uint8", "uint16", "uint16"),
    ("float16", "float32", "float32"), ("int64", "float16", "float16"),
])  # fmt: skip
def test_two_types_are_computed_in_one_that_holds_both(first, second, wide):
    a, b = np.array([1, 100], np.dtype(first)), np.array([2, 27], np.dtype(second))
    (total,) = results(Dialect.MINDSPORE, "Add", [a, b])
    assert total.dtype == wide
    np.testing.assert_array_equal(total, [3, 127])
