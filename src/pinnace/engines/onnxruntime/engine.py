"""onnxruntime as an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.executable import OnnxruntimeExecutable
from pinnace.engines.onnxruntime.loading import loaded
from pinnace.engines.onnxruntime.providers import chain
from pinnace.engines.protocol import Compiled, Executable, Refitter
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.lowering.graph import Compilable
    from pinnace.weights.source import Source

# Modules that need onnx and onnx-ir are imported where they are used: cached models need neither.


class Onnxruntime:
    """Implements `pinnace.engines.protocol.Engine`."""

    name = session.NAME

    def build(self, graph: Compilable, target: Target) -> Executable:
        from pinnace.engines.onnxruntime.compilation import optimized

        chosen, profile = session.options(target, graph.folder), None
        if target.profile:
            from pinnace.engines.onnxruntime.profiling import SessionProfile

            profile = SessionProfile(chosen)
        started, held = optimized(graph, chosen, chain(target))
        if profile:
            from pinnace.engines.names import Names

            profile.names = Names(graph.model)
        first_state = [value.numpy() for value in graph.first_state]
        return OnnxruntimeExecutable(started, graph.interface, first_state, held, target, profile)

    def compile(self, graph: Compilable, source: Source, target: Target, folder: Path) -> Compiled:
        """Optimize a graph, and store it with the weights that onnxruntime has changed or packed."""
        from pinnace.engines.onnxruntime.export import compile_into

        return compile_into(folder, graph, source, target)

    def load(self, compiled: Compiled, source: Source, target: Target, folder: Path) -> Executable:
        """Start a session over the optimized graph with mapped weights, without optimizing again."""
        return loaded(compiled, source, target, folder)

    def refitter(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> Refitter:
        from pinnace.engines.onnxruntime.refitting import OnnxruntimeRefitter

        return OnnxruntimeRefitter(graph, source, target, kept)
