"""Pad as primitives (see `rules`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import rule
from pinnace.converter.rules.int32 import in_int32
from pinnace.converter.rules.layout import IMAGE, LAST, nchw, nhwc, transposed
from pinnace.converter.rules.shapes import flat, known_ints
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Value
from pinnace.program import Dialect

_MOST = 1 << 18
"""Elements of a border that a file holds: one megabyte."""
_BORDERS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "circular"}
_FLOAT_PAD, _REFLECT = 0, 1  # PaddingMode


@rule(Dialect.MINDSPORE)
def Pad(
    op: Primitives,
    data: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Ints | None = None,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    filler = op.like(value, data) if constant_value is None else constant_value
    known, number, rank = op.known(pads), op.known(filler), op.rank(data)
    if known is None:
        if axes is not None:
            raise Unsupported(
                "has a padding of some axes known only at run time, and PadV3 wants that of all"
            )
        order = op.constant(_last_first(range(2 * rank)), np.int64)
        return op.PadV3(data, op.Gather(pads, order, 0), filler, mode=_BORDERS[mode])
    both = _both_sides(known, axes, rank)
    if min(both) < 0:
        raise Unsupported("has a padding below zero, and PadV3 only adds: use Slice")
    if mode != "constant":
        raise Unsupported(f"has mode {mode}, and PadV3 of known sizes is written for constant alone")
    sides = tuple((int(n), int(m)) for n, m in zip(both[:rank], both[rank:], strict=True))
    if number is None or not is_float(op, data):
        return op.PadV3(data, _last_first(both), filler)
    return op.op("Pad", data, paddings=sides) if number == 0 else _with_border(op, data, both, sides, filler)


def _with_border(
    op: Primitives, x: Tensor, both: Sequence[int], sides: Sequence[tuple[int, int]], filler: Tensor
) -> Tensor:
    """Return zeros and a sum for another number: MindSpore Lite 2.0 leaves PadV3 out in silence."""
    dims, number = op.shape(x), op.known(filler)
    inside = [n if any(pair) else 1 for n, pair in zip(dims, sides, strict=True)]
    sizes = [n + sum(pair) for n, pair in zip(inside, sides, strict=True) if n is not None]
    if len(sizes) < len(dims) or math.prod(sizes) > _MOST:
        return op.PadV3(x, _last_first(both), filler)
    border = np.pad(np.zeros([n or 0 for n in inside]), sides, constant_values=number.item())
    return op.Add(op.op("Pad", x, paddings=sides), op.constant(border, op.dtype(x).numpy()))


@rule(Dialect.LITE, "Pad")
def _pad_fusion(
    op: Primitives,
    data: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Value = None,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    known, filled, at = op.known(pads), op.known(constant_value), known_ints(op, axes)
    if known is None and mode == "constant":
        pairs = transposed(op, op.Reshape(_all_pads(op, data, pads, axes), (2, -1)), (1, 0))
        return op.PadFusion(data, pairs, op.like(value, data) if constant_value is None else constant_value)
    if known is None or not (mode == "constant" or (mode == "reflect" and is_float(op, data))):
        raise Unsupported(f"has mode {mode}, and PadFusion constant, and reflect of floats by known sizes")
    if at is None:
        raise Unsupported("has axes known only at run time, and Lite wants them in the file")
    both = _both_sides(known, at or None, op.rank(data))
    if min(both) < 0:
        raise Unsupported("has a padding below zero, and PadFusion only adds: use Slice")
    if mode == "constant" and ((constant_value is not None and filled is None) or not is_float(op, data)):
        filler = (
            op.constant([0], op.dtype(data).numpy()) if constant_value is None else flat(op, constant_value)
        )
        return _padded_image(op, data, both, filler)
    kind, number = _REFLECT if mode == "reflect" else _FLOAT_PAD, value if filled is None else filled.item()
    return _padded_image(op, data, both, padding_mode=kind, constant_value=number)


def _all_pads(op: Primitives, x: Tensor, pads: Tensor, axes: Value) -> Tensor:
    """Return the padding before each dimension, then after each, where some are known only in the run."""
    at, (count,), rank = known_ints(op, axes), op.static_shape(pads), op.rank(x)
    if at is None:
        raise Unsupported("has axes known only at run time, and Lite wants them in the file")
    known = op.Concat(in_int32(op, pads), [0], axis=0)
    return op.Gather(known, _both_sides(range(count), at or None, rank, count), 0)


def _padded_image(op: Primitives, x: Tensor, both: Sequence[int], *fill: Tensor, **attributes: Any) -> Tensor:
    """A Pad of `both` sides of each dimension, of an image with channels last if it is there already."""
    pairs = np.reshape(both, (2, -1)).T
    last = op.channels_last.get(op.names.get(x, ""))
    if op.mindir or (last is None and (len(pairs) != IMAGE or pairs[:2].any())):
        return op.PadFusion(x, op.constant(pairs, np.int32), *fill, **attributes)
    moved = op.constant(pairs[list(LAST)], np.int32)
    return nchw(op, op.PadFusion(nhwc(op, x), moved, *fill, **attributes))


def _both_sides(pads: Sequence[int], axes: Ints | None, rank: int, none: int = 0) -> list[int]:
    """Return the padding before each dimension, then after each, `none` for those that have no axis."""
    count = len(pads) // 2
    whole = [none] * 2 * rank
    for i, axis in enumerate(range(count) if axes is None else axes):
        whole[axis % rank], whole[axis % rank + rank] = pads[i], pads[i + count]
    return whole


def _last_first(pads: Sequence[int]) -> Ints:
    """Return the padding before and after the last dimension, then the one before it, ..."""
    rank = len(pads) // 2
    return tuple(pads[i + side * rank] for i in reversed(range(rank)) for side in (0, 1))
