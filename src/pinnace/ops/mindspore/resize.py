"""Resizing images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pinnace.graph.builder import Builder
from pinnace.graph.failures import room
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.mindspore.conv import layout_of
from pinnace.ops.table import Dims, Floats, Ints, Tensor, primitive, primitives
from pinnace.ops.values import FLOAT, Value


def resized(op: Builder, x: Tensor, sizes: Sequence[int | Tensor], where: str, **attributes: Any) -> Tensor:
    """Resize of the last dimensions to `sizes`; `where` is the coordinate_transformation_mode."""
    dims = op.dims(x, stop=-len(sizes))
    return op.Resize(
        x, None, None, op.vector([*dims, *sizes]), coordinate_transformation_mode=where, **attributes
    )


def _coordinates(align_corners: bool, half_pixel_centers: bool) -> str:
    return "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"


_NEAREST = {"align_corners": "round_prefer_ceil", "half_pixel": "round_prefer_ceil", "asymmetric": "floor"}
"""MindSpore's rounding: of pixels' centers it takes the one over (i + 0.5) * scale."""


@primitive("ResizeArea")
def _resize_area(op: Builder, x: Tensor, size: Ints, align_corners: bool = False) -> Value:
    _, height, width, _ = op.static_shape(x)
    rows, columns = [
        op.constant(_shares(old, new, align_corners)) for old, new in zip((height, width), size, strict=True)
    ]
    image = op.transpose(op.cast(x, FLOAT), (0, 3, 1, 2))
    image = op.MatMul(rows, op.MatMul(image, op.Transpose(columns, perm=[1, 0])))
    return op.transpose(image, (0, 2, 3, 1))


@primitive("ResizeBicubic")
def _resize_bicubic(
    op: Builder, x: Tensor, size: Dims, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """MatMul with the weights of each place; Resize, cubic, where the sizes are known only at run time."""
    lengths = op.shape(x)[-2:]
    if None in lengths or not all(isinstance(s, int) for s in size):
        a = -0.5 if half_pixel_centers else -0.75
        outside = int(half_pixel_centers)
        where = _coordinates(align_corners, half_pixel_centers)
        return resized(op, x, size, where, mode="cubic", cubic_coeff_a=a, exclude_outside=outside)
    down, along = [
        op.constant(cubic_weights(n or 0, int(s), align_corners, half_pixel_centers), op.dtype(x).numpy())
        for n, s in zip(lengths, size, strict=True)
        if isinstance(s, int)
    ]
    return op.MatMul(op.MatMul(down, x), op.transpose(along, (1, 0)))


@primitive("ResizeBilinearV2", "ResizeBilinear")
def _resize_bilinear_v2(
    op: Builder, x: Tensor, size: Dims, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    return resized(op, x, size, _coordinates(align_corners, half_pixel_centers), mode="linear")


@primitive("ResizeLinear1D")
def _resize_linear1_d(
    op: Builder, x: Tensor, size: Dims, coordinate_transformation_mode: str = "align_corners"
) -> Value:
    where = _MODES.get(coordinate_transformation_mode, coordinate_transformation_mode)
    return resized(op, x, size, where, mode="linear")


@primitive("ResizeNearestNeighborV2", "ResizeNearestNeighbor", "DynamicResizeNearestNeighbor")
def _resize_nearest_neighbor_v2(
    op: Builder,
    x: Tensor,
    size: Dims,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    data_format: str = "NCHW",
) -> Value:
    where = _coordinates(align_corners, half_pixel_centers)
    layout = layout_of(data_format)
    image = channels_first(op, x, layout)
    y = resized(op, image, size, where, mode="nearest", nearest_mode=_NEAREST[where])
    return channels_back(op, y, x, layout)


@primitive("ResizeV2", unused="roi scales")
def _resize_v2(
    op: Builder,
    x: Tensor,
    roi: Value,
    scales: Value,
    sizes: Dims,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "nearest",
) -> Value:
    where = coordinate_transformation_mode
    rounding = "floor" if mode == "nearest" else None
    coefficient = -0.75 if mode == "cubic" else None
    return resized(op, x, sizes, where, mode=mode, nearest_mode=rounding, cubic_coeff_a=coefficient)


@primitives(
    {
        "UpsampleBicubic2D": "cubic",
        "UpsampleBilinear2D UpsampleLinear1D UpsampleTrilinear3D": "linear",
        "UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D": "nearest",
    }
)
def _upsample_bicubic2_d(
    op: Builder,
    mode: str,
    x: Tensor,
    output_size: Dims | None = None,
    scales: Floats | None = None,
    align_corners: bool = False,
) -> Value:
    """Resize, {mode}."""
    nearest = mode == "nearest"
    sizes = op.vector([*op.dims(x, stop=-len(output_size)), *output_size]) if output_size else None
    times = None if output_size else _factors(op, x, nearest, scales or ())
    return op.Resize(
        x,
        None,
        times,
        sizes,
        coordinate_transformation_mode="asymmetric" if nearest else _coordinates(align_corners, True),
        mode=mode,
        nearest_mode="floor" if nearest else None,
        cubic_coeff_a=-0.75 if mode == "cubic" else None,
    )


_CUBIC_STEPS = 1024
"""MindSpore reads the cubic's weights from a table of so many places between two pixels."""


