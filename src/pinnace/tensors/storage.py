"""Data of a tensor, in host memory or on a device, and its attributes.

The attributes have today's spelling and that of mindspore_lite 1.8 and 1.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pinnace.errors import ArgumentTypeError, ModelStateError, warn
from pinnace.options.arguments import check_elements, check_sequence, check_type
from pinnace.shapes import is_free
from pinnace.tensors.device_memory import DeviceArray, DeviceMemory
from pinnace.types import Array, DataType, Format, Port


class Kind(NamedTuple):
    """Properties of a tensor other than its shape; `names` are those of its dimensions, see `Port`."""

    name: str
    dtype: DataType
    format: Format
    names: tuple[str, ...] = ()

    @classmethod
    def of_port(cls, port: Port) -> Kind:
        return cls(port.name, port.dtype, port.format, port.names)


class Storage:
    """Data of a kind and shape; without data the shape may have free dimensions, which are -1.

    Changes of the attributes keep the data where that is possible.
    """

    # A prediction can take microseconds, so its results have `_array` and `_kind` only. `_shape` is for
    # missing data or data on a device; tensors on devices have `_device_array` and `_device_memory` as well.
    # Scripts may set attributes of their own and take weak references, as in mindspore_lite. `_warned` exists
    # on inputs of a model.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",
        "_device_array",
        "_device_memory",
        "_kind",
        "_shape",
        "_warned",
    )

    _array: Array | None
    _kind: Kind
    _device_array: DeviceArray | None
    _device_memory: DeviceMemory | None
    _shape: tuple[int, ...]
    _warned: set[str]

    @property
    def _dims(self) -> tuple[int, ...]:
        return self._shape if self._array is None else self._array.shape

    @property
    def dim_names(self) -> list[str]:
        """Names that the model file gives to the dimensions, such as "batch", "" for those without one."""
        names, rank = self._kind.names, len(self._dims)
        return list(names) if len(names) == rank else [""] * rank

    @property
    def device(self) -> str:
        """Device of the data: "None:-1" for host memory, as in mindspore_lite, or a device such as "gpu:0".

        A simulated device is marked as such.
        """
        return str(self._device_memory) if self.on_device else "None:-1"

    @property
    def on_device(self) -> bool:
        """True if the data is, or will be, in device memory."""
        return getattr(self, "_device_memory", None) is not None

    @property
    def has_data(self) -> bool:
        """True if data was set or requested."""
        return self._array is not None or (self.on_device and self._device_array is not None)

    def array_of(self, dtype: DataType, shape: tuple[int, ...] | None) -> Array | None:
        """Return the host data if it has this dtype and shape, else None."""
        array = self._array
        return array if array is not None and self._kind.dtype is dtype and array.shape == shape else None

    def memory_of(
        self, dtype: DataType, shape: tuple[int, ...] | None, memory: DeviceMemory
    ) -> DeviceArray | None:
        """Return the data in `memory` if it has this dtype and shape, else None."""
        if getattr(self, "_device_memory", None) is not memory:
            return None
        array = self._device_array
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
        if self._device_array is None:
            self._device_array = self._held(self._zeros())
        return self._device_array

    def _held(self, array: Array) -> DeviceArray:
        if self._kind.dtype is DataType.STRING:
            raise ArgumentTypeError(f"tensor {self._kind.name!r}: text cannot be on {self.device}.")
        assert self._device_memory is not None
        return self._device_memory.hold(array)

    def _move(self, there: DeviceMemory | None) -> None:
        """Move the data, if there is any, to a device or to host memory."""
        array = self.get_data_to_numpy() if self.has_data else None
        self._shape = self._dims
        self._device_memory, self._device_array, self._array = there, None, None
        if array is not None:
            self._take(array)

    def _take(self, array: Array) -> None:
        dims = self._dims
        if array.shape != dims:
            self._warn_of_order(array.shape)
            array = array.reshape(dims)
        if not self.on_device:
            self._array = array
        elif self._device_array is not None:
            self._device_array.write(array)
        else:
            self._device_array = self._held(array)

    def _warn_of_order(self, shape: tuple[int, ...]) -> None:
        """Warn, once per model and input, of data of another shape, whose elements may be in another order.

        Flat data, and additional or missing dimensions of 1, do not change the order.
        """
        warned: set[str] | None = getattr(self, "_warned", None)
        same = len(shape) == 1 or [d for d in shape if d != 1] == [d for d in self._dims if d != 1]
        if warned is None or same or self._kind.name in warned:
            return
        warned.add(self._kind.name)
        warn(
            f"input {self._kind.name!r} has shape {list(self._dims)} and was given data of shape "
            f"{list(shape)}, whose elements are used in memory order: if its dimensions are in another "
            f"order, transpose it first"
        )

    def _zeros(self) -> Array:
        none = f"tensor {self._kind.name!r} of shape {list(self._shape)}"
        if is_free(self._shape) or self._kind.dtype in (DataType.UNKNOWN, DataType.INVALID):
            why = self._about_free_dimensions()
            raise ModelStateError(f"{none} and {self._kind.dtype} can hold no data{why}")
        try:
            return np.zeros(self._shape, self._kind.dtype.to_numpy())
        except (ValueError, MemoryError) as error:  # too many bytes or dimensions
            raise ModelStateError(f"{none} can hold no data: {error}") from None

    def _about_free_dimensions(self) -> str:
        if not is_free(self._dims):
            return ""
        return f"; shape {list(self._dims)} has free dimensions: resize the model, or set tensor.shape, first"

    @property
    def name(self) -> str:
        """The name, "" by default."""
        return self._kind.name

    @name.setter
    def name(self, name: str) -> None:
        """Rename the tensor."""
        check_type("name", name, str)
        self._kind = self._kind._replace(name=name)

    @property
    def dtype(self) -> DataType:
        """Element type. Setting another one drops the data."""
        return self._kind.dtype

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        """Drop the data if this is another type."""
        check_type("dtype", dtype, DataType)
        if dtype is not self.dtype:
            self._kind = self._kind._replace(dtype=dtype)
            self._shape, self._array = self._dims, None
            if self.on_device:
                self._device_array = None

    @property
    def shape(self) -> list[int]:
        """Dimensions; a free one is -1. Setting a shape of another size drops the data."""
        return list(self._dims)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        """Keep the data if it has as many elements."""
        check_shape(shape)
        self._shape = dims = tuple(map(int, shape))
        size = -1 if is_free(dims) else math.prod(dims)
        if self._array is not None:
            self._array = self._array.reshape(dims) if self._array.size == size else None
        elif self.on_device and self._device_array is not None:
            self._device_array = self._device_array.reshape(dims) if self._device_array.size == size else None

    @property
    def format(self) -> Format:
        """Declared layout of the dimensions; setting it does not change the data."""
        return self._kind.format

    @format.setter
    def format(self, tensor_format: Format) -> None:
        """Change the declaration, not the data."""
        check_type("format", tensor_format, Format)
        self._kind = self._kind._replace(format=tensor_format)

    @property
    def element_num(self) -> int:
        """Number of elements; 0 if a dimension is free."""
        return 0 if is_free(self._dims) else math.prod(self._dims)

    @property
    def data_size(self) -> int:
        """Size of the data in bytes; 0 if a dimension is free or the dtype is none."""
        if self.dtype in (DataType.UNKNOWN, DataType.INVALID):
            return 0
        return self.element_num * self.dtype.to_numpy().itemsize

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


def check_shape(shape: Sequence[int]) -> None:
    """Raise `ArgumentTypeError` unless `shape` is a list of ints."""
    check_elements("shape", check_sequence("shape", shape), int)
