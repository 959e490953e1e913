"""GridSample as sums of gathered elements, and the grid of an affine map: functions of `parts`."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import called, function
from pinnace.ops.values import Unsupported

_REACHES = {"nearest": 0, "linear": 1, "bilinear": 1, "cubic": 2, "bicubic": 2}
"""Elements on each side of a place that it is made of, by mode."""


class _Border(NamedTuple):
    """The rule for places outside of a dimension: "zeros" are weighted with zero."""

    kind: str
    size: int
    aligned: bool

    def inside(self, b: Builder, place: ir.Value) -> ir.Value:
        """Places that lie within the dimension, as far as the border says where."""
        if self.kind == "reflection":
            low, span = (0.0, self.size - 1.0) if self.aligned else (-0.5, float(self.size))
            far = b.op("Abs", b.op("Sub", place, low))
            turn = b.op("Sub", far, b.op("Mul", b.op("Floor", b.op("Div", far, 2 * span or 1.0)), 2 * span))
            place = b.op("Add", b.op("Min", turn, b.op("Sub", b.like(2 * span, turn), turn)), low)
        if self.kind == "zeros":
            return place
        return b.op("Clip", place, 0.0, float(self.size - 1))

    def known(self, b: Builder, place: ir.Value) -> ir.Value | None:
        """1 for places that have an element, 0 for others; None where all have one."""
        if self.kind != "zeros":
            return None
        within = b.op(
            "And", b.op("GreaterOrEqual", place, 0.0), b.op("LessOrEqual", place, float(self.size - 1))
        )
        return b.cast(within, b.dtype(place))


@function
def sampled(b: Builder, x: ir.Value, grid: ir.Value, aligned: bool, mode: str, padding: str) -> ir.Value:
    """The elements of `x` (N, C, ...) at the places of a grid (N, ..., dimensions from the last to the first)."""
    if mode not in _REACHES:
        raise Unsupported(f"has mode {mode}, and {', '.join(_REACHES)} can be written")
    batch, channels, *sizes = b.static_shape(x)
    rank, out = len(sizes), b.static_shape(grid)[1:-1]
    taps: list[list[tuple[ir.Value, ir.Value | None]]] = []
    for axis, size in enumerate(sizes):
        given = b.op("Gather", grid, b.constant(rank - 1 - axis), axis=-1)
        border = _Border(padding, size, aligned)
        scale = (size - 1) / 2 if aligned else size / 2
        taps.append(_taps(b, b.op("Add", b.op("Mul", given, scale), (size - 1) / 2), border, _REACHES[mode]))
    rows = b.reshape(b.transpose(x, [0, *range(2, rank + 2), 1]), [batch * math.prod(sizes), channels])
    first = np.arange(batch).reshape(-1, *[1] * rank) * math.prod(sizes)
    total: ir.Value | None = None
    for corner in itertools.product(*taps):
        at, weight = b.constant(first, np.int32), None
        for (place, own), step in zip(corner, np.cumprod([1, *sizes[:0:-1]])[::-1], strict=True):
            at = b.op("Add", at, b.op("Mul", place, int(step)))
            weight = own if weight is None else weight if own is None else b.op("Mul", weight, own)
        found = b.op("Gather", rows, at, axis=0)
        found = found if weight is None else b.op("Mul", found, b.op("Unsqueeze", weight, [-1]))
        total = found if total is None else b.op("Add", total, found)
    assert total is not None
    assert len(out) == rank
    return b.transpose(total, [0, rank + 1, *range(1, rank + 1)])


def _taps(b: Builder, place: ir.Value, border: _Border, reach: int) -> list[tuple[ir.Value, ir.Value | None]]:
    """The elements that a place is made of along one dimension, `reach` on each side, each with its weight."""
    if not reach:
        return [_tap(b, b.op("Round", place), None, border)]
    if reach == 1:
        place = border.inside(b, place)
    low = b.op("Floor", place)
    part = b.op("Sub", place, low)
    taps = []
    for step in range(1 - reach, 1 + reach):
        far = b.op("Abs", b.op("Sub", part, float(step)))
        weight = b.op("Sub", b.like(1.0, far), far) if reach == 1 else called(b, "cubic", far, -0.75)
        taps.append(_tap(b, b.op("Add", low, float(step)), weight, border))
    return taps


def _tap(
    b: Builder, place: ir.Value, weight: ir.Value | None, border: _Border
) -> tuple[ir.Value, ir.Value | None]:
    place = border.inside(b, place)
    known = border.known(b, place)
    weight = known if weight is None else weight if known is None else b.op("Mul", weight, known)
    inside = b.op("Clip", b.op("Round", place), 0.0, float(border.size - 1))
    return b.cast(inside, ir.DataType.INT32), weight  # of which MindSpore Lite has arithmetic


@function
def corners(b: Builder, theta: ir.Value, aligned: bool) -> ir.Value:
    """The places of an AffineGrid whose size the model declares."""
    declared = b.declared[0].shape if b.declared and b.declared[0] else None
    if declared is None or None in declared:
        raise Unsupported("has a size known only at run time: fix it by shapes of the inputs")
    sizes = [d for d in declared[1:-1] if d is not None]
    steps = [np.linspace(-1, 1, n) if aligned else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    grid = np.meshgrid(*steps, indexing="ij")
    places = np.stack([*grid[::-1], np.ones_like(grid[0])], -1).reshape(-1, len(sizes) + 1)
    known = b.constant(places, b.dtype(theta).numpy())
    return b.reshape(b.op("MatMul", known, b.transpose(theta, [0, 2, 1])), [-1, *sizes, len(sizes)])
