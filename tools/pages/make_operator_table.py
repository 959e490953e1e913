"""Write docs/operators.md: every primitive that Pinnace runs, from the table itself and the goldens.

    python tools/pages/make_operator_table.py [--check]

`--check` writes nothing and exits with 1 where the file is not what it should be.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from page import ROOT, write_or_check

import pinnace.ops  # noqa: F401  (fills the table)
from pinnace import formats
from pinnace.ops.families import find, rows
from pinnace.ops.table import Primitive
from pinnace.program import Dialect, Program
from pinnace.weights.source import Source

PAGE = ROOT / "docs" / "operators.md"
GOLDENS = ROOT / "tests" / "data"

HEAD = """\
# Operators

This page lists every primitive that Pinnace runs, in the dialects of MindSpore and of MindSpore Lite's converter. `Custom:TYPE` are nodes
`Custom` of a [type](custom.md). `python tools/pages/make_operator_table.py` makes it from the primitive table. [Limits](limits.md) lists what does not run.

| column | content |
| --- | --- |
| lowered to | the ONNX operators that it becomes, where nothing is said of them those that its lowering names, beside Add, Sub, Mul, Div and Cast; "nothing" is decided while lowering |
| types | element types of its results in the goldens |
| golden | a model under `tests/data` that uses it, written and run by MindSpore or MindSpore Lite; "by formula" where MindSpore Lite cannot run it, and expected values are computed from the documentation; "as X" where X of that model is renamed to it, and outputs must stay; otherwise why there is none |

{count} primitives in {rows} rows; {proven} rows have a golden, {renamed} of these as another name.

| primitive | dialect | family | lowered to | types | golden |
| --- | --- | --- | --- | --- | --- |
"""

OTHER_NAMES: dict[str, list[str]] = json.loads((GOLDENS / "other_names.json").read_text(encoding="utf-8"))
"""Name -> the golden in whose file a primitive is given that name, and that primitive; tests run them."""

_TUPLES = "none: nothing is computed, a tuple exists only while lowering"
_LENGTH = "none: nothing is computed where the length is known"
_REPLACED = "none: MindSpore 2.10 exports other primitives in its place"
_MISSING = {
    "Assert": "none: nothing is computed",
    "Conv1DPadding": _REPLACED,
    "Conv2DPadding": _REPLACED,
    "Conv3DPadding": _REPLACED,
    "DistCommReduce": "none of its own: lowered as DistCommAllReduce",
    "EinsumExt": _REPLACED,
    "FakeQuantWithMinMaxVarsPerChannel": "none of its own: lowered as FakeQuantWithMinMaxVars",
    "PixelShuffle": _REPLACED,
    "Rank": "none: nothing is computed, the rank is known",
    "ReduceScatter": "none: MindSpore Lite has no kernel of it for a processor",
    "SequenceAdd": _TUPLES,
    "array_len": _LENGTH,
    "list_setitem": _TUPLES,
    "make_range": _TUPLES,
    "sequence_len": _LENGTH,
    "tuple_len": _LENGTH,
    "tuple_setitem": _TUPLES,
}
"""Why a row has no golden."""
_OF_CUSTOM = "by formula, in tests/lowering/test_custom*.py"
_RUN = ("Matmul", "all_gather", "all_reduce", "attention", "broadcast", "broadcasts", "group", "kinds", "mlp")
"""Goldens of ranks that MindSpore runs on the processor; others it only exports there."""


@dataclass
class Evidence:
    """What the goldens show of one row of the table."""

    types: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


def render() -> str:
    """The page."""
    # A row that MindSpore Lite shares is told once.
    table = [row for row in rows() if row.dialect is Dialect.MINDSPORE or not shared(row)]
    found = evidence()
    lines = [line(row, found[row.dialect, row.name]) for row in table]
    proven = [row for row in table if found[row.dialect, row.name].files or renaming(row)]
    renamed = sum(not found[row.dialect, row.name].files for row in proven)
    count = len({r.name for r in table})
    return HEAD.format(count=count, rows=len(table), proven=len(proven), renamed=renamed) + "".join(lines)


def shared(row: Primitive) -> bool:
    """Whether MindSpore and MindSpore Lite have the primitive in common."""
    found = [find(dialect, row.name) for dialect in Dialect]
    return None not in found and len({r.lowering for r in found}) == 1


def renaming(row: Primitive) -> str:
    """The golden that shows a row under another name, "" where none does."""
    if row.dialect is Dialect.LITE or row.name not in OTHER_NAMES:
        return ""
    file, primitive = OTHER_NAMES[row.name]
    return f"{Path(file).name} (as {primitive})"


def line(row: Primitive, seen: Evidence) -> str:
    dialect = "both" if shared(row) else row.dialect.value
    golden = min(seen.files, key=lambda name: ("(" in name, len(name), name), default="") or renaming(row)
    if not golden:
        golden = _OF_CUSTOM if row.name.startswith("Custom:") else _MISSING.get(row.name, "")
    if not golden:
        sys.exit(f"{row.name}: no model in tests/data uses it, and _MISSING in this file does not say why")
    types = ", ".join(sorted(seen.types))
    return f"| {row.name} | {dialect} | {row.family} | {lowered_to(row)} | {types} | {golden} |\n"


def lowered_to(row: Primitive) -> str:
    """The first line of a lowering's docstring; without one its formula, or the operators that it names."""
    own = [g for g in row.given if inspect.isfunction(g) and inspect.getdoc(row.lowering) is None]
    lowering = own[0] if own else row.lowering
    names = list(inspect.signature(row.lowering).parameters)[1:]
    given = dict(zip(names, row.given, strict=False))
    if text := inspect.getdoc(lowering):
        return text.partition("\n")[0].format(**given)
    if "op_type" in given:
        return f"{given['op_type']}."
    named = ", ".join(dict.fromkeys(operators(lowering, tree(lowering))))
    return formula(lowering) or f"{named or 'A constant'}."


