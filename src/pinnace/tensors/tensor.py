"""Tensors: inputs and outputs of models."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pinnace.errors import ArgumentTypeError, ArgumentValueError, DataMismatchError, ModelStateError, warn
from pinnace.options.arguments import check_elements, check_type
from pinnace.tensors.memory import DeviceArray, DeviceMemory, place
from pinnace.types import Array, DataType, Format, Port

__all__ = ["DataType", "Format", "Tensor", "TensorMeta"]


class Kind(NamedTuple):
    """Properties of a tensor other than its shape."""

    name: str
    dtype: DataType
    format: Format

    @classmethod
    def of_port(cls, port: Port) -> Kind:
        """Return the kind of an input or output."""
        return cls(port.name, port.dtype, port.format)


def _describe(tensor: Tensor | TensorMeta) -> str:
    return (
        f"name: {tensor.name},\n"
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


class Tensor:
    """A named array with a shape, an element type and a layout.

    The data is a C-contiguous numpy array in native byte order. It shares memory with the array it was made
    of if that has this layout already; a change of one is seen in the other.

    If a device is given, the data is in its memory: it is copied there and back, and a model on that device
    reads and writes it in place.
    """

    # A prediction can take microseconds, so its results have `_array` and `_kind` only. `_shape` is for
    # missing data or data on a device; tensors on devices have `_memory` and `_place` as well. Scripts may
    # set attributes of their own and take weak references, as in mindspore_lite. `_warned` exists on inputs
    # of a model.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",
        "_kind",
        "_memory",
        "_place",
        "_shape",
        "_warned",
    )

    _array: Array | None
    _kind: Kind
    _memory: DeviceArray | None
    _place: DeviceMemory | None
    _shape: tuple[int, ...]
    _warned: set[str]

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
        there = _place(device)
        if shape is not None:
            _check_shape(shape)
        if dtype is not None:
            check_type("dtype", dtype, DataType)
        self._kind = Kind("", dtype or DataType.FLOAT32, Format.NCHW)
        self._shape = tuple(map(int, shape or ()))
        self._array = None
        if isinstance(tensor, Tensor):
            self._adopt_tensor(tensor)
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

    def _adopt_tensor(self, other: Tensor) -> None:
        self._kind, self._shape, self._array = other._kind, other._dims, other._array
        if other.on_device:
            self._place, self._memory = other._place, other._memory

    def _move(self, there: DeviceMemory | None) -> None:
        """Move the data, if there is any, to a device or to host memory."""
        array = self.get_data_to_numpy() if self.has_data else None
        self._shape = self._dims
        self._place, self._memory, self._array = there, None, None
        if array is not None:
            self._take(array)

    def _take(self, array: Array) -> None:
        """Use an array of the tensor's dtype and size as its data."""
        dims = self._dims
        if array.shape != dims:
            self._warn_of_order(array.shape)
            array = array.reshape(dims)
        if not self.on_device:
            self._array = array
        elif self._memory is not None:
            self._memory.write(array)
        else:
            self._memory = self._held(array)

    def _warn_of_order(self, shape: tuple[int, ...]) -> None:
        """Warn, once per model and input, of data of another shape, whose elements may be in another order.

        Flat data, and additional or missing dimensions of 1, do not change the order.
        """
        warned: set[str] | None = getattr(self, "_warned", None)
        same = len(shape) == 1 or [d for d in shape if d != 1] == [d for d in self._dims if d != 1]
        if warned is None or same or self.name in warned:
            return
        warned.add(self.name)
        warn(
            f"input {self.name!r} has shape {self.shape} and was given data of shape {list(shape)}, whose "
            "elements are used in memory order: if its dimensions are in another order, transpose it first"
        )

    def __str__(self) -> str:
        return _describe(self)

    @property
    def _dims(self) -> tuple[int, ...]:
        return self._shape if self._array is None else self._array.shape

    @property
    def name(self) -> str:
        """The name, "" by default."""
        return self._kind.name

    @name.setter
    def name(self, name: str) -> None:
        check_type("name", name, str)
        self._kind = self._kind._replace(name=name)

    @property
    def dtype(self) -> DataType:
        """Element type. Setting another one drops the data."""
        return self._kind.dtype

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        check_type("dtype", dtype, DataType)
        if dtype is not self.dtype:
            self._kind = self._kind._replace(dtype=dtype)
            self._shape, self._array = self._dims, None
            if self.on_device:
                self._memory = None

    @property
    def shape(self) -> list[int]:
        """Dimensions; a free one is -1. Setting a shape of another size drops the data."""
        return list(self._dims)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        _check_shape(shape)
        self._shape = tuple(map(int, shape))
        if self._array is not None:
            self._array = self._array.reshape(self._shape) if self._fits(self._array) else None
        elif self.on_device and self._memory is not None:
            self._memory = self._memory.reshape(self._shape) if self._fits(self._memory) else None

    def _fits(self, data: Array | DeviceArray) -> bool:
        """Return True if data has the size of the new shape."""
        return min(self._shape, default=0) >= 0 and data.size == math.prod(self._shape)

    @property
    def format(self) -> Format:
        """Declared layout of the dimensions; setting it does not change the data."""
        return self._kind.format

    @format.setter
    def format(self, tensor_format: Format) -> None:
        check_type("format", tensor_format, Format)
        self._kind = self._kind._replace(format=tensor_format)

    @property
    def element_num(self) -> int:
        """Number of elements; 0 if a dimension is free."""
        return 0 if min(self._dims, default=0) < 0 else math.prod(self._dims)

    @property
    def data_size(self) -> int:
        """Size of the data in bytes; 0 if a dimension is free or the dtype is none."""
        if self.dtype in (DataType.UNKNOWN, DataType.INVALID):
            return 0
        return self.element_num * self.dtype.to_numpy().itemsize

    @property
    def device(self) -> str:
        """Device of the data: "None:-1" for host memory, as in mindspore_lite, or a device such as "gpu:0".

        A simulated device is marked as such.
        """
        return str(self._place) if self.on_device else "None:-1"

    @property
    def on_device(self) -> bool:
        """True if the data is, or will be, in device memory."""
        return getattr(self, "_place", None) is not None

    @property
    def has_data(self) -> bool:
        """True if data was set or requested."""
        return self._array is not None or (self.on_device and self._memory is not None)

    def array_of(self, dtype: DataType, shape: tuple[int, ...]) -> Array | None:
        """Return the host data if it has this dtype and shape, else None."""
        array = self._array
        return array if array is not None and self._kind.dtype is dtype and array.shape == shape else None

    def get_data_to_numpy(self) -> Array:
        """Return the data itself, or a copy from a device; zeros of the tensor's shape if none was set.

        Raises `ModelStateError` if a dimension is free, the shape is impossible, or the dtype is UNKNOWN or
        INVALID.
        """
        if self._array is None:
            if self.on_device:
                return self.device_array().read()
            self._array = self._zeros()
        return self._array

    def device_array(self) -> DeviceArray:
        """Return the data on the tensor's device, zeros if none was set.

        Raises as `get_data_to_numpy` does, `ArgumentTypeError` for text, `EngineError` if the memory is full.
        """
        if self._memory is None:
            self._memory = self._held(self._zeros())
        return self._memory

    def _held(self, array: Array) -> DeviceArray:
        if self.dtype is DataType.STRING:
            raise ArgumentTypeError(f"tensor {self.name!r}: text cannot be on {self.device}.")
        assert self._place is not None
        return self._place.hold(array)

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
        if array.nbytes != self.data_size or min(self._dims, default=0) < 0:
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

    def _zeros(self) -> Array:
        if min(self._shape, default=0) < 0 or self.dtype in (DataType.UNKNOWN, DataType.INVALID):
            raise ModelStateError(
                f"tensor {self.name!r} of shape {list(self._shape)} and {self.dtype} can hold no data"
                + self._about_free_dimensions()
            )
        try:
            return np.zeros(self._shape, self.dtype.to_numpy())
        except (ValueError, MemoryError) as error:  # too many bytes or dimensions
            raise ModelStateError(
                f"tensor {self.name!r} of shape {list(self._shape)} can hold no data: {error}"
            ) from None

    def _about_free_dimensions(self) -> str:
        if min(self._dims, default=0) >= 0:
            return ""
        return f"; shape {self.shape} has free dimensions: resize the model, or set tensor.shape, first"

    # Names of mindspore_lite 1.8 and 1.9.

    def get_tensor_name(self) -> str:
        """Return `name`."""
        return self.name

    def set_tensor_name(self, tensor_name: str) -> None:
        """Set `name`."""
        check_type("tensor_name", tensor_name, str)
        self.name = tensor_name

    def get_data_type(self) -> DataType:
        """Return `dtype`."""
        return self.dtype

    def set_data_type(self, data_type: DataType) -> None:
        """Set `dtype`."""
        check_type("data_type", data_type, DataType)
        self.dtype = data_type

    def get_shape(self) -> list[int]:
        """Return `shape`."""
        return self.shape

    def set_shape(self, shape: Sequence[int]) -> None:
        """Set `shape`."""
        self.shape = shape

    def get_format(self) -> Format:
        """Return `format`."""
        return self.format

    def set_format(self, tensor_format: Format) -> None:
        """Set `format`."""
        check_type("tensor_format", tensor_format, Format)
        self.format = tensor_format

    def get_element_num(self) -> int:
        """Return `element_num`."""
        return self.element_num

    def get_data_size(self) -> int:
        """Return `data_size`."""
        return self.data_size


