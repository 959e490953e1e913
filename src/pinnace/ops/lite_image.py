"""MindSpore Lite: images resized and rearranged, in the layout of the model."""

from __future__ import annotations

from pinnace.ops import image
from pinnace.ops.builder import Builder
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.lite_math import lite_formulas, lites
from pinnace.ops.table import Ints, Lowering, Tensor
from pinnace.ops.values import Value

lite_formulas(
    __name__,
    """
    DepthToSpace; format: x, block_size: int, mode: str = "DCR" ->
        # DepthToSpace.
        y = DepthToSpace(channels_first(x), blocksize=block_size, mode=mode or "DCR")
        channels_back(y, x)
    Resize; format extrapolation_value: x, target = None, new_height: int = 0, new_width: int = 0,
        method: OneOf[_METHODS] = "linear", coordinate_transform_mode: OneOf[_COORDINATES] = "asymmetric",
        nearest_mode: int = 0, cubic_coeff: float = -0.75, exclude_outside: int = 0 ->
        # Resize; target holds factors (floats) or sizes (ints) for height and width.
        wanted = constant((new_height, new_width), np.int64) if target is None else target
        if static_shape(wanted) != (2,):
            raise Unsupported(f"has a target of shape {shape(wanted)}, and height and width are expected")
        factors, sizes = (wanted, None) if is_float(wanted) else (None, cast(wanted, INT64))
        # Rounding as usual is what MindSpore Lite does between aligned corners, and cutting off elsewhere.
        usual = "round_prefer_ceil" if coordinate_transform_mode == "align_corners" else "floor"
        y = Resize(
            channels_first(x),
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
        channels_back(y, x)
    SpaceToDepth; format: x, block_size: int ->
        # SpaceToDepth.
        channels_back(SpaceToDepth(channels_first(x), blocksize=block_size), x)
    """,
)


_METHODS = {0: "linear", 1: "nearest", 2: "cubic"}
_COORDINATES = {0: "asymmetric", 1: "align_corners", 2: "half_pixel"}
_NEAREST = {1: "round_prefer_floor", 2: "round_prefer_ceil", 3: "floor", 4: "ceil"}


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
