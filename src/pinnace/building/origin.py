"""The one door: a file or buffer and a target go in, an executable comes out."""

from __future__ import annotations

import copy
import gc
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, EngineError, LackingKernelsError, NotSupportedError, warn, withheld
from pinnace.machine.cores import usable_core_count
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.shapes import Shape
from pinnace.types import ModelType

if TYPE_CHECKING:
    from pathlib import Path

    from pinnace.building.report import ModelReport
    from pinnace.cache.choices import Tuning
    from pinnace.cache.entry import Entry
    from pinnace.cache.handover import Offer
    from pinnace.cache.store import Store
    from pinnace.compiler.graph import Compilable
    from pinnace.compiler.variable import Variable
    from pinnace.distributed.steps import RankPart
    from pinnace.engines.protocol import Compiled, Executable, Mould
    from pinnace.weights.source import Source

Buffer = bytes | bytearray | memoryview
Aim = Callable[["Tuning | None"], Target]
"""What to build for, told what was measured of the model on this machine."""

_log = logging.getLogger("pinnace")
_RARER = 50
_counting = threading.RLock()
_builds: list[tuple[int, ...]] = []
"""The thresholds of the collector that each build found; the first are those of the process."""

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
    return Origin(model, model_type, lambda _: target, settings).build()


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
        aim: Aim,
        settings: Settings,
        spare: Store | None = None,
    ) -> None:
        """Map a model, without reading it yet; see `build`. The engine is chosen for what `aim` says.

        `spare` keeps what is compiled where there is no compile cache.
        """
        from pinnace import engines, formats
        from pinnace.cache.store import Store

        self.source = source_of(model, settings)
        self.variable = settings.variable_weights
        self._settings = settings
        self._plan = settings.precision_plan
        self._kind = formats.kind(self.source, model_type)
        self._store = Store.of(settings) or spare
        self._wholes: dict[tuple[str, ...], str] = {}
        self._admitted = settings.get("ascend_context", "shareable_weight_pid_list")
        self._handle = settings.get("ascend_context", "shareable_weight_mem_handle")
        # Who lends and who borrows must come to the same, and the engine that shares weights is onnxruntime.
        tuning = None if self._admitted or self._handle else self._remembered()
        aimed = aim(tuning)
        self.target = _with_provider(aimed, tuning)
        if self.target.device != "cpu":
            self._check_nothing_shared()
            self.target = replace(self.target, options=settings.flat)
            self._store = None  # what was compiled for an accelerator is kept by its provider, or not at all
        if self.target.profile:
            self._store = None  # what is loaded does not know what nodes are called in the file
        self._engine = engines.choose(self.target, self.source.name)
        # What this engine does not like, another one may. onnxruntime has the last word.
        self._may_fail = not self._engine.name.startswith("onnxruntime")
        self._shapes: tuple[Shape, ...] = ()
        self._entry: Entry | None = None
        self.offer: Offer | None = None

    def reshaped(self, shapes: tuple[Shape, ...]) -> Origin:
        """The same model with inputs of other shapes, () those of the file.

        Processes lend each other what is built for those of the file alone.
        """
        other = copy.copy(self)
        other._shapes, other.source = shapes, self.source.again()
        if shapes:
            other._entry, other._admitted, other._handle = None, "", ""
        return other

    def build(self) -> Executable:
        """Compile the model as it is, or load what was compiled before; see `build`.

        Where the engine lacks operators of the model, or fails, and another one is here that does not, that
        one runs it.
        Where 16 bits are preferred and nothing computes in them, a warning says so.
        """
        executable = self._build_somewhere()
        wanted = self.target.precision == "preferred_fp16"
        if wanted and self.target.device == "cpu" and executable.info["precision"] == "float32":
            warn(f"{self.source.name} runs in float32, not in 16 bits: {self._no_sixteen_bits()}")
        if self.target.inter_op_threads > 1 and not self._engine.name.startswith("onnxruntime"):
            warn(
                "context.cpu.inter_op_parallel_num has no effect: "
                f"{self._engine.name} runs one operator at a time"
            )
        return executable

    def _no_sixteen_bits(self) -> str:
        from pinnace.machine.processor import sixteen_bit_type

        kind = sixteen_bit_type()
        if kind is None:
            return "this processor computes in no 16-bit type"
        return f"{self._engine.name} does not use the {kind} of this processor, as openvino does"

    def _build_somewhere(self) -> Executable:
        try:
            return self._build()
        except (LackingKernelsError, EngineError) as error:
            from pinnace import engines

            here = self.target.device == "cpu"  # an accelerator is not given up for the CPU in silence
            lacking, other = self._engine, engines.other(self._engine) if here else None
            if other is None or not (isinstance(error, LackingKernelsError) or self._may_fail):
                raise
            self._engine = other
            try:
                executable = self._build()
            except (LackingKernelsError, EngineError, OSError, MemoryError):
                raise error from None
            why = str(error)
            if isinstance(error, LackingKernelsError):
                names = ", ".join(primitive.name for primitive in error.primitives)
                why = f"{self.source.name}: {lacking.name} lacks {names}"
            warn(f"{why}; {self._engine.name} runs the model")
            return executable

    def _build(self) -> Executable:
        from pinnace.distributed.steps import RankPart

        with _rare_garbage_collection():
            made = self._made()
        if not isinstance(made, RankPart):
            self._warn_of_ranks()
            return made
        from pinnace.distributed.executable import join
        from pinnace.distributed.files import fingerprint

        known = None if self._store is None or self._entry is None else self._store.refers(self._content)
        content = fingerprint(self.source, self.source.files if known is None else known)
        return join(made, self.target, self._settings, content)

    def _warn_of_ranks(self) -> None:
        """Say of options for ranks that they have no effect: this model runs alone."""
        target, get = self.target, self._settings.get
        on_gpu = target.device == "gpu" or target.simulates.startswith("gpu")  # whose launcher says the rank
        asked = {
            "[ascend_context] rank_table_file": get("ascend_context", "rank_table_file"),
            "[distributed] timeout": get("distributed", "timeout"),
            "context.group_info_file": target.groups,
            "context.ascend.rank_id": target.rank and not on_gpu,
        }
        names = [name for name, given in asked.items() if given]
        if names and not self._shapes:
            warn(f"these options have no effect: {', '.join(names)} ({self.source.name} has no collectives)")

    def _made(self) -> Executable | RankPart:
        """What runs here, through the compile cache where that can be used."""
        if self._entry is not None and (self._handle or self._admitted):
            return self._load(self._entry)
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
        made = self._unkept()
        self.source.check_unchanged()
        if self._store is not None:
            warn(f"compile cache: {self.source.name} is built without being kept: {reason}")
        return made

    def _unkept(self) -> Executable | RankPart:
        import_onnx_ir()
        from pinnace.distributed.plan import cut, meets
        from pinnace.distributed.steps import RankPart

        graph = self._compilable(self.variable)
        if not meets(graph.model):
            return self._engine.build(graph, self.target)
        first_state = [value.numpy() for value in graph.first_state]
        plan, parts = cut(graph)
        segments = [self._engine.build(part, self._of_segments) for part in parts]
        return RankPart(graph.name, plan, graph.interface, first_state, segments)

    @property
    def _of_segments(self) -> Target:
        """What segments of one rank's part are built for: one runs after the other, in the same memory."""
        return replace(self.target, shared_workspace=True)

    def mould(self, names: Collection[str]) -> tuple[Mould, Mapping[str, Variable]]:
        """What makes executables with other values of the weights `names`, and what is known of these.

        Raises as `build`; ConfigError where a weight cannot be exchanged.
        """
        with _rare_garbage_collection(), withheld():  # the build has said it
            graph = self._compilable(names)
            self._check_whole(graph)
            same = self._entry if set(names) == set(self.variable) or not graph.held_back else None
            kept = None if same is None else (same.compiled, same.folder)
            return self._engine.mould(graph, self.source, self.target, kept), graph.variable

    def modules(self) -> dict[str, str]:
        """The names of weights by the paths of the modules that they belong to."""
        import_onnx_ir()
        from pinnace import formats
        from pinnace.compiler.variable import modules_of

        with _rare_garbage_collection():
            return modules_of(formats.read(self.source, self._kind))

    def _offering(self) -> Executable | RankPart:
        """Build through the compile cache, and let the admitted processes have what is kept there."""
        from pinnace.cache.handover import Offer, admitted
        from pinnace.cache.private import private_store

        processes = admitted(self._admitted)
        try:
            store = self._store or private_store()
            self._entry = self._kept(store)
        except OSError as error:
            raise ConfigError(
                f"shareable_weight_pid_list: weights are shared by the compile cache, or where it is off by "
                f"files in the folder for temporary ones (TMPDIR), and that fails: {error}"
            ) from None
        executable = self._load(self._entry)
        refers, made_for = store.refers(self._content), self._key(())
        self.offer = Offer(
            self._entry, self._content, made_for, self._kind_of_device, refers, processes, store
        )
        return executable

    def _received(self) -> Entry:
        """The entry of the process that offers its weights."""
        from pinnace.cache.handover import receive

        return receive(self._handle, self._content, self._key, self._kind_of_device, self.source.name)

    @property
    def _kind_of_device(self) -> str:
        return (self.target.simulates or self.target.device).partition(":")[0]

    def _check_nothing_shared(self) -> None:
        """Raise where weights in the memory of an accelerator should be shared between processes."""
        for key in ("shareable_weight_pid_list", "shareable_weight_mem_handle"):
            if self._settings.get("ascend_context", key):
                raise ConfigError(
                    f"{key}: processes share weights in the machine's memory, and those of this model lie in "
                    f"that of {self.target.device}:{self.target.device_id}, which no engine shares between "
                    f"processes; leave it out, and each process has its own"
                )

    @cached_property
    def _content(self) -> str:
        from pinnace.cache.key import content_of

        return content_of(self.source)

    def _whole(self, refers: Sequence[str]) -> str:
        """A name for the model with the files that it refers to, each read once."""
        from pinnace.cache.key import whole_of

        files = tuple(refers)
        if files not in self._wholes:
            self._wholes[files] = whole_of(self._content, self.source, files)
        return self._wholes[files]

    def _key(self, refers: Sequence[str]) -> str:
        from pinnace.cache.key import key_of

        whole = self._whole(refers)
        return key_of(whole, self._engine.name, self.target, self.variable, self._plan, self._shapes)

    @property
    def _place(self) -> str:
        """Under what it is remembered how fast the model is here."""
        from pinnace import engines
        from pinnace.cache.choices import place_of

        refers = [] if self._store is None else self._store.refers(self._content)
        versions = map(" ".join, engines.installed().items())
        return place_of(self._whole(refers), versions, usable_core_count())

    def _remembered(self) -> Tuning | None:
        from pinnace.cache import choices

        if self._store is None or not choices.any_kept(self._store):
            return None
        return choices.find(self._store, self._content, self._place)

    def remember(self, tuning: Tuning) -> bool:
        """Keep what was measured, for later builds; False where the compile cache is off. OSError."""
        from pinnace.cache import choices

        if self._store is not None:
            choices.remember(self._store, self._content, self._place, tuning)
        return self._store is not None

    def forget(self) -> int:
        """Forget what was measured of the model file, wherever that was, and say how often it was."""
        from pinnace.cache import choices

        return 0 if self._store is None else choices.forget(self._store, self._content)

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
                    with withheld() as said:  # who loads the entry says it, now and later
                        compiled = self._compiled(folder)
                    self.source.unload()
                    self.source.check_unchanged()
                    if self.source.files:
                        store.set_refers(content, self.source.files)
                    names = self.source.name, self._engine.name
                    entry = store.publish(key(), folder, compiled, *names, said)
        return entry

    def _compiled(self, folder: Path) -> Compiled:
        """What the engine makes of the model, written into a folder."""
        import_onnx_ir()
        from pinnace.cache import parts
        from pinnace.distributed.plan import meets

        graph = self._compilable(self.variable)
        if not meets(graph.model):
            return self._engine.compile(graph, self.source, self.target, folder)

        def compile_segment(segment: Compilable, place: Path) -> Compiled:
            return self._engine.compile(segment, self.source, self._of_segments, place)

        return parts.compile_into(folder, graph, compile_segment)

    def _load(self, entry: Entry) -> Executable | RankPart:
        from pinnace.cache import parts

        for message in entry.warnings:
            warn(message)
        if not parts.is_part(entry):
            return self._engine.load(entry.compiled, self.source, self.target, entry.folder)
        if self._handle or self._admitted:
            raise NotSupportedError(f"{self.source.name}: the weights of one rank's part cannot be lent")

        def load(compiled: Compiled, place: Path) -> Executable:
            return self._engine.load(compiled, self.source, self._of_segments, place)

        return parts.load(entry, self.source.name, load)

    def _check_whole(self, graph: Compilable) -> None:
        from pinnace.distributed.plan import meets

        if meets(graph.model):
            raise NotSupportedError(
                f"{self.source.name}: one rank's part of a model keeps the weights and shapes of its file: "
                f"build each rank of another one"
            )

    def _compilable(self, variable: Collection[str]) -> Compilable:
        """Read and lower the model."""
        import_onnx_ir()
        from pinnace import formats
        from pinnace.compiler.graph import compilable, shapes_of

        source, target = self.source, self.target
        folder = None if source.folder is None else str(source.folder)
        read = formats.read(source, self._kind)
        shapes = self._shapes or shapes_of(read, target.input_shape, source.name)
        graph = compilable(read, source.name, folder, variable, self._plan, target.output_type, shapes)
        if shapes:
            self._check_whole(graph)
        return graph


