"""Products of matrices and vectors, diagonals, distances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.diagonal import diagonal_of
from pinnace.ops.math import promoted
from pinnace.ops.nodes import ORIGIN
from pinnace.ops.reduce import norm, reduce
from pinnace.ops.room import room, span
from pinnace.ops.table import Ints, Tensor, Tensors, primitive
from pinnace.ops.values import Unsupported, Value

# -- products --------------------------------------------------------------------------------------


def matmul(b: Builder, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Gemm for two float matrices, which transposes on the way; else Transpose and MatMul."""
    x, y = promoted(b, x, y)
    flips = transpose_a or transpose_b
    if flips and b.rank(x) == b.rank(y) == 2 and b.dtype(x).is_floating_point():
        return b.op("Gemm", x, y, transA=int(transpose_a), transB=int(transpose_b))
    return b.op("MatMul", flipped(b, x) if transpose_a else x, flipped(b, y) if transpose_b else y)


def flipped(b: Builder, x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    last = b.rank(x) - 1
    return b.transpose(x, [*range(last - 1), last, last - 1])


@primitive("MatMul", "MatMulV2", unused="transpose_x1 transpose_x2")
def mat_mul(b: Builder, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """Gemm, or MatMul."""
    return b.cast(matmul(b, x, y, transpose_a, transpose_b), b.result(x))


@primitive("BatchMatMul", unused="transpose_x1 transpose_x2 adj_x1 adj_x2")
def batch_mat_mul(
    b: Builder, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Value:
    """MatMul, after Transpose where asked for."""
    return matmul(b, x, y, transpose_a, transpose_b)


@primitive("MatMulExt", "BatchMatMulExt", "Mm", "Mv", "Dot", "Vdot")
def mat_mul_ext(b: Builder, x: Tensor, y: Tensor) -> Value:
    """MatMul."""
    return b.op("MatMul", *promoted(b, x, y))


@primitive("TransposeBatchMatmulTranspose")
def transposed_product(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    perm_in: Ints,
    perm_out: Ints,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """Transpose, MatMul, Transpose."""
    return b.transpose(matmul(b, b.transpose(x, perm_in), weight, transpose_a, transpose_b), perm_out)


@primitive("Dense")
def dense(b: Builder, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Value:
    """Gemm for a matrix, else Transpose, MatMul and Add."""
    if b.rank(x) == 2 and b.rank(weight) == 2 and b.dtype(x).is_floating_point():
        return b.op("Gemm", x, weight, bias, transB=1)
    product = b.op("MatMul", x, flipped(b, weight) if b.rank(weight) > 1 else weight)
    return product if bias is None else b.op("Add", product, bias)


@primitive("BiasAdd")
def bias_add(b: Builder, x: Tensor, bias: Tensor, data_format: str = "NCHW") -> Value:
    """A bias of the Conv or Gemm before it, else Add along the channels."""
    merged = _into_producer(b, x, bias)
    if merged is not None:
        return merged
    channels_last = data_format in ("1", "NHWC") or b.rank(x) == 2
    if not channels_last and b.rank(x) > 2:
        bias = b.reshape(bias, [-1, *[1] * (b.rank(x) - 2)])
    return b.op("Add", x, bias)


_BIASED = {"Conv", "ConvTranspose", "Gemm"}


def _into_producer(b: Builder, x: Tensor, bias: Tensor) -> Tensor | None:
    node = x.producer()
    if node is None or node.op_type not in _BIASED or node.domain or len(node.inputs) != 2:
        return None
    attributes = {a.name: a.value for a in node.attributes.values()}
    b.origins = (*node.meta[ORIGIN], *b.origins)
    return b.op(node.op_type, *node.inputs, bias, **attributes)


@primitive("Addmm", "Baddbmm", "Addmv")
def addmm(b: Builder, x: Tensor, first: Tensor, second: Tensor, beta: Value = 1, alpha: Value = 1) -> Value:
    """MatMul, Mul, Add."""
    product = b.op("MatMul", first, second)
    return b.op("Add", _times(b, x, beta), _times(b, product, alpha))


@primitive("Addbmm")
def addbmm(b: Builder, x: Tensor, first: Tensor, second: Tensor, beta: Value = 1, alpha: Value = 1) -> Value:
    """MatMul, ReduceSum, Mul, Add."""
    product = b.op("ReduceSum", b.op("MatMul", first, second), [0], keepdims=0)
    return b.op("Add", _times(b, x, beta), _times(b, product, alpha))


def _times(b: Builder, x: Tensor, factor: Value) -> Tensor:
    if b.known(factor) is not None and binding.float_(b, factor) == 1.0:
        return x
    return b.op("Mul", x, b.cast(b.operand(factor, x), b.dtype(x)))


@primitive("Outer", "Ger")
def outer(b: Builder, x: Tensor, y: Tensor) -> Value:
    """Unsqueeze and Mul."""
    return b.op("Mul", *promoted(b, b.op("Unsqueeze", x, [1]), b.op("Unsqueeze", y, [0])))


@primitive("Einsum")
def einsum(b: Builder, *items: Value, equation: str) -> Value:
    """Einsum."""
    operands = items[0] if len(items) == 1 else items
    return b.op("Einsum", *binding.tensors(b, operands), equation=equation)


@primitive("EinsumExt")
def einsum_ext(b: Builder, equation: str, operands: Tensors) -> Value:
    """Einsum."""
    return b.op("Einsum", *operands, equation=equation)


def _of_three(shape: tuple[int | None, ...]) -> int:
    """The first dimension of 3; a free one where no other can be."""
    if 3 not in shape and shape.count(None) == 1:
        return shape.index(None)
    return shape.index(3)


@primitive("Cross")
def cross(b: Builder, x: Tensor, y: Tensor, dim: int = -65530) -> Value:
    """Split, and Mul and Sub of the parts."""
    longer = max(x, y, key=b.rank)
    axis = (_of_three(b.shape(longer)) if dim == -65530 else b.axis(dim, longer)) - b.rank(longer)
    x, y = promoted(b, x, y)
    first, second = (
        b.ops("Split", 3, x, axis=axis, num_outputs=3),
        b.ops("Split", 3, y, axis=axis, num_outputs=3),
    )
    parts = [
        b.op("Sub", b.op("Mul", first[i], second[j]), b.op("Mul", first[j], second[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return b.op("Concat", *parts, axis=axis)


@primitive("TridiagonalMatMul")
def tridiagonal_mat_mul(
    b: Builder, superdiag: Tensor, maindiag: Tensor, subdiag: Tensor, rhs: Tensor
) -> Value:
    """Mul of each diagonal with the rows it meets, and Add."""
    above, middle, below = (flipped(b, d) for d in (superdiag, maindiag, subdiag))
    none = [0] * (b.rank(rhs) - 2)
    after = b.op("Pad", rhs, [*none, -1, 0, *none, 1, 0])
    before = b.op("Pad", rhs, [*none, 1, 0, *none, -1, 0])
    ends = b.op("Add", b.op("Mul", above, after), b.op("Mul", below, before))
    return b.op("Add", b.op("Mul", middle, rhs), ends)


@primitive("Correlate")
def correlate(b: Builder, a: Tensor, v: Tensor, pad_mode: str = "valid") -> Value:
    """Conv of the longer with the shorter."""
    long, short = b.static_shape(a)[0], b.static_shape(v)[0]
    x, kernel = (a, v) if long >= short else (v, a)
    count = min(long, short)
    mode = {"0": "pad", "1": "same", "2": "valid", "3": "full"}.get(pad_mode, pad_mode)
    sides = {"valid": (0, 0), "same": (count // 2, count - count // 2 - 1), "full": (count - 1, count - 1)}
    if mode not in sides:
        raise Unsupported(f"has the pad_mode {pad_mode}")
    before, after = sides[mode] if long >= short else sides[mode][::-1]
    dtype = b.result(a)
    x, kernel = (b.op("Unsqueeze", b.cast(t, dtype), [0, 1]) for t in (x, kernel))
    y = b.op("Squeeze", b.op("Conv", x, kernel, pads=[before, after]), [0, 1])
    return y if long >= short else b.op("Slice", y, [-1], [int(np.iinfo(np.int64).min)], [0], [-1])


# -- distances -------------------------------------------------------------------------------------


@primitive("Cdist")
def cdist(b: Builder, x: Tensor, y: Tensor, p: float = 2.0) -> Value:
    """The norm of all differences."""
    return norm(b, b.op("Sub", b.op("Unsqueeze", x, [-2]), b.op("Unsqueeze", y, [-3])), p, [-1], False)


@primitive("Pdist")
def pdist(b: Builder, x: Tensor, p: float = 2.0) -> Value:
    """Gather of all pairs, and the norm of their differences."""
    rows = b.shape(x)[-2]
    if rows is None:
        count = counting(b, b.dim(x, -2))
        pairs = b.op("NonZero", b.op("Less", b.op("Unsqueeze", count, [1]), count))
        index = [b.op("Squeeze", part, [0]) for part in b.ops("Split", 2, pairs, [1, 1], axis=0)]
    else:
        index = [b.constant(part) for part in np.triu_indices(rows, 1)]
    first, second = (b.op("Gather", x, places, axis=-2) for places in index)
    return norm(b, b.op("Sub", first, second), p, [-1], False)


@primitive("Renorm")
def renorm(b: Builder, x: Tensor, p: float, dim: int, maxnorm: float) -> Value:
    """Mul with what makes the norm of the rest no more than maxnorm."""
    axes = [i for i in range(b.rank(x)) if i != b.axis(dim, x)]
    size = norm(b, x, p, axes, True) if axes else b.op("Abs", x)
    limit = b.op("Div", b.like(maxnorm, x), b.op("Add", size, 1e-7))
    return b.op("Mul", x, b.op("Where", b.op("Greater", size, maxnorm), limit, b.like(1.0, x)))


@primitive("ClipByNorm")
def clip_by_norm(b: Builder, x: Tensor, clip_norm: Tensor, *, axis: Ints | None = None) -> Value:
    """Mul with the bound, and Div by the norm, or by the bound where that is greater; in float32."""
    wide, bound = (b.cast(v, ir.DataType.FLOAT) for v in (x, clip_norm))
    largest = b.op("Max", reduce(b, "ReduceL2", wide, axis, True), bound)
    return b.cast(b.op("Div", b.op("Mul", wide, bound), largest), b.result(x))


# -- diagonals -------------------------------------------------------------------------------------


@primitive("Trace", "TraceExt")
def trace(b: Builder, x: Tensor) -> Value:
    """The sum of the diagonal."""
    return trace_v2(b, x, 0, 0, 1)


@primitive("TraceV2", unused="dtype")
def trace_v2(
    b: Builder, x: Tensor, offset: int = 0, axis1: int = 1, axis2: int = 0, dtype: Value = None
) -> Value:
    """The sum of a diagonal."""
    wide = b.cast(x, b.result(x))
    return reduce(b, "ReduceSum", diagonal_of(b, wide, offset, axis1, axis2), [-1], False)


def _tail(b: Builder, x: Tensor, count: int) -> tuple[int, ...]:
    """The last dimensions, which must be known now."""
    dims = tuple(d for d in b.shape(x)[-count:] if d is not None)
    if len(dims) != count:
        raise Unsupported(
            f"needs the last {count} dimensions fixed, and they are {list(b.shape(x)[-count:])}"
        )
    return dims


def _diagonal_places(rows: int, columns: int, offset: int) -> npt.NDArray[np.int64]:
    """Where a diagonal lies in a flat matrix."""
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - row, columns - column), 0)
    room(count)
    return (np.arange(count) + row) * columns + np.arange(count) + column


def _gathered(b: Builder, x: Tensor, folded: int, places: npt.NDArray[np.int64], *more: Tensor) -> Tensor:
    """Elements of the last `folded` dimensions as one; what `more` holds follows them."""
    lead = b.dims(x, stop=-folded)
    flat = b.reshape(x, [*lead, int(np.prod(_tail(b, x, folded)))]) if folded != 1 else x
    if more:
        parts = [b.op("Expand", m, b.vector([*lead, 1])) if b.rank(m) == 0 else m for m in more]
        flat = b.op("Concat", flat, *parts, axis=-1)
    return b.op("Gather", flat, places, axis=-1)


@primitive("MatrixBandPart")
def matrix_band_part(b: Builder, x: Tensor, lower: Tensor, upper: Tensor) -> Value:
    """Trilu twice: what lies further from the diagonal is 0."""
    whole = b.constant(1 << 30, np.int64)
    for limit, is_upper in ((lower, 1), (upper, 0)):
        known = b.known(limit)
        if known is not None and binding.int_(b, limit) < 0:
            continue
        far = b.scalar(b.cast(limit, ir.DataType.INT64))
        far = b.op("Where", b.op("Less", far, 0), whole, far)
        x = b.op("Trilu", x, b.op("Neg", far) if is_upper else far, upper=is_upper)
    return x


class _Diagonals:
    """How MindSpore packs the diagonals `first` to `last` of a matrix: one a row, the highest first."""

    def __init__(self, first: int, last: int, rows: int, columns: int, align: str) -> None:
        room(rows, columns)
        self.first, self.last, self.rows, self.columns = first, span(last - first) + first, rows, columns
        self.lengths = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in range(first, last + 1)}
        self.width = max(self.lengths.values())
        self.to_right = {True: align.startswith("RIGHT"), False: align.endswith("RIGHT")}

    def places(self) -> npt.NDArray[np.int64]:
        """(diagonals, width): where each element lies in the flat matrix, -1 where a row is filled up."""
        found = np.full(room(self.last - self.first + 1, self.width), -1)
        for d, count in self.lengths.items():
            start = self.width - count if self.to_right[d >= 0] else 0
            found[self.last - d, start : start + count] = _diagonal_places(self.rows, self.columns, d)
        return found

    def sources(self) -> npt.NDArray[np.int64]:
        """(rows, columns): where each element lies in the flat diagonals, -1 where it is on none."""
        found = np.full(self.rows * self.columns, -1)
        places = self.places()
        found[places[places >= 0]] = np.flatnonzero(places.reshape(-1) >= 0)
        return found.reshape(self.rows, self.columns)


def _band(k: Ints) -> tuple[int, int]:
    return k[0], k[-1]


@primitive("MatrixDiagV3")
def matrix_diag(
    b: Builder,
    x: Tensor,
    k: Ints,
    num_rows: int,
    num_cols: int,
    padding_value: Tensor,
    align: str = "RIGHT_LEFT",
) -> Value:
    """Gather, of the diagonals and of what fills up."""
    first, last = _band(k)
    folded = 1 if first == last else 2
    if first == last == 0 and num_rows < 0 and num_cols < 0 and b.shape(x)[-1] is None:
        places = counting(b, b.dim(x, -1))
        diagonal = b.op("Equal", b.op("Unsqueeze", places, [1]), places)
        return b.op("Where", diagonal, b.op("Unsqueeze", x, [-2]), b.scalar(padding_value))
    (width,) = _tail(b, x, 1)
    least = width - min(last, 0), width + max(first, 0)
    if num_rows < 0 and num_cols < 0:
        least = max(least), max(least)
    rows = least[0] if num_rows < 0 else num_rows
    columns = least[1] if num_cols < 0 else num_cols
    sources = _Diagonals(first, last, rows, columns, align).sources()
    count = (last - first + 1) * width
    return _gathered(b, x, folded, np.where(sources < 0, count, sources), b.scalar(padding_value))


@primitive("MatrixDiagPartV3")
def matrix_diag_part(
    b: Builder, x: Tensor, k: Ints, padding_value: Tensor, align: str = "RIGHT_LEFT"
) -> Value:
    """Gather, of the matrix and of what fills up."""
    first, last = _band(k)
    rows, columns = _tail(b, x, 2)
    places = _Diagonals(first, last, rows, columns, align).places()
    places = np.where(places < 0, rows * columns, places)
    return _gathered(b, x, 2, places[0] if first == last else places, b.scalar(padding_value))


@primitive("MatrixSetDiagV3")
def matrix_set_diag(b: Builder, x: Tensor, diagonal: Tensor, k: Ints, align: str = "RIGHT_LEFT") -> Value:
    """Gather, of the matrix and of the diagonals."""
    first, last = _band(k)
    rows, columns = _tail(b, x, 2)
    sources = _Diagonals(first, last, rows, columns, align).sources()
    own = np.arange(rows * columns).reshape(rows, columns)
    lead = b.dims(x, stop=-2)
    flat = diagonal if first == last else b.reshape(diagonal, [*lead, -1])
    return _gathered(b, x, 2, np.where(sources < 0, own, sources + rows * columns), flat)


@primitive("Det", "MatrixDeterminant")
def det(b: Builder, x: Tensor) -> Value:
    """Det."""
    return b.op("Det", x)


@primitive("LogMatrixDeterminant")
def log_det(b: Builder, x: Tensor) -> Value:
    """Det, its Sign, and Log of its Abs."""
    value = b.op("Det", x)
    return b.op("Sign", value), b.op("Log", b.op("Abs", value))
