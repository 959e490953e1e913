"""OpenVINO as an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import openvino as ov

from pinnace.engines.openvino import session
from pinnace.engines.openvino.reading import OpenvinoModel, encoded, writable
from pinnace.engines.protocol import TENSORS, Compiled, Executable, Refitter
from pinnace.errors import EngineError
from pinnace.options.target import Target
from pinnace.types import Array

if TYPE_CHECKING:
    from pinnace.compiler.graph import Compilable
    from pinnace.weights.source import Source

BLOB = "model.blob"
"""The compiled model among the files of an entry."""


class Openvino:
    """See `pinnace.engines.protocol.Engine`."""

    name = session.NAME

    def build(self, graph: Compilable, target: Target) -> Executable:
        """Compile, and keep nothing."""
        made = _cast(encoded(graph), {}, target)
        if target.profile:
            from pinnace.engines.names import Names

            made.names = Names(graph.model)
        return made

    def compile(self, graph: Compilable, source: Source, target: Target, folder: Path) -> Compiled:
        """Compile, and keep what OpenVINO exports: the optimised model with its weights."""
        made = encoded(graph, source)
        (folder / TENSORS).mkdir()
        model = _compiled(made, {}, target)
        (folder / BLOB).write_bytes(model.export_model().getvalue())
        return Compiled(made.interface, tuple(made.first_state), ())

    def load(self, compiled: Compiled, source: Source, target: Target, folder: Path) -> Executable:
        """Map what was exported; weights are packed anew, in memory of this process."""
        blob = np.memmap(folder / BLOB, np.uint8, "r")
        try:
            model = session.compiled(ov.Tensor(writable(blob), shared_memory=True), target)
        except Exception as error:
            raise EngineError(f"{source.name}: OpenVINO cannot load what it compiled: {error}") from None
        return session.OpenvinoExecutable(model, compiled.interface, compiled.first_state, target, blob)

    def refitter(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> Refitter:
        """The graph, compiled anew with each set of weights."""
        return OpenvinoRefitter(encoded(graph, source), target)


class OpenvinoRefitter:
    """See `pinnace.engines.protocol.Refitter`."""

    def __init__(self, graph: OpenvinoModel, target: Target) -> None:
        self._graph, self._target = graph, target

    def refit(self, weights: Mapping[str, Array]) -> Executable:
        """Compile the graph with these weights."""
        return _cast(self._graph, weights, self._target)


def _cast(graph: OpenvinoModel, weights: Mapping[str, Array], target: Target) -> session.OpenvinoExecutable:
    model = _compiled(graph, weights, target)
    held = {**graph.weights, **weights}
    return session.OpenvinoExecutable(model, graph.interface, graph.first_state, target, held)


def _compiled(graph: OpenvinoModel, weights: Mapping[str, Array], target: Target) -> ov.CompiledModel:
    try:
        model = graph.read(weights)
        if target.profile:
            session.name_parts(model)
        return session.compiled(model, target)
    except Exception as error:
        text = " ".join(str(error).split())
        raise EngineError(f"{graph.name}: OpenVINO cannot compile it: {text}") from None
