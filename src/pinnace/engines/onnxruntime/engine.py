"""onnxruntime as an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.loading import loaded
from pinnace.engines.onnxruntime.profiling import notes
from pinnace.engines.onnxruntime.providers import chain
from pinnace.engines.protocol import Compiled, Executable, Refitter
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.compiler.graph import Compilable
    from pinnace.weights.source import Source

# What needs onnx and onnx-ir is imported where it is used: a model from the cache needs neither.


class Onnxruntime:
    """See `pinnace.engines.protocol.Engine`."""

    name = session.NAME

    def build(self, graph: Compilable, target: Target) -> Executable:
        """Optimise, and keep nothing."""
        from pinnace.engines.onnxruntime.compiling import optimised

        chosen = session.options(target, graph.folder)
        noted = notes(target, chosen)
        made, held = optimised(graph, chosen, chain(target))
        if noted:
            from pinnace.engines.names import Names

            noted.names = Names(graph.model)
        first_state = [value.numpy() for value in graph.first_state]
        return session.OnnxruntimeExecutable(made, graph.interface, first_state, held, target, noted)

    def compile(self, graph: Compilable, source: Source, target: Target, folder: Path) -> Compiled:
        """Optimise, and keep the graph with what onnxruntime made of its weights."""
        from pinnace.engines.onnxruntime.keeping import compile_into

        return compile_into(folder, graph, source, target)

    def load(self, compiled: Compiled, source: Source, target: Target, folder: Path) -> Executable:
        """A session over the optimised graph: its weights are mapped, nothing is optimised again."""
        return loaded(compiled, source, target, folder)

    def refitter(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> Refitter:
        """See `exchanging`."""
        from pinnace.engines.onnxruntime.exchanging import OnnxruntimeRefitter

        return OnnxruntimeRefitter(graph, source, target, kept)
