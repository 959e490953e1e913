"""The one door: a file or buffer and a target go in, an executable comes out."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pinnace.config import Settings
from pinnace.deferred import import_onnx_ir
from pinnace.target import Target
from pinnace.types import ModelType

if TYPE_CHECKING:
    from pinnace.engines.protocol import Executable
    from pinnace.report import ModelReport
    from pinnace.weights.source import Source

Buffer = bytes | bytearray | memoryview

# Formats, compiler and engines are imported where they are used: a process that only forks workers or
# prints help should not pay for them.


def build(
    model: str | os.PathLike[str] | Buffer,
    model_type: ModelType | None,
    target: Target,
    settings: Settings,
) -> Executable:
    """Compile a model for a target.

    `model` is a path, or the bytes of a model, whose weights may lie beside the file that
    `[model_file] mindir_path` names. `model_type` None means: told from the content. Raises
    `ModelFormatError`, `UnsupportedModelError`, `DeviceUnavailableError` or `EngineError`.
    """
    import_onnx_ir()
    from pinnace import engines, formats
    from pinnace.compiler.graph import compilable

    with _no_garbage_collection():
        source = _source(model, settings)
        folder = None if source.folder is None else str(source.folder)
        return engines.build(compilable(formats.read(source, model_type), source.name, folder), target)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Put the collector off for a while.

    A build makes many small objects that live until its end, and every one of the collector's rounds goes
    through all that was ever imported: it took a third of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def inspect_model(path: str | os.PathLike[str]) -> ModelReport:
    """What a model file holds, and what of it Pinnace cannot run; ModelFormatError."""
    import_onnx_ir()
    from pinnace import formats
    from pinnace.report import report
    from pinnace.weights.source import Source

    source = Source.of_file(path)
    return report(source, formats.read(source))


def _source(model: str | os.PathLike[str] | Buffer, settings: Settings) -> Source:
    from pinnace.weights.source import Source

    if isinstance(model, str | os.PathLike):
        return Source.of_file(model)
    beside = settings.get("model_file", "mindir_path")
    if not beside:
        return Source.of_buffer(model)
    return Source.of_buffer(model, beside if os.path.isdir(beside) else os.path.dirname(beside) or ".")
