"""Products of matrices and vectors, distances, traces and determinants."""

from __future__ import annotations

import numpy as np

from pinnace.ops import binding
from pinnace.ops.builder import Builder
from pinnace.ops.diagonal import diagonal_of
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.math import beside, promoted
from pinnace.ops.nodes import ORIGIN
from pinnace.ops.reduce import reduce
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Unsupported, Value

# -- products --------------------------------------------------------------------------------------


@function
@primitive("BatchMatMul")
def matmul(b: Builder, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Gemm for two float matrices, which transposes on the way; else Transpose and MatMul."""
    x, y = promoted(b, x, y)
    flips = transpose_a or transpose_b
    if flips and b.rank(x) == b.rank(y) == 2 and b.dtype(x).is_floating_point():
        return b.op("Gemm", x, y, transA=int(transpose_a), transB=int(transpose_b))
    return b.op("MatMul", flipped(b, x) if transpose_a else x, flipped(b, y) if transpose_b else y)


@function
def flipped(b: Builder, x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    last = b.rank(x) - 1
    return b.transpose(x, [*range(last - 1), last, last - 1])


functions(
    __name__,
    """
    free_pairs: count ->
        # All pairs of rows.
        rows = counting(count)
        pairs = NonZero(Unsqueeze(rows, [1]) < rows)
        [Squeeze(part, [0]) for part in ops("Split", 2, pairs, [1, 1], axis=0)]
    cross: factors, place ->
        # The cross product along a dimension.
        a, c = [ops("Split", 3, v, axis=place, num_outputs=3) for v in factors]
        Concat(*[a[i] * c[j] - a[j] * c[i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=place)
    cross_of_free: factors ->
        # The same along the first dimension of size 3 in the run, the middle one of three by Reshape.
        size = Shape(factors[0])
        place = ArgMax(cast(size == 3, INT64), axis=0)
        before = ReduceProd(Concat([1], Slice(size, [0], place), axis=0))
        after = ReduceProd(Concat([1], Slice(size, place + 1, [rank(factors[0])]), axis=0))
        middle = Concat(before, [3], after, axis=0)
        Reshape(cross([Reshape(v, middle) for v in factors], 1), size)
    """,
)


formulas(
    __name__,
    """
    Addmm(False) Baddbmm(False) Addmv(False) Addbmm(True): summed, x, first, second, beta: Value = 1,
        alpha: Value = 1 ->
        # MatMul, Mul, Add; ReduceSum of the products of a batch for Addbmm.
        product = first @ second
        product = ReduceSum(product, [0], keepdims=0) if summed else product
        times(x, beta) + times(product, alpha)
    BiasAdd: x, bias, data_format: str = "NCHW" ->
        # A bias of the Conv or Gemm before it, else Add along the channels.
        merged = into_producer(x, bias)
        if merged is not None:
            return merged
        channels_last = data_format in ("1", "NHWC") or rank(x) == 2
        bias = reshape(bias, [-1, *[1] * (rank(x) - 2)]) if not channels_last and rank(x) > 2 else bias
        x + bias
    Cdist: x, y, p: float = 2.0 -> norm(Unsqueeze(x, [-2]) - Unsqueeze(y, [-3]), p, [-1], False)
    ClipByNorm: x, clip_norm, *, axis: Ints | None = None ->
        # Mul with the bound, and Div by the norm, or by the bound where that is greater; in float32.
        wide, bound = [cast(v, FLOAT) for v in (x, clip_norm)]
        largest = Max(reduce("ReduceL2", wide, axis, True), bound)
        cast(wide * bound / largest, result(x))
    Cross: x, y, dim: int = -65530 ->
        # Split, and Mul and Sub of the parts.
        longer = x if rank(x) >= rank(y) else y
        if dim != -65530:
            return cross(promoted(x, y), axis(dim, longer) - rank(longer))
        places = [i for i, size in enumerate(shape(longer)) if size in (3, None)]
        if len(places) > 1 and shape(longer)[places[0]] is None:
            return cross_of_free(promoted(x, y))
        if not places:
            raise Unsupported("has no dimension of size 3")
        cross(promoted(x, y), places[0] - rank(longer))
    Dense: x, weight, bias = None ->
        # Gemm for a matrix, else Transpose, MatMul and Add.
        if rank(x) == 2 and rank(weight) == 2 and is_float(x):
            return Gemm(x, weight, bias, transB=1)
        product = x @ (flipped(weight) if rank(weight) > 1 else weight)
        product if bias is None else product + bias
    Det MatrixDeterminant: x -> Det(x)
    Einsum: *items: Value, equation: str ->
        # Einsum.
        operands = items[0] if len(items) == 1 else items
        Einsum(*tensors(operands), equation=equation)
    EinsumExt: equation: str, operands: Tensors -> Einsum(*operands, equation=equation)
    LogMatrixDeterminant: x ->
        # Det, its Sign, and Log of its Abs.
        value = Det(x)
        (Sign(value), Log(Abs(value)))
    MatMul MatMulV2: x, y, transpose_a: bool = False, transpose_b: bool = False ->
        # Gemm, or MatMul.
        cast(matmul(x, y, transpose_a, transpose_b), result(x))
    MatMulExt BatchMatMulExt Mm Mv Dot Vdot: x, y -> MatMul(*promoted(x, y))
    Outer Ger: x, y -> Mul(*promoted(Unsqueeze(x, [1]), Unsqueeze(y, [0])))
    Pdist: x, p: float = 2.0 ->
        # Gather of all pairs, and the norm of their differences.
        rows = shape(x)[-2]
        fixed = [] if rows is None else [constant(v) for v in np.triu_indices(rows, 1)]
        first, second = fixed or free_pairs(dim(x, -2))
        norm(Gather(x, first, axis=-2) - Gather(x, second, axis=-2), p, [-1], False)
    Renorm: x, p: float, dim: int, maxnorm: float ->
        # Mul with what makes the norm of the rest no more than maxnorm.
        axes = [i for i in range(rank(x)) if i != axis(dim, x)]
        size = norm(x, p, axes, True) if axes else Abs(x)
        x * Where(size > maxnorm, like(maxnorm, x) / (size + 1e-7), 1.0)
    Trace TraceExt: x -> trace(x, 0, 0, 1)
    TransposeBatchMatmulTranspose: x, weight, perm_in: Ints, perm_out: Ints, transpose_a: bool = False,
        transpose_b: bool = False ->
        transpose(matmul(transpose(x, perm_in), weight, transpose_a, transpose_b), perm_out)
    TridiagonalMatMul: superdiag, maindiag, subdiag, rhs ->
        # Mul of each diagonal with the rows it meets, and Add.
        above, middle, below = [flipped(d) for d in (superdiag, maindiag, subdiag)]
        none = [0] * (rank(rhs) - 2)
        after = Pad(rhs, [*none, -1, 0, *none, 1, 0])
        before = Pad(rhs, [*none, 1, 0, *none, -1, 0])
        ends = above * after + below * before
        middle * rhs + ends
    """,
)


_BIASED = {"Conv", "ConvTranspose", "Gemm"}


@function
def _into_producer(b: Builder, x: Tensor, bias: Tensor) -> Tensor | None:
    node = x.producer()
    if node is None or node.op_type not in _BIASED or node.domain or len(node.inputs) != 2:
        return None
    attributes = {a.name: a.value for a in node.attributes.values()}
    b.origins = (*node.meta[ORIGIN], *b.origins)
    return b.op(node.op_type, *node.inputs, bias, **attributes)


@function
def _times(b: Builder, x: Tensor, factor: Value) -> Tensor:
    if b.known(factor) is not None and binding.float_(b, factor) == 1.0:
        return x
    return b.op("Mul", x, beside(b, factor, x))


@primitive("Correlate")
def correlate(b: Builder, a: Tensor, v: Tensor, pad_mode: str = "valid") -> Value:
    """Conv of the longer with the shorter."""
    long, short = b.static_shape(a)[0], b.static_shape(v)[0]
    x, kernel = (a, v) if long >= short else (v, a)
    count = min(long, short)
    mode = {"0": "pad", "1": "same", "2": "valid", "3": "full"}.get(pad_mode, pad_mode)
    sides = {"valid": (0, 0), "same": (count // 2, count - count // 2 - 1), "full": (count - 1, count - 1)}
    if mode not in sides:
        raise Unsupported(f"has the pad_mode {pad_mode}, which is not supported")
    before, after = sides[mode] if long >= short else sides[mode][::-1]
    dtype = b.result(a)
    x, kernel = (b.op("Unsqueeze", b.cast(t, dtype), [0, 1]) for t in (x, kernel))
    y = b.op("Squeeze", b.op("Conv", x, kernel, pads=[before, after]), [0, 1])
    return y if long >= short else b.op("Slice", y, [-1], [int(np.iinfo(np.int64).min)], [0], [-1])


# -- distances -------------------------------------------------------------------------------------


@function
@primitive("TraceV2", unused="dtype")
def trace(
    b: Builder, x: Tensor, offset: int = 0, axis1: int = 1, axis2: int = 0, dtype: Value = None
) -> Value:
    """The sum of a diagonal."""
    wide = b.cast(x, b.result(x))
    return reduce(b, "ReduceSum", diagonal_of(b, wide, offset, axis1, axis2), [-1], False)
