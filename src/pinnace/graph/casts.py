"""Casts around single nodes of a finished graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from pinnace.graph.editor import Editor, replace_value


def compute_in(
    b: Editor, node: ir.Node, types: Mapping[str, ir.DataType], inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    """Make a node compute in other element types, between casts, so that nothing around it changes.

    `types` maps type variables of its schema to types; `inputs` and `outputs` are the variables of its inputs
    and outputs.
    """
    b.follow(node)
    cast: dict[ir.Value, ir.Value] = {}
    own: dict[str, ir.DataType] = {}
    for place, (x, variable) in enumerate(zip(node.inputs, inputs, strict=True)):
        if x is None or not isinstance(x.type, ir.TensorType | None):
            continue
        dtype = None if x.type is None else x.type.dtype  # that of other inputs of the variable if unknown
        wanted = types.get(variable, dtype)
        if wanted is not None and dtype is not wanted:
            if dtype is not None:
                own.setdefault(variable, dtype)
            cast[x] = cast.get(x) or _cast(b, x, wanted)
            node.replace_input_with(place, cast[x])
    b.insert_before(node)
    for y, variable in zip(node.outputs, outputs, strict=True):
        if variable in own and y.name:
            back = _cast(b, y, own[variable])
            replace_value(y, back, reader=back.producer())
            y.type = ir.TensorType(types[variable])
    b.insert_after(node)


def _cast(b: Editor, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    (y,) = b.emit("Cast", 1, [x], {"to": dtype.value})
    y.shape = x.shape
    return y
