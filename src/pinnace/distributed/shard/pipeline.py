"""Pipeline parallelism: each rank runs one stage of the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.distributed.segments import reads, replace_reads
from pinnace.distributed.shard.pieces import collective
from pinnace.distributed.shard.placements import dimensions
from pinnace.errors import ConfigError
from pinnace.graph.editor import Editor
from pinnace.graph.nodes import DOMAIN


def cut(model: ir.Model, rank: int, size: int) -> None:
    """Reduce `model`, whose values have types and fixed shapes, to the stage of a rank.

    Stages have about equal bytes of weights. Values that cross stages are sent by Exchange, and the outputs
    are sent to all ranks by Broadcast. Raises `ConfigError` if a crossing value has free dimensions.
    """
    graph = model.graph
    nodes = list(graph)
    place = dict(zip(nodes, _stages(nodes, size), strict=True))
    weights = set(graph.initializers.values())
    homes = {output: place[node] for node in nodes for output in node.outputs}
    readers: dict[ir.Value, set[int]] = {}
    for node in nodes:
        for value in reads(node):
            readers.setdefault(value, set()).add(place[node])
    outputs = list(graph.outputs)
    crossing = [(v, home, to) for v, home in homes.items() for to in sorted(readers.get(v, ())) if to > home]
    b = Editor(model, "%stage")
    arrived = _exchanges(b, crossing, rank, size)
    for node in nodes:
        if place[node] == rank:
            replace_reads(node, arrived.get)
    for i, output in enumerate(outputs):
        if output in homes:  # else it is an input or a weight, which all ranks have
            graph.outputs[i] = _sent_to_all(b, output, homes[output], rank)
    b.append()
    b.finish()
    _drop([node for node in nodes if place[node] != rank], graph)
    used = {v for node in graph for v in reads(node)} | set(graph.outputs)
    for weight in weights - used:
        del graph.initializers[weight.name or ""]
    model.opset_imports[DOMAIN] = 1


def _stages(nodes: Sequence[ir.Node], size: int) -> list[int]:
    """Return the rank of each node, by the cumulative bytes of weights that nodes are the first to read."""
    seen: set[ir.Value] = set()
    bytes_before: list[int] = []
    total = 0
    for node in nodes:
        fresh = {v for v in reads(node) if v.const_value is not None and v.producer() is None} - seen
        seen |= fresh
        own = sum(v.const_value.nbytes for v in fresh if v.const_value is not None)
        bytes_before.append(total + own // 2)
        total += own
    return [min(size - 1, at * size // max(1, total)) for at in bytes_before]


def _exchanges(
    b: Editor, crossing: Sequence[tuple[ir.Value, int, int]], rank: int, size: int
) -> dict[ir.Value, ir.Value]:
    """Add this rank's Exchange nodes. Returns the received values by their original values."""
    arrived: dict[ir.Value, ir.Value] = {}
    first = b.model.graph[0]
    for home in range(size):
        values = [value for value, of, to in crossing if of == home and to == rank]
        if values:
            received = b.ops("Exchange", len(values), domain=DOMAIN, source=[home] * len(values))
            b.nodes[-1].name = f"from {home}"
            for value, output in zip(values, received, strict=True):
                output.type, output.shape = value.type, ir.Shape(_fixed(value))
                arrived[value] = output
    b.insert_before(first)
    for to in range(size):
        values = [value for value, of, goes in crossing if of == rank and goes == to]
        if values:
            b.ops("Exchange", 0, *values, domain=DOMAIN, to=[to] * len(values))
            b.nodes[-1].name = f"to {to}"
    return arrived


def _sent_to_all(b: Editor, output: ir.Value, home: int, rank: int) -> ir.Value:
    given = output
    if rank != home:
        zeros = ir.tensor(np.array([0], output.dtype.numpy() if output.dtype else np.float32))
        given = b.op("ConstantOfShape", _fixed(output), value=zeros)
        given.type, given.shape = output.type, ir.Shape(_fixed(output))
    sent = collective(b, "Broadcast", given, output.shape, root=home)
    b.nodes[-1].name = output.name
    sent.name, output.name, sent.type = output.name, sent.name, output.type
    return sent


def _fixed(value: ir.Value) -> list[int]:
    dims = dimensions(value)
    fixed = [d for d in dims if isinstance(d, int)]
    if value.shape is None or len(fixed) < len(dims):
        raise ConfigError(
            f"{value.name!r} crosses from rank to rank and has free dimensions ({value.shape}): "
            f"give the inputs shapes with --shape"
        )
    return fixed


def _drop(nodes: Sequence[ir.Node], graph: ir.Graph) -> None:
    for node in nodes:
        for i in range(len(node.inputs)):
            node.replace_input_with(i, None)
    graph.remove(nodes)
