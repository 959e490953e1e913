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

Before the colon stand the primitives, in brackets what is special to each, its first parameters, and after a
semicolon arguments without effect on inference. Before the arrow stand the lowering's parameters after the
builder: tensors where no type is given, which may be missing where the default is None (see `table`). After
it a name that begins with a capital is an ONNX operator, whose keywords are attributes; any other is one of
the builder's methods, a function that `function` or `functions` gives to formulas, or a function of numbers.
Python's operators are ONNX's where an operand is a tensor, and its own between numbers. A number beside
tensors takes the type of the first of them; in Where that of the other choice. The value is that of the last
line; lines before it name parts of it. After `if`, which asks for what is known, stands the value where that
holds, or `raise`. Constants are those of the module. A comment on the first line says what the formula does.
'''

from __future__ import annotations

import ast
import inspect
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import onnx_ir as ir

from pinnace.ops import binding, table
from pinnace.ops.builder import Builder
from pinnace.ops.room import room, span
from pinnace.ops.values import Unsupported, Value
from pinnace.program import Dialect

_NOTHING = ast.Expr(ast.Constant(None))
"""The last line of a loop, which has no value."""
_Scope = dict[str, Value]
_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {}
"""Functions of a builder by module, "" for all modules, and name."""

_F = TypeVar("_F", bound=Callable[..., Any])


def function(f: _F) -> _F:
    """Give a function of a builder to formulas under its name: to all of them, or to its module's.

    That of a module begins with an underscore, which formulas leave out.
    """
    private = f.__name__.startswith("_")
    _give(f.__module__ if private else "", f.__name__.strip("_"), f)
    return f


def _give(module: str, name: str, f: Callable[..., Any]) -> None:
    if (module, name) in _FUNCTIONS or hasattr(Builder, name):
        raise ValueError(f"a function of formulas is defined twice: {name}")
    _FUNCTIONS[module, name] = f


function(binding.tensors)

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
    ast.NotEq: ("Equal", operator.ne),
    ast.Lt: ("Less", operator.lt),
    ast.LtE: ("LessOrEqual", operator.le),
    ast.Gt: ("Greater", operator.gt),
    ast.GtE: ("GreaterOrEqual", operator.ge),
    ast.Invert: ("Not", operator.invert),
    ast.USub: ("Neg", operator.neg),
}
_PYTHONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.FloorDiv: operator.floordiv,
    ast.Not: operator.not_,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
"""Operators that are Python's for tensors, too."""
_PLAIN: Mapping[str, Callable[..., Any]] = {
    **{
        f.__name__: f
        for f in (
            *(abs, all, bool, enumerate, float, int, isinstance, len, max, min, range, reversed),
            *(sorted, tuple, zip),
        )
    },
    **{f.__name__: f for f in (math.log, math.prod, room, span)},
}
"""Functions of numbers."""
_NAMES = {
    **{
        name: getattr(table, name)
        for name in ("Dims", "Dtype", "Floats", "Ints", "Items", "OneOf", "Tensor", "Tensors", "Value")
    },
    **{type_.__name__: type_ for type_ in (bool, float, int, str, tuple)},
    "Literal": Literal,
    **{name: getattr(math, name) for name in ("inf", "nan", "pi")},
    "np": np,
    **{dtype.name: dtype for dtype in ir.DataType},
}
"""The types of parameters, ONNX's element types, numbers and numpy."""


def formulas(
    module: str, rows: str, dialect: Dialect = Dialect.MINDSPORE, of_wider_type: bool = False
) -> None:
    """Enter the primitives of a text; `module` is the family's `__name__`.

    `of_wider_type` is for primitives of two operands that may differ in type: both get the wider one.
    """
    for head, text in rows_of(rows):
        names, _, unused = head.partition(";")
        formula = Formula(module, text)
        if of_wider_type:
            table.primitives({names: formula}, dialect, unused)(_promoted)
            continue
        for name, special in names_of(names):
            table.primitives({name: special}, dialect, unused)(formula)


def names_of(text: str) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the names before a colon, each with what is special to it."""
    for name, given in re.findall(r"(\w+)(\(.*?\))?", text):
        yield name, ast.literal_eval(f"{given[:-1]},)") if given else ()


def _promoted(b: Builder, formula: Formula, x: Value, y: Value) -> Value:
    """{formula.__doc__}"""
    return formula(b, *_FUNCTIONS["", "promoted"](b, x, y))


def functions(module: str, rows: str, public: bool = False) -> list[Formula]:
    """Give the formulas of a text to the others of the module, or of all, each under its name.

    Returns them in their order.
    """
    found = {name: Formula(module, text) for name, text in rows_of(rows)}
    for name, formula in found.items():
        _give("" if public else module, name, formula)
    return list(found.values())


def called(b: Builder, name: str, *arguments: Value) -> Value:
    """The value of a function that formulas of all modules may call."""
    return _FUNCTIONS["", name](b, *arguments)


def rows_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text before the colon of each row, and after it; rows begin at the least indent."""
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
        """The lines of the formula; its value is that of the last one."""
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
            hint = self._constant(a.annotation) if a.annotation else untyped
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
        return {a.arg: self._constant(default) for a, default in pairs if default is not None}

    @cached_property
    def _names(self) -> list[str]:
        return [a.arg for a in self._definition.args.args]

    def _constant(self, x: ast.expr) -> Value:
        return _value(Builder(), x, _constants(self.__module__))

    def __call__(self, b: Builder, *arguments: Value, **named: Value) -> Value:
        """The value of the last line."""
        bound = {**_constants(self.__module__), **self._defaults, **named}
        bound.update(zip(self._names, arguments, strict=False))
        rest = self._definition.args.vararg
        if rest:
            bound[rest.arg] = arguments[len(self._names) :]
        return _run(b, self.lines, bound)


@cache
def _constants(module: str) -> _Scope:
    """The names that formulas of a module may use, beside their own."""
    return {**vars(sys.modules[module]), **_NAMES}


def _run(b: Builder, lines: Sequence[ast.stmt], scope: _Scope) -> Value:
    """The value of the last line, after the names of those before it entered the scope."""
    *before, last = lines
    for line in before:
        match line:
            case ast.Assign([target], part):
                _assign(target, _value(b, part, scope), scope)
            case ast.For(target, numbers, body):
                for number in _value(b, numbers, scope):
                    _assign(target, number, scope)
                    _run(b, [*body, _NOTHING], scope)
            case ast.If(test, body):
                if _value(b, test, scope):
                    return _run(b, body, scope)
            case _:
                raise TypeError(f"a formula has the line {ast.unparse(line)}")
    match last:
        case ast.Expr(part) | ast.Return(ast.expr() as part):
            return _value(b, part, scope)
        case ast.Raise(ast.Call(ast.Name("Unsupported"), [reason])):
            raise Unsupported(_value(b, reason, scope))
    raise TypeError(f"a formula ends with {ast.unparse(last)}")


def _assign(target: ast.expr, value: Value, scope: _Scope) -> None:
    match target:
        case ast.Name(name):
            scope[name] = value
        case ast.Tuple(parts):
            for part, item in zip(parts, value, strict=True):
                _assign(part, item, scope)
        case _:
            raise TypeError(f"a formula assigns to {ast.unparse(target)}")


def _value(b: Builder, x: ast.expr, scope: _Scope) -> Value:
    def value(part: ast.expr) -> Value:
        return _value(b, part, scope)

    match x:
        case ast.Name():
            return scope[x.id]
        case ast.Constant():
            return x.value
        case ast.Call(function):
            named = {k.arg: value(k.value) for k in x.keywords if k.arg}
            return _called(b, function, _items(b, x.args, scope), named, scope)
        case ast.List() | ast.Tuple():
            items = _items(b, x.elts, scope)
            return items if isinstance(x, ast.List) else tuple(items)
        case ast.UnaryOp():
            return _operated(b, x.op, value(x.operand))
        case ast.BinOp():
            return _operated(b, x.op, value(x.left), value(x.right))
        case ast.Compare(left, [sign], [right]):
            return _operated(b, sign, value(left), value(right))
        case ast.IfExp():
            return value(x.body if value(x.test) else x.orelse)
        case ast.Slice(lower, upper, step):
            return slice(*(None if part is None else value(part) for part in (lower, upper, step)))
        case ast.Subscript(of, place):
            return value(of)[value(place)]
        case ast.Attribute(of, name):
            return getattr(value(of), name)
    return _of_parts(b, x, scope)


def _of_parts(b: Builder, x: ast.expr, scope: _Scope) -> Value:
    """The value of what repeats its parts, or stops among them."""

    def value(part: ast.expr) -> Value:
        return _value(b, part, scope)

    match x:
        case ast.BoolOp(sign, parts):
            found: Value = None
            for part in parts:
                found = value(part)
                if bool(found) is isinstance(sign, ast.Or):
                    break
            return found
        case ast.ListComp(part, [ast.comprehension(target, numbers, tests)]):
            found = []
            for number in value(numbers):
                _assign(target, number, scope)
                if all(map(value, tests)):
                    found.append(value(part))
            return found
        case ast.JoinedStr(parts):
            return "".join(str(value(part)) for part in parts)
        case ast.FormattedValue(part):
            return value(part)
    raise TypeError(f"a formula has {ast.unparse(x)}")


def _items(b: Builder, parts: Sequence[ast.expr], scope: _Scope) -> list[Value]:
    items: list[Value] = []
    for part in parts:
        items += _value(b, part.value, scope) if isinstance(part, ast.Starred) else [_value(b, part, scope)]
    return items


def _operated(b: Builder, sign: ast.AST, *operands: Value) -> Value:
    if type(sign) in _PYTHONS:
        return _PYTHONS[type(sign)](*operands)
    op_type, between_numbers = _OPERATORS[type(sign)]
    if not any(isinstance(operand, ir.Value) for operand in operands):
        return between_numbers(*operands)
    result = b.op(op_type, *operands)
    return b.op("Not", result) if isinstance(sign, ast.NotEq) else result


def _called(
    b: Builder, function: ast.expr, arguments: list[Value], named: dict[str, Value], scope: _Scope
) -> Value:
    name = function.id if isinstance(function, ast.Name) else ""
    if name[:1].isupper():
        return _written(b, name, arguments, named)
    own = _FUNCTIONS.get((scope["__name__"], name))
    of_builder = own or _FUNCTIONS.get(("", name)) or getattr(type(b), name, None)
    if of_builder is not None:
        return of_builder(b, *arguments, **named)
    return (_PLAIN.get(name) or _value(b, function, scope))(*arguments, **named)


def _written(b: Builder, op_type: str, operands: list[Value], attributes: dict[str, Value]) -> Value:
    if op_type == "Where":
        condition, first, second = operands
        first = b.like(first, second) if isinstance(first, int | float) else first
        operands = [condition, first, b.like(second, first) if isinstance(second, int | float) else second]
    return b.op(op_type, *operands, **attributes)
