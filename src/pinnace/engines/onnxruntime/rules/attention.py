"""Attention of several heads."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.constants import ints, number
from pinnace.graph.matching import is_float32, made_by, permuted, private, scaled

_LAST_AXIS = 13
"""The operator set since which the default axis of Softmax is the last; before, it was all but the first."""


def attention(b: Builder, node: ir.Node) -> ir.Value | None:
    """softmax(q @ k.T * s) @ v, heads and tokens swapped -> MultiHeadAttention.

    q, k and v are (batch, heads, tokens, size), usually transposed from (batch, tokens, heads, size), which
    the operator expects. It processes blocks of keys. With a mask it is not faster: the rule does not apply.
    """
    mixed = made_by(node.inputs[0], "MatMul") if permuted(node.outputs[0], 0, 2, 1, 3) else None
    softmax = None if mixed is None else made_by(mixed.inputs[0], "Softmax")
    if mixed is None or softmax is None or not private(node.inputs[0]) or not private(softmax.outputs[0]):
        return None
    scores, factor = scaled(softmax.inputs[0])
    product = made_by(scores, "MatMul")
    axis = softmax.attributes.get_int("axis", -1 if b.opset >= _LAST_AXIS else 1)
    if product is None or not private(scores) or axis not in (-1, 3):
        return None
    scale = 1.0 if factor is None else number(factor)
    q, turned, v = product.inputs[0], product.inputs[1], mixed.inputs[1]
    if q is None or turned is None or v is None or not scale or not is_float32(b, node.outputs[0]):
        return None
    return _attended(b, q, turned, v, scale)


def _attended(b: Builder, q: ir.Value, turned: ir.Value, v: ir.Value, scale: float) -> ir.Value | None:
    k = permuted(turned, 0, 1, 3, 2)
    keys = permuted(turned, 0, 2, 3, 1) if k is None else None
    sizes = _common(b.shape(q), _heads_first(b, k, keys), b.shape(v))
    if sizes is None:
        return None
    heads, size, last = sizes
    keys = keys if k is None else _tokens_first(b, k)
    values = _tokens_first(b, v)
    if keys is not None and values is not None:
        k, v = _joined(b, keys, heads * size), _joined(b, values, heads * last)
    elif k is None or size != last:  # with heads first the operator requires one size
        return None
    queries = _joined(b, _tokens_first(b, q) or b.transpose(q, (0, 2, 1, 3)), heads * size)
    y = b.op("MultiHeadAttention", queries, k, v, domain="com.microsoft", num_heads=heads, scale=scale)
    y.dtype = ir.DataType.FLOAT  # ONNX's inference does not know this operator
    return b.op("Reshape", y, [0, 0, heads, last])


def _heads_first(b: Builder, k: ir.Value | None, keys: ir.Value | None) -> tuple[int | None, ...]:
    """Return batch, heads, tokens and size of keys with heads or tokens first; () if both are None."""
    if k is not None or keys is None:
        return () if k is None else b.shape(k)
    batch, tokens, heads, size = b.shape(keys)
    return batch, heads, tokens, size


def _common(
    q: tuple[int | None, ...], k: tuple[int | None, ...], v: tuple[int | None, ...]
) -> tuple[int, int, int] | None:
    """Return heads, size, and size of values if batch and heads are known and equal; else None."""
    if not (len(q) == len(k) == len(v) == 4 and q[0] is not None and q[:2] == k[:2] == v[:2]):
        return None
    heads, size, last = q[1], q[3], v[3]
    return None if heads is None or size is None or last is None else (heads, size, last)


def _tokens_first(b: Builder, x: ir.Value) -> ir.Value | None:
    """Return `x` before a transpose of tokens and heads; None if there is none."""
    before = permuted(x, 0, 2, 1, 3)
    return _part(b, x) if before is None else before


def _part(b: Builder, x: ir.Value) -> ir.Value | None:
    """Return the same for a part of joint queries, keys and values (batch, tokens, parts, heads, size)."""
    gather, squeeze = made_by(x, "Gather"), made_by(x, "Squeeze")
    if gather is not None:
        source, which = gather.inputs[0], ints(gather.inputs[1])
        whole = gather.attributes.get_int("axis", 0) == 0 and which is not None and len(which) == 1
    else:
        taken = squeeze.inputs[0] if squeeze is not None and ints(squeeze.inputs[1]) == (0,) else None
        split = made_by(taken, "Split")
        if split is None or taken is None or split.inputs[0] is None:
            return None
        source, which = split.inputs[0], (taken.index() or 0,)
        whole = split.attributes.get_int("axis", 0) == 0 and b.shape(source)[0] == len(split.outputs)
    together = permuted(source, 2, 0, 3, 1, 4)
    if together is None or which is None or not whole:
        return None
    return b.op("Gather", together, b.constant(which[0], "int64"), axis=2)


def _joined(b: Builder, x: ir.Value, width: int) -> ir.Value:
    """Reshape (batch, tokens, heads, size) to (batch, tokens, heads · size)."""
    return b.op("Reshape", x, [0, 0, width])