def tensors_of(arrays: Sequence[Array], kinds: Sequence[Kind]) -> list[Tensor]:
    """Wrap the results of an executable as tensors."""
    tensors = []
    for index, array in enumerate(arrays):
        tensor = object.__new__(Tensor)
        tensor._array, tensor._kind = array, kinds[index]
        tensors.append(tensor)
    return tensors


def arrays_in(outputs: object, kinds: Sequence[Kind]) -> list[Array] | None:
    """Return the arrays of a list of tensors, one for each output, if all have the right dtype, else None."""
    if not isinstance(outputs, list) or len(outputs) != len(kinds):
        return None
    arrays = []
    for index, output in enumerate(outputs):
        dtype = kinds[index].dtype
        if output.__class__ is not Tensor or output._kind.dtype is not dtype or output._array is None:
            return None
        arrays.append(output._array)
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


def _check_shape(shape: Sequence[int]) -> None:
    if not isinstance(shape, list | tuple):
        raise ArgumentTypeError(f"shape must be list, but got {type(shape)}.")
    check_elements("shape", shape, int)


def _place(device: str | None) -> DeviceMemory | None:
    """Return the memory of a device; None for the host."""
    if device is None:
        return None
    check_type("device", device, str)
    kind = re.fullmatch(r"(cpu|gpu|ascend)(?::(\d+))?", device.lower(), re.ASCII)
    if not kind:
        raise ArgumentValueError(
            f'device must be "cpu", "gpu[:id]", "ascend[:id]" or None, but got {device!r}.'
        )
    return None if kind[1] == "cpu" else place(kind[1], int(kind[2] or 0))
