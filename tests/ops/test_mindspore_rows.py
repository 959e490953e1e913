"""Lowerings of MindSpore's in forms that no golden has, such as free dimensions and scalars, beside numpy."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest
from tests.ops.applied import results

from pinnace.graph.failures import Unsupported
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


def cumulated(
    function, x: np.ndarray, axis: int, exclusive: bool, reverse: bool, neutral: float
) -> np.ndarray:
    y = np.flip(x, axis) if reverse else x
    if exclusive:
        first = np.full_like(y.take([0], axis), neutral)
        y = np.concatenate([first, y.take(range(y.shape[axis] - 1), axis)], axis)
    y = function(y, axis)
    return np.flip(y, axis) if reverse else y


def spread(x: np.ndarray, weight: np.ndarray, steps: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """A transposed convolution with a border of 1 cut from its start, and a size."""
    y = np.zeros((len(x), weight.shape[1], 99, 99))
    for i, j in np.ndindex(x.shape[2:]):
        place = (
            ...,
            *(slice(n * s, n * s + k) for n, s, k in zip((i, j), steps, weight.shape[2:], strict=True)),
        )
        y[place] += np.einsum("nc,cohw->nohw", x[:, :, i, j], weight)
    return y[:, :, 1 : 1 + size[0], 1 : 1 + size[1]]


def last_of(best: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Where each number that is the best so far was last seen in its column."""
    places = np.zeros(x.shape, np.int64)
    for i, c in np.ndindex(x.shape):
        places[i, c] = max(j for j in range(i + 1) if x[j, c] == best[i, c])
    return places


def packed(x: np.ndarray, first: int, last: int, align: str, filler: float) -> np.ndarray:
    """Diagonals of a matrix, one a row, the highest first; `align` tells where those from 0 on end."""
    offsets = range(last, first - 1, -1)
    width = max(len(np.diagonal(x, d)) for d in offsets)
    found = np.full((len(offsets), width), filler, x.dtype)
    for row, d in enumerate(offsets):
        numbers = np.diagonal(x, d)
        start = width - len(numbers) if align.split("_")[d < 0] == "RIGHT" else 0
        found[row, start : start + len(numbers)] = numbers
    return found[0] if first == last else found


def band(x: np.ndarray, first: int, last: int) -> np.ndarray:
    return np.triu(np.tril(x, last), first)


