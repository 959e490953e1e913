"""Conversion of picture files to inputs of vision models."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from pinnace.converter.pictures import opened
from pinnace.errors import ArgumentValueError
from pinnace.records import dataclass

Layout = Literal["NCHW", "NHWC"]


@dataclass(frozen=True)
class Preparation:
    """Conversion of pixels to values: value = (pixel * scale - mean) / std, pixel in 0..255.

    `mean` and `std` hold one number, or one per channel. `crop` keeps the central rectangle of the wanted
    proportions with this fraction of the largest possible size; None stretches the whole picture.
    """

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    crop: float | None = None


def read_picture(
    path: str | os.PathLike[str], size: tuple[int, int], channels: int, layout: Layout, how: Preparation
) -> npt.NDArray[np.float32]:
    """Read a picture as a batch of one, in `layout`; `size` is (height, width), `channels` 1 or 3.

    The picture is cropped, resized with Pillow's bicubic filter, then normalised. Raises ArgumentValueError
    if the file is no picture, or if `how` does not fit the channels.
    """
    _check(how, channels)
    picture = opened(path, "RGB" if channels == 3 else "L")
    if how.crop is not None:
        picture = picture.crop(_centre(picture.size, size, how.crop))
    pixels = np.asarray(picture.resize(size[::-1], Image.Resampling.BICUBIC), np.float32)
    pixels = pixels.reshape(*size, channels)
    values = (pixels * np.float32(how.scale) - np.array(how.mean, np.float32)) / np.array(how.std, np.float32)
    if layout == "NCHW":
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values[np.newaxis])


def _check(how: Preparation, channels: int) -> None:
    if channels not in (1, 3):
        raise ArgumentValueError(f"a picture has 1 or 3 channels, and the input wants {channels}")
    for name, numbers in (("mean", how.mean), ("std", how.std)):
        if len(numbers) not in (1, channels):
            raise ArgumentValueError(f"{name} has {len(numbers)} numbers for {channels} channel(s)")
    if 0 in how.std:
        raise ArgumentValueError("std must not be 0: the values are divided by it")
    if how.crop is not None and not 0 < how.crop <= 1:
        raise ArgumentValueError(f"crop must be above 0 and at most 1, but got {how.crop}")


def _centre(have: tuple[int, int], size: tuple[int, int], factor: float) -> tuple[int, int, int, int]:
    """Return the box (left, top, right, bottom) that a crop keeps of a picture of size `have` (width,
    height).
    """
    full_width, full_height, proportion = Fraction(have[0]), Fraction(have[1]), Fraction(size[1], size[0])
    width = max(1, int(factor * min(full_width, full_height * proportion)))
    height = max(1, int(factor * min(full_height, full_width / proportion)))
    left, top = (have[0] - width) // 2, (have[1] - height) // 2
    return left, top, left + width, top + height
