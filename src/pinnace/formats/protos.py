"""Iteration over the nodes of ONNX's protobuf messages."""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def every_node(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield all nodes, also those of nested graphs and functions."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(inside for graph in inner_graphs(node) for inside in graph.node)


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node holds in its attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
