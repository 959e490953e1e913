"""Loops: what is done again and again, and what runs along a dimension whose size is known only at run time.

Of the latter, after turn k each place holds the result over the 2**k places that end there (Hillis and
Steele, 1986).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.array import counting
from pinnace.ops.table import Tensor

_INT64, _BOOL = ir.DataType.INT64, ir.DataType.BOOL


def repeated(
    op: Builder,
    count: Tensor,
    first: Sequence[Tensor],
    turn: Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]],
) -> tuple[Tensor, ...]:
    """Loop: `turn` takes the number of the turn and what is carried, and gives what is carried on."""
    number, going = (
        ir.Value(name=op.fresh(), type=ir.TensorType(t), shape=ir.Shape([])) for t in (_INT64, _BOOL)
    )
    carried = [
        ir.Value(name=op.fresh(), type=ir.TensorType(op.dtype(v)), shape=ir.Shape(op.shape(v))) for v in first
    ]
    with op.scope() as nodes:
        results = [op.Identity(v) for v in (going, *turn(number, carried))]
    for result, variable in zip(results, (going, *carried), strict=True):
        result.type, result.shape = variable.type, variable.shape
    body = ir.Graph([number, going, *carried], results, nodes=nodes, name=op.fresh())
    finals = op.ops("Loop", len(first), count, op.constant(True), *first, body=body)
    for final, variable in zip(finals, carried, strict=True):
        final.type, final.shape = variable.type, variable.shape
    return finals


Join = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Sequence[Tensor]]
"""The result over two neighboring stretches, of the earlier, the later, and where there is an earlier."""


def running(op: Builder, first: Sequence[Tensor], axis: int, join: Join) -> tuple[Tensor, ...]:
    """The results over all places up to each one, of what each place holds by itself."""
    axis = op.axis(axis, first[0])
    size = op.Squeeze(op.Shape(first[0], start=axis, end=axis + 1), [0])
    places = counting(op, size)
    log = op.Log(op.cast(size, ir.DataType.FLOAT)) / float(np.log(2))
    turns = op.cast(op.Ceil(log), _INT64) + 1  # one more: logarithms are rounded
    shape = [-1 if i == axis else 1 for i in range(op.rank(first[0]))]

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        *held, step = carried
        before = places - step
        there = op.reshape(op.GreaterOrEqual(before, 0), shape)
        earlier = [op.Gather(t, op.Max(before, 0), axis=axis) for t in held]
        return [*join(earlier, held, there), step * 2]

    return repeated(op, turns, [*first, op.constant(1, np.int64)], turn)[:-1]
