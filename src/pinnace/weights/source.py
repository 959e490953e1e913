"""The bytes of a model, and tensors that stay there."""

from __future__ import annotations

import math
import mmap
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from pinnace.errors import ModelFormatError
from pinnace.types import Array, Buffer, DataType

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx_ir as ir

# onnx-ir is imported when a tensor is made: models from the compile cache do not need it.


_MOST_DIMENSIONS = 64  # numpy's own limit
_MOST_ELEMENTS = 1 << 48  # more than any memory holds; a size of 0 could hide it

SMALL = 1024
"""Maximum bytes of constants that are copied into the graph; larger ones stay in their file."""

_weights: WeakValueDictionary[tuple[str, tuple[int, ...], str], Array] = WeakValueDictionary()
"""Weights of this process by content, so that models with equal tensors hold them once."""
_lock = threading.Lock()


@dataclass(frozen=True)
class Source:
    """A model's bytes: a mapped file, or a buffer of the caller.

    `name` is used in errors; `folder` contains the files that it refers to, None if there is none.
    """

    name: str
    data: memoryview
    path: Path | None = None
    folder: Path | None = None
    seen: dict[Path, tuple[int, ...]] = field(default_factory=dict, compare=False)
    """State of each file of the model on first use."""
    links: Path | None = None
    """Folder of the symbolic link by which the model was given; links to its other files may be there."""
    mapped: WeakValueDictionary[Path, mmap.mmap] = field(default_factory=WeakValueDictionary, compare=False)
    """Mappings of the model's other files while they are in use: each mapping takes a file descriptor."""

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> Source:
        """Map a file. Raises ModelFormatError if it is missing, empty or unreadable.

        Of a symbolic link it is the file that counts, with the folder in which it is: onnxruntime opens no
        weights by a link that leaves its folder. Stores of models keep all files in one folder, under names
        that only the links tell.
        """
        links = Path(path).absolute().parent if os.path.islink(path) else None
        where = Path(os.path.realpath(path) if links else path)
        _check_name(where.absolute())
        before = _state(where)
        data = _map(where)
        if not len(data):
            raise ModelFormatError(f"{where}: the file is empty")
        seen = {where.absolute(): before}
        return cls(os.fspath(path), data, where, where.absolute().parent, seen, links=links)

    @classmethod
    def of_buffer(cls, data: Buffer, folder: str | os.PathLike[str] | None = None) -> Source:
        """Use bytes in memory; `folder` contains external weights.

        A writable buffer is copied, as weights are read from it for as long as the model lives.
        """
        view = memoryview(data)
        view = view.cast("B") if view.readonly and view.c_contiguous else memoryview(view.tobytes())
        if not len(view):
            raise ModelFormatError("the model buffer is empty")
        beside = None if folder is None else Path(folder).absolute()
        if beside is not None:
            _check_name(beside)
        return cls("model buffer", view, None, beside)

    def tensor(
        self, name: str, dtype: ir.DataType, shape: tuple[int, ...], offset: int, length: int
    ) -> ir.TensorProtocol:
        """Return a tensor over `length` bytes at `offset` of this source, not copied."""
        fits = min(shape, default=1) > 0 and math.prod(shape) * dtype.bitwidth == length * 8
        if not fits or len(shape) > _MOST_DIMENSIONS:
            check_size(f"{self.name}: tensor {name!r}", dtype, shape, length)
        if offset < 0 or offset + length > len(self.data):
            raise ModelFormatError(
                f"{self.name}: tensor {name!r} is at bytes {offset} to {offset + length}, "
                f"but the data ends at {len(self.data)}"
            )
        if self.path is None or length <= SMALL:
            return _view(name, dtype, shape, self.data[offset : offset + length])
        return self._in_file(self.path.name, name, dtype, shape, offset, length)

    def external(
        self, name: str, dtype: ir.DataType, shape: tuple[int, ...], location: str, offset: int, length: int
    ) -> ir.TensorProtocol:
        """Return a tensor in another file of the model's folder; the path may not leave that folder."""
        import onnx_ir as ir

        path = self._beside(name, location)
        self._look_at(path)
        size = path.stat().st_size
        if length < 0:
            length = size - offset
        check_size(f"{self.name}: tensor {name!r} in {location!r}", dtype, shape, length)
        if offset < 0 or offset + length > size:
            raise ModelFormatError(
                f"{self.name}: tensor {name!r} is at bytes {offset} to {offset + length} "
                f"of {location!r}, which has only {size}"
            )
        if length == 0:
            return ir.tensor(np.zeros(shape, dtype.numpy()), name=name)
        return self._in_file(os.path.relpath(path, self.folder), name, dtype, shape, offset, length)

    def _in_file(
        self, file: str, name: str, dtype: ir.DataType, shape: tuple[int, ...], offset: int, length: int
    ) -> ir.TensorProtocol:
        import onnx_ir as ir

        from pinnace.weights.placed import PlacedTensor

        base = self.folder or ""
        return PlacedTensor(file, offset, length, dtype, shape=ir.Shape(shape), name=name, base_dir=base)

    def bytes_of(self, file: str) -> memoryview:
        """Return all bytes of a file of the model: "" is the model itself, others are in its folder.

        Raises ModelFormatError if the file has changed since its first use.
        """
        if not file:
            return self.data
        path = self._beside(file, file)
        self._look_at(path)
        mapped = self.mapped.get(path)
        data = _map(path) if mapped is None else memoryview(mapped)
        if isinstance(data.obj, mmap.mmap):
            self.mapped[path] = data.obj
        return data

    def state(self, file: str) -> tuple[int, ...]:
        """Return what changes with a file of the model: device, inode, size, and times in nanoseconds.

        "" is the model itself; returns () if its mapped bytes are not those at its path any more. Raises
        ModelFormatError if another file is missing, or has changed since its first use.
        """
        path = self._beside(file, file) if file else self._own
        if file and path is not None:
            self._look_at(path)
        if path is None or _state(path) != self.seen[path]:
            return ()
        status = path.stat()
        return (*self.seen[path], status.st_ctime_ns)

    def weight(
        self, file: str, offset: int, length: int, shape: tuple[int, ...], digest: str
    ) -> npt.NDArray[np.generic]:
        """Return a weight in a file of the model, as unsigned integers of its elements' size.

        If another model of this process holds the same bytes (`digest`), its array is returned.
        """
        data = np.frombuffer(self.bytes_of(file)[offset : offset + length], f"u{length // math.prod(shape)}")
        array = data.reshape(shape)
        with _lock:
            return _weights.setdefault((digest, shape, array.dtype.str), array)

    def data_of(self, tensor: ir.TensorProtocol) -> npt.NDArray[np.generic]:
        """Return the elements of a tensor of this model from the mapped file, even if its path names another
        file now.
        """
        import onnx_ir as ir

        if not isinstance(tensor, ir.ExternalTensor) or tensor.dtype.bitwidth < 8:
            return tensor.numpy()
        own = self.path is not None and str(tensor.location) == self.path.name
        data = self.bytes_of("" if own else str(tensor.location))
        kind = _elements(tensor.dtype)
        shape = tuple(tensor.shape.numpy())
        return np.frombuffer(data, kind, math.prod(shape), tensor.offset or 0).reshape(shape)

    @property
    def given(self) -> str | None:
        """The absolute path by which the model was given, maybe a symbolic link; None for a buffer."""
        if self.path is None:
            return None
        return str(self.links / os.path.basename(self.name) if self.links else self.path.absolute())

    @property
    def files(self) -> list[str]:
        """Other files in which weights were found, relative to `folder`."""
        return sorted(os.path.relpath(path, self.folder) for path in self.seen if path != self._own)

    @property
    def size(self) -> int:
        """Total bytes of the model and of the other files in which weights were found."""
        others = (state for path, state in self.seen.items() if path != self._own)
        return len(self.data) + sum(state[2] for state in others if state)

    @property
    def _own(self) -> Path | None:
        """The model's own file in `seen`."""
        return None if self.path is None else self.path.absolute()

    def check_unchanged(self) -> None:
        """Raise ModelFormatError if a file has changed: engines open files again by their paths."""
        for path in self.seen:
            self._look_at(path)

    def _look_at(self, path: Path) -> None:
        state = _state(path)
        if self.seen.setdefault(path, state) != state:
            raise ModelFormatError(f"{path}: changed during or after the build; build the model again")

    def again(self) -> Source:
        """Return the source for another build: the mapped bytes alone if the path names another or no file
        now.

        The mapped bytes are unchanged then. `check_unchanged` detects a file that was written to.
        """
        path = self._own
        if path is None or _state(path)[:2] == self.seen[path][:2]:
            return self
        return replace(self, path=None, seen={p: state for p, state in self.seen.items() if p != path})

    def unload(self) -> None:
        """Release the pages of the mapped file; they are loaded again on access."""
        release([np.frombuffer(self.data, np.uint8)])

    def _beside(self, name: str, location: str) -> Path:
        if self.folder is None:
            raise ModelFormatError(
                f"{self.name}: the weights of {name!r} are in another file, {location!r}; "
                "set the path of the model with [model_file] mindir_path. An encrypted model must be one "
                "file: weights beside it are used where they lie, and there they are encrypted"
            )
        path = self.folder / location
        try:
            if self.links and not path.exists():
                path = (self.links / location).resolve()
            real = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
            raise ModelFormatError(
                f"{self.name}: cannot open {location!r}, which has the weights of {name!r}: {error}"
            ) from None
        if os.path.isabs(location) or not real.is_relative_to(self.folder.resolve()):
            raise ModelFormatError(
                f"{self.name}: the weights of {name!r} are declared at {location!r}, "
                "outside of the model's folder"
            )
        if not real.is_file():
            raise ModelFormatError(
                f"{self.name}: {location!r}, which has the weights of {name!r}, is not a regular file"
            )
        return path


