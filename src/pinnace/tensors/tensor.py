"""Tensors: inputs and outputs of models."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

import numpy as np

from pinnace.errors import ArgumentTypeError, ArgumentValueError, DataMismatchError
from pinnace.escaping import shown
from pinnace.options.arguments import check_type
from pinnace.shapes import is_free, named
from pinnace.tensors.device_memory import DeviceMemory, device_memory
from pinnace.tensors.storage import Kind, Storage, check_shape
from pinnace.types import Array, DataType, Format, Port

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DataType", "Format", "Tensor", "TensorMeta"]
_SHOWN = 4
"""Values that `repr` shows."""


def _describe(tensor: Tensor | TensorMeta) -> str:
    return (
        f"name: {shown(tensor.name)},\n"
        f"dtype: {tensor.dtype},\n"
        f"shape: {tensor.shape},\n"
        f"format: {tensor.format},\n"
        f"element_num: {tensor.element_num},\n"
        f"data_size: {tensor.data_size}."
    )


class TensorMeta:
    """Description of an output before it is computed. A free dimension is -1, and then the sizes are 0."""

    def __init__(self) -> None:
        self.name = ""
        self.dtype = DataType.UNKNOWN
        self.shape: list[int] = []
        self.format = Format.DEFAULT
        self.element_num = 0
        self.data_size = 0

    def __str__(self) -> str:
        return _describe(self)

    def __repr__(self) -> str:
        return f"<TensorMeta {shown(repr(self.name))} {self.dtype.name.lower()}{self.shape}>"


class Tensor(Storage):
    """A named array with a shape, an element type and a layout.

    The data is a C-contiguous numpy array in native byte order. It shares memory with the array it was made
    of if that has this layout already; a change of one is seen in the other.

    If a device is given, the data is in its memory: it is copied there and back, and a model on that device
    reads and writes it in place.
    """

    __slots__ = ()

    def __init__(
        self,
        tensor: Tensor | Array | None = None,
        shape: Sequence[int] | None = None,
        dtype: DataType | None = None,
        device: str | None = None,
    ) -> None:
        """Make a tensor from another one, from a numpy array, or from a shape and dtype (data is set later).

        `device` is "cpu", "gpu[:id]" or "ascend[:id]", where the data is stored; a simulated device uses host
        memory. None is the host, or the device of `tensor`. Raises `ArgumentTypeError` if `tensor` is
        something else or does not match `shape` or `dtype`, `ArgumentValueError` for an invalid device,
        `DeviceUnavailableError` for a missing one, `EngineError` if its memory is full.
        """
        there = _memory_of(device)
        if shape is not None:
            check_shape(shape)
        if dtype is not None:
            check_type("dtype", dtype, DataType)
        self._kind = Kind("", dtype or DataType.FLOAT32, Format.NCHW)
        self._shape = tuple(map(int, shape or ()))
        self._array = None
        if isinstance(tensor, Tensor):
            self._kind, self._shape, self._array = tensor._kind, tensor._dims, tensor._array
            if tensor.on_device:
                self._device_memory, self._device_array = tensor._device_memory, tensor._device_array
        elif isinstance(tensor, np.ndarray):
            given, self._array = _native(tensor)
            self._kind = self._kind._replace(dtype=given)
        elif tensor is not None:
            raise ArgumentTypeError(f"tensor must be Tensor or numpy.ndarray, but got {type(tensor)}.")
        if shape is not None and tuple(shape) != self._dims:
            raise ArgumentTypeError(f"shape is {list(shape)}, but the data given has {self.shape}.")
        if dtype is not None and dtype is not self.dtype:
            raise ArgumentTypeError(f"dtype is {dtype}, but the data given has {self.dtype}.")
        if device is not None and str(there or "None:-1") != self.device:
            self._move(there)

    @classmethod
    def of_port(cls, port: Port, shape: tuple[int, ...], warned: set[str] | None = None) -> Tensor:
        """Make the tensor of an input or output, without checks and without data.

        `warned` are the model's inputs for which a warning about data of another shape was issued.
        """
        tensor = object.__new__(cls)
        tensor._kind = Kind.of_port(port)
        tensor._shape = shape
        tensor._array = None
        if warned is not None:
            tensor._warned = warned
        return tensor

    def __str__(self) -> str:
        return _describe(self)

    def __repr__(self) -> str:
        """Return name, element type, shape and the first values, in one line."""
        return f"<Tensor {shown(repr(self.name))} {self._shown_type()}: {self._shown_values()}>"

    def _repr_html_(self) -> str:
        from pinnace.escaping import html_table  # only notebooks show tables

        rows = ("type", self._shown_type()), ("format", self.format.name), ("values", self._shown_values())
        return html_table(f"Tensor {shown(self.name)}", rows)

    def _shown_type(self) -> str:
        return f"{self.dtype.name.lower()}{named(self._dims, self._kind.names)}"

    def _shown_values(self) -> str:
        if self.on_device:
            return f"on {self.device}"
        if self._array is None:
            return "no data"
        first = ", ".join(map(str, self._array.ravel()[:_SHOWN]))
        return f"{first}, ..." if self._array.size > _SHOWN else first

    def numpy(self) -> Array:
        """Return `get_data_to_numpy()`."""
        return self.get_data_to_numpy()

    def set_data_from_numpy(self, numpy_obj: Array) -> None:
        """Use the data of an array of any shape with as many elements as the tensor; devices get a copy.

        Raises `ArgumentTypeError` if `numpy_obj` is no array, `DataMismatchError` (a RuntimeError) if its
        dtype or size is not the tensor's, `EngineError` if the device's memory is full.
        """
        if not isinstance(numpy_obj, np.ndarray):
            raise ArgumentTypeError(f"numpy_obj must be numpy.ndarray, but got {type(numpy_obj)}.")
        try:
            dtype, array = _native(numpy_obj)
        except ArgumentTypeError:
            dtype, array = DataType.INVALID, numpy_obj
        if dtype is not self.dtype:
            raise DataMismatchError(
                f"data type not equal! Numpy type: {numpy_obj.dtype.type}, Tensor type: {self.dtype}"
            )
        if array.nbytes != self.data_size or is_free(self._dims):
            raise DataMismatchError(
                f"data size not equal! Numpy size: {array.nbytes}, Tensor size: {self.data_size}"
                + self._about_free_dimensions()
            )
        self._take(array)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        array = self.get_data_to_numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ArgumentValueError(f"a copy is needed to turn {self.dtype} into {np.dtype(dtype)}")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        array: Any = self.get_data_to_numpy()
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU of dlpack.h; device data is copied


T = TypeVar("T")


class _Named(list[T]):
    """A list that also gives an element by a name."""

    __slots__ = ()

    @abstractmethod
    def keys(self) -> list[str]:
        """Return the names, so that `dict(outputs)` has the elements by name."""

    @overload
    def __getitem__(self, key: SupportsIndex | str, /) -> T: ...
    @overload
    def __getitem__(self, key: slice, /) -> list[T]: ...
    def __getitem__(self, key: SupportsIndex | slice | str, /) -> T | list[T]:
        """Return one element by index or name, or several by a slice. Raises KeyError for an unknown name."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        names = self.keys()
        if key not in names:
            raise KeyError(f"no output {key!r}; there are {', '.join(map(repr, names))}")
        return super().__getitem__(names.index(key))


