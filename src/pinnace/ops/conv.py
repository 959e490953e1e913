"""Convolutions, and windows of images as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pinnace.ops.builder import Builder
from pinnace.ops.layout import permuted
from pinnace.ops.room import room
from pinnace.ops.table import Arguments, Dims, Ints, Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value

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
    """True for the `pad_mode` SAME, by name or by number."""
    return pad_mode.lower() in ("same", "1")


def is_valid(pad_mode: str) -> bool:
    """True for the `pad_mode` VALID, by name or by number."""
    return pad_mode.lower() in ("valid", "2")


def window(pad_mode: str, pad: Sequence[int], rank: int) -> dict[str, Any]:
    """The attributes `auto_pad` and `pads` for MindSpore's `pad_mode` and `pad`."""
    if is_same(pad_mode):
        return {"auto_pad": "SAME_UPPER"}
    pads = [] if is_valid(pad_mode) else edges(pad, rank)
    return {"pads": pads} if any(pads) else {}


def reached(
    b: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], padding: dict[str, Any]
) -> Tensor:
    """An image cut to what windows reach, for padding SAME and steps that leave out elements between them.

    By ONNX's formula the rest beyond the last window is padding less than 0, half of it before the image.
    """
    if "auto_pad" not in padding or all(s <= k + 1 for s, k in zip(steps, kernel, strict=True)):
        return x
    axes = list(range(2, b.rank(x)))
    ends = b.vector([_end(b, b.dim(x, a), k, s) for a, k, s in zip(axes, kernel, steps, strict=True)])
    return b.op("Slice", x, [0] * len(axes), ends, axes)


def _end(b: Builder, length: int | Tensor, kernel: int, step: int) -> int | Tensor:
    """The end of the last window; beyond the image where it is padded."""
    if isinstance(length, int):
        return (length - 1) // step * step + kernel
    windows = b.op("Div", b.op("Sub", length, 1), b.constant(step, np.int64))
    return b.op("Add", b.op("Mul", windows, b.constant(step, np.int64)), kernel)


_LAST = ("1", "NHWC", "NDHWC")


def images_first(b: Builder, x: Tensor, data_format: str) -> Tensor:
    """Images of a `data_format`, by name or by number, with channels first."""
    rank = b.rank(x)
    return permuted(b, x, (0, rank - 1, *range(1, rank - 1))) if is_last(data_format) else x


def images_back(b: Builder, x: Tensor, data_format: str) -> Tensor:
    """Images with channels first in their `data_format`."""
    return permuted(b, x, (0, *range(2, b.rank(x)), 1)) if is_last(data_format) else x


def is_last(data_format: str) -> bool:
    """True for a `data_format`, by name or by number, with the channels last."""
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
    if "auto_pad" in padding:
        reach = [h * (k - 1) + 1 for h, k in zip(holes, b.static_shape(weight)[2:], strict=True)]
        x = reached(b, x, reach, steps, padding)
    return b.op("Conv", x, weight, bias, strides=steps, dilations=holes, group=group, **padding)


class _Kernel(Arguments):
    """Stride, dilation, groups and padding of a convolution; its weight has the size and the channels."""

    pad_mode: str = "valid"
    pad: Ints = (0,)
    stride: Ints = (1,)
    dilation: Ints = (1,)
    group: int = 1


@primitives({"Conv2D": 2, "Conv3D": 3}, unused="kernel_size out_channel pad_list")
def conv(b: Builder, rank: int, x: Tensor, weight: Tensor, *, kernel: _Kernel, format: str = "NCHW") -> Value:
    """Conv."""
    last = is_last(format)
    x, weight = images_first(b, x, format), images_first(b, weight, format)
    steps, holes = spatial(kernel.stride, rank, last), spatial(kernel.dilation, rank, last)
    y = convolution(b, x, weight, None, steps, holes, kernel.group, kernel.pad_mode, kernel.pad)
    return images_back(b, y, format)


@primitive("DepthwiseConv2dNative", unused="kernel_size out_channel pad_list channel_multiplier")
def depthwise(b: Builder, x: Tensor, weight: Tensor, *, kernel: _Kernel) -> Value:
    """Conv, a group for each channel."""
    multiplier, channels, *sizes = b.static_shape(weight)
    if multiplier != 1:
        raise Unsupported(f"has a channel_multiplier of {multiplier}, and MindSpore knows only 1")
    weight = b.reshape(weight, [channels, 1, *sizes])
    steps, holes = kernel.stride, kernel.dilation
    return convolution(b, x, weight, None, steps, holes, channels, kernel.pad_mode, kernel.pad)


def unbatched(b: Builder, x: Tensor, rank: int, apply: Callable[[Tensor], Tensor]) -> Tensor:
    """`apply(x)`, where x without batch gets one on the way."""
    if b.rank(x) == rank + 1:
        return b.op("Squeeze", apply(b.op("Unsqueeze", x, [0])), [0])
    return apply(x)


