"""Convolutions and pools as ones that pad nothing and spread nothing: functions of `parts`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.pool import above_zero
from pinnace.ops.values import Unsupported

_Ints = tuple[int, ...]
_BEFORE_ALL = -(1 << 40)
"""An end of a slice that goes backwards to the first element."""


def _lengths(b: Builder, x: ir.Value) -> _Ints:
    """The sizes of an image's dimensions after batch and channels."""
    sizes = tuple(d for d in b.shape(x)[2:] if d is not None)
    if len(sizes) < b.rank(x) - 2:
        raise Unsupported(f"needs {b.shape(x)[2:]} fixed: fix them by shapes of the inputs")
    return sizes


@function
def explicit(
    b: Builder, x: ir.Value, kernel: _Ints, auto_pad: str, dilations: _Ints, pads: _Ints, strides: _Ints
) -> _Ints:
    """The padding of a window before each dimension, then after each."""
    size = len(kernel)
    if auto_pad in ("NOTSET", "VALID"):
        return pads if pads and auto_pad == "NOTSET" else (0,) * 2 * size
    less, more = [], []
    for i, length in enumerate(_lengths(b, x)):
        count = -(-length // strides[i])
        needed = max(0, (count - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - length)
        less.append(needed // 2)
        more.append(needed - needed // 2)
    return (*less, *more) if auto_pad == "SAME_UPPER" else (*more, *less)


@function
def pooled(
    b: Builder,
    op_type: str,
    x: ir.Value,
    auto_pad: str,
    ceil_mode: int,
    counted: int,
    dilations: _Ints,
    kernel: _Ints,
    pads: _Ints,
    strides: _Ints,
) -> ir.Value:
    """A pool after padding; `counted` 1 counts what was padded, 2 also what windows reach beyond that."""
    size = len(kernel)
    dilations, strides = dilations or (1,) * size, strides or (1,) * size
    added = explicit(b, x, kernel, auto_pad, dilations, pads, strides)
    beyond = [0] * 2 * size
    if ceil_mode:
        lengths = _lengths(b, x)
        for i in range(size):
            sides = added[i], added[i + size]
            beyond[i + size] = _overhang(lengths[i], kernel[i], dilations[i], strides[i], sides)
    if op_type == "MaxPool":
        wide = _padded(b, x, [n + m for n, m in zip(added, beyond, strict=True)], _least(b, x))
        return _plain(b, op_type, wide, kernel, dilations, strides)
    wide = _padded(b, _padded(b, x, added, 0), beyond, 0)
    y = _plain(b, op_type, wide, kernel, dilations, strides)
    if not any((*added, *beyond)) or counted == 2:
        return y
    ones = b.constant(np.ones((1, 1, *_lengths(b, x))), b.dtype(x).numpy())
    there = _padded(b, _padded(b, ones, added, 1 if counted else 0), beyond, 0)
    return b.op("Div", y, _plain(b, op_type, there, kernel, dilations, strides))


@function
def by_depth(
    b: Builder,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    dilations: _Ints,
    group: int,
    pads: _Ints,
    strides: _Ints,
) -> ir.Value:
    """A Conv over three dimensions as the sum of one over two for each depth of its kernel."""
    x = _padded(b, x, [pads[0], 0, 0, pads[3], 0, 0], 0)
    depth, *sizes = _lengths(b, x)
    outputs, _, kernel, *_ = b.static_shape(weight)
    count = (depth - (kernel - 1) * dilations[0] - 1) // strides[0] + 1
    flat: dict[str, Any] = {"dilations": dilations[1:], "group": group, "strides": strides[1:]}
    flat |= {"pads": [pads[i] for i in (1, 2, 4, 5)]}
    parts = []
    for i in range(kernel):
        start = i * dilations[0]
        layers = b.op("Slice", x, [start], [start + (count - 1) * strides[0] + 1], [2], [strides[0]])
        rows = b.reshape(
            b.transpose(layers, [0, 2, 1, 3, 4]), [-1, b.static_shape(weight)[1] * group, *sizes]
        )
        parts.append(b.op("Conv", rows, _at_depth(b, weight, i), None if i else bias, **flat))
    total = b.op("Sum", *parts)
    whole = b.reshape(total, [-1, count, outputs, *_lengths(b, total)])
    return b.transpose(whole, [0, 2, 1, 3, 4])


def _at_depth(b: Builder, weight: ir.Value, i: int) -> ir.Value:
    """A kernel over two dimensions of one over three; of a constant, made when it is written."""
    tensor = weight.const_value
    if tensor is None:
        return b.op("Gather", weight, b.constant(i, np.int64), axis=2)
    dims = tensor.shape.numpy()
    part = ir.LazyTensor(
        lambda: ir.Tensor(np.ascontiguousarray(tensor.numpy()[:, :, i])),
        tensor.dtype,
        ir.Shape((*dims[:2], *dims[3:])),
    )
    return b.weight(part)


def _overhang(length: int, kernel: int, dilation: int, stride: int, pads: tuple[int, int]) -> int:
    """Return the elements that windows cover beyond the padding, where their number is rounded up."""
    reach = (kernel - 1) * dilation + 1
    inside = length + sum(pads)
    count = -(-(inside - reach) // stride) + 1
    if (count - 1) * stride >= length + pads[0]:  # a window that begins in the padding is left out
        count -= 1
    return max(0, (count - 1) * stride + reach - inside)


def _least(b: Builder, x: ir.Value) -> float:
    """Return a number that no element of a tensor is less than."""
    if above_zero(x):
        return 0.0  # the padding that MindSpore Lite 2.0 knows, too
    kind = b.dtype(x).numpy()
    return float(np.finfo(kind).min if np.issubdtype(kind, np.floating) else np.iinfo(kind).min)


def _padded(b: Builder, x: ir.Value, pads: Sequence[int], value: float) -> ir.Value:
    """A tensor with `value` before and after its last dimensions."""
    if not any(pads):
        return x
    size = len(pads) // 2
    whole = [0, 0, *pads[:size], 0, 0, *pads[size:]]
    return b.op("Pad", x, whole, b.like(value, x)) if value else b.op("Pad", x, whole)


def _plain(
    b: Builder, op_type: str, x: ir.Value, kernel: _Ints, dilations: _Ints, strides: _Ints
) -> ir.Value:
    """A pool that pads nothing; of windows with gaps, or over many dimensions, from slices."""
    if max(dilations) > 1 or len(kernel) > 2 or not b.dtype(x).is_floating_point():
        parts = list(windows(b, x, kernel, dilations, strides))
        if op_type == "MaxPool":
            return b.op("Max", *parts)
        return b.op("Div", b.op("Sum", *parts), len(parts))
    if len(kernel) == 2:
        return b.op(op_type, x, kernel_shape=kernel, strides=strides)
    y = b.op(op_type, b.op("Unsqueeze", x, [2]), kernel_shape=(1, *kernel), strides=(1, *strides))
    return b.op("Squeeze", y, [2])


def windows(b: Builder, x: ir.Value, kernel: _Ints, dilations: _Ints, strides: _Ints) -> Iterator[ir.Value]:
    """Yield for each place in a window the elements of all windows."""
    lengths = _lengths(b, x)
    axes = list(range(2, 2 + len(kernel)))
    for place in product(*map(range, kernel)):
        starts = [p * d for p, d in zip(place, dilations, strict=True)]
        rest = [(k - 1 - p) * d for k, p, d in zip(kernel, place, dilations, strict=True)]
        ends = [n - r for n, r in zip(lengths, rest, strict=True)]
        yield b.op("Slice", x, starts, ends, axes, list(strides))


@function
def spread(
    b: Builder,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    auto_pad: str,
    dilations: _Ints,
    group: int,
    output_padding: _Ints,
    output_shape: _Ints,
    pads: _Ints,
    strides: _Ints,
) -> ir.Value:
    """A ConvTranspose as Conv of the input with zeros between its elements, and the kernel turned around."""
    inputs, outputs, *kernel = b.static_shape(weight)
    size = len(kernel)
    unit = (1,) * size
    dilations, strides = dilations or unit, strides or unit
    more = output_padding or (0,) * size
    cut = _cut_off(b, x, kernel, auto_pad, dilations, more, output_shape, pads, strides)
    added = []
    for i in range(2 * size):
        axis = i % size
        reach = (kernel[axis] - 1) * dilations[axis] - cut[i]
        added.append(reach if i < size else reach + more[axis] - (strides[axis] - 1))
    wide = _with_gaps(b, x, strides)
    wide = _padded(b, wide, [max(0, n) for n in added], 0)
    if min(added) < 0:
        starts = [max(0, -n) for n in added[:size]]
        ends = [min(0, n) or 1 << 40 for n in added[size:]]
        wide = b.op("Slice", wide, starts, ends, list(range(2, 2 + size)))
    turned = b.op("Slice", weight, [-1] * size, [_BEFORE_ALL] * size, list(range(2, 2 + size)), [-1] * size)
    apart = b.reshape(turned, [group, inputs // group, outputs, *kernel])
    swapped = b.transpose(apart, [0, 2, 1, *range(3, 3 + size)])
    together = b.reshape(swapped, [group * outputs, inputs // group, *kernel])
    return b.op("Conv", wide, together, bias, dilations=dilations, group=group)


def _cut_off(
    b: Builder,
    x: ir.Value,
    kernel: Sequence[int],
    auto_pad: str,
    dilations: _Ints,
    more: _Ints,
    output_shape: _Ints,
    pads: _Ints,
    strides: _Ints,
) -> _Ints:
    """Return the elements to cut off the result: before each dimension, then after each."""
    size = len(kernel)
    if not output_shape and auto_pad in ("NOTSET", "VALID"):
        return pads if pads and auto_pad == "NOTSET" else (0,) * 2 * size
    less, rest = [], []
    for i in range(size):
        whole = (
            more[i] + (kernel[i] - 1) * dilations[i] + 1 - strides[i]
        )  # for a result as long as the strides
        if output_shape:
            whole += strides[i] * _lengths(b, x)[i] - output_shape[i - size]
        less.append(whole // 2)
        rest.append(whole - whole // 2)
    return (*less, *rest) if auto_pad == "SAME_UPPER" else (*rest, *less)


def _with_gaps(b: Builder, x: ir.Value, strides: _Ints) -> ir.Value:
    """A tensor with zeros after each element of its last dimensions."""
    for i, stride in enumerate(strides):
        if stride > 1:
            dims, axis = list(b.shape(x)), i + 2
            rows = b.op("Unsqueeze", x, [axis + 1])
            zeros = [0] * (2 * len(dims) + 1)
            apart = b.op(
                "Pad",
                rows,
                [*zeros[: len(dims) + 1], *zeros[: axis + 1], stride - 1, *zeros[axis + 2 : len(dims) + 1]],
            )
            whole, length = b.dims(x), dims[axis]
            whole[axis] = -1 if length is None else length * stride
            x = b.reshape(apart, whole)
    return x


@function
def for_channels(b: Builder, x: ir.Value, beside: ir.Value) -> ir.Value:
    """A vector with a number for each channel, which is dimension 1, as an operand beside a tensor."""
    return b.op("Reshape", x, [-1] + [1] * (b.rank(beside) - 2))


@function
def normalised(
    b: Builder,
    x: ir.Value,
    scale: ir.Value,
    shift: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    epsilon: float,
    momentum: float,
    training: int,
) -> ir.Value | tuple[ir.Value, ...]:
    """BatchNormalization; when it trains, with the running mean and variance."""
    running: tuple[ir.Value, ...] = ()
    if training:
        axes = [0, *range(2, b.rank(x))]
        now = b.op("ReduceMean", x, axes, keepdims=0)
        far = b.op("Sub", x, for_channels(b, now, x))
        spread_now = b.op("ReduceMean", b.op("Mul", far, far), axes, keepdims=0)
        pairs = ((mean, now), (variance, spread_now))
        running = tuple(
            b.op("Add", b.op("Mul", old, momentum), b.op("Mul", new, 1 - momentum)) for old, new in pairs
        )
        mean, variance = now, spread_now
    width = b.op("Sqrt", b.op("Add", variance, epsilon))
    far = b.op("Sub", x, for_channels(b, mean, x))
    factor = for_channels(b, b.op("Div", scale, width), x)
    y = b.op("Add", b.op("Mul", far, factor), for_channels(b, shift, x))
    return (y, *running) if running else y


@function
def unpooled(b: Builder, dims: _Ints, kernel: _Ints, pads: _Ints, strides: _Ints) -> _Ints:
    """The dimensions of what a MaxPool with places was made of."""
    size = len(kernel)
    sizes = zip(dims[2:], kernel, pads, pads[size:], strides, strict=False)
    return (*dims[:2], *((n - 1) * step + k - before - after for n, k, before, after, step in sizes))


@function
def merged(
    b: Builder, x: ir.Value, image: _Ints, block: _Ints, dilations: _Ints, pads: _Ints, strides: _Ints
) -> ir.Value:
    """A Col2Im as ConvTranspose, whose kernels have a one for each place in a block."""
    places, size = math.prod(block), len(block)
    batch, rows = b.shape(x)[:2]
    if rows is None:
        raise Unsupported("has a free number of channels: fix it by shapes of the inputs")
    counts = [
        (n + pads[i] + pads[i + size] - (k - 1) * dilations[i] - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip(image, block, strict=True))
    ]
    ones = np.tile(np.eye(places), (rows // places, 1)).reshape(rows, 1, *block)
    shape: dict[str, Any] = {
        "dilations": dilations,
        "pads": pads,
        "strides": strides,
        "group": rows // places,
    }
    wide = [n + pads[i] + pads[i + size] for i, n in enumerate(image)]
    rest = [
        n - (c - 1) * s - (k - 1) * d - 1
        for n, c, s, k, d in zip(wide, counts, strides, block, dilations, strict=True)
    ]
    blocks = b.reshape(x, [-1 if batch is None else batch, rows, *counts])
    return b.op("ConvTranspose", blocks, b.constant(ones, b.dtype(x).numpy()), output_padding=rest, **shape)
