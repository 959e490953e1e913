"""The option `[execution_plan]`: single operators in float16 or float32.

Rules:

1. A plan names nodes as in the model file, or by a result: a value of the file, an output of the model. If
   one node of a MindSpore file became several of the graph, the plan applies to all of them.
2. It applies to the operands whose type the node's ONNX schema leaves open, if it allows the requested type:
   they are cast, the node computes in that type, and the results are cast back. So nothing around it changes.
3. Weights are cast as well, and unchanged in the file: engines fold such casts, and an exchangeable weight
   keeps its name and type.
4. A node that already has the type is only marked: rules for faster forms skip it, and engines that round to
   16 bits by themselves must not do so for it.
5. An engine without a float16 kernel computes the node in float32, with rounded weights.
6. Other nodes (without floats, with nested graphs, or not of ONNX) stay unchanged, with a warning, as for
   unknown names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import onnx
import onnx_ir as ir

from pinnace.errors import warn
from pinnace.graph.casts import compute_in
from pinnace.graph.editor import Editor
from pinnace.graph.nodes import origins
from pinnace.graph.walk import inner_graphs, nodes
from pinnace.lowering.variable import nearest

PLANNED = "pinnace.planned"
"""Key of a node's metadata: the element type that a plan gives it."""

_TYPES = {"float16": ir.DataType.FLOAT16, "float32": ir.DataType.FLOAT}
_OTHER = {ir.DataType.FLOAT16: ir.DataType.FLOAT, ir.DataType.FLOAT: ir.DataType.FLOAT16}
_MAX_NAMED = 5  # problems in one warning


def apply(
    model: ir.Model, plan: Mapping[str, str], source: str, values: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Give nodes the element types of a plan, by name. Warnings name the model `source`.

    `values` maps names of results to names of nodes, in addition to those of the graph.
    """
    found: dict[str, list[ir.Node]] = {}
    given: dict[str, str] = {}
    for node in nodes(model.graph):
        for name in filter(None, origins(node)):
            found.setdefault(name, []).append(node)
        given |= {output.name or "": origins(node)[-1] for output in node.outputs}
    given |= {o.name or "": origins(producer)[-1] for o in model.graph.outputs if (producer := _producer(o))}
    given |= values
    from onnx_ir.passes.common import ShapeInferencePass  # few models need it, and it takes 10 ms to import

    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(model)
    problems: list[str] = []
    b = Editor(model, "%planned")
    for name, kind in plan.items():
        named = found.get(name) or found.get(given.get(name, name), [])
        outcomes = [_compute_in(b, node, _TYPES[kind]) for node in named]
        if not named:
            near = nearest(name, found) if len(problems) < _MAX_NAMED else ""
            problems.append(f"no node {name!r} runs{near}")
        elif not any(outcomes):
            kinds = ", ".join(sorted({node.op_type for node in named}))
            problems.append(f"{name!r} ({kinds}) has nothing that can be {kind}")
    if problems:
        more = [f"and {len(problems) - _MAX_NAMED} more"] if len(problems) > _MAX_NAMED else []
        warn(f"{source}: [execution_plan] is partly ignored: " + "; ".join(problems[:_MAX_NAMED] + more))


def _producer(value: ir.Value) -> ir.Node | None:
    """Return the node that computes a value, before any Identity."""
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node


def _compute_in(b: Editor, node: ir.Node, wanted: ir.DataType) -> bool:
    """Make a node compute in a type. Returns False if it cannot."""
    schema = _schema(node, b.model.graph.opset_imports)
    if schema is None:
        return False
    open_to = _open_to(schema, wanted)
    operands = list(zip(node.inputs, _variables(schema.inputs, len(node.inputs)), strict=True))
    present = {variable for x, variable in operands if variable in open_to and _is(x, wanted)}
    cast = {variable for x, variable in operands if variable in open_to and _is(x, _OTHER[wanted])}
    if present or cast:
        node.meta[PLANNED] = wanted
    outputs = _variables(schema.outputs, len(node.outputs))
    compute_in(b, node, dict.fromkeys(cast, wanted), [variable for _, variable in operands], outputs)
    return bool(present or cast)


def _schema(node: ir.Node, opsets: Mapping[str, int]) -> onnx.defs.OpSchema | None:
    """Return the schema of a standard operator without nested graphs; None for others."""
    if node.domain not in ("", "ai.onnx") or inner_graphs(node):
        return None
    try:
        return onnx.defs.get_schema(node.op_type, node.version or opsets[""])
    except (onnx.defs.SchemaError, KeyError):
        return None


def _open_to(schema: onnx.defs.OpSchema, dtype: ir.DataType) -> Collection[str]:
    """Return the type variables of a schema that allow a type."""
    wanted = f"tensor({'float' if dtype is ir.DataType.FLOAT else 'float16'})"
    return {c.type_param_str for c in schema.type_constraints if wanted in c.allowed_type_strs}


def _variables(formal: Collection[onnx.defs.OpSchema.FormalParameter], count: int) -> list[str]:
    """Return the type variables of `count` operands; the last formal one may be variadic."""
    named = [parameter.type_str for parameter in formal] or [""]
    return [named[min(place, len(named) - 1)] for place in range(count)]


def _is(x: ir.Value | None, dtype: ir.DataType) -> bool:
    return x is not None and isinstance(x.type, ir.TensorType) and x.dtype is dtype
