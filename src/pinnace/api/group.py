"""Groups of models that share memory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pinnace.api.model import Model, share_weights, share_workspace
from pinnace.errors import ArgumentTypeError, ModelFormatError, ModelStateError
from pinnace.options.arguments import check_type
from pinnace.options.context import Context
from pinnace.types import ModelGroupFlag, ModelType

__all__ = ["ModelGroup", "ModelGroupFlag"]


class ModelGroup:
    """Models that share weights, workspace, or both.

    Weights are shared by content: models of one process keep one copy of equal weights, such as those of the
    prefill and decoding graphs of a language model. The compile cache does this for all models, also without
    a group, if the engine stores a weight as a file. Without the cache, groups that share weights store them
    as temporary files. onnxruntime runs their models unless the context names another engine. The workspace,
    the memory of intermediate results, is shared in groups that ask for it: models that predict in turn need
    that of the largest one only. If they predict at the same time, it grows to their sum.
    """

    def __init__(self, flags: ModelGroupFlag = ModelGroupFlag.SHARE_WORKSPACE) -> None:
        """Create a group; `flags` says what its models share. Raises `ModelStateError` for other types."""
        if not isinstance(flags, ModelGroupFlag):
            # a RuntimeError for a wrong argument, as in mindspore_lite
            raise ModelStateError(
                "Parameter flags should be ModelGroupFlag.SHARE_WORKSPACE or ModelGroupFlag.SHARE_WEIGHT or "
                f"ModelGroupFlag.SHARE_WEIGHT_WORKSPACE, but got {flags!r}."
            )
        self._flags = flags
        self._models: list[str | Model] = []

    def add_model(self, models: Sequence[str] | Sequence[Model]) -> None:
        """Add model files by path, or `Model` objects.

        Objects that are built already share their weights from now on, and keep their workspace, with a
        warning. Raises `ArgumentTypeError` if `models` is no list or tuple of either kind, `ModelStateError`
        if it is empty or holds `Model` objects in a group that shares only workspace, `ModelFormatError` for
        a missing file.
        """
        if not isinstance(models, list | tuple):
            raise ArgumentTypeError(f"models must be list/tuple, but got {type(models)}")
        if not models:
            raise ModelStateError("models cannot be empty")
        models = [os.fsdecode(m) if isinstance(m, os.PathLike) else m for m in models]
        kind = str if isinstance(models[0], str) else Model
        for index, model in enumerate(models):
            if not isinstance(model, kind):
                raise ArgumentTypeError(
                    f"models element must be all str or Model, but got {type(model)} at index {index}."
                )
        for model in models:
            self._check_model(model)
        self._models.extend(models)
        for model in models:
            if self._flags is not ModelGroupFlag.SHARE_WEIGHT:
                share_workspace(model)
            if self._flags is not ModelGroupFlag.SHARE_WORKSPACE:
                share_weights(model)

    def cal_max_size_of_workspace(self, model_type: ModelType, context: Context) -> None:
        """Build the models that were added by path once, to report their errors here.

        This also puts them into the compile cache. The workspace keeps growing as predictions need it. Raises
        `ArgumentTypeError` for other types, `ModelStateError` if the group shares no workspace or has no
        paths, and as `Model.build_from_file` does.
        """
        check_type("context", context, Context)
        check_type("model_type", model_type, ModelType)
        if self._flags is ModelGroupFlag.SHARE_WEIGHT:
            raise ModelStateError(
                "ModelGroup's cal max size of workspace failed. the models of this group share weights only"
            )
        paths = [model for model in self._models if isinstance(model, str)]
        if not paths:
            raise ModelStateError(
                "ModelGroup's cal max size of workspace failed. add the paths of the models first"
            )
        for path in paths:
            with Model() as model:
                model.build_from_file(path, model_type, context)

    def _check_model(self, model: str | Model) -> None:
        wrong = "ModelGroup's add model failed."
        if isinstance(model, str):
            if not os.path.exists(model):
                raise ModelFormatError(f"{wrong} {model} does not exist")
        elif self._flags is ModelGroupFlag.SHARE_WORKSPACE:
            raise ModelStateError(
                f"{wrong} A group that shares only its workspace takes paths of models, as in "
                f"mindspore_lite; for Model objects use {ModelGroupFlag.SHARE_WEIGHT_WORKSPACE}"
            )
