"""Device memory of onnxruntime's sessions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.engines.onnxruntime import device_errors, providers
from pinnace.engines.protocol import failures
from pinnace.options.target import Target
from pinnace.types import Array

if TYPE_CHECKING:
    import numpy.typing as npt

FAILURES = failures(_state)
"""The exceptions of onnxruntime."""

_DEVICES = {"gpu": "cuda", "ascend": "cann"}
"""Device names that `OrtValue` and `IOBinding` accept."""

_PROVIDERS = {"cuda": providers.CUDA, "cann": providers.CANN}

ONNX_BFLOAT16 = 16
"""The number of bfloat16 in onnx.TensorProto.DataType; onnxruntime does not know its numpy dtype."""


class OrtDeviceMemory(NamedTuple):
    """See `pinnace.tensors.device_memory.DeviceMemory`. A simulated device's arrays are in host memory."""

    name: str
    device: str
    number: int

    @classmethod
    def of(cls, target: Target) -> OrtDeviceMemory:
        """Return the memory of a target that is or simulates an accelerator, the same object each time."""
        if target.simulates:
            return _known.setdefault(target.simulates, cls(target.simulates, "cpu", 0))
        name = f"{target.device}:{target.device_id}"
        return _known.setdefault(name, cls(name, _DEVICES[target.device], target.device_id))

    def __str__(self) -> str:
        return self.name

    def hold(self, array: Array) -> OrtArray:
        held = OrtArray(_Block(self, array.nbytes), array.shape, array.dtype)
        held.write(array)
        return held


_known: dict[str, OrtDeviceMemory] = {}


class _Block:
    """Bytes in device memory, undefined until `write`.

    onnxruntime can create empty values and change them in place on the CPU and with CUDA; with CANN it can
    only create new values from data (seen in its source).
    """

    def __init__(self, place: OrtDeviceMemory, size: int) -> None:
        self.place, self.size = place, size
        if place.device == "cuda":
            device_errors.preload()
        with self._named("cannot be allocated"):
            self.value = self._of(np.zeros(1, np.uint8)) if self.is_fixed else self._empty()

    @property
    def is_fixed(self) -> bool:
        """True if onnxruntime cannot change it in place."""
        return self.place.device == "cann"

    def _empty(self) -> ort.OrtValue:
        size = max(self.size, 1)  # empty values have no address
        place = self.place
        return ort.OrtValue.ortvalue_from_shape_and_type([size], np.uint8, place.device, place.number)

    def _of(self, data: npt.NDArray[np.uint8]) -> ort.OrtValue:
        return ort.OrtValue.ortvalue_from_numpy(data, self.place.device, self.place.number)

    def write(self, data: npt.NDArray[np.uint8]) -> None:
        with self._named("cannot be copied there"):
            if self.is_fixed:
                self.value = self._of(data)
            else:
                self.value.update_inplace(data)

    def read(self) -> npt.NDArray[np.uint8]:
        with self._named("cannot be copied from there"):
            data: npt.NDArray[np.uint8] = self.value.numpy()
        return data.copy() if self.place.device == "cpu" else data  # for host memory it is a view

    @contextmanager
    def _named(self, failure: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            why = device_errors.explained(error, _PROVIDERS.get(self.place.device, providers.CPU))
            raise type(why)(f"{self.place}: {self.size} bytes {failure}: {why}") from None


@dataclass(frozen=True, eq=False)
class OrtArray:
    """See `pinnace.tensors.device_memory.DeviceArray`."""

    block: _Block
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def stays(self) -> bool:
        """True if the memory keeps its address when it is written."""
        return not self.block.is_fixed

    def reshape(self, shape: tuple[int, ...]) -> Self:
        return type(self)(self.block, shape, self.dtype)

    def shares(self, other: object) -> bool:
        return isinstance(other, OrtArray) and other.block is self.block

    def write(self, array: Array) -> None:
        if self.block.size:
            self.block.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def read(self) -> Array:
        return self.block.read()[: self.block.size].view(self.dtype).reshape(self.shape)

    def bind_input(self, binding: ort.IOBinding, name: str) -> None:
        binding.bind_input(name, *self._buffer())

    def bind_output(self, binding: ort.IOBinding, name: str) -> None:
        binding.bind_output(name, *self._buffer())

    def _buffer(self) -> tuple[str, int, object, tuple[int, ...], int]:
        """Return device, number, element type, shape and address."""
        kind = ONNX_BFLOAT16 if self.dtype.name == "bfloat16" else self.dtype
        place = self.block.place
        return place.device, place.number, kind, self.shape, self.block.value.data_ptr()