def _state(path: Path) -> tuple[int, ...]:
    """Return properties that change with a file; () if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _check_name(path: Path) -> None:
    """Raise ModelFormatError for a path that onnxruntime cannot open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ModelFormatError(
            f"{str(path)!r}: is not UTF-8, so engines cannot open it: rename it, or build from a buffer"
        ) from None


def _map(path: Path) -> memoryview:
    try:
        if path.is_fifo():  # opening it would wait for a writer
            raise ModelFormatError(f"{path}: is a pipe, which cannot be mapped: build from a buffer")
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            # Otherwise a mapping keeps the file open, and a model may have more files than a process may
            # open.
            untracked = {"trackfd": False} if sys.version_info >= (3, 13) else {}
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **untracked))
    except FileNotFoundError:
        raise ModelFormatError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        hint = "; pinnace convert takes SavedModels" if (path / "saved_model.pb").exists() else ""
        raise ModelFormatError(f"{path}: is a directory, not a model file{hint}") from None
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{path}: cannot be read: {error}") from None


def size_of(tensor: ir.TensorProtocol) -> int:
    """Return the bytes of a tensor's elements; 0 for text, whose size is not that of its elements."""
    return 0 if tensor.dtype.name in ("STRING", "UNDEFINED") else tensor.nbytes


