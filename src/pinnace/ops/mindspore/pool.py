"""Pooling, with the places of the largest or without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.windows import overhang
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.mindspore.conv import edges, layout_of, pad_mode_of, reached, spatial, unbatched, window
from pinnace.ops.table import Arguments, Ints, Tensor, primitive, primitives
from pinnace.ops.values import INT64, Value
from pinnace.program import Layout


class _Pooling(Arguments):
    """Window of a pool, its steps, padding and layout, and what counts in a mean."""

    kernel_size: Ints = (1,)
    strides: Ints = (1,)
    pad_mode: str = "VALID"
    pad_list: Ints = (0,)
    format: str = "NCHW"
    ceil_mode: int = 0
    count_include_pad: bool = True
    divisor_override: int = 0


@primitives(
    {
        "MaxPool MaxPoolV1": ("MaxPool", 2),
        "MaxPool3D": ("MaxPool", 3),
        "AvgPool AvgPoolV1": ("AveragePool", 2),
        "AvgPool3D": ("AveragePool", 3),
    },
    unused="padding ksize pad",
)
def pool(op: Builder, op_type: str, rank: int, x: Tensor, *, pooling: _Pooling) -> Value:
    layout = layout_of(pooling.format)
    last = layout is Layout.NHWC
    kernel, steps = spatial(pooling.kernel_size, rank, last), spatial(pooling.strides, rank, last)
    padding = window(pooling.pad_mode, pooling.pad_list, rank)
    image, rounding_up = channels_first(op, x, layout), bool(pooling.ceil_mode)
    if op_type == "MaxPool":
        image, padding = _taking_up(op, image, padding)
        image = reached(op, image, kernel, steps, padding)
        y = op.MaxPool(image, kernel_shape=kernel, strides=steps, ceil_mode=rounding_up, **padding)
    else:
        counted = pooling.count_include_pad and rank == 3  # padding of AvgPool does not count
        y = average(op, image, kernel, steps, padding, rounding_up, counted, pooling.divisor_override)
    return channels_back(op, y, x, layout)


def above_zero(x: ir.Value) -> bool:
    """Return whether no element of a tensor is below zero, as far as the node that makes it tells."""
    node = x.producer()
    if node is not None and node.op_type == "Clip" and node.domain == "":
        least = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
        return least is not None and bool(least.numpy() >= 0)
    return node is not None and (node.op_type, node.domain) in {("Relu", ""), ("Sigmoid", ""), ("Abs", "")}


def _taking_up(op: Builder, x: Tensor, padding: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Return the image and the padding of a MaxPool, which takes up a Pad with zeros where nothing is less.

    Converters write both, because MindSpore's MaxPool does not pad.
    """
    node, size = x.producer(), op.rank(x) - 2
    if padding or node is None or node.op_type != "Pad" or node.domain:
        return x, padding
    given = [op.known(v) if v is not None else None for v in (*node.inputs[1:], None, None)][:2]
    mode = node.attributes.get_string("mode", "constant")
    image, pads, filler = node.inputs[0], *given
    if image is None or pads is None or len(node.inputs) > 3 or mode != "constant" or not above_zero(image):
        return x, padding
    rows = pads.reshape(2, -1)
    if (
        rows.shape[1] != size + 2
        or rows.min() < 0
        or rows[:, :2].any()
        or (filler is not None and filler != 0)
    ):
        return x, padding
    return image, {"pads": [int(n) for n in rows[:, 2:].reshape(-1)]}


