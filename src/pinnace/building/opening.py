"""Opening of model files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.deferred import import_onnx_ir
from pinnace.options.settings import Settings
from pinnace.types import Buffer

if TYPE_CHECKING:
    from pinnace.building.report import ModelReport
    from pinnace.weights.source import Source


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
