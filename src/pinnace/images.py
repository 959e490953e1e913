"""Pictures of files as inputs of vision models, by Pillow."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from pinnace.errors import ArgumentValueError
from pinnace.types import Array

__all__ = ["load"]

Layout = Literal["NCHW", "NHWC"]
PerChannel = float | Sequence[float]
"""One number, or one per channel."""

_MOST_PIXELS = 1 << 26
"""Limit of pixels: a file of a few kilobytes may declare any number; decoded, these take a quarter
of a GiB.
"""
_FORMATS = ["BMP", "GIF", "ICNS", "ICO", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP"]
"""Formats that Pillow decodes itself: for others it starts programs, such as Ghostscript for EPS."""
Image.MAX_IMAGE_PIXELS = _MOST_PIXELS // 2  # Pillow refuses twice as many, also inside ICNS and ICO


def load(
    path: str | os.PathLike[str],
    size: tuple[int, int] | None = None,
    *,
    crop: float | None = None,
    scale: float = 1 / 255,
    mean: PerChannel = 0.0,
    std: PerChannel = 1.0,
    layout: Layout = "NCHW",
    channels: int = 3,
) -> npt.NDArray[np.float32]:
    """Return the picture of a file as a batch of one: float32 of [1, channels, height, width], or NHWC.

    The picture is turned as its EXIF says; of 16 bits of gray the upper 8 are taken.

    `crop` keeps the central rectangle with the proportions of `size` and this fraction of the largest
    possible one; without it the whole picture is stretched. It is resized to `size`, (height, width), with
    Pillow's bicubic filter; None keeps its size. The values are (pixel * `scale` - `mean`) / `std` with
    pixels in 0..255; `mean` and `std` are one number, or one per channel. `channels` is 3 for RGB, 1 for
    gray. The arguments are those of `pinnace run`, and so are the values.

    Raises ArgumentValueError if the file is no picture, or an argument does not fit.
    """
    means, stds = (np.array(numbers, np.float32, ndmin=1) for numbers in (mean, std))
    _check(channels, means, stds, crop, layout)
    if size is not None and (np.shape(size) != (2,) or min(size) < 1):
        raise ArgumentValueError(f"size must be two numbers of at least 1, height and width, but got {size}")
    picture = opened(path, "RGB" if channels == 3 else "L")
    size = size or picture.size[::-1]
    if crop is not None:
        picture = picture.crop(_center(picture.size, size, crop))
    pixels = np.asarray(picture.resize(size[::-1], Image.Resampling.BICUBIC), np.float32)
    values = (pixels.reshape(*size, channels) * np.float32(scale) - means) / stds
    if layout == "NCHW":
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values[np.newaxis])


def opened(path: str | os.PathLike[str], mode: str) -> Image.Image:
    """Return the picture of a file, turned as its EXIF says, in a mode of Pillow.

    Raises ArgumentValueError if it is none.
    """
    try:
        with _identified(path) as picture:
            ImageOps.exif_transpose(picture, in_place=True)
            if picture.mode in ("I", "F"):  # Pillow clips them at 255
                raise ValueError(f"no number of mode {picture.mode} is said to be white: use 8 or 16 bits")
            if picture.mode.startswith("I;16"):  # likewise
                return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert(mode)
            return picture.convert(mode)
    except UnidentifiedImageError as error:
        raise ArgumentValueError(f"{os.fspath(path)}: not a picture that Pillow can read") from error
    except Exception as error:  # decoders raise various errors for damaged files
        why = str(error) or type(error).__name__
        raise ArgumentValueError(f"{os.fspath(path)}: cannot be read: {why}") from error


def is_picture(path: str | os.PathLike[str]) -> bool:
    """Return True if Pillow knows the kind of a file. Raises ArgumentValueError if it refuses it, OSError."""
    try:
        with _identified(path):
            return True
    except UnidentifiedImageError:
        return False
    except OSError:
        raise
    except Exception as error:  # errors of decoders, or a size that Pillow refuses
        raise ArgumentValueError(f"cannot be read: {error or type(error).__name__}") from None


@contextmanager
def _identified(path: str | os.PathLike[str]) -> Iterator[Image.Image]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # at half of the limit
        with Image.open(path, formats=_FORMATS) as picture:
            yield picture


def resized(pixels: Array, size: tuple[int, int], how: str) -> Array:
    """Return numbers of a picture, channels last, in another size (width, height) by a filter of Pillow."""
    planes = [Image.fromarray(plane) for plane in np.moveaxis(pixels, 2, 0).astype(np.float32)]
    return np.stack([np.asarray(one.resize(size, Image.Resampling[how])) for one in planes], axis=2)


def _check(channels: int, means: Array, stds: Array, crop: float | None, layout: str) -> None:
    if channels not in (1, 3):
        raise ArgumentValueError(f"a picture has 1 or 3 channels, not {channels}")
    for name, numbers in (("mean", means), ("std", stds)):
        if len(numbers) not in (1, channels):
            raise ArgumentValueError(f"{name} has {len(numbers)} numbers for {channels} channel(s)")
    if 0 in stds:
        raise ArgumentValueError("std must not be 0: the values are divided by it")
    if crop is not None and not 0 < crop <= 1:
        raise ArgumentValueError(f"crop must be above 0 and at most 1, but got {crop}")
    if layout not in ("NCHW", "NHWC"):
        raise ArgumentValueError(f"layout must be NCHW or NHWC, but got {layout!r}")


def _center(have: tuple[int, int], size: tuple[int, int], factor: float) -> tuple[int, int, int, int]:
    """Return the box (left, top, right, bottom) that a crop keeps of a picture of size `have` (width,
    height).
    """
    full_width, full_height, proportion = Fraction(have[0]), Fraction(have[1]), Fraction(size[1], size[0])
    width = max(1, int(factor * min(full_width, full_height * proportion)))
    height = max(1, int(factor * min(full_height, full_width / proportion)))
    left, top = (have[0] - width) // 2, (have[1] - height) // 2
    return left, top, left + width, top + height
