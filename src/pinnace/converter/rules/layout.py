"""Images in a `.ms`, which have their channels last, and in ONNX, which has them first as MindIR does.

A primitive for images is written over its input with channels last, and its result becomes a `Transpose` to
the order that ONNX has. `Primitives.channels_last` notes that both are one image, so the next primitive reads
the first of the two; elementwise primitives are written over those, too. What nobody reads is left out at the
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from pinnace.converter.finishing import Dequantized
from pinnace.converter.primitives import Primitives
from pinnace.ops.layout import keeps_bytes, reordered_weight, reshaped_weight
from pinnace.ops.table import Ints, Tensor

LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
IMAGE = 4
"""Dimensions of an image."""


def transposed(op: Primitives, x: Tensor, perm: Sequence[int]) -> Tensor:
    perm = tuple(perm)
    if perm == tuple(range(len(perm))):
        return x
    if perm == LAST and op.names.get(x) in op.channels_last:
        return op.channels_last[op.name(x)]
    if x.const_value is not None:
        return _weight(op, x.const_value, perm)
    y = op.Transpose(x, perm)
    if x.shape is not None:
        y.type, y.shape = x.type, ir.Shape([x.shape[p] for p in perm])
        op.declare(y)
    if op.mindir:
        return y
    if perm == LAST:
        op.channels_last[op.name(x)] = y
    if perm == _FIRST:
        op.channels_last[op.name(y)] = x
    return y


def _weight(op: Primitives, tensor: ir.TensorProtocol, perm: Ints) -> Tensor:
    """A weight with dimensions reordered when it is written."""
    if isinstance(tensor, Dequantized):
        return op.weight(tensor.turned(perm))
    dims = tensor.shape.numpy()
    if keeps_bytes(dims, perm):
        return reshaped_weight(op, tensor, tuple(dims[p] for p in perm))
    return op.weight(reordered_weight(tensor, perm))


def nhwc(op: Primitives, x: Tensor) -> Tensor:
    """An image of ONNX's as the file has it."""
    return x if op.mindir else transposed(op, x, LAST)


def nchw(op: Primitives, y: Tensor) -> Tensor:
    """An image of the file's as ONNX has it."""
    if op.mindir:
        return y
    if y.dtype is None and op.declared and op.declared[0] is not None:
        dtype, dims = op.declared[0]
        y.type = ir.TensorType(dtype)
        if dims is not None and len(dims) == IMAGE:
            y.shape = ir.Shape([dims[p] for p in LAST])
            op.declare(y)
    return transposed(op, y, _FIRST)


def over_images(
    op: Primitives, primitive: str, images: Sequence[Tensor], *others: Tensor, **attributes: Any
) -> Tensor:
    """A primitive that has the Format of its images, NCHW or NHWC, among its attributes."""
    attributes["format"] = 0 if op.mindir else 1
    return nchw(op, op.op(primitive, *(nhwc(op, x) for x in images), *others, **attributes))


def elementwise(op: Primitives, primitive: str, *x: Tensor, **attributes: Any) -> Tensor:
    """An elementwise primitive, over images with channels last if all are there already."""
    if any(op.names.get(operand) in op.channels_last for operand in x):
        images = [_as_image(op, operand) for operand in x]
        if None not in images:
            return nchw(op, op.op(primitive, *images, **attributes))
    return op.op(primitive, *x, **attributes)


def _as_image(op: Primitives, x: Tensor) -> Tensor | None:
    """An operand beside images with channels last, None where that takes a node more."""
    if op.names.get(x) in op.channels_last:
        return op.channels_last[op.name(x)]
    known = op.known(x)
    if known is None or known.ndim > IMAGE:
        return None
    if known.size == 1 or known.ndim == 0:
        return x
    return op.constant(known.reshape((1,) * (IMAGE - known.ndim) + known.shape).transpose(LAST))


def joined(op: Primitives, x: Sequence[Tensor], axis: int) -> Tensor:
    """A Concat, of images with channels last if all are there already."""
    last = [op.channels_last.get(op.names.get(image, "")) for image in x]
    if None in last:
        return op.Concat(*x, axis=axis)
    return nchw(op, op.Concat(*last, axis=LAST.index(axis % IMAGE)))


def reduction(op: Primitives, x: Tensor, axes: Ints, mode: int, keep_dims: bool) -> Tensor:
    """A reduction, of an image with channels last if that keeps the order of the others."""
    last = op.channels_last.get(op.names.get(x, ""))
    if last is not None and axes and (keep_dims or {a % IMAGE for a in axes} >= {2, 3}):
        moved = [LAST.index(a % IMAGE) for a in axes]
        y = op.ReduceFusion(last, moved, mode=mode, keep_dims=keep_dims)
        return nchw(op, y) if keep_dims else y
    return op.ReduceFusion(x, axes or tuple(range(op.rank(x))), mode=mode, keep_dims=keep_dims)
