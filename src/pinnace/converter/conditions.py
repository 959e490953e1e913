"""Branches of an If that the shapes of what follows rule out.

PyTorch writes `squeeze` of a free dimension as an If whose branches differ in rank, and what follows takes
one of them only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import onnx_ir as ir

from pinnace.converter.folding import fold
from pinnace.graph.inference import InferenceError, common_shape, refine
from pinnace.graph.walk import inner_graphs
from pinnace.graph.walk import nodes as all_nodes


def branches(node: ir.Node) -> list[ir.Graph]:
    """Return the branches of an If: those that its condition leaves, as far as it is known."""
    both = [node.attributes[f"{name}_branch"].as_graph() for name in ("then", "else")]
    condition = node.inputs[0]
    if condition is None or condition.const_value is None:
        return both
    return [both[0 if np.asarray(condition.const_value.numpy()).reshape(-1)[0] else 1]]


def possible(node: ir.Node, opset: int) -> list[ir.Graph]:
    """Return the branches of an If with whose results the nodes after it can be; both if none is."""
    found = branches(node)
    if len(found) == 1 or node.graph is None:
        return found
    rest = list(node.graph)
    rest = rest[rest.index(node) + 1 :]
    fitting = []
    with undone([node, *rest]):
        alive = _walk_sides(found, opset)
        if len(alive) < len(found):
            return alive
        pairs = zip(*([x.shape for x in graph.outputs] for graph in alive), strict=True)
        if not any(None not in shapes and common_shape(*shapes) is None for shapes in pairs):
            return alive  # the ranks are the same
        for graph in alive:
            _give(node, [graph])
            with undone(rest):
                if fits(rest, opset):
                    fitting.append(graph)
    return fitting or found


@contextmanager
def undone(nodes: Sequence[ir.Node]) -> Iterator[None]:
    """Forget what is inferred of the results of nodes."""
    inside = [inner for node in nodes for graph in inner_graphs(node) for inner in all_nodes(graph)]
    values = [y for node in (*nodes, *inside) for y in node.outputs]
    before = [(y, y.type, y.shape, y.const_value, dict(y.meta)) for y in values]
    try:
        yield
    finally:
        for y, dtype, shape, known, meta in before:
            y.type, y.shape, y.const_value = dtype, shape, known
            y.meta.clear()
            y.meta.update(meta)


def fits(nodes: Sequence[ir.Node], opset: int) -> bool:
    """Infer nodes in order; return whether the inputs of all fit them."""
    try:
        for node in nodes:
            if node.op_type != "If" or node.domain:
                refine(node, node.version or opset)
                fold(node, node.version or opset)
            elif alive := _walk_sides(branches(node), opset):
                _give(node, alive)
            else:
                return False
    except InferenceError:
        return False
    return True


def _walk_sides(graphs: Sequence[ir.Graph], opset: int) -> list[ir.Graph]:
    return [graph for graph in graphs if fits(list(graph), opset)]


def _give(node: ir.Node, graphs: Sequence[ir.Graph]) -> None:
    """Give the results of an If the types and shapes of its branches."""
    for output, *results in zip(node.outputs, *(graph.outputs for graph in graphs), strict=True):
        output.type = results[0].type
        output.shape = results[0].shape if len(results) == 1 else common_shape(*(x.shape for x in results))
        output.const_value = results[0].const_value if len(results) == 1 else None
