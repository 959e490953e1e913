"""States of values, and ways of nodes: who has what.

A value is whole in every rank, split along an axis, or the sum of what the ranks have. A way says in which
states a node takes its inputs, and in which it leaves its outputs, without any communication.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Split:
    """A value of which each rank has an equal part along an axis.

    With `sections`, widths that add up to the dimension, a rank has a part of each: of queries, keys and
    values that one product makes, say.
    """

    axis: int
    sections: tuple[int, ...] = ()


@dataclass(frozen=True)
class Parts:
    """A value that is the sum of the ranks' values."""


@dataclass(frozen=True)
class Rows:
    """A table of which each rank has some rows, one more or less."""


State = Split | Parts | Rows | None
"""State of a value; None is whole."""


@dataclass(frozen=True)
class Way:
    """States of a node's inputs and of all its outputs.

    With `again` the node runs once more, on whole inputs, for an output of the graph: a cache of keys with
    those of a new token, say.
    """

    takes: tuple[State, ...]
    gives: State = None
    again: bool = False


def axis_of(state: State) -> int:
    """Return the axis along which a value is split, -1 if it is not."""
    return state.axis if isinstance(state, Split) else -1


def along(value: ir.Value | None, axis: int, sections: tuple[int, ...]) -> State:
    """Return the split of a value along an axis from the end; whole if it has none, or one of 1."""
    shape = list((value.shape if value is not None else None) or ())
    if -axis > len(shape) or shape[axis] == 1:
        return None
    return Split(len(shape) + axis, sections)
