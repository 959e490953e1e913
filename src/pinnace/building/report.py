"""Description of a model file, without building it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import onnx_ir as ir

from pinnace.engines.onnxruntime.kernels import missing_kernels
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.formats import kind_of
from pinnace.lowering.graph import compilable, declared_inputs
from pinnace.lowering.variable import exchangeable
from pinnace.program import Program
from pinnace.types import DataType, ModelType, Port
from pinnace.weights.source import Source, size_of
from pinnace.writing import replacing

_INLINE = 1 << 30
_DIALECTS = {
    ("mindspore", ModelType.MINDIR): "MindIR of MindSpore",
    ("lite", ModelType.MINDIR): "MindIR of MindSpore Lite",
    ("lite", ModelType.MINDIR_LITE): "MindSpore Lite .ms",
    ("onnx", ModelType.ONNX): "ONNX",
}


class Weight(NamedTuple):
    """A weight by the name that `variable_weights_file` takes."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelReport:
    """The report of `pinnace inspect`. `primitives` counts, most used first; sizes are in bytes.

    `nodes` are pairs of name and primitive, in the order of the file, without calls. `weights` are those that
    `update_weights` can exchange.
    """

    dialect: str
    producer: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: int
    parameter_bytes: int
    primitives: dict[str, int]
    nodes: tuple[tuple[str, str], ...]
    unsupported: tuple[UnsupportedPrimitive, ...]
    user_info: dict[str, str]
    weights: tuple[Weight, ...]


def report(source: Source, graph: Program | ir.Model, onnx: Path | None = None) -> ModelReport:
    """Describe a graph that was read from a source, and write it to `onnx` as an engine would get it."""
    missing, inputs, outputs = _ports(source, graph, onnx)
    weights = list(_weights(graph))
    nodes = tuple(_nodes(graph))
    dialect, producer, info = _producer(graph)
    return ModelReport(
        dialect=_DIALECTS[dialect, kind_of(source.data) or ModelType.MINDIR],
        producer=producer.strip(),
        inputs=inputs,
        outputs=outputs,
        parameters=len(weights),
        parameter_bytes=sum(map(size_of, weights)),
        primitives=dict(Counter(primitive for _, primitive in nodes).most_common()),
        nodes=nodes,
        unsupported=missing,
        user_info=dict(info),
        weights=tuple(
            Weight(name, _type_name(one.dtype), tuple(one.shape.numpy()))
            for name, (one, *_) in exchangeable(graph).items()
        ),
    )


def _write(lowered: ir.Model, path: Path, inputs: Iterable[Path]) -> None:
    """Write a model; over 1 GiB, weights go to `path`.data. Raises FileWriteError."""
    size = sum(map(size_of, _weights(lowered)))
    inline = 0 if size > _INLINE else size
    with replacing(path, inputs) as place:
        beside = place.with_name(f"{place.name}.data")
        ir.save(lowered, place, external_data=beside.name, size_threshold_bytes=inline)
        if not beside.stat().st_size:
            beside.unlink()


def _producer(graph: Program | ir.Model) -> tuple[str, str, Mapping[str, str]]:
    """Dialect, producer with version, and user info."""
    if isinstance(graph, Program):
        return (
            graph.dialect.value,
            f"{graph.producer} {graph.version}",
            {**graph.user_info, **graph.converted_for},
        )
    return "onnx", f"{graph.producer_name or ''} {graph.producer_version or ''}", graph.metadata_props


def _ports(
    source: Source, graph: Program | ir.Model, onnx: Path | None
) -> tuple[tuple[UnsupportedPrimitive, ...], tuple[Port, ...], tuple[Port, ...]]:
    try:
        compiled = compilable(graph, source.name, None)
    except UnsupportedModelError as error:
        # The file declares the inputs; the outputs are only known after lowering.
        return error.primitives, declared_inputs(graph) if isinstance(graph, Program) else (), ()
    if onnx is not None:
        _write(compiled.model, onnx, source.seen)
    return tuple(missing_kernels(compiled.model)), compiled.interface.inputs, compiled.interface.outputs


def _weights(graph: Program | ir.Model) -> Iterable[ir.TensorProtocol]:
    """Return the tensors of a file; those of ONNX are in initializers and Constants of all its graphs."""
    if isinstance(graph, Program):
        return [w for f in graph.functions.values() for w in f.parameters.values()]
    owners = [*graph.graphs(), *graph.functions.values()]
    kept = [v.const_value for owner in owners for v in getattr(owner, "initializers", {}).values()]
    constants = [
        node.attributes["value"].as_tensor()
        for owner in owners
        for node in owner
        if node.op_type == "Constant" and "value" in node.attributes
    ]
    return [tensor for tensor in (*kept, *constants) if tensor is not None]


def _type_name(dtype: ir.DataType) -> str:
    """Return Pinnace's name of an element type, ONNX's if it has none."""
    try:
        return DataType.from_numpy(dtype.numpy()).name
    except (TypeError, ValueError):
        return dtype.name


def _nodes(graph: Program | ir.Model) -> Iterable[tuple[str, str]]:
    if isinstance(graph, Program):
        return [(n.name, n.primitive) for f in graph.functions.values() for n in f.nodes if n.primitive]
    return [(n.name or "", n.op_type) for n in ir.traversal.RecursiveGraphIterator(graph.graph)]
