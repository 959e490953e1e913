"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.conv import (
    edges,
    images_back,
    images_first,
    is_last,
    is_same,
    spatial,
    unbatched,
    window,
)
from pinnace.ops.room import room, span
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


def reached(
    b: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], padding: dict[str, Any]
) -> Tensor:
    """What of an image a pool's windows reach where its padding is SAME and a step is longer than a window.

    By ONNX's formula the rest beyond the last window is padding less than 0, and windows begin in the image.
    """
    if "auto_pad" not in padding or all(s <= k for s, k in zip(steps, kernel, strict=True)):
        return x
    axes = list(range(2, b.rank(x)))
    ends = b.vector([_end(b, b.dim(x, a), k, s) for a, k, s in zip(axes, kernel, steps, strict=True)])
    return b.op("Slice", x, [0] * len(axes), ends, axes)


def _end(b: Builder, length: int | Tensor, kernel: int, step: int) -> int | Tensor:
    """Where the last window ends; beyond the image where it is padded."""
    if isinstance(length, int):
        return (length - 1) // step * step + kernel
    windows = b.op("Div", b.op("Sub", length, 1), b.constant(step, np.int64))
    return b.op("Add", b.op("Mul", windows, b.constant(step, np.int64)), kernel)


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


def _with_indices(
    b: Builder,
    x: Tensor,
    kernel: list[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    """MaxPool and the places of what it took, counted within a channel."""
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
    """How many places a channel has."""
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
    return _with_indices(b, x, kernel, strides or kernel, spatial(pads, 2), dilation, ceil_mode)


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
    return _with_indices(b, x, kernel, steps, (0, 0), (1,), False)


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
    return _with_indices(b, x, spatial(ksize, 3), strides, spatial(pads, 3), dilation, ceil_mode)


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


# -- to a given size -------------------------------------------------------------------------------


@primitives(
    {
        "AdaptiveAvgPool1D": 1,
        "AdaptiveAvgPool2D AdaptiveAvgPool2DExt": 2,
        "AdaptiveAvgPool3D AdaptiveAvgPool3DExt": 3,
    }
)
def adaptive(b: Builder, rank: int, x: Tensor, output_size: Value) -> Value:
    """GlobalAveragePool, AveragePool, or MatMul with weights of means."""
    return _adaptive_average(b, x, _sizes(b, output_size, rank))


@primitives({"AdaptiveMaxPool1D": 1, "AdaptiveMaxPool2D": 2, "AdaptiveMaxPool3D": 3})
def adaptive_with_indices(b: Builder, rank: int, x: Tensor, output_size: Value) -> Value:
    """MaxPool, or Gather of every cell, ReduceMax and ArgMax."""
    value, place = _adaptive_max(b, x, _sizes(b, output_size, rank))
    return value, b.cast(place, b.result(place, 1))


def _sizes(b: Builder, value: Value, rank: int) -> list[int | None]:
    known = value if isinstance(value, tuple) else binding.ints(b, value)
    sizes = [None if v is None or binding.int_(b, v) == -1 else binding.int_(b, v) for v in known]
    return sizes * rank if len(sizes) == 1 else sizes


def _adaptive_average(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    first, own = b.rank(x) - len(sizes), b.dtype(x)
    if 0 in sizes:
        lead = [b.dim(x, i) for i in range(first)]
        rest = [b.dim(x, i) if s is None else s for i, s in enumerate(sizes, first)]
        return b.op("Expand", b.like(0, x), b.vector([*lead, *rest]))
    if own.is_integer():
        x = _averaged_along(b, b.cast(x, ir.DataType.DOUBLE), sizes)
        # Cut off towards zero; a mean that float64 has just below an integer is that integer.
        return b.cast(b.op("Div", b.op("Round", b.op("Mul", x, 2.0**20)), 2.0**20), own)
    if all(s == 1 for s in sizes):
        if first == 2:
            return b.op("GlobalAveragePool", x)
        return b.op("ReduceMean", x, list(range(first, b.rank(x))), keepdims=1)
    steps = _even_steps(b, x, sizes)
    if steps is not None and first == 2:
        return b.op("AveragePool", x, kernel_shape=steps, strides=steps)
    return _averaged_along(b, x, sizes)


def _averaged_along(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    for axis, size in enumerate(sizes, b.rank(x) - len(sizes)):
        if size is not None:
            x = _averaged(b, x, axis, size)
    return x


def _even_steps(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> list[int] | None:
    """The size of the cells where all are of one."""
    lengths = b.shape(x)[-len(sizes) :]
    if any(s is not None and (n is None or n % s) for n, s in zip(lengths, sizes, strict=True)):
        return None
    return [1 if s is None or n is None else n // s for n, s in zip(lengths, sizes, strict=True)]


def _averaged(b: Builder, x: Tensor, axis: int, size: int) -> Tensor:
    means = _means(b, x, axis, size)
    last = b.rank(x) - 1
    if axis == last:
        return b.op("MatMul", x, means)
    perm = [last if i == axis else axis if i == last else i for i in range(last + 1)]
    return b.transpose(b.op("MatMul", b.transpose(x, perm), means), perm)


def _means(b: Builder, x: Tensor, axis: int, size: int) -> Tensor:
    """(length, size): the share that each element has in each cell."""
    length = b.dim(x, axis)
    if isinstance(length, int):
        known = np.zeros(room(length, size), b.dtype(x).numpy())
        for i, (start, stop) in enumerate(_cells(length, size)):
            known[start:stop, i] = 1 / (stop - start)
        return b.constant(known)
    starts, stops = _ends(b, length, size)
    places = b.op("Unsqueeze", counting(b, length), [1])
    inside = b.op("And", b.op("GreaterOrEqual", places, starts), b.op("Less", places, stops))
    dtype = b.dtype(x)
    return b.op("Div", b.cast(inside, dtype), b.cast(b.op("Sub", stops, starts), dtype))


def _ends(b: Builder, length: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """What `_cells` gives, of a length that only the run knows."""
    index, parts = counting(b, size), b.constant(size, np.int64)
    starts = b.op("Div", b.op("Mul", index, length), parts)
    return starts, b.op("Div", b.op("Add", b.op("Mul", b.op("Add", index, 1), length), size - 1), parts)


def _cells(length: int, size: int) -> list[tuple[int, int]]:
    """Where the cells begin and end when `length` elements are shared out to `size`."""
    span(16 * size)  # numbers that are kept for each
    return [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def _adaptive_max(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> tuple[Tensor, Tensor]:
    """The largest of every cell, and their places counted within a channel."""
    rank = len(sizes)
    steps = _even_steps(b, x, sizes)
    if steps is not None and b.rank(x) == rank + 2:
        return _with_indices(b, x, steps, steps, (0,), (1,), False)
    if all(s == 1 for s in sizes):
        lead = b.dims(x, stop=-rank)
        flat = b.reshape(x, [*lead, -1])
        found = b.op("ReduceMax", flat, [-1], keepdims=0), b.op("ArgMax", flat, axis=-1, keepdims=0)
        value, place = (b.reshape(v, [*lead, *[1] * rank]) for v in found)
        return value, place
    lead = b.dims(x, stop=-rank)
    lengths = b.dims(x, -rank)
    counts = [n if s is None else s for n, s in zip(lengths, sizes, strict=True)]
    places = _places(b, lengths, sizes)
    flat = b.reshape(x, [*lead, -1])
    cells = b.op("Gather", flat, places, axis=len(lead))
    value = b.op("ReduceMax", cells, [-1], keepdims=0)
    taken = b.op("ArgMax", cells, axis=-1, keepdims=1)
    grid = b.op("Expand", places, b.op("Shape", cells))
    place = b.op("Squeeze", b.op("GatherElements", grid, taken, axis=-1), [-1])
    return b.reshape(value, [*lead, *counts]), b.reshape(place, [*lead, *counts])


def _places(b: Builder, lengths: Sequence[int | Tensor], sizes: Sequence[int | None]) -> Tensor:
    """(cells, elements): the elements of every cell, the last one again where a cell has fewer."""
    known = [n for n in lengths if isinstance(n, int)]
    if len(known) == len(lengths):
        return b.constant(_known_places(known, sizes))
    flat = b.constant([[0]], np.int64)
    for length, size in zip(lengths, sizes, strict=True):
        along = b.op("Unsqueeze", _places_along(b, length, size), [0, 2])
        flat = b.op("Add", b.op("Mul", b.op("Unsqueeze", flat, [1, 3]), length), along)
        cells = b.op("ReduceProd", b.op("Shape", flat, start=0, end=2), keepdims=1)
        flat = b.op("Reshape", flat, b.op("Concat", cells, [-1], axis=0))
    return flat


def _known_places(lengths: Sequence[int], sizes: Sequence[int | None]) -> np.ndarray[Any, Any]:
    flat: np.ndarray[Any, Any] = np.zeros((1, 1), np.int64)
    for length, size in zip(lengths, sizes, strict=True):
        along = _known_along(length, length if size is None else size)
        shape = room(len(flat) * len(along), flat.shape[1] * along.shape[1])
        flat = (flat[:, None, :, None] * length + along[None, :, None, :]).reshape(shape)
    return flat


def _known_along(length: int, size: int) -> np.ndarray[Any, Any]:
    starts, stops = np.asarray(_cells(length, size)).T
    widest = int((stops - starts).max())
    room(size, widest)
    return np.asarray(np.minimum(starts[:, None] + np.arange(widest), stops[:, None] - 1))


def _places_along(b: Builder, length: int | Tensor, size: int | None) -> Tensor:
    """(cells, elements) of one axis."""
    if size is None:
        return b.op("Unsqueeze", counting(b, length), [1])
    if isinstance(length, int):
        return b.constant(_known_along(length, size), np.int64)
    starts, stops = (b.op("Unsqueeze", ends, [1]) for ends in _ends(b, length, size))
    widest = b.op("ReduceMax", b.op("Sub", stops, starts), keepdims=0)
    return b.op("Min", b.op("Add", starts, counting(b, widest)), b.op("Sub", stops, 1))
