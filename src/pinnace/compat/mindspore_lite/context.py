"""`mindspore_lite.context`."""

from pinnace import AscendDeviceInfo, Context, CPUDeviceInfo, DeviceInfo, GPUDeviceInfo

__all__ = ["AscendDeviceInfo", "CPUDeviceInfo", "Context", "DeviceInfo", "GPUDeviceInfo"]
