"""Samples of inputs from folders, as `[data_preprocess_param]` of a configuration describes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pinnace.errors import ConfigError
from pinnace.types import Array, Port

_WHERE = "[data_preprocess_param]"


@dataclass(frozen=True)
class Calibration:
    """Samples of a model's inputs: the first `count` files of a folder for each input, by their names.

    A picture is taken in `colors` ("RGB", "BGR", "GRAY"), becomes (pixel - mean) / std, is resized to `size`
    by one of Pillow's filters, and cut to the center `crop`; sizes are (width, height). Other files hold the
    bytes of one input, in the order of dimensions that the model has.
    """

    folders: Mapping[str, Path]
    count: int
    pictures: bool = False
    colors: str = "BGR"
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    size: tuple[int, int] | None = None
    filter: str = "BILINEAR"
    crop: tuple[int, int] | None = None

    def samples(self, inputs: Sequence[Port]) -> list[list[Array]]:
        """Return the inputs of each prediction. Raises ConfigError if the files do not fit the model."""
        missing = [repr(port.name) for port in inputs if port.name not in self.folders]
        if missing or len(self.folders) > len(inputs):
            names = ", ".join(repr(port.name) for port in inputs)
            raise ConfigError(f"{_WHERE} calibrate_path must name the inputs of the model, {names}")
        columns = [[self._read(file, port) for file in self._files(port.name)] for port in inputs]
        return [list(row) for row in zip(*columns, strict=True)]

    @property
    def files(self) -> list[Path]:
        """The files that samples are read from. Raises ConfigError if there are too few."""
        return [file for name in self.folders for file in self._files(name)]

    def _files(self, name: str) -> Sequence[Path]:
        folder = self.folders[name]
        try:
            files = sorted(file for file in folder.iterdir() if file.is_file())
        except OSError as error:
            raise ConfigError(f"{_WHERE} calibrate_path: {folder}: {error.strerror}") from None
        if len(files) < self.count:
            raise ConfigError(f"{_WHERE} calibrate_size is {self.count}, and {folder} has {len(files)} files")
        return files[: self.count]

    def _read(self, file: Path, port: Port) -> Array:
        dims = [1 if d < 0 else d for d in port.shape]
        found = self._picture(file) if self.pictures else np.fromfile(file, port.dtype.to_numpy())
        if self.pictures and len(dims) == found.ndim + 1 and dims[1:] != list(found.shape):
            found = found.transpose(2, 0, 1)
        if found.size != math.prod(dims) or (self.pictures and list(found.shape) != dims[1:]):
            what = f"{file} has {list(found.shape)} elements"
            raise ConfigError(f"{_WHERE} calibrate_path: {what}, and input {port.name!r} is of shape {dims}")
        return np.ascontiguousarray(found.reshape(dims), port.dtype.to_numpy())

    def _picture(self, file: Path) -> Array:
        """Return a picture with its channels last."""
        from pinnace.images import opened, resized

        pixels: Array = np.atleast_3d(np.asarray(opened(file, "L" if self.colors == "GRAY" else "RGB")))
        pixels = pixels[:, :, ::-1] if self.colors == "BGR" else pixels
        for name, numbers in (("normalize_mean", self.mean), ("normalize_std", self.std)):
            if numbers and len(numbers) != pixels.shape[2]:
                raise ConfigError(
                    f"{_WHERE} {name} has {len(numbers)} numbers for {pixels.shape[2]} channels"
                )
        pixels = (pixels - np.array(self.mean or [0])) / np.array(self.std or [1])
        if self.size is not None:
            pixels = resized(pixels, self.size, self.filter)
        if self.crop is not None:
            (width, height), (rows, columns) = self.crop, pixels.shape[:2]
            if width > columns or height > rows:
                raise ConfigError(
                    f"{_WHERE} center_crop is {width} x {height} of a picture of {columns} x {rows}"
                )
            top, left = (rows - height) // 2, (columns - width) // 2
            pixels = pixels[top : top + height, left : left + width]
        return pixels
