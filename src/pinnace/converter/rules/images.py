"""Images in a `.ms`, which have their channels last, and in ONNX, which has them first as MindIR does.

A primitive for images is written over its input with channels last, and its result becomes a `Transpose` to the
order that ONNX has. `Primitives.turned` notes that both are one image, so the next primitive reads the first
of the two; elementwise primitives are written over those, too. What nobody reads is left out at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.integers import Dequantised
from pinnace.converter.primitives import Primitives
from pinnace.ops.formulas import function
from pinnace.ops.layout import keeps_bytes, reordered_weight, reshaped_weight

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_RANK = 4


@function
def turned(b: Primitives, x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """A tensor with dimensions reordered."""
    perm = tuple(perm)
    if perm == tuple(range(len(perm))):
        return x
    if perm == _LAST and b.names.get(x) in b.channels_last:
        return b.channels_last[b.name(x)]
    if x.const_value is not None:
        return _weight(b, x.const_value, perm)
    y = b.op("Transpose", x, b.constant(perm, np.int32))
    if x.dtype is not None and x.shape is not None:
        y.type, y.shape = x.type, ir.Shape([x.shape[p] for p in perm])
        b.declare(y)
    if b.mindir:
        return y
    if perm == _LAST:
        b.channels_last[b.name(x)] = y
    if perm == _FIRST:
        b.channels_last[b.name(y)] = x
    return y


def _weight(b: Primitives, tensor: ir.TensorProtocol, perm: tuple[int, ...]) -> ir.Value:
    """A weight with dimensions reordered when it is written."""
    if isinstance(tensor, Dequantised):
        return b.weight(tensor.turned(perm))
    dims = tensor.shape.numpy()
    if keeps_bytes(dims, perm):
        return reshaped_weight(b, tensor, tuple(dims[p] for p in perm))
    return b.weight(reordered_weight(tensor, perm))


@function
def nhwc(b: Primitives, x: ir.Value) -> ir.Value:
    """An image of ONNX's as the file has it."""
    return x if b.mindir else turned(b, x, _LAST)


@function
def nchw(b: Primitives, y: ir.Value) -> ir.Value:
    """An image of the file's as ONNX has it."""
    if b.mindir:
        return y
    if y.dtype is None and b.declared and b.declared[0] is not None:
        dtype, dims = b.declared[0]
        y.type = ir.TensorType(dtype)
        if dims is not None and len(dims) == _RANK:
            y.shape = ir.Shape([dims[p] for p in _LAST])
            b.declare(y)
    return turned(b, y, _FIRST)


@function
def over(b: Primitives, primitive: str, *x: ir.Value, **attributes: Any) -> ir.Value:
    """An elementwise primitive, over images with channels last if all are there already."""
    images = [_as_image(b, operand) for operand in x]
    if any(b.names.get(operand) in b.channels_last for operand in x) and None not in images:
        return nchw(b, b.op(primitive, *images, **attributes))
    return b.op(primitive, *x, **attributes)


def _as_image(b: Primitives, x: ir.Value) -> ir.Value | None:
    """An operand beside images with channels last, None where that takes a node more."""
    if b.names.get(x) in b.channels_last:
        return b.channels_last[b.name(x)]
    known = b.known(x)
    if known is None or known.ndim > _RANK:
        return None
    if known.size == 1 or known.ndim == 0:
        return x
    return b.constant(known.reshape((1,) * (_RANK - known.ndim) + known.shape).transpose(_LAST))


@function
def joined(b: Primitives, x: Sequence[ir.Value], axis: int) -> ir.Value:
    """A Concat, of images with channels last if all are there already."""
    last = [b.channels_last.get(b.names.get(image, "")) for image in x]
    if None in last:
        return b.op("Concat", *x, axis=axis)
    return nchw(b, b.op("Concat", *last, axis=_LAST.index(axis % _RANK)))


@function
def reduction(b: Primitives, x: ir.Value, axes: tuple[int, ...], mode: int, keep_dims: bool) -> ir.Value:
    """A reduction, of an image with channels last if that keeps the order of the others."""
    last = b.channels_last.get(b.names.get(x, ""))
    if last is not None and axes and (keep_dims or {a % _RANK for a in axes} >= {2, 3}):
        moved = b.constant([_LAST.index(a % _RANK) for a in axes], np.int32)
        y = b.op("ReduceFusion", last, moved, mode=mode, keep_dims=keep_dims)
        return nchw(b, y) if keep_dims else y
    places = b.constant(list(axes) or list(range(b.rank(x))), np.int32)
    return b.op("ReduceFusion", x, places, mode=mode, keep_dims=keep_dims)


@function
def padded_image(
    b: Primitives, x: ir.Value, both: Sequence[int], *fill: ir.Value, **attributes: Any
) -> ir.Value:
    """A Pad, of an image with channels last if it is there already; `both` is before and after each dimension."""
    pairs = np.reshape(both, (2, -1)).T
    last = b.channels_last.get(b.names.get(x, ""))
    if b.mindir or (last is None and (len(pairs) != _RANK or pairs[:2].any())):
        return b.op("PadFusion", x, b.constant(pairs, np.int32), *fill, **attributes)
    moved = b.constant(pairs[list(_LAST)], np.int32)
    return nchw(b, b.op("PadFusion", nhwc(b, x), moved, *fill, **attributes))
