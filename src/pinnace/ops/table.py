"""The primitive table: what a primitive means, looked up by dialect and name.

A lowering is a function of a `Builder` and the primitive's arguments, named as MindSpore names them:

    @primitive("Gather")
    def gather(b: Builder, params: Tensor, indices: Tensor, axis: int, batch_dims: int = 0) -> Value:
        \"\"\"Gather; with batch_dims > 0 GatherND.\"\"\"

Arguments are bound by position from the node's inputs, then by name from its attributes: MindSpore has
moved arguments from attributes to inputs over its versions, and this reads both. The annotation says
what the lowering needs:

* `Tensor`: an `onnx_ir.Value`; a Python scalar becomes a constant.
* `int`, `float`, `bool`, `str`: known now; an argument that only the run knows is refused by name.
* `Ints`, `Floats`: a tuple of them known now; one number stands for a tuple of one.
* `Dims`: a tuple whose elements are ints or scalar tensors (a shape that may be dynamic).
* `Tensors`: a tuple of tensors.
* `Dtype`: an element type known now.
* `Value`: whatever it is.

Any of them may be `| None`. An argument after `*` comes from the attributes alone; an underscore at the
end of a name (`global_`) is for Python and no part of it. The docstring's first line is the operator
table's column "lowered to".
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Any

import onnx_ir as ir

from pinnace.ops.builder import Builder, Unsupported
from pinnace.ops.values import Value
from pinnace.program import Dialect

Tensor = ir.Value
Tensors = tuple[ir.Value, ...]
Ints = tuple[int, ...]
Floats = tuple[float, ...]
Dims = tuple[int | ir.Value, ...]
Dtype = ir.DataType

Lowering = Callable[..., Value]

_CONVERT: dict[Any, str] = {
    Tensor: "tensor",
    Tensors: "tensors",
    int: "int_",
    float: "float_",
    bool: "bool_",
    str: "str_",
    Ints: "ints",
    Floats: "floats",
    Dims: "dims",
    ir.DataType: "dtype_",
}


@dataclass(frozen=True)
class _Parameter:
    name: str
    convert: str | None
    optional: bool
    default: Any
    kind: Any
    keyword: str


@dataclass(frozen=True)
class Primitive:
    """One row of the table."""

    name: str
    dialect: Dialect | None
    lowering: Lowering

    @property
    def lowered_to(self) -> str:
        """How it is lowered, in one line."""
        return (inspect.getdoc(self.lowering) or "").partition("\n")[0]

    @property
    def family(self) -> str:
        """The module that defines it."""
        return self.lowering.__module__.rpartition(".")[2]

    @cached_property
    def _parameters(self) -> tuple[_Parameter, ...]:
        hints = typing.get_type_hints(self.lowering)
        parameters = list(inspect.signature(self.lowering).parameters.values())[1:]
        return tuple(_parameter(p, hints.get(p.name, Any)) for p in parameters)

    def lower(self, b: Builder, inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Value:
        """Emit the ONNX nodes of one application and return its value.

        Raises `Unsupported` where an argument is missing or of a kind that cannot be lowered.
        """
        bound: list[Any] = []
        named: dict[str, Any] = {}
        rest = list(inputs)
        for p in self._parameters:
            if p.kind is inspect.Parameter.VAR_POSITIONAL:
                bound += [_convert(b, p, value) for value in rest]
                rest = []
            elif p.kind is inspect.Parameter.KEYWORD_ONLY:
                named[p.keyword] = _attribute(b, p, attributes)
            else:
                bound.append(_convert(b, p, rest.pop(0)) if rest else _attribute(b, p, attributes))
        if any(isinstance(value, ir.Value) for value in rest):
            raise Unsupported(f"has {len(inputs)} inputs, and only {len(inputs) - len(rest)} are understood")
        return self.lowering(b, *bound, **named)


def _parameter(p: inspect.Parameter, hint: Any) -> _Parameter:
    optional = False
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        members = [m for m in typing.get_args(hint) if m is not NoneType]
        optional = len(members) < len(typing.get_args(hint))
        hint = members[0] if len(members) == 1 else Any
    return _Parameter(p.name.rstrip("_"), _CONVERT.get(hint), optional, p.default, p.kind, p.name)


def _attribute(b: Builder, p: _Parameter, attributes: Mapping[str, Any]) -> Any:
    if p.name in attributes:
        return _convert(b, p, attributes[p.name])
    if p.default is not inspect.Parameter.empty:
        return p.default
    if p.optional:
        return None
    raise Unsupported(f"argument {p.name!r} is missing")


def _convert(b: Builder, p: _Parameter, value: Value) -> Any:
    if p.convert is None or (value is None and p.optional):
        return value
    try:
        return getattr(b, p.convert)(value)
    except Unsupported as error:
        raise Unsupported(f"argument {p.name!r} {error}") from None


_TABLE: dict[tuple[Dialect | None, str], Primitive] = {}


def primitive(*names: str, dialect: Dialect | None = None) -> Callable[[Lowering], Lowering]:
    """Enter a lowering into the table under one or more names.

    `dialect` None is for every dialect; a row of the dialect itself goes before it.
    """

    def enter(lowering: Lowering) -> Lowering:
        for name in names:
            if (dialect, name) in _TABLE:
                raise ValueError(f"{name} is defined twice for dialect {dialect}")
            _TABLE[dialect, name] = Primitive(name, dialect, lowering)
        return lowering

    return enter


def same(module: str, names: Mapping[str, str], dialect: Dialect | None = None) -> None:
    """Enter primitives that are one ONNX operator with the same inputs: MindSpore's name -> ONNX's.

    `module` is the family's `__name__`.
    """
    for name, op_type in names.items():
        primitive(name, dialect=dialect)(_one_operator(module, op_type))


def _one_operator(module: str, op_type: str) -> Lowering:
    def lowering(b: Builder, *inputs: Tensor) -> Value:
        return b.op(op_type, *inputs)

    lowering.__doc__ = f"{op_type}."
    lowering.__module__ = module
    return lowering


def find(dialect: Dialect, name: str) -> Primitive | None:
    """The row for a primitive, or None where Pinnace does not know it."""
    return _TABLE.get((dialect, name)) or _TABLE.get((None, name))


def rows() -> Iterator[Primitive]:
    """All rows, in order of name."""
    return iter(sorted(_TABLE.values(), key=lambda row: (row.name, str(row.dialect))))
