"""Single operators in float16 or float32, as `[execution_plan]` names them.

Rules:

1. A plan names nodes as the model file does, or by what they give: a value of the file, an output of the
   model. Where one node of a MindSpore file became several of the graph, all of them follow.
2. A node follows in those operands whose type its ONNX schema leaves open and allows to be of the wanted one:
   they are cast, the node computes in that type, and what comes out is cast back. So nothing around it
   changes.
3. Weights are cast as well, and stay what they are in the file: engines fold such casts, and a weight that
   may be exchanged keeps its name and type.
4. A node that has the wanted type already is only marked: rules that write faster forms leave it alone, and
   an engine that rounds to 16 bits of its own accord has to compute it as it is.
5. An engine without a kernel for float16 computes such a node in float32, over weights that were rounded.
6. A node that cannot follow (it has no floats, holds graphs, or is not ONNX's own) stays as it is; a warning
   says so, as it does for a name that no node has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from pinnace.compiler.casts import compute_in
from pinnace.compiler.variable import nearest
from pinnace.errors import warn
from pinnace.ops.nodes import origins

PLANNED = "pinnace.planned"
"""Key of what a node notes of itself: the element type that a plan gives it."""

_TYPES = {"float16": ir.DataType.FLOAT16, "float32": ir.DataType.FLOAT}
_OTHER = {ir.DataType.FLOAT16: ir.DataType.FLOAT, ir.DataType.FLOAT: ir.DataType.FLOAT16}
_NAMED = 5  # complaints in one warning


def apply(
    model: ir.Model, plan: Mapping[str, str], source: str, values: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Give nodes the element types of a plan, by their names. `source` names the model in warnings.

    `values` are the names of nodes by those of what they give, where the graph does not tell it.
    """
    found: dict[str, list[ir.Node]] = {}
    given: dict[str, str] = {}
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for name in filter(None, origins(node)):
            found.setdefault(name, []).append(node)
        given |= {output.name or "": origins(node)[-1] for output in node.outputs}
    given |= {o.name or "": origins(maker)[-1] for o in model.graph.outputs if (maker := _maker(o))}
    given |= values
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(model)
    complaints: list[str] = []
    for name, kind in plan.items():
        nodes = found.get(name) or found.get(given.get(name, name), [])
        outcomes = [_give(node, _TYPES[kind], model.graph.opset_imports) for node in nodes]
        if not nodes:
            near = nearest(name, found) if len(complaints) < _NAMED else ""
            complaints.append(f"no node {name!r} is run{near}")
        elif not any(outcomes):
            kinds = ", ".join(sorted({node.op_type for node in nodes}))
            complaints.append(f"{name!r} ({kinds}) has nothing that could be {kind}")
    if complaints:
        more = [f"and {len(complaints) - _NAMED} more"] if len(complaints) > _NAMED else []
        warn(f"{source}: [execution_plan] is ignored in part: " + "; ".join(complaints[:_NAMED] + more))


def _maker(value: ir.Value) -> ir.Node | None:
    """The value that another one is before it is only given other names."""
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node


def _give(node: ir.Node, wanted: ir.DataType, opsets: Mapping[str, int]) -> bool:
    """Let a node compute in a type; False where it cannot."""
    schema = _schema(node, opsets)
    if schema is None:
        return False
    open_to = _open_to(schema, wanted)
    operands = list(zip(node.inputs, _variables(schema.inputs, len(node.inputs)), strict=True))
    there = {variable for x, variable in operands if variable in open_to and _is(x, wanted)}
    cast = {variable for x, variable in operands if variable in open_to and _is(x, _OTHER[wanted])}
    if there or cast:
        node.meta[PLANNED] = wanted
    given = _variables(schema.outputs, len(node.outputs))
    compute_in(node, dict.fromkeys(cast, wanted), [variable for _, variable in operands], given)
    return bool(there or cast)


def _schema(node: ir.Node, opsets: Mapping[str, int]) -> onnx.defs.OpSchema | None:
    """The schema of one of ONNX's own operators that holds no graphs; None for all others."""
    if node.domain not in ("", "ai.onnx"):
        return None
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return None
    try:
        return onnx.defs.get_schema(node.op_type, node.version or opsets[""])
    except (onnx.defs.SchemaError, KeyError):
        return None


def _open_to(schema: onnx.defs.OpSchema, dtype: ir.DataType) -> Collection[str]:
    """The type variables of a schema that allow a type."""
    wanted = f"tensor({'float' if dtype is ir.DataType.FLOAT else 'float16'})"
    return {c.type_param_str for c in schema.type_constraints if wanted in c.allowed_type_strs}


def _variables(formal: Collection[onnx.defs.OpSchema.FormalParameter], count: int) -> list[str]:
    """The type variables of as many operands; the last formal one may stand for any number of them."""
    named = [parameter.type_str for parameter in formal] or [""]
    return [named[min(place, len(named) - 1)] for place in range(count)]


def _is(x: ir.Value | None, dtype: ir.DataType) -> bool:
    return x is not None and isinstance(x.type, ir.TensorType) and x.dtype is dtype
