"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.windows import reach, same_pads
from pinnace.ops import binding
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.table import Arguments, Dims, Ints, Tensor, primitive, primitives
from pinnace.ops.values import Value
from pinnace.program import Layout


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


def pad_mode_of(word: str) -> str:
    """`pad`, `same` or `valid`, of a `pad_mode` by name or by number."""
    modes = {"pad": ("pad", "calculated", "0"), "same": ("same", "1"), "valid": ("valid", "2")}
    found = next((mode for mode, words in modes.items() if word.lower() in words), None)
    if found is None:
        raise Unsupported(f"has the pad_mode {word.lower()!r}, which is unknown")
    return found


def window(pad_mode: str, pad: Sequence[int], rank: int) -> dict[str, Any]:
    """The attributes `auto_pad` and `pads` for MindSpore's `pad_mode` and `pad`."""
    mode = pad_mode_of(pad_mode)
    if mode == "same":
        return {"auto_pad": "SAME_UPPER"}
    pads = edges(pad, rank) if mode == "pad" else []
    return {"pads": pads} if any(pads) else {}


def reached(
    op: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], padding: dict[str, Any]
) -> Tensor:
    """An image cut to what windows reach, for padding SAME and steps that leave out elements between them.

    By ONNX's formula the rest beyond the last window is padding less than 0, half of it before the image.
    """
    if "auto_pad" not in padding or all(s <= k + 1 for s, k in zip(steps, kernel, strict=True)):
        return x
    axes = list(range(2, op.rank(x)))
    ends = []
    for axis, size, step in zip(axes, kernel, steps, strict=True):
        length = op.dim(x, axis)
        # Of integers Div rounds, too. The end of the last window is beyond the image where that is padded.
        before = (length - 1) // step if isinstance(length, int) else (length - 1) / step
        ends.append(before * step + size)
    return op.Slice(x, [0] * len(axes), op.vector(ends), axes)


_LAST = ("1", "NHWC", "NDHWC")
_FIRST = ("0", "NCHW", "NCDHW", "NCW", "NCL", "ND", "DefaultFormat")


def layout_of(data_format: str) -> Layout:
    """The layout of a `data_format` by name or by number."""
    if data_format not in _LAST + _FIRST:
        raise Unsupported(f"has the data_format {data_format!r}, which is unknown")
    return Layout.NHWC if data_format in _LAST else Layout.NCHW


class Kernel(Arguments):
    """Steps, dilation, groups and padding of a convolution; its weight has the size and the channels."""

    pad_mode: str = "valid"
    pad: Ints = (0,)
    stride: Ints = (1,)
    dilation: Ints = (1,)
    group: int = 1


def convolution(op: Builder, x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Kernel) -> Tensor:
    """Conv of what has its channels first."""
    rank = op.rank(weight) - 2
    steps, holes = spatial(kernel.stride, rank), spatial(kernel.dilation, rank)
    padding = window(kernel.pad_mode, kernel.pad, rank)
    if "auto_pad" in padding:
        x = reached(op, x, reach(op.static_shape(weight)[2:], holes), steps, padding)
    return op.Conv(x, weight, bias, strides=steps, dilations=holes, group=kernel.group, **padding)


@primitives({"Conv2D": 2, "Conv3D": 3}, unused="kernel_size out_channel pad_list")
def conv(op: Builder, rank: int, x: Tensor, weight: Tensor, *, kernel: Kernel, format: str = "NCHW") -> Value:
    layout = layout_of(format)
    last = layout is Layout.NHWC
    image, weight = channels_first(op, x, layout), channels_first(op, weight, layout)
    stride, dilation = (tuple(spatial(v, rank, last)) for v in (kernel.stride, kernel.dilation))
    y = convolution(op, image, weight, None, kernel.but(stride=stride, dilation=dilation))
    return channels_back(op, y, x, layout)


@primitive("DepthwiseConv2dNative", unused="kernel_size out_channel pad_list channel_multiplier")
def depthwise(op: Builder, x: Tensor, weight: Tensor, *, kernel: Kernel) -> Value:
    multiplier, channels, *sizes = op.static_shape(weight)
    if multiplier != 1:
        raise Unsupported(f"has a channel_multiplier of {multiplier}, and MindSpore knows only 1")
    return convolution(op, x, op.reshape(weight, [channels, 1, *sizes]), None, kernel.but(group=channels))


def unbatched(op: Builder, x: Tensor, rank: int, apply: Callable[[Tensor], Tensor]) -> Tensor:
    """`apply(x)`, where x without batch gets one on the way."""
    if op.rank(x) == rank + 1:
        return op.Squeeze(apply(op.Unsqueeze(x, [0])), [0])
    return apply(x)