BEST = np.array([[1, 5], [3, 5], [3, 2], [2, 7], [3, 7]], np.float32)
FLAGS = [(False, False), (True, False), (False, True), (True, True)]
ALIGNS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
MARKS = np.array([-3, -1, 0, 2, 4], np.float32)
QUARTERS = np.array([0.25, 0.9])
ZERO, SEVEN = np.array(0, np.float32), np.array(7, np.float32)
ODD, DIVISORS = np.array([7, -7, 7, -7, 6, 0, 100], np.int32), np.array([2, 2, -2, -2, 3, 5, 7], np.int32)
A, B = np.array([0.5, -2.5, 0, 3, -1], np.float32), np.array([2, 1.5, 4, 0, -0.25], np.float32)
NAN = np.array([np.nan, 1, np.nan, 2], np.float32)
LARGEST = pooled(X, (3, 2), np.max)
CUBE = pooled(X[:, None], (2, 3, 2), np.max)
SPREAD, GRID = (
    RANDOM.normal(size=(3, 4, 4, 3)).astype(np.float32),
    np.arange(96, dtype=np.float32).reshape(1, 1, 8, 12),
)
SHARES = np.exp(MATRIX) / np.exp(MATRIX).sum(1, keepdims=True)
ANY_SHAPE = [
    ("Cummax", [BEST], {"axis": 0}, np.maximum.accumulate(BEST), last_of(np.maximum.accumulate(BEST), BEST)),
    ("Cummin", [BEST.T], {"axis": -1},
     np.minimum.accumulate(BEST).T, last_of(np.minimum.accumulate(BEST), BEST).T),
    *(("CumProd", [Y, 1, *flags], {}, cumulated(np.cumprod, Y, 1, *flags, 1)) for flags in FLAGS),
    *(("CumSum", [Y, -1, *flags], {}, cumulated(np.cumsum, Y, 2, *flags, 0)) for flags in FLAGS),
    *(("CumulativeLogsumexp", [Y, 0, *flags], {},
       cumulated(lambda x, axis: np.logaddexp.accumulate(x, axis), Y, 0, *flags, np.finfo(np.float32).min))
      for flags in FLAGS),
    ("Kthvalue", [MATRIX, 2, 0, True], {}, np.sort(MATRIX, 0)[1:2], np.argsort(MATRIX, 0)[1:2]),
    ("Kthvalue", [MATRIX, 5], {}, MATRIX.max(1), MATRIX.argmax(1)),
    ("NthElement", [MATRIX, 1], {}, np.sort(MATRIX)[:, 1]),
    ("NthElement", [MATRIX, 1], {"reverse": True}, np.sort(MATRIX)[:, -2]),
    ("Quantile", [MATRIX, np.array(0.3, np.float32)], {"dim": 0}, np.quantile(MATRIX, 0.3, 0)),
    ("Quantile", [MATRIX, np.array(0.3, np.float32)], {"dim": 1, "keep_dims": True},
     np.quantile(MATRIX, 0.3, 1, keepdims=True)),
    ("Quantile", [MATRIX, QUARTERS.astype(np.float32)], {"dim": 0}, np.quantile(MATRIX, QUARTERS, 0)),
    ("Quantile", [MATRIX, QUARTERS.astype(np.float32)], {"dim": 1, "keep_dims": True},
     np.quantile(MATRIX, QUARTERS, 1, keepdims=True)),
    ("Quantile", [MATRIX, QUARTERS.astype(np.float32)], {}, np.quantile(MATRIX, QUARTERS)),
    ("InTopK", [BEST.T, np.array([1, 2]), 3], {}, [True, False]),
    ("InTopK", [BEST.T, np.array([0, 3]), 1], {}, [False, True]),
    ("LowerBound", [MARKS[None], MARKS[None, ::2]], {}, [[0, 2, 4]]),
    ("UpperBound", [MARKS[None], MARKS[None, ::2]], {}, [[1, 3, 5]]),
    ("Bucketize", [MARKS], {"boundaries": (-1.0, 0.0, 3.0)}, np.digitize(MARKS, [-1, 0, 3])),
    ("Sort", [MATRIX], {"descending": True}, -np.sort(-MATRIX), np.argsort(-MATRIX)),
    ("Sort", [MATRIX], {"axis": 0}, np.sort(MATRIX, 0), np.argsort(MATRIX, 0)),
    ("ArgSort", [MATRIX, 0, True], {}, np.argsort(-MATRIX, 0)),
    ("MedianDim", [MATRIX, 0, True], {}, middle(MATRIX, 0)[None]),
    ("MedianExt", [MATRIX], {}, middle(MATRIX.ravel(), 0)),
    ("Median", [MATRIX], {"global_median": True}, middle(MATRIX.ravel(), 0)),
    ("DiagExt", [MATRIX, -1], {}, MATRIX.diagonal(-1)),
    ("Tril", [MATRIX], {"diagonal": -1}, np.tril(MATRIX, -1)),
    ("Triu", [MATRIX], {"diagonal": 2}, np.triu(MATRIX, 2)),
    *(("MatrixBandPart", [MATRIX, low, high], {},
     band(MATRIX, -low if low >= 0 else -9, high if high >= 0 else 9))
      for low, high, *ends in ((1, 0, -1, 0), (0, 2, 0, 2), (-1, 1, -9, 1), (2, -1, -2, 9))),
    *(("MatrixBandPart", [MATRIX, np.array(low), np.array(high)], {},
     band(MATRIX, -low if low >= 0 else -9, high))
      for low, high, *ends in ((1, 0, -1, 0), (-1, 1, -9, 1))),
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
    ("MaxPool", [GRID], {"kernel_size": (1, 1, 2, 2), "strides": (1, 1, 4, 4), "pad_mode": "same"},
     GRID[:, :, 1::4, 1::4]),
    *(("Roll", [Y, steps, axes], {}, np.roll(Y, steps, axes)) for steps, axes in (
        ((3, -5), (0, -1)), ((0,), (1,)), ((-8, 1, 7), (2, 1, 0)))),
    ("Roll", [Y, (31,)], {}, np.roll(Y, 31)),
    ("LpNorm", [MATRIX * 0.1], {"p": 3, "axis": (0,), "epsilon": 0.15},
     np.maximum((abs(MATRIX * 0.1) ** 3).sum(0) ** (1 / 3), 0.15)),
    ("EmbeddingLookup", [MATRIX, np.array([[2, 0, 5], [1, 4, 3]])], {"offset": 1},
     np.where([[[1], [0], [0]], [[1], [1], [1]]], MATRIX[[[1, 0, 0], [0, 3, 2]]], 0)),
    ("MaxDim", [SCALAR, 0], {}, -1.5, 0),
    ("ArgMaxWithValue", [MATRIX], {"axis": 1, "keep_dims": True},
     MATRIX.argmax(1)[:, None], MATRIX.max(1)[:, None]),
    ("SmoothL1Loss", [MATRIX, 2 * MATRIX, 0.0], {}, abs(MATRIX)),
    ("SmoothL1Loss", [MATRIX, 2 * MATRIX, 0.5, "mean"], {},
     np.where(abs(MATRIX) < 0.5, MATRIX**2, abs(MATRIX) - 0.25).mean()),
    ("Sinc", [MATRIX], {}, np.sinc(MATRIX)),
    ("MaskedSelect", [MATRIX, MATRIX[:1] > 0], {}, MATRIX[:, MATRIX[0] > 0].ravel()),
    ("MaskedSelect", [MATRIX[:1], MATRIX > 0], {}, MATRIX[:1].repeat(4, 0)[MATRIX > 0]),
    ("MaskedSelect", [MATRIX, MATRIX > 0], {}, MATRIX[MATRIX > 0]),
    ("MoeGatingTopKSoftmax", [MATRIX, np.array([False, True, False, False]), 3], {},
     -np.sort(-SHARES)[:, :3],
     np.where([[False], [True], [False], [False]], 5, np.argsort(-SHARES)[:, :3]),
     np.arange(12).reshape(3, 4).T),
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


BANDS = [((-1, 2), align) for align in ALIGNS]
BANDS += [(pair, ALIGNS[0]) for pair in ((0, 0), (1, 3), (-3, -1), (2, 2))]
ELSE = RANDOM.normal(size=(4, 5)).astype(np.float32)
IDS = np.array([0, 0, 2, 2, 2, 3, 5], np.int32)  # none of 1 and 4


def by_id(function, filler: float) -> np.ndarray:
    """What a function gives of the rows of each id, and a number for ids without one."""
    groups = [TALL[i == IDS] for i in range(6)]
    return np.stack([function(rows, 0) if len(rows) else np.full(3, filler) for rows in groups])


LEAST, MOST = np.finfo(np.float32).min, np.finfo(np.float32).max
SEGMENTS = {
    "Sum": (np.sum, 0, 0),
    "Prod": (np.prod, 1, 1),
    "Max": (np.max, 0, LEAST),
    "Min": (np.min, 0, MOST),
}
PLACES, SPARSE = np.array([[0, 1], [2, 3], [2, 0]]), np.zeros((3, 5), np.float32)
SPARSE[PLACES[:, 0], PLACES[:, 1]] = [2, -1, 3]
VALUES, WIDE = np.array([2, -1, 3], np.float32), RANDOM.normal(size=(5, 4)).astype(np.float32)
FIXED = [
    *((f"Segment{name}", [TALL, IDS], {}, by_id(f, none)) for name, (f, none, _) in SEGMENTS.items()),
    ("SegmentMean", [TALL, IDS], {}, by_id(np.mean, 0)),
    *((f"UnsortedSegment{name}", [TALL[::-1].copy(), IDS[::-1].copy(), (6,)], {}, by_id(f, none))
      for name, (f, _, none) in SEGMENTS.items()),
    ("SparseTensorDenseMatmul", [PLACES, VALUES, (3, 5), WIDE], {}, SPARSE @ WIDE),
    ("SparseTensorDenseMatmul", [PLACES, VALUES, (3, 5), WIDE.T.copy()], {"adjoint_dt": True}, SPARSE @ WIDE),
    ("SparseTensorDenseMatmul", [PLACES, VALUES, (3, 5), TALL[:3]], {"adjoint_st": True},
     SPARSE.T @ TALL[:3]),
    ("SparseTensorDenseAdd", [PLACES, VALUES, (3, 5), HOLES[:1].repeat(3, 0)], {}, HOLES[:1] + SPARSE),
    ("SparseToDense", [PLACES, VALUES, (3, 5)], {}, SPARSE),
    ("BincountExt", [IDS], {}, np.bincount(IDS)),
    ("BincountExt", [IDS, TALL[:, 0].copy(), 8], {}, np.bincount(IDS, TALL[:, 0], 8)),
    ("SpaceToBatchND", [X[:, :, :6, :4]], {"block_shape": (2, 2), "paddings": ((0, 0), (1, 1))},
     np.concatenate([np.pad(X[:, :, :6, :4], ((0, 0), (0, 0), (0, 0), (1, 1)))[:, :, i::2, j::2]
                     for i in (0, 1) for j in (0, 1)])),
    ("BatchToSpaceND", [np.concatenate([X[:, :, i:6:2, j:4:2] for i in (0, 1) for j in (0, 1)])],
     {"block_shape": (2, 2), "crops": ((1, 0), (0, 2))}, X[:, :, 1:6, :2]),
    ("Atan2", [A, B], {}, np.arctan2(A, B)),
    ("DivNoNan", [A, B], {}, [0.25, -5 / 3, 0, 0, 4]),
    ("MulNoNan", [np.array([np.inf, 2, 3], np.float32), np.array([0, 3, -1], np.float32)], {}, [0, 6, -3]),
    ("Xdivy", [A, B], {}, [0.25, -5 / 3, 0, np.inf, 4]),
    ("Xlogy", [A, abs(B)], {}, [0.5 * np.log(2), -2.5 * np.log(1.5), 0, -np.inf, -np.log(0.25)]),
    ("Hypot", [A, B], {}, np.hypot(A, B)),
    ("Hypot", [0 * A, 0 * B], {}, 0 * A),
    ("LogAddExp", [A, B], {}, np.logaddexp(A, B)),
    ("LogAddExp2", [A, B], {}, np.logaddexp2(A, B)),
    ("Heaviside", [A, B], {}, np.heaviside(A, B)),
    ("Heaviside", [ODD, DIVISORS], {}, np.heaviside(ODD, DIVISORS)),
    ("Fmax", [NAN, NAN[::-1]], {}, np.fmax(NAN, NAN[::-1])),
    ("Fmin", [NAN, np.zeros(4, np.float32)], {}, np.fmin(NAN, 0)),
    ("FloorDiv", [ODD, DIVISORS], {}, ODD // DIVISORS),
    ("FloorDiv", [A[[0, 1, 4]], B[[0, 1, 4]]], {}, A[[0, 1, 4]] // B[[0, 1, 4]]),
    ("FloorDiv", [ODD.astype(np.uint8), np.array([2], np.uint8)], {}, ODD.astype(np.uint8) // 2),
    ("FloorDiv", [ODD, np.array([-1], np.int32)], {}, -ODD),
    ("FloorMod", [ODD, DIVISORS], {}, ODD % DIVISORS),
    ("FloorMod", [A[:3], B[:3]], {}, A[:3] % B[:3]),
    ("TruncateDiv", [ODD, DIVISORS], {}, np.trunc(ODD / DIVISORS)),
    ("TruncateDiv", [A[[0, 1, 4]], B[[0, 1, 4]]], {}, np.trunc(A[[0, 1, 4]] / B[[0, 1, 4]])),
    ("TruncateMod", [ODD, DIVISORS], {}, np.fmod(ODD, DIVISORS)),
    ("TruncateMod", [A[:3], B[:3]], {}, np.fmod(A[:3], B[:3])),
    ("Div", [ODD, DIVISORS], {}, ODD / DIVISORS),
    ("DivMod", [ODD, DIVISORS, 1], {}, np.trunc(ODD / DIVISORS)),
    ("DivMod", [ODD, DIVISORS, 2], {}, np.floor(ODD / DIVISORS)),
    ("DivMod", [ODD, DIVISORS], {}, ODD / DIVISORS),
    ("Gcd", [ODD * 6, DIVISORS * 9], {}, np.gcd(ODD * 6, DIVISORS * 9)),
    ("Lcm", [ODD, DIVISORS], {}, np.lcm(ODD, DIVISORS)),
    ("Lcm", [0 * ODD, 0 * ODD], {}, 0 * ODD),
    ("Gcd", [np.array([89, 121, 34], np.int8), np.array([55, 11, 51], np.int8)], {}, [1, 11, 17]),
    ("Gcd", [np.array([1836311903, 90], np.int32), np.array([1134903170, 60], np.int32)], {}, [1, 30]),
    ("LeftShift", [ODD, np.arange(7, dtype=np.int32)], {}, ODD << np.arange(7)),
    ("RightShift", [ODD, np.arange(7, dtype=np.int32)], {}, ODD >> np.arange(7)),
    ("RightShift", [np.array([-(2**63), 2**63 - 1, -1]), np.array([63, 62, 40])], {}, [-1, 1, -1]),
    ("Pow", [A, 2], {}, A**2),
    ("Pow", [A, 3], {}, A**3),
    ("SquaredDifference", [A, B], {}, (A - B) ** 2),
    ("Outer", [A, B[:2]], {}, np.outer(A, B[:2])),
    ("NotEqual", [ODD, DIVISORS], {}, ODD != DIVISORS),
    ("Addcdiv", [A, B, A + 4, 0.5], {}, A + 0.5 * B / (A + 4)),
    ("Addcmul", [A, B, A + 4, 0.5], {}, A + 0.5 * B * (A + 4)),
    ("Addcmul", [A, B, A + 4], {}, A + B * (A + 4)),
    ("AddExt", [A, B, 0.5], {}, A + 0.5 * B),
    ("SubExt", [A, B, 2], {}, A - 2 * B),
    ("SubExt", [A, B], {}, A - B),
    ("Lerp", [A, B, 0.25], {}, A + (B - A) / 4),
    ("ApproximateEqual", [A, A + np.array([0, 0.5, 0.75, -0.5, -1], np.float32)], {"tolerance": 0.625},
     [True, True, False, True, False]),
    ("IsClose", [NAN, NAN + np.array([0, 0.01, 0, 0.5], np.float32), 0.02, 0.0, True], {},
     [True, True, True, False]),
    ("IsClose", [NAN, NAN, 0.02, 0.0], {}, [False, True, False, True]),
    ("IsClose", [A, A + 0.5, 0.0, 0.5], {}, [True] * 5),
    ("PopulationCount", [np.array([0, 1, 255, 170], np.uint8)], {}, [0, 1, 8, 4]),
    ("PopulationCount", [np.array([-1, 0x1234], np.int16)], {}, [16, 5]),
    ("CompareAndBitpack", [np.arange(16, dtype=np.float32).reshape(2, 8) % 5, np.array(2, np.float32)], {},
     np.packbits(np.arange(16).reshape(2, 8) % 5 > 2, axis=1)),
    *(("Conv2DTranspose", [X, SPREAD, kind((2, 4, *size))],
       {"stride": (3, 2), "pad_mode": "pad", "pad": (1, 1, 1, 1)}, spread(X, SPREAD, (3, 2), size))
      for size in ((20, 9), (22, 10), (21, 10)) for kind in (tuple, np.array)),
    ("MaxPool", [GRID.reshape(1, 4, 6, 4)],
     {"kernel_size": (1, 2, 3, 1), "strides": (1, 2, 3, 1), "pad_mode": "valid", "format": "NHWC"},
     GRID.reshape(1, 4, 6, 4)[:, 1::2, 2::3]),
    ("TupleToTensor", [(1.5, 2.0)], {}, [1.5, 2]),
    ("TupleToTensor", [(1.5, 2.0), ir.DataType.INT32], {}, [1, 2]),
    *(("MatrixDiagPartV3", [MATRIX, pair, SEVEN], {"align": align}, packed(MATRIX, *pair, align, 7))
      for pair, align in BANDS),
    *(("MatrixSetDiagV3", [MATRIX, packed(ELSE, *pair, align, 7), pair], {"align": align},
       MATRIX - band(MATRIX, *pair) + band(ELSE, *pair)) for pair, align in BANDS),
    *(("MatrixDiagV3", [packed(MATRIX, *pair, align, 7), pair, 4, 5, ZERO], {"align": align},
     band(MATRIX, *pair))
      for pair, align in BANDS),
    ("MatrixDiagV3", [A, (2,), -1, -1, SEVEN], {}, np.where(np.eye(7, 7, 2, bool), np.diag(A, 2), 7)),
    ("MatrixDiagV3", [A, (2,), -1, 7, SEVEN], {}, np.where(np.eye(5, 7, 2, bool), np.diag(A, 2)[:5], 7)),
    ("MatrixDiagV3", [A, (-1,), 6, -1, SEVEN], {},
     np.where(np.eye(6, 5, -1, bool), np.diag(A, -1)[:, :5], 7)),
    *(("DiagExt", [A, d], {}, np.diag(A, d)) for d in (0, 2, -1)),
    ("DiagPart", [TALL[:3]], {}, TALL[:3].diagonal()),
    ("DiagPart", [np.arange(36, dtype=np.float32).reshape(2, 3, 2, 3)], {}, [[0, 7, 14], [21, 28, 35]]),
    ("TrilIndices", [], {"row": 4, "col": 3, "offset": -1}, np.stack(np.tril_indices(4, -1, 3))),
    ("TriuIndices", [], {"row": 3, "col": 4, "offset": 1}, np.stack(np.triu_indices(3, 1, 4))),
    ("FillDiagonal", [np.zeros((3, 3, 3), np.float32)], {"fill_value": 2.0},
     filled(np.zeros((3, 3, 3)), 2, False)),
    ("CumProd", [np.full((70, 1), 1.01, np.float32), 0], {}, 1.01 ** np.arange(1, 71)[:, None]),
    ("CumProd", [SCALAR.reshape(1, 1), 0, True], {}, [[1.0]]),
    ("ReduceAny", [np.zeros((0, 3), np.float32), (0,)], {}, [False] * 3),
    ("ReduceAll", [np.zeros((0, 3), np.float32), (0,)], {}, [True] * 3),
    ("AdaptiveAvgPool2D", [X], {"output_size": (0, 2)}, np.zeros((2, 3, 0, 2))),
    ("AdaptiveAvgPool2D", [(X * 9).astype(np.int32)], {"output_size": (3, 2)},
     np.trunc(pooled((X * 9).astype(np.int32).astype(np.float64), (3, 2), np.mean))),
    ("NanToNum", [np.arange(3)], {}, [0, 1, 2]),
    ("Sinc", [np.array([True])], {}, [0]),
    ("Meshgrid", [np.arange(3)], {"indexing": "xy"}, [0, 1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "attributes", "expected"), FIXED, ids=lambda v: v if isinstance(v, str) else ""
)
def test_gives_what_its_formula_gives(name, given, attributes, expected):
    (result,) = results(Dialect.MINDSPORE, name, given, **attributes)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize("size", [(1 << 40, 5), (7, 1 << 40)])
@pytest.mark.parametrize("name", ["ResizeArea", "ResizeBicubic"])
def test_an_image_too_large_for_a_table_of_its_weights_is_refused(name, size):
    with pytest.raises(Unsupported, match="needs a constant"):
        results(Dialect.MINDSPORE, name, [X, size])


@pytest.mark.parametrize("towards", [-np.inf, 0, 1, np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_next_number_is_the_next(kind, towards):
    limits, other = np.finfo(kind), np.array(towards, kind)
    powers = 2.0 ** np.arange(limits.minexp, limits.maxexp).astype(kind)
    near = [powers, np.nextafter(powers, kind(0)), np.nextafter(powers, kind(np.inf))]
    x = np.concatenate([*near, np.array([0, 0.1, 3e5, limits.smallest_subnormal * 9], kind)])
    x = np.concatenate([x, -x])
    (found,) = results(Dialect.MINDSPORE, "NextAfter", [x, other])
    np.testing.assert_array_equal(found, np.nextafter(x, other), strict=True)


WHOLE, FLOAT = np.array([-3, 0, 2, 9], np.int32), ir.DataType.FLOAT


@pytest.mark.parametrize(("name", "given", "declared", "expected"), [
    ("ClampScalar", [WHOLE, -0.5, 2.5], FLOAT, [-0.5, 0, 2, 2.5]),
    ("ClampScalar", [WHOLE, None, 2.5], FLOAT, [-3, 0, 2, 2.5]),
    ("ClampScalar", [WHOLE, -0.5, None], FLOAT, [-0.5, 0, 2, 9]),
    ("ClampScalar", [WHOLE, -1, None], ir.DataType.INT32, [-1, 0, 2, 9]),
    ("ClampTensor", [WHOLE, np.array(-0.5, np.float32), 2.5], FLOAT, [-0.5, 0, 2, 2.5]),
    ("Range", [0, 3, 2], FLOAT, [0, 2]),
    ("Range", [0, 100, 1], FLOAT, np.arange(100)),
    ("Range", [0, 3, 2], ir.DataType.INT32, [0, 2]),
    ("Range", [np.array(0), np.array(2), np.array(0.5, np.float32)], FLOAT, [0, 0.5, 1, 1.5]),
])  # fmt: skip
def test_is_computed_in_the_type_that_the_file_declares(name, given, declared, expected):
    (result,) = results(Dialect.MINDSPORE, name, given, declared=declared)
    np.testing.assert_array_equal(result, np.array(expected, declared.numpy()), strict=True)


@pytest.mark.parametrize("absent", [(0,), (1,), (0, 1)])
def test_a_norm_by_numbers_that_are_not_there_is_refused(absent):
    numbers = [None if i in absent else np.ones(3, np.float32) for i in range(2)]
    with pytest.raises(Unsupported, match="normalizes by a mean and a variance"):
        results(Dialect.MINDSPORE, "InstanceNorm", [X, *TALL[:2], *numbers], is_training=False)


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
