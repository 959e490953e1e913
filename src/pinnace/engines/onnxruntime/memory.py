"""Memory of devices by onnxruntime: the one that a session of such a device computes in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from pinnace.engines.onnxruntime import providers, starting
from pinnace.engines.protocol import Array
from pinnace.errors import EngineError
from pinnace.target import Target
from pinnace.types import DataType

_DEVICES = {"gpu": "cuda", "ascend": "cann"}
"""onnxruntime's words, as `OrtValue` and `IOBinding` take them."""

_PROVIDERS = {"cuda": providers.CUDA, "cann": providers.CANN}

_BFLOAT16 = DataType.BFLOAT16.to_numpy()
_ONNX_BFLOAT16 = 16  # in onnx.TensorProto.DataType


@dataclass(frozen=True)
class OrtPlace:
    """See `pinnace.memory.Place`. A simulated device has its memory from onnxruntime too: the host's."""

    name: str
    device: str
    number: int

    @classmethod
    def of(cls, target: Target) -> OrtPlace:
        """The memory of a target that is an accelerator, or simulates one."""
        if target.simulates:
            return cls(target.simulates, "cpu", 0)
        return cls(f"{target.device}:{target.device_id}", _DEVICES[target.device], target.device_id)

    def __str__(self) -> str:
        return self.name

    def hold(self, array: Array) -> OrtArray:
        """See `pinnace.memory.Place.hold`."""
        made = OrtArray(_Block(self, array.nbytes), array.shape, array.dtype)
        made.write(array)
        return made


class _Block:
    """Bytes in the memory of a device."""

    def __init__(self, place: OrtPlace, size: int) -> None:
        self.place, self.size = place, size
        if place.device == "cuda":
            starting.preload()
        try:
            # One byte at least: onnxruntime has no address for none.
            self.value = ort.OrtValue.ortvalue_from_shape_and_type(
                [max(size, 1)], np.uint8, place.device, place.number
            )
        except Exception as error:
            why = starting.explained(error, _PROVIDERS.get(place.device, providers.CPU))
            raise type(why)(f"{place}: {size} bytes cannot be had there: {why}") from None

    def write(self, data: npt.NDArray[np.uint8]) -> None:
        place = self.place
        try:
            if place.device == "cann":  # onnxruntime updates values in place on the CPU and with CUDA only
                self.value = ort.OrtValue.ortvalue_from_numpy(data, place.device, place.number)
            else:
                self.value.update_inplace(data)
        except Exception as error:
            raise EngineError(f"{place}: {self.size} bytes cannot be copied there: {error}") from None

    def read(self) -> npt.NDArray[np.uint8]:
        try:
            data: npt.NDArray[np.uint8] = self.value.numpy()
        except Exception as error:
            raise EngineError(f"{self.place}: {self.size} bytes cannot be copied from it: {error}") from None
        return data.copy() if self.place.device == "cpu" else data  # of the host's memory it is a view


@dataclass(frozen=True, eq=False)
class OrtArray:
    """See `pinnace.memory.DeviceArray`."""

    block: _Block
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def reshape(self, shape: tuple[int, ...]) -> Self:
        """The same memory with other dimensions."""
        return type(self)(self.block, shape, self.dtype)

    def shares(self, other: object) -> bool:
        """Whether `other` is in the same memory."""
        return isinstance(other, OrtArray) and other.block is self.block

    def write(self, array: Array) -> None:
        """Copy from host memory."""
        if self.block.size:
            self.block.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def read(self) -> Array:
        """A copy in host memory."""
        return self.block.read()[: self.block.size].view(self.dtype).reshape(self.shape)

    def bind_input(self, binding: ort.IOBinding, name: str) -> None:
        """Let a session read it, where it lies."""
        binding.bind_input(name, *self._buffer())

    def bind_output(self, binding: ort.IOBinding, name: str) -> None:
        """Let a session write it, where it lies."""
        binding.bind_output(name, *self._buffer())

    def _buffer(self) -> tuple[str, int, object, tuple[int, ...], int]:
        """Device, number, element type, shape and address."""
        kind = _ONNX_BFLOAT16 if self.dtype == _BFLOAT16 else self.dtype
        place = self.block.place
        return place.device, place.number, kind, self.shape, self.block.value.data_ptr()
