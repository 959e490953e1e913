"""Products of matrices and vectors."""

from __future__ import annotations

from pinnace.ops.builder import Builder
from pinnace.ops.math import promoted
from pinnace.ops.reduce import norm
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value


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


@primitive("MatMul", "MatMulV2")
def mat_mul(b: Builder, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """Gemm, or MatMul."""
    return b.cast(matmul(b, x, y, transpose_a, transpose_b), b.result(x))


@primitive("BatchMatMul")
def batch_mat_mul(
    b: Builder, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Value:
    """MatMul, after Transpose where asked for."""
    return matmul(b, x, y, transpose_a, transpose_b)


@primitive("MatMulExt", "BatchMatMulExt", "Mm", "Mv", "Dot")
def mat_mul_ext(b: Builder, x: Tensor, y: Tensor) -> Value:
    """MatMul."""
    return b.op("MatMul", *promoted(b, x, y))


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
    return b.op(node.op_type, *node.inputs, bias, **attributes)


@primitive("Addmm", "Baddbmm", "Addbmm", "Addmv")
def addmm(b: Builder, x: Tensor, first: Tensor, second: Tensor, beta: Value = 1, alpha: Value = 1) -> Value:
    """MatMul, Mul, Add."""
    product = b.op("MatMul", first, second)
    return b.op("Add", _times(b, x, beta), _times(b, product, alpha))


def _times(b: Builder, x: Tensor, factor: Value) -> Tensor:
    known = b.known(factor)
    if known is not None and float(known) == 1.0:
        return x
    return b.op("Mul", x, b.cast(b.operand(factor, x), b.dtype(x)))


@primitive("Outer", "Ger")
def outer(b: Builder, x: Tensor, y: Tensor) -> Value:
    """Unsqueeze and Mul."""
    return b.op("Mul", *promoted(b, b.op("Unsqueeze", x, [1]), b.op("Unsqueeze", y, [0])))


@primitive("Einsum")
def einsum(b: Builder, equation: Value, *items: Value) -> Value:
    """Einsum."""
    if not isinstance(equation, str):
        equation, items = items[-1], (equation, *items[:-1])
    tensors = items[0] if len(items) == 1 and isinstance(items[0], tuple) else items
    return b.op("Einsum", *b.tensors(tensors), equation=equation)


@primitive("Cdist")
def cdist(b: Builder, x: Tensor, y: Tensor, p: float = 2.0) -> Value:
    """The norm of all differences."""
    return norm(b, b.op("Sub", b.op("Unsqueeze", x, [-2]), b.op("Unsqueeze", y, [-3])), p, [-1], False)


@primitive("Cross")
def cross(b: Builder, x: Tensor, y: Tensor, dim: int = -65530) -> Value:
    """Split, and Mul and Sub of the parts."""
    axis = next(i for i, d in enumerate(b.shape(x)) if d == 3) if dim == -65530 else dim
    first, second = (
        b.ops("Split", 3, x, axis=axis, num_outputs=3),
        b.ops("Split", 3, y, axis=axis, num_outputs=3),
    )
    parts = [
        b.op("Sub", b.op("Mul", first[i], second[j]), b.op("Mul", first[j], second[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return b.op("Concat", *parts, axis=axis)


@primitive("Trace", "TraceExt", "TraceV2")
def trace(b: Builder, x: Tensor) -> Value:
    """Einsum of the diagonal."""
    return b.op("Einsum", b.cast(x, b.result(x)), equation="ii->")


@primitive("Det", "MatrixDeterminant")
def det(b: Builder, x: Tensor) -> Value:
    """Det."""
    return b.op("Det", x)
