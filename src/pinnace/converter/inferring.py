"""Types and shapes of nodes by ONNX's own inference, and branches that these rule out.

PyTorch writes `squeeze` of a free dimension as an If whose branches differ in rank, and what follows takes
one of them only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
import onnx_ir as ir

from pinnace.converter import folding, partly
from pinnace.graph.inference import infer_node

InferenceError = onnx.shape_inference.InferenceError


def infer(node: ir.Node, opset: int) -> None:
    """Infer types and shapes, also where declared dimensions are free that what was converted has fixed.

    Raises InferenceError where the inputs do not fit the operator.
    """
    declared = [(o, o.shape) for o in node.outputs if o.shape is not None and not o.shape.is_static()]
    for output, _ in declared:
        output.shape = None
    try:
        infer_node(node, opset)
        told = partly.shape_after(node)
        if told is not None:
            node.outputs[0].shape = _both(node.outputs[0].shape, ir.Shape(told))
    finally:
        for output, shape in declared:
            output.shape = _both(output.shape, shape)


def _both(found: ir.Shape | None, other: ir.Shape) -> ir.Shape:
    """Return the dimensions of a tensor by what two ways tell of them; the first has the rank."""
    if found is None or len(found) != len(other):
        return other if found is None else found
    return ir.Shape([d if isinstance(d, int) else o for d, o in zip(found, other, strict=True)])


def common(shapes: Sequence[ir.Shape | None]) -> ir.Shape | None:
    """Return the shape of a tensor that has one of two, free where they differ; None if the ranks do."""
    first, second = shapes
    if first is None or second is None or len(first) != len(second):
        return None
    return ir.Shape([m if m == n else None for m, n in zip(first, second, strict=True)])


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
        if len(alive) < len(found) or not _differ(alive):
            return alive
        for graph in alive:
            _give(node, [graph])
            with undone(rest):
                if fits(rest, opset):
                    fitting.append(graph)
    return fitting or found


def _differ(graphs: Sequence[ir.Graph]) -> bool:
    """Return True if results of two graphs have known ranks that are not the same."""
    pairs = zip(*([x.shape for x in graph.outputs] for graph in graphs), strict=True)
    return any(None not in shapes and common(shapes) is None for shapes in pairs)


@contextmanager
def undone(nodes: Sequence[ir.Node]) -> Iterator[None]:
    """Forget what is inferred of the results of nodes."""
    values = [y for node in nodes for inner in (node, *_inside(node)) for y in inner.outputs]
    before = [(y, y.type, y.shape, y.const_value, dict(y.meta)) for y in values]
    try:
        yield
    finally:
        for y, dtype, shape, known, meta in before:
            y.type, y.shape, y.const_value = dtype, shape, known
            y.meta.clear()
            y.meta.update(meta)


def _inside(node: ir.Node) -> Iterator[ir.Node]:
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            yield from attribute.as_graph().all_nodes()


def fits(nodes: Sequence[ir.Node], opset: int) -> bool:
    """Infer nodes in order; return whether the inputs of all fit them."""
    try:
        for node in nodes:
            if node.op_type != "If" or node.domain:
                infer(node, node.version or opset)
                folding.fold(node, node.version or opset)
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
        output.shape = results[0].shape if len(results) == 1 else common([x.shape for x in results])
        output.const_value = results[0].const_value if len(results) == 1 else None
