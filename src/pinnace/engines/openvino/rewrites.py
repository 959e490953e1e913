"""Rewrites of forms that OpenVINO computes differently than ONNX defines, or slowly.

* Greater and GreaterOrEqual are true for NaN; Less and LessOrEqual are not.
* NaN and the smallest integer are false as booleans, although they differ from 0.
* QuantizeLinear to int8 and its DequantizeLinear become those of uint8, shifted by 128: OpenVINO has no
  convolution whose picture is of int8, and computes it in float32 (ResNet-50 in 63 ms instead of 9).

Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.constants import constant
from pinnace.graph.editor import Editor
from pinnace.graph.walk import nodes

_MIRRORED = {"Greater": "Less", "GreaterOrEqual": "LessOrEqual"}


def rewrite(model: ir.Model) -> None:
    """Rewrite the nodes of a model without functions, also in nested graphs."""
    b = Editor(model, "%spelled")
    for node in list(nodes(model.graph)):
        given = node.inputs[0] if node.inputs else None
        if node.op_type in _MIRRORED and not node.attributes:  # old operators have some for broadcasting
            node.op_type = _MIRRORED[node.op_type]
            for place, value in enumerate(node.inputs[::-1]):
                node.replace_input_with(place, value)
        elif node.op_type == "QuantizeLinear":
            _shift_to_unsigned(b, node)
        elif node.op_type == "Cast" and given is not None:
            kind, to = b.known_dtype(given), node.attributes.get_int("to", 0)
            if to == ir.DataType.BOOL and kind not in (None, ir.DataType.BOOL):
                b.follow(node)
                b.put_before(node, b.op("Not", b.op("Equal", given, 0)))
    b.finish()


def _shift_to_unsigned(b: Editor, node: ir.Node) -> None:
    number = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    integers = node.outputs[0]
    readers = [use.node for use in integers.uses()]
    if number is None or number.dtype is not ir.DataType.INT8 or integers.is_graph_output():
        return
    if any(r.op_type != "DequantizeLinear" or r.inputs[1:] != node.inputs[1:] for r in readers):
        return
    shifted = b.constant(number.numpy().astype(np.int16) + 128, np.uint8)
    node.attributes.pop("output_dtype", None)
    integers.dtype = ir.DataType.UINT8
    for one in (node, *readers):
        one.replace_input_with(2, shifted)
