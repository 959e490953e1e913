"""The one door: a file or buffer and a target go in, an executable comes out."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pinnace.config import Settings
from pinnace.deferred import import_onnx_ir
from pinnace.errors import EngineError, warn
from pinnace.target import Target
from pinnace.types import ModelType

if TYPE_CHECKING:
    from pinnace.cache.store import Store
    from pinnace.compiler.graph import Compilable
    from pinnace.engines.protocol import Engine, Executable
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
    from pinnace import engines, formats
    from pinnace.cache.store import Store

    with _no_garbage_collection():
        source = _source(model, settings)
        kind = formats.kind(source, model_type)
        engine = engines.choose(target, source.name)
        store = Store.of(settings)
        if store is not None:
            try:
                return _from_store(store, source, kind, engine, target)
            except (OSError, EngineError) as error:
                reason = error
        executable = engine.build(_compilable(source, kind), target)
        if store is not None:
            warn(f"compile cache: {source.name} is built without being kept: {reason}")
        return executable


def _from_store(
    store: Store, source: Source, kind: ModelType, engine: Engine, target: Target
) -> Executable:
    """Load what was compiled before, or compile and keep it."""
    from pinnace.cache.key import content_of, key_of

    def key() -> str:
        return key_of(content, source, store.refers(content), engine.name, target)

    content = content_of(source)
    entry = store.find(key())
    if entry is None:
        with store.writing(content) as folder:
            entry = store.find(key())
            if entry is None:
                compiled = engine.compile(_compilable(source, kind), source, target, folder)
                if source.files:
                    store.set_refers(content, list(source.files))
                entry = store.publish(key(), folder, compiled, source.name, engine.name)
    return engine.load(entry.compiled, source, target, entry.folder)


def _compilable(source: Source, kind: ModelType) -> Compilable:
    """Read and lower a model."""
    import_onnx_ir()
    from pinnace import formats
    from pinnace.compiler.graph import compilable

    folder = None if source.folder is None else str(source.folder)
    return compilable(formats.read(source, kind), source.name, folder)


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
