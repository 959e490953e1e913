"""Casts of outputs, as the option `output_type` and the converter want them."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

_TYPES = {"FP16": ir.DataType.FLOAT16, "FP32": ir.DataType.FLOAT, "UINT8": ir.DataType.UINT8}


def cast(model: ir.Model, kind: str, states: Collection[str]) -> None:
    """Cast the outputs of a graph to "FP16", "FP32" or "UINT8", except strings and `states`.

    Outputs keep their names.
    """
    wanted = _TYPES[kind]
    for place, value in enumerate(model.graph.outputs):
        if value.name not in states and value.dtype not in (wanted, ir.DataType.STRING, None):
            cast_output(model, place, wanted)


def cast_output(model: ir.Model, place: int, wanted: ir.DataType) -> None:
    """Cast the output at a place, which keeps its name, unless that is the one of an input or a constant."""
    value = model.graph.outputs[place]
    node = ir.node("Cast", [value], attributes={"to": wanted.value})
    (output,) = node.outputs
    output.type, output.shape = ir.TensorType(wanted), value.shape
    name = value.name or ""
    if value.producer() is None:
        output.name = f"{name}_{wanted.name}"
    else:
        value.name, output.name = f"{name}.uncast", name
    model.graph.append(node)
    model.graph.outputs[place] = output
