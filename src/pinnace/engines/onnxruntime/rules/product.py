"""Order of products of three matrices."""

from __future__ import annotations

import math

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.matching import made_by, private, scaled

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
