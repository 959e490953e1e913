"""Run MindSpore, MindSpore Lite and ONNX models with the API of mindspore_lite.

import pinnace as mslite

model = mslite.Model()
model.build_from_file("net.mindir", mslite.ModelType.MINDIR)
outputs = model.predict([mslite.Tensor(image)])
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pinnace.api.group import ModelGroup
from pinnace.api.infer import LiteInfer
from pinnace.api.model import Model
from pinnace.api.runner import ModelParallelRunner, RunnerConfig
from pinnace.engines import devices
from pinnace.errors import PinnaceError, PinnaceWarning
from pinnace.options.context import Context
from pinnace.options.older import AscendDeviceInfo, CPUDeviceInfo, DeviceInfo, GPUDeviceInfo
from pinnace.tensors import memory
from pinnace.tensors.tensor import Tensor, TensorMeta
from pinnace.types import DataType, Format, ModelGroupFlag, ModelType

memory.opened_by(devices.place)

try:
    __version__ = version("pinnace")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

if TYPE_CHECKING:
    from pinnace.api.data_parallel import DataParallel


def __getattr__(name: str) -> object:
    """Import DataParallel when it is asked for: it needs much that a model in this process does not."""
    if name == "DataParallel":
        from pinnace.api.data_parallel import DataParallel

        return DataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AscendDeviceInfo",
    "CPUDeviceInfo",
    "Context",
    "DataParallel",
    "DataType",
    "DeviceInfo",
    "Format",
    "GPUDeviceInfo",
    "LiteInfer",
    "Model",
    "ModelGroup",
    "ModelGroupFlag",
    "ModelParallelRunner",
    "ModelType",
    "PinnaceError",
    "PinnaceWarning",
    "RunnerConfig",
    "Tensor",
    "TensorMeta",
    "__version__",
]
