"""Storage of a tensor's data, in host memory or on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pinnace.errors import ArgumentTypeError, ModelStateError, warn
from pinnace.tensors.memory import DeviceArray, DeviceMemory
from pinnace.types import Array, DataType, Format, Port


class Kind(NamedTuple):
    """Properties of a tensor other than its shape; `names` are those of its dimensions, see `Port`."""

    name: str
    dtype: DataType
    format: Format
    names: tuple[str, ...] = ()

    @classmethod
    def of_port(cls, port: Port) -> Kind:
        """Return the kind of an input or output."""
        return cls(port.name, port.dtype, port.format, port.names)


class Storage:
    """Data of a kind and shape; without data the shape may have free dimensions, which are -1."""

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
        return str(self._place) if self.on_device else "None:-1"

    @property
    def on_device(self) -> bool:
        """True if the data is, or will be, in device memory."""
        return getattr(self, "_place", None) is not None

    @property
    def has_data(self) -> bool:
        """True if data was set or requested."""
        return self._array is not None or (self.on_device and self._memory is not None)

    def array_of(self, dtype: DataType, shape: tuple[int, ...] | None) -> Array | None:
        """Return the host data if it has this dtype and shape, else None."""
        array = self._array
        return array if array is not None and self._kind.dtype is dtype and array.shape == shape else None

    def memory_of(
        self, dtype: DataType, shape: tuple[int, ...] | None, place: DeviceMemory
    ) -> DeviceArray | None:
        """Return the data in the memory `place` if it has this dtype and shape, else None."""
        if getattr(self, "_place", None) is not place:
            return None
        memory = self._memory
        return memory if memory is not None and self._kind.dtype is dtype and memory.shape == shape else None

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
        if self._kind.dtype is DataType.STRING:
            raise ArgumentTypeError(f"tensor {self._kind.name!r}: text cannot be on {self.device}.")
        assert self._place is not None
        return self._place.hold(array)

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
        if min(self._shape, default=0) < 0 or self._kind.dtype in (DataType.UNKNOWN, DataType.INVALID):
            why = self._about_free_dimensions()
            raise ModelStateError(f"{none} and {self._kind.dtype} can hold no data{why}")
        try:
            return np.zeros(self._shape, self._kind.dtype.to_numpy())
        except (ValueError, MemoryError) as error:  # too many bytes or dimensions
            raise ModelStateError(f"{none} can hold no data: {error}") from None

    def _about_free_dimensions(self) -> str:
        if min(self._dims, default=0) >= 0:
            return ""
        return f"; shape {list(self._dims)} has free dimensions: resize the model, or set tensor.shape, first"
