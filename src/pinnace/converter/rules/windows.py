"""Convolutions and pools as primitives (see `rules`).

MindSpore Lite 2.0 reads the padding that is written for MindSpore, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.windows import Windows
from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import operators, rule
from pinnace.converter.rules.layout import IMAGE, over_images
from pinnace.converter.rules.shapes import typed
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Tensor
from pinnace.ops.values import Value
from pinnace.program import Dialect


def _check_image(op: Primitives, x: Tensor) -> None:
    if op.rank(x) != IMAGE:
        raise Unsupported("is not over two dimensions, as Lite's primitive is")


# -- convolutions ----------------------------------------------------------------------------------


def Conv(op: Primitives, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, given: Windows) -> Tensor:
    size = op.rank(x) - 2
    if size not in ((2,) if op.lite else (2, 3)):
        raise Unsupported(f"is over {size} dimensions, and the primitives over 2, MindSpore's over 3, too")
    over = given.over(size).in_run(op, x)
    if op.mindspore:
        return _convolved(op, x, weight, bias, over)
    outputs, inputs, *_ = op.static_shape(weight)
    sizes = {"in_channel": inputs * over.group, "out_channel": outputs}
    return _convolved_in_lite(op, "Conv2DFusion", x, weight, bias, over, sizes)


def _convolved(op: Primitives, x: Tensor, weight: Tensor, bias: Tensor | None, over: Windows) -> Tensor:
    channels, _, *kernel = op.static_shape(weight)
    pads = over.in_pairs()
    unit = (1, 1) if len(kernel) == 2 else ()
    more: dict[str, Any] = {}
    if not unit:
        more = {"strides": (1, 1, *over.strides), "dilations": (1, 1, *over.dilations)}
    y = op.op(
        f"Conv{len(kernel)}D",
        x,
        weight,
        out_channel=channels,
        kernel_size=tuple(kernel),
        mode=1,
        pad_mode="same" if over.itself else "pad",
        pad=pads,
        pad_list=pads,
        stride=(*unit, *over.strides),
        dilation=(*unit, *over.dilations),
        group=over.group,
        groups=over.group,
        **more,
    )
    typed(op, y, (op.dtype(x), None))
    if bias is None:
        return y
    if unit:
        return op.BiasAdd(y, bias, 0)
    return op.Add(y, op.Reshape(bias, (-1, 1, 1, 1)))  # MindSpore loads no BiasAdd of volumes


@rule(Dialect.LITE)
def ConvTranspose(
    op: Primitives, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, given: Windows
) -> Tensor:
    _check_image(op, x)
    if given.output_shape:
        raise Unsupported("has an output_shape, which Lite's primitive lacks")
    inputs, outputs, *_ = op.static_shape(weight)
    sizes: dict[str, Any] = {"in_channel": inputs, "out_channel": outputs * given.group}
    sizes |= {"output_paddings": given.output_padding or (0, 0)}
    return _convolved_in_lite(op, "Conv2dTransposeFusion", x, weight, bias, given.over(2), sizes)


def _convolved_in_lite(
    op: Primitives,
    primitive: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    over: Windows,
    sizes: dict[str, Any],
) -> Tensor:
    pads = over.in_pairs()
    return over_images(
        op,
        primitive,
        [x, weight],
        *([] if bias is None else [bias]),
        kernel_size=op.static_shape(weight)[2:],
        stride=over.strides,
        dilation=over.dilations,
        pad_mode=int(over.itself),
        pad_list=pads,
        group=over.group,
        **sizes,
    )


@rule(Dialect.MINDSPORE)
def DeformConv(
    op: Primitives,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    offset_group: int = 1,
    given: Windows,
) -> Tensor:
    """A convolution of one image with the elements at the places of a kernel and their offsets."""
    if op.rank(x) != 4:
        raise Unsupported(f"is over {op.rank(x) - 2} dimensions, and MindSpore's DeformableOffsets over 2")
    over, kernel = given.over(2), op.static_shape(weight)[2:]
    batch, _, rows, columns = op.static_shape(offset)
    count = offset_group * math.prod(kernel)
    pairs = op.Reshape(offset, (batch, count, 2, rows, columns))
    down, right = (op.Gather(pairs, op.constant(i, np.int64), 2) for i in (0, 1))
    if mask is None:
        mask = op.constant(np.ones((batch, count, rows, columns)), op.dtype(x).numpy())
    taken = op.DeformableOffsets(
        x,
        op.Concat((right, down, mask), 1),
        strides=(1, 1, *over.strides),
        pads=over.in_pairs(),
        ksize=kernel,
        dilations=(1, 1, *over.dilations),
        deformable_groups=offset_group,
    )
    typed(op, taken, (op.dtype(x), None))
    return _convolved(op, taken, weight, bias, Windows(strides=kernel, group=given.group).over(2))


# -- pools -----------------------------------------------------------------------------------------


@rule(Dialect.MINDSPORE)
def MaxPool(op: Primitives, x: Tensor, *, given: Windows) -> Value:
    over, pads = given.over(2).in_run(op, x), given.over(2).pads
    if op.rank(x) != 4 or over.auto_pad != "NOTSET":
        raise Unsupported("is not over two dimensions, or has an auto_pad that depends on the size")
    if len(op.declared) > 1:
        return _with_places(op, x, over)
    if not is_float(op, x):
        raise Unsupported("is of integers, and MindSpore's MaxPool of floats")
    same = over.itself or (any(pads) and _is_same(op, x, over))
    if (any(pads) and not same) or over.ceil_mode or max(over.dilations) > 1:
        raise Unsupported("pads, rounds up, or has gaps in its windows, and MindSpore's MaxPool does not")
    sizes: dict[str, Any] = {"kernel_size": (1, 1, *over.kernel_shape), "strides": (1, 1, *over.strides)}
    return op.MaxPool(x, **sizes, pad_mode="SAME" if same else "VALID")


def _is_same(op: Primitives, x: Tensor, over: Windows) -> bool:
    """True for the padding of SAME_UPPER, which MindSpore's MaxPool computes itself."""
    same = over.but(auto_pad="SAME_UPPER", dilations=(1, 1))
    return over.pads == same.explicit(op, x, over.kernel_shape)


