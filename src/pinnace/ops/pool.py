"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pinnace.ops.builder import Builder, Unsupported
from pinnace.ops.conv import edges, spatial, window
from pinnace.ops.table import Ints, Tensor, primitive
from pinnace.ops.values import Value


@primitive("MaxPool")
def max_pool(
    b: Builder, x: Tensor, kernel_size: Ints = (1,), strides: Ints = (1,), pad_mode: str = "VALID"
) -> Value:
    """MaxPool."""
    return b.op(
        "MaxPool",
        x,
        kernel_shape=spatial(kernel_size, 2),
        strides=spatial(strides, 2),
        **window(pad_mode, (0,), 2),
    )


@primitive("AvgPool")
def avg_pool(
    b: Builder, x: Tensor, kernel_size: Ints = (1,), strides: Ints = (1,), pad_mode: str = "VALID"
) -> Value:
    """AveragePool; padding does not count."""
    return b.op(
        "AveragePool",
        x,
        kernel_shape=spatial(kernel_size, 2),
        strides=spatial(strides, 2),
        **window(pad_mode, (0,), 2),
    )


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
    return b.op(
        "MaxPool",
        x,
        kernel_shape=spatial(kernel_size, 3),
        strides=spatial(strides, 3),
        ceil_mode=int(bool(ceil_mode)),
        **window(pad_mode, pad_list, 3),
    )


@primitive("AvgPool3D")
def avg_pool_3d(
    b: Builder,
    x: Tensor,
    kernel_size: Ints = (1,),
    strides: Ints = (1,),
    pad_mode: str = "VALID",
    pad: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
) -> Value:
    """AveragePool."""
    return average(
        b,
        x,
        spatial(kernel_size, 3),
        strides,
        window(pad_mode, pad, 3),
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


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
    pooled = b.op(
        "AveragePool",
        x,
        kernel_shape=list(kernel),
        strides=spatial(strides, len(kernel)),
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad or bool(divisor)),
        **padding,
    )
    return b.op("Mul", pooled, float(np.prod(kernel)) / divisor) if divisor else pooled


def _average_ext(rank: int, name: str) -> None:
    def lowering(
        b: Builder,
        x: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        kernel = spatial(kernel_size, rank)
        return average(
            b,
            x,
            kernel,
            stride or kernel,
            window("pad", padding, rank),
            ceil_mode,
            count_include_pad,
            divisor_override,
        )

    lowering.__doc__ = "AveragePool."
    primitive(name)(lowering)


_average_ext(1, "AvgPool1D")
_average_ext(2, "AvgPool2D")
_average_ext(3, "AvgPool3DExt")


@primitive("MaxPoolWithArgmaxV2", "MaxPoolWithMask", "MaxPoolWithIndices")
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
    value, place = b.ops(
        "MaxPool",
        2,
        x,
        kernel_shape=kernel,
        strides=spatial(strides or kernel, 2),
        pads=edges(pads, 2),
        dilations=spatial(dilation, 2),
        ceil_mode=int(ceil_mode),
    )
    height, width = b.static_shape(x)[-2:]
    within = b.op("Mod", place, b.constant(height * width, np.int64))
    return value, b.cast(within, b.result(within, 1))


# -- to a given size -------------------------------------------------------------------------------


@primitive("AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt")
def adaptive_avg_pool_2d(b: Builder, x: Tensor, output_size: Value) -> Value:
    """GlobalAveragePool, AveragePool, or MatMul with weights of means."""
    return _adaptive_average(b, x, _sizes(b, output_size, 2))


@primitive("AdaptiveAvgPool3D", "AdaptiveAvgPool3DExt")
def adaptive_avg_pool_3d(b: Builder, x: Tensor, output_size: Value) -> Value:
    """GlobalAveragePool, AveragePool, or MatMul with weights of means."""
    return _adaptive_average(b, x, _sizes(b, output_size, 3))


@primitive("AdaptiveAvgPool1D")
def adaptive_avg_pool_1d(b: Builder, x: Tensor, output_size: Value) -> Value:
    """GlobalAveragePool, AveragePool, or MatMul with weights of means."""
    return _adaptive_average(b, x, _sizes(b, output_size, 1))


@primitive("AdaptiveMaxPool2D", "AdaptiveMaxPool2DExt")
def adaptive_max_pool_2d(b: Builder, x: Tensor, output_size: Value) -> Value:
    """MaxPool, or ReduceMax of every cell; the indices are not given."""
    pooled = _adaptive_max(b, x, _sizes(b, output_size, 2))
    return pooled, None


@primitive("AdaptiveMaxPool1D")
def adaptive_max_pool_1d(b: Builder, x: Tensor, output_size: Value) -> Value:
    """MaxPool, or ReduceMax of every cell; the indices are not given."""
    return _adaptive_max(b, x, _sizes(b, output_size, 1))


def _sizes(b: Builder, value: Value, rank: int) -> list[int | None]:
    known = value if isinstance(value, tuple) else b.ints(value)
    sizes = [None if v is None or v == -1 else int(v) for v in known]
    return sizes * rank if len(sizes) == 1 else sizes


def _adaptive_average(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    first = b.rank(x) - len(sizes)
    if all(s == 1 for s in sizes):
        if first == 2:
            return b.op("GlobalAveragePool", x)
        return b.op("ReduceMean", x, list(range(first, b.rank(x))), keepdims=1)
    steps = _even_steps(b, x, sizes)
    if steps is not None and first == 2:
        return b.op("AveragePool", x, kernel_shape=steps, strides=steps)
    for axis, size in enumerate(sizes, first):
        if size is not None:
            x = _averaged(b, x, axis, size)
    return x


def _even_steps(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> list[int] | None:
    lengths = b.shape(x)[-len(sizes) :]
    if any(n is None or (s is not None and n % s) for n, s in zip(lengths, sizes, strict=True)):
        return None
    return [1 if s is None else n // s for n, s in zip(lengths, sizes, strict=True) if n is not None]


def _cells(length: int, size: int) -> list[tuple[int, int]]:
    """Where the cells begin and end when `length` elements are shared out to `size`."""
    return [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def _averaged(b: Builder, x: Tensor, axis: int, size: int) -> Tensor:
    length = b.shape(x)[axis]
    if length is None:
        raise Unsupported("pools a dimension that only the run knows to a size of its own")
    means = np.zeros((length, size), b.dtype(x).numpy())
    for i, (start, stop) in enumerate(_cells(length, size)):
        means[start:stop, i] = 1 / (stop - start)
    last = b.rank(x) - 1
    perm = [last if i == axis else axis if i == last else i for i in range(last + 1)]
    if axis == last:
        return b.op("MatMul", x, b.constant(means))
    return b.transpose(b.op("MatMul", b.transpose(x, perm), b.constant(means)), perm)


def _adaptive_max(b: Builder, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    first = b.rank(x) - len(sizes)
    steps = _even_steps(b, x, sizes)
    if steps is not None and first == 2:
        return b.op("MaxPool", x, kernel_shape=steps, strides=steps)
    for axis, size in enumerate(sizes, first):
        length = b.shape(x)[axis]
        if size is None:
            continue
        if length is None:
            raise Unsupported("pools a dimension that only the run knows to a size of its own")
        parts = [
            b.op("ReduceMax", b.op("Slice", x, [start], [stop], [axis]), [axis], keepdims=1)
            for start, stop in _cells(length, size)
        ]
        x = b.op("Concat", *parts, axis=axis)
    return x
