"""MindSpore Lite: layers, in the layout of the model's images."""

from __future__ import annotations

from typing import Any

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room
from pinnace.graph.windows import elements, reach
from pinnace.ops.layout import channel_axis, channels_back, channels_first, permuted
from pinnace.ops.lite.math import activated, lite, lite_formulas, lites
from pinnace.ops.mindspore.conv import reached
from pinnace.ops.table import Arguments, Ints, Tensor
from pinnace.ops.values import Value

_PAD, _SAME, _VALID = 0, 1, 2  # PadMode


def _padding(pad_mode: int, pads: Ints) -> dict[str, Any]:
    """ONNX's attributes for MindSpore Lite's: pads are top, bottom, left, right."""
    if pad_mode not in (_PAD, _SAME, _VALID):
        raise Unsupported(f"has pad_mode {pad_mode}, which is unknown")
    if pad_mode == _SAME:
        return {"auto_pad": "SAME_UPPER"}
    if pad_mode == _VALID or not any(pads):
        return {}
    if len(pads) != 4:
        raise Unsupported(f"has pads {list(pads)}, but top, bottom, left and right are expected")
    top, bottom, left, right = pads
    return {"pads": [top, left, bottom, right]}


def _both(what: str, sizes: Ints) -> list[int] | None:
    """Numbers for height and width; None, which is ONNX's default, where there are none."""
    if len(sizes) not in (0, 2):
        raise Unsupported(f"has {what} {list(sizes)}, but one for height and one for width are expected")
    return list(sizes) or None


class _LiteKernel(Arguments):
    """Steps, dilation and padding of a convolution's kernel, and the activation fused into it."""

    stride: Ints = ()
    dilation: Ints = ()
    pad_mode: int = _PAD
    pad_list: Ints = ()
    group: int = 1
    activation_type: int = 0


@lites(
    {"Conv2DFusion": "Conv", "Conv2dTransposeFusion": "ConvTranspose"},
    unused="format kernel_size in_channel out_channel mode pad",
)
def convolution(
    op: Builder,
    op_type: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    kernel: _LiteKernel,
    output_paddings: Ints = (),
) -> Value:
    """{op_type}, and the fused activation."""
    picture, weight = channels_first(op, x), channels_first(op, weight)
    padding = _padding(kernel.pad_mode, kernel.pad_list)
    steps, holes = _both("stride", kernel.stride), _both("dilation", kernel.dilation)
    if op_type == "Conv" and "auto_pad" in padding and steps:
        reaches = reach(op.static_shape(weight)[2:], holes or [1, 1])
        picture = reached(op, picture, reaches, steps, padding)
    y = op.op(
        op_type,
        picture,
        weight,
        bias,
        strides=steps,
        dilations=holes,
        group=kernel.group,
        output_padding=list(output_paddings) if any(output_paddings) else None,
        **padding,
    )
    return channels_back(op, activated(op, y, kernel.activation_type), x)


@lites({"AvgPoolFusion": "AveragePool", "MaxPoolFusion": "MaxPool"}, unused="format")
def pool(
    op: Builder,
    op_type: str,
    x: Tensor,
    kernel_size: Ints = (),
    strides: Ints = (),
    pad: Ints = (),
    pad_mode: int = _PAD,
    round_mode: int = 0,
    global_: bool = False,
    activation_type: int = 0,
) -> Value:
    """{op_type} or Global{op_type}, and the fused activation."""
    picture = channels_first(op, x)
    if global_:
        y = op.op(f"Global{op_type}", picture)
    else:
        kernel, steps = _both("kernel_size", kernel_size), _both("strides", strides)
        padding = _padding(pad_mode, pad)
        if kernel and steps:
            picture = reached(op, picture, kernel, steps, padding)
        y = op.op(
            op_type, picture, kernel_shape=kernel, strides=steps, ceil_mode=round_mode or None, **padding
        )
    return channels_back(op, activated(op, y, activation_type), x)


def _last_two_swapped(op: Builder, x: Tensor) -> Tensor:
    rank = op.rank(x)
    return x if rank < 2 else permuted(op, x, (*range(rank - 2), rank - 1, rank - 2))


@lite("BatchNorm", unused="format")
def _batch_norm(op: Builder, x: Tensor, mean: Tensor, variance: Tensor, epsilon: float = 1e-05) -> Value:
    """BatchNormalization with scale 1 and bias 0."""
    known = op.known(mean)
    ones, zeros = (
        op.Expand(op.like(n, mean), op.Shape(mean)) if known is None else op.constant(np.full_like(known, n))
        for n in (1, 0)
    )
    return fused_batch_norm(op, x, ones, zeros, mean, variance, epsilon)


@lite("FullConnection", unused="has_bias")
def _full_connection(
    op: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    axis: int = 1,
    use_axis: bool = False,
    activation_type: int = 0,
) -> Value:
    flat = op.Flatten(x, axis=axis if use_axis else 1)
    return activated(op, op.Gemm(flat, weight, bias, transB=1), activation_type)


