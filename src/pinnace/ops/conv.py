"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pinnace.ops.builder import Builder
from pinnace.ops.table import Dims, Ints, Tensor, primitive
from pinnace.ops.values import Value


def spatial(values: Sequence[int], rank: int) -> list[int]:
    """One number for each spatial dimension: of one for all, or of one for each dimension of the tensor."""
    values = list(values)
    return values * rank if len(values) == 1 else values[-rank:]


def edges(values: Sequence[int], rank: int) -> list[int]:
    """Padding as ONNX orders it (all before, all after) from MindSpore's pairs or from one for each."""
    values = list(values)
    if len(values) == rank:
        return values * 2
    if len(values) == 1:
        return values * 2 * rank
    pairs = values[-2 * rank :]
    return pairs[::2] + pairs[1::2]


def window(pad_mode: str, pad: Sequence[int], rank: int) -> dict[str, Any]:
    """The attributes `auto_pad` and `pads` for MindSpore's `pad_mode` and `pad`."""
    match pad_mode.lower():
        case "same" | "1":
            return {"auto_pad": "SAME_UPPER"}
        case "valid" | "2":
            return {}
        case _:
            pads = edges(pad, rank)
            return {"pads": pads} if any(pads) else {}


def convolution(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    group: int,
    padding: dict[str, Any],
) -> Tensor:
    """Conv."""
    rank = b.rank(weight) - 2
    if "auto_pad" in padding:
        padding = same(b, x, weight, spatial(stride, rank), spatial(dilation, rank))
    return b.op(
        "Conv",
        x,
        weight,
        bias,
        strides=spatial(stride, rank),
        dilations=spatial(dilation, rank),
        group=group,
        **padding,
    )


