"""The end of raising to MindSpore Lite's dialect: what nobody reads is left out, activations are fused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from pinnace.program import Node, TypeInfo

_ACTIVATION, _CHOICE = "Activation", "Where"
_FUSED = (1, 3)  # RELU and RELU6 of ActivationType
_TAKES = ("Conv2DFusion", "Conv2dTransposeFusion", "AddFusion", "MatMulFusion")
"""Primitives that compute an activation of their result in the same step."""


_TRUTHS = (
    *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
    *("LogicalAnd", "LogicalOr", "LogicalNot", "IsFinite"),
)
"""Primitives with results of bool."""
_PLACES = ("Shape", "Size", "Rank", "ArgMaxFusion", "ArgMinFusion", "NonMaxSuppression")
"""Primitives with results of int32."""


def tidied(nodes: Sequence[Node], outputs: Sequence[str], dtypes: Mapping[str, ir.DataType]) -> list[Node]:
    """Return the nodes, in order, that the outputs need.

    MindSpore Lite wants the element types of all results; `dtypes` has those of what nodes do not compute.
    """
    kept = _fused(needed(nodes, outputs), outputs)
    known = dict(dtypes)
    for node in kept:
        types = list(node.types) or [None] * len(node.outputs)
        guesses = _results(node, known, len(types))
        node.types = [t or TypeInfo(dtype, None) for t, dtype in zip(types, guesses, strict=True)]
        known.update((n, t.dtype) for n, t in zip(node.outputs, node.types, strict=False) if t is not None)
    return kept


def _results(node: Node, known: Mapping[str, ir.DataType], count: int) -> list[ir.DataType]:
    """Return the element types of what a node computes, by those of what it reads."""
    if node.primitive in _TRUTHS:
        return [ir.DataType.BOOL] * count
    if node.primitive in _PLACES or (node.primitive == _CHOICE and len(node.inputs) == 1):
        return [ir.DataType.INT32] * count
    like = known.get(node.inputs[1 if node.primitive == _CHOICE else 0], ir.DataType.FLOAT)
    if node.primitive == "TopKFusion":
        return [like, ir.DataType.INT32]
    return [like] * count


def needed(nodes: Sequence[Node], outputs: Sequence[str]) -> list[Node]:
    """Return the nodes that outputs need, in order."""
    asked, kept = set(outputs), []
    for node in reversed(nodes):
        if not asked.isdisjoint(node.outputs):
            asked.update(node.inputs)
            kept.append(node)
    return kept[::-1]


def _fused(nodes: list[Node], outputs: Sequence[str]) -> list[Node]:
    """Return nodes in which activations are part of what computes their input, if nothing else reads it."""
    uses = Counter(name for node in nodes for name in node.inputs) + Counter(outputs)
    made: dict[str, Node] = {}
    for node in nodes:
        before = made.get(node.inputs[0]) if node.inputs else None
        kind = node.attributes.get("activation_type", 0)
        if (
            node.primitive == _ACTIVATION
            and kind in _FUSED
            and before is not None
            and before.primitive in _TAKES
            and not before.attributes.get("activation_type", 0)
            and uses[node.inputs[0]] == 1
        ):
            del made[before.outputs[0]]
            attributes = {**before.attributes, "activation_type": kind}
            node = replace(before, outputs=node.outputs, attributes=attributes, types=node.types)
        made[node.outputs[0]] = node
    return list(made.values())
