"""Images: resizing, sampling, regions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pinnace.ops.builder import Builder
from pinnace.ops.table import Dims, Tensor, primitive
from pinnace.ops.values import Value

# -- resizing --------------------------------------------------------------------------------------


def resized(
    b: Builder,
    x: Tensor,
    sizes: Sequence[int | Tensor],
    mode: str,
    align_corners: bool,
    half_pixel_centers: bool,
    **attributes: Any,
) -> Tensor:
    """Resize of the last dimensions to `sizes`."""
    where = "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"
    dims = [b.dim(x, i) for i in range(b.rank(x) - len(sizes))]
    return b.op(
        "Resize",
        x,
        None,
        None,
        b.vector([*dims, *sizes]),
        mode=mode,
        coordinate_transformation_mode=where,
        **attributes,
    )


@primitive("ResizeBilinearV2", "ResizeBilinear")
def resize_bilinear(
    b: Builder, x: Tensor, size: Dims, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Resize, linear."""
    return resized(b, x, size, "linear", align_corners, half_pixel_centers)


@primitive("ResizeNearestNeighborV2", "ResizeNearestNeighbor")
def resize_nearest(
    b: Builder, x: Tensor, size: Dims, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Resize, nearest."""
    rounding = "round_prefer_ceil" if align_corners else "floor"
    return resized(b, x, size, "nearest", align_corners, half_pixel_centers, nearest_mode=rounding)


@primitive("ResizeBicubic")
def resize_bicubic(
    b: Builder, x: Tensor, size: Dims, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """MatMul with the weights of each place; Resize, cubic, where only the run knows the sizes."""
    lengths = b.shape(x)[-2:]
    if None in lengths or not all(isinstance(s, int) for s in size):
        a = -0.5 if half_pixel_centers else -0.75
        outside = int(half_pixel_centers)
        return resized(
            b, x, size, "cubic", align_corners, half_pixel_centers, cubic_coeff_a=a, exclude_outside=outside
        )
    down, along = (
        b.constant(cubic_weights(n or 0, int(s), align_corners, half_pixel_centers), b.dtype(x).numpy())
        for n, s in zip(lengths, size, strict=True)
        if isinstance(s, int)
    )
    return b.op("MatMul", b.op("MatMul", down, x), b.transpose(along, (1, 0)))


_CUBIC_STEPS = 1024
"""MindSpore reads the cubic's weights from a table of so many places between two pixels."""


def cubic_weights(
    length: int, size: int, align_corners: bool, half_pixel_centers: bool
) -> npt.NDArray[np.float64]:
    """What each of `length` pixels gives to each of `size`.

    Keys' cubic with a = -1/2, pixels outside left out, for half-pixel centres; else a = -3/4, and the
    pixels at the edge stand for those outside.
    """
    a = -0.5 if half_pixel_centers else -0.75
    scale = (length - 1) / (size - 1) if align_corners and size > 1 else length / size
    weights = np.zeros((size, length))
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


_TRANSFORMS = {
    "align_corners": (True, False),
    "0": (True, False),
    "half_pixel": (False, True),
    "2": (False, True),
}


@primitive("ResizeLinear1D")
def resize_linear_1d(
    b: Builder, x: Tensor, size: Dims, coordinate_transformation_mode: str = "align_corners"
) -> Value:
    """Resize, linear."""
    align, half = _TRANSFORMS.get(coordinate_transformation_mode, (False, False))
    return resized(b, x, size, "linear", align, half)


# -- sampling --------------------------------------------------------------------------------------

_SAMPLING = {"0": "linear", "1": "nearest", "bilinear": "linear", "nearest": "nearest"}
_SAMPLING_PADS = {"0": "zeros", "1": "border", "2": "reflection"}


@primitive("GridSampler2D", "GridSampler3D")
def grid_sampler(
    b: Builder,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Value:
    """GridSample."""
    return b.op(
        "GridSample",
        x,
        grid,
        mode=_SAMPLING[interpolation_mode],
        padding_mode=_SAMPLING_PADS.get(padding_mode, padding_mode),
        align_corners=int(align_corners),
    )


# -- regions ---------------------------------------------------------------------------------------


@primitive("ROIAlign")
def roi_align(
    b: Builder,
    features: Tensor,
    rois: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sample_num: int = 2,
    roi_end_mode: int = 1,
) -> Value:
    """RoiAlign, the regions taken apart into batch index and corners."""
    number, corners = b.ops("Split", 2, rois, [1, 4], axis=1)
    if roi_end_mode:
        # The end counts as inside, so a region reaches one further.
        corners = b.op("Add", corners, b.constant(np.asarray([0, 0, 1, 1], b.dtype(rois).numpy())))
    index = b.cast(b.op("Squeeze", number, [1]), b.dtype(b.constant(0, np.int64)))
    return b.op(
        "RoiAlign",
        features,
        corners,
        index,
        coordinate_transformation_mode="output_half_pixel",
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=sample_num,
        spatial_scale=spatial_scale,
    )
