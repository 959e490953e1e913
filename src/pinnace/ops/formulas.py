'''Lowerings that are short expressions of ONNX operators, as rows of a text.

    formulas(
        __name__,
        """
        Elu EluExt: x, alpha: float = 1.0 -> Elu(x, alpha=alpha)
        AdjustContrastv2: images, contrast_factor ->
            mean = ReduceMean(images, [-3, -2], keepdims=1)
            (images - mean) * cast(contrast_factor, dtype(images)) + mean
        """,
    )

Before the colon stand the primitives, and after a semicolon arguments without effect on inference. Before
the arrow stand the lowering's parameters after the builder: tensors where no type is given, which may be
missing where the default is None (see `table`). After it a name that begins with a capital is an ONNX
operator, whose keywords are attributes; any other is one of the builder's methods, or a function that
`function` or `functions` gives to formulas. Python's operators are ONNX's where an operand is a tensor, and
its own between numbers. A number beside tensors takes the type of the first of them; in Where that of the
other choice. The value is that of the last line; lines before it name parts of it. A comment on the first
line says what the formula does.
'''

from __future__ import annotations

import ast
import inspect
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    ast.Mod: ("Mod", operator.mod),
    ast.Pow: ("Pow", operator.pow),
    ast.MatMult: ("MatMul", operator.matmul),
    ast.BitAnd: ("And", operator.and_),
    ast.BitOr: ("Or", operator.or_),
    ast.Eq: ("Equal", operator.eq),
    ast.Lt: ("Less", operator.lt),
    ast.LtE: ("LessOrEqual", operator.le),
    ast.Gt: ("Greater", operator.gt),
    ast.GtE: ("GreaterOrEqual", operator.ge),
    ast.Invert: ("Not", operator.invert),
    ast.USub: ("Neg", operator.neg),
}
_TESTS: Mapping[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
"""Comparisons that are Python's for tensors, too."""
_PLAIN: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "float": float,
    "len": len,
    "log": math.log,
    "max": max,
    "min": min,
    "range": range,
    "zip": zip,
}
"""Functions of numbers."""
_NAMES = {
    **{
        name: getattr(table, name)
        for name in ("Dims", "Dtype", "Floats", "Ints", "Items", "Tensor", "Tensors", "Value")
    },
    **{type_.__name__: type_ for type_ in (bool, float, int, str)},
    **{name: getattr(math, name) for name in ("inf", "nan", "pi")},
    **{dtype.name: dtype for dtype in ir.DataType},
}
"""The types of parameters, ONNX's element types, and numbers."""


def formulas(module: str, rows: str, dialect: Dialect = Dialect.MINDSPORE) -> None:
    """Enter the primitives of a text; `module` is the family's `__name__`."""
    for head, text in _rows(rows):
        names, _, unused = head.partition(";")
        table.primitive(*names.split(), dialect=dialect, unused=unused)(Formula(module, text))


def functions(module: str, rows: str) -> Iterator[Formula]:
    """Give the formulas of a text to others, each under its name; yields them in their order."""
    found = {name: Formula(module, text) for name, text in _rows(rows)}
    _FUNCTIONS.update(found)
    return iter(found.values())


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """The text before the colon of each row, and after it; rows begin where lines have the least indent."""
    for row in re.split(r"\n    (?=[^ #\n])", text)[1:]:
        head, _, rest = row.partition(": ")
        yield head, rest


class Formula:
    """A lowering, or a function, that is written as a formula."""

    def __init__(self, module: str, text: str) -> None:
        self._parameters, _, self._body = text.partition(" ->")
        first, _, _ = self._body.lstrip().partition("\n")
        self.__module__ = module
        self.__doc__ = first[2:] if first.startswith("# ") else f"`{' '.join(self._body.split())}`."

    @cached_property
    def _definition(self) -> ast.FunctionDef:
        (definition,) = ast.parse(f"def _({self._parameters}):{self._body}").body
        assert isinstance(definition, ast.FunctionDef)
        return definition

    @property
    def lines(self) -> Sequence[ast.stmt]:
        """What computes the value, which is that of the last line."""
        return self._definition.body

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """Parameters with types and defaults, by which arguments are bound."""
        given, defaults = self._definition.args, self._defaults
        kinds = inspect.Parameter
        rest = [(given.vararg, kinds.VAR_POSITIONAL)] if given.vararg else []
        parameters = [inspect.Parameter("b", kinds.POSITIONAL_OR_KEYWORD)]
        for a, kind in (
            *((a, kinds.POSITIONAL_OR_KEYWORD) for a in given.args),
            *rest,
            *((a, kinds.KEYWORD_ONLY) for a in given.kwonlyargs),
        ):
            default = defaults.get(a.arg, inspect.Parameter.empty)
            untyped = table.Tensor if default is not None else table.Tensor | None
            hint = _constant(a.annotation) if a.annotation else untyped
            parameters.append(inspect.Parameter(a.arg, kind, default=default, annotation=hint))
        return inspect.Signature(parameters)

    @cached_property
    def _defaults(self) -> dict[str, Value]:
        given = self._definition.args
        last = given.args[len(given.args) - len(given.defaults) :]
        pairs = [
            *zip(last, given.defaults, strict=True),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ]
        return {a.arg: _constant(default) for a, default in pairs if default is not None}

    def __call__(self, b: Builder, *arguments: Value, **named: Value) -> Value:
        """The value of the last line."""
        given = self._definition.args
        scope = self._defaults | dict(zip([a.arg for a in given.args], arguments, strict=False)) | named
        if given.vararg:
            scope[given.vararg.arg] = arguments[len(given.args) :]
        return _run(b, self.lines, scope)


