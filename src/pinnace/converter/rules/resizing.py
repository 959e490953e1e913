"""Resize as primitives (see `rules`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.resize import Resizing
from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import rule
from pinnace.converter.rules.int32 import in_int32
from pinnace.converter.rules.layout import IMAGE, over_images
from pinnace.converter.rules.shapes import declared_dims
from pinnace.graph import shape_data
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Value
from pinnace.program import Dialect

_METHODS = {"linear": 0, "nearest": 1, "cubic": 2}
_COORDINATES = {"asymmetric": 0, "align_corners": 1, "half_pixel": 2}
_FLOOR = 3  # NearestMode
_RESIZES = {
    ("nearest", "asymmetric", "floor"): ("ResizeNearestNeighborV2", False, False),
    ("linear", "half_pixel", ""): ("ResizeBilinearV2", False, True),
    ("linear", "pytorch_half_pixel", ""): ("ResizeBilinearV2", False, True),
    ("linear", "align_corners", ""): ("ResizeBilinearV2", True, False),
    ("linear", "asymmetric", ""): ("ResizeBilinearV2", False, False),
}
"""Primitives of Resize's forms, whether corners are aligned, and pixels have their centers at halves."""


@rule(Dialect.MINDSPORE)
def Resize(
    op: Primitives,
    x: Tensor,
    _roi: Value = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    how: Resizing,
) -> Tensor:
    form = (
        how.mode,
        how.coordinate_transformation_mode,
        how.nearest_mode if how.mode == "nearest" else "",
    )
    plain = not how.antialias and how.keep_aspect_ratio_policy == "stretch"
    if not plain or form not in _RESIZES or op.dtype(x) is not ir.DataType.FLOAT:
        raise Unsupported(
            f"has mode {form[0]} and coordinate_transformation_mode {form[1]}, which no primitive has"
        )
    primitive, aligned, halves = _RESIZES[form]
    by_scale = scales is not None and op.shape(scales) != (0,)
    size = _exact_size(op, x, scales if by_scale else None, sizes, how.axes)
    may_be_one = 1 in size if isinstance(size, tuple) else not by_scale
    if form[1] == "pytorch_half_pixel" and may_be_one:
        raise Unsupported("takes the first element for a size of 1, which no primitive does")
    return op.op(primitive, x, size, aligned, halves)


def _exact_size(
    op: Primitives, x: Tensor, scales: Tensor | None, sizes: Tensor | None, axes: Ints | None
) -> Ints | Tensor:
    """The height and width of a Resize of pictures whose scales are those of the sizes."""
    dims, over = op.shape(x), axes or tuple(range(op.rank(x)))
    if len(dims) != IMAGE or {2, 3} - set(over):
        raise Unsupported("is not over height and width, as MindSpore's primitives are")
    at = [over.index(axis) for axis in (2, 3)]
    if scales is None:
        assert sizes is not None
        found = shape_data.dims(sizes) or (None,) * len(over)
        if any(found[i] != dims[a] for i, a in enumerate(over) if a < 2):
            raise Unsupported("resizes more than height and width")
        whole = tuple(n for i in at if (n := found[i]) is not None)
        return whole if len(whole) == 2 else op.Gather(sizes, op.constant(at, np.int64), 0)
    factors = op.known(scales)
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
    own = op.Gather(op.TensorShape(x), op.constant([2, 3], np.int64), 0)
    own.type = ir.TensorType(ir.DataType.INT64)
    return op.Mul(own, op.constant([round(n) for n in pair], np.int64))


@rule(Dialect.LITE, "Resize")
def _resize_in_lite(
    op: Primitives,
    x: Tensor,
    _roi: Value = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    how: Resizing,
) -> Tensor:
    mode, coordinates = how.mode, how.coordinate_transformation_mode
    place = how.nearest_mode if mode == "nearest" else "floor"
    size, factors = _resized(op, x, scales, sizes, how.axes)
    if how.keep_aspect_ratio_policy != "stretch" and not _is_alike(op, x, size):
        raise Unsupported(
            "keeps an aspect ratio that its sizes do not have, and Lite's Resize takes that of these"
        )
    if place.startswith("round") and coordinates == "half_pixel" and _is_multiple(op, x, size):
        coordinates, place = "asymmetric", "floor"  # elements are repeated
    uncommon = mode == "cubic" and (how.exclude_outside or coordinates == "half_pixel")
    if how.antialias or coordinates not in _COORDINATES or uncommon:
        raise Unsupported(
            f"has mode {mode}, coordinate_transformation_mode {coordinates} and antialias {how.antialias}, "
            "which Lite's Resize does not compute"
        )
    if place != "floor" or (mode == "nearest" and coordinates == "align_corners"):
        raise Unsupported(
            f"has nearest_mode {place} and coordinate_transformation_mode {coordinates}, and Lite's Resize "
            "floor of asymmetric or half_pixel"
        )
    return over_images(
        op,
        "Resize",
        [x],
        *factors,
        method=_METHODS[mode],
        new_height=size[0],
        new_width=size[1],
        coordinate_transform_mode=_COORDINATES[coordinates],
        cubic_coeff=how.cubic_coeff_a,
        nearest_mode=_FLOOR,
    )


def _is_alike(op: Primitives, x: Tensor, size: Sequence[int | None]) -> bool:
    """True if height and width, which are known, have the same ratio after a resize."""
    after, before = ([n for n in dims if n] for dims in (size, op.shape(x)[2:]))
    return len(after) == len(before) == 2 and after[0] * before[1] == after[1] * before[0]


def _is_multiple(op: Primitives, x: Tensor, size: Sequence[int | None]) -> bool:
    """True if height and width are multiples of those of an image."""
    pairs = zip(size, op.shape(x)[2:], strict=True)
    return all(new is not None and old and new % old == 0 for new, old in pairs)


def _resized(
    op: Primitives, x: Tensor, scales: Tensor | None, sizes: Tensor | None, axes: tuple[int, ...] | None
) -> tuple[tuple[int | None, ...], tuple[Tensor, ...]]:
    """Height and width after a Resize; where factors do not give them exactly, the factors for these."""
    dims = op.shape(x)
    declared = declared_dims(op)
    if len(dims) != IMAGE or declared is None or declared[:2] != dims[:2]:
        raise Unsupported("is not over height and width, as Lite's Resize is")
    at = list(range(IMAGE) if axes is None else axes)
    if not {2, 3} <= set(at):
        raise Unsupported("has no factor for each of height and width, as Lite's Resize wants them")
    places = [at.index(2), at.index(3)]
    if scales is None or not scales.shape or 0 in op.shape(scales):
        if None not in declared[2:]:
            return declared[2:], ()
        assert sizes is not None
        return (None, None), (op.Gather(in_int32(op, sizes), places, 0),)
    if (factors := op.known(scales)) is not None:
        pair = [float(factors[at.index(axis)]) for axis in (2, 3)]
        whole = [None if size is None else size * f for size, f in zip(dims[2:], pair, strict=True)]
        if None in whole and any(f % 1 for f in pair):
            raise Unsupported("has a fraction of a free size, which Lite rounds, and ONNX cuts off")
        exact = None not in whole and whole == list(declared[2:])
        return declared[2:], () if exact else (op.constant(pair, np.float32),)
    return declared[2:], (op.Gather(scales, places, 0),)
