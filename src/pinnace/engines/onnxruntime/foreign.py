"""Operators outside of ONNX's own domain that a file may name.

Their kernels believe what a request says more often than ONNX's own. `foreign.json` has those for which wrong
requests and changed files have shown nothing but right results and errors, some of them behind a guard of
`guards`, with the inputs and attributes that were tried. `tools/tables/make_foreign_operators.py` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import onnx_ir as ir

from pinnace.graph.nodes import DOMAIN

_OWN = ("", DOMAIN)
_INSTEAD = "write it with ONNX's own operators"


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


def _is_new(known: Mapping[str, Any], attribute: ir.Attr) -> bool:
    """Return True if an attribute was not tried, could choose what is read, and is not the default."""
    if attribute.name in known["attributes"] or attribute.type is ir.AttributeType.FLOAT:
        return False
    value = attribute.value
    return bool(known["defaults"].get(attribute.name) != value)


@cache
def _shown() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    table: dict[str, dict[str, dict[str, Any]]] = json.loads(Path(__file__).with_suffix(".json").read_text())
    return table
