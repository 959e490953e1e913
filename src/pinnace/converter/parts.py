"""Operators that have no primitive, taken apart into others.

By a rule of `rules/parts.py`, else by the function that ONNX defines the operator as.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import onnx
import onnx.version_converter
import onnx_ir as ir
from onnx.inliner import inline_selected_functions

from pinnace.converter import rules
from pinnace.converter.primitives import type_of
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import OPSET
from pinnace.program import Dialect


class Replacement(NamedTuple):
    """Nodes that compute what one node does, in order, and their results in the place of its outputs."""

    nodes: Sequence[ir.Node]
    outputs: Sequence[ir.Value]
    opset: int


def of(node: ir.Node, opset: int, dialect: Dialect, b: Builder) -> Replacement | None:
    """Return the parts of a node, which a new builder `b` writes; None if it has none.

    Raises Unsupported with the reason of a rule.
    """
    rule = rules.parts_of(dialect, node.op_type, node.domain)
    reason = None
    if rule is not None:
        try:
            return _by_rule(rule, node, b)
        except Unsupported as error:
            reason = error
    defined = _by_definition(node, opset, opset) or _by_definition(node, opset, max(opset, OPSET))
    if defined is None and reason is not None:
        raise reason
    return defined


def _by_rule(rule: rules.Rule, node: ir.Node, b: Builder) -> Replacement:
    b.declared = [type_of(o) if o.dtype else None for o in node.outputs if o.name]
    value = rule.lower(b, node.inputs, rules.attributes(rule, node))
    results = value if isinstance(value, tuple) else (value,)
    return Replacement(b.nodes, [b.tensor(result) for result in results], OPSET)


def _by_definition(node: ir.Node, opset: int, newer: int) -> Replacement | None:
    """Return the parts by the function that ONNX's schema has for an operator in a newer set.

    Many operators were defined as functions only later: LeakyRelu in set 16, ReduceL2 in set 18.
    """
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, newer, node.domain)
        old: Any = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    if any(x is not None and x.dtype is None for x in node.inputs):
        return None
    model = _model_of(node, opset, old)
    try:
        if newer != opset:
            model = onnx.version_converter.convert_version(model, newer)
        inlined = inline_selected_functions(
            model, [(node.domain, node.op_type)], inline_schema_functions=True
        )
    except Exception:  # raised by ONNX's own code where a definition does not fit the node
        return None
    if [n.op_type for n in inlined.graph.node] == [node.op_type]:
        return None
    return _spliced(ir.from_proto(inlined), node)


def _model_of(node: ir.Node, opset: int, schema: Any) -> onnx.ModelProto:
    """Return a model of one node."""
    proto = ir.serde.serialize_node(node)
    given = {attribute.name for attribute in proto.attribute}
    for name, attribute in schema.attributes.items():  # definitions want them said
        if name not in given and attribute.default_value.name:
            proto.attribute.append(attribute.default_value)
    ports = {x.name: ir.serde.serialize_value(x) for x in node.inputs if x is not None}
    missing = [onnx.helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, None)]  # ONNX asks for its type
    results = [ir.serde.serialize_value(y) for y in node.outputs if y.name]
    graph = onnx.helper.make_graph([proto], "parts", list(ports.values()), results, value_info=missing)
    imports = {node.domain: opset, "": opset if not node.domain else OPSET}
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()]
    return onnx.helper.make_model(graph, opset_imports=opsets)


def _spliced(model: ir.Model, node: ir.Node) -> Replacement:
    """Return the nodes of a model, with the inputs of a node in the place of its own."""
    given = {x.name: x for x in node.inputs if x is not None}
    for port in model.graph.inputs:
        port.replace_all_uses_with(given[port.name])
    made = {o.name: o for o in model.graph.outputs}
    outputs = [made.get(output.name, output) for output in node.outputs]
    nodes = list(model.graph)
    model.graph.remove(nodes)
    return Replacement(nodes, outputs, model.opset_imports[""])
