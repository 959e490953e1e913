"""The spec of a build, and the steps of a build: lower, compile, load."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from pinnace.deferred import import_onnx_ir
from pinnace.errors import NotSupportedError, warn
from pinnace.log import INFO, Log
from pinnace.options.settings import Settings
from pinnace.options.table import BEFORE
from pinnace.options.target import Target
from pinnace.shapes import Shape
from pinnace.types import ModelType

if TYPE_CHECKING:  # loading from the cache needs no compiler
    from pinnace.cache.entry import Entry
    from pinnace.cache.key import MadeFor
    from pinnace.cache.model import ModelCache
    from pinnace.distributed.plan import RankPart
    from pinnace.engines.protocol import Compiled, Engine, Executable
    from pinnace.lowering.graph import Compilable
    from pinnace.weights.source import Source

_log = Log("pinnace.build")

_LARGE = 1e9  # bytes of a model whose stages are logged when they begin: they take seconds


class Sharing(NamedTuple):
    """The processes that a model lends its weights to, or the handle of those that it borrows."""

    pids: str
    handle: str


class Spec(NamedTuple):
    """All that a build depends on.

    `plan` maps node names to element types, `variable` names the exchangeable weights, `shapes` are those of
    the inputs, () for those of the file. With `is_open` the model decides the engine, and how many of
    `most_threads` it gets. `keep` is when the cache is written (`Settings.keep`). With `common`, other models
    of this process share the weights; `sharing` is that with other processes. `entry` is the compiled model
    in the cache, once it was found. `why` is the reason for the engine, as far as the model does not decide.
    """

    source: Source
    kind: ModelType
    engine: Engine
    target: Target
    plan: Mapping[str, str]
    variable: tuple[str, ...]
    shapes: tuple[Shape, ...]
    cache: ModelCache
    settings: Settings = Settings()
    sharing: Sharing | None = None
    keep: str = BEFORE
    common: bool = False
    is_open: bool = False
    most_threads: int = 0
    why: str = ""
    is_tuned: bool = False
    entry: Entry | None = None

    @property
    def made_for(self) -> MadeFor:
        """The part of the key of a compiled model that the build decides."""
        return self.engine.name, self.target, self.variable, self.plan, self.shapes

    @property
    def of_segments(self) -> Target:
        """The target of the segments of one rank's part, which run in turn and share their workspace."""
        return self.target._replace(shared_workspace=True)


class Stages(dict[str, float]):
    """Seconds by stage of a build, in the order in which the stages began first.

    `graph` is the lowered graph by which the engine was chosen, for the build that follows.
    """

    graph: Compilable | None = None

    @contextmanager
    def timed(self, stage: str, spec: Spec | None = None) -> Iterator[None]:
        """Add the time of the block to a stage; announce it if the model of a spec is large."""
        if spec is not None and (size := spec.source.size) >= _LARGE:
            message = f"{spec.source.name}, {size / 1e9:.1f} GB: {stage}"
            _log.event(INFO, "stage", message, model=spec.source.name, bytes=size, stage=stage)
        before, start = self.setdefault(stage, 0.0), perf_counter()
        try:
            yield
        finally:
            self[stage] = before + perf_counter() - start

    def __str__(self) -> str:
        """Return the stages in one line: "reading 2 ms, loading 13 ms"."""
        return ", ".join(f"{stage} {seconds * 1e3:.3g} ms" for stage, seconds in self.items())


def is_onnxruntime(engine: Engine) -> bool:
    return engine.name.startswith("onnxruntime")


def lowered(spec: Spec, stages: Stages, variable: Collection[str] | None = None) -> Compilable:
    """Read and lower the model, with exchangeable weights `variable` in place of the spec's if given.

    Raises ModelFormatError, UnsupportedModelError and ConfigError.
    """
    graph, stages.graph = stages.graph, None
    if graph is None:
        graph = _lowered(spec, stages, spec.variable if variable is None else variable)
    if spec.target.form and not graph.variable:
        from pinnace import quantization
        from pinnace.quantization.scheme import QuantizationScheme

        quantization.apply(graph.model, QuantizationScheme.of(spec.target.form))
    return graph


def _lowered(spec: Spec, stages: Stages, variable: Collection[str]) -> Compilable:
    with stages.timed("imports"):
        import_onnx_ir()
        from pinnace import formats
        from pinnace.lowering.graph import compilable, shapes_of

    source, target = spec.source, spec.target
    folder = None if source.folder is None else str(source.folder)
    with stages.timed("reading"):
        read = formats.read(source, spec.kind)
        shapes = spec.shapes or shapes_of(read, target.input_shape, source.name)
    with stages.timed("lowering"):
        graph = compilable(read, source.name, folder, variable, spec.plan, target.output_type, shapes)
    if shapes:
        check_whole(graph)
    return graph


def check_whole(graph: Compilable) -> None:
    """Raise NotSupportedError for one rank's part of a model."""
    from pinnace.lowering.graph import has_collectives

    if has_collectives(graph.model):
        raise NotSupportedError(
            f"{graph.name}: weights and shapes of one rank's part cannot change: build each rank again from "
            f"another file"
        )


def built_in_memory(spec: Spec, stages: Stages) -> Executable | RankPart:
    """Compile the model without keeping anything on disk."""
    graph = lowered(spec, stages)
    from pinnace.lowering.graph import has_collectives

    if not has_collectives(graph.model):
        with stages.timed("compiling", spec):
            return spec.engine.build(graph, spec.target)
    from pinnace.distributed.plan import RankPart
    from pinnace.distributed.segments import split

    first_state = [value.numpy() for value in graph.first_state]
    plan, parts = split(graph)
    segments = [spec.engine.build(part, spec.of_segments) for part in parts]
    return RankPart(graph.name, plan, graph.interface, first_state, segments)


def compiled(spec: Spec, folder: Path, stages: Stages) -> Compiled:
    graph = lowered(spec, stages)
    from pinnace.lowering.graph import has_collectives

    with stages.timed("compiling", spec):
        if not has_collectives(graph.model):
            return spec.engine.compile(graph, spec.source, spec.target, folder)
        from pinnace.building import partition

        def compile_segment(segment: Compilable, place: Path) -> Compiled:
            return spec.engine.compile(segment, spec.source, spec.of_segments, place)

        return partition.compile_into(folder, graph, compile_segment)


def loaded(spec: Spec, entry: Entry, stages: Stages, lent: bool = False) -> Executable | RankPart:
    """Load the result of `compiled`. Raises NotSupportedError if one rank's part should be `lent`."""
    for message in entry.warnings:
        warn(message)
    if not entry.is_part:
        with stages.timed("loading", spec):
            return spec.engine.load(entry.compiled, spec.source, spec.target, entry.folder)
    if lent:
        raise NotSupportedError(f"{spec.source.name}: the weights of one rank's part cannot be lent")
    from pinnace.building import partition

    def load(compiled: Compiled, place: Path) -> Executable:
        return spec.engine.load(compiled, spec.source, spec.of_segments, place)

    return partition.load(entry, spec.source.name, load)
