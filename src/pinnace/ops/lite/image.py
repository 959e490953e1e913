"""MindSpore Lite: images resized and rearranged, in the layout of the model."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.lite.math import lite, lites
from pinnace.ops.mindspore import image
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import INT64, Ints, Lowering, OneOf, Tensor
from pinnace.ops.values import Value


@lites({"DepthToSpace": "DepthToSpace", "SpaceToDepth": "SpaceToDepth"}, unused="format")
def _depth_to_space(op: Builder, op_type: str, x: Tensor, block_size: int, mode: str = "") -> Value:
    y = op.op(op_type, channels_first(op, x), blocksize=block_size, mode=mode or None)
    return channels_back(op, y, x)


@lite("Resize", unused="format extrapolation_value")
def _resize(
    op: Builder,
    x: Tensor,
    target: Tensor | None = None,
    new_height: int = 0,
    new_width: int = 0,
    method: Annotated[str, OneOf(_METHODS)] = "linear",
    coordinate_transform_mode: Annotated[str, OneOf(_COORDINATES)] = "asymmetric",
    nearest_mode: int = 0,
    cubic_coeff: float = -0.75,
    exclude_outside: int = 0,
) -> Value:
    """Resize; target holds factors (floats) or sizes (ints) for height and width."""
    wanted = op.constant((new_height, new_width), np.int64) if target is None else target
    if op.static_shape(wanted) != (2,):
        raise Unsupported(f"has a target of shape {op.shape(wanted)}, and height and width are expected")
    factors, sizes = (wanted, None) if is_float(op, wanted) else (None, op.cast(wanted, INT64))
    # Rounding as usual is what MindSpore Lite does between aligned corners, and cutting off elsewhere.
    usual = "round_prefer_ceil" if coordinate_transform_mode == "align_corners" else "floor"
    y = op.Resize(
        channels_first(op, x),
        None,
        factors,
        sizes,
        axes=[2, 3],
        mode=method,
        coordinate_transformation_mode=coordinate_transform_mode,
        nearest_mode=_NEAREST.get(nearest_mode, usual) if method == "nearest" else None,
        cubic_coeff_a=cubic_coeff if method == "cubic" else None,
        exclude_outside=exclude_outside or None,
    )
    return channels_back(op, y, x)


_METHODS = {0: "linear", 1: "nearest", 2: "cubic"}
_COORDINATES = {0: "asymmetric", 1: "align_corners", 2: "half_pixel"}
_NEAREST = {1: "round_prefer_floor", 2: "round_prefer_ceil", 3: "floor", 4: "ceil"}


@lites(
    {"SpaceToBatch SpaceToBatchND": image.space_to_batch, "BatchToSpace BatchToSpaceND": image.batch_to_space}
)
def blocks(
    op: Builder,
    plain: Lowering,
    x: Tensor,
    *,
    block_size: Ints = (),
    block_shape: Ints = (),
    paddings: Value = (),
    crops: Value = (),
) -> Value:
    return channels_back(
        op, plain(op, channels_first(op, x), block_size or block_shape, paddings or crops), x
    )
