"""The one door: a file or buffer and a target go in, an executable comes out."""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from pinnace.config import Settings
from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, EngineError, warn
from pinnace.target import Target
from pinnace.types import ModelType

if TYPE_CHECKING:
    from pinnace.cache.entry import Entry
    from pinnace.cache.handover import Offer
    from pinnace.cache.store import Store
    from pinnace.compiler.graph import Compilable
    from pinnace.compiler.variable import Variable
    from pinnace.engines.protocol import Executable, Mould
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
    return Origin(model, model_type, target, settings).build()


class Origin:
    """A model that was opened for a target: what is made of it, at first and with other weights.

    `target` is what it is built for; `variable` are the names of the weights that the user's settings say
    may be exchanged; `offer` is what other processes may have of it, once it is built, where the settings
    name such processes.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Buffer,
        model_type: ModelType | None,
        target: Target,
        settings: Settings,
    ) -> None:
        """Map a model, without reading it yet; see `build`."""
        from pinnace import engines, formats
        from pinnace.cache.store import Store

        self.source = _source(model, settings)
        self.variable = settings.variable_weights
        self._kind = formats.kind(self.source, model_type)
        self._engine = engines.choose(target, self.source.name)
        self.target = target
        self._store = Store.of(settings)
        self._entry: Entry | None = None
        self._admitted = settings.get("ascend_context", "shareable_weight_pid_list")
        self._handle = settings.get("ascend_context", "shareable_weight_mem_handle")
        self.offer: Offer | None = None

    def build(self) -> Executable:
        """Compile the model as it is, or load what was compiled before; see `build`."""
        with _no_garbage_collection():
            if self._handle:
                self._entry = self._received()
                return self._load(self._entry)
            if self._admitted:
                return self._offering()
            if self._store is not None:
                try:
                    self._entry = self._kept(self._store)
                    return self._load(self._entry)
                except (OSError, EngineError) as error:
                    self._entry = None
                    reason = error
            executable = self._engine.build(self._compilable(self.variable), self.target)
            self.source.check_unchanged()
            if self._store is not None:
                warn(f"compile cache: {self.source.name} is built without being kept: {reason}")
            return executable

    def mould(self, names: Collection[str]) -> tuple[Mould, Mapping[str, Variable]]:
        """What makes executables with other values of the weights `names`, and what is known of these.

        Raises as `build`; ConfigError where a weight cannot be exchanged.
        """
        with _no_garbage_collection():
            graph = self._compilable(names)
            same = self._entry if set(names) == set(self.variable) or not graph.held_back else None
            kept = None if same is None else (same.compiled, same.folder)
            return self._engine.mould(graph, self.source, self.target, kept), graph.variable

    def modules(self) -> dict[str, str]:
        """The names of weights by the paths of the modules that they belong to."""
        import_onnx_ir()
        from pinnace import formats
        from pinnace.compiler.variable import modules_of

        with _no_garbage_collection():
            return modules_of(formats.read(self.source, self._kind))

    def _offering(self) -> Executable:
        """Build through the compile cache, and let the admitted processes have what is kept there."""
        from pinnace.cache.handover import Offer, admitted

        processes = admitted(self._admitted)
        if self._store is None:
            raise ConfigError(
                "shareable_weight_pid_list: weights are shared through the compile cache, and it is off"
            )
        try:
            self._entry = self._kept(self._store)
        except OSError as error:
            raise ConfigError(
                f"shareable_weight_pid_list: weights are shared by the compile cache, and it fails: {error}"
            ) from None
        executable = self._load(self._entry)
        refers = self._store.refers(self._content)
        self.offer = Offer(self._entry, self._content, self._key(()), refers, processes)
        return executable

    def _received(self) -> Entry:
        """The entry of the process that offers its weights."""
        from pinnace.cache.handover import receive

        return receive(self._handle, self._content, self._key, self.source.name)

    @cached_property
    def _content(self) -> str:
        from pinnace.cache.key import content_of

        return content_of(self.source)

    def _key(self, refers: Sequence[str]) -> str:
        from pinnace.cache.key import key_of

        return key_of(self._content, self.source, refers, self._engine.name, self.target, self.variable)

    def _kept(self, store: Store) -> Entry:
        """The entry of the compile cache, made now where there is none."""

        def key() -> str:
            return self._key(store.refers(content))

        content = self._content
        entry = store.find(key())
        if entry is None:
            with store.writing(content) as folder:
                entry = store.find(key())
                if entry is None:
                    graph = self._compilable(self.variable)
                    compiled = self._engine.compile(graph, self.source, self.target, folder)
                    self.source.unload()
                    self.source.check_unchanged()
                    if self.source.files:
                        store.set_refers(content, self.source.files)
                    entry = store.publish(key(), folder, compiled, self.source.name, self._engine.name)
        return entry

    def _load(self, entry: Entry) -> Executable:
        return self._engine.load(entry.compiled, self.source, self.target, entry.folder)

    def _compilable(self, variable: Collection[str]) -> Compilable:
        return _compilable(self.source, self._kind, variable)


def _compilable(source: Source, kind: ModelType, variable: Collection[str]) -> Compilable:
    """Read and lower a model."""
    import_onnx_ir()
    from pinnace import formats
    from pinnace.compiler.graph import compilable

    folder = None if source.folder is None else str(source.folder)
    return compilable(formats.read(source, kind), source.name, folder, variable)


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