def _with_provider(target: Target, tuning: Tuning | None) -> Target:
    """The engine that was the fastest in what was measured, where the target leaves it open."""
    if tuning is None or target.provider or target.device != "cpu":
        return target
    best = tuning.best("", target.precision, target.threads, target.parallel_requests)
    if best is None:
        return target
    _log.info("%s was tuned: the fastest is %s, at %.3f ms", tuning.model, best, best.latency)
    return replace(target, provider=best.provider)


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Let the collector come seldom while anything is built, and as before after the last of such blocks.

    A build makes many small objects that live until its end: the collector's rounds took 6 % of the time
    (EfficientNet-Lite0 without the cache, 654 beside 613 ms of CPU time; so rarely, 606). It is not put off:
    the garbage of other threads would stay until the end.
    """
    with _counting:
        _builds.append(gc.get_threshold())
        gc.set_threshold(_builds[0][0] * _RARER, *_builds[0][1:])
    try:
        yield
    finally:
        with _counting:
            first = _builds[0]
            _builds.pop()
            if not _builds:
                gc.set_threshold(*first)


def inspect_model(path: str | os.PathLike[str]) -> ModelReport:
    """What a model file holds, and what of it Pinnace cannot run; ModelFormatError."""
    import_onnx_ir()
    from pinnace import formats
    from pinnace.building.report import report
    from pinnace.weights.source import Source

    source = Source.of_file(path)
    return report(source, formats.read(source))


def source_of(model: str | os.PathLike[str] | Buffer, settings: Settings) -> Source:
    """Where the bytes of a model lie; see `build`. ModelFormatError where a file is missing."""
    from pinnace.weights.source import Source

    if isinstance(model, str | os.PathLike):
        return Source.of_file(model)
    beside = settings.get("weight", "weight_path") or settings.get("model_file", "mindir_path")
    if not beside:
        return Source.of_buffer(model)
    return Source.of_buffer(model, beside if os.path.isdir(beside) else os.path.dirname(beside) or ".")
