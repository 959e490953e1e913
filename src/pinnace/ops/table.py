"""The primitive table: what a primitive means, looked up by dialect and name.

A lowering is a function of a `Builder` and the primitive's arguments, named as MindSpore names them:

    @primitive("Gather")
    def gather(op: Builder, params: Tensor, indices: Tensor, axis: int, batch_dims: int = 0) -> Value:
        ...

Arguments are bound by position from the node's inputs, then by name from its attributes: MindSpore has
moved arguments from attributes to inputs over its versions, and this reads both. The annotation says
what the lowering needs:

* `Tensor`: an `onnx_ir.Value`; a Python scalar becomes a constant.
* `int`, `float`, `bool`, `str`: known now; an argument known only at run time is refused by name.
* `Ints`, `Floats`: a tuple of them known now; one number stands for a tuple of one.
* `Pairs`: a tuple of pairs of ints, as of what is added before and after each dimension.
* `Dims`: a tuple whose elements are ints or scalar tensors (a shape that may be dynamic).
* `Tensors`: a tuple of tensors.
* `Items`: a tuple of whatever it holds.
* `Dtype`: an element type known now.
* `Literal[...]`: one of these values; `Annotated[str, table]`: a key of a table, of which it becomes
  the value. Other values are refused by name.
* `Value`: whatever it is.

What a lowering neither takes nor names in `unused=`, as without effect on inference, must have the default of
the primitive's signature (`ops/signatures.py`); a parameter that it takes to ignore is named there, too.

Any of them may be `| None`. A parameter without an annotation is a tensor, or of the type of its default: a
lowering in one line is a lambda in a table (`formulas`). Arguments that several lowerings take together are
a class derived from `Arguments`: its fields are bound as if they stood in its place. An argument after `*`
comes by name: from the attributes, or from the inputs after those that are taken by position, which the
primitive's signature names. So a lowering with many inputs takes those that it needs, and the rest are
checked as above. An underscore at the end of a name (`global_`) is for Python and no part of it. A family of
primitives is one lowering with a table (`primitives`). A lowering has a docstring where it says more than its
name and its operators do; the operator table shows its first line (`tools/pages/make_operator_table.py`).
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
import onnx_ir as ir

from pinnace.errors import warn
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.operators import writing
from pinnace.ops import binding, signatures
from pinnace.ops.values import Effects, Value
from pinnace.program import Dialect

Tensor = ir.Value
Tensors = tuple[ir.Value, ...]
Ints = tuple[int, ...]
Floats = tuple[float, ...]
Pairs = tuple[tuple[int, int], ...]
Dims = tuple[int | ir.Value, ...]
Items = tuple[Value, ...]
Dtype = ir.DataType

Lowering = Callable[..., Value]
_BY_NAME, _ALL_OTHERS = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL
_L = TypeVar("_L", bound=Lowering)

_CONVERT: dict[Any, Callable[[Builder, Value], Value]] = {
    Tensor: Builder.tensor,
    Tensors: binding.tensors,
    int: binding.int_,
    float: binding.float_,
    bool: binding.bool_,
    str: binding.str_,
    Ints: binding.ints,
    Floats: binding.floats,
    Pairs: binding.pairs,
    Dims: binding.dims,
    Items: binding.items,
    ir.DataType: binding.dtype_,
}


def _chosen(table: Mapping[object, Value], b: Builder, value: Value) -> Value:
    key = _CONVERT[type(next(iter(table)))](b, value)
    if key not in table:
        raise Unsupported(f"is {key!r}, and supported are only {', '.join(map(repr, table))}")
    return table[key]


_NAMES = """
format data_format, dim dims axis, keep_dims keepdim, op op_type, reduce reduction, return_inverse return_idx,
kernel_size ksize ksizes, stride strides, dilation dilations, padding pads, output_size output_shape,
group groups, transpose_a transpose_x1 adj_x1, transpose_b transpose_x2 adj_x2, adjoint_st adjoint_a,
adjoint_dt adjoint_b
"""
"""Names that MindSpore has given to one argument, in its versions, and in its export."""


def _also(name: str) -> Sequence[str]:
    return next((names.split() for names in _NAMES.split(",") if name in names.split()), (name,))


@typing.dataclass_transform(kw_only_default=True)
class Arguments:
    """Base of the classes that stand for several arguments of a lowering, each a field with its default.

    They are no dataclasses only because making these would take half a millisecond each at every import.
    """

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)

    def but(self, **changes: object) -> Self:
        """The same with other values of some fields."""
        return type(self)(**{**self.__dict__, **changes})


class _Parameter(NamedTuple):
    name: str
    convert: Callable[[Builder, Value], Value] | None
    optional: bool
    default: Value
    kind: inspect._ParameterKind
    keyword: str
    names: tuple[str, ...]
    """Those of the attribute that it may be: its own, then others; of a record those of its fields."""
    record: type[Arguments] | None = None
    fields: tuple[_Parameter, ...] = ()


@dataclass(frozen=True)
class Primitive:
    """One row of the table."""

    name: str
    dialect: Dialect
    lowering: Lowering
    unused: frozenset[str] = frozenset()
    """Arguments without effect on inference, taken or not."""
    given: tuple[object, ...] = ()
    """The first parameters of the lowering, after the builder, in a family."""

    @property
    def family(self) -> str:
        return self.lowering.__module__.rpartition(".")[2]

    @cached_property
    def _parameters(self) -> tuple[_Parameter, ...]:
        signature = inspect.signature(self.lowering, eval_str=True)
        parameters = list(signature.parameters.values())[1 + len(self.given) :]
        return tuple(_parameter(p, p.annotation, {q.name for q in parameters}) for p in parameters)

    @cached_property
    def taken(self) -> frozenset[str]:
        names = {name for p in self._parameters for name in p.names}
        return signatures.WITHOUT_EFFECT | self.unused | names

    @cached_property
    def _by_name(self) -> frozenset[str]:
        return frozenset(name for p in self._parameters if p.kind is _BY_NAME for name in p.names)

    def lower(self, b: Builder, inputs: Sequence[Value], attributes: Mapping[str, Value]) -> Value:
        """Emit the ONNX nodes of one application and return its value.

        Raises `Unsupported` where an argument is missing, of a kind that cannot be lowered, or says what the
        lowering would leave out.
        """
        bound: list[Value] = []
        named: dict[str, Value] = {}
        rest = list(inputs)
        by_name = attributes

        def value_of(p: _Parameter) -> Value:
            if p.record is not None:
                return p.record(**{field.keyword: value_of(field) for field in p.fields})
            return _convert(b, p, rest.pop(0)) if rest else _attribute(b, p, by_name)

        for p in self._parameters:
            if p.kind is _ALL_OTHERS:
                bound += [_convert(b, p, value) for value in rest]
                rest = []
            elif p.kind is _BY_NAME:
                if rest:
                    self._check_surplus(b, inputs, len(inputs) - len(rest))
                    by_name, rest = {**attributes, **self._named(inputs, len(inputs) - len(rest))}, []
                named[p.keyword] = value_of(p)
            else:
                bound.append(value_of(p))
        if rest:
            self._check_surplus(b, inputs, len(inputs) - len(rest))
        for name in attributes:
            if name not in self.taken:
                self._check_attribute(b, name, attributes[name])
        with writing(b):
            return self.lowering(b, *self.given, *bound, **named)

    def _named(self, inputs: Sequence[Value], taken: int) -> dict[str, Value]:
        """The inputs after those that are taken by position, by the names that the signature gives them."""
        signature = signatures.find(self.dialect, self.name)
        names = list(signature.inputs)[taken:] if signature else []
        pairs = zip(names, inputs[taken:], strict=False)
        return {name: value for name, value in pairs if not isinstance(value, Effects)}

    def _check_surplus(self, b: Builder, inputs: Sequence[Value], taken: int) -> None:
        """Refuse an input that the lowering takes neither by position nor by name, unless it says nothing."""
        signature = signatures.find(self.dialect, self.name)
        known = list(signature.inputs.items()) if signature else []
        for i, value in enumerate(inputs[taken:], taken):
            name, default = known[i] if i < len(known) else ("", signatures.GIVEN)
            if name in self.unused or name in self._by_name or isinstance(value, Effects):
                continue
            if not name and value is not None:
                raise Unsupported(f"has {len(inputs)} inputs, but only {taken} are known")
            _check(b, "argument", name, value, default)

    def _check_attribute(self, b: Builder, name: str, value: Value) -> None:
        """Refuse an attribute that the lowering does not take, unless it says nothing."""
        signature = signatures.find(self.dialect, self.name)
        known: Mapping[str, object] = signature.defaults if signature else {}
        given = next((n for n in (name, *_also(name)) if n in known), None)
        if given is not None:
            _check(b, "attribute", name, value, known[given])
        elif value is not None and (signature is None or self.dialect is Dialect.MINDSPORE):
            # MindSpore Lite's runtime sees nothing but what the schema has.
            if signature is None or signatures.is_argument(name):
                raise Unsupported(f"has an attribute {name!r} ({value!r}), which Pinnace does not know")
            warn(f"{self.name} has an attribute {name!r} ({value!r}) that no primitive takes: it is ignored")


def _check(b: Builder, kind: str, name: str, value: Value, default: object) -> None:
    """Refuse an argument that is not what it is where nobody gives it."""
    if value is None or default is signatures.DERIVED:
        return
    known = b.known(value)
    given = f"{kind} {name!r} is {'known only during the run' if known is None else repr(known)}"
    if default is signatures.GIVEN:
        raise Unsupported(f"{given}, which is not supported")
    if known is None or not signatures.same(known, default):
        shown = next(iter(default)) if isinstance(default, dict) else default
        raise Unsupported(f"{given}, and only its default, {shown!r}, is supported")


def _parameter(p: inspect.Parameter, hint: Any, all_names: set[str]) -> _Parameter:
    optional = False
    if hint is inspect.Parameter.empty:
        hint = Tensor if p.default is inspect.Parameter.empty else type(p.default)
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        members = [m for m in typing.get_args(hint) if m is not NoneType]
        optional = len(members) < len(typing.get_args(hint))
        hint = members[0] if len(members) == 1 else Any
    name = p.name.strip("_")
    if isinstance(hint, type) and issubclass(hint, Arguments):
        fields = _fields(hint, p.kind, all_names)
        names = tuple(n for field in fields for n in field.names)
        return _Parameter(name, None, False, p.default, p.kind, p.name, names, hint, fields)
    names = (name, *(n for n in _also(name) if n not in all_names))
    return _Parameter(name, _converter(hint), optional, p.default, p.kind, p.name, names)


def _converter(hint: Any) -> Callable[[Builder, Value], Value] | None:
    if typing.get_origin(hint) is Annotated:
        return partial(_chosen, *hint.__metadata__)
    if typing.get_origin(hint) is Literal:
        return partial(_chosen, {value: value for value in typing.get_args(hint)})
    return _CONVERT.get(hint)


def _fields(
    record: type[Arguments], kind: inspect._ParameterKind, all_names: set[str]
) -> tuple[_Parameter, ...]:
    hints = typing.get_type_hints(record)
    empty = inspect.Parameter.empty
    parameters = [inspect.Parameter(name, kind, default=getattr(record, name, empty)) for name in hints]
    return tuple(_parameter(p, hints[p.name], all_names | hints.keys()) for p in parameters)


def _attribute(b: Builder, p: _Parameter, attributes: Mapping[str, Value]) -> Value:
    given = [name for name in p.names if name in attributes]
    for other in given[1:]:
        first, second = (attributes[name] for name in (given[0], other))
        if not _agree(first, second):
            raise Unsupported(f"has {given[0]!r} = {first!r} and {other!r} = {second!r}, which differ")
    if given:
        return _convert(b, p, attributes[given[0]])
    if p.default is not inspect.Parameter.empty:
        return p.default
    if p.optional:
        return None
    raise Unsupported(f"argument {p.name!r} is missing")


def _agree(first: Value, second: Value) -> bool:
    """True if two names of an argument have one value; some numbers are for the spatial dimensions only."""
    if isinstance(first, str) or isinstance(second, str) or first is None or second is None:
        return type(first) is not type(second) or first == second
    return {*np.ravel(first), 1} == {*np.ravel(second), 1}


def _convert(b: Builder, p: _Parameter, value: Value) -> Value:
    if p.convert is None or (value is None and p.optional):
        return value
    try:
        return p.convert(b, value)
    except Unsupported as error:
        raise Unsupported(f"argument {p.name!r} {error}") from None


TABLE: dict[tuple[Dialect, str], Primitive] = {}
"""The rows, which the modules that `families` imports enter."""


def primitive(*names: str, dialect: Dialect = Dialect.MINDSPORE, unused: str = "") -> Callable[[_L], _L]:
    """Enter a lowering into the table under one or more names of a dialect.

    `unused` names the arguments that have no effect on inference, whatever they are.
    """
    return primitives({" ".join(names): ()}, dialect, unused)


def primitives(
    table: Mapping[str, object], dialect: Dialect = Dialect.MINDSPORE, unused: str = ""
) -> Callable[[_L], _L]:
    """Enter one lowering for a family of primitives: names, parted by blanks -> what is special to them.

    That is the lowering's first parameter after the builder, or a tuple of its first ones; the docstring's
    first line is a format over them.
    """

    def enter(lowering: _L) -> _L:
        for names, given in table.items():
            given = given if isinstance(given, tuple) else (given,)
            for name in names.split():
                _enter(Primitive(name, dialect, lowering, frozenset(unused.split()), given))
        return lowering

    return enter


def formulas(table: Mapping[str, Lowering], dialect: Dialect = Dialect.MINDSPORE, unused: str = "") -> None:
    """Enter lowerings under names, parted by blanks."""
    for names, lowering in table.items():
        primitive(*names.split(), dialect=dialect, unused=unused)(lowering)


def _enter(row: Primitive) -> None:
    if (row.dialect, row.name) in TABLE:
        raise ValueError(f"{row.name} is defined twice for dialect {row.dialect.value}")
    TABLE[row.dialect, row.name] = row


def lowered(b: Builder, name: str, *inputs: Value) -> Value:
    """The value of one of MindSpore's primitives that is in the table."""
    return TABLE[Dialect.MINDSPORE, name].lower(b, inputs, {})
