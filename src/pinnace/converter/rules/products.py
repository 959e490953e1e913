"""Products of matrices as primitives (see `rules`)."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.common import Product
from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import rule
from pinnace.converter.rules.shapes import broadcast_to, typed
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Tensor
from pinnace.program import Dialect


def MatMul(op: Primitives, a: Tensor, b: Tensor) -> Tensor:
    """A MatMul, which MindSpore Lite 2.0 has for matrices, and for as many of them on either side."""
    if op.lite:
        return op.MatMulFusion(a, b)
    if op.dtype(a) in (ir.DataType.UINT32, ir.DataType.UINT64) or min(op.rank(a), op.rank(b)) < 2:
        return op.MatMulExt(a, b)
    (*many, rows, depth), (*others, _, width) = op.shape(a), op.shape(b)
    if many == others and op.rank(a) == op.rank(b) and None not in many:
        return op.BatchMatMul(a, b) if many else op.MatMul(a, b)
    if not others and None not in (depth, width) and (*many, rows).count(None) < 2:
        return _product_of_rows(op, a, b)
    if None in (*op.shape(a), *op.shape(b)):
        return op.MatMulExt(a, b)
    whole = np.broadcast_shapes(op.static_shape(a)[:-2], op.static_shape(b)[:-2])
    return op.BatchMatMul(*(broadcast_to(op, x, (*whole, *op.static_shape(x)[-2:])) for x in (a, b)))


def _product_of_rows(op: Primitives, a: Tensor, b: Tensor) -> Tensor:
    """The product of all rows of a tensor, of which one dimension may be free, with one matrix."""
    (*dims, depth), (_, width), dtype = op.shape(a), op.shape(b), op.dtype(a)
    rows = None if None in dims else math.prod(d for d in dims if d is not None)
    flat = typed(op, op.Reshape(a, (-1 if rows is None else rows, depth)), (dtype, (rows, depth)))
    made = typed(op, op.MatMul(flat, b), (dtype, (rows, width)))
    return op.Reshape(made, (*(-1 if d is None else d for d in dims), width))


@rule(Dialect.LITE)
def Gemm(op: Primitives, a: Tensor, b: Tensor, c: Tensor | None = None, *, given: Product) -> Tensor:
    constant = c is None or (op.known(c) is not None and op.rank(c) == 1)
    if given.alpha != 1 or given.beta != 1 or not is_float(op, a) or not constant:
        raise Unsupported(
            "scales, is of integers, or adds more than a constant vector, and MatMulFusion does neither"
        )
    rest = [] if c is None else [c]
    return op.MatMulFusion(a, b, *rest, transpose_a=bool(given.transA), transpose_b=bool(given.transB))