def check_shape(what: str, shape: tuple[int, ...]) -> None:
    if any(d < 0 for d in shape):
        raise ModelFormatError(f"{what} has a negative dimension: {list(shape[:_MOST_DIMENSIONS])}")
    if len(shape) > _MOST_DIMENSIONS or math.prod(max(d, 1) for d in shape) > _MOST_ELEMENTS:
        raise ModelFormatError(f"{what} cannot have dimensions {list(shape[:_MOST_DIMENSIONS])}")


def release(arrays: Iterable[npt.NDArray[np.generic]]) -> None:
    """Release the pages of mapped files in which arrays are, for an engine has packed them into its memory.

    They would count twice as memory of this process, and are loaded again on access.
    """
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        mapped = base.obj if isinstance(base, memoryview) else base
        if isinstance(mapped, mmap.mmap) and not array.flags.writeable:
            mapped.madvise(mmap.MADV_DONTNEED)


def check_size(what: str, dtype: ir.DataType, shape: tuple[int, ...], length: int) -> None:
    """Raise ModelFormatError if a tensor of this type and shape does not take `length` bytes."""
    check_shape(what, shape)
    needed = (math.prod(shape) * dtype.bitwidth + 7) // 8
    if needed != length:
        raise ModelFormatError(f"{what} is {dtype.name}{list(shape)}, {needed} bytes, but {length} are there")


def _view(name: str, dtype: ir.DataType, shape: tuple[int, ...], data: memoryview) -> ir.TensorProtocol:
    import onnx_ir as ir

    if dtype.bitwidth < 8:
        packed = np.frombuffer(data, np.uint8)
        return ir.PackedTensor(packed, dtype, shape=ir.Shape(shape), name=name)
    kind = _elements(dtype)
    return ir.Tensor(np.frombuffer(data, kind).reshape(shape), dtype=dtype, shape=ir.Shape(shape), name=name)


def _elements(dtype: ir.DataType) -> np.dtype[np.generic]:
    return DataType.BFLOAT16.to_numpy() if dtype.name == "BFLOAT16" else dtype.numpy()
