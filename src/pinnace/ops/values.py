"""Values of names of a MindSpore graph while the graph is lowered.

A tensor is an `onnx_ir.Value`; what is known now is a plain Python value (int, float, bool, str, None);
tuples are tuples. The classes here are the rest: functions as values, and the order of effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.program import Function

BOOL, UINT8, INT8 = ir.DataType.BOOL, ir.DataType.UINT8, ir.DataType.INT8
INT32, INT64 = ir.DataType.INT32, ir.DataType.INT64
FLOAT16, FLOAT, DOUBLE = ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE
Value = Any
"""ir.Value, bool, int, float, str, None, Closure, Branches, Effects, TailCall, or a tuple of these."""


@dataclass(frozen=True)
class Effects:
    """The order of effects, as a value: what every assigned tensor holds at this point.

    MindSpore threads a monad through everything that reads or writes a Parameter. Taking the monad's
    value to be the memory itself makes that order exact, whatever the order of the nodes in the file.
    The number beside a tensor counts assignments, so that of two memories the later one wins.
    """

    memory: Mapping[ir.Value, tuple[int, ir.Value]] = field(default_factory=dict)

    def read(self, target: ir.Value) -> ir.Value:
        """The value of `target` here; itself where nothing was assigned."""
        return self.memory[target][1] if target in self.memory else target

    def wrote(self, target: ir.Value, order: int, value: ir.Value) -> Effects:
        return Effects({**self.memory, target: (order, value)})

    def join(self, other: Effects) -> Effects:
        if other is self or not other.memory:
            return self
        if not self.memory:
            return other
        merged = dict(self.memory)
        for target, entry in other.memory.items():
            if target not in merged or merged[target][0] < entry[0]:
                merged[target] = entry
        return Effects(merged)


@dataclass(frozen=True, eq=False)
class Closure:
    """A function with its first arguments; `frame` is where its free names are looked up."""

    function: Function
    frame: Any
    bound: tuple[Value, ...] = ()


@dataclass(frozen=True, eq=False)
class Branches:
    """One of two functions, told by a condition known only at run time."""

    condition: ir.Value
    when_true: Value
    when_false: Value


NOTHING: Any = object()
"""In the place of a value that is not there."""


@dataclass(frozen=True, eq=False)
class TailCall:
    """The end of a turn of the loop that is being lowered: the arguments of the next one.

    Where `stop` holds there is none, and `result` is the value of the whole loop; it is NOTHING in a loop
    that is only left by its head.
    """

    function: Function
    arguments: tuple[Value, ...]
    effects: Effects
    stop: Value = False
    result: Value = NOTHING


class AlwaysRaises(Exception):
    """The code that is lowered ends in a `raise`; the branch that leads here is taken to be dead."""


def flatten(value: Value) -> Iterator[Value]:
    """The leaves of nested tuples and ends of turns, in order."""
    if isinstance(value, TailCall):
        yield from flatten((value.arguments, value.stop, value.result))
    elif isinstance(value, tuple):
        for item in value:
            yield from flatten(item)
    else:
        yield value


def rebuild(value: Value, leaves: Iterator[Value]) -> Value:
    """The structure of `value` with other leaves: the inverse of `flatten`."""
    if isinstance(value, TailCall):
        parts = rebuild((value.arguments, value.stop, value.result), leaves)
        return TailCall(value.function, parts[0], value.effects, *parts[1:])
    if isinstance(value, tuple):
        return tuple(rebuild(item, leaves) for item in value)
    return next(leaves)


def refuse(value: Value, wanted: str) -> NoReturn:
    """Raise `Unsupported`: a value is not what is wanted of it."""
    if isinstance(value, TailCall):
        raise Unsupported("comes from a function that calls itself before its end, which is not a loop")
    raise Unsupported(f"must be {wanted}, but it is {type(value).__name__}")
