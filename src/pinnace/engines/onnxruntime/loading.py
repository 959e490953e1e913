"""Loading of a graph that onnxruntime has optimized before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.executable import OnnxruntimeExecutable
from pinnace.engines.protocol import Compiled, Executable
from pinnace.errors import EngineError
from pinnace.machine.memory import return_free_memory
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.weights.source import Source

GRAPH = "graph.onnx"
"""The file name of the optimized graph in a cache entry."""

_NO_WEIGHTS: session.Weights = {}


def loaded(
    compiled: Compiled,
    source: Source,
    target: Target,
    folder: Path,
    model: bytes | None = None,
    weights: session.Weights = _NO_WEIGHTS,
) -> Executable:
    """See `Engine.load`; `model`, if given, is the optimized graph with place holders for `weights`."""
    chosen = session.options(target, str(folder))
    chosen.graph_optimization_level = session.NO_OPTIMIZATION
    own = {
        k.name: (source.weight(k.file, k.offset, k.length, k.shape, k.digest), k.dtype)
        for k in compiled.weights
        if k.name not in weights
    }
    try:
        held = session.lend_weights({**own, **weights}, chosen)
        started = session.start((folder / GRAPH).read_bytes() if model is None else model, chosen)
    except session.FAILURES as error:
        raise EngineError(f"{source.name}: onnxruntime cannot load what it compiled: {error}") from None
    return_free_memory()  # onnxruntime has packed each weight again to compare it with the file
    return OnnxruntimeExecutable(started, compiled.interface, compiled.first_state, held, target)
