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
    b: Builder,
    count: Tensor,
    first: Sequence[Tensor],
    turn: Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]],
) -> tuple[Tensor, ...]:
    """Loop: `turn` takes the number of the turn and what is carried, and gives what is carried on."""
    number, going = (
        ir.Value(name=b.fresh(), type=ir.TensorType(t), shape=ir.Shape([])) for t in (_INT64, _BOOL)
    )
    carried = [
        ir.Value(name=b.fresh(), type=ir.TensorType(b.dtype(v)), shape=ir.Shape(b.shape(v))) for v in first
    ]
    with b.scope() as nodes:
        results = [b.op("Identity", v) for v in (going, *turn(number, carried))]
    for result, variable in zip(results, (going, *carried), strict=True):
        result.type, result.shape = variable.type, variable.shape
    body = ir.Graph([number, going, *carried], results, nodes=nodes, name=b.fresh())
    finals = b.ops("Loop", len(first), count, b.constant(True), *first, body=body)
    for final, variable in zip(finals, carried, strict=True):
        final.type, final.shape = variable.type, variable.shape
    return finals


Join = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Sequence[Tensor]]
"""The result over two neighboring stretches, of the earlier, the later, and where there is an earlier."""


def running(b: Builder, first: Sequence[Tensor], axis: int, join: Join) -> tuple[Tensor, ...]:
    """The results over all places up to each one, of what each place holds by itself."""
    axis = b.axis(axis, first[0])
    size = b.op("Squeeze", b.op("Shape", first[0], start=axis, end=axis + 1), [0])
    places = counting(b, size)
    log = b.op("Div", b.op("Log", b.cast(size, ir.DataType.FLOAT)), float(np.log(2)))
    turns = b.op("Add", b.cast(b.op("Ceil", log), _INT64), 1)  # one more: logarithms are rounded
    shape = [-1 if i == axis else 1 for i in range(b.rank(first[0]))]

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        *held, step = carried
        before = b.op("Sub", places, step)
        there = b.reshape(b.op("GreaterOrEqual", before, 0), shape)
        earlier = [b.op("Gather", t, b.op("Max", before, 0), axis=axis) for t in held]
        return [*join(earlier, held, there), b.op("Mul", step, 2)]

    return repeated(b, turns, [*first, b.constant(1, np.int64)], turn)[:-1]
