"""Model inputs from the command line: files, or generated values for inputs without a file."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zipfile import ZipFile, is_zipfile

import numpy as np

from pinnace.errors import ArgumentValueError
from pinnace.images import Layout, PerChannel, is_picture, load
from pinnace.machine.cgroup import usable_memory
from pinnace.shapes import Shape, is_free, layout_of, named, takes
from pinnace.types import Array, DataType, Format

if TYPE_CHECKING:
    from pinnace import Tensor

_NUMBER = r"([-+]?([\d.][\d.e+-]*|nan|inf)|true|false)"
_NUMBERS = re.compile(f"{_NUMBER}(,{_NUMBER})*", re.IGNORECASE)
"""One number, or several as a list, in the place of a file."""


@dataclass(frozen=True)
class Pictures:
    """Arguments of `images.load` for picture files; None takes size (height, width), layout and scale, 1 for
    integers, from the model.
    """

    size: tuple[int, int] | None = None
    layout: Layout | None = None
    crop: float | None = None
    scale: float | None = None
    mean: PerChannel = 0.0
    std: PerChannel = 1.0


@dataclass(frozen=True)
class InputData:
    """The array for one input, and a description of its source; `made_up` if no file has it, `guessed` if its
    free dimensions became 1.
    """

    array: Array
    source: str
    guessed: bool = False
    made_up: bool = False


def assign(given: Sequence[str], names: Sequence[str]) -> dict[str, Path]:
    """Assign files or numbers to inputs: "name=file" by name, plain "file" in the order of the inputs, and an
    .npz file to those that it names.
    """
    files: dict[str, Path] = {}
    unnamed = []
    for text in (one for path in given for one in _members(path)):
        name, equals, file = text.partition("=")
        if not equals or (name not in names and Path(text).exists()):
            unnamed.append(text)
        elif name not in names:
            raise ArgumentValueError(f"--input {text}: there is no input {name!r}, only {_listed(names)}")
        elif name in files:
            raise ArgumentValueError(f"--input {text}: {name!r} was given {files[name]} already")
        else:
            files[name] = Path(file)
    free = [name for name in names if name not in files]
    if len(unnamed) > len(free):
        raise ArgumentValueError(f"--input {unnamed[len(free)]}: too many; there is only {_listed(names)}")
    return files | dict(zip(free, map(Path, unnamed), strict=False))


def _members(text: str) -> list[str]:
    """Return "name=file.npz" for each array of an .npz file, and anything else as it is."""
    if not text.endswith(".npz") or not is_zipfile(text):
        return [text]
    with ZipFile(text) as archive:
        if sum(member.file_size for member in archive.infolist()) > usable_memory():
            raise ArgumentValueError(f"--input {text}: its arrays are larger than the usable memory")
        return [f"{member.removesuffix('.npy')}={text}" for member in archive.namelist()]


def parse_shapes(given: Sequence[str], names: Sequence[str]) -> dict[str, Shape]:
    """Parse shapes: "name=1,3,224,224", or "1,3,224,224" if there is one input."""
    shapes: dict[str, Shape] = {}
    for text in given:
        name, _, numbers = text.rpartition("=")
        if not name and len(names) == 1:
            name = names[0]
        if not names:
            raise ArgumentValueError(f"--shape {text}: the model has no inputs")
        if name not in names:
            raise ArgumentValueError(f"--shape {text}: name one of {_listed(names)}, as in {names[0]}=1,3")
        if name in shapes:
            raise ArgumentValueError(f"--shape {text}: {name!r} was given {list(shapes[name])} already")
        shapes[name] = _shape(text, numbers)
    return shapes


def _shape(text: str, numbers: str) -> Shape:
    try:
        shape = tuple(int(number) for number in numbers.split(",") if number)
    except ValueError:
        raise ArgumentValueError(f"--shape {text}: {numbers!r} is not a list of whole numbers") from None
    if any(size < 1 for size in shape):
        raise ArgumentValueError(f"--shape {text}: every dimension must be at least 1")
    return shape


def feed(
    inputs: Sequence[Tensor], files: Mapping[str, Path], shapes: Mapping[str, Shape], pictures: Pictures
) -> list[InputData]:
    return [_feed_one(tensor, files.get(tensor.name), shapes.get(tensor.name), pictures) for tensor in inputs]


def _feed_one(tensor: Tensor, file: Path | None, given: Shape | None, pictures: Pictures) -> InputData:
    shape = given if given is not None else tuple(tensor.shape)
    try:
        if file is None:
            return _made_up(tensor, shape)
        return InputData(_read(file, tensor, shape, pictures), str(file))
    except (OSError, EOFError, ValueError, MemoryError, OverflowError) as error:
        source = f" from {file}" if file else ""
        why = str(error) or "there is not enough memory"
        raise ArgumentValueError(f"input {tensor.name!r}{source}: {why}") from error


def _made_up(tensor: Tensor, shape: Shape) -> InputData:
    """Generate random numbers for floats, zeros for other types (they may be indices); free dimensions become
    1.
    """
    fixed, guessed = tuple(1 if size < 0 else size for size in shape), is_free(shape)
    dtype = tensor.dtype.to_numpy()
    _check_memory(math.prod(fixed) * dtype.itemsize)
    free = f"; free dimensions of {named(shape, tensor.dim_names)} set to 1" if guessed else ""
    if tensor.dtype in (DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64, DataType.BFLOAT16):
        array = np.random.default_rng(0).random(fixed).astype(dtype)
        return InputData(array, f"no file, so random numbers in 0..1 from seed 0{free}", guessed, True)
    return InputData(np.zeros(fixed, dtype), f"no file, so zeros{free}", guessed, True)


def _read(file: Path, tensor: Tensor, shape: Shape, pictures: Pictures) -> Array:
    if str(file) == "-":
        return _fit(_typed(_loaded(BytesIO(sys.stdin.buffer.read())), tensor), shape)
    if not file.exists() and _NUMBERS.fullmatch(str(file)):
        return _fit(_written(str(file).split(","), tensor.dtype.to_numpy()), shape)
    if not file.is_file() and file.exists():
        raise ArgumentValueError("is not a regular file")
    size = file.stat().st_size
    _check_memory(size)
    if file.suffix == ".bin":
        _check_bytes(size, tensor, shape)
        return _fit(np.fromfile(file, tensor.dtype.to_numpy()), shape)
    with file.open("rb") as stream:
        start = stream.read(6)
        stream.seek(0)
        if start == b"\x93NUMPY":
            return _fit(_typed(_loaded(stream), tensor), shape)
        if file.suffix == ".npz":
            return _fit(_typed(_loaded(stream, tensor.name), tensor), shape)
    if is_picture(file):
        return _picture(file, tensor, shape, pictures)
    raise ArgumentValueError("is no .npy or .npz file, picture or number; raw values need the suffix .bin")


def _check_memory(size: int) -> None:
    memory = usable_memory()
    if size > memory:
        raise ArgumentValueError(f"has {size} bytes, but this process may use only {memory} bytes of memory")


def _written(numbers: Sequence[str], dtype: np.dtype[np.generic]) -> Array:
    """Return numbers that were written on the command line. Raises ValueError for fractions of an int."""
    if dtype.kind == "b":
        numbers = [{"true": "1", "false": "0"}.get(number.lower(), number) for number in numbers]
    exact = np.array(numbers) if dtype.kind in "iu" else np.array(numbers, float)
    return exact.astype(dtype)


def _check_bytes(size: int, tensor: Tensor, shape: Shape) -> None:
    """Raise before reading if the number of bytes does not fit an input."""
    one = tensor.dtype.to_numpy().itemsize * math.prod(d for d in shape if d >= 0)
    if size % one if -1 in shape and one else size != one:
        some = "a multiple of " if -1 in shape else ""
        raise ArgumentValueError(f"has {size} bytes, but the input {list(shape)} takes {some}{one}")


def _loaded(stream: BinaryIO, name: str = "") -> Array:
    try:
        found = np.load(stream, allow_pickle=False)
        array: Array = found[name] if name else found
    except (OSError, ValueError, EOFError, MemoryError):
        raise
    except Exception as error:  # parsers of the header, a Python literal, raise various errors
        kind = ".npz" if name else ".npy"
        raise ArgumentValueError(f"is not an {kind} file: {error or type(error).__name__}") from None
    if not isinstance(array, np.ndarray):
        raise ArgumentValueError("is an .npz file, which stdin does not take: give an .npy file")
    return array


def _typed(array: Array, tensor: Tensor) -> Array:
    wanted = tensor.dtype.to_numpy()
    if tensor.dtype is DataType.STRING and array.dtype.kind == "U":
        return array.astype(wanted)
    if tensor.dtype is DataType.BFLOAT16 and array.dtype == np.dtype("V2"):
        return array.view(wanted)  # np.save writes bfloat16 as V2
    native = array.dtype.newbyteorder("=")
    if tensor.dtype is DataType.BFLOAT16 and native == np.float32:
        return array.astype(wanted)  # as --save writes it
    if native != wanted:
        raise ArgumentValueError(f"has {array.dtype}, but the input takes {wanted}")
    return array.astype(wanted, copy=False)


def _fit(array: Array, shape: Shape) -> Array:
    """Reshape flat data, or an array that lacks dimensions of 1, to the input's shape; one may be free."""
    if takes(shape, array.shape):
        return array
    with suppress(ValueError):  # several free dimensions, or another number of elements
        found = array.reshape(shape)
        if array.ndim < 2 or _without_ones(found) == _without_ones(array):  # else in another order
            return found
    hint = ": give --shape" if -1 in shape else ""
    raise ArgumentValueError(
        f"has {array.size} elements, shape {list(array.shape)}, but the input takes {list(shape)}{hint}"
    )


