"""Patterns of nodes, for what rewrites a graph."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.constants import number


def made_by(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """Return the node that computes `value` if it is one of these standard operators; else None."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in op_types and not node.domain else None


def dequantizing(value: ir.Value | None) -> ir.Node | None:
    """Return the DequantizeLinear of a value, which may be transposed behind it; else None."""
    moved = made_by(value, "Transpose")
    return made_by(moved.inputs[0] if moved else value, "DequantizeLinear")


def private(value: ir.Value | None) -> bool:
    """Return True if only one node reads a value, and it is no output of the graph."""
    # uses() copies them all, and each of 100,000 nodes may read the same
    return value is not None and len(value._uses) == 1 and not value.is_graph_output()


def is_read(value: ir.Value) -> bool:
    """Return True if a node reads a value, or the graph returns it."""
    return bool(value.uses()) or value.is_graph_output()


def attributes(node: ir.Node, *but: str) -> dict[str, Any]:
    """Return the attributes of a node, except those named, for a node that replaces it."""
    return {a.name: a.value for a in node.attributes.values() if a.name not in but}


def scaled(value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """Return x and s for a private `value` of x * s with a constant number s; else `value` and None."""
    node = made_by(value, "Mul")
    if node is not None and private(value):
        for x, s in (node.inputs[:2], node.inputs[1::-1]):
            if number(s) is not None:
                return x, s
    return value, None


def permuted(value: ir.Value | None, *perm: int) -> ir.Value | None:
    """Return the input of the Transpose by `perm` that computes `value`; else None."""
    node = made_by(value, "Transpose")
    if node is None or tuple(node.attributes["perm"].as_ints()) != perm:
        return None
    return node.inputs[0]


def is_float32(b: Builder, value: ir.Value | None) -> bool:
    """Return True if a value is float32."""
    return value is not None and b.dtype(value) is ir.DataType.FLOAT
