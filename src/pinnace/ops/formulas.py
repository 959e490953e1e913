"""Lowerings that are short expressions of ONNX operators, as rows of a table.

    formulas(__name__, {"CeLU": "x, alpha: float = 1.0 -> Elu(x / alpha) * alpha"})

Before the arrow stand a lowering's parameters after the builder, tensors where no type is given (see
`table`). After it a name that begins with a capital is an ONNX operator, whose keywords are attributes; any
other is one of the builder's methods, or a function that `function` gives to formulas. Python's operators are
ONNX's where an operand is a tensor, and its own between numbers. A number beside tensors takes the type of
the first of them; in Where that of the other choice. `name = part;` before the expression names a part of it.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import onnx_ir as ir

from pinnace.ops import table
from pinnace.ops.builder import Builder
from pinnace.ops.values import Value
from pinnace.program import Dialect

_FUNCTIONS: dict[str, Callable[..., Any]] = {}

_F = TypeVar("_F", bound=Callable[..., Any])


def function(f: _F) -> _F:
    """Give a function of a builder to formulas, under its own name."""
    _FUNCTIONS[f.__name__] = f
    return f


_OPERATORS: Mapping[type[ast.AST], tuple[str, Callable[..., Any]]] = {
    ast.Add: ("Add", operator.add),
    ast.Sub: ("Sub", operator.sub),
    ast.Mult: ("Mul", operator.mul),
    ast.Div: ("Div", operator.truediv),
    ast.Eq: ("Equal", operator.eq),
    ast.Lt: ("Less", operator.lt),
    ast.LtE: ("LessOrEqual", operator.le),
    ast.Gt: ("Greater", operator.gt),
    ast.Invert: ("Not", operator.invert),
    ast.USub: ("Neg", operator.neg),
}
_NAMES = {
    **{
        name: getattr(table, name)
        for name in ("Dims", "Dtype", "Floats", "Ints", "Items", "Tensor", "Tensors", "Value")
    },
    **{dtype.name: dtype for dtype in ir.DataType},
}
"""The types of parameters, and ONNX's element types."""


def formulas(module: str, rows: Mapping[str, str], dialect: Dialect = Dialect.MINDSPORE) -> None:
    """Enter primitives, names parted by blanks -> formula; `module` is the family's `__name__`.

    Behind a semicolon names are those of arguments without effect on inference.
    """
    for names, text in rows.items():
        names, _, unused = names.partition(";")
        table.primitive(*names.split(), dialect=dialect, unused=unused)(Formula(module, text))


class Formula:
    """A lowering that is written as a formula."""

    def __init__(self, module: str, text: str) -> None:
        self._parameters, _, self.expression = text.partition(" -> ")
        self.__module__, self.__doc__ = module, f"`{self.expression}`."

    @cached_property
    def _lines(self) -> list[ast.stmt]:
        return ast.parse(self.expression).body

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """Parameters with types and defaults, by which arguments are bound."""
        scope: dict[str, Any] = {}
        exec(f"def _(b, {self._parameters}): ...", {**_NAMES}, scope)
        parameters = inspect.signature(scope["_"], eval_str=True).parameters.values()
        untyped = inspect.Parameter.empty
        return inspect.Signature(
            [p.replace(annotation=table.Tensor) if p.annotation is untyped else p for p in parameters]
        )

    def __call__(self, b: Builder, *arguments: Value, **named: Value) -> Value:
        """The value of the last line."""
        bound = self.__signature__.bind(b, *arguments, **named)
        bound.apply_defaults()
        scope = dict(bound.arguments)
        for line in self._lines:
            match line:
                case ast.Assign([ast.Name(name)], part):
                    scope[name] = _value(b, part, scope)
                case ast.Expr(part):
                    return _value(b, part, scope)
        raise TypeError(f"the formula {self.expression!r} has no value")


def _value(b: Builder, x: ast.expr, scope: Mapping[str, Value]) -> Value:
    def value(part: ast.expr) -> Value:
        return _value(b, part, scope)

    match x:
        case ast.Constant():
            return x.value
        case ast.Name():
            return scope[x.id] if x.id in scope else _NAMES[x.id]
        case ast.List() | ast.Tuple():
            items = [value(item) for item in x.elts]
            return items if isinstance(x, ast.List) else tuple(items)
        case ast.UnaryOp():
            return _operated(b, x.op, value(x.operand))
        case ast.BinOp():
            return _operated(b, x.op, value(x.left), value(x.right))
        case ast.Compare():
            return _operated(b, x.ops[0], value(x.left), value(x.comparators[0]))
        case ast.BoolOp(ast.Or()):
            return next((v for v in map(value, x.values[:-1]) if v), None) or value(x.values[-1])
        case ast.IfExp():
            return value(x.body if value(x.test) else x.orelse)
        case ast.Call(ast.Name(name)):
            arguments: list[Value] = []
            for part in x.args:
                arguments += value(part.value) if isinstance(part, ast.Starred) else [value(part)]
            return _called(b, name, arguments, {k.arg: value(k.value) for k in x.keywords if k.arg})
    raise TypeError(f"a formula has {ast.unparse(x)}")


def _operated(b: Builder, sign: ast.AST, *operands: Value) -> Value:
    op_type, between_numbers = _OPERATORS[type(sign)]
    if any(isinstance(operand, ir.Value) for operand in operands):
        return b.op(op_type, *operands)
    return between_numbers(*operands)


def _called(b: Builder, name: str, arguments: list[Value], named: dict[str, Any]) -> Value:
    if not name[0].isupper():
        called = _FUNCTIONS.get(name) or getattr(Builder, name)
        return called(b, *arguments, **named)
    if name == "Where":
        condition, first, second = arguments
        first = b.like(first, second) if isinstance(first, int | float) else first
        arguments = [condition, first, b.like(second, first) if isinstance(second, int | float) else second]
    return b.op(name, *arguments, **named)
