"""Sessions of one graph with other weights.

A graph can always be optimized again with the other weights in it. If the compile cache has the optimized
graph, and a weight is unchanged in it, that graph is loaded with the other weight instead, which gives the
same session without the time of optimizing.

A weight is unchanged if the optimized graph has it under its name with the bytes of the file, and as many
inputs of nodes read it as before, so that nothing was folded from it. Small weights are excluded: optimizers
look at the values of numbers, not of matrices. So are weights that equal one of their transpositions, as
square zeros do: optimizers transpose weights under their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import onnx

from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.compilation import encoded, refuse
from pinnace.engines.onnxruntime.executable import OnnxruntimeExecutable
from pinnace.engines.onnxruntime.loading import GRAPH, loaded
from pinnace.engines.onnxruntime.providers import chain
from pinnace.engines.protocol import Compiled, Executable, FileWeight
from pinnace.errors import EngineError
from pinnace.formats.protos import inner_graphs
from pinnace.lowering.graph import Compilable
from pinnace.options.target import Target
from pinnace.types import Array
from pinnace.weights.source import SMALL, Source

_MOST_COMPARED = 5
"""Dimensions of the weights whose transpositions are compared."""


class OnnxruntimeRefitter:
    """Implements `pinnace.engines.protocol.Refitter`."""

    def __init__(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> None:
        self._graph, self._source, self._target = graph, source, target
        self._first_state = [np.array(value.numpy()) for value in graph.first_state]
        variable = {
            name: (source.data_of(v.first), v.first.dtype.value)
            for v in graph.variable.values()
            for name in v.names
        }
        self._types = {name: kind for name, (_, kind) in variable.items()}
        self._encoded = encoded(graph, source, chain(target))
        before = _readers(onnx.load_model_from_string(self._encoded.model).graph)
        self._optimized = None if kept is None else _Optimized.of(*kept, variable, before)
        source.unload()

    def refit(self, weights: Mapping[str, Array]) -> Executable:
        """Load the optimized graph if it has all these weights unchanged, else optimize again."""
        typed = {name: (value, self._types[name]) for name, value in weights.items()}
        if self._optimized is not None and weights.keys() <= self._optimized.unchanged:
            try:
                return self._loaded(self._optimized, typed)
            except (OSError, EngineError):  # the cache was cleared
                self._optimized = None
        try:
            chosen = session.options(self._target, self._graph.folder)
            started, held = self._encoded.start(chosen, chain(self._target), typed)
        except session.FAILURES as error:
            refuse(self._graph, error)
        self._source.unload()
        interface = self._graph.interface
        return OnnxruntimeExecutable(started, interface, self._first_state, held, self._target)

    def _loaded(self, optimized: _Optimized, weights: session.Weights) -> Executable:
        model = optimized.without(weights.keys()) if weights else None
        return loaded(optimized.compiled, self._source, self._target, optimized.folder, model, weights)


@dataclass(frozen=True)
class _Optimized:
    """The compile cache's form of a graph; `unchanged` are the weights that can be exchanged in it."""

    compiled: Compiled
    folder: Path
    model: onnx.ModelProto
    unchanged: frozenset[str]

    @classmethod
    def of(
        cls, compiled: Compiled, folder: Path, variable: session.Weights, before: Mapping[str, int]
    ) -> _Optimized | None:
        """Compare an optimized graph with the weights of the file and their numbers of readers `before`."""
        try:
            model = onnx.load_model(str(folder / GRAPH), load_external_data=False)
            after = _readers(model.graph)
            kept = {weight.name: weight for weight in compiled.weights}
            unchanged = frozenset(
                t.name
                for t in model.graph.initializer
                if t.name in variable
                and before[t.name] == after[t.name]
                and _is_unchanged(t, *variable[t.name], folder, kept)
            )
        except OSError:
            return None
        return cls(compiled, folder, model, unchanged)

    def without(self, names: Collection[str]) -> bytes:
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            if tensor.name in names:
                length = next(e.value for e in tensor.external_data if e.key == "length")
                del tensor.external_data[:]
                # The file is never read, but it must be there.
                for key, value in {"location": GRAPH, "offset": "0", "length": length}.items():
                    tensor.external_data.add(key=key, value=value)
        return model.SerializeToString()


def _readers(graph: onnx.GraphProto) -> Counter[str]:
    """Count the readers of each value: inputs of nodes, also in nested graphs, and outputs of graphs."""
    return Counter(_read_names(graph))


def _read_names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from node.input
        for inner in inner_graphs(node):
            yield from _read_names(inner)


def _is_symmetric(array: Array) -> bool:
    """Return True if a weight equals one of its transpositions; also if it has too many to compare."""
    array = np.ascontiguousarray(array).view(f"V{array.itemsize}").squeeze()  # bits: no NaN equals another
    if array.ndim > _MOST_COMPARED:
        return True
    _, *others = permutations(range(array.ndim))
    corner = array[(slice(8),) * array.ndim]  # is compared first, as few weights are symmetric
    return all(
        any(np.array_equal(part, part.transpose(order)) for order in others) for part in (corner, array)
    )


def _is_unchanged(
    tensor: onnx.TensorProto, first: Array, dtype: int, folder: Path, kept: Mapping[str, FileWeight]
) -> bool:
    """Return True if an initializer is a weight of the file, not transposed: type, dimensions and bytes."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL or first.nbytes <= SMALL:
        return False
    if (tensor.data_type, tuple(tensor.dims)) != (dtype, first.shape) or _is_symmetric(first):
        return False
    if tensor.name in kept:
        return True
    fields = {entry.key: entry.value for entry in tensor.external_data}
    offset, length = int(fields["offset"]), int(fields["length"])
    if length != first.nbytes:
        return False
    data = np.memmap(folder / fields["location"], np.uint8, "r", offset, (length,))
    return np.array_equal(data, np.ascontiguousarray(first).reshape(-1).view(np.uint8))
