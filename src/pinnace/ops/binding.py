"""Binding of arguments: a value as what a lowering's annotation asks for (see `table`).

Each function raises `Unsupported` where the value is none, or is known only by the run and must be known now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.values import Value, refuse
from pinnace.program import DTYPES

_MOST_DIMENSIONS = 64

_N = TypeVar("_N", int, float, bool)


def tensors(b: Builder, value: Value) -> tuple[ir.Value, ...]:
    """A tuple of tensors; a single tensor stands for a tuple of one."""
    return tuple(b.tensor(v) for v in (value if isinstance(value, tuple) else (value,)))


def int_(b: Builder, value: Value) -> int:
    return _number(b, value, int, "an int")


def float_(b: Builder, value: Value) -> float:
    return _number(b, value, float, "a float")


def bool_(b: Builder, value: Value) -> bool:
    return _number(b, value, bool, "a bool")


def dtype_(b: Builder, value: Value) -> ir.DataType:
    """An element type known now, which MindSpore gives as a number of its own."""
    if isinstance(value, ir.DataType):
        return value
    number = int_(b, value)
    if number not in DTYPES:
        name = {51: "complex64", 52: "complex128"}.get(number, number)
        raise Unsupported(f"is the element type {name}, which is not supported")
    return DTYPES[number]


def str_(b: Builder, value: Value) -> str:
    """A string known now; numbers of enumerations are given in decimal."""
    return value if isinstance(value, str) else str(int_(b, value))


def items(b: Builder, value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else refuse(value, "a tuple")


def ints(b: Builder, value: Value) -> tuple[int, ...]:
    return _numbers(b, value, int, "ints")


def floats(b: Builder, value: Value) -> tuple[float, ...]:
    return _numbers(b, value, float, "floats")


def pairs(b: Builder, value: Value) -> tuple[tuple[int, int], ...]:
    """Pairs of ints: a matrix, or its rows, or all of them one after the other."""
    rows = value if isinstance(value, tuple) else (value,)
    numbers = [n for row in rows for n in ints(b, row)]
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def dims(b: Builder, value: Value) -> tuple[int | ir.Value, ...]:
    """Ints and scalar tensors; a vector known only at run time is taken apart."""
    known = b.known(value)
    if isinstance(known, tuple):
        return tuple(d if isinstance(d, ir.Value) and b.known(d) is None else int_(b, d) for d in known)
    if known is not None:
        return ints(b, known)
    if not isinstance(value, ir.Value):
        return refuse(value, "dimensions")
    if b.rank(value) == 0:
        return (value,)
    (count,) = b.static_shape(value)
    if count > _MOST_DIMENSIONS:
        raise Unsupported(f"has {count} dimensions, and no tensor has more than {_MOST_DIMENSIONS}")
    return tuple(b.Gather(value, np.asarray(i, np.int64), axis=0) for i in range(count))


def _known(b: Builder, value: Value) -> Any:
    known = b.known(value)
    if known is None and value is not None:
        raise Unsupported(
            "must be known before the run, and it is computed by the graph: give it as a constant"
        )
    return known


def _number(b: Builder, value: Value, kind: Callable[[Any], _N], what: str) -> _N:
    if type(value) is kind:  # the most common case
        exact: _N = value
        return exact
    known = _known(b, value)
    if isinstance(known, np.ndarray | tuple) and np.size(known) == 1:
        known = np.asarray(known).reshape(-1)[0]
    return kind(known) if isinstance(known, bool | int | float | np.generic) else refuse(value, what)


def _numbers(b: Builder, value: Value, kind: Callable[[Any], _N], what: str) -> tuple[_N, ...]:
    known = _known(b, value)
    if isinstance(known, np.ndarray):
        known = known.reshape(-1).tolist()
    if isinstance(known, bool | int | float | np.generic):
        known = (known,)
    if not isinstance(known, tuple | list):
        refuse(value, what)
    return tuple(_number(b, v, kind, what) for v in known)
