"""Nodes that stay in float32 where OpenVINO computes the others in 16 bits."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import openvino as ov
from openvino import opset1
from openvino import opset13 as opset

from pinnace.engines.openvino.marks import kept_wide

_FUSED = frozenset(("Add", "Clamp", "Elu", "HSwish", "Multiply", "PRelu", "Relu", "Sigmoid", "Swish"))
"""Types of nodes that OpenVINO computes with the convolution before them, which must have its type (2026.4
fails to compile a convolution in float32 with a sum in bfloat16)."""

_MERGED = {
    "MatMul": ("Add", "Multiply"),
    "Convolution": ("BatchNormInference", "Multiply"),
    "GroupConvolution": ("BatchNormInference", "Multiply"),
}
"""Types of nodes that lose their marks when OpenVINO merges them with readers of these types."""


def keep_wide(model: ov.Model, names: Collection[str]) -> set[str]:
    """Mark the nodes that compute these results, with the parts into which OpenVINO's reader split them, and
    what it computes together with them. Returns OpenVINO's unique names of all.
    """
    marked: set[str] = set()
    if not names:
        return marked
    named = [
        node for node in model.get_ops() if any(not o.get_names().isdisjoint(names) for o in node.outputs())
    ]
    for node in named:
        for part in (*_parts(node), *_fused(node)):
            marked.add(kept_wide(part).get_name())
            if part.get_type_name() in _MERGED:
                _set_apart(part)
            elif part.get_type_name() == "Softmax":
                _renew(part)
    return marked


def _set_apart(node: ov.Node) -> None:
    """Put operators that change nothing between a node and its neighbors.

    OpenVINO (2026.4) loses the marks of a product that it merges with a bias or transposition, and of a
    convolution that it merges with a normalization. It does not see that a PRelu of slope 1 changes nothing.
    """
    slope = opset.constant(np.ones(1, np.float32))
    for place, value in enumerate(node.input_values()):
        if value.get_node().get_type_name() == "Transpose":
            node.input(place).replace_source_output(kept_wide(opset.prelu(value, slope)).output(0))
    for reader in node.output(0).get_target_inputs():
        if reader.get_node().get_type_name() in _MERGED[node.get_type_name()]:
            reader.replace_source_output(kept_wide(opset.prelu(node, slope)).output(0))


def _renew(softmax: ov.Node) -> None:
    """Write a Softmax as OpenVINO's plugin for CPUs does, which loses the mark when it does so."""
    axis = softmax.get_attributes()["axis"] % softmax.get_output_partial_shape(0).rank.get_length()
    renewed = kept_wide(opset1.softmax(softmax.input_value(0), axis))
    renewed.set_friendly_name(softmax.get_friendly_name())
    softmax.output(0).replace(renewed.output(0))


def _parts(node: ov.Node) -> list[ov.Node]:
    """Return a node and those before it whose results have no name in the file."""
    found = [node]
    for part in found:
        makers = (value.get_node() for value in part.input_values())
        found += [
            one for one in makers if one.get_input_size() and not any(o.get_names() for o in one.outputs())
        ]
    return found


def _fused(node: ov.Node) -> list[ov.Node]:
    """Return the nodes that may be computed with a convolution; none for another node."""
    if not any("Convolution" in part.get_type_name() for part in _parts(node)):
        return []
    found = [node]
    for part in found:
        readers = (reader.get_node() for output in part.outputs() for reader in output.get_target_inputs())
        found += [one for one in readers if one.get_type_name() in _FUSED]
    return found[1:]
