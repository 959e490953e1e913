"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops import binding
from pinnace.ops.layout import permuted
from pinnace.ops.table import Arguments, Dims, Ints, Tensor, primitive, primitives
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
    """True for the `pad_mode` SAME, by name or by number."""
    return _word(pad_mode) in ("same", "1")


def is_valid(pad_mode: str) -> bool:
    """True for the `pad_mode` VALID, by name or by number."""
    return _word(pad_mode) in ("valid", "2")


def _word(pad_mode: str) -> str:
    word = pad_mode.lower()
    if word not in ("pad", "calculated", "0", "same", "1", "valid", "2"):
        raise Unsupported(f"has the pad_mode {pad_mode!r}, which is unknown")
    return word


def window(pad_mode: str, pad: Sequence[int], rank: int) -> dict[str, Any]:
    """The attributes `auto_pad` and `pads` for MindSpore's `pad_mode` and `pad`."""
    if is_same(pad_mode):
        return {"auto_pad": "SAME_UPPER"}
    pads = [] if is_valid(pad_mode) else edges(pad, rank)
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
    ends = op.vector([_end(op, op.dim(x, a), k, s) for a, k, s in zip(axes, kernel, steps, strict=True)])
    return op.Slice(x, [0] * len(axes), ends, axes)


def _end(op: Builder, length: int | Tensor, kernel: int, step: int) -> Value:
    """The end of the last window; beyond the image where it is padded."""
    if isinstance(length, int):
        return (length - 1) // step * step + kernel
    windows = (length - 1) / op.constant(step, np.int64)
    return windows * op.constant(step, np.int64) + kernel


_LAST = ("1", "NHWC", "NDHWC")
_FIRST = ("0", "NCHW", "NCDHW", "NCW", "NCL", "ND", "DefaultFormat")


def images_first(op: Builder, x: Tensor, data_format: str) -> Tensor:
    """Images of a `data_format`, by name or by number, with channels first."""
    rank = op.rank(x)
    return permuted(op, x, (0, rank - 1, *range(1, rank - 1))) if is_last(data_format) else x


def images_back(op: Builder, x: Tensor, data_format: str) -> Tensor:
    return permuted(op, x, (0, *range(2, op.rank(x)), 1)) if is_last(data_format) else x


def is_last(data_format: str) -> bool:
    """True for a `data_format`, by name or by number, with the channels last."""
    if data_format not in _LAST + _FIRST:
        raise Unsupported(f"has the data_format {data_format!r}, which is unknown")
    return data_format in _LAST


# -- convolution -----------------------------------------------------------------------------------


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
        x = reached(op, x, _reach(op, weight, holes), steps, padding)
    return op.Conv(x, weight, bias, strides=steps, dilations=holes, group=kernel.group, **padding)


def _reach(op: Builder, weight: Tensor, holes: Sequence[int]) -> list[int]:
    """The size of a kernel with its holes."""
    return [h * (k - 1) + 1 for h, k in zip(holes, op.static_shape(weight)[2:], strict=True)]


@primitives({"Conv2D": 2, "Conv3D": 3}, unused="kernel_size out_channel pad_list")
def conv(op: Builder, rank: int, x: Tensor, weight: Tensor, *, kernel: Kernel, format: str = "NCHW") -> Value:
    last = is_last(format)
    x, weight = images_first(op, x, format), images_first(op, weight, format)
    stride, dilation = (tuple(spatial(v, rank, last)) for v in (kernel.stride, kernel.dilation))
    y = convolution(op, x, weight, None, kernel.but(stride=stride, dilation=dilation))
    return images_back(op, y, format)


@primitive("DepthwiseConv2dNative", unused="kernel_size out_channel pad_list channel_multiplier")
def depthwise(op: Builder, x: Tensor, weight: Tensor, *, kernel: Kernel) -> Value:
    """Conv, a group for each channel."""
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


# -- transposed convolution ------------------------------------------------------------------------


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
    reach = _reach(op, weight, holes)
    pads = [0] * 2 * rank if is_valid(kernel.pad_mode) else edges(kernel.pad, rank)
    exact: list[int | None] = [*spatial(extra, rank)]
    if is_same(kernel.pad_mode):
        over = [max(r - s, 0) for r, s in zip(reach, steps, strict=True)]
        pads = [n // 2 for n in over] + [n - n // 2 for n in over]
        exact = [max(s - r, 0) for r, s in zip(reach, steps, strict=True)]
    elif sizes:
        rest = [r - pads[i] - pads[i + rank] for i, r in enumerate(reach)]
        exact = [_extra(op.dim(x, i + 2), size, steps[i], rest[i]) for i, size in enumerate(sizes)]
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


def _extra(length: int | Tensor, size: int | Tensor, step: int, rest: int) -> int | None:
    if isinstance(length, int) and isinstance(size, int):
        return size - ((length - 1) * step + rest)
    return None


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