@cache
def syntax(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def tree(function: Callable[..., Any]) -> ast.Lambda | ast.FunctionDef:
    code = function.__code__
    return next(
        node
        for node in ast.walk(syntax(code.co_filename))
        if isinstance(node, ast.Lambda | ast.FunctionDef)
        and code.co_firstlineno in (node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ())))
    )


def formula(lowering: Callable[..., Any]) -> str:
    """The expression that a lowering returns, where it does nothing else; "" if it does, or calls others."""
    node = tree(lowering)
    body = node.body if isinstance(node, ast.Lambda) else node.body[0]
    value = body.value if isinstance(body, ast.Return) else body
    if not isinstance(value, ast.expr) or any(called(lowering, n) for n in ast.walk(value)):
        return ""
    return f"`{re.sub(r'op[.]|op, ', '', ast.unparse(value))}`."


def called(lowering: Callable[..., Any], node: ast.AST) -> Callable[..., Any] | None:
    """The function of the families that a node of a lowering's tree names, but for what gives operands a type."""
    if not isinstance(node, ast.Name) or node.id in lowering.__code__.co_varnames:
        return None
    other = lowering.__globals__.get(node.id)
    ours = inspect.isfunction(other) and re.match(
        r"pinnace\.(ops\.(mindspore|lite|ascend)\.|graph\.windows$)", other.__module__
    )
    return other if ours and other.__name__ not in ("beside", "floating", "is_float", "promoted") else None


def operators(lowering: Callable[..., Any], node: ast.AST, seen: tuple[object, ...] = ()) -> Iterator[str]:
    """The operators that a lowering and the functions that it calls name, in order."""
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        parts = [*parts[1:], node.func]
    for part in parts:
        yield from operators(lowering, part, seen)
    other = called(lowering, node)
    if other is not None and other not in seen:
        yield from operators(other, tree(other), (*seen, other))
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("b", "op"):
        name = {"reshape": "Reshape", "transpose": "Transpose"}.get(node.attr, node.attr)
        if name[0].isupper():
            yield name
    if isinstance(node, ast.Constant) and onnx.defs.has(str(node.value)):
        yield node.value


def evidence() -> dict[tuple[Dialect, str], Evidence]:
    """What the goldens show, by dialect and name of the row that serves them."""
    found: dict[tuple[Dialect, str], Evidence] = defaultdict(Evidence)
    formulas = by_formula()
    for path, program in programs():
        for function in program.functions.values():
            for node in function.nodes:
                row = find(program.dialect, node.primitive)
                if row is None:
                    continue
                seen = found[Dialect.MINDSPORE if shared(row) else row.dialect, row.name]
                seen.files.add(path.name + (" (by formula)" if path in formulas else ""))
                seen.types |= {t.dtype.name.lower() for t in node.types if t is not None}
    return found


def by_formula() -> set[Path]:
    """The goldens whose outputs are computed here; the README beside them lists them."""
    folder = GOLDENS / "ms_primitives"
    named = re.findall(r"`(\w+)`", (folder / "README.md").read_text(encoding="utf-8"))
    alone = {folder / f"{name}.ms" for name in named}
    parts = (GOLDENS / "distributed").glob("*.mindir")
    return alone | {path for path in parts if path.stem.rsplit("_", 2)[0] not in _RUN}


def programs() -> Iterator[tuple[Path, Program]]:
    """The goldens that are MindSpore programs."""
    for path in sorted([*GOLDENS.rglob("*.mindir"), *GOLDENS.rglob("*.ms")]):
        if path.parent.name in ("damaged", "encrypted", "converted", "later"):
            continue
        graph = formats.read(Source.of_file(path))
        if isinstance(graph, Program):
            yield path, graph


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render()))
