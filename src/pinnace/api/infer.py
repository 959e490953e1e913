"""Prediction with a MindSpore network of this process."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from pinnace.api.base_model import BaseModel
from pinnace.building.opening import open_model
from pinnace.building.planning import to_target
from pinnace.errors import ArgumentValueError, ConfigError, DataMismatchError, warn
from pinnace.options.arguments import check_sections, check_type, path
from pinnace.options.context import Context, given_context
from pinnace.options.effects import with_settings
from pinnace.options.settings import Settings
from pinnace.tensors.tensor import Tensor
from pinnace.types import ModelType

__all__ = ["LiteInfer"]


class LiteInfer(BaseModel):
    """A MindSpore network of this process, exported, compiled and ready to predict.

    Needs the package `mindspore`. The network is exported to a temporary `.mindir`, which is deleted
    afterwards.
    """

    def __init__(
        self,
        model_or_net: object,
        *net_inputs: object,
        context: Context | None = None,
        model_group_id: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Compile `model_or_net`, a `mindspore.train.Model` or `mindspore.nn.Cell`, for `net_inputs`.

        `net_inputs` are the arguments of `mindspore.export`: one MindSpore tensor for each input. `config` is
        {section: {key: value}}, and under "configPath" the path of an .ini file. Models with a
        `model_group_id` share their workspace, see `ModelGroup`. Raises `ImportError` without mindspore,
        `ArgumentValueError` for another `model_or_net`, and as `Model.build_from_file` does.
        """
        super().__init__()
        mindspore = _mindspore()
        network = _network(mindspore, model_or_net)
        self._model_path = type(network).__name__
        if model_group_id is not None:
            check_type("model_group_id", model_group_id, int)
        context = given_context(context)
        settings = _settings(config)
        shares = model_group_id is not None
        target = to_target(with_settings(context, settings))._replace(shared_workspace=shares)
        with tempfile.TemporaryDirectory(prefix="pinnace-") as folder:
            exported = str(Path(folder, "net"))
            mindspore.export(network, *net_inputs, file_name=exported, file_format="MINDIR")
            self._start(open_model(_exported(exported), ModelType.MINDIR, target, settings))

    def resize(self, inputs: Sequence[Tensor], dims: Sequence[Sequence[int]]) -> None:
        """Resize as `Model.resize` does, but only warn about shapes that the network cannot take.

        mindspore_lite checks them when predicting, which then raises `DataMismatchError`. The tensors get the
        shapes, the network stays unchanged.
        """
        try:
            super().resize(inputs, dims)
        except DataMismatchError as error:
            warn(f"{error}; predictions with these shapes will fail")
            for tensor, shape in zip(inputs, dims, strict=True):
                tensor.shape = shape


def _mindspore() -> ModuleType:
    try:
        return importlib.import_module("mindspore")
    except Exception as error:
        raise ImportError(
            f"LiteInfer exports a network with MindSpore, and 'import mindspore' failed: {error}. Install "
            f"mindspore, or export the network elsewhere and give the .mindir file to Model.build_from_file"
        ) from error


def _network(mindspore: ModuleType, model_or_net: object) -> object:
    if isinstance(model_or_net, mindspore.train.Model):
        return model_or_net.predict_network
    if isinstance(model_or_net, mindspore.nn.Cell):
        return model_or_net
    raise ArgumentValueError(
        f"model_or_net must be mindspore.train.Model or mindspore.nn.Cell, but got {type(model_or_net)}."
    )


def _settings(config: Mapping[str, object] | None) -> Settings:
    if not config:
        return Settings()
    check_type("config", config, dict)
    file = path("config_value", config.get("configPath", ""))
    sections = {key: value for key, value in config.items() if key != "configPath"}
    check_sections("config", sections)
    return Settings.load(file, sections, "config")


def _exported(name: str) -> str:
    """Return the file that MindSpore wrote; a network over 1 GB also has a folder of weights."""
    for file in (f"{name}.mindir", f"{name}_graph.mindir"):
        if Path(file).exists():
            return file
    raise ConfigError(f"mindspore.export wrote no file {name}.mindir")