@lite("GroupNormFusion", unused="affine")
def _group_norm_fusion(
    op: Builder, x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Value:
    return op.GroupNormalization(x, scale, bias, num_groups=num_groups, epsilon=epsilon)


@lite("InstanceNorm")
def _instance_norm(op: Builder, x: Tensor, scale: Tensor, bias: Tensor, epsilon: float = 1e-05) -> Value:
    """InstanceNormalization; the converter leaves its channels first in either layout."""
    if op.shape(scale)[0] == op.shape(x)[1]:
        return op.InstanceNormalization(x, scale, bias, epsilon=epsilon)
    return channels_back(op, op.InstanceNormalization(channels_first(op, x), scale, bias, epsilon=epsilon), x)


@lite("L2NormalizeFusion")
def _l2_normalize_fusion(
    op: Builder, x: Tensor, *, axis: Ints = (), epsilon: float = 0.0, activation_type: int = 0
) -> Value:
    """Div by the root of the sum of squares, which is epsilon at least."""
    squares = op.ReduceSumSquare(x, axis or None, keepdims=1)
    return activated(op, x / op.Sqrt(op.Max(squares, epsilon)), activation_type)


@lite("LayerNormFusion", unused="elementwise_affine begin_params_axis")
def _layer_norm_fusion(
    op: Builder,
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    begin_norm_axis: int = -1,
    epsilon: float = 1e-05,
) -> Value:
    sizes = op.static_shape(x)[op.axis(begin_norm_axis, x) :] if scale is None else ()
    scale = op.constant(np.ones(room(*sizes), np.float32)) if scale is None else scale
    return op.LayerNormalization(x, scale, bias, axis=begin_norm_axis, epsilon=epsilon)


@lite("LRN", unused="norm_region")
def _lrn(
    op: Builder, x: Tensor, depth_radius: int, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Value:
    """LRN; ONNX divides alpha by the number of channels that it looks at. Div where alpha is 0."""
    if alpha == 0:
        return x / bias**beta
    size = 2 * depth_radius + 1
    picture = channels_first(op, x)
    return channels_back(op, op.LRN(picture, size=size, bias=bias, alpha=alpha * size, beta=beta), x)


@lite("MatMulFusion")
def _mat_mul_fusion(
    op: Builder,
    x: Tensor,
    y: Tensor,
    bias: Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation_type: int = 0,
) -> Value:
    if (op.rank(x) == op.rank(y) and op.rank(y) == 2) and op.dtype(x).is_floating_point():
        result = op.Gemm(x, y, bias, transA=int(transpose_a), transB=int(transpose_b))
        return activated(op, result, activation_type)
    left = _last_two_swapped(op, x) if transpose_a else x
    right = _last_two_swapped(op, y) if transpose_b else y
    result = op.MatMul(left, right)
    return activated(op, result if bias is None else result + bias, activation_type)


@lite("ScaleFusion")
def _scale_fusion(
    op: Builder,
    x: Tensor,
    factor: Tensor,
    offset: Tensor | None = None,
    axis: int = 0,
    activation_type: int = 0,
) -> Value:
    y = x * _aligned(op, factor, x, axis)
    y = y + _aligned(op, offset, x, axis) if offset is not None else y
    return activated(op, y, activation_type)


@lite("Softmax")
def _softmax(op: Builder, x: Tensor, axis: Ints = (-1,)) -> Value:
    return op.Softmax(x, axis=axis[0] if axis else -1)


@lite("FusedBatchNorm", unused="momentum mode")
def fused_batch_norm(
    op: Builder, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float = 1e-4
) -> Tensor:
    y = op.BatchNormalization(channels_first(op, x), scale, bias, mean, variance, epsilon=epsilon)
    return channels_back(op, y, x)


def _aligned(op: Builder, operand: Tensor, x: Tensor, axis: int) -> Tensor:
    """An operand whose first dimension is dimension `axis` of x."""
    missing = op.rank(x) - op.axis(axis, x) - op.rank(operand)
    if missing <= 0:
        return operand
    return op.Unsqueeze(operand, range(op.rank(operand), op.rank(operand) + missing))


@lite("AdderFusion", unused="format kernel_size in_channel out_channel mode")
def adder(
    op: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    kernel_size: Ints,
    kernel: _LiteKernel,
) -> Value:
    pad_mode, pad_list = kernel.pad_mode, kernel.pad_list
    stride, dilation = kernel.stride or (1, 1), kernel.dilation or (1, 1)
    if kernel.group != 1 or pad_mode == _SAME:
        raise Unsupported(f"has group {kernel.group} and pad_mode {pad_mode}, and 1 and {_PAD} are supported")
    top, bottom, left, right = pad_list if pad_mode == _PAD and pad_list else (0, 0, 0, 0)
    around = op.Pad(channels_first(op, x), [0, 0, top, left, 0, 0, bottom, right])
    weights = channels_first(op, weight)
    if op.static_shape(weights)[2:] != tuple(kernel_size):
        raise Unsupported(f"has kernel_size {list(kernel_size)}, and a weight of {op.static_shape(weight)}")
    total: Value = None
    for (row, column), seen in elements(op, around, kernel_size, stride, dilation):
        own = op.Slice(weights, [row, column], [row + 1, column + 1], [2, 3])
        distance = op.ReduceSum(op.Abs(op.Unsqueeze(seen, [1]) - own), [2], keepdims=0)
        total = distance if total is None else total + distance
    y = -total
    if bias is not None:
        y = y + op.Unsqueeze(bias, [1, 2])
    return channels_back(op, activated(op, y, kernel.activation_type), x)


lite_formulas(
    {
        "BiasAdd": lambda op, x, bias: x + _aligned(op, bias, x, channel_axis(op, x)),
        "Dropout": lambda op, x: x,
        "LpNormalization": lambda op, x, *, axis=-1, p=2: op.LpNormalization(x, axis=axis, p=p),
        "PReLUFusion": lambda op, x, slope: op.PRelu(
            x, _aligned(op, op.Reshape(slope, [-1]), x, channel_axis(op, x))
        ),
    },
    unused="format keep_prob channel_shared",
)
