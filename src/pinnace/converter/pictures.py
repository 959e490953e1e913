"""Pictures of files."""

from __future__ import annotations

import os
import warnings

import numpy as np
from PIL import Image, UnidentifiedImageError

from pinnace.errors import ArgumentValueError
from pinnace.types import Array

_MOST_PIXELS = 1 << 26
"""Limit of pixels: a file of a few kilobytes may declare any number; decoded, these take a quarter
of a GiB.
"""
Image.MAX_IMAGE_PIXELS = _MOST_PIXELS // 2  # Pillow refuses twice as many, also inside ICNS and ICO


def opened(path: str | os.PathLike[str], mode: str) -> Image.Image:
    """Return the picture of a file in a mode of Pillow. Raises ArgumentValueError if it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # at half of the limit
            with Image.open(path) as picture:
                return picture.convert(mode)
    except UnidentifiedImageError as error:
        raise ArgumentValueError(f"{os.fspath(path)}: not a picture that Pillow can read") from error
    except Exception as error:  # decoders raise various errors for damaged files
        why = str(error) or type(error).__name__
        raise ArgumentValueError(f"{os.fspath(path)}: cannot be read: {why}") from error


def resized(pixels: Array, size: tuple[int, int], how: str) -> Array:
    """Return numbers of a picture, channels last, in another size (width, height) by a filter of Pillow."""
    planes = [Image.fromarray(plane) for plane in np.moveaxis(pixels, 2, 0).astype(np.float32)]
    return np.stack([np.asarray(one.resize(size, Image.Resampling[how])) for one in planes], axis=2)
