"""Opening model files: where their bytes lie, and what they hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pinnace.deferred import import_onnx_ir
from pinnace.options.settings import Settings

if TYPE_CHECKING:
    from pinnace.building.report import ModelReport
    from pinnace.weights.source import Source

Buffer = bytes | bytearray | memoryview


def source_of(model: str | os.PathLike[str] | Buffer, settings: Settings) -> Source:
    """Where the bytes of a model lie, which is a path or the bytes of a file.

    The weights of bytes lie beside the file that `[weight] weight_path` or `[model_file] mindir_path` names.
    Raises ModelFormatError where a file is missing.
    """
    from pinnace.weights.source import Source

    if isinstance(model, str | os.PathLike):
        return Source.of_file(model)
    beside = settings.get("weight", "weight_path") or settings.get("model_file", "mindir_path")
    if not beside:
        return Source.of_buffer(model)
    return Source.of_buffer(model, beside if os.path.isdir(beside) else os.path.dirname(beside) or ".")


def inspect_model(path: str | os.PathLike[str]) -> ModelReport:
    """The contents of a model file, and what of them Pinnace cannot run. Raises ModelFormatError."""
    import_onnx_ir()
    from pinnace import formats
    from pinnace.building.report import report
    from pinnace.weights.source import Source

    source = Source.of_file(path)
    return report(source, formats.read(source))
