"""Opening of model files: a file or buffer, a target and settings become the spec of a build."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.building.choosing import is_open, why, with_tuned_provider
from pinnace.building.spec import Spec
from pinnace.deferred import import_onnx_ir
from pinnace.options.settings import Settings
from pinnace.options.table import BEFORE, LATENCY, MEMORY
from pinnace.options.target import Target
from pinnace.types import Buffer, ModelType

if TYPE_CHECKING:
    from pinnace.building.report import ModelReport
    from pinnace.cache.tuning import Tuning
    from pinnace.weights.source import Source

# Formats, compiler, engines and cache are imported on use: processes that only fork workers or print help
# must not pay for them.

TargetFor = Callable[["Tuning | None"], Target]
"""Returns the target to build for, given the tuning of the model on this machine."""

_OUTDATED = "tuned with other code, engines, cores or another CPU: run pinnace tune again"


def source_of(model: str | os.PathLike[str] | Buffer, settings: Settings) -> Source:
    """Return the source of a model, given as a path or as the bytes of its file.

    The external weights of bytes are beside the file that `[weight] weight_path` or `[model_file]
    mindir_path` names. Raises ModelFormatError if a file is missing.
    """
    from pinnace.weights.source import Source

    if isinstance(model, str | os.PathLike):
        return Source.of_file(model)
    beside = settings.get("weight", "weight_path") or settings.get("model_file", "mindir_path")
    if not beside:
        return Source.of_buffer(model)
    return Source.of_buffer(model, beside if os.path.isdir(beside) else os.path.dirname(beside) or ".")


def open_model(
    model: str | os.PathLike[str] | Buffer,
    kind: ModelType | None,
    target: Target | TargetFor,
    settings: Settings,
    keep: str = BEFORE,
    common: bool = False,
) -> Spec:
    """Map a model without reading it, and choose an engine for the target unless the model decides.

    `model` is a path or bytes (see `source_of`); `kind` None means that the content decides. With
    `common`, other models of this process share the weights. Raises `ModelFormatError`, `ConfigError` and
    `DeviceUnavailableError`.
    """
    from pinnace import engines, formats
    from pinnace.building.sharing import check_sharing, sharing_of
    from pinnace.cache.model import ModelCache
    from pinnace.cache.store import Store, store_for_sharing

    source = source_of(model, settings)
    kind = formats.kind(source, kind)
    sharing = sharing_of(settings)
    cache = ModelCache(source, store_for_sharing(settings) if common else Store.of(settings))
    keep = BEFORE if common else keep  # models share what is kept
    common = common or sharing is not None
    # Lender and borrower must choose the same engine, and onnxruntime is the one that shares weights.
    tuning = None if sharing else cache.tuning()
    variable, plan = settings.variable_weights, settings.precision_plan
    if tuning is not None and (variable or plan):
        tuning = tuning.exact()
    prefer = settings.get("common_context", "prefer", MEMORY if common else LATENCY)
    if tuning is not None and prefer == MEMORY:
        tuning = tuning.lean()
    chosen = target if isinstance(target, Target) else target(tuning)
    wanted = chosen._replace(prefer=prefer)
    target = with_tuned_provider(wanted, tuning)
    if target.device != "cpu":
        target = target._replace(options=settings.flat)
    reason = why(target, tuning)
    if tuning is None and sharing is None and cache.was_tuned:
        reason = "; ".join(filter(None, (_OUTDATED, reason)))
    # Accelerator builds are kept by the provider, if at all; a loaded model lacks the node names that
    # profiles show.
    if target.device != "cpu" or target.profile:
        cache = ModelCache(source)
    engine = engines.choose(target, source.name)
    if sharing is not None:
        check_sharing(sharing, target)
    return Spec(
        source, kind, engine, target, plan, variable, (), cache, settings, sharing, keep, common,
        is_open=sharing is None and is_open(target), most_threads=target.threads, why=reason,
        is_tuned=tuning is not None,
    )  # fmt: skip


def inspect_model(path: str | os.PathLike[str], onnx: Path | None = None) -> ModelReport:
    """Describe a model file, with its unsupported primitives, and write it to `onnx` as Pinnace lowers it.

    A model that cannot be lowered is not written. Raises ModelFormatError, and FileWriteError for `onnx`.
    """
    import_onnx_ir()
    from pinnace import formats
    from pinnace.building.report import report
    from pinnace.weights.source import Source

    source = Source.of_file(path)
    return report(source, formats.read(source), onnx)
