"""The rules of the converter: an ONNX operator -> primitives of a dialect, as rows of a text.

    rules(
        __name__,
        \"\"\"
        Abs: x -> Abs(x)
        Gather: data, indices, axis: int = 0 -> Gather(data, indices, axis)
        \"\"\",
    )

The text is that of `ops.formulas`, read the other way: before the arrow stand the operator's inputs and then
its attributes, with ONNX's names, after it the primitive, with its arguments in the order of
`ops/signatures.jsonl`; those that have a default may be left out. An attribute that a rule does not take must have its default.
What ONNX has moved from attributes to inputs over its versions is taken from either. A rule that refuses
(`raise Unsupported`), or asks for values known only at run time, leaves the operator to `parts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import onnx
import onnx_ir as ir

from pinnace.ops import math
from pinnace.ops.formulas import Formula, names_of, rows_of
from pinnace.ops.nodes import DOMAIN
from pinnace.ops.table import Primitive
from pinnace.program import Dialect

assert math  # its functions are those of rules
Rule = Primitive
Rules = Mapping[str, Rule]

_MODULES = {Dialect.MINDSPORE: "mindspore", Dialect.LITE: "lite"}


def rules(module: str, text: str) -> Rules:
    """Return the rules of a text by operators; `module` is the `__name__` of the caller."""
    found: dict[str, Rule] = {}
    for head, body in rows_of(text):
        names, _, unused = head.partition(";")
        formula = Formula(module, body)
        for name, special in names_of(names):
            # The name is no primitive's: arguments are checked by ONNX's schema.
            found[name] = Primitive(
                f"ONNX's {name}", Dialect.MINDSPORE, formula, frozenset(unused.split()), special
            )
    return found


def find(dialect: Dialect, op_type: str, domain: str = "") -> Rule | None:
    """Return the rule that writes an operator with primitives of a dialect."""
    if domain == DOMAIN and dialect is Dialect.MINDSPORE:
        return _table("ranks").get(op_type)
    return _table(_MODULES[dialect]).get(op_type) if domain in ("", "ai.onnx") else None


def parts_of(dialect: Dialect, op_type: str, domain: str = "") -> Rule | None:
    """Return the rule that takes an operator apart into others."""
    tables: tuple[str, ...] = ("lite_parts", "parts") if dialect is Dialect.LITE else ("parts",)
    if domain not in ("", "ai.onnx"):
        tables = ("ml",) if domain == "ai.onnx.ml" else ()
    found = (_table(name).get(op_type) for name in tables)
    return next(filter(None, found), None)


@cache
def _table(module: str) -> Rules:
    table: Rules = import_module(f"{__name__}.{module}").RULES
    return table


def attributes(rule: Rule, node: ir.Node) -> dict[str, Any]:
    """Return the attributes of a node for its rule, without defaults that it does not take."""
    found = {name: _plain(a) for name, a in node.attributes.items()}
    schema = _defaults(node.op_type, node.domain)
    return {n: v for n, v in found.items() if n in rule.taken or v != schema.get(n, v is None)}


def _plain(attribute: ir.Attr) -> Any:
    value = attribute.value
    return tuple(value) if isinstance(value, list) else value


@cache
def _defaults(op_type: str, domain: str) -> dict[str, Any]:
    try:
        schema = onnx.defs.get_schema(op_type, domain=domain)
    except onnx.defs.SchemaError:
        return {}
    given = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}
    return {name: _plain(ir.serde.deserialize_attribute(proto)) for name, proto in given.items()}
