"""`mindspore_lite.model`."""

from pinnace import (
    Model,
    ModelExecutor,
    ModelGroup,
    ModelGroupFlag,
    ModelParallelRunner,
    ModelType,
    MultiModelRunner,
    RunnerConfig,
)

__all__ = [
    "Model",
    "ModelExecutor",
    "ModelGroup",
    "ModelGroupFlag",
    "ModelParallelRunner",
    "ModelType",
    "MultiModelRunner",
    "RunnerConfig",
]
