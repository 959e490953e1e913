"""MindSpore Lite: images resized and rearranged, in the layout of the model."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops import image
from pinnace.ops.builder import Builder
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.lite_math import lite, lite_formulas, lites
from pinnace.ops.table import Ints, Lowering, Tensor
from pinnace.ops.values import Unsupported, Value

lite_formulas(
    __name__,
    """
    DepthToSpace; format: x, block_size: int, mode: str = "DCR" ->
        # DepthToSpace.
        y = DepthToSpace(channels_first(x), blocksize=block_size, mode=mode or "DCR")
        channels_back(y, x)
    SpaceToDepth; format: x, block_size: int ->
        # SpaceToDepth.
        channels_back(SpaceToDepth(channels_first(x), blocksize=block_size), x)
    """,
)


_METHODS = {0: "linear", 1: "nearest", 2: "cubic"}


_COORDINATES = {0: "asymmetric", 1: "align_corners", 2: "half_pixel"}


_NEAREST = {1: "round_prefer_floor", 2: "round_prefer_ceil", 3: "floor", 4: "ceil"}


_NORMAL = 0


@lite("Resize", unused="format extrapolation_value")
def resize(
    b: Builder,
    x: Tensor,
    target: Tensor | None = None,
    new_height: int = 0,
    new_width: int = 0,
    method: int = 0,
    coordinate_transform_mode: int = 0,
    nearest_mode: int = _NORMAL,
    cubic_coeff: float = -0.75,
    exclude_outside: int = 0,
) -> Value:
    """Resize; target holds factors (floats) or sizes (ints) for height and width."""
    if method not in _METHODS or coordinate_transform_mode not in _COORDINATES:
        raise Unsupported(f"has method {method} and coordinate_transform_mode {coordinate_transform_mode}")
    picture = channels_first(b, x)
    factors, sizes, axes = _target(b, picture, target, (new_height, new_width))
    # Rounding as usual is what MindSpore Lite does between aligned corners, and cutting off elsewhere.
    aligned = _COORDINATES[coordinate_transform_mode] == "align_corners"
    nearest = _NEAREST.get(nearest_mode, "round_prefer_ceil" if aligned else "floor")
    y = b.op(
        "Resize",
        picture,
        None,
        factors,
        sizes,
        axes=axes,
        mode=_METHODS[method],
        coordinate_transformation_mode=_COORDINATES[coordinate_transform_mode],
        nearest_mode=nearest if method == 1 else None,
        cubic_coeff_a=cubic_coeff if method == 2 else None,
        exclude_outside=exclude_outside or None,
    )
    return channels_back(b, y, x)


def _target(
    b: Builder, picture: Tensor, target: Tensor | None, size: tuple[int, int]
) -> tuple[Tensor | None, Tensor | None, list[int] | None]:
    """ONNX's scales and sizes, one of them, and the axes that they are for; None where for all."""
    if target is None:
        target = b.constant(size, np.int64)
    if b.static_shape(target) != (2,):
        raise Unsupported(f"has a target of shape {b.shape(target)}, and height and width are expected")
    if b.dtype(target).is_floating_point():
        return target, None, [2, 3]
    return None, b.cast(target, ir.DataType.INT64), [2, 3]


@lites(
    {"SpaceToBatch SpaceToBatchND": image.space_to_batch, "BatchToSpace BatchToSpaceND": image.batch_to_space}
)
def blocks(
    b: Builder,
    plain: Lowering,
    x: Tensor,
    *,
    block_size: Ints = (),
    block_shape: Ints = (),
    paddings: Value = (),
    crops: Value = (),
) -> Value:
    """{plain.__doc__}"""
    return channels_back(b, plain(b, channels_first(b, x), block_size or block_shape, paddings or crops), x)
