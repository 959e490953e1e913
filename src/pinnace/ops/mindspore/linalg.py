"""Products of matrices and vectors, distances, traces, determinants, and systems of linear equations.

ONNX has no operator for the last: elimination in a Loop over the columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.nodes import ORIGIN
from pinnace.ops import binding
from pinnace.ops.mindspore.array import END, counting, repeated
from pinnace.ops.mindspore.diagonal import diagonal_of
from pinnace.ops.mindspore.math import beside, floating, is_float, promoted
from pinnace.ops.mindspore.reduce import norm, reduce
from pinnace.ops.table import Ints, Tensor, Tensors, formulas, primitive, primitives
from pinnace.ops.values import FLOAT, INT64, Value


@primitive("BatchMatMul", "MatMul", "MatMulV2")
def matmul(op: Builder, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Gemm for two float matrices, which transposes on the way; else Transpose and MatMul."""
    own = op.result(x)
    x, y = promoted(op, x, y)
    if (transpose_a or transpose_b) and op.rank(x) == op.rank(y) == 2 and is_float(op, x):
        return op.cast(op.Gemm(x, y, transA=int(transpose_a), transB=int(transpose_b)), own)
    x, y = flipped(op, x) if transpose_a else x, flipped(op, y) if transpose_b else y
    return op.cast(op.MatMul(x, y), own)