def _without_ones(array: Array) -> list[int]:
    return [size for size in array.shape if size != 1]


def _picture(file: Path, tensor: Tensor, shape: Shape, pictures: Pictures) -> Array:
    if len(shape) != 4 or shape[0] not in (-1, 1):
        raise ArgumentValueError(f"a picture needs 4 dimensions, the first of them 1, not {list(shape)}")
    layout = pictures.layout or layout_of(shape) or ("NHWC" if tensor.format is Format.NHWC else "NCHW")
    height, width, channels = shape[1:] if layout == "NHWC" else (*shape[2:], shape[1])
    size = pictures.size or (height, width)
    if -1 in size:
        hint = f"--shape {tensor.name}={'1,224,224,3' if layout == 'NHWC' else '1,3,224,224'}"
        raise ArgumentValueError(f"the model leaves height and width free: give --shape, as in {hint}")
    if not takes((height, width), size):
        raise ArgumentValueError(f"--size {size[0]},{size[1]}: the input takes {list(shape)}")
    _check_memory(math.prod(size) * 3 * 4)
    dtype = tensor.dtype.to_numpy()
    is_whole = dtype.kind in "iu"
    scale = (1.0 if is_whole else 1 / 255) if pictures.scale is None else pictures.scale
    how = {name: getattr(pictures, name) for name in ("crop", "mean", "std")}
    values = load(file, size, scale=scale, layout=layout, channels=channels, **how)
    if is_whole:
        values, limits = np.rint(values), np.iinfo(str(dtype))
        least, most = float(values.min()), float(values.max())
        if not limits.min <= least <= most <= limits.max:
            raise ArgumentValueError(f"gives {least:g} to {most:g}, but the input takes {dtype}: see --scale")
    return values.astype(dtype)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