class _MintKernel(Arguments):
    """Arguments of the convolutions of `mint`, beside their padding."""

    bias: Tensor | None = None
    stride: Ints = (1,)
    dilation: Ints = (1,)
    groups: int = 1
    transposed: bool = False
    output_padding: Ints = (0,)


@primitives(
    {
        "Conv1DExt Conv2DExt Conv3DExt Convolution": (binding.ints, False, "Conv"),
        "Conv1DPadding Conv2DPadding Conv3DPadding ConvolutionStr": (binding.str_, False, "Conv"),
        "ConvTranspose2D": (binding.ints, True, "ConvTranspose"),
    }
)
def mint_convolution(
    op: Builder,
    as_padding: Callable[[Builder, Value], Ints | str],
    turned: bool,
    op_type: str,
    x: Tensor,
    weight: Tensor,
    *,
    padding: Value = None,
    more: _MintKernel,
) -> Value:
    """{op_type}, or ConvTranspose if it is asked for; an input without batch gets one on the way."""
    sides = "valid" if padding is None else as_padding(op, padding)
    mode, pad = (sides, ()) if isinstance(sides, str) else ("pad", sides)
    kernel = Kernel(pad_mode=mode, pad=pad, stride=more.stride, dilation=more.dilation, group=more.groups)
    if not (turned or more.transposed):
        apply = partial(convolution, op, weight=weight, bias=more.bias, kernel=kernel)
    elif mode == "pad":
        extra = more.output_padding
        apply = partial(transposed, op, weight=weight, bias=more.bias, kernel=kernel, extra=extra)
    else:
        raise Unsupported("is transposed with a padding by name")
    return unbatched(op, x, op.rank(weight) - 2, apply)


def transposed(
    op: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    kernel: Kernel,
    extra: Ints = (0,),
    sizes: Sequence[int | Tensor] = (),
) -> Tensor:
    """ConvTranspose, by `extra` longer than its least size, or to the given spatial sizes.

    With SAME a size is the input's times the stride.
    """
    rank = op.rank(weight) - 2
    steps, holes = spatial(kernel.stride, rank), spatial(kernel.dilation, rank)
    reaches = reach(op.static_shape(weight)[2:], holes)
    mode = pad_mode_of(kernel.pad_mode)
    pads = [0] * 2 * rank if mode == "valid" else edges(kernel.pad, rank)
    exact: list[int | None] = [*spatial(extra, rank)]
    if mode == "same":
        pads = same_pads(steps, reaches, steps, "SAME_UPPER")  # of any image of whole strides
        exact = [max(s - r, 0) for r, s in zip(reaches, steps, strict=True)]
    elif sizes:
        for i, (length, size) in enumerate(zip(op.dims(x, 2), sizes, strict=True)):
            least = reaches[i] - pads[i] - pads[i + rank]
            known = isinstance(length, int) and isinstance(size, int)
            exact[i] = size - (length - 1) * steps[i] - least if known else None
    # How much longer than its least a result is. Only the run knows: as long as can be, then cut to size.
    longer = [step - 1 if e is None else e for e, step in zip(exact, steps, strict=True)]
    if any(e >= max(s, d) for e, s, d in zip(longer, steps, holes, strict=True)):
        raise Unsupported(f"is longer by {longer} than a stride of {steps} can tell apart")
    options = {"pads": pads, "output_padding": longer, "strides": steps, "dilations": holes}
    given: dict[str, Any] = {name: numbers for name, numbers in options.items() if any(numbers)}
    whole = op.ConvTranspose(x, weight, bias, group=kernel.group, **given)
    cut = [i for i, e in enumerate(exact) if e is None and steps[i] > 1]
    if not cut:
        return whole
    return op.Slice(whole, [0] * len(cut), op.vector([sizes[i] for i in cut]), [i + 2 for i in cut])


@primitive("Conv2DTranspose", "Conv2DBackpropInput", unused="kernel_size out_channel")
def conv2d_transpose(
    op: Builder, x: Tensor, weight: Tensor, input_size: Dims, *, kernel: Kernel, pad_list: Ints | None = None
) -> Value:
    kernel = kernel.but(pad=pad_list or kernel.pad)
    return transposed(op, x, weight, None, kernel, sizes=input_size[-2:])


@primitive("Conv3DBackpropInput", unused="kernel_size out_channel pad_list")
def conv3d_backprop_input(
    op: Builder, weight: Tensor, x: Tensor, input_size: Dims, *, kernel: Kernel
) -> Value:
    return transposed(op, x, weight, None, kernel, sizes=input_size[-3:])


@primitive("Conv3DTranspose", unused="kernel_size out_channel pad_list in_channel input_size")
def conv3d_transpose(
    op: Builder, x: Tensor, weight: Tensor, *, kernel: Kernel, output_padding: Ints = (0,)
) -> Value:
    return transposed(op, x, weight, None, kernel, output_padding)
