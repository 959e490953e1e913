"""Resize as a product with the weights of each place, one dimension after the other (see `rules`).

The weights are computed from what the model says, so that sizes and scales may be known only in the run. The
coordinates are those of ONNX's Resize.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Arguments, Ints, Tensor
from pinnace.ops.values import Value


class Resizing(Arguments):
    antialias: int = 0
    axes: Ints | None = None
    coordinate_transformation_mode: str = "half_pixel"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: str = "stretch"
    mode: str = "nearest"
    nearest_mode: str = "round_prefer_floor"


def Upsample(op: Builder, x: Tensor, scales: Tensor, mode: str = "nearest") -> Tensor:
    return op.Resize(
        x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


def Resize(
    op: Builder,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    how: Resizing,
) -> Tensor:
    """A Gather or a product of each dimension that changes."""
    rank = op.rank(x)
    over = [axis % rank for axis in how.axes] if how.axes else list(range(rank))
    dims = [_size(op, x, axis) for axis in over]
    by_scale = scales is not None and op.shape(scales) != (0,)
    numbers = scales if by_scale else sizes
    if numbers is None:
        raise Unsupported("has neither scales nor sizes: give one of them")
    given, known = op.cast(numbers, ir.DataType.FLOAT), op.known(numbers)
    one = None if by_scale else _common(op, given, dims, how.keep_aspect_ratio_policy)
    outside: list[Tensor] = []
    for place, (axis, size) in enumerate(zip(over, dims, strict=True)):
        if known is not None and known[place] == (1 if by_scale else size):
            continue
        number = _at(op, given, place)
        scale = number if by_scale else one if one is not None else number / size
        if by_scale:
            count = op.Floor(number * size)
        else:
            count = number if one is None else op.Floor(scale * size + 0.5)
        i = op.Range(op.constant(0, np.float32), count, op.constant(1, np.float32))
        if how.coordinate_transformation_mode == "tf_crop_and_resize":
            at = _cropped(op, i, count, size, roi, place, len(over))
            last = op.tensor(size) - 1
            beyond = op.Or(op.Less(at, 0), op.Greater(at, last))
            outside.append(op.Reshape(beyond, [-1 if a == axis else 1 for a in range(rank)]))
        else:
            at = _coordinate(op, how.coordinate_transformation_mode, i, scale, count, size)
        x = _along(op, x, axis, at, scale, size, how)
    for beyond in outside:
        x = op.Where(beyond, how.extrapolation_value, x)
    return x


def _coordinate(
    op: Builder, where: str, i: Tensor, scale: Tensor, count: Tensor, size: float | Tensor
) -> Value:
    """The coordinate in the input of each place i of `count`, for a dimension of `size`."""
    match where:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return (1 - count / (scale * size)) * (size / 2) + ((i + 0.5) / scale - 0.5)
        case "pytorch_half_pixel":
            return op.Where(op.Greater(count, 1), (i + 0.5) / scale - 0.5, 0)
        case "align_corners":
            return i * (size - 1) / op.Max(count - 1, op.like(1, count))  # as PyTorch and onnxruntime
        case "asymmetric":
            return i / scale
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
    raise Unsupported(f"has coordinate_transformation_mode {where}, which ONNX does not define")


def _cropped(
    op: Builder, i: Tensor, count: Tensor, size: float | Tensor, roi: Tensor | None, place: int, places: int
) -> Tensor:
    """The coordinate in the part of the input that `roi` says."""
    if roi is None:
        raise Unsupported("has coordinate_transformation_mode tf_crop_and_resize, and no roi")
    region = op.cast(roi, ir.DataType.FLOAT)
    start, end = (_at(op, region, p) for p in (place, place + places))
    many = start * (size - 1) + i * ((end - start) * (size - 1) / op.Max(count - 1, op.like(1, count)))
    return op.Where(op.Greater(count, 1), many, (start + end) * (0.5 * (size - 1)))


def _at(op: Builder, x: Tensor, place: int) -> Tensor:
    return op.Gather(x, op.constant(place, np.int64), axis=0)


def _nearest(op: Builder, mode: str, x: Tensor) -> Tensor:
    if mode == "round_prefer_floor":
        return op.Ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return op.Floor(x + 0.5)
    return op.Floor(x) if mode == "floor" else op.Ceil(x)


def cubic(op: Builder, far: Tensor, a: float) -> Tensor:
    """The weight of a place at a distance."""
    near = ((far * (a + 2)) - (a + 3)) * far * far + 1
    wide = ((far * a - 5 * a) * far + 8 * a) * far - 4 * a
    return op.Where(op.LessOrEqual(far, 1), near, op.Where(op.Less(far, 2), wide, 0))


def _size(op: Builder, x: Tensor, axis: int) -> float | Tensor:
    """A dimension as a number, or in the run as a tensor of one."""
    size = op.dim(x, axis)
    return float(size) if isinstance(size, int) else op.cast(size, ir.DataType.FLOAT)


def _common(op: Builder, sizes: Tensor, dims: Sequence[float | Tensor], policy: str) -> Tensor | None:
    """The scale of all dimensions that keeps the aspect ratio, None where each has its own."""
    if policy == "stretch":
        return None
    each = sizes / op.Concat(*(op.Reshape(op.tensor(d), [1]) for d in dims), axis=0)
    return op.op("ReduceMin" if policy == "not_larger" else "ReduceMax", each, [0], keepdims=0)


def _along(
    op: Builder, x: Tensor, axis: int, at: Tensor, scale: Tensor, size: float | Tensor, how: Resizing
) -> Tensor:
    """A tensor with the elements at these coordinates of one dimension."""
    if how.mode == "nearest":
        place = _within(op, _nearest(op, how.nearest_mode, at), op.tensor(size) - 1)
        return op.Gather(x, op.cast(place, ir.DataType.INT32), axis=axis)
    weights = op.cast(_weights(op, at, scale, size, how), op.dtype(x))
    rank = op.rank(x)
    if axis == rank - 2:
        return op.MatMul(weights, x)
    turned = op.transpose(weights, [1, 0])
    if axis == rank - 1:
        return op.MatMul(x, turned)
    turn = [a for a in range(rank) if a != axis] + [axis]
    made = op.MatMul(op.transpose(x, turn), turned)
    return op.transpose(made, [turn.index(a) for a in range(rank)])


def _within(op: Builder, places: Tensor, last: Tensor) -> Tensor:
    """Places that are no less than 0, and no more than the last."""
    return op.Max(op.Min(places, last), op.like(0, places))


def _weights(op: Builder, at: Tensor, scale: Tensor, size: float | Tensor, how: Resizing) -> Value:
    """The weights of all elements of a dimension for each coordinate: a matrix."""
    column = op.Unsqueeze(at, [1])
    less = op.Min(scale, op.like(1, scale)) if how.antialias else None
    whole = op.tensor(size)
    last = whole - 1
    # Places outside with weights; those of a smooth resize are all within its sizes.
    reach: float | Tensor = 0 if how.exclude_outside or how.mode == "linear" else 3
    if how.antialias and not how.exclude_outside:
        reach = whole * (1 if how.mode == "linear" else 2)
    if how.mode == "linear" and less is None:
        column = _within(op, column, last)
    one = op.constant(1, np.float32)
    places = op.Range(op.like(0, whole) - reach, whole + reach, one)
    far = op.Abs(column - places)
    far = far if less is None else far * less
    if how.mode == "linear":
        weights = op.Max(one - far, op.constant(0, np.float32))
    else:
        weights = cubic(op, far, how.cubic_coeff_a)
    if reach != 0:  # what lies outside is the element at the border
        nearest = op.Unsqueeze(_within(op, places, last), [1])
        same = op.Equal(nearest, op.Range(op.like(0, whole), whole, one))
        weights = op.MatMul(weights, op.cast(same, ir.DataType.FLOAT))
    if less is None and not how.exclude_outside:
        return weights
    return weights / op.ReduceSum(weights, [1])