def same(
    b: Builder, x: Tensor, weight: Tensor, stride: Sequence[int], dilation: Sequence[int]
) -> dict[str, Any]:
    """Padding that makes the result as long as the input over the stride, as far as it can be told now."""
    rank = len(stride)
    before, after = [], []
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, b.static_shape(weight)[2:], strict=True)]
    for length, step, long in zip(b.shape(x)[-rank:], stride, reach, strict=True):
        if length is None and step > 1:
            return {"auto_pad": "SAME_UPPER"}
        total = max(long - step if length is None or length % step == 0 else long - length % step, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return {"pads": before + after} if any(after) else {}


def _conv(rank: int, name: str) -> None:
    def lowering(
        b: Builder,
        x: Tensor,
        weight: Tensor,
        pad_mode: str = "valid",
        pad: Ints = (0,),
        stride: Ints = (1,),
        dilation: Ints = (1,),
        group: int = 1,
    ) -> Value:
        return convolution(b, x, weight, None, stride, dilation, group, window(pad_mode, pad, rank))

    lowering.__doc__ = "Conv."
    primitive(name)(lowering)


_conv(2, "Conv2D")
_conv(3, "Conv3D")


@primitive("DepthwiseConv2dNative")
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
    (channels,) = b.static_shape(weight)[:1]
    return convolution(b, x, weight, None, stride, dilation, channels, window(pad_mode, pad, 2))


def _conv_ext(rank: int, name: str) -> None:
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
        return _unbatched(
            b,
            x,
            rank,
            lambda whole: convolution(
                b, whole, weight, bias, stride, dilation, groups, window("pad", padding, rank)
            ),
        )

    lowering.__doc__ = "Conv; an input without batch gets one on the way."
    primitive(name)(lowering)


def _conv_padding(rank: int, name: str) -> None:
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
        return _unbatched(
            b,
            x,
            rank,
            lambda whole: convolution(
                b, whole, weight, bias, stride, dilation, groups, window(padding, (), rank)
            ),
        )

    lowering.__doc__ = "Conv; an input without batch gets one on the way."
    primitive(name)(lowering)


def _unbatched(b: Builder, x: Tensor, rank: int, apply: Callable[[Tensor], Tensor]) -> Tensor:
    if b.rank(x) == rank + 1:
        return b.op("Squeeze", apply(b.op("Unsqueeze", x, [0])), [0])
    return apply(x)


for _rank in (1, 2, 3):
    _conv_ext(_rank, f"Conv{_rank}DExt")
    _conv_padding(_rank, f"Conv{_rank}DPadding")


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
    """ConvTranspose to the given spatial sizes."""
    rank = len(sizes)
    kernel = b.static_shape(weight)[2:]
    steps, holes = spatial(stride, rank), spatial(dilation, rank)
    reach = [d * (k - 1) + 1 for d, k in zip(holes, kernel, strict=True)]
    if pad_mode.lower() in ("same", "1"):
        # The size is the input's times the stride, so this is known even where the size is not.
        total = [max(r - s, 0) for r, s in zip(reach, steps, strict=True)]
        before = [t // 2 for t in total]
        pads = before + [t - p for t, p in zip(total, before, strict=True)]
        extra = [max(s - r, 0) for r, s in zip(reach, steps, strict=True)]
    else:
        pads = [0] * 2 * rank if pad_mode.lower() in ("valid", "2") else edges(pad, rank)
        extra = [
            _extra(b.dim(x, i + 2), size, steps[i], reach[i] - pads[i] - pads[i + rank])
            for i, size in enumerate(sizes)
        ]
    whole = b.op(
        "ConvTranspose",
        x,
        weight,
        strides=steps,
        dilations=holes,
        group=group,
        pads=pads if any(pads) else None,
        output_padding=extra if any(extra) else None,
    )
    known = None not in b.shape(x)[2:] and all(isinstance(s, int) for s in sizes)
    if known or pad_mode.lower() in ("same", "1"):
        return whole
    return b.op("Slice", whole, [0] * rank, b.vector(sizes), list(range(2, rank + 2)))


def _extra(length: int | Tensor, size: int | Tensor, step: int, rest: int) -> int:
    """How much longer than its least a result is; at most stride - 1, which is then cut to size."""
    if isinstance(length, int) and isinstance(size, int):
        return size - ((length - 1) * step + rest)
    return step - 1


def _conv_transpose(rank: int, *names: str) -> None:
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
    ) -> Value:
        return transposed(b, x, weight, input_size[-rank:], stride, dilation, group, pad_mode, pad)

    lowering.__doc__ = "ConvTranspose."
    primitive(*names)(lowering)


_conv_transpose(2, "Conv2DTranspose", "Conv2DBackpropInput")
_conv_transpose(3, "Conv3DBackpropInput")


@primitive("Conv3DTranspose")
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
    extra = spatial(output_padding, 3)
    steps = spatial(stride, 3)
    if pad_mode.lower() in ("same", "1"):
        return transposed(b, x, weight, (0, 0, 0), stride, dilation, group, pad_mode, pad)
    return b.op(
        "ConvTranspose",
        x,
        weight,
        strides=steps,
        dilations=spatial(dilation, 3),
        group=group,
        output_padding=extra if any(extra) else None,
        **window(pad_mode, pad, 3),
    )


@primitive("Im2Col")
def im2col(
    b: Builder,
    x: Tensor,
    ksizes: Ints,
    strides: Ints = (1,),
    dilations: Ints = (1,),
    pads: Ints = (0,),
    padding_mode: str = "CALCULATED",
) -> Value:
    """Conv with a kernel for each place of the window, and Reshape."""
    import numpy as np

    channels = b.static_shape(x)[1] if None not in b.shape(x) else b.shape(x)[1]
    places = int(np.prod(spatial(ksizes, 2)))
    kernels = np.eye(places, dtype=b.dtype(x).numpy()).reshape(places, 1, *spatial(ksizes, 2))
    flat = b.reshape(x, [-1, 1, b.dim(x, 2), b.dim(x, 3)])
    found = convolution(
        b, flat, b.constant(kernels), None, strides, dilations, 1, window(_IM2COL_PAD[padding_mode], pads, 2)
    )
    return b.reshape(found, [-1, channels or b.dim(x, 1), places, *_joined(b, found)])


_IM2COL_PAD = {"CALCULATED": "pad", "SAME": "same", "VALID": "valid"}


def _joined(b: Builder, x: Tensor) -> list[int | Tensor]:
    height, width = b.dim(x, 2), b.dim(x, 3)
    if isinstance(height, int) and isinstance(width, int):
        return [height * width]
    return [b.op("Mul", b.tensor(height), b.tensor(width))]


@primitive("Col2Im")
def col2im(
    b: Builder,
    x: Tensor,
    output_size: Ints,
    kernel_size: Ints = (1,),
    dilation: Ints = (1,),
    padding_value: Ints = (0,),
    stride: Ints = (1,),
) -> Value:
    """Reshape and Col2Im."""
    if b.rank(x) == 4:
        x = b.reshape(x, [b.dim(x, 0), -1, b.dim(x, 3)])
    return b.op(
        "Col2Im",
        x,
        list(output_size),
        spatial(kernel_size, 2),
        dilations=spatial(dilation, 2),
        pads=edges(padding_value, 2),
        strides=spatial(stride, 2),
    )
