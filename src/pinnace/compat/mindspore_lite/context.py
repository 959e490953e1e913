"""`mindspore_lite.context`."""

from pinnace import AscendDeviceInfo, Context, CPUDeviceInfo, GPUDeviceInfo

__all__ = ["AscendDeviceInfo", "CPUDeviceInfo", "Context", "GPUDeviceInfo"]
