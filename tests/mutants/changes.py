"""The changes: expressions and statements of a module, and what stands in their place."""

from __future__ import annotations

import ast
import copy
import linecache
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.And: ast.Or, ast.Or: ast.And, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_FOR_PEOPLE = {
    "warn", "debug", "info", "warning", "note", "stage", "Unsupported", "TypeVar", "Option", "Argument",
    "help",
}  # fmt: skip
"""Calls whose arguments are text that people read."""
_WITHOUT_RESULT = {"watch", "debug", "sleep", "collect"}
"""Calls on which no result depends: how far it is, notes for a search for faults, waits, collections."""
_SHOWS = {"__repr__", "__rich_repr__", "_repr_html_"}
"""Methods that make text for people."""


@dataclass(frozen=True)
class Change:
    """The change number `number` of a module, in the statement that begins in `lines`."""

    path: Path
    number: int
    lines: range
    text: str

    def __str__(self) -> str:
        line = linecache.getline(str(self.path), self.lines[0]).strip()
        return f"{self.path}:{self.lines[0]}: {line[:80]}:  {self.text}"

    def apply(self) -> str:
        """Return the module's source with the change."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        site = next(islice(_sites(tree), self.number, None))
        site.put()
        return ast.unparse(ast.fix_missing_locations(tree))


@dataclass(frozen=True)
class _Site:
    """A node and its replacement, None for a statement or row that goes."""

    parent: ast.AST
    field: str
    place: int | None
    old: ast.AST
    new: ast.AST | None
    lines: range

    def __str__(self) -> str:
        before = " ".join(ast.unparse(self.old).split())
        after = " ".join(ast.unparse(self.new).split()) if self.new else "gone"
        start = next((i for i, (x, y) in enumerate(zip(before, after, strict=False)) if x != y), 0)
        start = max(0, start - 40)
        return f"{before[start : start + 90]}  =>  {after[start : start + 90]}"

    def put(self) -> None:
        """Change the tree."""
        if self.place is None:
            setattr(self.parent, self.field, self.new)
        elif isinstance(self.parent, ast.Dict) and self.new is None:
            del self.parent.keys[self.place], self.parent.values[self.place]
        else:
            getattr(self.parent, self.field)[self.place] = self.new or ast.Pass()


def changes(path: Path) -> list[Change]:
    """Return all changes of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [Change(path, i, site.lines, str(site)) for i, site in enumerate(_sites(tree))]


def _sites(tree: ast.AST) -> Iterator[_Site]:
    waiting: list[tuple[ast.AST, range]] = [(tree, range(1, 2))]
    while waiting:
        parent, lines = waiting.pop()
        for field, place, node in _children(parent):
            at = _lines(node) if isinstance(node, ast.stmt) else lines
            yield from (_Site(parent, field, place, node, new, at) for new in _replacements(parent, node))
            waiting.append((node, at))


def _children(parent: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    """Yield the nodes in a node that run and are no text for people, with their places."""
    for field, value in ast.iter_fields(parent):
        if field in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        if isinstance(value, list):
            nodes = ((i, x) for i, x in enumerate(value) if isinstance(x, ast.AST))
            yield from ((field, i, x) for i, x in nodes if _runs(x) and not _is_the_rest(parent, x))
        elif isinstance(value, ast.AST) and _runs(value):
            yield field, None, value


def _runs(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return False
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Expr(value=ast.Constant()):
            return False
        case ast.FunctionDef(name=name) if name in _SHOWS:
            return False
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if (
            name in _WITHOUT_RESULT
        ):
            return False
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.keyword(arg="strict"):
            return False
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name not in _FOR_PEOPLE and not name.endswith("Error")
    return True


def _is_the_rest(call: ast.AST, argument: ast.AST) -> bool:
    """Return True for the -1 of numpy's reshape, for which any negative number does."""
    match call, argument:
        case ast.Call(func=ast.Attribute(attr="reshape")), ast.UnaryOp(op=ast.USub()):
            return True
    return False


def _lines(statement: ast.stmt) -> range:
    """Return the lines of a simple statement, and of the head of a compound one."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(last, statement.lineno) + 1)


def _replacements(parent: ast.AST, node: ast.AST) -> Iterator[ast.AST | None]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in _SWAPS:
            yield _with(node, op=_SWAPS[type(op)]())
        case ast.Compare(ops=[op]) if type(op) in _SWAPS:
            yield _with(node, ops=[_SWAPS[type(op)]()])
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(test=test, body=body, orelse=other):
            yield ast.IfExp(test, other, body)
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() if isinstance(parent, ast.stmt):
            yield None
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
    if isinstance(parent, ast.Dict) and node in parent.keys:
        yield None  # the row


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def chosen(paths: list[Path], count: int, seed: int) -> list[Change]:
    """Return changes at random, one of a statement at the most."""
    every = [change for path in paths for change in changes(path)]
    random.Random(seed).shuffle(every)
    found: dict[tuple[Path, int], Change] = {}
    for change in every:
        found.setdefault((change.path, change.lines[0]), change)
    return list(found.values())[:count]
