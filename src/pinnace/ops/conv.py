"""Convolutions, and windows of images as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pinnace.ops.builder import Builder, Unsupported
from pinnace.ops.layout import permuted
from pinnace.ops.room import room
from pinnace.ops.table import Dims, Ints, Tensor, primitive
from pinnace.ops.values import Value

# -- windows ---------------------------------------------------------------------------------------


def spatial(values: Sequence[int], rank: int, channels_last: bool = False) -> list[int]:
    """One number for each spatial dimension, of one for all or of one for each dimension of the tensor."""
    values = list(values)
    if len(values) == 1:
        return values * rank
    return values[1 : rank + 1] if channels_last and len(values) == rank + 2 else values[-rank:]


def edges(values: Sequence[int], rank: int) -> list[int]:
    """Padding as ONNX orders it (all before, all after) from MindSpore's pairs or from one for each."""
    values = list(values)
    if len(values) == rank:
        return values * 2
    if len(values) == 1:
        return values * 2 * rank
    pairs = values[-2 * rank :]
    return pairs[::2] + pairs[1::2]


def is_same(pad_mode: str) -> bool:
    """Whether a `pad_mode`, by name or by number, is SAME."""
    return pad_mode.lower() in ("same", "1")


def is_valid(pad_mode: str) -> bool:
    """Whether a `pad_mode`, by name or by number, is VALID."""
    return pad_mode.lower() in ("valid", "2")


def window(pad_mode: str, pad: Sequence[int], rank: int) -> dict[str, Any]:
    """The attributes `auto_pad` and `pads` for MindSpore's `pad_mode` and `pad`."""
    if is_same(pad_mode):
        return {"auto_pad": "SAME_UPPER"}
    pads = [] if is_valid(pad_mode) else edges(pad, rank)
    return {"pads": pads} if any(pads) else {}


_LAST = ("1", "NHWC", "NDHWC")


def images_first(b: Builder, x: Tensor, data_format: str) -> Tensor:
    """Images of a `data_format`, by name or by number, with channels first."""
    rank = b.rank(x)
    return permuted(b, x, (0, rank - 1, *range(1, rank - 1))) if is_last(data_format) else x


def images_back(b: Builder, x: Tensor, data_format: str) -> Tensor:
    """Images with channels first in their `data_format`."""
    return permuted(b, x, (0, *range(2, b.rank(x)), 1)) if is_last(data_format) else x


def is_last(data_format: str) -> bool:
    """Whether a `data_format`, by name or by number, has the channels last."""
    return data_format in _LAST


# -- convolution -----------------------------------------------------------------------------------


def convolution(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    group: int,
    pad_mode: str,
    pad: Sequence[int] = (),
) -> Tensor:
    """Conv of what has its channels first."""
    rank = b.rank(weight) - 2
    steps, holes = spatial(stride, rank), spatial(dilation, rank)
    padding = window(pad_mode, pad, rank)
    if is_same(pad_mode) and any(d > 1 for d in holes):
        # onnxruntime has no auto_pad for kernels with holes.
        x, padding = _same_by_hand(b, x, [d * (k - 1) + 1 for d, k in _pairs(holes, weight, b)], steps)
    return b.op("Conv", x, weight, bias, strides=steps, dilations=holes, group=group, **padding)


def _pairs(holes: Sequence[int], weight: Tensor, b: Builder) -> zip[tuple[int, int]]:
    return zip(holes, b.static_shape(weight)[2:], strict=True)


