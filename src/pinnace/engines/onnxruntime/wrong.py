"""Optimizers of onnxruntime that change the results of some models, or end the process (seen in 1.31)."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from pinnace.graph.constants import constant
from pinnace.graph.walk import nodes

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_SCALED = ("Add", "Div", "Mul", "Pow", "Sub")


def wrong_optimizers(model: ir.Model) -> list[str]:
    """Return the names of the optimizers to disable for a model."""
    every = list(nodes(model.graph))
    return [name for names, is_wrong in _WRONG.items() if is_wrong(every) for name in names]


def _pads_before_pools(nodes: list[ir.Node]) -> bool:
    """Pad_Fusion turns the zeros of a Pad into padding of the pool, which maxima and some averages ignore."""
    return any(node.op_type in _POOLS and _producer(node) == "Pad" for node in nodes)


def _adds_dimensions(nodes: list[ir.Node]) -> bool:
    """Fusions lose the dimensions that a constant of one element adds to its operand."""
    return any(node.op_type in _SCALED and any(map(_is_deep_number, node.inputs)) for node in nodes)


def _dequantizes_for_branches(nodes: list[ir.Node]) -> bool:
    """QDQPropagation overlooks the readers of a value in nested graphs."""
    return any(n.op_type == "DequantizeLinear" for n in nodes) and any(map(_captures, nodes))


def _captures(node: ir.Node) -> bool:
    """Return True if a node reads a value that an outer graph computes."""
    sources = (i.producer() for i in node.inputs if i is not None)
    return any(s is not None and s.graph is not node.graph and s.op_type != "Constant" for s in sources)


_WRONG: dict[tuple[str, ...], Callable[[list[ir.Node]], bool]] = {
    ("Pad_Fusion",): _pads_before_pools,
    ("DivMulFusion", "LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion"): _adds_dimensions,
    ("QDQPropagationTransformer",): _dequantizes_for_branches,
}


def _producer(node: ir.Node) -> str:
    before = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    return "" if before is None else before.op_type


def _is_deep_number(value: ir.Value | None) -> bool:
    known = constant(value)
    return known is not None and known.size == 1 and len(known.shape) > 1