class _MintArguments(Arguments):
    """Arguments of the convolutions of `mint`, beside their padding."""

    bias: Tensor | None = None
    stride: Ints = (1,)
    dilation: Ints = (1,)
    groups: int = 1

    def convolve(
        self, b: Builder, x: Tensor, weight: Tensor, pad_mode: str, pad: Sequence[int] = ()
    ) -> Tensor:
        """Conv of what has its channels first."""
        return convolution(b, x, weight, self.bias, self.stride, self.dilation, self.groups, pad_mode, pad)


@primitives({"Conv1DExt": 1, "Conv2DExt": 2, "Conv3DExt": 3})
def conv_padded_by_sizes(
    b: Builder, rank: int, x: Tensor, weight: Tensor, *, padding: Ints = (0,), more: _MintArguments
) -> Value:
    """Conv; an input without batch gets one on the way."""
    return unbatched(b, x, rank, lambda x: more.convolve(b, x, weight, "pad", padding))


@primitives({"Conv1DPadding": 1, "Conv2DPadding": 2, "Conv3DPadding": 3})
def conv_padded_by_name(
    b: Builder, rank: int, x: Tensor, weight: Tensor, *, padding: str = "valid", more: _MintArguments
) -> Value:
    """Conv; an input without batch gets one on the way."""
    return unbatched(b, x, rank, lambda x: more.convolve(b, x, weight, padding))


# -- transposed convolution ------------------------------------------------------------------------


def transposed(
    b: Builder, x: Tensor, weight: Tensor, sizes: Sequence[int | Tensor], kernel: _Kernel
) -> Tensor:
    """ConvTranspose to the given spatial sizes; with SAME a size is the input's times the stride."""
    rank = b.rank(weight) - 2
    steps, holes = spatial(kernel.stride, rank), spatial(kernel.dilation, rank)
    reach = [d * (k - 1) + 1 for d, k in zip(holes, b.static_shape(weight)[2:], strict=True)]
    if is_same(kernel.pad_mode):
        over = [max(r - s, 0) for r, s in zip(reach, steps, strict=True)]
        pads = [n // 2 for n in over] + [n - n // 2 for n in over]
        extra = [max(s - r, 0) for r, s in zip(reach, steps, strict=True)]
        return _conv_transpose_op(b, x, weight, None, steps, holes, kernel.group, pads, extra)
    pads = [0] * 2 * rank if is_valid(kernel.pad_mode) else edges(kernel.pad, rank)
    rest = [r - pads[i] - pads[i + rank] for i, r in enumerate(reach)]
    exact = [_extra(b.dim(x, i + 2), size, steps[i], rest[i]) for i, size in enumerate(sizes)]
    # How much longer than its least a result is. Only the run knows: as long as can be, then cut to size.
    extra = [step - 1 if e is None else e for e, step in zip(exact, steps, strict=True)]
    whole = _conv_transpose_op(b, x, weight, None, steps, holes, kernel.group, pads, extra)
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


@primitive("Conv2DTranspose", "Conv2DBackpropInput", unused="kernel_size out_channel")
def conv2d_transpose(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    input_size: Dims,
    *,
    kernel: _Kernel,
    pad_list: Ints | None = None,
) -> Value:
    """ConvTranspose."""
    if pad_list and not is_same(kernel.pad_mode):
        kernel = kernel.but(pad=pad_list)
    return transposed(b, x, weight, input_size[-2:], kernel)


@primitive("Conv3DBackpropInput", unused="kernel_size out_channel pad_list")
def conv3d_backprop_input(
    b: Builder, weight: Tensor, x: Tensor, input_size: Dims, *, kernel: _Kernel
) -> Value:
    """ConvTranspose."""
    return transposed(b, x, weight, input_size[-3:], kernel)


@primitive("Conv3DTranspose", unused="kernel_size out_channel pad_list in_channel input_size")
def conv3d_transpose(
    b: Builder, x: Tensor, weight: Tensor, *, kernel: _Kernel, output_padding: Ints = (0,)
) -> Value:
    """ConvTranspose."""
    if is_same(kernel.pad_mode):
        return transposed(b, x, weight, (), kernel)
    pads = [0] * 6 if is_valid(kernel.pad_mode) else edges(kernel.pad, 3)
    steps, holes, extra = (spatial(v, 3) for v in (kernel.stride, kernel.dilation, output_padding))
    return _conv_transpose_op(b, x, weight, None, steps, holes, kernel.group, pads, extra)


def _conv_transpose_ext(
    b: Builder, x: Tensor, weight: Tensor, more: _MintArguments, padding: Ints, output_padding: Ints
) -> Tensor:
    rank = b.rank(weight) - 2
    stride, holes, extra = (spatial(v, rank) for v in (more.stride, more.dilation, output_padding))
    pads = edges(padding, rank)
    return _conv_transpose_op(b, x, weight, more.bias, stride, holes, more.groups, pads, extra)


@primitive("ConvTranspose2D")
def conv_transpose_2d(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    *,
    padding: Ints = (0,),
    output_padding: Ints = (0,),
    more: _MintArguments,
) -> Value:
    """ConvTranspose; an input without batch gets one on the way."""
    return unbatched(b, x, 2, lambda x: _conv_transpose_ext(b, x, weight, more, padding, output_padding))


@primitive("Convolution")
def any_convolution(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    *,
    padding: Ints = (0,),
    transposed: bool = False,
    output_padding: Ints = (0,),
    more: _MintArguments,
) -> Value:
    """Conv, or ConvTranspose."""
    if transposed:
        return _conv_transpose_ext(b, x, weight, more, padding, output_padding)
    return more.convolve(b, x, weight, "pad", padding)


@primitive("ConvolutionStr", unused="output_padding")
def convolution_by_name(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    *,
    padding: str = "valid",
    transposed: bool = False,
    more: _MintArguments,
) -> Value:
    """Conv."""
    if transposed:
        raise Unsupported("is transposed with a padding by name")
    return more.convolve(b, x, weight, padding)


# -- windows as vectors ----------------------------------------------------------------------------


class _Window(Arguments):
    """Size, dilation, padding and stride of a window that slides over images."""

    kernel_size: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)
    stride: Ints = (1,)


