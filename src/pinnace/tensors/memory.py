"""Memory of devices, as tensors use it.

Engines have it to give, and tensors know no engine: `opened_by` brings the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


class DeviceArray(Protocol):
    """An array in the memory of a device, which is freed with the last array that shares it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions."""

    @property
    def size(self) -> int:
        """Number of elements."""

    def reshape(self, shape: tuple[int, ...]) -> Self:
        """The same memory with other dimensions, of as many elements."""

    def shares(self, other: object) -> bool:
        """Whether `other` is an array in the same memory."""

    def write(self, array: Array) -> None:
        """Copy from host memory: an array of its dtype with as many elements. Raises `EngineError`."""

    def read(self) -> Array:
        """A copy in host memory. Raises `EngineError`."""


class DeviceMemory(Protocol):
    """The memory of one device. `str` of it is the device, as `Model.get_model_info("device")` says it."""

    def hold(self, array: Array) -> DeviceArray:
        """A copy of an array of host memory. Raises `EngineError` where there is no room."""


Open = Callable[[str, int], DeviceMemory]
"""What gives the memory of a device, of its kind and number; raises `DeviceUnavailableError`."""

_open: list[Open] = []


def opened_by(function: Open) -> None:
    """Let tensors have the memory of devices from `function`."""
    _open[:] = [function]


def place(kind: str, number: int) -> DeviceMemory:
    """The memory of a device. Raises `DeviceUnavailableError` where that cannot be used."""
    return _open[0](kind, number)
