"""Quantised weights as onnxruntime takes them (seen in 1.31).

* It makes weights of int8 and their zero points unsigned, for the sake of processors whose sums of products
  overflow, and refuses the model where it would make one so twice ("Attempt to replace the existing tensor").
* It makes integer products of weights of more than two dimensions, and refuses their zero points in the run
  where there is one for each channel; none at all means the same as zeros.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir


def set_apart(model: ir.Model, kept: Collection[str]) -> None:
    """Give every reader of an int8 weight a dequantisation, a weight and zero points of its own.

    The values stay where they are, once. Weights named in `kept` keep their one name.
    """
    taken: set[ir.Value] = set()
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        weight = node.inputs[0] if node.op_type == "DequantizeLinear" else None
        if weight is None or not weight.is_initializer() or weight.dtype is not ir.DataType.INT8:
            continue
        _without_zeros(node)
        if weight.name in kept:
            continue
        for copy in (node, *_copies(node)):
            for i in (0, 2):
                _own(model.graph, copy, i, taken)


def _without_zeros(node: ir.Node) -> None:
    """Leave zero points away that a product of more than two dimensions would be refused for."""
    weight, scale = node.inputs[0], node.inputs[1]
    zero_points = node.inputs[2] if len(node.inputs) > 2 else None
    if zero_points is None or weight is None or weight.shape is None or len(weight.shape) < 3:
        return
    if scale is None or scale.shape is None or len(scale.shape) == 0 or zero_points.const_value is None:
        return
    products = all(user.op_type == "MatMul" for user, _ in node.outputs[0].uses())
    if products and not zero_points.const_value.numpy().any():
        node.replace_input_with(2, None)


def _copies(node: ir.Node) -> list[ir.Node]:
    """A node like this one for each reader of its result but the first."""
    copies = []
    (result,) = node.outputs
    for user, place in list(result.uses())[1:]:
        copy = ir.Node("", node.op_type, list(node.inputs), list(node.attributes.values()))
        copy.outputs[0].type, copy.outputs[0].shape = result.type, result.shape
        assert node.graph is not None
        node.graph.insert_after(node, copy)
        user.replace_input_with(place, copy.outputs[0])
        copies.append(copy)
    return copies


def _own(graph: ir.Graph, node: ir.Node, place: int, taken: set[ir.Value]) -> None:
    """Put another initializer of the same value in the place of one that is taken."""
    value = node.inputs[place] if place < len(node.inputs) else None
    if value is None or not value.is_initializer():
        return
    if value in taken:
        value = ir.Value(
            name=f"{value.name}/{len(taken)}",
            type=value.type,
            shape=value.shape,
            const_value=value.const_value,
        )
        graph.register_initializer(value)
        node.replace_input_with(place, value)
    taken.add(value)
