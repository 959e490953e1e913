"""Forms of ONNX that OpenVINO computes otherwise, written in forms that it computes as ONNX says.

* Greater and GreaterOrEqual hold for NaN; Less and LessOrEqual do not.
* As truth values, NaN and the least integer are false; both differ from 0 all the same.
* NonMaxSuppression takes boxes that only touch for an overlap above 0.
* Floats that are cast to 8 bits stop at their ends where dimensions are free; integers go round.

Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.inference import infer, opset_of

_MIRRORED = {"Greater": "Less", "GreaterOrEqual": "LessOrEqual"}
_LEAST = float(np.finfo(np.float32).tiny)
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


def respell(model: ir.Model) -> None:
    """Change the nodes of a model that has no functions, those of branches as well."""
    opset = opset_of(model)
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        given = node.inputs[0] if node.inputs else None
        if node.op_type in _MIRRORED and not node.attributes:  # old ones say how to broadcast
            node.op_type = _MIRRORED[node.op_type]
            for place, value in enumerate(node.inputs[::-1]):
                node.replace_input_with(place, value)
        elif node.op_type == "NonMaxSuppression":
            node.resize_inputs(max(len(node.inputs), 4))
            least = ir.node("Constant", [], {"value": ir.tensor(np.array([_LEAST], np.float32))})
            limit = node.inputs[3]
            larger = [] if limit is None else [ir.node("Max", [limit, least.outputs[0]])]
            _compute_before(node, least, *larger, place=3)
        elif node.op_type == "Cast" and given is not None:
            infer(given, opset)
            kind, to = given.dtype, node.attributes.get_int("to", 0)
            if to == ir.DataType.BOOL and kind not in (None, ir.DataType.BOOL):
                zero = ir.node("Constant", [], {"value": ir.tensor(np.zeros((), kind.numpy()))})
                _compute_before(node, zero, ir.node("Equal", [given, zero.outputs[0]]))
                node.op_type = "Not"
                node.attributes.clear()
            elif to in _BYTES and kind is not None and kind.is_floating_point():
                _compute_before(node, ir.node("Cast", [given], {"to": ir.DataType.INT32}))


def _compute_before(reader: ir.Node, *nodes: ir.Node, place: int = 0) -> None:
    """Put nodes before one that then reads what the last of them gives."""
    assert reader.graph is not None
    reader.graph.insert_before(reader, nodes)
    reader.replace_input_with(place, nodes[-1].outputs[0])
