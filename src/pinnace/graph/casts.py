"""Casts around single nodes of a finished graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from pinnace.graph.nodes import ORIGIN, origins


def compute_in(
    node: ir.Node, types: Mapping[str, ir.DataType], inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    """Make a node compute in other element types, between casts, so that nothing around it changes.

    `types` maps type variables of its schema to types; `inputs` and `outputs` are the variables of its inputs
    and outputs.
    """
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
            cast[x] = cast.get(x) or _cast_before(node, x, wanted)
            node.replace_input_with(place, cast[x])
    for y, variable in zip(node.outputs, outputs, strict=True):
        if variable in own and y.name:
            _cast_after(node, y, types[variable], own[variable])


def _cast_before(node: ir.Node, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    cast = _cast(node, x, dtype)
    cast.outputs[0].name = f"{x.name}.for.{node.outputs[0].name}"
    _graph(node).insert_before(node, cast)
    return cast.outputs[0]


def _cast_after(node: ir.Node, y: ir.Value, computed: ir.DataType, own: ir.DataType) -> None:
    """Cast `y` back for all its readers, under its name."""
    cast = _cast(node, y, own)
    (back,) = cast.outputs
    y.replace_all_uses_with(back, replace_graph_outputs=True)
    cast.replace_input_with(0, y)
    y.name, back.name = f"{y.name}.computed", y.name
    y.type = ir.TensorType(computed)
    _graph(node).insert_after(node, cast)


def _cast(beside: ir.Node, x: ir.Value, dtype: ir.DataType) -> ir.Node:
    """Return a node that casts `x`, with the origin of the node `beside`; it is in no graph yet."""
    node = ir.Node("", "Cast", [x], [ir.AttrInt64("to", dtype.value)])
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), x.shape
    node.meta[ORIGIN] = origins(beside)
    return node


def _graph(node: ir.Node) -> ir.Graph | ir.Function:
    assert node.graph is not None
    return node.graph
