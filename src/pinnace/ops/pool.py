"""Pooling, with the places of the largest or without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.conv import (
    edges,
    images_back,
    images_first,
    is_last,
    is_same,
    reached,
    spatial,
    unbatched,
    window,
)
from pinnace.ops.table import Ints, Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value


@primitives(
    {"MaxPool MaxPoolV1": ("MaxPool", 2), "AvgPool AvgPoolV1": ("AveragePool", 2)}, unused="padding ksize"
)
def pool(
    b: Builder,
    op_type: str,
    rank: int,
    x: Tensor,
    kernel_size: Ints = (1,),
    strides: Ints = (1,),
    pad_mode: str = "VALID",
    format: str = "NCHW",
) -> Value:
    """{op_type}; padding does not count."""
    last = is_last(format)
    kernel, steps = spatial(kernel_size, rank, last), spatial(strides, rank, last)
    padding = window(pad_mode, (0,), rank)
    image = reached(b, images_first(b, x, format), kernel, steps, padding)
    y = b.op(op_type, image, kernel_shape=kernel, strides=steps, **padding)
    return images_back(b, y, format)


@primitive("MaxPool3D")
def max_pool_3d(
    b: Builder,
    x: Tensor,
    kernel_size: Ints = (1,),
    strides: Ints = (1,),
    pad_mode: str = "VALID",
    pad_list: Ints = (0,),
    ceil_mode: int = 0,
) -> Value:
    """MaxPool."""
    kernel, steps, padding = spatial(kernel_size, 3), spatial(strides, 3), window(pad_mode, pad_list, 3)
    x = reached(b, x, kernel, steps, padding)
    return b.op("MaxPool", x, kernel_shape=kernel, strides=steps, ceil_mode=int(bool(ceil_mode)), **padding)


@primitive("AvgPool3D", unused="pad")
def avg_pool_3d(
    b: Builder,
    x: Tensor,
    kernel_size: Ints = (1,),
    strides: Ints = (1,),
    pad_mode: str = "VALID",
    pad_list: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
) -> Value:
    """AveragePool."""
    padding = window(pad_mode, pad_list, 3)
    kernel = spatial(kernel_size, 3)
    return average(b, x, kernel, strides, padding, ceil_mode, count_include_pad, divisor_override)


def average(
    b: Builder,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: dict[str, Any],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """AveragePool; with a divisor of its own, what it gives for the whole window is scaled."""
    steps = spatial(strides, len(kernel))
    if ceil_mode and not divisor:
        kernel = _within(b, x, kernel, padding)
    if ceil_mode and divisor:
        padding, ceil_mode = _overhanging(b, x, kernel, steps, padding), False
    pooled = b.op(
        "AveragePool",
        reached(b, x, kernel, steps, padding),
        kernel_shape=list(kernel),
        strides=steps,
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad or bool(divisor)),
        **padding,
    )
    return b.op("Mul", pooled, float(np.prod(kernel)) / divisor) if divisor else pooled


def _within(b: Builder, x: Tensor, kernel: Sequence[int], padding: dict[str, Any]) -> list[int]:
    """A window no longer than an image with its padding: ONNX has none that is."""
    rank = len(kernel)
    pads = padding.get("pads") or [0] * 2 * rank
    lengths = [None if n is None else n + pads[i] + pads[i + rank] for i, n in enumerate(b.shape(x)[-rank:])]
    return [k if n is None else min(k, n) for k, n in zip(kernel, lengths, strict=True)]


def _overhanging(
    b: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], padding: dict[str, Any]
) -> dict[str, Any]:
    """Padding that takes in where windows hang over the end: such a window counts as whole."""
    rank = len(kernel)
    lengths = [n for n in b.shape(x)[-rank:] if n is not None]
    if len(lengths) != rank:
        raise Unsupported("needs the size of the image fixed for a divisor together with ceil_mode")
    pads = padding.get("pads") or [0] * 2 * rank
    ends = []
    for n, k, s, before, after in zip(lengths, kernel, steps, pads[:rank], pads[rank:], strict=True):
        count = -(-(n + before + after - k) // s) + 1
        # The last window has to begin before the padding at the end.
        count -= (count - 1) * s >= n + before
        ends.append(max((count - 1) * s + k - n - before, after))
    return {"pads": [*pads[:rank], *ends]}


@primitives({"AvgPool1D": 1, "AvgPool2D": 2, "AvgPool3DExt": 3})
def average_ext(
    b: Builder,
    rank: int,
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """AveragePool; an input without batch gets one on the way."""
    kernel, sides = spatial(kernel_size, rank), window("pad", padding, rank)
    return unbatched(
        b,
        x,
        rank,
        lambda x: average(
            b, x, kernel, stride or kernel, sides, ceil_mode, count_include_pad, divisor_override
        ),
    )


# -- with the places of the largest ----------------------------------------------------------------


def with_indices(
    b: Builder,
    x: Tensor,
    kernel: list[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    """MaxPool, and the places of its results, counted within a channel."""
    rank = len(kernel)
    value, place = b.ops(
        "MaxPool",
        2,
        x,
        kernel_shape=kernel,
        strides=spatial(strides, rank),
        pads=edges(pads, rank),
        dilations=spatial(dilation, rank),
        ceil_mode=int(ceil_mode),
    )
    # ONNX counts through the whole tensor.
    within = b.op("Mod", place, _area(b, x, rank))
    return value, b.cast(within, b.result(within, 1))


def _area(b: Builder, x: Tensor, rank: int) -> Tensor:
    """The number of places of a channel."""
    known = [d for d in b.shape(x)[-rank:] if d is not None]
    if len(known) == rank:
        return b.constant(int(np.prod(known)), np.int64)
    return b.op("ReduceProd", b.op("Shape", x, start=-rank), keepdims=0)


@primitive("MaxPoolWithArgmaxV2", "MaxPoolWithMask", "MaxPoolWithIndices", unused="argmax_type")
def max_pool_with_indices(
    b: Builder,
    x: Tensor,
    kernel_size: Ints,
    strides: Ints | None = None,
    pads: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
    argmax_type: int = 35,
) -> Value:
    """MaxPool, its indices counted within a channel."""
    kernel = spatial(kernel_size, 2)
    return with_indices(b, x, kernel, strides or kernel, spatial(pads, 2), dilation, ceil_mode)


@primitive("MaxPoolWithArgmax", unused="padding ksize")
def max_pool_with_argmax(
    b: Builder, x: Tensor, kernel_size: Ints, strides: Ints, pad_mode: str = "VALID", format: str = "NCHW"
) -> Value:
    """MaxPool, its indices counted within a channel."""
    if is_last(format):
        raise Unsupported("has its channels last")
    kernel, steps = spatial(kernel_size, 2, True), spatial(strides, 2, True)
    if is_same(pad_mode):
        raise Unsupported("pads as SAME")
    return with_indices(b, x, kernel, steps, (0, 0), (1,), False)


@primitive("MaxPool3DWithArgmax", unused="argmax_type")
def max_pool_3d_with_argmax(
    b: Builder,
    x: Tensor,
    ksize: Ints,
    strides: Ints = (1,),
    pads: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> Value:
    """MaxPool, its indices counted within a channel; of integers at least 0, as MindSpore has it."""
    x = b.op("Max", x, b.like(0, x)) if b.dtype(x).is_integer() else x
    return with_indices(b, x, spatial(ksize, 3), strides, spatial(pads, 3), dilation, ceil_mode)


@primitives({"MaxUnpool2D": 2, "MaxUnpool3D": 3})
def unpool(
    b: Builder,
    rank: int,
    x: Tensor,
    argmax: Tensor,
    ksize: Ints = (1,),
    strides: Ints = (0,),
    pads: Ints = (0,),
    output_shape: Ints = (),
) -> Value:
    """ScatterElements into zeros."""
    kernel = spatial(ksize, rank)
    steps = spatial(strides, rank) if any(strides) else kernel
    return _unpooled(b, x, argmax, kernel, steps, spatial(pads, rank), output_shape[-rank:])


@primitive("MaxUnpool2DExt")
def max_unpool_2d_ext(
    b: Builder,
    x: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = (0,),
    output_size: Ints | None = None,
) -> Value:
    """ScatterElements into zeros."""
    kernel = spatial(kernel_size, 2)
    sizes = output_size[-2:] if output_size else ()
    return _unpooled(b, x, indices, kernel, spatial(stride or kernel, 2), spatial(padding, 2), sizes)


def _unpooled(
    b: Builder,
    x: Tensor,
    places: Tensor,
    kernel: Sequence[int],
    steps: Sequence[int],
    pads: Sequence[int],
    sizes: Sequence[int | Tensor],
) -> Tensor:
    rank = len(kernel)
    lead = b.dims(x, stop=-rank)
    if not sizes:
        ends = [k - s - 2 * p for k, s, p in zip(kernel, steps, pads, strict=True)]
        lengths = b.dims(x, -rank)
        sizes = [_grown(b, *of_axis) for of_axis in zip(lengths, steps, ends, strict=True)]
    count = b.op("ReduceProd", b.vector(sizes), keepdims=0)
    zeros = b.op(
        "ConstantOfShape", b.vector([*lead, count]), value=ir.tensor(np.zeros(1, b.dtype(x).numpy()))
    )
    flat = [b.reshape(v, [*lead, -1]) for v in (b.cast(places, ir.DataType.INT64), x)]
    return b.reshape(b.op("ScatterElements", zeros, *flat, axis=len(lead)), [*lead, *sizes])


def _grown(b: Builder, length: int | Tensor, step: int, end: int) -> int | Tensor:
    if isinstance(length, int):
        return length * step + end
    return b.op("Add", b.op("Mul", length, step), end)
