"""Images: sampling, rearranging, colors."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room
from pinnace.ops.mindspore.array import padded
from pinnace.ops.mindspore.conv import reached, window
from pinnace.ops.table import Dims, Ints, Pairs, Tensor, Tensors, formulas, primitive, primitives
from pinnace.ops.values import FLOAT, FLOAT16, Value

_SAMPLING = {"0": "linear", "1": "nearest", "bilinear": "linear", "nearest": "nearest"}

_PADS = {
    "0": "zeros",
    "1": "border",
    "2": "reflection",
    "zeros": "zeros",
    "border": "border",
    "reflection": "reflection",
}


def _channels(op: Builder, x: Tensor) -> Tensors:
    return op.ops("Split", 3, x, axis=-1, num_outputs=3)


def _hsv_of(op: Builder, image: Tensor) -> Tensor:
    """Colors are the last dimension."""
    red, green, blue = _channels(op, image)
    value = op.ReduceMax(image, [-1], keepdims=1)
    width = value - op.ReduceMin(image, [-1], keepdims=1)
    some = op.Greater(width, 0.0)
    safe = op.Where(some, width, 1.0)
    bright = op.Greater(value, 0.0)
    saturation = op.Where(bright, width / op.Where(bright, value, 1.0), 0.0)
    by_green = op.Where(op.Equal(green, value), (blue - red) / safe + 2.0, (red - green) / safe + 4.0)
    hue = op.Where(op.Equal(red, value), (green - blue) / safe + 0.0, by_green)
    hue = op.Where(some, hue, 0.0) / 6.0
    return op.Concat(op.Where(op.Less(hue, 0.0), hue + 1.0, hue), saturation, value, axis=-1)


def _rgb_of(op: Builder, x: Tensor) -> Value:
    """Colors are the last dimension."""
    hue, saturation, value = _channels(op, x)
    turn = hue * 6.0
    red, green, blue = op.Abs(turn - 3.0) - 1.0, 2.0 - op.Abs(turn - 2.0), 2.0 - op.Abs(turn - 4.0)
    pure = op.Clip(op.Concat(red, green, blue, axis=-1), 0.0, 1.0)
    return ((pure - 1.0) * saturation + 1.0) * value


@primitive("AdjustContrastv2")
def _adjust_contrastv2(op: Builder, images: Tensor, contrast_factor: Tensor) -> Value:
    """The distance to the mean of an image, by a factor."""
    mean = op.ReduceMean(images, [-3, -2], keepdims=1)
    return (images - mean) * op.cast(contrast_factor, op.dtype(images)) + mean


@primitive("AdjustHue")
def _adjust_hue(op: Builder, image: Tensor, amount: Tensor) -> Value:
    """By way of HSV: Add, and Mod, of the hue."""
    hue, saturation, value = _channels(op, _hsv_of(op, image))
    turned = hue + op.cast(amount, op.dtype(image))
    return _rgb_of(op, op.Concat(turned - op.Floor(turned), saturation, value, axis=-1))


@primitive("AdjustSaturation")
def _adjust_saturation(op: Builder, image: Tensor, amount: Tensor) -> Value:
    hue, saturation, value = _channels(op, _hsv_of(op, image))
    grown = op.Clip(saturation * op.cast(amount, op.dtype(image)), 0.0, 1.0)
    return _rgb_of(op, op.Concat(hue, grown, value, axis=-1))


@primitive("ChannelShuffle")
def _channel_shuffle(op: Builder, x: Tensor, group: int) -> Value:
    channels = op.shape(x)[1]
    if channels is None:
        raise Unsupported("needs the number of channels fixed")
    sizes = op.dims(x)
    apart = op.reshape(x, [sizes[0], group, channels // group, *sizes[2:]])
    return op.reshape(op.transpose(apart, (0, 2, 1, *range(3, op.rank(x) + 1))), sizes)


@primitives({"DepthToSpace": "DepthToSpace", "SpaceToDepth": "SpaceToDepth"})
def _blocks(op: Builder, op_type: str, x: Tensor, block_size: int) -> Value:
    return op.op(op_type, x, blocksize=block_size)


@primitive("GridSampler2D", "GridSampler3D")
def _grid_sampler2_d(
    op: Builder,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: Annotated[str, _SAMPLING] = "linear",
    padding_mode: Annotated[str, _PADS] = "zeros",
    align_corners: bool = False,
) -> Value:
    return op.GridSample(
        x, grid, mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners
    )


@primitive("PixelShuffle")
def _pixel_shuffle(op: Builder, x: Tensor, upscale_factor: int) -> Value:
    return op.DepthToSpace(x, blocksize=upscale_factor, mode="CRD")


@primitive("AffineGrid")
def affine_grid(op: Builder, theta: Tensor, output_size: Dims, align_corners: bool = False) -> Value:
    """AffineGrid; with align_corners a length of 1 lies at 0, and not at an end as ONNX has it."""
    if align_corners:
        there = [1 if size == 1 else 0 for size in output_size[:1:-1]]  # along x, y, z
        if any(there):
            kept = np.asarray([1 - one for one in (*there, 0)], op.dtype(theta).numpy())
            theta = theta * op.constant(kept)
    return op.AffineGrid(theta, op.vector(output_size), align_corners=int(align_corners))


@primitive("DeformableOffsets")
def deformable_offsets(
    op: Builder,
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
    own = op.dtype(x)
    if own is FLOAT16:  # whose places would be off by much of a pixel
        x, offsets = (op.cast(v, FLOAT) for v in (x, offsets))
    batch, channels, height, width = op.static_shape(x)
    _, _, rows, columns = op.static_shape(offsets)
    groups, (kernel_h, kernel_w) = deformable_groups, ksize
    # (batch * groups, 3, kernel, rows, columns): offsets along the width, along the height, and masks.
    split = op.reshape(offsets, [batch, 3, groups, kernel_h, kernel_w, rows, columns])
    split = op.transpose(split, (1, 0, 2, 5, 3, 6, 4))
    split = op.reshape(split, [3, batch * groups, rows * kernel_h, columns * kernel_w])
    along_x, along_y, mask = (op.Gather(split, np.asarray(i, np.int64), axis=0) for i in range(3))
    tops = _tap_places(rows, kernel_h, strides[2], pads[0], dilations[2])
    lefts = _tap_places(columns, kernel_w, strides[3], pads[2], dilations[3])
    dtype = op.dtype(x).numpy()
    grid_y = _as_grid(along_y + tops[:, None].astype(dtype), height)
    grid_x = _as_grid(along_x + lefts[None].astype(dtype), width)
    grid = op.Concat(*(op.Unsqueeze(g, [-1]) for g in (grid_x, grid_y)), axis=-1)
    images = op.reshape(x, [batch * groups, channels // groups, height, width])
    taken = op.GridSample(images, grid, mode="linear", padding_mode="zeros", align_corners=1)
    if modulated:
        taken = taken * op.Unsqueeze(mask, [1])
    return op.cast(op.reshape(taken, [batch, channels, rows * kernel_h, columns * kernel_w]), own)


def _tap_places(count: int, kernel: int, step: int, pad: int, hole: int) -> npt.NDArray[Any]:
    """(count * kernel,): where the kernel's elements lie in the image."""
    room(count, kernel)
    return (np.arange(count)[:, None] * step - pad + np.arange(kernel)[None] * hole).reshape(-1)


