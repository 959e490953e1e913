"""Sums, products and others of all elements up to each one, and the greatest so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.array import along, counting
from pinnace.ops.mindspore.math import log1p
from pinnace.ops.table import BOOL, INT64, Dtype, Tensor, primitive, primitives
from pinnace.ops.values import Value


@primitives({"Cummax": "Max", "Cummin CumminExt": "Min"})
def _cummax(op: Builder, which: str, x: Tensor, axis: int) -> Value:
    """The better of each slice and those before it, by Where; in a Loop for a free dimension."""
    best, place = _running_best(op, "GreaterOrEqual" if which == "Max" else "LessOrEqual", x, axis)
    return (best, op.cast(place, op.result(place, 1)))


@primitive("CumProd")
def _cum_prod(op: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    """Mul of each slice with the product before it; in a Loop where they are many or not known."""
    return _folded(op, x, axis, exclusive, reverse, _product, 1)


@primitive("CumSum")
def _cum_sum(op: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    return _cumulative(op, x, axis, op.result(x), exclusive, reverse)


@primitive("CumsumExt")
def _cumsum_ext(op: Builder, x: Tensor, dim: int, dtype: Dtype | None = None) -> Value:
    return _cumulative(op, x, dim, dtype or op.result(x))


@primitive("CumulativeLogsumexp")
def _cumulative_logsumexp(
    op: Builder, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False
) -> Value:
    """The logarithm of a sum of two exponentials, of each slice and what is before it."""
    return _folded(op, x, axis, exclusive, reverse, _log_sum_exp, float(np.finfo(op.dtype(x).numpy()).min))


def _cumulative(
    op: Builder, x: Tensor, axis: int, dtype: Dtype, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """CumSum, in a type."""
    return op.CumSum(op.cast(x, dtype), op.constant(axis, np.int64), exclusive=exclusive, reverse=reverse)


def _product(op: Builder, x: Tensor, y: Tensor) -> Value:
    return x * y


def _log_sum_exp(op: Builder, x: Tensor, y: Tensor) -> Value:
    """The greater, and Log1p of Exp of the negative distance."""
    distance = op.Where(op.Equal(x, y), 0, op.Abs(x - y))  # infinities have no distance
    return op.Max(x, y) + log1p(op, op.Exp(-distance))


_Combine = Callable[[Builder, Tensor, Tensor], Tensor]
_BY_SLICES = 64
"""Slices from which on a graph with nodes for each of them takes long to build, and in the end is refused."""


def _folded(
    op: Builder, x: Tensor, axis: int, exclusive: bool, reverse: bool, combine: _Combine, neutral: float
) -> Tensor:
    """Each slice with those before it: slice by slice, in a Loop where they are many or not known."""
    size = op.dim(x, axis)
    if not isinstance(size, int) or size > _BY_SLICES:
        return _folded_free(op, x, axis, exclusive, reverse, combine, neutral)
    if size < 2 and not exclusive:
        return x
    parts = list(op.ops("Split", size, x, [1] * size, axis=axis)) if size > 1 else [x]
    if reverse:
        parts.reverse()
    if exclusive:
        parts = [op.Expand(op.like(neutral, x), op.Shape(parts[0])), *parts[:-1]]
    for i in range(1, size):
        parts[i] = combine(op, parts[i - 1], parts[i])
    if reverse:
        parts.reverse()
    return op.Concat(*parts, axis=axis)


def _folded_free(
    op: Builder, x: Tensor, axis: int, exclusive: bool, reverse: bool, combine: _Combine, neutral: float
) -> Tensor:
    def turned(t: Tensor) -> Tensor:
        return op.Slice(t, [-1], [int(np.iinfo(np.int64).min)], [axis], [-1]) if reverse else t

    def join(earlier: Sequence[Tensor], later: Sequence[Tensor], there: Tensor) -> Sequence[Tensor]:
        return [combine(op, op.Where(there, earlier[0], op.like(neutral, x)), later[0])]

    start = turned(x)
    if exclusive:
        first = op.Slice(start, [0], [1], [axis])
        nothing = op.Expand(op.like(neutral, x), op.Shape(first))
        start = op.Concat(nothing, op.Slice(start, [0], [-1], [axis]), axis=axis)
    return turned(running(op, [start], axis, join)[0])


def _running_best_free(op: Builder, better: str, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    def join(earlier: Sequence[Tensor], later: Sequence[Tensor], there: Tensor) -> Sequence[Tensor]:
        newer = op.op(better, later[0], earlier[0])
        kept = op.Or(newer, op.Not(there))
        return [op.Where(kept, new, old) for old, new in zip(earlier, later, strict=True)]

    size = op.Squeeze(op.Shape(x, start=axis, end=axis + 1 or None), [0])
    numbers = counting(op, size)
    column = along(op, numbers, op.axis(axis, x), op.rank(x))
    places = op.Expand(column, op.Shape(x))
    best, place = running(op, [x, places], axis, join)
    return best, place


def _running_best(op: Builder, better: str, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The best so far along a dimension, and where it was last seen: slice by slice."""
    size = op.dim(x, axis)
    if not isinstance(size, int):
        return _running_best_free(op, better, x, axis)
    parts = list(op.ops("Split", size, x, [1] * size, axis=axis)) if size > 1 else [x]
    best, place = parts[0], op.Expand(op.constant(0, np.int64), op.Shape(parts[0]))
    bests, places = [best], [place]
    for i, part in enumerate(parts[1:], 1):
        taken = op.op(better, part, best)
        best = op.Where(taken, part, best)
        place = op.Where(taken, op.constant(i, np.int64), place)
        bests.append(best)
        places.append(place)
    return op.Concat(*bests, axis=axis), op.Concat(*places, axis=axis)


# -- loops -------------------------------------------------------------------------------------------


def repeated(
    op: Builder,
    count: Tensor,
    first: Sequence[Tensor],
    turn: Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]],
) -> tuple[Tensor, ...]:
    """Loop: `turn` takes the number of the turn and what is carried, and gives what is carried on."""
    number, going = (
        ir.Value(name=op.fresh(), type=ir.TensorType(t), shape=ir.Shape([])) for t in (INT64, BOOL)
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
    turns = op.cast(op.Ceil(log), INT64) + 1  # one more: logarithms are rounded
    shape = [-1 if i == axis else 1 for i in range(op.rank(first[0]))]

    def turn(number: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        *held, step = carried
        before = places - step
        there = op.reshape(op.GreaterOrEqual(before, 0), shape)
        earlier = [op.Gather(t, op.Max(before, 0), axis=axis) for t in held]
        return [*join(earlier, held, there), step * 2]

    return repeated(op, turns, [*first, op.constant(1, np.int64)], turn)[:-1]