class Outputs(_Named[Tensor]):
    """The tensors of a prediction, in order; `outputs["logits"]` is the one of this name."""

    __slots__ = ()

    def keys(self) -> list[str]:
        """Return the names, so that `dict(outputs)` has the tensors by name."""
        return [tensor.name for tensor in self]


class Arrays(_Named[Array]):
    """The results of a prediction as numpy arrays, in order; `arrays["logits"]` is the one of this name."""

    __slots__ = ("_names",)

    def __init__(self, outputs: Outputs) -> None:
        """Take the data of tensors, without a copy unless it is on a device."""
        super().__init__(tensor.get_data_to_numpy() for tensor in outputs)
        self._names = outputs.keys()

    def keys(self) -> list[str]:
        """Return the names, so that `dict(arrays)` has the arrays by name."""
        return list(self._names)


_new = object.__new__


def tensors_of(arrays: Sequence[Array], kinds: Sequence[Kind]) -> Outputs:
    """Wrap the results of an executable as tensors."""
    tensors, place = Outputs(), 0
    for array in arrays:
        tensor = _new(Tensor)
        tensor._array, tensor._kind = array, kinds[place]
        tensors.append(tensor)
        place += 1  # noqa: SIM113 (`enumerate` and `zip` take longer: see inputs.py)
    return tensors


def arrays_in(outputs: object, kinds: Sequence[Kind]) -> list[Array] | None:
    """Return the arrays of a list of tensors, one for each output, if all have the right dtype, else None."""
    if not isinstance(outputs, list) or len(outputs) != len(kinds):
        return None
    arrays, place = [], 0
    for output in outputs:
        dtype = kinds[place].dtype
        if output.__class__ is not Tensor or output._kind.dtype is not dtype or output._array is None:
            return None
        arrays.append(output._array)
        place += 1  # noqa: SIM113
    return arrays


def _native(array: Array) -> tuple[DataType, Array]:
    """Return the element type and the data, C-contiguous in native byte order; copied only if necessary."""
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    try:
        dtype = DataType.from_numpy(native)
    except ValueError:
        raise ArgumentTypeError(f"tensor cannot hold numpy dtype {array.dtype}.") from None
    try:
        return dtype, np.asarray(array, dtype.to_numpy(), order="C")
    except (ValueError, MemoryError) as error:  # an array of strides can be larger than memory
        raise ArgumentValueError(f"tensor cannot hold an array of shape {array.shape}: {error}") from None


def _memory_of(device: str | None) -> DeviceMemory | None:
    """Return the memory of a device; None for the host."""
    if device is None:
        return None
    check_type("device", device, str)
    kind = re.fullmatch(r"(cpu|gpu|ascend)(?::(\d+))?", device.lower(), re.ASCII)
    if not kind:
        raise ArgumentValueError(
            f'device must be "cpu", "gpu[:id]", "ascend[:id]" or None, but got {device!r}.'
        )
    return None if kind[1] == "cpu" else device_memory(kind[1], int(kind[2] or 0))