def _with_places(op: Primitives, x: Tensor, over: Windows) -> tuple[Tensor, Tensor]:
    """A MaxPool, and where in the whole tensor each element comes from."""
    pads = over.pads
    batch, channels, height, width = op.static_shape(x)
    if pads[:2] != pads[2:] or any(2 * p > k for p, k in zip(pads, over.kernel_shape, strict=False)):
        raise Unsupported(
            f"pads by {pads}, and MaxPoolWithArgmaxV2 by the same on both sides, at most half a window"
        )
    sizes: dict[str, Any] = {"kernel_size": (1, 1, *over.kernel_shape), "strides": (1, 1, *over.strides)}
    sizes |= {"pads": (1, 1, *pads[:2]), "dilation": (1, 1, *over.dilations)}
    sizes |= {"ceil_mode": bool(over.ceil_mode), "argmax_type": number_of(ir.DataType.INT64)}
    y, at = op.ops("MaxPoolWithArgmaxV2", 2, x, **sizes)
    if over.storage_order:
        size = op.constant(width, np.int64)
        at = op.Add(op.Mul(op.FloorMod(at, size), op.constant(height, np.int64)), op.FloorDiv(at, size))
    first = np.arange(batch * channels).reshape(batch, channels, 1, 1) * height * width
    return y, op.Add(at, op.constant(first, np.int64))


@rule(Dialect.MINDSPORE)
def AveragePool(op: Primitives, x: Tensor, *, given: Windows) -> Tensor:
    over = given.over(2).in_run(op, x)
    rounded = over.ceil_mode or max(over.dilations) > 1 or (over.itself and over.count_include_pad)
    if op.rank(x) != 4 or over.auto_pad != "NOTSET" or any(over.pads) or rounded:
        raise Unsupported(
            "pads, rounds up, has gaps in its windows, or is not over two dimensions, as AvgPool is"
        )
    return op.AvgPool(x, over.kernel_shape, over.strides, *["SAME"] * over.itself)


@operators(only=Dialect.LITE, MaxPool="MaxPoolFusion", AveragePool="AvgPoolFusion")
def _pool(op: Primitives, primitive: str, x: Tensor, *, given: Windows) -> Tensor:
    _check_image(op, x)
    over = given.over(2).in_run(op, x)
    if max(over.dilations) > 1 or (over.count_include_pad and any(over.pads)):
        raise Unsupported("has dilations, or counts its padding, and Lite's pools do not")
    return over_images(
        op,
        primitive,
        [x],
        kernel_size=over.kernel_shape,
        strides=over.strides,
        pad_mode=int(over.itself),
        pad=over.in_pairs(),
        round_mode=over.ceil_mode,
    )


@operators(only=Dialect.LITE, GlobalMaxPool="MaxPoolFusion", GlobalAveragePool="AvgPoolFusion")
def _whole_pool(op: Primitives, primitive: str, x: Tensor) -> Tensor:
    _check_image(op, x)
    whole: dict[str, Any] = {"strides": (1, 1), "pad": (0, 0, 0, 0), "global": True}
    return over_images(op, primitive, [x], **whole)