def _same_by_hand(
    b: Builder, x: Tensor, reach: Sequence[int], steps: Sequence[int]
) -> tuple[Tensor, dict[str, Any]]:
    """SAME as attribute `pads` where they are known now; else `x` padded by Pad."""
    lengths = b.shape(x)[2:]
    totals = [_same_total(n, r, s) for n, r, s in zip(lengths, reach, steps, strict=True)]
    known = [t for t in totals if t is not None]
    if len(known) == len(totals):
        return x, {"pads": [t // 2 for t in known] + [t - t // 2 for t in known]}
    step, far = b.constant(list(steps), np.int64), b.constant(list(reach), np.int64)
    length = b.op("Shape", x, start=2)
    last = b.op("Mul", b.op("Div", b.op("Sub", length, 1), step), step)
    total = b.op("Max", b.op("Sub", b.op("Add", last, far), length), b.constant(0, np.int64))
    before = b.op("Div", total, 2)
    pads = b.op("Concat", [0, 0], before, [0, 0], b.op("Sub", total, before), axis=0)
    return b.op("Pad", x, pads), {}


def _same_total(length: int | None, reach: int, step: int) -> int | None:
    if step == 1:
        return reach - 1
    return None if length is None else max((length - 1) // step * step + reach - length, 0)


def _conv(rank: int, name: str) -> None:
    # The weight says the size of the kernel and the channels, pad and pad_mode what pad_list has.
    @primitive(name, unused="kernel_size out_channel pad_list", lowered_to="Conv.")
    def lowering(
        b: Builder,
        x: Tensor,
        weight: Tensor,
        pad_mode: str = "valid",
        pad: Ints = (0,),
        stride: Ints = (1,),
        dilation: Ints = (1,),
        group: int = 1,
        format: str = "NCHW",
    ) -> Value:
        last = is_last(format)
        y = convolution(
            b,
            images_first(b, x, format),
            images_first(b, weight, format),
            None,
            spatial(stride, rank, last),
            spatial(dilation, rank, last),
            group,
            pad_mode,
            pad,
        )
        return images_back(b, y, format)


_conv(2, "Conv2D")
_conv(3, "Conv3D")


@primitive("DepthwiseConv2dNative", unused="kernel_size out_channel pad_list channel_multiplier group")
def depthwise(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    pad_mode: str = "valid",
    pad: Ints = (0,),
    stride: Ints = (1,),
    dilation: Ints = (1,),
) -> Value:
    """Conv, a group for each channel."""
    multiplier, channels, *kernel = b.static_shape(weight)
    if multiplier != 1:
        raise Unsupported(f"has a channel_multiplier of {multiplier}, and MindSpore knows only 1")
    weight = b.reshape(weight, [channels, 1, *kernel])
    return convolution(b, x, weight, None, stride, dilation, channels, pad_mode, pad)


def unbatched(b: Builder, x: Tensor, rank: int, apply: Callable[[Tensor], Tensor]) -> Tensor:
    """`apply(x)`, where x without batch gets one on the way."""
    if b.rank(x) == rank + 1:
        return b.op("Squeeze", apply(b.op("Unsqueeze", x, [0])), [0])
    return apply(x)


def _conv_ext(rank: int, name: str) -> None:
    @primitive(name, lowered_to="Conv; an input without batch gets one on the way.")
    def lowering(
        b: Builder,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = (1,),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        groups: int = 1,
    ) -> Value:
        return unbatched(
            b, x, rank, lambda x: convolution(b, x, weight, bias, stride, dilation, groups, "pad", padding)
        )


def _conv_padding(rank: int, name: str) -> None:
    @primitive(name, lowered_to="Conv; an input without batch gets one on the way.")
    def lowering(
        b: Builder,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = (1,),
        padding: str = "valid",
        dilation: Ints = (1,),
        groups: int = 1,
    ) -> Value:
        return unbatched(
            b, x, rank, lambda x: convolution(b, x, weight, bias, stride, dilation, groups, padding)
        )


for _rank in (1, 2, 3):
    _conv_ext(_rank, f"Conv{_rank}DExt")
    _conv_padding(_rank, f"Conv{_rank}DPadding")


# -- transposed convolution ------------------------------------------------------------------------


def transposed(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    sizes: Sequence[int | Tensor],
    stride: Sequence[int],
    dilation: Sequence[int],
    group: int,
    pad_mode: str,
    pad: Sequence[int],
) -> Tensor:
    """ConvTranspose to the given spatial sizes; with SAME a size is the input's times the stride."""
    rank = b.rank(weight) - 2
    steps, holes = spatial(stride, rank), spatial(dilation, rank)
    reach = [d * (k - 1) + 1 for d, k in _pairs(holes, weight, b)]
    if is_same(pad_mode):
        over = [max(r - s, 0) for r, s in zip(reach, steps, strict=True)]
        pads = [n // 2 for n in over] + [n - n // 2 for n in over]
        extra = [max(s - r, 0) for r, s in zip(reach, steps, strict=True)]
        return _conv_transpose_op(b, x, weight, None, steps, holes, group, pads, extra)
    pads = [0] * 2 * rank if is_valid(pad_mode) else edges(pad, rank)
    rest = [r - pads[i] - pads[i + rank] for i, r in enumerate(reach)]
    exact = [_extra(b.dim(x, i + 2), size, steps[i], rest[i]) for i, size in enumerate(sizes)]
    # How much longer than its least a result is. Only the run knows: as long as can be, then cut to size.
    extra = [step - 1 if e is None else e for e, step in zip(exact, steps, strict=True)]
    whole = _conv_transpose_op(b, x, weight, None, steps, holes, group, pads, extra)
    cut = [i for i, e in enumerate(exact) if e is None and steps[i] > 1]
    if not cut:
        return whole
    return b.op("Slice", whole, [0] * len(cut), b.vector([sizes[i] for i in cut]), [i + 2 for i in cut])


def _extra(length: int | Tensor, size: int | Tensor, step: int, rest: int) -> int | None:
    if isinstance(length, int) and isinstance(size, int):
        return size - ((length - 1) * step + rest)
    return None


def _conv_transpose_op(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    steps: list[int],
    holes: list[int],
    group: int,
    pads: list[int],
    extra: list[int],
) -> Tensor:
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, holes, strict=True)):
        raise Unsupported(f"is longer by {extra} than a stride of {steps} can tell apart")
    return b.op(
        "ConvTranspose",
        x,
        weight,
        bias,
        strides=steps,
        dilations=holes,
        group=group,
        pads=pads if any(pads) else None,
        output_padding=extra if any(extra) else None,
    )


def _conv_transpose(rank: int, *names: str) -> None:
    @primitive(*names, unused="kernel_size out_channel pad_list", lowered_to="ConvTranspose.")
    def lowering(
        b: Builder,
        x: Tensor,
        weight: Tensor,
        input_size: Dims,
        pad_mode: str = "valid",
        pad: Ints = (0,),
        stride: Ints = (1,),
        dilation: Ints = (1,),
        group: int = 1,
        pad_list: Ints | None = None,
    ) -> Value:
        pad = pad_list if pad_list and not is_same(pad_mode) else pad
        return transposed(b, x, weight, input_size[-rank:], stride, dilation, group, pad_mode, pad)


_conv_transpose(2, "Conv2DTranspose", "Conv2DBackpropInput")


@primitive("Conv3DBackpropInput", unused="kernel_size out_channel pad_list dilation group")
def conv3d_backprop_input(
    b: Builder,
    weight: Tensor,
    x: Tensor,
    input_size: Dims,
    pad_mode: str = "valid",
    pad: Ints = (0,),
    stride: Ints = (1,),
    dilations: Ints = (1,),
    groups: int = 1,
) -> Value:
    """ConvTranspose."""
    return transposed(b, x, weight, input_size[-3:], stride, dilations, groups, pad_mode, pad)


@primitive("Conv3DTranspose", unused="kernel_size out_channel pad_list in_channel input_size")
def conv3d_transpose(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    pad_mode: str = "valid",
    pad: Ints = (0,),
    stride: Ints = (1,),
    dilation: Ints = (1,),
    group: int = 1,
    output_padding: Ints = (0,),
) -> Value:
    """ConvTranspose."""
    if is_same(pad_mode):
        return transposed(b, x, weight, (), stride, dilation, group, pad_mode, pad)
    pads = [0] * 6 if is_valid(pad_mode) else edges(pad, 3)
    steps, holes, extra = spatial(stride, 3), spatial(dilation, 3), spatial(output_padding, 3)
    return _conv_transpose_op(b, x, weight, None, steps, holes, group, pads, extra)


@primitive("ConvTranspose2D")
def conv_transpose_2d(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    output_padding: Ints = (0,),
    groups: int = 1,
    dilation: Ints = (1,),
) -> Value:
    """ConvTranspose; an input without batch gets one on the way."""
    steps, holes, extra = spatial(stride, 2), spatial(dilation, 2), spatial(output_padding, 2)
    pads = edges(padding, 2)
    return unbatched(
        b, x, 2, lambda x: _conv_transpose_op(b, x, weight, bias, steps, holes, groups, pads, extra)
    )


@primitive("Convolution")
def any_convolution(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    transposed: bool = False,
    output_padding: Ints = (0,),
    groups: int = 1,
) -> Value:
    """Conv, or ConvTranspose."""
    if not transposed:
        return convolution(b, x, weight, bias, stride, dilation, groups, "pad", padding)
    rank = b.rank(weight) - 2
    steps, holes, extra = (spatial(v, rank) for v in (stride, dilation, output_padding))
    return _conv_transpose_op(b, x, weight, bias, steps, holes, groups, edges(padding, rank), extra)


@primitive("ConvolutionStr", unused="output_padding")
def convolution_by_name(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = (1,),
    padding: str = "valid",
    dilation: Ints = (1,),
    transposed: bool = False,
    output_padding: Ints = (0,),
    groups: int = 1,
) -> Value:
    """Conv."""
    if transposed:
        raise Unsupported("is transposed with a padding by name")
    return convolution(b, x, weight, bias, stride, dilation, groups, padding)


# -- windows as vectors ----------------------------------------------------------------------------


def _windows(
    b: Builder, x: Tensor, kernel: Ints, stride: Ints, dilation: Ints, pad: Ints
) -> tuple[Tensor, int, list[int | Tensor]]:
    """Every window of every channel, (batch * channels, places, height, width), by a Conv that picks."""
    places = int(np.prod(spatial(kernel, 2)))
    room(places, places)
    kernels = np.eye(places, dtype=b.dtype(x).numpy()).reshape(places, 1, *spatial(kernel, 2))
    flat = b.reshape(x, [-1, 1, b.dim(x, 2), b.dim(x, 3)])
    before, after = edges(pad, 2)[:2], edges(pad, 2)[2:]
    for i, size in enumerate(b.shape(x)[2:]):
        # MindSpore rounds the number of windows towards zero, so that one may stick out; it is 0 there.
        reach = spatial(dilation, 2)[i] * (spatial(kernel, 2)[i] - 1) + 1
        out = 0 if size is None else reach - before[i] - size - after[i]
        after[i] += out if 0 < out < spatial(stride, 2)[i] else 0
    pads = [before[0], after[0], before[1], after[1]]
    found = convolution(b, flat, b.constant(kernels), None, stride, dilation, 1, "pad", pads)
    height, width = b.dim(found, 2), b.dim(found, 3)
    if isinstance(height, int) and isinstance(width, int):
        return found, places, [height * width]
    return found, places, [b.op("Mul", b.tensor(height), b.tensor(width))]


@primitive("Im2Col")
def im2col(
    b: Builder,
    x: Tensor,
    ksizes: Ints,
    strides: Ints = (1,),
    dilations: Ints = (1,),
    pads: Ints = (0,),
) -> Value:
    """Conv with a kernel for each place of the window, and Reshape."""
    found, places, count = _windows(b, x, ksizes, strides, dilations, pads)
    return b.reshape(found, [b.dim(x, 0), b.dim(x, 1), places, *count])


@primitive("Im2ColExt")
def im2col_ext(
    b: Builder,
    x: Tensor,
    kernel_size: Ints,
    dilation: Ints = (1,),
    padding: Ints = (0,),
    stride: Ints = (1,),
) -> Value:
    """Conv with a kernel for each place of the window, and Reshape."""
    channels = b.shape(x)[1]
    if channels is None:
        raise Unsupported("needs the number of channels fixed")
    found, places, count = _windows(b, x, kernel_size, stride, dilation, padding)
    return b.reshape(found, [b.dim(x, 0), channels * places, *count])


@primitive("Col2Im", "Col2ImExt")
def col2im(
    b: Builder,
    x: Tensor,
    output_size: Ints,
    kernel_size: Ints = (1,),
    dilation: Ints = (1,),
    padding: Ints = (0,),
    stride: Ints = (1,),
) -> Value:
    """Col2Im, after Reshape where the places of a window are a dimension of their own."""
    if b.rank(x) == 2:
        return b.op(
            "Squeeze",
            _col2im(b, b.op("Unsqueeze", x, [0]), output_size, kernel_size, dilation, padding, stride),
            [0],
        )
    if b.rank(x) == 4:
        batch, channels, places, count = (b.dim(x, i) for i in range(4))
        known = isinstance(channels, int) and isinstance(places, int)
        x = b.reshape(x, [batch, channels * places if known else -1, count])
    return _col2im(b, x, output_size, kernel_size, dilation, padding, stride)


def _col2im(
    b: Builder, x: Tensor, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Tensor:
    return b.op(
        "Col2Im",
        x,
        list(size),
        spatial(kernel, 2),
        dilations=spatial(dilation, 2),
        pads=edges(padding, 2),
        strides=spatial(stride, 2),
    )
