"""The end of raising to MindSpore Lite's dialect: what nobody reads is left out, activations are fused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pinnace.program import Node

_ACTIVATION = "Activation"
_FUSED = (1, 3)  # RELU and RELU6 of ActivationType
_TAKES = ("Conv2DFusion", "Conv2dTransposeFusion", "AddFusion", "MatMulFusion")
"""Primitives that compute an activation of their result in the same step."""


def tidied(nodes: Sequence[Node], outputs: Sequence[str]) -> list[Node]:
    """Return the nodes, in order, that the outputs need."""
    return _fused(_needed(nodes, outputs), outputs)


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> list[Node]:
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