def cubic_weights(
    length: int, size: int, align_corners: bool, half_pixel_centers: bool
) -> npt.NDArray[np.float64]:
    """The share of each of `length` pixels in each of `size`: (size, length).

    Keys' cubic with a = -1/2, pixels outside left out, for half-pixel centers; else a = -3/4, and the
    pixels at the edge stand for those outside.
    """
    a = -0.5 if half_pixel_centers else -0.75
    scale = (length - 1) / (size - 1) if align_corners and size > 1 else length / size
    weights = np.zeros(room(size, length))
    for i in range(size):
        place = (i + 0.5) * scale - 0.5 if half_pixel_centers else i * scale
        first = math.floor(place)
        rest = round((place - first) * _CUBIC_STEPS) / _CUBIC_STEPS
        for k, share in enumerate((_far(1 + rest, a), _near(rest, a), _near(1 - rest, a), _far(2 - rest, a))):
            pixel = first - 1 + k
            if half_pixel_centers and not 0 <= pixel < length:
                continue
            weights[i, min(max(pixel, 0), length - 1)] += share
    return weights / weights.sum(1, keepdims=True) if half_pixel_centers else weights


def _near(x: float, a: float) -> float:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: float, a: float) -> float:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


_MODES = {"0": "asymmetric", "1": "align_corners", "2": "half_pixel"}


def _factors(op: Builder, x: Tensor, nearest: bool, scales: Sequence[float]) -> npt.NDArray[np.float32]:
    """Scales; to MindSpore a nearest one that keeps or doubles a length does exactly that."""
    factors = [1.0, 1.0]
    for length, scale in zip(op.shape(x)[2:], scales, strict=True):
        times = None if length is None else int(length * np.float32(scale)) / max(length, 1)
        factors.append(times if nearest and times in (1, 2) else scale)
    return np.asarray(factors, np.float32)


def _shares(old: int, new: int, align_corners: bool) -> npt.NDArray[np.float32]:
    """(new, old): the share that old pixels have in new ones."""
    scale = (old - 1) / (new - 1) if align_corners and new > 1 else old / new
    room(new, old)
    starts = np.arange(new)[:, None] * scale
    pixels = np.arange(old)[None]
    overlap = np.minimum(starts + scale, pixels + 1) - np.maximum(starts, pixels)
    shares = np.clip(overlap, 0, None)
    # What reaches over the end takes the last pixel for it.
    shares[:, -1] += np.clip(starts[:, 0] + scale - old, 0, None)
    return np.asarray(shares / scale, np.float32)
