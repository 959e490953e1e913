"""The rules of the converter: an ONNX operator -> primitives of MindSpore and MindSpore Lite.

    def GatherElements(op: Primitives, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
        return op.GatherD(data, axis, indices)

A rule is a function with the name of its operator. Its parameters are the operator's inputs, then its
attributes by their names, bound as those of lowerings (`ops.table`); one that begins with an underscore is
left aside, and an attribute that a rule does not take must have its default. What ONNX has moved from
attributes to inputs over its versions is taken from either; what it gave another meaning has a rule for each
(`CHANGED`). Operators that differ in little share a rule (`operators`). A rule serves both dialects, unless
it is entered for one alone (`only`).

`op.GatherD(...)` writes a primitive, with its arguments in the order of `ops/signatures.jsonl`; those that
have a default may be left out. A rule that refuses (`raise Unsupported`), or asks for values known only at
run time, leaves the operator to `decompositions`, whose rules write operators of ONNX, as lowerings do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import isfunction
from pkgutil import iter_modules
from typing import Any, TypeVar

import onnx
import onnx_ir as ir

from pinnace.ops.table import Primitive
from pinnace.program import Dialect

Rule = Primitive
_F = TypeVar("_F", bound=Callable[..., Any])

RULES, DECOMPOSITIONS = "rules", "decompositions"
"""The packages of the modules with rules."""
CHANGED = {
    "Softmax": 13,
    "LogSoftmax": 13,
    "Hardmax": 13,
    "Resize": 11,
    "RoiAlign": 16,
    "GroupNormalization": 21,
}
"""The operator sets that gave operators another meaning: what they were is `SoftmaxBefore13` and the like."""
_TABLE: dict[tuple[str, str, str, Dialect | None], Rule] = {}
"""The rules by package, domain (`DOMAIN` in their module), operator, and the one dialect that has them."""


def operators(*names: str, only: Dialect | None = None, **others: object) -> Callable[[_F], _F]:
    """Enter a rule for operators: of `names`, parted by blanks, and others with what is special to each.

    That is the rule's first parameter after the builder; the operator's name where nothing is.
    """
    special = {name: name for text in names for name in text.split()} | others

    def enter(rule: _F) -> _F:
        for name, given in special.items():
            _enter(name, rule, only, given)
        return rule

    return enter


def rule(only: Dialect, name: str = "") -> Callable[[_F], _F]:
    """Enter a rule for one dialect alone; its operator has its name unless another is given."""

    def enter(function: _F) -> _F:
        _enter(name or function.__name__, function, only)
        return function

    return enter


def _enter(name: str, function: Callable[..., Any], only: Dialect | None, *given: object) -> None:
    package, domain = function.__module__.split(".")[-2], function.__globals__.get("DOMAIN", "")
    # The name is no primitive's: arguments are checked by ONNX's schema.
    _TABLE[package, domain, name, only] = Primitive(
        f"ONNX's {name}", Dialect.MINDSPORE, function, given=given
    )


@cache
def table() -> Mapping[tuple[str, str, str, Dialect | None], Rule]:
    for package in (RULES, DECOMPOSITIONS):
        for found in iter_modules(import_module(f"pinnace.converter.{package}").__path__):
            module = import_module(f"pinnace.converter.{package}.{found.name}")
            entered = {entry.lowering for entry in [*_TABLE.values()]}  # other threads may enter theirs
            for n, f in vars(module).items():
                own = n[0].isupper() and isfunction(f) and f.__module__ == module.__name__
                if own and f not in entered:
                    _enter(n, f, None)
    return _TABLE


def find(package: str, dialect: Dialect, op_type: str, domain: str = "") -> Rule | None:
    rules, key = table(), (package, "" if domain == "ai.onnx" else domain, op_type)
    return rules.get((*key, dialect)) or rules.get((*key, None))


def name_of(node: ir.Node, opset: int) -> str:
    """Return the name of the rules for a node of an operator set."""
    since = CHANGED.get(node.op_type, 0)
    return f"{node.op_type}Before{since}" if opset < since else node.op_type


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
