"""Products of matrices: the order of three, and sums of rows as one."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.constants import ints
from pinnace.graph.matching import is_float32, made_by, private, scaled

_MIN_PRODUCTS = 1 << 20
"""Multiplications from which on the rule applies."""


def product_of_three(b: Builder, node: ir.Node) -> ir.Value | None:
    """(a @ b) @ c -> a @ (b @ c) if that takes less than half of the multiplications.

    Attention that could be linear in the number of tokens is often written in the other order; in CoaT these
    products took 70 % of the time.
    """
    c = node.inputs[1]
    product, factor = scaled(node.inputs[0])
    inner = made_by(product, "MatMul")
    if inner is None or c is None or not private(product):
        return None
    left, right = inner.inputs
    if left is None or right is None or not _pays(*(b.static_shape(x) for x in (left, right, c))):
        return None
    y = b.op("MatMul", left, b.op("MatMul", right, c))
    return y if factor is None else b.op("Mul", y, factor)


def _pays(left: tuple[int, ...], right: tuple[int, ...], c: tuple[int, ...]) -> bool:
    if not left[:-2] == right[:-2] == c[:-2] or min(len(left), len(right), len(c)) < 2:
        return False
    m, k = left[-2:]
    n, p = c[-2:]
    now, then = m * k * n + m * n * p, k * n * p + m * k * p
    return math.prod(left[:-2]) * now > _MIN_PRODUCTS and then < now / 2


def sum_of_rows(b: Builder, node: ir.Node) -> ir.Value | None:
    """ReduceSum, ReduceMean, ReduceL2, ReduceSumSquare over all rows of a matrix -> MatMul with ones.

    The summed dimensions must be adjacent, with none but dimensions of size 1 before them.
    """
    x, axes = node.inputs[0], ints(node.inputs[1]) if len(node.inputs) > 1 else None
    if x is None or not axes or not is_float32(b, x):
        return None
    shape = b.static_shape(x)
    over = sorted(range(len(shape))[a] for a in axes)
    first, last = over[0], over[-1] + 1
    rows, columns = math.prod(shape[first:last]), math.prod(shape[last:])
    if over != list(range(first, last)) or math.prod(shape[:first]) != 1 or rows < 2:
        return None
    matrix = b.reshape(x, [rows, columns])
    if node.op_type in ("ReduceL2", "ReduceSumSquare"):
        matrix = b.op("Mul", matrix, matrix)
    share = 1 / rows if node.op_type == "ReduceMean" else 1
    y = b.op("MatMul", b.constant(np.full((1, rows), share, np.float32)), matrix)
    if node.op_type == "ReduceL2":
        y = b.op("Sqrt", y)
    kept = [1] * (last - first) if node.attributes.get_int("keepdims", 1) else []
    return b.reshape(y, [*shape[:first], *kept, *shape[last:]])
