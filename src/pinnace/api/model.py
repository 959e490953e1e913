"""A model for one request at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from pinnace.api.base_model import BaseModel
from pinnace.building.opening import open_model
from pinnace.building.planning import to_target
from pinnace.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ConfigError,
    EngineError,
    ModelFormatError,
    ModelStateError,
    warn,
)
from pinnace.options.arguments import check_type, one_of, path
from pinnace.options.context import Context, file_of_rank
from pinnace.options.effects import with_settings
from pinnace.options.settings import Settings
from pinnace.options.table import BUFFER, SECRET
from pinnace.options.target import Target
from pinnace.types import Buffer, ModelGroupFlag, ModelType

if TYPE_CHECKING:
    from pinnace.cache.tuning import Tuning

__all__ = ["Model", "ModelGroupFlag", "ModelType"]


_IS_SECRET = "shares no weights: it is encrypted, and shared weights are files that are not"

_Key = tuple[bytes, str]
"""The key of an encrypted model, and its mode."""


class _Options(NamedTuple):
    model_type: ModelType | None
    context: Context | None
    config_path: str
    config_dict: Mapping[str, object] | None


class Model(BaseModel):
    """A model that is loaded, compiled and run.

    Build it once, then predict: `Model("net.onnx").predict([x])`. Predictions of several threads run one at a
    time, in order of arrival; `ModelParallelRunner` runs them in parallel. Use it in a `with` statement, or
    call `close`, to free its memory at once.
    """

    def __init__(
        self, model: str | os.PathLike[str] | Buffer | None = None, context: Context | None = None
    ) -> None:
        """Make a model. If `model` is the path or the bytes of a model file, build it.

        The content tells the format. Raises as `build_from_file` does.
        """
        super().__init__()
        self._shares_workspace = self._shares_weights = self._is_secret = False
        if context is not None:
            check_type("context", context, Context)
        if isinstance(model, Buffer):
            self._build(model, _Options(None, context, "", None))
        elif model is not None:
            self._open(path("model", model), _Options(None, context, "", None))

    def build_from_file(
        self,
        model_path: str | os.PathLike[str],
        model_type: ModelType,
        context: Context | None = None,
        config_path: str | os.PathLike[str] = "",
        config_dict: Mapping[str, object] | None = None,
        dec_key: bytes | None = None,
        dec_mode: str = "AES-GCM",
        dec_num_parallel: int = 0,
    ) -> None:
        """Load and compile the model file at `model_path`.

        If there is no NAME.mindir, rank 0 of several loads NAME0.mindir or NAME_0.mindir, and so on.
        `context` None is the CPU. Options come from the .ini file at `config_path` and from `config_dict`,
        {section: {key: value}}, which takes precedence. Raises `ArgumentTypeError` for arguments of other
        types, `ModelFormatError` for a missing or damaged file, `UnsupportedModelError` for a model with
        unsupported primitives, `ConfigError` for wrong options, `DeviceUnavailableError` for a missing
        device, `ModelStateError` if the model is built already.

        `dec_key` of 16, 24 or 32 bytes opens a file that MindSpore, MindSpore Lite or the converter has
        encrypted with `dec_mode` "AES-GCM", "AES-CBC" or "SM4-CBC" (16 bytes); it is not kept in the compile
        cache. A wrong key is a `ModelFormatError`; without the package cryptography it raises
        `NotSupportedError`.
        """
        model_path = path("model_path", model_path)
        options = self._checked(model_type, context, config_path, config_dict)
        self._open(model_path, options, _checked_key(dec_key, dec_mode, dec_num_parallel))

    def build_from_buffer(
        self,
        model: Buffer,
        model_type: ModelType,
        context: Context | None = None,
        config_path: str | os.PathLike[str] = "",
        config_dict: Mapping[str, object] | None = None,
        dec_key: bytes | None = None,
        dec_mode: str = "AES-GCM",
        dec_num_parallel: int = 0,
    ) -> None:
        """Compile a model from the bytes of its file.

        `bytes` are not copied and live as long as the model; a writable buffer is copied. If the weights are
        in other files, the option `mindir_path` of the section `[model_file]` is the model's path or folder.
        The rest is as for `build_from_file`.
        """
        if not isinstance(model, Buffer):
            raise ArgumentTypeError(f"model must be bytes, but got {type(model)}.")
        options = self._checked(model_type, context, config_path, config_dict)
        self._build(model, options, _checked_key(dec_key, dec_mode, dec_num_parallel))

    def _checked(
        self, kind: object, context: object, config_path: object, config_dict: Mapping[str, object] | None
    ) -> _Options:
        model_type = check_type("model_type", kind, ModelType)
        if context is not None:
            check_type("context", context, Context)
        if self.is_built:
            raise ModelStateError("build_from_file failed! This model is built already: use a new Model")
        return _Options(
            model_type, cast("Context | None", context), path("config_path", config_path), config_dict
        )

    def _open(self, model_path: str, options: _Options, key: _Key | None = None) -> None:
        model_path = file_of_rank(model_path, options.context)
        if key is not None:
            from pinnace.weights.source import Source

            self._build(Source.of_file(model_path).data, options, key, model_path)
        elif os.path.exists(model_path):
            self._build(model_path, options)
        else:
            raise ModelFormatError(f"build_from_file failed, model_path does not exist! ({model_path})")
        self._model_path = model_path

    def _build(
        self, model: str | Buffer, options: _Options, key: _Key | None = None, name: str = "model buffer"
    ) -> None:
        """Build a model, an encrypted one without files that are not: no compile cache, no shared weights."""
        if key is not None:
            from pinnace.weights.encryption import decrypt

            assert not isinstance(model, str)
            model = decrypt(memoryview(model).cast("B"), *key, name)
        config_path = options.config_path
        if config_path and not os.path.exists(config_path):
            raise ConfigError(f"build_from_file failed, config_path does not exist! ({config_path})")
        settings = Settings.load(config_path, options.config_dict, "config_dict")
        facts = [*(() if isinstance(model, str) else (BUFFER,)), *((SECRET,) if key else ())]
        wanted = with_settings(options.context or Context(), settings, *facts)
        shares = self._shares_workspace or (isinstance(model, str) and _real(model) in _sharing_workspace)
        common = self._shares_weights or (isinstance(model, str) and _real(model) in _sharing_weights)
        self._is_secret = key is not None
        if self._is_secret:
            from pinnace.building.sharing import sharing_of

            if sharing_of(settings) is not None:
                raise ConfigError(f"[ascend_context] shareable_weight_*: {name} {_IS_SECRET}; leave it out")
            if common:
                warn(f"{name} {_IS_SECRET}")
            settings, common = settings.uncached(), False

        def target_of(tuning: Tuning | None) -> Target:
            return to_target(wanted, 1, tuning)._replace(shared_workspace=shares)

        self._start(open_model(model, options.model_type, target_of, settings, settings.keep, common))

    def _share_weights(self) -> None:
        """Share equal weights with other models that do, from now on."""
        self._shares_weights = True
        with self._updating:
            live = self._live
            if live is None:
                return
            if self._is_secret:
                warn(f"{self._model_path} {_IS_SECRET}")
                return
            assert live.update is not None  # a Model runs on no cluster
            try:
                live.update.share(live.workers.exchange)
            except (OSError, EngineError) as error:
                warn(f"{self._model_path} shares no weights: {error}")


_sharing_workspace: set[Path] = set()
_sharing_weights: set[Path] = set()


def share_weights(model: str | Model) -> None:
    """Make a model, or all models built later from a file, share equal weights."""
    if isinstance(model, Model):
        model._share_weights()
    else:
        _sharing_weights.add(_real(model))


def share_workspace(model: str | Model) -> None:
    """Make a model, or all models built later from a file, share their workspace."""
    if isinstance(model, Model):
        if model.is_built:
            warn("ModelGroup: a model that is built keeps its own work space: add it before it is built")
        model._shares_workspace = True
    else:
        _sharing_workspace.add(_real(model))


def _real(path: str) -> Path:
    return Path(path).resolve()


def _checked_key(key: object, mode: object, parallel: object) -> _Key | None:
    if not key:
        return None
    check_type("dec_key", key, bytes)
    check_type("dec_mode", mode, str)
    check_type("dec_num_parallel", parallel, int)
    from pinnace.weights.encryption import MODES, check_key  # few models are encrypted

    if not mode:
        raise ArgumentValueError("dec_mode must not be empty string!")
    known_mode = one_of(*MODES)("dec_mode", mode)
    return check_key(cast(bytes, key), "dec_key"), known_mode
