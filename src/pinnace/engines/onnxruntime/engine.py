"""onnxruntime as an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.engines.onnxruntime import session
from pinnace.engines.protocol import Compiled, Executable, Mould
from pinnace.errors import EngineError
from pinnace.target import Target

if TYPE_CHECKING:
    from pinnace.compiler.graph import Compilable
    from pinnace.weights.source import Source

GRAPH = "graph.onnx"
"""The optimised graph among the files of an entry."""

_NO_WEIGHTS: session.Weights = {}

# What needs onnx and onnx-ir is imported where it is used: a model from the cache needs neither.


class Onnxruntime:
    """See `pinnace.engines.protocol.Engine`."""

    name = session.NAME

    def build(self, graph: Compilable, target: Target) -> Executable:
        """Optimise, and keep nothing."""
        from pinnace.engines.onnxruntime.compiling import optimised

        made, held = optimised(graph, session.options(target, graph.folder))
        first_state = [value.numpy() for value in graph.first_state]
        return session.OnnxruntimeExecutable(made, graph.interface, first_state, target, held)

    def compile(self, graph: Compilable, source: Source, target: Target, folder: Path) -> Compiled:
        """Optimise, and keep the graph with what onnxruntime made of its weights."""
        from pinnace.engines.onnxruntime.keeping import compile_into

        return compile_into(folder, graph, source, target)

    def load(self, compiled: Compiled, source: Source, target: Target, folder: Path) -> Executable:
        """A session over the optimised graph: its weights are mapped, nothing is optimised again."""
        return self.loaded(compiled, source, target, folder)

    @staticmethod
    def loaded(
        compiled: Compiled,
        source: Source,
        target: Target,
        folder: Path,
        model: bytes | None = None,
        weights: session.Weights = _NO_WEIGHTS,
    ) -> Executable:
        """See `load`; `model` is the optimised graph with place holders for `weights`."""
        chosen = session.options(target, str(folder))
        chosen.graph_optimization_level = session.NO_OPTIMIZATION
        own = {
            k.name: (source.weight(k.file, k.offset, k.length, k.shape, k.digest), k.dtype)
            for k in compiled.weights
            if k.name not in weights
        }
        try:
            held = session.lend({**own, **weights}, chosen)
            started = session.start((folder / GRAPH).read_bytes() if model is None else model, chosen)
        except OSError:
            raise
        except Exception as error:
            raise EngineError(f"{source.name}: onnxruntime cannot load what it compiled: {error}") from None
        return session.OnnxruntimeExecutable(started, compiled.interface, compiled.first_state, target, held)

    def mould(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> Mould:
        """See `exchanging`."""
        from pinnace.engines.onnxruntime.exchanging import OnnxruntimeMould

        return OnnxruntimeMould(graph, source, target, kept)
