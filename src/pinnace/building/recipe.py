"""The recipe of an executable: a model file, an engine, a target and shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.building.stages import Stages
from pinnace.deferred import import_onnx_ir
from pinnace.errors import NotSupportedError, warn
from pinnace.log import INFO, Log
from pinnace.options.target import Target
from pinnace.shapes import Shape
from pinnace.types import ModelType

if TYPE_CHECKING:  # loading from the cache needs no compiler
    from pinnace.cache.entry import Entry
    from pinnace.distributed.steps import RankPart
    from pinnace.engines.protocol import Compiled, Engine, Executable
    from pinnace.lowering.graph import Compilable
    from pinnace.weights.source import Source

_log = Log("pinnace.build")

_LARGE = 1e9  # bytes of a model whose stages are logged when they begin: they take seconds


@dataclass(frozen=True)
class Recipe:
    """The inputs of a build.

    `plan` maps node names to element types, `variable` names the exchangeable weights, `shapes` are those of
    the inputs, () for those of the file. `stages` has the time of what was done. `held` is the graph by which
    the engine was chosen, for the build that follows.
    """

    source: Source
    kind: ModelType
    engine: Engine
    target: Target
    plan: Mapping[str, str]
    variable: Collection[str]
    shapes: tuple[Shape, ...] = ()
    stages: Stages = field(default_factory=Stages, compare=False)
    held: list[Compilable] = field(default_factory=list, compare=False)

    def graph(self, variable: Collection[str]) -> Compilable:
        """Read and lower the model with exchangeable weights `variable`.

        Raises ModelFormatError, UnsupportedModelError and ConfigError.
        """
        graph = self.held.pop() if self.held else self._lowered(variable)
        if self.target.form and not graph.variable:
            from pinnace import quantization
            from pinnace.quantization.scheme import QuantizationScheme

            quantization.apply(graph.model, QuantizationScheme.of(self.target.form))
        return graph

    def _lowered(self, variable: Collection[str]) -> Compilable:
        with self.stages.timed("imports"):
            import_onnx_ir()
            from pinnace import formats
            from pinnace.lowering.graph import compilable, shapes_of

        source, target = self.source, self.target
        folder = None if source.folder is None else str(source.folder)
        with self.stages.timed("reading"):
            read = formats.read(source, self.kind)
            shapes = self.shapes or shapes_of(read, target.input_shape, source.name)
        with self.stages.timed("lowering"):
            graph = compilable(read, source.name, folder, variable, self.plan, target.output_type, shapes)
        if shapes:
            self.check_whole(graph)
        return graph

    def check_whole(self, graph: Compilable) -> None:
        """Raise NotSupportedError for one rank's part of a model."""
        from pinnace.lowering.graph import has_collectives

        if has_collectives(graph.model):
            raise NotSupportedError(
                f"{self.source.name}: weights and shapes of one rank's part cannot change: build each rank "
                f"again from another file"
            )

    def executable(self) -> Executable | RankPart:
        """Compile the model without keeping anything on disk."""
        with self.stages.timed("imports"):
            import_onnx_ir()
            from pinnace.lowering.graph import has_collectives

        graph = self.graph(self.variable)
        if not has_collectives(graph.model):
            with self._stage("compiling"):
                return self.engine.build(graph, self.target)
        from pinnace.distributed.plan import cut
        from pinnace.distributed.steps import RankPart

        first_state = [value.numpy() for value in graph.first_state]
        plan, parts = cut(graph)
        segments = [self.engine.build(part, self._of_segments) for part in parts]
        return RankPart(graph.name, plan, graph.interface, first_state, segments)

    def compiled(self, folder: Path) -> Compiled:
        """Compile the model into a folder."""
        with self.stages.timed("imports"):
            import_onnx_ir()
            from pinnace.lowering.graph import has_collectives

        graph = self.graph(self.variable)
        if not has_collectives(graph.model):
            with self._stage("compiling"):
                return self.engine.compile(graph, self.source, self.target, folder)

        from pinnace.cache import parts

        def compile_segment(segment: Compilable, place: Path) -> Compiled:
            return self.engine.compile(segment, self.source, self._of_segments, place)

        with self.stages.timed("compiling"):
            return parts.compile_into(folder, graph, compile_segment)

    def loaded(self, entry: Entry, lent: bool = False) -> Executable | RankPart:
        """Load the result of `compiled`. Raises NotSupportedError if one rank's part should be `lent`."""
        for message in entry.warnings:
            warn(message)
        if not entry.is_part:
            with self._stage("loading"):
                return self.engine.load(entry.compiled, self.source, self.target, entry.folder)
        if lent:
            raise NotSupportedError(f"{self.source.name}: the weights of one rank's part cannot be lent")

        def load(compiled: Compiled, place: Path) -> Executable:
            return self.engine.load(compiled, self.source, self._of_segments, place)

        from pinnace.cache import parts

        return parts.load(entry, self.source.name, load)

    @contextmanager
    def _stage(self, stage: str) -> Iterator[None]:
        """Time a stage, and announce it if the model is large."""
        size = self.source.size
        if size >= _LARGE:
            message = f"{self.source.name}, {size / 1e9:.1f} GB: {stage}"
            _log.event(INFO, "stage", message, model=self.source.name, bytes=size, stage=stage)
        with self.stages.timed(stage):
            yield

    @property
    def _of_segments(self) -> Target:
        """The target of the segments of one rank's part, which run in turn and share their workspace."""
        return replace(self.target, shared_workspace=True)
