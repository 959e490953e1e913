"""Device memory for tensors.

Engines provide it, and tensors do not import engines: `register_opener` registers the function that opens it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from pinnace.types import Array


class DeviceArray(Protocol):
    """An array in device memory, which is freed with the last array that shares it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions."""

    @property
    def size(self) -> int:
        """Number of elements."""

    def reshape(self, shape: tuple[int, ...]) -> Self:
        """Return the same memory with other dimensions and the same number of elements."""

    def shares(self, other: object) -> bool:
        """Return True if `other` is an array in the same memory."""

    def write(self, array: Array) -> None:
        """Copy from an array in host memory, of its dtype and number of elements. Raises `EngineError`."""

    def read(self) -> Array:
        """Copy to host memory. Raises `EngineError`."""


class DeviceMemory(Protocol):
    """The memory of one device. `str` returns the device, as `Model.get_model_info("device")` does."""

    def hold(self, array: Array) -> DeviceArray:
        """Copy an array from host memory. Raises `EngineError` if the memory is full."""


Open = Callable[[str, int], DeviceMemory]
"""Opens the memory of a device by kind and number; raises `DeviceUnavailableError`."""

_open: list[Open] = []


def register_opener(function: Open) -> None:
    """Register the function that opens device memory."""
    _open[:] = [function]


def device_memory(kind: str, number: int) -> DeviceMemory:
    """Return the memory of a device. Raises `DeviceUnavailableError` if it cannot be used."""
    return _open[0](kind, number)
