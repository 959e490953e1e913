"""Device classes of mindspore_lite 1.8 and 1.9, for `Context.append_device_info`."""

from __future__ import annotations

from pinnace.options.devices import CPU, GPU, Ascend


class DeviceInfo:
    """Base of the device classes."""


class CPUDeviceInfo(CPU, DeviceInfo):
    """A CPU that computes in float32, or in float16 with `enable_fp16`."""

    def __init__(self, enable_fp16: bool = False) -> None:
        self.enable_fp16 = enable_fp16

    def __str__(self) -> str:
        return f"device_type: DeviceType.{self._title},\nenable_fp16: {self.enable_fp16}."


class GPUDeviceInfo(GPU, DeviceInfo):
    """The GPU with number `device_id`."""

    def __init__(self, device_id: int = 0, enable_fp16: bool = False) -> None:
        self.device_id = device_id
        self.enable_fp16 = enable_fp16

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.{self._title},\n"
            f"device_id: {self.device_id},\n"
            f"enable_fp16: {self.enable_fp16}."
        )


class AscendDeviceInfo(Ascend, DeviceInfo):
    """The Ascend processor with number `device_id`."""

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def __str__(self) -> str:
        return f"device_type: DeviceType.{self._title},\ndevice_id: {self.device_id}."
