"""Lowerings and rules name operators and attributes that exist: `op.Sinh(...)` asks nobody before it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import pinnace
from pinnace.converter import rules
from pinnace.graph.inference import OPSET
from pinnace.graph.nodes import DOMAIN
from pinnace.ops import families, signatures
from pinnace.program import Dialect

SOURCE = Path(pinnace.__file__).parent
FOLDERS = ("ops", "converter/rules", "converter/decompositions")
FILES = [path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py")]


def calls(path: Path) -> Iterator[tuple[str, str, ast.Call]]:
    """The calls of a file that write operators: the type of their builder, and the operator's name."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            given = {a.arg: ast.unparse(a.annotation) for a in function.args.args if a.annotation}
        elif isinstance(function, ast.Lambda) and function.args.args:
            given = {function.args.args[0].arg: "Builder"}
        else:
            continue
        for call in ast.walk(function):
            match call:
                case ast.Call(ast.Attribute(ast.Name(b), "op" | "ops"), [ast.Constant(str(name)), *_]):
                    pass
                case ast.Call(ast.Attribute(ast.Name(b), name)) if name[0].isupper():
                    pass
                case _:
                    continue
            if b in given:
                yield given[b], name, call


def arguments(kind: str, name: str) -> frozenset[str] | None:
    """The names that an operator's or a primitive's arguments may have, None if there is none of its name."""
    if kind == "Builder":
        if not onnx.defs.has(name, OPSET):
            return None
        return frozenset(onnx.defs.get_schema(name, OPSET).attributes)
    known = [found for dialect in Dialect if (found := signatures.find(dialect, name))]
    if not known and all(families.find(dialect, name) is None for dialect in Dialect):
        return None
    return signatures.WITHOUT_EFFECT.union(*((*found.inputs, *found.attributes) for found in known))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_operators_and_their_attributes_exist(path: Path):
    for kind, name, call in calls(path):
        where = f"{path.name}:{call.lineno}: {name}"
        if kind not in ("Builder", "Primitives") or any(k.arg == "domain" for k in call.keywords):
            continue
        allowed = arguments(kind, name)
        assert allowed is not None, where
        assert {k.arg for k in call.keywords if k.arg} <= allowed, where


@pytest.mark.parametrize("dialect", Dialect)
def test_each_rule_of_the_converter_has_the_name_of_an_operator(dialect: Dialect):
    table = [(domain, name) for _, domain, name, only in rules.table() if only in (None, dialect)]
    names = {(domain, re.sub(r"Before\d+$", "", name)) for domain, name in table}
    assert len(names) > 100
    assert [(d, n) for d, n in names if d != DOMAIN and not onnx.defs.has(n, domain=d)] == []


def test_each_primitive_of_the_manual_is_in_the_table():
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
    cells = [line.removeprefix("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    listed = {
        name for name, where, *rest in cells if len(rest) >= 3 and where in ("both", "lite", "mindspore")
    }
    assert listed == {row.name for row in families.rows()}
