"""Images: resizing, sampling, rearranging, colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.builder import Builder
from pinnace.ops.conv import images_back, images_first, is_same
from pinnace.ops.room import room
from pinnace.ops.table import Dims, Floats, Ints, Tensor, primitive, primitives
from pinnace.ops.values import Unsupported, Value

# -- resizing --------------------------------------------------------------------------------------


def resized(b: Builder, x: Tensor, sizes: Sequence[int | Tensor], where: str, **attributes: Any) -> Tensor:
    """Resize of the last dimensions to `sizes`; `where` is the coordinate_transformation_mode."""
    dims = b.dims(x, stop=-len(sizes))
    return b.op(
        "Resize",
        x,
        None,
        None,
        b.vector([*dims, *sizes]),
        coordinate_transformation_mode=where,
        **attributes,
    )


def _where(align_corners: bool, half_pixel_centers: bool) -> str:
    return "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"


_NEAREST = {"align_corners": "round_prefer_ceil", "half_pixel": "round_prefer_ceil", "asymmetric": "floor"}
"""How MindSpore rounds: of pixels' centers it takes the one over (i + 0.5) * scale."""


@primitive("ResizeBilinearV2", "ResizeBilinear")
def resize_bilinear(
    b: Builder, x: Tensor, size: Dims, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Resize, linear."""
    return resized(b, x, size, _where(align_corners, half_pixel_centers), mode="linear")


@primitive("ResizeNearestNeighborV2", "ResizeNearestNeighbor", "DynamicResizeNearestNeighbor")
def resize_nearest(
    b: Builder,
    x: Tensor,
    size: Dims,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    data_format: str = "NCHW",
) -> Value:
    """Resize, nearest."""
    where = _where(align_corners, half_pixel_centers)
    image = images_first(b, x, data_format)
    return images_back(
        b, resized(b, image, size, where, mode="nearest", nearest_mode=_NEAREST[where]), data_format
    )


@primitive("ResizeBicubic")
def resize_bicubic(
    b: Builder, x: Tensor, size: Dims, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """MatMul with the weights of each place; Resize, cubic, where only the run knows the sizes."""
    lengths = b.shape(x)[-2:]
    if None in lengths or not all(isinstance(s, int) for s in size):
        a = -0.5 if half_pixel_centers else -0.75
        outside = int(half_pixel_centers)
        where = _where(align_corners, half_pixel_centers)
        return resized(b, x, size, where, mode="cubic", cubic_coeff_a=a, exclude_outside=outside)
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


@primitive("ResizeLinear1D")
def resize_linear_1d(
    b: Builder, x: Tensor, size: Dims, coordinate_transformation_mode: str = "align_corners"
) -> Value:
    """Resize, linear."""
    where = _MODES.get(coordinate_transformation_mode, coordinate_transformation_mode)
    return resized(b, x, size, where, mode="linear")


@primitive("ResizeV2", unused="roi scales")
def resize_v2(
    b: Builder,
    x: Tensor,
    roi: Value,
    scales: Value,
    sizes: Dims,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "nearest",
) -> Value:
    """Resize."""
    where = coordinate_transformation_mode
    rounding = "floor" if mode == "nearest" else None
    coefficient = -0.75 if mode == "cubic" else None
    return resized(b, x, sizes, where, mode=mode, nearest_mode=rounding, cubic_coeff_a=coefficient)


@primitives(
    {
        "UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D": "nearest",
        "UpsampleLinear1D UpsampleBilinear2D UpsampleTrilinear3D": "linear",
        "UpsampleBicubic2D": "cubic",
    }
)
def upsample(
    b: Builder,
    mode: str,
    x: Tensor,
    output_size: Dims | None = None,
    scales: Floats | None = None,
    align_corners: bool = False,
) -> Value:
    """Resize, {mode}."""
    where = "asymmetric" if mode == "nearest" else _where(align_corners, True)
    options: dict[str, Any] = {
        "mode": mode,
        "nearest_mode": "floor" if mode == "nearest" else None,
        "cubic_coeff_a": -0.75 if mode == "cubic" else None,
    }
    if output_size:
        return resized(b, x, output_size, where, **options)
    factors = np.asarray([1.0, 1.0, *_factors(b, x, mode, scales or ())], np.float32)
    return b.op("Resize", x, None, factors, coordinate_transformation_mode=where, **options)


def _factors(b: Builder, x: Tensor, mode: str, scales: Sequence[float]) -> list[float]:
    """Scales; to MindSpore a nearest one that keeps or doubles a length is just that, whatever it is."""
    factors = []
    for length, scale in zip(b.shape(x)[2:], scales, strict=True):
        times = None if length is None else int(length * np.float32(scale)) / max(length, 1)
        factors.append(times if mode == "nearest" and times in (1, 2) else scale)
    return factors


@primitive("ResizeArea")
def resize_area(b: Builder, x: Tensor, size: Ints, align_corners: bool = False) -> Value:
    """MatMul with the share of every pixel, for height and for width."""
    _, height, width, _ = b.static_shape(x)
    rows, columns = (
        b.constant(_shares(old, new, align_corners)) for old, new in zip((height, width), size, strict=True)
    )
    image = b.transpose(b.cast(x, ir.DataType.FLOAT), (0, 3, 1, 2))
    image = b.op("MatMul", rows, b.op("MatMul", image, b.op("Transpose", columns, perm=[1, 0])))
    return b.transpose(image, (0, 2, 3, 1))


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


@primitive("AffineGrid")
def affine_grid(b: Builder, theta: Tensor, output_size: Dims, align_corners: bool = False) -> Value:
    """AffineGrid; with align_corners a length of 1 lies at 0, and not at an end as ONNX has it."""
    if align_corners:
        there = [1 if size == 1 else 0 for size in output_size[:1:-1]]  # along x, y, z
        if any(there):
            kept = np.asarray([1 - one for one in (*there, 0)], b.dtype(theta).numpy())
            theta = b.op("Mul", theta, b.constant(kept))
    return b.op("AffineGrid", theta, b.vector(output_size), align_corners=int(align_corners))


@primitive("DeformableOffsets")
def deformable_offsets(
    b: Builder,
    x: Tensor,
    offsets: Tensor,
    strides: Ints,
    pads: Ints,
    ksize: Ints,
    dilations: Ints = (1, 1, 1, 1),
    deformable_groups: int = 1,
    modulated: bool = True,
) -> Value:
    """GridSample at the places of the kernel and their offsets, Mul with the mask; of float16 in float32."""
    own = b.dtype(x)
    if own is ir.DataType.FLOAT16:  # whose places would be off by much of a pixel
        x, offsets = (b.cast(v, ir.DataType.FLOAT) for v in (x, offsets))
    batch, channels, height, width = b.static_shape(x)
    _, _, rows, columns = b.static_shape(offsets)
    groups, (kernel_h, kernel_w) = deformable_groups, ksize
    # (batch * groups, 3, kernel, rows, columns): offsets along the width, along the height, and masks.
    split = b.reshape(offsets, [batch, 3, groups, kernel_h, kernel_w, rows, columns])
    split = b.transpose(split, (1, 0, 2, 5, 3, 6, 4))
    split = b.reshape(split, [3, batch * groups, rows * kernel_h, columns * kernel_w])
    along_x, along_y, mask = (b.op("Gather", split, np.asarray(i, np.int64), axis=0) for i in range(3))
    tops = _tap_places(rows, kernel_h, strides[2], pads[0], dilations[2])
    lefts = _tap_places(columns, kernel_w, strides[3], pads[2], dilations[3])
    dtype = b.dtype(x).numpy()
    grid_y = _as_grid(b, b.op("Add", along_y, tops[:, None].astype(dtype)), height)
    grid_x = _as_grid(b, b.op("Add", along_x, lefts[None].astype(dtype)), width)
    grid = b.op("Concat", *(b.op("Unsqueeze", g, [-1]) for g in (grid_x, grid_y)), axis=-1)
    images = b.reshape(x, [batch * groups, channels // groups, height, width])
    taken = b.op("GridSample", images, grid, mode="linear", padding_mode="zeros", align_corners=1)
    if modulated:
        taken = b.op("Mul", taken, b.op("Unsqueeze", mask, [1]))
    return b.cast(b.reshape(taken, [batch, channels, rows * kernel_h, columns * kernel_w]), own)


def _tap_places(count: int, kernel: int, step: int, pad: int, hole: int) -> npt.NDArray[Any]:
    """(count * kernel,): where the kernel's elements lie in the image."""
    room(count, kernel)
    return (np.arange(count)[:, None] * step - pad + np.arange(kernel)[None] * hole).reshape(-1)


def _as_grid(b: Builder, places: Tensor, length: int) -> Tensor:
    """Pixels as GridSample counts them with align_corners: -1 is the first pixel, 1 the last."""
    return b.op("Sub", b.op("Mul", places, 2.0 / max(length - 1, 1)), 1.0)


# -- space, depth and batch ------------------------------------------------------------------------


@primitive("DepthToSpace")
def depth_to_space(b: Builder, x: Tensor, block_size: int) -> Value:
    """DepthToSpace."""
    return b.op("DepthToSpace", x, blocksize=block_size)


@primitive("SpaceToDepth")
def space_to_depth(b: Builder, x: Tensor, block_size: int) -> Value:
    """SpaceToDepth."""
    return b.op("SpaceToDepth", x, blocksize=block_size)


@primitive("PixelShuffle")
def pixel_shuffle(b: Builder, x: Tensor, upscale_factor: int) -> Value:
    """DepthToSpace, channels before places."""
    return b.op("DepthToSpace", x, blocksize=upscale_factor, mode="CRD")


@primitive("ChannelShuffle")
def channel_shuffle(b: Builder, x: Tensor, group: int) -> Value:
    """Reshape, Transpose, Reshape."""
    channels = b.shape(x)[1]
    if channels is None:
        raise Unsupported("needs the number of channels fixed")
    dims = b.dims(x)
    apart = b.reshape(x, [dims[0], group, channels // group, *dims[2:]])
    turned = b.transpose(apart, (0, 2, 1, *range(3, b.rank(x) + 1)))
    return b.reshape(turned, dims)


@primitive("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(
    b: Builder, x: Tensor, block_shape: Ints = (), paddings: Value = (), *, block_size: int = 1
) -> Value:
    """Pad, Reshape, Transpose, Reshape."""
    blocks, sides = block_shape or (block_size, block_size), _pairs(b, paddings)
    lead = b.rank(x) - len(blocks)
    pads = [0] * lead + [before for before, _ in sides] + [0] * lead + [after for _, after in sides]
    x = b.op("Pad", x, pads) if any(pads) else x
    batch, *dims = b.static_shape(x)
    apart = [n for size, k in zip(dims[lead - 1 :], blocks, strict=True) for n in (size // k, k)]
    apart = [batch, *dims[: lead - 1], *apart]
    within = [lead + 1 + 2 * i for i in range(len(blocks))]
    perm = (*within, *range(lead), *(w - 1 for w in within))
    sizes = [size // k for size, k in zip(dims[lead - 1 :], blocks, strict=True)]
    turned = b.transpose(b.reshape(x, apart), perm)
    return b.reshape(turned, [batch * int(np.prod(blocks)), *dims[: lead - 1], *sizes])


@primitive("BatchToSpaceND", "BatchToSpaceNDV2", "BatchToSpace")
def batch_to_space(
    b: Builder, x: Tensor, block_shape: Ints = (), crops: Value = (), *, block_size: int = 1
) -> Value:
    """Reshape, Transpose, Reshape, Slice."""
    blocks, sides = block_shape or (block_size, block_size), _pairs(b, crops)
    count, lead = len(blocks), b.rank(x) - len(blocks)
    batch, *dims = b.static_shape(x)
    batch //= int(np.prod(blocks))
    apart = b.reshape(x, [*blocks, batch, *dims])
    meeting = [axis for i in range(count) for axis in (count + lead + i, i)]
    turned = b.transpose(apart, (*range(count, count + lead), *meeting))
    sizes = [size * k for size, k in zip(dims[lead - 1 :], blocks, strict=True)]
    whole = b.reshape(turned, [batch, *dims[: lead - 1], *sizes])
    if not any(n for side in sides for n in side):
        return whole
    starts = [before for before, _ in sides]
    stops = [size - after for size, (_, after) in zip(sizes, sides, strict=True)]
    return b.op("Slice", whole, starts, stops, list(range(lead, lead + count)))


def _pairs(b: Builder, value: Value) -> list[tuple[int, int]]:
    known = b.known(value)
    if known is None:
        raise Unsupported("needs its paddings or crops known before the run")
    rows = [
        binding.ints(b, row)
        for row in binding.items(b, tuple(known.tolist()) if isinstance(known, np.ndarray) else known)
    ]
    return [(first, second) for first, second in rows]


@primitive("ExtractVolumePatches")
def extract_volume_patches(b: Builder, x: Tensor, kernel_size: Ints, strides: Ints, padding: str) -> Value:
    """Conv with a kernel for each place of the window, and Reshape."""
    kernel, steps = kernel_size[-3:], strides[-3:]
    batch, channels, *dims = b.static_shape(x)
    places = int(np.prod(kernel))
    room(places, places)
    picks = np.eye(places, dtype=b.dtype(x).numpy()).reshape(places, 1, *kernel)
    flat = b.reshape(x, [batch * channels, 1, *dims])
    found = b.op(
        "Conv", flat, picks, strides=list(steps), auto_pad="SAME_UPPER" if is_same(padding) else None
    )
    sizes = b.static_shape(found)[2:]
    apart = b.reshape(found, [batch, channels, places, *sizes])
    return b.reshape(b.transpose(apart, (0, 2, 1, 3, 4, 5)), [batch, places * channels, *sizes])


# -- colours, in the last dimension ----------------------------------------------------------------


def _channels(b: Builder, x: Tensor) -> tuple[Tensor, ...]:
    return b.ops("Split", 3, x, axis=-1, num_outputs=3)


@primitive("RGBToHSV")
def rgb_to_hsv(b: Builder, images: Tensor) -> Value:
    """Max, Min, Sub, Div, Where."""
    red, green, blue = _channels(b, images)
    value = b.op("ReduceMax", images, [-1], keepdims=1)
    span = b.op("Sub", value, b.op("ReduceMin", images, [-1], keepdims=1))
    zero, one = b.like(0.0, span), b.like(1.0, span)
    some = b.op("Greater", span, zero)
    safe = b.op("Where", some, span, one)
    bright = b.op("Greater", value, zero)
    saturation = b.op("Where", bright, b.op("Div", span, b.op("Where", bright, value, one)), zero)

    def sixth(first: Tensor, second: Tensor, start: float) -> Tensor:
        return b.op("Add", b.op("Div", b.op("Sub", first, second), safe), start)

    by_green = b.op("Where", b.op("Equal", green, value), sixth(blue, red, 2.0), sixth(red, green, 4.0))
    hue = b.op("Where", b.op("Equal", red, value), sixth(green, blue, 0.0), by_green)
    hue = b.op("Div", b.op("Where", some, hue, zero), 6.0)
    hue = b.op("Where", b.op("Less", hue, zero), b.op("Add", hue, one), hue)
    return b.op("Concat", hue, saturation, value, axis=-1)


@primitive("HSVToRGB")
def hsv_to_rgb(b: Builder, x: Tensor) -> Value:
    """Abs, Sub, Clip, Mul, Add."""
    hue, saturation, value = _channels(b, x)
    zero, one = b.like(0.0, x), b.like(1.0, x)
    turn = b.op("Mul", hue, 6.0)
    red = b.op("Sub", b.op("Abs", b.op("Sub", turn, 3.0)), one)
    green = b.op("Sub", b.like(2.0, x), b.op("Abs", b.op("Sub", turn, 2.0)))
    blue = b.op("Sub", b.like(2.0, x), b.op("Abs", b.op("Sub", turn, 4.0)))
    pure = b.op("Clip", b.op("Concat", red, green, blue, axis=-1), zero, one)
    faded = b.op("Add", b.op("Mul", b.op("Sub", pure, one), saturation), one)
    return b.op("Mul", faded, value)


@primitive("AdjustContrastv2")
def adjust_contrast(b: Builder, images: Tensor, contrast_factor: Tensor) -> Value:
    """The distance from each channel's mean times the factor."""
    mean = b.op("ReduceMean", images, [-3, -2], keepdims=1)
    return b.op("Add", b.op("Mul", b.op("Sub", images, mean), b.cast(contrast_factor, b.dtype(images))), mean)


@primitive("AdjustSaturation")
def adjust_saturation(b: Builder, image: Tensor, scale: Tensor) -> Value:
    """By way of HSV: Mul and Clip."""
    hue, saturation, value = _channels(b, rgb_to_hsv(b, image))
    grown = b.op("Mul", saturation, b.cast(scale, b.dtype(image)))
    grown = b.op("Clip", grown, b.like(0.0, image), b.like(1.0, image))
    return hsv_to_rgb(b, b.op("Concat", hue, grown, value, axis=-1))


@primitive("AdjustHue")
def adjust_hue(b: Builder, image: Tensor, delta: Tensor) -> Value:
    """By way of HSV: Add and Mod."""
    hue, saturation, value = _channels(b, rgb_to_hsv(b, image))
    turned = b.op("Add", hue, b.cast(delta, b.dtype(image)))
    turned = b.op("Sub", turned, b.op("Floor", turned))
    return hsv_to_rgb(b, b.op("Concat", turned, saturation, value, axis=-1))
