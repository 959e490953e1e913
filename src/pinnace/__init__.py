"""Run MindSpore, MindSpore Lite and ONNX models with the API of mindspore_lite.

import pinnace as mslite

model = mslite.Model()
model.build_from_file("net.mindir", mslite.ModelType.MINDIR)
outputs = model.predict([mslite.Tensor(image)])
"""

import importlib
import os
from typing import TYPE_CHECKING

from pinnace.api.model import Model
from pinnace.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ConfigError,
    DataMismatchError,
    DeviceUnavailableError,
    DistributedError,
    EngineError,
    FileWriteError,
    ModelFormatError,
    ModelStateError,
    NotSupportedError,
    PinnaceError,
    PinnaceWarning,
    PredictTimeoutError,
    QueueFullError,
    UnfitShapesError,
    UnsupportedModelError,
)
from pinnace.options.context import Context
from pinnace.options.devices import AscendDeviceInfo, CPUDeviceInfo, DeviceInfo, GPUDeviceInfo
from pinnace.tensors import device_memory
from pinnace.tensors.tensor import Arrays, Outputs, Tensor, TensorMeta
from pinnace.types import DataType, Format, ModelGroupFlag, ModelType


def _place(kind: str, number: int) -> device_memory.DeviceMemory:
    from pinnace.engines import devices  # few processes have devices

    return devices.place(kind, number)


device_memory.register_opener(_place)

__version__ = "0.1.0"

if os.environ.get("PINNACE_LOG"):
    from pinnace.options import log_format

    log_format.start()

if TYPE_CHECKING:
    from pinnace import images
    from pinnace.api.converter import Converter, FmkType
    from pinnace.api.data_parallel import DataParallel
    from pinnace.api.group import ModelGroup
    from pinnace.api.infer import LiteInfer
    from pinnace.api.multi import ModelExecutor, MultiModelRunner
    from pinnace.api.runner import ModelParallelRunner, RunnerConfig
    from pinnace.engines.steps import OperatorTime, Profile
    from pinnace.ranking import Ranked, labels
    from pinnace.server import Server
    from pinnace.serving.stats import Stats

_LATER = {
    "api.converter": ("Converter", "FmkType"),
    "api.data_parallel": ("DataParallel",),
    "api.group": ("ModelGroup",),
    "api.infer": ("LiteInfer",),
    "api.multi": ("ModelExecutor", "MultiModelRunner"),
    "api.runner": ("ModelParallelRunner", "RunnerConfig"),
    "engines.steps": ("OperatorTime", "Profile"),
    "ranking": ("Ranked", "labels"),
    "server": ("Server",),
    "serving.stats": ("Stats",),
}
"""Modules that a process which runs one model does not need, and the names in them."""


def __getattr__(name: str) -> object:
    """Import what is not imported with the package."""
    for module, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(f"pinnace.{module}"), name)
    if name == "images":
        return importlib.import_module("pinnace.images")
    if name.startswith("LLM"):
        raise NotSupportedError(
            f"{name} is part of mindspore_lite's LLMEngine, which serves language models and runs on Ascend "
            f"clusters only. Use Model or ModelParallelRunner"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "Arrays",
    "AscendDeviceInfo",
    "CPUDeviceInfo",
    "ConfigError",
    "Context",
    "Converter",
    "DataMismatchError",
    "DataParallel",
    "DataType",
    "DeviceInfo",
    "DeviceUnavailableError",
    "DistributedError",
    "EngineError",
    "FileWriteError",
    "FmkType",
    "Format",
    "GPUDeviceInfo",
    "LiteInfer",
    "Model",
    "ModelExecutor",
    "ModelFormatError",
    "ModelGroup",
    "ModelGroupFlag",
    "ModelParallelRunner",
    "ModelStateError",
    "ModelType",
    "MultiModelRunner",
    "NotSupportedError",
    "OperatorTime",
    "Outputs",
    "PinnaceError",
    "PinnaceWarning",
    "PredictTimeoutError",
    "Profile",
    "QueueFullError",
    "Ranked",
    "RunnerConfig",
    "Server",
    "Stats",
    "Tensor",
    "TensorMeta",
    "UnfitShapesError",
    "UnsupportedModelError",
    "__version__",
    "images",
    "labels",
]
