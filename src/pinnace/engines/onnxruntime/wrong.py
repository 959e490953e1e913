"""Optimizers of onnxruntime that would change the results of a model, or end the process (seen in 1.31)."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_SCALED = ("Add", "Div", "Mul", "Pow", "Sub")


def wrong_optimizers(model: ir.Model) -> list[str]:
    """The names of the optimizers to leave out."""
    nodes = list(ir.traversal.RecursiveGraphIterator(model.graph))
    return [name for names, is_wrong in _WRONG.items() if is_wrong(nodes) for name in names]


def _pads_before_pools(nodes: list[ir.Node]) -> bool:
    """Pad_Fusion makes the zeros of a Pad the pool's own padding, which never wins a maximum, and which an
    average may leave out.
    """
    return any(node.op_type in _POOLS and _producer(node) == "Pad" for node in nodes)


def _adds_dimensions(nodes: list[ir.Node]) -> bool:
    """A constant of one element may add dimensions, which is lost with it where nodes become one."""
    return any(node.op_type in _SCALED and any(map(_is_deep_number, node.inputs)) for node in nodes)


def _dequantises_for_branches(nodes: list[ir.Node]) -> bool:
    """QDQPropagation believes that it sees all readers of a value, and so that there is one."""
    return any(n.op_type == "DequantizeLinear" for n in nodes) and any(map(_captures, nodes))


def _captures(node: ir.Node) -> bool:
    """Return whether a node reads what a graph around its own computes."""
    sources = (i.producer() for i in node.inputs if i is not None)
    return any(s is not None and s.graph is not node.graph and s.op_type != "Constant" for s in sources)


_WRONG: dict[tuple[str, ...], Callable[[list[ir.Node]], bool]] = {
    ("Pad_Fusion",): _pads_before_pools,
    ("DivMulFusion", "LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion"): _adds_dimensions,
    ("QDQPropagationTransformer",): _dequantises_for_branches,
}


def _producer(node: ir.Node) -> str:
    before = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    return "" if before is None else before.op_type


def _is_deep_number(value: ir.Value | None) -> bool:
    known = ir.convenience.get_const_tensor(value) if value is not None else None
    return known is not None and known.size == 1 and len(known.shape) > 1
