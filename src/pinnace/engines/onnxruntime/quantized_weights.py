"""Quantized weights in the form that onnxruntime accepts (seen in 1.32).

On processors without VNNI, where sums of int8 products overflow, it converts int8 weights and their zero
points to uint8. It refuses a model where one is converted twice ("Attempt to replace the existing tensor").
It does not convert weights that a nested graph reads from an outer one.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from pinnace.graph.walk import nodes
from pinnace.machine.processor import sums_of_bytes_overflow


def separate_weights(model: ir.Model, kept: Collection[str]) -> None:
    """Give every reader of an int8 weight its own dequantization, weight and zero points.

    They share one tensor. Weights named in `kept` keep their name, and are not separated.
    """
    taken: set[ir.Value] = set()
    converted = sums_of_bytes_overflow()
    for node in list(nodes(model.graph)):
        if converted and node.graph is not model.graph:
            _bring_in(node, kept)
        weight = _stored(node.inputs[0]) if node.op_type == "DequantizeLinear" else None
        if weight is None or weight.dtype is not ir.DataType.INT8:
            continue
        if not weight.is_initializer() or weight.name in kept:
            continue
        for copy in (node, *_copies(node)):
            for i in (0, 2):
                _own(copy, i, taken)


def _stored(weight: ir.Value | None) -> ir.Value | None:
    """Return a weight before the Transpose for another layout."""
    node = None if weight is None else weight.producer()
    return node.inputs[0] if node is not None and node.op_type == "Transpose" else weight


def _bring_in(node: ir.Node, kept: Collection[str]) -> None:
    """Give the nested graph of a node the int8 weights that the node reads from an outer graph."""
    for place, value in enumerate(node.inputs):
        if value is None or value.dtype is not ir.DataType.INT8 or not value.is_initializer():
            continue
        if value.graph is not node.graph and value.name not in kept:
            _replace(node, place, f"{node.outputs[0].name}/{place}")


def _copies(node: ir.Node) -> list[ir.Node]:
    """Return a copy of a node for each reader of its result except the first."""
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


def _own(node: ir.Node, place: int, taken: set[ir.Value]) -> None:
    """Replace an input that another node has taken by an initializer with the same value."""
    value = node.inputs[place] if place < len(node.inputs) else None
    if value is None or not value.is_initializer():
        return
    if value in taken:
        value = _replace(node, place, f"{value.name}/{len(taken)}")
    taken.add(value)


def _replace(node: ir.Node, place: int, name: str) -> ir.Value:
    """Replace an input by an initializer of the node's graph with the same value."""
    old = node.inputs[place]
    assert old is not None
    assert isinstance(node.graph, ir.Graph)
    value = ir.Value(name=name, type=old.type, shape=old.shape, const_value=old.const_value)
    node.graph.register_initializer(value)
    node.replace_input_with(place, value)
    return value
