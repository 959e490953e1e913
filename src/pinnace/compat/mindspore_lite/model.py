"""`mindspore_lite.model`."""

from pinnace import Model, ModelGroup, ModelGroupFlag, ModelParallelRunner, ModelType, RunnerConfig

__all__ = ["Model", "ModelGroup", "ModelGroupFlag", "ModelParallelRunner", "ModelType", "RunnerConfig"]
