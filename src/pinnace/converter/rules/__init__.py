"""The rules of the converter: an ONNX operator -> primitives of a dialect, or other operators.

    def GatherElements(op: Primitives, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
        return op.GatherD(data, axis, indices)

A rule is a function with the name of its operator. Its parameters are the operator's inputs, then its
attributes by their names, bound as those of lowerings (`ops.table`); one that begins with an underscore is
left aside, and an attribute that a rule does not take must have its default. What ONNX has moved from
attributes to inputs over its versions is taken from either. Operators that differ in little share a rule
(`operators`).

`op.GatherD(...)` writes a primitive, with its arguments in the order of `ops/signatures.jsonl`; those that
have a default may be left out. Rules of parts write operators of ONNX instead, as lowerings do. A rule that
refuses (`raise Unsupported`), or asks for values known only at run time, leaves the operator to those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import isfunction
from typing import Any, TypeVar

import onnx
import onnx_ir as ir

from pinnace.graph.nodes import DOMAIN
from pinnace.ops.table import Primitive
from pinnace.program import Dialect

Rule = Primitive
_F = TypeVar("_F", bound=Callable[..., Any])

MODULES = {
    Dialect.MINDSPORE: ("mindspore", "networks", "detection", "shapes"),
    Dialect.LITE: ("lite", "lite_networks", "integers", "kernels", "shapes"),
}
"""The modules with rules that write primitives of a dialect."""
_PARTS = ("parts", "contraction", "places", "quantized", "recurrent", "resize", "sampling", "windows")
PARTS = {Dialect.MINDSPORE: _PARTS, Dialect.LITE: ("lite_parts", *_PARTS)}
"""The modules with rules that take operators apart into others."""
_SHARED: defaultdict[str, dict[str, Rule]] = defaultdict(dict)
"""The rules of several operators, by module and operator."""


def operators(*names: str, **others: object) -> Callable[[_F], _F]:
    """Enter a rule for operators: of `names`, parted by blanks, and others with what is special to each.

    That is the rule's first parameter after the builder; the operator's name where nothing is.
    """
    special = {name: name for text in names for name in text.split()} | others

    def enter(rule: _F) -> _F:
        for name, given in special.items():
            _SHARED[rule.__module__][name] = _rule(name, rule, given)
        return rule

    return enter


def _rule(name: str, function: Callable[..., Any], *given: object) -> Rule:
    # The name is no primitive's: arguments are checked by ONNX's schema.
    return Primitive(f"ONNX's {name}", Dialect.MINDSPORE, function, given=given)


def find(dialect: Dialect, op_type: str, domain: str = "") -> Rule | None:
    """Return the rule that writes an operator with primitives of a dialect."""
    if domain == DOMAIN and dialect is Dialect.MINDSPORE:
        return _found(("ranks",), op_type)
    return _found(MODULES[dialect], op_type) if domain in ("", "ai.onnx") else None


def parts_of(dialect: Dialect, op_type: str, domain: str = "") -> Rule | None:
    """Return the rule that takes an operator apart into others."""
    if domain not in ("", "ai.onnx"):
        return _found(("ml",), op_type) if domain == "ai.onnx.ml" else None
    return _found(PARTS[dialect], op_type)


def _found(modules: tuple[str, ...], op_type: str) -> Rule | None:
    return next((rule for name in modules if (rule := table(name).get(op_type))), None)


@cache
def table(name: str) -> Mapping[str, Rule]:
    """Return the rules of a module by operators."""
    module = import_module(f"{__name__}.{name}")
    functions = {n: f for n, f in vars(module).items() if n[0].isupper() and isfunction(f)}
    own = {n: _rule(n, f) for n, f in functions.items() if f.__module__ == module.__name__}
    return own | _SHARED[module.__name__]


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
