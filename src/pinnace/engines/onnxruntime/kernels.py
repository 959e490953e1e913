"""The operators that onnxruntime has kernels for, and those of other domains that a file may name.

The kernels of the latter believe what a request says more often than ONNX's own. `foreign.json` has those for
which wrong requests and changed files have shown nothing but right results and errors, some of them behind a
guard of `guards`, with the inputs and attributes that were tried. `tools/tables/make_foreign_operators.py`
writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.errors import LackingKernelsError, UnsupportedPrimitive
from pinnace.graph.nodes import DOMAIN, origins
from pinnace.graph.walk import nodes

_OWN = ("", DOMAIN)
_INSTEAD = "write it with ONNX's own operators"


def check_foreign(model: ir.Model, name: str) -> None:
    """Raise LackingKernelsError if a model names operators of other domains that no test has shown right."""
    found = UnsupportedPrimitive.counted(_rows(model, lambda node: refusal(node) or _gap(node)))
    if found:
        raise LackingKernelsError(name, found)


def missing_kernels(model: ir.Model) -> list[UnsupportedPrimitive]:
    """Return the operators of a model that onnxruntime does not run, most used first.

    Collectives are not among them: they run between sessions.
    """
    return UnsupportedPrimitive.counted(
        _rows(model, lambda node: refusal(node) or _gap(node) or _without_kernel(node))
    )


def _rows(model: ir.Model, reason: Callable[[ir.Node], str]) -> Iterator[tuple[str, str, str]]:
    for node in nodes(model.graph):
        if why := reason(node):
            yield node.op_type, why, origins(node)[0]


def _without_kernel(node: ir.Node) -> str:
    operator = node.domain, node.op_type
    if node.domain == DOMAIN or operator in _kernels() or _is_function(*operator):
        return ""
    return f"onnxruntime has no {node.domain or 'ONNX'} kernel for it"


@cache
def _kernels() -> frozenset[tuple[str, str]]:
    # Constants become initializers before kernels are looked for.
    return frozenset((k.domain, k.op_name) for k in _state.get_all_opkernel_def()) | {("", "Constant")}


def _is_function(domain: str, name: str) -> bool:
    """Return True if ONNX defines an operator by others, so that no kernel is needed."""
    if not onnx.defs.has(name, domain=domain):
        return False
    schema = onnx.defs.get_schema(name, domain=domain)  # the stubs of onnx lack its two attributes
    return any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))


def refusal(node: ir.Node) -> str:
    """Return the reason why a file may not name an operator; "" if it may."""
    if node.domain in _OWN:
        return ""
    known = _shown().get(node.domain, {}).get(node.op_type)
    if known is None:
        return f"no test has shown that onnxruntime's kernel of {node.domain} checks requests: {_INSTEAD}"
    inputs = known["inputs"]  # null: any number of them
    given = {place for place, value in enumerate(node.inputs) if value is not None}
    names = [f"input {place}" for place in sorted(given.difference(given if inputs is None else inputs))]
    names += [f"attribute {name}" for name, attribute in node.attributes.items() if _is_new(known, attribute)]
    return f"no test has shown that its {', '.join(names)} is checked: {_INSTEAD}" if names else ""


def _gap(node: ir.Node) -> str:
    """Return the reason why a node may not leave out an input; "" if it may.

    QLinearConcat reads zero points that are not there, and QGemm writes floats into bytes if its result has
    a zero point and no scale.
    """
    given = [value is not None for value in node.inputs]
    if node.op_type == "QLinearConcat":
        place = given.index(False) if False in given else None
    else:
        place = 7 if node.op_type == "QGemm" and given[7:] == [False, True] else None
    return "" if place is None else f"onnxruntime uses memory that is not its own: input {place} is left out"


def _is_new(known: Mapping[str, Any], attribute: ir.Attr) -> bool:
    """Return True if an attribute was not tried, could choose what is read, and is not the default."""
    if attribute.name in known["attributes"] or attribute.type is ir.AttributeType.FLOAT:
        return False
    value = attribute.value
    return bool(known["defaults"].get(attribute.name) != value)


@cache
def _shown() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    table: dict[str, dict[str, dict[str, Any]]] = json.loads(
        Path(__file__).with_name("foreign.json").read_text()
    )
    return table
