"""The end of raising to MindSpore Lite's dialect: unread nodes are left out, activations and biases fused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from pinnace.program import Node, TypeInfo

_ACTIVATION, _CHOICE = "Activation", "Where"
_FUSED = (1, 3)  # RELU and RELU6 of ActivationType
_PRODUCT = "MatMulFusion"
_TAKES = ("Conv2DFusion", "Conv2dTransposeFusion", "AddFusion", _PRODUCT)
"""Primitives that compute an activation of their result in the same step."""


_TRUTHS = (
    *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
    *("LogicalAnd", "LogicalOr", "LogicalNot", "IsFinite"),
)
"""Primitives with results of bool."""
_PLACES = ("Shape", "Size", "Rank", "ArgMaxFusion", "ArgMinFusion", "NonMaxSuppression")
"""Primitives with results of int32."""


def tidied(
    nodes: Sequence[Node],
    outputs: Sequence[str],
    inputs: Mapping[str, ir.DataType],
    constants: Mapping[str, ir.TensorProtocol],
) -> list[Node]:
    """Return the nodes, in order, that the outputs need.

    MindSpore Lite wants the element types of all results; `inputs` has those of the function's inputs.
    """
    kept = _fused(needed(nodes, outputs), outputs, constants)
    known = {**inputs, **{name: tensor.dtype for name, tensor in constants.items()}}
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


def _fused(
    nodes: Sequence[Node], outputs: Sequence[str], constants: Mapping[str, ir.TensorProtocol]
) -> list[Node]:
    """Return nodes in which activations and biases are part of what computes their input, for them alone."""
    uses = Counter(name for node in nodes for name in node.inputs) + Counter(outputs)
    made: dict[str, Node] = {}
    for node in nodes:
        for place, name in enumerate(node.inputs[:2]):
            before = made.get(name)
            both = _as_one(before, node, place, constants) if before is not None and uses[name] == 1 else None
            if both is not None:
                del made[name]
                node = both
                break
        made[node.outputs[0]] = node
    return list(made.values())


def _as_one(before: Node, node: Node, place: int, constants: Mapping[str, ir.TensorProtocol]) -> Node | None:
    """Return what computes a node and its input at a place in one step, None if no primitive does."""
    kind = node.attributes.get("activation_type", 0)
    if before.primitive not in _TAKES or before.attributes.get("activation_type", 0):
        return None
    if node.primitive == _ACTIVATION and kind in _FUSED:
        attributes = {**before.attributes, "activation_type": kind}
        return replace(before, outputs=node.outputs, attributes=attributes, types=node.types)
    if (before.primitive, len(before.inputs), node.primitive) != (_PRODUCT, 2, "AddFusion") or kind:
        return None
    bias = node.inputs[1 - place]
    shape = before.types[0].shape if before.types and before.types[0] is not None else None
    if bias not in constants or not shape or constants[bias].shape.numpy() != shape[-1:]:
        return None
    return replace(before, inputs=(*before.inputs, bias), outputs=node.outputs, types=node.types)