@primitives({"AvgPool1D": 1, "AvgPool2D": 2, "AvgPool3DExt": 3})
def average_ext(
    op: Builder,
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
    steps = spatial(stride or kernel, rank)

    def pooled(x: Tensor) -> Tensor:
        return average(op, x, kernel, steps, sides, ceil_mode, count_include_pad, divisor_override)

    return unbatched(op, x, rank, pooled)


def average(
    op: Builder,
    x: Tensor,
    kernel: Sequence[int],
    steps: Sequence[int],
    padding: dict[str, Any],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """AveragePool; with a divisor of its own, what it gives for the whole window is scaled."""
    ceil_mode = ceil_mode and "auto_pad" not in padding  # SAME has as many windows either way
    if ceil_mode and not divisor:
        kernel = _within(op, x, kernel, padding)
    if ceil_mode and divisor:
        padding, ceil_mode = _overhanging(op, x, kernel, steps, padding), False
    pooled = op.AveragePool(
        reached(op, x, kernel, steps, padding),
        kernel_shape=list(kernel),
        strides=list(steps),
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad or bool(divisor),
        **padding,
    )
    return pooled * (float(np.prod(kernel)) / divisor) if divisor else pooled


def _within(op: Builder, x: Tensor, kernel: Sequence[int], padding: dict[str, Any]) -> list[int]:
    """A window no longer than an image with its padding: ONNX has none that is."""
    rank = len(kernel)
    pads = padding.get("pads") or [0] * 2 * rank
    lengths = [None if n is None else n + pads[i] + pads[i + rank] for i, n in enumerate(op.shape(x)[-rank:])]
    return [k if n is None else min(k, n) for k, n in zip(kernel, lengths, strict=True)]


def _overhanging(
    op: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], padding: dict[str, Any]
) -> dict[str, Any]:
    """Padding that takes in where windows hang over the end: such a window counts as whole."""
    rank = len(kernel)
    lengths = [n for n in op.shape(x)[-rank:] if n is not None]
    if len(lengths) != rank:
        raise Unsupported("needs the size of the image fixed for a divisor together with ceil_mode")
    pads = padding.get("pads") or [0] * 2 * rank
    along = zip(lengths, kernel, steps, pads[:rank], pads[rank:], strict=True)
    return {"pads": [*pads[:rank], *(one[-1] + overhang(*one) for one in along)]}


def with_indices(
    op: Builder,
    x: Tensor,
    kernel: list[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    """MaxPool, and the places of its results, counted within a channel."""
    rank = len(kernel)
    value, place = op.ops(
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
    within = op.Mod(place, _area(op, x, rank))
    return value, op.cast(within, op.result(within, 1))


def _area(op: Builder, x: Tensor, rank: int) -> Tensor:
    """The number of places of a channel."""
    known = [d for d in op.shape(x)[-rank:] if d is not None]
    if len(known) == rank:
        return op.constant(int(np.prod(known)), np.int64)
    return op.ReduceProd(op.Shape(x, start=-rank), keepdims=0)


@primitives(
    {"MaxPoolWithArgmaxV2 MaxPoolWithMask MaxPoolWithIndices": 2, "MaxPool3DWithArgmax": 3},
    unused="argmax_type",
)
def max_pool_with_indices(
    op: Builder,
    rank: int,
    x: Tensor,
    kernel_size: Ints,
    strides: Ints | None = None,
    pads: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> Value:
    """MaxPool, its indices counted within a channel."""
    if rank == 3 and op.dtype(x).is_integer():  # which MindSpore takes for 0 at least
        x = op.Max(x, op.like(0, x))
    kernel = spatial(kernel_size, rank)
    return with_indices(op, x, kernel, strides or kernel, spatial(pads, rank), dilation, ceil_mode)


@primitive("MaxPoolWithArgmax", unused="padding ksize")
def max_pool_with_argmax(
    op: Builder, x: Tensor, kernel_size: Ints, strides: Ints, pad_mode: str = "VALID", format: str = "NCHW"
) -> Value:
    if layout_of(format) is Layout.NHWC:
        raise Unsupported("has its channels last")
    if pad_mode_of(pad_mode) == "same":
        raise Unsupported("pads as SAME")
    kernel, steps = spatial(kernel_size, 2, True), spatial(strides, 2, True)
    return with_indices(op, x, kernel, steps, (0, 0), (1,), False)


@primitives({"MaxUnpool2D MaxUnpool2DExt": 2, "MaxUnpool3D": 3})
def unpool(
    op: Builder,
    rank: int,
    x: Tensor,
    places: Tensor,
    kernel_size: Ints = (1,),
    strides: Ints | None = None,
    pads: Ints = (0,),
    output_size: Ints | None = None,
) -> Value:
    kernel = spatial(kernel_size, rank)
    steps = spatial(strides, rank) if strides and any(strides) else kernel
    sizes: Sequence[int | Tensor] = (output_size or ())[-rank:]
    lead = op.dims(x, stop=-rank)
    if not sizes:
        ends = [k - s - 2 * p for k, s, p in zip(kernel, steps, spatial(pads, rank), strict=True)]
        lengths = op.dims(x, -rank)
        sizes = [n * step + end for n, step, end in zip(lengths, steps, ends, strict=True)]
    count = op.ReduceProd(op.vector(sizes), keepdims=0)
    zeros = op.ConstantOfShape(op.vector([*lead, count]), value=ir.tensor(np.zeros(1, op.dtype(x).numpy())))
    flat = [op.reshape(v, [*lead, -1]) for v in (op.cast(places, INT64), x)]
    return op.reshape(op.ScatterElements(zeros, *flat, axis=len(lead)), [*lead, *sizes])
