"""Rules of MindSpore Lite's dialect (see `rules`): products, windows, normalization, images.

In a `.ms` images have their channels last (see `images`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import operators
from pinnace.converter.rules.images import nchw, nhwc, order
from pinnace.converter.rules.kernels import whole_norm
from pinnace.converter.rules.narrow import in_int32
from pinnace.converter.rules.resize import Resizing
from pinnace.converter.rules.windows import Windows
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Value

_IMAGE = 4
"""Dimensions of an image."""
_METHODS = {"linear": 0, "nearest": 1, "cubic": 2}
_COORDINATES = {"asymmetric": 0, "align_corners": 1, "half_pixel": 2}
_FLOOR = 3  # NearestMode


def MatMul(op: Primitives, a: Tensor, b: Tensor) -> Tensor:
    return op.MatMulFusion(a, b)


def Gemm(
    op: Primitives,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    constant = c is None or (op.known(c) is not None and op.rank(c) == 1)
    if alpha != 1 or beta != 1 or not is_float(op, a) or not constant:
        raise Unsupported(
            "scales, is of integers, or adds more than a constant vector, and MatMulFusion does neither"
        )
    rest = [] if c is None else [c]
    return op.MatMulFusion(a, b, *rest, transpose_a=bool(transA), transpose_b=bool(transB))


# -- windows ---------------------------------------------------------------------------------------


def _check_image(op: Primitives, x: Tensor) -> None:
    if op.rank(x) != _IMAGE:
        raise Unsupported("is not over two dimensions, as Lite's primitive is")


def Conv(
    op: Primitives, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, group: int = 1, given: Windows
) -> Tensor:
    _check_image(op, x)
    outputs, inputs, *_ = op.static_shape(weight)
    sizes = {"in_channel": inputs * group, "out_channel": outputs}
    return _convolved(op, "Conv2DFusion", x, weight, bias, group, given.over(2).in_run(op, x), sizes)


def ConvTranspose(
    op: Primitives,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    group: int = 1,
    output_padding: Ints = (),
    output_shape: Ints = (),
    given: Windows,
) -> Tensor:
    _check_image(op, x)
    if output_shape:
        raise Unsupported("has an output_shape, which Lite's primitive lacks")
    inputs, outputs, *_ = op.static_shape(weight)
    sizes: dict[str, Any] = {"in_channel": inputs, "out_channel": outputs * group}
    sizes |= {"output_paddings": output_padding or (0, 0)}
    return _convolved(op, "Conv2dTransposeFusion", x, weight, bias, group, given.over(2), sizes)


def _convolved(
    op: Primitives,
    primitive: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    group: int,
    over: Windows,
    sizes: dict[str, Any],
) -> Tensor:
    pads = over.in_pairs()
    y = op.op(
        primitive,
        nhwc(op, x),
        nhwc(op, weight),
        *([] if bias is None else [bias]),
        format=order(op),
        kernel_size=op.static_shape(weight)[2:],
        stride=over.strides,
        dilation=over.dilations,
        pad_mode=int(over.itself),
        pad_list=pads,
        group=group,
        **sizes,
    )
    return nchw(op, y)


@operators(MaxPool="MaxPoolFusion", AveragePool="AvgPoolFusion")
def _pool(
    op: Primitives,
    primitive: str,
    x: Tensor,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    _storage_order: int = 0,
    *,
    given: Windows,
) -> Tensor:
    _check_image(op, x)
    over = given.over(2).in_run(op, x)
    if max(over.dilations) > 1 or len(op.declared) > 1 or (count_include_pad and any(over.pads)):
        raise Unsupported("gives places, has dilations, or counts its padding, and Lite's pools do not")
    pads = over.in_pairs()
    y = op.op(
        primitive,
        nhwc(op, x),
        format=order(op),
        kernel_size=over.kernel_shape,
        strides=over.strides,
        pad_mode=int(over.itself),
        pad=pads,
        round_mode=ceil_mode,
    )
    return nchw(op, y)


@operators(GlobalMaxPool="MaxPoolFusion", GlobalAveragePool="AvgPoolFusion")
def _whole_pool(op: Primitives, primitive: str, x: Tensor) -> Tensor:
    _check_image(op, x)
    whole: dict[str, Any] = {"format": order(op), "strides": (1, 1), "pad": (0, 0, 0, 0), "global": True}
    return nchw(op, op.op(primitive, nhwc(op, x), **whole))


# -- normalization ---------------------------------------------------------------------------------


def BatchNormalization(
    op: Primitives,
    *inputs: Tensor,
    epsilon: float = 1e-5,
    _momentum: float = 0.9,
    training_mode: int = 0,
    _spatial: int = 1,
) -> Tensor:
    x, *numbers = inputs
    if training_mode or op.rank(x) != _IMAGE:
        raise Unsupported("trains, or is not over two dimensions, as FusedBatchNorm is")
    return nchw(op, op.FusedBatchNorm(nhwc(op, x), *numbers, epsilon=epsilon))


def InstanceNormalization(
    op: Primitives, x: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5
) -> Tensor:
    _check_image(op, x)
    return op.InstanceNorm(x, scale, shift, epsilon=epsilon)


def LayerNormalization(
    op: Primitives,
    x: Tensor,
    scale: Tensor,
    shift: Tensor | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    _stash_type: int = 1,
) -> Tensor:
    if len(op.declared) > 1 or shift is None or op.static_shape(scale) != op.shape(x)[axis:]:
        raise Unsupported(
            "has no B, a Scale that is broadcast, or several results, and LayerNormFusion has one"
        )
    if not whole_norm(op, x, axis):
        raise Unsupported(
            "is of few elements, of which LayerNormFusion leaves some out when it has several threads"
        )
    axes: dict[str, Any] = {"begin_norm_axis": axis, "begin_params_axis": axis}
    return op.LayerNormFusion(x, scale, shift, **axes, epsilon=epsilon, elementwise_affine=True)


def LRN(
    op: Primitives, x: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    _check_image(op, x)
    if size % 2 == 0:
        raise Unsupported(f"has size {size}, and Lite's LRN odd ones")
    over: dict[str, Any] = {"depth_radius": size // 2, "norm_region": "ACROSS_CHANNELS"}
    return nchw(op, op.LRN(nhwc(op, x), **over, bias=bias, alpha=alpha / size, beta=beta))


# -- resizing --------------------------------------------------------------------------------------


def Resize(
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
    if how.keep_aspect_ratio_policy != "stretch" and None in op.shape(x)[2:]:
        raise Unsupported("keeps the aspect ratio of free dimensions, and Lite's Resize that of none")
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
    y = op.Resize(
        nhwc(op, x),
        *factors,
        format=order(op),
        method=_METHODS[mode],
        new_height=size[0],
        new_width=size[1],
        coordinate_transform_mode=_COORDINATES[coordinates],
        cubic_coeff=how.cubic_coeff_a,
        nearest_mode=_FLOOR,
    )
    return nchw(op, y)


def _is_multiple(op: Primitives, x: Tensor, size: Sequence[int | None]) -> bool:
    """True if height and width are multiples of those of an image."""
    pairs = zip(size, op.shape(x)[2:], strict=True)
    return all(new is not None and old and new % old == 0 for new, old in pairs)


def _resized(
    op: Primitives, x: Tensor, scales: Tensor | None, sizes: Tensor | None, axes: tuple[int, ...] | None
) -> tuple[tuple[int | None, ...], tuple[Tensor, ...]]:
    """Height and width after a Resize; where factors do not give them exactly, the factors for these."""
    dims = op.shape(x)
    declared = op.declared[0].shape if op.declared and op.declared[0] else None
    if len(dims) != _IMAGE or declared is None or declared[:2] != dims[:2]:
        raise Unsupported("is not over height and width, as Lite's Resize is")
    at = list(range(_IMAGE) if axes is None else axes)
    if not {2, 3} <= set(at):
        raise Unsupported("has no factor for each of height and width, as Lite's Resize wants them")
    places = op.constant([at.index(2), at.index(3)], np.int32)
    if scales is None or not scales.shape or 0 in op.shape(scales):
        if None not in declared[2:]:
            return declared[2:], ()
        assert sizes is not None
        return (None, None), (op.Gather(in_int32(op, sizes), places, op.constant(0, np.int32)),)
    if (factors := op.known(scales)) is not None:
        pair = [float(factors[at.index(axis)]) for axis in (2, 3)]
        whole = [None if size is None else size * f for size, f in zip(dims[2:], pair, strict=True)]
        if None in whole and any(f % 1 for f in pair):
            raise Unsupported("has a fraction of a free size, which Lite rounds, and ONNX cuts off")
        exact = None not in whole and whole == list(declared[2:])
        return declared[2:], () if exact else (op.constant(pair, np.float32),)
    return declared[2:], (op.Gather(scales, places, op.constant(0, np.int32)),)