def _constant(x: ast.expr) -> Value:
    return _value(Builder(), x, {})


def _run(b: Builder, lines: Sequence[ast.stmt], scope: dict[str, Value]) -> Value:
    """The value of the last line, after the names of those before it entered the scope."""
    value: Value = None
    for line in lines:
        match line:
            case ast.Assign([target], part):
                _assign(target, _value(b, part, scope), scope)
            case ast.For(target, numbers, body):
                for number in _value(b, numbers, scope):
                    _assign(target, number, scope)
                    _run(b, body, scope)
            case ast.Expr(part):
                value = _value(b, part, scope)
            case _:
                raise TypeError(f"a formula has the line {ast.unparse(line)}")
    return value


def _assign(target: ast.expr, value: Value, scope: dict[str, Value]) -> None:
    match target:
        case ast.Name(name):
            scope[name] = value
        case ast.Tuple(parts):
            for part, item in zip(parts, value, strict=True):
                _assign(part, item, scope)


def _value(b: Builder, x: ast.expr, scope: Mapping[str, Value]) -> Value:
    def value(part: ast.expr) -> Value:
        return _value(b, part, scope)

    match x:
        case ast.Constant():
            return x.value
        case ast.Name():
            return scope[x.id] if x.id in scope else _NAMES[x.id]
        case ast.List() | ast.Tuple():
            items = _items(b, x.elts, scope)
            return items if isinstance(x, ast.List) else tuple(items)
        case ast.UnaryOp(ast.Not(), operand):
            return not value(operand)
        case ast.UnaryOp():
            return _operated(b, x.op, value(x.operand))
        case ast.BinOp():
            return _operated(b, x.op, value(x.left), value(x.right))
        case ast.Compare(left, [sign], [right]):
            if type(sign) in _TESTS:
                return _TESTS[type(sign)](value(left), value(right))
            return _operated(b, sign, value(left), value(right))
        case ast.BoolOp(sign, parts):
            found: Value = None
            for part in parts:
                found = value(part)
                if bool(found) is isinstance(sign, ast.Or):
                    break
            return found
        case ast.IfExp():
            return value(x.body if value(x.test) else x.orelse)
        case ast.Subscript(of, ast.Slice(lower, upper, step)):
            return value(of)[slice(*(None if part is None else value(part) for part in (lower, upper, step)))]
        case ast.Subscript(of, place):
            return value(of)[value(place)]
        case ast.Call(ast.Name(name)):
            return _called(
                b, name, _items(b, x.args, scope), {k.arg: value(k.value) for k in x.keywords if k.arg}
            )
    raise TypeError(f"a formula has {ast.unparse(x)}")


def _items(b: Builder, parts: Sequence[ast.expr], scope: Mapping[str, Value]) -> list[Value]:
    items: list[Value] = []
    for part in parts:
        items += _value(b, part.value, scope) if isinstance(part, ast.Starred) else [_value(b, part, scope)]
    return items


def _operated(b: Builder, sign: ast.AST, *operands: Value) -> Value:
    op_type, between_numbers = _OPERATORS[type(sign)]
    if any(isinstance(operand, ir.Value) for operand in operands):
        return b.op(op_type, *operands)
    return between_numbers(*operands)


def _called(b: Builder, name: str, arguments: list[Value], named: dict[str, Any]) -> Value:
    if name in _PLAIN:
        return _PLAIN[name](*arguments, **named)
    if not name[0].isupper():
        called = _FUNCTIONS.get(name) or getattr(Builder, name)
        return called(b, *arguments, **named)
    if name == "Where":
        condition, first, second = arguments
        first = b.like(first, second) if isinstance(first, int | float) else first
        arguments = [condition, first, b.like(second, first) if isinstance(second, int | float) else second]
    return b.op(name, *arguments, **named)