def _windows(b: Builder, x: Tensor, window_: _Window) -> tuple[Tensor, int, list[int | Tensor]]:
    """Every window of every channel, (batch * channels, places, height, width), by a Conv that picks."""
    kernel, steps, holes = (spatial(v, 2) for v in (window_.kernel_size, window_.stride, window_.dilation))
    places = int(np.prod(kernel))
    room(places, places)
    kernels = np.eye(places, dtype=b.dtype(x).numpy()).reshape(places, 1, *kernel)
    flat = b.reshape(x, [-1, 1, b.dim(x, 2), b.dim(x, 3)])
    before, after = edges(window_.padding, 2)[:2], edges(window_.padding, 2)[2:]
    for i, size in enumerate(b.shape(x)[2:]):
        # MindSpore rounds the number of windows towards zero, so that one may stick out; it is 0 there.
        reach = holes[i] * (kernel[i] - 1) + 1
        out = 0 if size is None else reach - before[i] - size - after[i]
        after[i] += out if 0 < out < steps[i] else 0
    pads = [before[0], after[0], before[1], after[1]]
    found = convolution(b, flat, b.constant(kernels), None, steps, holes, 1, "pad", pads)
    height, width = b.dim(found, 2), b.dim(found, 3)
    if isinstance(height, int) and isinstance(width, int):
        return found, places, [height * width]
    return found, places, [b.op("Mul", b.tensor(height), b.tensor(width))]


@primitive("Im2Col")
def im2col(
    b: Builder, x: Tensor, ksizes: Ints, strides: Ints = (1,), dilations: Ints = (1,), pads: Ints = (0,)
) -> Value:
    """Conv with a kernel for each place of the window, and Reshape."""
    window_ = _Window(kernel_size=ksizes, dilation=dilations, padding=pads, stride=strides)
    found, places, count = _windows(b, x, window_)
    return b.reshape(found, [b.dim(x, 0), b.dim(x, 1), places, *count])


@primitive("Im2ColExt")
def im2col_ext(b: Builder, x: Tensor, window_: _Window) -> Value:
    """Conv with a kernel for each place of the window, and Reshape."""
    channels = b.shape(x)[1]
    if channels is None:
        raise Unsupported("needs the number of channels fixed")
    found, places, count = _windows(b, x, window_)
    return b.reshape(found, [b.dim(x, 0), channels * places, *count])


@primitive("Col2Im", "Col2ImExt")
def col2im(b: Builder, x: Tensor, output_size: Ints, window_: _Window) -> Value:
    """Col2Im, after Reshape where the places of a window are a dimension of their own."""
    if b.rank(x) == 2:
        return b.op("Squeeze", _col2im(b, b.op("Unsqueeze", x, [0]), output_size, window_), [0])
    if b.rank(x) == 4:
        batch, channels, places, count = (b.dim(x, i) for i in range(4))
        known = isinstance(channels, int) and isinstance(places, int)
        x = b.reshape(x, [batch, channels * places if known else -1, count])
    return _col2im(b, x, output_size, window_)


def _col2im(b: Builder, x: Tensor, size: Ints, window_: _Window) -> Tensor:
    return b.op(
        "Col2Im",
        x,
        list(size),
        spatial(window_.kernel_size, 2),
        dilations=spatial(window_.dilation, 2),
        pads=edges(window_.padding, 2),
        strides=spatial(window_.stride, 2),
    )
