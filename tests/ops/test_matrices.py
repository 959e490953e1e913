"""Factors, solutions and products of matrices, beside numpy's."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest
from tests.ops.applied import results

from pinnace.graph.failures import Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.program import Dialect, Layout

RANDOM = np.random.default_rng(19)
SQUARES = RANDOM.normal(size=(2, 4, 4)) + 0.1
TALL, WIDE, RIGHT = (RANDOM.normal(size=(2, *dims)) for dims in ((5, 3), (3, 5), (4, 2)))
POSITIVE = SQUARES @ SQUARES.swapaxes(1, 2) + np.eye(4)
LOWER, UPPER = np.tril(SQUARES), np.triu(SQUARES)
FACTOR = np.linalg.cholesky(POSITIVE)
CLOSE, SINGLE = {"rtol": 1e-9, "atol": 1e-9}, {"rtol": 2e-6, "atol": 2e-6}
IN_FLOAT32 = {"Correlate", "LogMatrixDeterminant", "MatrixDeterminant"}
"""What onnxruntime has no kernels of float64 for."""
OF_FIXED = {"Correlate", "Lstsq", "NuclearNorm"}


def run(name: str, *given, **attributes) -> list[np.ndarray]:
    return results(Dialect.MINDSPORE, name, list(given), **attributes)


def turned(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-1, -2)


def unit(x: np.ndarray) -> np.ndarray:
    return x - x * np.eye(4) + np.eye(4)


ROW, COLUMN = RANDOM.normal(size=7), RANDOM.normal(size=3)
POINTS = RANDOM.normal(size=(5, 3))
PAIRS = np.triu_indices(5, 1)
FORMULAS = [
    ("MatrixInverse", [SQUARES], {}, np.linalg.inv(SQUARES)),
    ("MatrixInverse", [SQUARES], {"adjoint": True}, turned(np.linalg.inv(SQUARES))),
    ("MatrixSolve", [SQUARES, RIGHT], {}, np.linalg.solve(SQUARES, RIGHT)),
    ("MatrixSolve", [SQUARES, RIGHT], {"adjoint": True}, np.linalg.solve(turned(SQUARES), RIGHT)),
    ("Cholesky", [POSITIVE], {}, FACTOR),
    ("Cholesky", [POSITIVE], {"upper": True}, turned(FACTOR)),
    ("CholeskySolve", [RIGHT, FACTOR], {}, np.linalg.solve(POSITIVE, RIGHT)),
    ("CholeskySolve", [RIGHT, turned(FACTOR)], {"upper": True}, np.linalg.solve(POSITIVE, RIGHT)),
    ("CholeskyInverse", [FACTOR[0]], {}, np.linalg.inv(POSITIVE[0])),
    ("CholeskyInverse", [FACTOR[0].T], {"upper": True}, np.linalg.inv(POSITIVE[0])),
    ("MatrixTriangularSolve", [SQUARES, RIGHT], {}, np.linalg.solve(LOWER, RIGHT)),
    ("MatrixTriangularSolve", [SQUARES, RIGHT], {"lower": False}, np.linalg.solve(UPPER, RIGHT)),
    ("MatrixTriangularSolve", [SQUARES, RIGHT], {"adjoint": True}, np.linalg.solve(turned(LOWER), RIGHT)),
    ("SolveTriangular", [SQUARES, RIGHT], {}, np.linalg.solve(UPPER, RIGHT)),
    ("SolveTriangular", [SQUARES, RIGHT, 1, True], {}, np.linalg.solve(turned(LOWER), RIGHT)),
    ("SolveTriangular", [SQUARES, RIGHT, 0, False, True], {}, np.linalg.solve(unit(UPPER), RIGHT)),
    ("SolveTriangular", [SQUARES, RIGHT, 0, True, True], {}, np.linalg.solve(unit(LOWER), RIGHT)),
    ("SolveTriangular", [SQUARES[0], RIGHT[0, :, 0]], {}, np.linalg.solve(UPPER[0], RIGHT[0, :, 0])),
    ("TriangularSolve", [RIGHT, SQUARES], {}, np.linalg.solve(UPPER, RIGHT)),
    ("TriangularSolve", [RIGHT, SQUARES, False, True, True], {}, np.linalg.solve(turned(unit(LOWER)), RIGHT)),
    *(("MatrixPower", [SQUARES], {"n": n}, np.linalg.matrix_power(SQUARES, n))
      for n in (-3, -1, 0, 1, 2, 6, 7)),
    ("MatrixDeterminant", [SQUARES], {}, np.linalg.det(SQUARES)),
    ("LogMatrixDeterminant", [SQUARES], {}, *np.linalg.slogdet(SQUARES)),
    ("NuclearNorm", [TALL[0]], {}, np.linalg.norm(TALL[0], "nuc")),
    ("NuclearNorm", [WIDE[0]], {"keepdim": True}, [[np.linalg.norm(WIDE[0], "nuc")]]),
    ("Lstsq", [TALL[0], POINTS], {}, np.linalg.lstsq(TALL[0], POINTS, rcond=None)[0]),
    ("Lstsq", [WIDE[0], COLUMN], {}, np.linalg.lstsq(WIDE[0], COLUMN[:, None], rcond=None)[0]),
    ("Pdist", [POINTS], {}, np.linalg.norm(POINTS[PAIRS[0]] - POINTS[PAIRS[1]], axis=1)),
    ("Pdist", [TALL], {}, np.linalg.norm(TALL[:, PAIRS[0]] - TALL[:, PAIRS[1]], axis=2)),
    ("Pdist", [POINTS], {"p": 1.0}, abs(POINTS[PAIRS[0]] - POINTS[PAIRS[1]]).sum(1)),
    ("Pdist", [POINTS], {"p": 0.0}, np.full(10, 3.0)),
    ("Pdist", [POINTS], {"p": math.inf}, abs(POINTS[PAIRS[0]] - POINTS[PAIRS[1]]).max(1)),
    ("Cdist", [POINTS, POINTS[:2] + 1], {"p": 3.0},
     (abs(POINTS[:, None] - POINTS[None, :2] - 1) ** 3).sum(-1) ** (1 / 3)),
    ("Renorm", [POINTS], {"p": 2, "dim": 0, "maxnorm": 1.5},
     POINTS * np.minimum(1, 1.5 / (np.linalg.norm(POINTS, axis=1, keepdims=True) + 1e-7))),
    ("TraceV2", [SQUARES, 1, 1, 2], {}, np.trace(SQUARES, 1, 1, 2)),
    ("TraceV2", [SQUARES, -1], {}, np.trace(SQUARES, -1, 1, 0)),
    ("Trace", [SQUARES[0]], {}, np.trace(SQUARES[0])),
    ("Addmm", [RIGHT[0], SQUARES[0], RIGHT[1], 0.5, 2.0], {}, 0.5 * RIGHT[0] + 2 * SQUARES[0] @ RIGHT[1]),
    ("Addmm", [RIGHT[0], SQUARES[0], RIGHT[1]], {}, RIGHT[0] + SQUARES[0] @ RIGHT[1]),
    ("Baddbmm", [RIGHT, SQUARES, RIGHT, 2.0, 1.0], {}, 2 * RIGHT + SQUARES @ RIGHT),
    ("Addbmm", [RIGHT[0], SQUARES, RIGHT, 2.0, 0.5], {}, 2 * RIGHT[0] + 0.5 * (SQUARES @ RIGHT).sum(0)),
    *(("Correlate", [a, v], {"pad_mode": word}, np.correlate(a, v, mode))
      for a, v in ((ROW, COLUMN), (COLUMN, ROW), (ROW, ROW[:4]))
      for mode, number in (("same", 1), ("valid", 2), ("full", 3)) for word in (mode, number)),
]  # fmt: skip


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("case", FORMULAS, ids=lambda case: case[0])
def test_gives_what_numpy_gives_for_dimensions_that_are(case, free):
    name, given, attributes, *expected = case
    if free and name in OF_FIXED:
        with pytest.raises(Unsupported, match="all dimensions fixed"):
            run(name, *given, free=True, **attributes)
        return
    found = run(name, *given, free=free, **attributes)
    for result, value in zip(found, expected, strict=False):
        np.testing.assert_allclose(result, value, **(SINGLE if name in IN_FLOAT32 else CLOSE))


def test_a_correlation_with_a_padding_of_numbers_is_refused():
    with pytest.raises(Unsupported, match="has the pad_mode"):
        run("Correlate", ROW, COLUMN, pad_mode="pad")


@pytest.mark.parametrize(
    ("name", "shapes", "turns", "operators"),
    [
        ("Dense", ((4, 3), (5, 3)), {}, ["Gemm"]),
        ("Dense", ((2, 4, 3), (5, 3)), {}, ["Transpose", "MatMul"]),
        ("Dense", ((4, 3), (3,)), {}, ["MatMul"]),
        ("MatMul", ((4, 3), (5, 3)), {"transpose_b": True}, ["Gemm"]),
        ("MatMul", ((3, 4), (3, 5)), {"transpose_a": True}, ["Gemm"]),
        ("MatMul", ((4, 3), (3, 5)), {}, ["MatMul"]),
        ("BatchMatMul", ((2, 4, 3), (2, 5, 3)), {"transpose_b": True}, ["Transpose", "MatMul"]),
    ],
)
def test_a_weight_is_turned_by_gemm_where_there_is_no_batch(name, shapes, turns, operators):
    b = LoweringBuilder(Layout.NCHW)
    operands = [ir.Value(shape=ir.Shape(s), type=ir.TensorType(ir.DataType.FLOAT)) for s in shapes]
    find(Dialect.MINDSPORE, name).lower(b, operands, turns)
    assert [node.op_type for node in b.nodes] == operators


def test_a_matrix_between_its_neighbours():
    above, middle, below = (RANDOM.normal(size=(2, 1, 4)) for _ in range(3))
    whole = np.stack([
        np.diag(m[0]) + np.diag(a[0, :-1], 1) + np.diag(b[0, 1:], -1)
        for a, m, b in zip(above, middle, below, strict=True)
    ])  # fmt: skip
    (found,) = run("TridiagonalMatMul", above, middle, below, RIGHT)
    np.testing.assert_allclose(found, whole @ RIGHT, **CLOSE)


@pytest.mark.parametrize("x", [TALL, WIDE, SQUARES], ids=["tall", "wide", "square"])
@pytest.mark.parametrize("full", [False, True])
def test_q_is_orthogonal_and_r_a_triangle(x, full):
    q, r = run("Qr", x, full_matrices=full)
    count = x.shape[1] if full else min(x.shape[1:])
    assert (q.shape, r.shape) == ((2, x.shape[1], count), (2, count, x.shape[2]))
    np.testing.assert_allclose(turned(q) @ q, np.tile(np.eye(count), (2, 1, 1)), **CLOSE)
    np.testing.assert_array_equal(r, np.triu(r))
    np.testing.assert_allclose(q @ r, x, **CLOSE)


@pytest.mark.parametrize("x", [TALL, WIDE, SQUARES], ids=["tall", "wide", "square"])
def test_packed_mirrors_are_those_of_q(x):
    packed, factors = run("Geqrf", x)
    expected = np.stack([np.linalg.qr(one, "raw")[0].T for one in x])
    np.testing.assert_allclose(packed, expected, **CLOSE)
    np.testing.assert_allclose(factors, np.stack([np.linalg.qr(one, "raw")[1] for one in x]), **CLOSE)


def test_products_with_packed_mirrors():
    packed, factors = run("Geqrf", TALL)
    whole, thin = np.linalg.qr(TALL, "complete")[0], np.linalg.qr(TALL)[0]
    np.testing.assert_allclose(run("Orgqr", packed, factors)[0], thin, **CLOSE)
    other = RANDOM.normal(size=(2, 5, 5))
    for left, across, expected in (
        (True, False, whole @ other),
        (True, True, turned(whole) @ other),
        (False, False, other @ whole),
        (False, True, other @ turned(whole)),
    ):
        (found,) = run("Ormqr", packed, factors, other, left, across)
        np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("x", [TALL, WIDE, SQUARES, TALL[:, :, :1]], ids=["tall", "wide", "square", "column"])
def test_singular_values(x):
    values, u, v = run("Svd", x)
    np.testing.assert_allclose(values, np.linalg.svd(x)[1], **CLOSE)
    np.testing.assert_allclose((u * values[:, None]) @ turned(v), x, **CLOSE)
    np.testing.assert_allclose(turned(u) @ u, np.tile(np.eye(min(x.shape[1:])), (2, 1, 1)), **CLOSE)
    (alone, *_) = run("Svd", x, compute_uv=False)
    np.testing.assert_allclose(alone, values, **CLOSE)


def test_full_singular_vectors_are_those_of_square_matrices():
    assert [part.shape for part in run("Svd", SQUARES, full_matrices=True)] == [(2, 4), (2, 4, 4), (2, 4, 4)]
    with pytest.raises(Unsupported, match="full matrices of a matrix that is not square"):
        run("Svd", TALL, full_matrices=True)


@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_the_exponential_of_a_matrix(size):
    x = POSITIVE / np.linalg.norm(POSITIVE, 2, (1, 2), keepdims=True) * size
    values, vectors = np.linalg.eigh(x)
    expected = (vectors * np.exp(values)[:, None]) @ turned(vectors)
    np.testing.assert_allclose(run("MatrixExp", x)[0], expected, rtol=1e-9, atol=1e-9 * np.exp(size))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_exchanged_rows_and_triangles_give_the_matrix(shape):
    data, pivots = RANDOM.normal(size=(2, *shape)), np.array([[3, 3, 3, 4][: min(shape)]] * 2, np.int32)
    exchange, lower, upper = run("LuUnpack", data, pivots)
    expected = np.eye(shape[0])
    for row, other in enumerate(pivots[0] - 1):
        expected[[row, other]] = expected[[other, row]]
    np.testing.assert_array_equal(exchange, np.tile(expected.T, (2, 1, 1)))
    count = min(shape)
    np.testing.assert_array_equal(lower, np.tril(data, -1)[..., :count] + np.eye(shape[0], count))
    np.testing.assert_array_equal(upper, np.triu(data)[:, :count])
    if shape == (4, 4):
        (found,) = run("LuSolve", RIGHT, data, pivots)
        np.testing.assert_allclose(exchange @ lower @ upper @ found, RIGHT, rtol=1e-7, atol=1e-7)


def test_the_coefficients_of_qr_alone():
    empty, r = run("LinalgQr", TALL, "r")
    assert not empty.size
    np.testing.assert_allclose(abs(r), abs(np.linalg.qr(TALL, "r")), **CLOSE)
    assert run("LinalgQr", TALL, "complete")[0].shape == (2, 5, 5)
    assert run("LinalgQr", TALL)[0].shape == (2, 5, 3)
