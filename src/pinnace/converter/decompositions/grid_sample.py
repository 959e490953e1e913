"""GridSample as sums of gathered elements, and the grid of an affine map (see `rules`)."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.resize import cubic
from pinnace.converter.rules.shapes import declared_dims
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Arguments, Tensor

_REACHES = {"nearest": 0, "linear": 1, "bilinear": 1, "cubic": 2, "bicubic": 2}
"""Elements on each side of a place that it is made of, by mode."""


class _Border(NamedTuple):
    """The rule for places outside of a dimension: "zeros" are weighted with zero."""

    kind: str
    size: int
    aligned: bool

    def inside(self, op: Builder, place: Tensor) -> Tensor:
        """Places that lie within the dimension, as far as the border says where."""
        if self.kind == "reflection":
            low, span = (0.0, self.size - 1.0) if self.aligned else (-0.5, float(self.size))
            far = op.Abs(place - low)
            turn = far - op.Floor(far / (2 * span or 1.0)) * (2 * span)
            place = op.Min(turn, op.like(2 * span, turn) - turn) + low
        if self.kind == "zeros":
            return place
        return op.Clip(place, 0.0, float(self.size - 1))

    def known(self, op: Builder, place: Tensor) -> Tensor | None:
        """1 for places that have an element, 0 for others; None where all have one."""
        if self.kind != "zeros":
            return None
        within = op.And(op.GreaterOrEqual(place, 0.0), op.LessOrEqual(place, float(self.size - 1)))
        return op.cast(within, op.dtype(place))


class Sampling(Arguments):
    align_corners: int = 0
    mode: str = "linear"
    padding_mode: str = "zeros"


def GridSample(op: Builder, x: Tensor, grid: Tensor, *, given: Sampling) -> Tensor:
    """`x` is N, C, ...; the grid N, ..., and the dimensions from the last to the first."""
    mode, align_corners = given.mode, given.align_corners
    if mode not in _REACHES:
        raise Unsupported(f"has mode {mode}, and {', '.join(_REACHES)} can be written")
    batch, channels, *sizes = op.static_shape(x)
    rank, out = len(sizes), op.static_shape(grid)[1:-1]
    taps: list[list[tuple[Tensor, Tensor | None]]] = []
    for axis, size in enumerate(sizes):
        place = op.Gather(grid, op.constant(rank - 1 - axis), axis=-1)
        border = _Border(given.padding_mode, size, bool(align_corners))
        scale = (size - 1) / 2 if align_corners else size / 2
        taps.append(_taps(op, place * scale + (size - 1) / 2, border, _REACHES[mode]))
    rows = op.reshape(op.transpose(x, [0, *range(2, rank + 2), 1]), [batch * math.prod(sizes), channels])
    first = np.arange(batch).reshape(-1, *[1] * rank) * math.prod(sizes)
    total: Tensor | None = None
    for corner in itertools.product(*taps):
        at, weight = op.constant(first, np.int32), None
        for (place, own), step in zip(corner, np.cumprod([1, *sizes[:0:-1]])[::-1], strict=True):
            at = at + place * int(step)
            weight = own if weight is None else weight if own is None else weight * own
        found = op.Gather(rows, at, axis=0)
        found = found if weight is None else found * op.Unsqueeze(weight, [-1])
        total = found if total is None else total + found
    assert total is not None
    assert len(out) == rank
    return op.transpose(total, [0, rank + 1, *range(1, rank + 1)])


def _taps(op: Builder, place: Tensor, border: _Border, reach: int) -> list[tuple[Tensor, Tensor | None]]:
    """The elements, with weights, that a place is made of in one dimension, `reach` on each side."""
    if not reach:
        return [_tap(op, op.Round(place), None, border)]
    if reach == 1:
        place = border.inside(op, place)
    low = op.Floor(place)
    part = place - low
    taps = []
    for step in range(1 - reach, 1 + reach):
        far = op.Abs(part - float(step))
        weight = op.like(1.0, far) - far if reach == 1 else cubic(op, far, -0.75)
        taps.append(_tap(op, low + float(step), weight, border))
    return taps


def _tap(op: Builder, place: Tensor, weight: Tensor | None, border: _Border) -> tuple[Tensor, Tensor | None]:
    place = border.inside(op, place)
    known = border.known(op, place)
    weight = known if weight is None else weight if known is None else weight * known
    inside = op.Clip(op.Round(place), 0.0, float(border.size - 1))
    return op.cast(inside, ir.DataType.INT32), weight  # of which MindSpore Lite has arithmetic


def AffineGrid(op: Builder, theta: Tensor, _size: Tensor, align_corners: int = 0) -> Tensor:
    declared = declared_dims(op)
    if declared is None or None in declared:
        raise Unsupported("has a size known only at run time: fix it by shapes of the inputs")
    sizes = [d for d in declared[1:-1] if d is not None]
    steps = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    grid = np.meshgrid(*steps, indexing="ij")
    places = np.stack([*grid[::-1], np.ones_like(grid[0])], -1).reshape(-1, len(sizes) + 1)
    known = op.constant(places, op.dtype(theta).numpy())
    return op.reshape(op.MatMul(known, op.transpose(theta, [0, 2, 1])), [-1, *sizes, len(sizes)])
