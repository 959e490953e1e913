"""Resize as a product with the weights of each place, one dimension after the other: functions of `parts`.

The weights are formulas of what the model says, so that sizes and scales may be known only in the run. The
coordinates are those of ONNX's Resize.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.converter import partly
from pinnace.converter.primitives import Primitives
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import called, function, functions
from pinnace.ops.values import Unsupported

_IMAGE = 4
"""Dimensions of an image."""
functions(
    __name__,
    """
    coordinate: where: str, i, scale, count, size, start, end ->
        # The coordinate in the input of each place i of `count`, for a dimension of `size`.
        if where == "half_pixel":
            return (i + 0.5) / scale - 0.5
        if where == "half_pixel_symmetric":
            return (1 - count / (scale * size)) * (size / 2) + ((i + 0.5) / scale - 0.5)
        if where == "pytorch_half_pixel":
            return Where(count > 1, (i + 0.5) / scale - 0.5, 0)
        if where == "align_corners":
            return i * (size - 1) / Max(scale * size - 1, like(1e-6, scale))
        if where == "asymmetric":
            return i / scale
        if where == "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        if where == "tf_crop_and_resize":
            many = start * (size - 1) + i * ((end - start) * (size - 1) / Max(count - 1, like(1, scale)))
            return Where(count > 1, many, (start + end) * (0.5 * (size - 1)))
        raise Unsupported(f"has coordinate_transformation_mode {where}, which ONNX does not define")
    nearest_place: mode: str, x ->
        if mode == "round_prefer_floor":
            return Ceil(x - 0.5)
        if mode == "round_prefer_ceil":
            return Floor(x + 0.5)
        Floor(x) if mode == "floor" else Ceil(x)
    cubic: far, a: float ->
        # The weight of a place at a distance.
        near = ((far * (a + 2)) - (a + 3)) * far * far + 1
        wide = ((far * a - 5 * a) * far + 8 * a) * far - 4 * a
        Where(far <= 1, near, Where(far < 2, wide, 0))
    """,
    public=True,
)


class How(NamedTuple):
    """The attributes of a Resize."""

    where: str
    mode: str
    nearest: str
    coefficient: float
    inside_only: bool
    smooth: bool
    policy: str
    extrapolation: float


@function
def how(b: Builder, *attributes: Any) -> How:
    """The attributes of a Resize, in the order of `How`."""
    return How(*attributes)


@function
def resized_by_weights(
    b: Builder,
    x: ir.Value,
    roi: ir.Value | None,
    scales: ir.Value | None,
    sizes: ir.Value | None,
    axes: tuple[int, ...] | None,
    how: How,
) -> ir.Value:
    """A Resize, as a Gather or a product of each dimension that changes."""
    rank = b.rank(x)
    over = [axis % rank for axis in axes] if axes else list(range(rank))
    dims = [_size(b, x, axis) for axis in over]
    by_scale = scales is not None and b.shape(scales) != (0,)
    numbers = scales if by_scale else sizes
    if numbers is None:
        raise Unsupported("has neither scales nor sizes: give one of them")
    given, known = b.cast(numbers, ir.DataType.FLOAT), b.known(numbers)
    one = None if by_scale else _common(b, given, dims, how.policy)
    outside: list[ir.Value] = []
    for place, (axis, size) in enumerate(zip(over, dims, strict=True)):
        if known is not None and known[place] == (1 if by_scale else size):
            continue
        number = b.op("Gather", given, b.constant(place, np.int64), axis=0)
        scale = number if by_scale else one if one is not None else b.op("Div", number, size)
        if by_scale:
            count = b.op("Floor", b.op("Mul", number, size))
        else:
            count = number if one is None else b.op("Floor", b.op("Add", b.op("Mul", scale, size), 0.5))
        i = b.op("Range", b.constant(0, np.float32), count, b.constant(1, np.float32))
        ends: list[ir.Value | None] = [None, None]
        if how.where == "tf_crop_and_resize" and roi is not None:
            region = b.cast(roi, ir.DataType.FLOAT)
            ends = [
                b.op("Gather", region, b.constant(p, np.int64), axis=0) for p in (place, place + len(over))
            ]
        at = called(b, "coordinate", how.where, i, scale, count, size, *ends)
        if how.where == "tf_crop_and_resize":
            last = b.op("Sub", b.tensor(size), 1)
            beyond = b.op("Or", b.op("Less", at, 0), b.op("Greater", at, last))
            outside.append(b.op("Reshape", beyond, [-1 if a == axis else 1 for a in range(rank)]))
        x = _along(b, x, axis, at, scale, size, how)
    for beyond in outside:
        x = b.op("Where", beyond, b.like(how.extrapolation, x), x)
    return x


def _size(b: Builder, x: ir.Value, axis: int) -> float | ir.Value:
    """A dimension as a number, or in the run as a tensor of one."""
    size = b.dim(x, axis)
    return float(size) if isinstance(size, int) else b.cast(size, ir.DataType.FLOAT)


def _common(b: Builder, sizes: ir.Value, dims: Sequence[float | ir.Value], policy: str) -> ir.Value | None:
    """The scale of all dimensions that keeps the aspect ratio, None where each has its own."""
    if policy == "stretch":
        return None
    each = b.op("Div", sizes, b.op("Concat", *(b.op("Reshape", b.tensor(d), [1]) for d in dims), axis=0))
    return b.op("ReduceMin" if policy == "not_larger" else "ReduceMax", each, [0], keepdims=0)


def _along(
    b: Builder, x: ir.Value, axis: int, at: ir.Value, scale: ir.Value, size: float | ir.Value, how: How
) -> ir.Value:
    """A tensor with the elements at these coordinates of one dimension."""
    if how.mode == "nearest":
        place = _within(b, called(b, "nearest_place", how.nearest, at), b.op("Sub", b.tensor(size), 1))
        return b.op("Gather", x, b.cast(place, ir.DataType.INT32), axis=axis)
    weights = b.cast(_weights(b, at, scale, size, how), b.dtype(x))
    rank = b.rank(x)
    if axis == rank - 2:
        return b.op("MatMul", weights, x)
    turned = b.transpose(weights, [1, 0])
    if axis == rank - 1:
        return b.op("MatMul", x, turned)
    turn = [a for a in range(rank) if a != axis] + [axis]
    made = b.op("MatMul", b.transpose(x, turn), turned)
    return b.transpose(made, [turn.index(a) for a in range(rank)])


def _within(b: Builder, places: ir.Value, last: ir.Value) -> ir.Value:
    """Places that are no less than 0, and no more than the last."""
    return b.op("Max", b.op("Min", places, last), b.like(0, places))


def _weights(b: Builder, at: ir.Value, scale: ir.Value, size: float | ir.Value, how: How) -> ir.Value:
    """The weights of all elements of a dimension for each coordinate: a matrix."""
    column = b.op("Unsqueeze", at, [1])
    less = b.op("Min", scale, b.like(1, scale)) if how.smooth else None
    whole = b.tensor(size)
    last = b.op("Sub", whole, 1)
    # Places outside with weights; those of a smooth resize are all within its sizes.
    reach: float | ir.Value = 0 if how.inside_only or how.mode == "linear" else 3
    if how.smooth and not how.inside_only:
        reach = b.op("Mul", whole, 1 if how.mode == "linear" else 2)
    if how.mode == "linear" and less is None:
        column = _within(b, column, last)
    one = b.constant(1, np.float32)
    places = b.op("Range", b.op("Sub", b.like(0, whole), reach), b.op("Add", whole, reach), one)
    far = b.op("Abs", b.op("Sub", column, places))
    far = far if less is None else b.op("Mul", far, less)
    if how.mode == "linear":
        weights = b.op("Max", b.op("Sub", one, far), b.constant(0, np.float32))
    else:
        weights = called(b, "cubic", far, how.coefficient)
    if reach != 0:  # what lies outside is the element at the border
        nearest = b.op("Unsqueeze", _within(b, places, last), [1])
        same = b.op("Equal", nearest, b.op("Range", b.like(0, whole), whole, one))
        weights = b.op("MatMul", weights, b.cast(same, ir.DataType.FLOAT))
    if less is None and not how.inside_only:
        return weights
    return b.op("Div", weights, b.op("ReduceSum", weights, [1], keepdims=1))


@function
def exact_size(
    b: Primitives, x: ir.Value, scales: ir.Value | None, sizes: ir.Value | None, axes: tuple[int, ...] | None
) -> tuple[int, ...] | ir.Value:
    """The height and width of a Resize of pictures whose scales are those of the sizes."""
    dims, over = b.shape(x), axes or tuple(range(b.rank(x)))
    by_scale = scales is not None and b.shape(scales) != (0,)
    if len(dims) != _IMAGE or {2, 3} - set(over):
        raise Unsupported("is not over height and width, as MindSpore's primitives are")
    at = [over.index(axis) for axis in (2, 3)]
    if not by_scale:
        assert sizes is not None
        found = partly.dims(sizes) or (None,) * len(over)
        if any(found[i] != dims[a] for i, a in enumerate(over) if a < 2):
            raise Unsupported("resizes more than height and width")
        whole = tuple(n for i in at if (n := found[i]) is not None)
        return whole if len(whole) == 2 else b.op("Gather", sizes, b.constant(at, np.int64), 0)
    factors = b.known(scales)
    if factors is None or any(factors[i] != 1 for i, a in enumerate(over) if a < 2):
        raise Unsupported("has scales of more than height and width, or known only at run time")
    pair = [float(factors[i]) for i in at]
    free = None in dims[2:]
    wanted = [n * (1 if free else d or 0) for n, d in zip(pair, dims[2:], strict=True)]
    if any(abs(w - round(w)) > 1e-4 for w in wanted):
        raise Unsupported(
            "has scales that are not the quotients of the sizes, which is what MindSpore's primitives have"
        )
    if not free:
        return round(wanted[0]), round(wanted[1])
    own = b.op("Gather", b.op("TensorShape", x), b.constant([2, 3], np.int64), 0)
    own.type = ir.TensorType(ir.DataType.INT64)
    return b.op("Mul", own, b.constant([round(n) for n in pair], np.int64))
