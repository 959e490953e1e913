"""Formulas are read when a model first needs them: that they can be is said here for all at once."""

from __future__ import annotations

import ast
import inspect
import sys

import onnx
import pytest

import pinnace.ops  # noqa: F401  (fills the table)
from pinnace.ops.builder import Builder
from pinnace.ops.families import rows
from pinnace.ops.formulas import _FUNCTIONS, _NAMES, _PLAIN, Formula
from pinnace.ops.inference import OPSET

FORMULAS = {
    **{row.name: row.lowering for row in rows() if isinstance(row.lowering, Formula)},
    **{f"{module}.{name}": f for (module, name), f in _FUNCTIONS.items() if isinstance(f, Formula)},
}


def test_those_of_several_lines_say_what_they_do():
    assert not [name for name, f in FORMULAS.items() if len(f.lines) > 1 and f.__doc__.startswith("`")]


@pytest.mark.parametrize("name", FORMULAS)
def test_all_that_it_names_is_there(name):
    formula = FORMULAS[name]
    nodes = [n for line in formula.lines for n in ast.walk(line)]
    calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    called = {c.func.id for c in calls}
    calls = [c for c in calls if c.func.id != "Unsupported"]
    names = {n.id for n in nodes if isinstance(n, ast.Name)} - called
    targets = [t for n in nodes if isinstance(n, ast.Assign) for t in n.targets]
    assert all(isinstance(t, ast.Name | ast.Tuple) for t in targets)
    named = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assert named.isdisjoint(called)  # a part has the name of a function
    there = _NAMES.keys() | vars(sys.modules[formula.__module__]).keys()
    assert names <= named | there | inspect.signature(formula).parameters.keys()
    for call in calls:
        keywords = {k.arg for k in call.keywords}
        own = _FUNCTIONS.get((formula.__module__, call.func.id)) or _FUNCTIONS.get(("", call.func.id))
        if call.func.id[0].isupper():
            assert keywords <= onnx.defs.get_schema(call.func.id, OPSET).attributes.keys()
        elif own is not None:
            parameters = inspect.signature(own).parameters
            assert keywords <= parameters.keys() or "attributes" in parameters
        else:
            assert call.func.id in _PLAIN.keys() | there or hasattr(Builder, call.func.id)