def flipped(op: Builder, x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    last = op.rank(x) - 1
    return op.transpose(x, [*range(last - 1), last, last - 1])


def _cross(op: Builder, factors: Value, place: int) -> Tensor:
    a, c = [op.ops("Split", 3, v, axis=place, num_outputs=3) for v in factors]
    return op.Concat(*[a[i] * c[j] - a[j] * c[i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=place)


def _cross_of_free(op: Builder, factors: Tensors) -> Tensor:
    """The same along the first dimension of size 3 in the run, the middle one of three by Reshape."""
    size = op.Shape(factors[0])
    place = op.ArgMax(op.cast(op.Equal(size, 3), INT64), axis=0)
    before = op.ReduceProd(op.Concat([1], op.Slice(size, [0], place), axis=0))
    after = op.ReduceProd(op.Concat([1], op.Slice(size, place + 1, [op.rank(factors[0])]), axis=0))
    middle = op.Concat(before, [3], after, axis=0)
    return op.Reshape(_cross(op, [op.Reshape(v, middle) for v in factors], 1), size)


@primitives({"Addmm Baddbmm Addmv": False, "Addbmm": True})
def _addmm(
    op: Builder, summed: bool, x: Tensor, first: Tensor, second: Tensor, beta: Value = 1, alpha: Value = 1
) -> Value:
    product = op.MatMul(first, second)
    product = op.ReduceSum(product, [0], keepdims=0) if summed else product
    return _times(op, x, beta) + _times(op, product, alpha)


@primitive("BiasAdd")
def _bias_add(op: Builder, x: Tensor, bias: Tensor, data_format: str = "NCHW") -> Value:
    """A bias of the Conv or Gemm before it, else Add along the channels."""
    merged = _into_producer(op, x, bias)
    if merged is not None:
        return merged
    channels_last = data_format in ("1", "NHWC") or op.rank(x) == 2
    bias = op.reshape(bias, [-1, *[1] * (op.rank(x) - 2)]) if not channels_last and op.rank(x) > 2 else bias
    return x + bias


@primitive("ClipByNorm")
def _clip_by_norm(op: Builder, x: Tensor, clip_norm: Tensor, *, axis: Ints | None = None) -> Value:
    """Mul with the bound, and Div by the norm, or by the bound where that is greater; in float32."""
    wide, bound = [op.cast(v, FLOAT) for v in (x, clip_norm)]
    largest = op.Max(reduce(op, "ReduceL2", wide, axis, True), bound)
    return op.cast(wide * bound / largest, op.result(x))


@primitive("Cross")
def _lower_cross(op: Builder, x: Tensor, y: Tensor, dim: int = -65530) -> Value:
    longer = x if op.rank(x) >= op.rank(y) else y
    if dim != -65530:
        return _cross(op, promoted(op, x, y), op.axis(dim, longer) - op.rank(longer))
    places = [i for i, size in enumerate(op.shape(longer)) if size in (3, None)]
    if len(places) > 1 and op.shape(longer)[places[0]] is None:
        return _cross_of_free(op, promoted(op, x, y))
    if not places:
        raise Unsupported("has no dimension of size 3")
    return _cross(op, promoted(op, x, y), places[0] - op.rank(longer))


@primitive("Dense")
def _dense(op: Builder, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Value:
    if op.rank(x) == 2 and op.rank(weight) == 2 and is_float(op, x):
        return op.Gemm(x, weight, bias, transB=1)
    product = op.MatMul(x, flipped(op, weight) if op.rank(weight) > 1 else weight)
    return product if bias is None else product + bias


@primitive("Einsum")
def _einsum(op: Builder, *items: Value, equation: str) -> Value:
    operands = items[0] if len(items) == 1 else items
    return op.Einsum(*binding.tensors(op, operands), equation=equation)


@primitive("EinsumExt")
def _einsum_ext(op: Builder, equation: str, operands: Tensors) -> Value:
    return op.Einsum(*operands, equation=equation)


@primitive("LogMatrixDeterminant")
def _log_matrix_determinant(op: Builder, x: Tensor) -> Value:
    value = op.Det(x)
    return (op.Sign(value), op.Log(op.Abs(value)))


@primitive("Pdist")
def _pdist(op: Builder, x: Tensor, p: float = 2.0) -> Value:
    rows = counting(op, op.dim(x, -2))
    pairs = op.NonZero(op.Less(op.Unsqueeze(rows, [1]), rows))
    first, second = (op.Gather(pairs, i) for i in (0, 1))
    return norm(op, op.Gather(x, first, axis=-2) - op.Gather(x, second, axis=-2), p, [-1], False)


@primitive("Renorm")
def _renorm(op: Builder, x: Tensor, p: float, dim: int, maxnorm: float) -> Value:
    """Mul with what makes the norm of the rest no more than maxnorm."""
    axes = [i for i in range(op.rank(x)) if i != op.axis(dim, x)]
    size = norm(op, x, p, axes, True) if axes else op.Abs(x)
    return x * op.Where(op.Greater(size, maxnorm), op.like(maxnorm, x) / (size + 1e-7), 1.0)


@primitive("TransposeBatchMatmulTranspose")
def _transpose_batch_matmul_transpose(
    op: Builder,
    x: Tensor,
    weight: Tensor,
    perm_in: Ints,
    perm_out: Ints,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    return op.transpose(matmul(op, op.transpose(x, perm_in), weight, transpose_a, transpose_b), perm_out)


@primitive("TridiagonalMatMul")
def _tridiagonal_mat_mul(
    op: Builder, superdiag: Tensor, maindiag: Tensor, subdiag: Tensor, rhs: Tensor
) -> Value:
    above, middle, below = [flipped(op, d) for d in (superdiag, maindiag, subdiag)]
    none = [0] * (op.rank(rhs) - 2)
    after = op.Pad(rhs, [*none, -1, 0, *none, 1, 0])
    before = op.Pad(rhs, [*none, 1, 0, *none, -1, 0])
    ends = above * after + below * before
    return middle * rhs + ends


_BIASED = {"Conv", "ConvTranspose", "Gemm"}


def _into_producer(op: Builder, x: Tensor, bias: Tensor) -> Tensor | None:
    node = x.producer()
    if node is None or node.op_type not in _BIASED or node.domain or len(node.inputs) != 2:
        return None
    attributes = {a.name: a.value for a in node.attributes.values()}
    op.origins = (*node.meta[ORIGIN], *op.origins)
    return op.op(node.op_type, *node.inputs, bias, **attributes)


def _times(op: Builder, x: Tensor, factor: Value) -> Value:
    if op.known(factor) is not None and binding.float_(op, factor) == 1.0:
        return x
    return x * beside(op, factor, x)


@primitive("Correlate")
def correlate(op: Builder, a: Tensor, v: Tensor, pad_mode: str = "valid") -> Value:
    long, short = op.static_shape(a)[0], op.static_shape(v)[0]
    x, kernel = (a, v) if long >= short else (v, a)
    count = min(long, short)
    mode = {"1": "same", "2": "valid", "3": "full"}.get(pad_mode, pad_mode)
    sides = {"valid": (0, 0), "same": (count // 2, count - count // 2 - 1), "full": (count - 1, count - 1)}
    if mode not in sides:
        raise Unsupported(f"has the pad_mode {pad_mode}, which is not supported")
    dtype = op.result(a)
    x, kernel = (op.Unsqueeze(op.cast(t, dtype), [0, 1]) for t in (x, kernel))
    y = op.Squeeze(op.Conv(x, kernel, pads=sides[mode]), [0, 1])
    return y if long >= short else op.Slice(y, [-1], [int(np.iinfo(np.int64).min)], [0], [-1])


@primitive("TraceV2", unused="dtype")
def trace(
    op: Builder, x: Tensor, offset: int = 0, axis1: int = 1, axis2: int = 0, dtype: Value = None
) -> Value:
    wide = op.cast(x, op.result(x))
    return reduce(op, "ReduceSum", diagonal_of(op, wide, offset, axis1, axis2), [-1], False)


formulas(
    {
        "Cdist": lambda op, x, y, p=2.0: norm(
            op, op.Unsqueeze(x, [-2]) - op.Unsqueeze(y, [-3]), p, [-1], False
        ),
        "Det MatrixDeterminant": lambda op, x: op.Det(x),
        "MatrixInverse MatrixInverseExt": lambda op, x, adjoint=False: inverse(
            op, flipped(op, x) if adjoint else x
        ),
        "MatrixSolve": lambda op, x, rhs, adjoint=False: solved(op, flipped(op, x) if adjoint else x, rhs),
        "MatMulExt BatchMatMulExt Mm Mv Dot Vdot": lambda op, x, y: op.MatMul(*promoted(op, x, y)),
        "Trace TraceExt": lambda op, x: trace(op, x, 0, 0, 1),
    }
)


def solved(op: Builder, matrix: Tensor, right: Tensor) -> Tensor:
    """The solution of `matrix @ x = right`, (..., n, n) and (..., n, m), by Gauss-Jordan with row pivots."""
    size = op.Squeeze(op.Shape(matrix, start=-1), [0])
    rows = counting(op, size)
    joined = op.Concat(matrix, right, axis=-1)

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        m = _exchanged(op, carried[0], i, rows)
        pivot = op.Gather(m, op.Unsqueeze(i, [0]), axis=-2)
        pivot = pivot / op.Gather(pivot, op.Unsqueeze(i, [0]), axis=-1)
        column = op.Gather(m, op.Unsqueeze(i, [0]), axis=-1)
        own = op.Unsqueeze(op.cast(op.Equal(rows, i), op.dtype(m)), [-1])
        return [m - (column - own) * pivot]

    (done,) = repeated(op, size, [joined], turn)
    end = op.constant([END], np.int64)
    return op.Slice(done, op.Unsqueeze(size, [0]), end, [-1])


def _exchanged(op: Builder, m: Tensor, i: Tensor, rows: Tensor) -> Tensor:
    """Row `i` exchanged with the one below that is largest in column `i`."""
    size = op.Abs(op.Gather(m, i, axis=-1))
    below = op.Where(op.GreaterOrEqual(rows, i), size, op.like(-1.0, m))
    largest = op.ArgMax(below, axis=-1, keepdims=1)
    order = op.Where(op.Equal(rows, largest), i, rows)
    order = op.Where(op.Equal(rows, i), largest, order)
    return op.GatherElements(m, op.Expand(op.Unsqueeze(order, [-1]), op.Shape(m)), axis=-2)


def inverse(op: Builder, x: Tensor) -> Tensor:
    """The inverses of matrices (..., n, n)."""
    return solved(op, x, identity(op, x))


def identity(op: Builder, x: Tensor, axis: int = -1) -> Tensor:
    """A unit matrix of the size of one of the last two dimensions, for each matrix of `x`."""
    size = op.Shape(x, start=axis, end=None if axis == -1 else axis + 1)
    square = op.EyeLike(op.Expand(op.like(1.0, x), op.Concat(size, size, axis=0)))
    if op.rank(x) == 2:
        return square
    return op.Expand(square, op.Concat(op.Shape(x, end=-2), size, size, axis=0))


def triangle(op: Builder, x: Tensor, upper: bool, unit: bool = False) -> Value:
    """Half of a matrix; with `unit` its diagonal is 1."""
    if not unit:
        return op.Trilu(x, upper=int(upper))
    half = op.Trilu(x, op.constant(1 if upper else -1, np.int64), upper=int(upper))
    return half + identity(op, x)


@primitive("CholeskyInverse")
def _cholesky_inverse(op: Builder, x: Tensor, upper: bool = False) -> Value:
    """MatMul, and Gauss-Jordan elimination in a Loop."""
    # MindSpore reads both triangles
    inverted = inverse(op, x)
    first, second = (inverted, flipped(op, inverted)) if upper else (flipped(op, inverted), inverted)
    return op.MatMul(first, second)


@primitive("CholeskySolve")
def _cholesky_solve(op: Builder, right: Tensor, factor: Tensor, upper: bool = False) -> Value:
    half = triangle(op, factor, upper)
    first, second = (flipped(op, half), half) if upper else (half, flipped(op, half))
    return solved(op, second, solved(op, first, right))


def _solved_by_half(
    op: Builder, matrix: Tensor, right: Tensor, upper: bool, turned: bool, unit: bool = False
) -> Tensor:
    """Trilu, and Gauss-Jordan elimination in a Loop."""
    half = triangle(op, matrix, upper, unit)
    return solved(op, flipped(op, half) if turned else half, right)


@primitive("SolveTriangular")
def _solve_triangular(
    op: Builder, a: Tensor, right: Tensor, trans: int = 0, lower: bool = False, unit_diagonal: bool = False
) -> Value:
    """Trilu, and Gauss-Jordan elimination in a Loop; of integers in the result's type."""
    a, right = floating(op, a), floating(op, right)
    rows = right if op.rank(right) == op.rank(a) else op.Unsqueeze(right, [-1])
    found = _solved_by_half(op, a, rows, not lower, bool(trans), unit_diagonal)
    return found if rows is right else op.Squeeze(found, [-1])


formulas(
    {
        "MatrixTriangularSolve": lambda op, matrix, rhs, lower=True, adjoint=False: _solved_by_half(
            op, matrix, rhs, not lower, adjoint
        ),
        "TriangularSolve": lambda op, right, a, upper=True, transpose=False, unitriangular=False: (
            _solved_by_half(op, a, right, upper, transpose, unitriangular),
            a,
        ),
    }
)


@primitive("MatrixPower")
def matrix_power(op: Builder, x: Tensor, n: int) -> Value:
    base = inverse(op, x) if n < 0 else x
    result: Tensor | None = None
    for bit in bin(abs(n))[:1:-1]:
        if bit == "1":
            result = base if result is None else op.MatMul(result, base)
        base = op.MatMul(base, base)
    return identity(op, x) if result is None else result


@primitive("Cholesky")
def cholesky(op: Builder, x: Tensor, upper: bool = False) -> Value:
    """A column a turn of a Loop."""
    size = op.Squeeze(op.Shape(x, start=-1), [0])
    rows = counting(op, size)
    zero = op.like(0.0, x)

    def turn(i: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        rest, found = carried
        place = op.Unsqueeze(i, [0])
        column = op.Gather(rest, place, axis=-1)
        column = column / op.Sqrt(op.Gather(column, place, axis=-2))
        from_here = op.Unsqueeze(op.GreaterOrEqual(rows, i), [-1])
        column = op.Where(from_here, column, zero)
        rest = rest - column * flipped(op, column)
        return rest, found + column * op.cast(op.Equal(rows, i), op.dtype(x))

    _, lower = repeated(op, size, [x, x * zero], turn)
    return flipped(op, lower) if upper else lower
