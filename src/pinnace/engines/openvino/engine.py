"""OpenVINO as an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino as ov

from pinnace.engines.openvino import session
from pinnace.engines.openvino.conversion import OpenvinoModel, encoded, writable
from pinnace.engines.openvino.executable import Held, OpenvinoExecutable, name_parts
from pinnace.engines.protocol import TENSORS, Compiled, Executable, Refitter
from pinnace.errors import EngineError
from pinnace.lowering.graph import Compilable
from pinnace.options.target import Target
from pinnace.types import Array
from pinnace.weights.source import Source, release

BLOB = "model.blob"
"""The file name of the compiled model in a cache entry."""

_MODEL = "model.xml"
"""That of a model to be compiled, with its weights beside it. What OpenVINO (2026.4) exports of a model with
float16 weights runs as slowly as with float32, so such a model is compiled when it is loaded."""


class Openvino:
    """Implements `pinnace.engines.protocol.Engine`."""

    name = session.NAME

    def build(self, graph: Compilable, target: Target) -> Executable:
        executable = _executable(encoded(graph), {}, target)
        if target.profile:
            from pinnace.engines.names import Names

            executable.names = Names(graph.model)
        return executable

    def compile(self, graph: Compilable, source: Source, target: Target, folder: Path) -> Compiled:
        """Compile a graph, and store OpenVINO's export: the optimized model with its weights."""
        encoded_graph = encoded(graph, source)
        (folder / TENSORS).mkdir()
        if encoded_graph.halved:
            ov.serialize(encoded_graph.read({}), folder / _MODEL)
        else:
            model = _compiled(encoded_graph, {}, target)
            (folder / BLOB).write_bytes(model.export_model().getvalue())
        return Compiled(graph.interface, tuple(encoded_graph.first_state), ())

    def load(self, compiled: Compiled, source: Source, target: Target, folder: Path) -> Executable:
        """Map an exported model; OpenVINO packs its weights again, in memory of this process."""
        whole = folder / _MODEL
        held: Held = {}
        try:
            if whole.exists():
                model = session.compiled(session.core().read_model(whole), target)
            else:
                held = np.memmap(folder / BLOB, np.uint8, "r")
                model = session.compiled(ov.Tensor(writable(held), shared_memory=True), target)
                release([held])
        except session.FAILURES as error:
            raise EngineError(f"{source.name}: OpenVINO cannot load what it compiled: {error}") from None
        return OpenvinoExecutable(model, compiled.interface, compiled.first_state, target, held)

    def refitter(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> Refitter:
        return OpenvinoRefitter(encoded(graph, source), target)


class OpenvinoRefitter:
    """Implements `pinnace.engines.protocol.Refitter`."""

    def __init__(self, graph: OpenvinoModel, target: Target) -> None:
        self._graph, self._target = graph, target

    def refit(self, weights: Mapping[str, Array]) -> Executable:
        return _executable(self._graph, weights, self._target)


def _executable(graph: OpenvinoModel, weights: Mapping[str, Array], target: Target) -> OpenvinoExecutable:
    model = _compiled(graph, weights, target)
    release(graph.weights.values())
    held = {**graph.weights, **weights}
    return OpenvinoExecutable(model, graph.interface, graph.first_state, target, held)


def _compiled(graph: OpenvinoModel, weights: Mapping[str, Array], target: Target) -> ov.CompiledModel:
    try:
        model = graph.read(weights, session.narrows(target))
        if target.profile:
            name_parts(model)
        return session.compiled(model, target)
    except session.FAILURES as error:
        text = " ".join(str(error).split())
        raise EngineError(f"{graph.name}: OpenVINO cannot compile it: {text}") from None