def _as_grid(places: Tensor, length: int) -> Value:
    """Pixels as GridSample counts them with align_corners: -1 is the first pixel, 1 the last."""
    return places * (2.0 / max(length - 1, 1)) - 1.0


@primitive("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(
    op: Builder, x: Tensor, block_shape: Ints = (), paddings: Pairs = (), *, block_size: int = 1
) -> Value:
    blocks = block_shape or (block_size, block_size)
    lead = op.rank(x) - len(blocks)
    x = padded(op, x, [*[(0, 0)] * lead, *paddings]) if any(map(any, paddings)) else x
    batch, *dims = op.static_shape(x)
    apart = [n for size, k in zip(dims[lead - 1 :], blocks, strict=True) for n in (size // k, k)]
    apart = [batch, *dims[: lead - 1], *apart]
    within = [lead + 1 + 2 * i for i in range(len(blocks))]
    perm = (*within, *range(lead), *(w - 1 for w in within))
    sizes = [size // k for size, k in zip(dims[lead - 1 :], blocks, strict=True)]
    turned = op.transpose(op.reshape(x, apart), perm)
    return op.reshape(turned, [batch * int(np.prod(blocks)), *dims[: lead - 1], *sizes])


@primitive("BatchToSpaceND", "BatchToSpaceNDV2", "BatchToSpace")
def batch_to_space(
    op: Builder, x: Tensor, block_shape: Ints = (), crops: Pairs = (), *, block_size: int = 1
) -> Value:
    blocks = block_shape or (block_size, block_size)
    count, lead = len(blocks), op.rank(x) - len(blocks)
    batch, *dims = op.static_shape(x)
    batch //= int(np.prod(blocks))
    apart = op.reshape(x, [*blocks, batch, *dims])
    meeting = [axis for i in range(count) for axis in (count + lead + i, i)]
    turned = op.transpose(apart, (*range(count, count + lead), *meeting))
    sizes = [size * k for size, k in zip(dims[lead - 1 :], blocks, strict=True)]
    whole = op.reshape(turned, [batch, *dims[: lead - 1], *sizes])
    if not any(map(any, crops)):
        return whole
    starts = [before for before, _ in crops]
    stops = [size - after for size, (_, after) in zip(sizes, crops, strict=True)]
    return op.Slice(whole, starts, stops, list(range(lead, lead + count)))


@primitive("ExtractVolumePatches")
def extract_volume_patches(op: Builder, x: Tensor, kernel_size: Ints, strides: Ints, padding: str) -> Value:
    kernel, steps = kernel_size[-3:], strides[-3:]
    batch, channels, *dims = op.static_shape(x)
    places = int(np.prod(kernel))
    room(places, places)
    picks = np.eye(places, dtype=op.dtype(x).numpy()).reshape(places, 1, *kernel)
    flat = op.reshape(x, [batch * channels, 1, *dims])
    sides = window(padding, (), 3)
    found = op.Conv(reached(op, flat, kernel, steps, sides), picks, strides=list(steps), **sides)
    sizes = op.static_shape(found)[2:]
    apart = op.reshape(found, [batch, channels, places, *sizes])
    return op.reshape(op.transpose(apart, (0, 2, 1, 3, 4, 5)), [batch, places * channels, *sizes])


formulas({"HSVToRGB": _rgb_of, "RGBToHSV": _hsv_of})
