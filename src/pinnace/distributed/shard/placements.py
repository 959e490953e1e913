"""Placements of values, and shardings of nodes: who has what.

A value is whole in every rank, split along an axis, or the sum of what the ranks have. A sharding has the
placements in which a node takes its inputs and leaves its outputs, without any communication.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Shard:
    """A value of which each rank has an equal part along an axis.

    With `sections`, widths that add up to the dimension, a rank has a part of each: of queries, keys and
    values that one product makes, say.
    """

    axis: int
    sections: tuple[int, ...] = ()


@dataclass(frozen=True)
class Partial:
    """A value that is the sum of the ranks' values."""


@dataclass(frozen=True)
class RowShard:
    """A table of which each rank has some rows, one more or less."""


Placement = Shard | Partial | RowShard | None
"""Placement of a value; None is whole."""


@dataclass(frozen=True)
class Sharding:
    """Placements of a node's inputs and of all its outputs.

    With `again` the node runs once more, on whole inputs, for an output of the graph: a cache of keys with
    those of a new token, say.
    """

    takes: tuple[Placement, ...]
    gives: Placement = None
    again: bool = False


def axis_of(placement: Placement) -> int:
    """Return the axis along which a value is split, -1 if it is not."""
    return placement.axis if isinstance(placement, Shard) else -1


def dimensions(value: ir.Value | None) -> list[int | ir.SymbolicDim]:
    """Return the dimensions of a value; [] if they are unknown."""
    return list((value.shape if value is not None else None) or ())


def along(value: ir.Value | None, axis: int, sections: tuple[int, ...]) -> Placement:
    """Return the split of a value along an axis from the end; whole if it has none, or one of 1."""
    shape = dimensions(value)
    if -axis > len(shape) or shape[axis] == 1:
        return None
    return Shard(len(shape) + axis, sections)
