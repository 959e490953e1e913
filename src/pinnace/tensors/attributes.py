"""Attributes of tensors, in today's spelling and in that of mindspore_lite 1.8 and 1.9."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pinnace.options.arguments import check_elements, check_sequence, check_type
from pinnace.tensors.storage import Storage
from pinnace.types import DataType, Format


class Attributes(Storage):
    """Name, element type, shape and layout; changing them keeps the data where that is possible."""

    __slots__ = ()

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
                self._memory = None

    @property
    def shape(self) -> list[int]:
        """Dimensions; a free one is -1. Setting a shape of another size drops the data."""
        return list(self._dims)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        """Keep the data if it has as many elements."""
        check_shape(shape)
        self._shape = dims = tuple(map(int, shape))
        size = -1 if min(dims, default=0) < 0 else math.prod(dims)
        if self._array is not None:
            self._array = self._array.reshape(dims) if self._array.size == size else None
        elif self.on_device and self._memory is not None:
            self._memory = self._memory.reshape(dims) if self._memory.size == size else None

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
        return 0 if min(self._dims, default=0) < 0 else math.prod(self._dims)

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
