"""Normalization."""

from __future__ import annotations

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room
from pinnace.ops.layout import channels_back, channels_first
from pinnace.ops.mindspore.conv import layout_of
from pinnace.ops.mindspore.reduce import variance
from pinnace.ops.table import Ints, Tensor, Tensors, formulas, primitive, primitives
from pinnace.ops.values import DOUBLE, FLOAT, Value


@primitive("AddLayerNormV2", unused="additionalOut")
def _add_layer_norm_v2(
    op: Builder, x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-05
) -> Value:
    total = x1 + x2
    y, mean, var = _layer_norm(op, total, gamma, beta, -1, -1, epsilon)
    return (y, mean, _reciprocal_root(op, var, epsilon), total)


@primitive("AddRmsNorm")
def add_rms_norm(op: Builder, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> Value:
    total = x1 + x2
    y, rstd = rms_norm(op, total, gamma, epsilon)
    return (y, rstd, total)


@primitive("BatchNorm", unused="momentum")
def _batch_norm(
    op: Builder,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    is_training: bool = False,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
) -> Value:
    """BatchNormalization; in training with the batch's own mean and variance."""
    layout = layout_of(data_format)
    image = channels_first(op, x, layout)
    mean, variance = _batch_statistics(op, image) if is_training else (mean, variance)
    y = op.BatchNormalization(image, scale, bias, mean, variance, epsilon=epsilon)
    return (channels_back(op, y, x, layout), scale, bias, mean, variance)


@primitive("BatchNormElemt", unused="eps")
def _batch_norm_elemt(
    op: Builder,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    mean: Tensor | None = None,
    invstd: Tensor | None = None,
) -> Value:
    aside = [-1, *[1] * (op.rank(x) - 2)]
    for op_type, operand in (("Sub", mean), ("Mul", invstd), ("Mul", weight), ("Add", bias)):
        x = op.op(op_type, x, op.reshape(operand, aside)) if operand is not None else x
    return x


@primitive("BatchNormExt", unused="momentum")
def _batch_norm_ext(
    op: Builder,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    *,
    training: bool = False,
    epsilon: float = 1e-05,
) -> Value:
    """BatchNormalization; in training with the batch's own mean and variance."""
    own = training or running_mean is None or running_var is None
    mean, variance = _batch_statistics(op, x) if own else (running_mean, running_var)
    scale = _plain(op, mean, 1) if weight is None else weight
    shift = _plain(op, mean, 0) if bias is None else bias
    return (op.BatchNormalization(x, scale, shift, mean, variance, epsilon=epsilon), mean, variance)


@primitive("GroupNorm")
def _group_norm(
    op: Builder,
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Value:
    factor, offset = _of_channels(op, x, weight, 1), _of_channels(op, x, bias, 0)
    y = op.GroupNormalization(x, factor, offset, num_groups=num_groups, epsilon=eps)
    groups = op.reshape(x, [op.dim(x, 0), num_groups, -1])
    var, mean = variance(op, groups, [2], 0)
    return (y, mean, _reciprocal_root(op, var, eps))


@primitive("InstanceNorm", "InstanceNormV2", unused="momentum")
def _instance_norm(
    op: Builder,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
    *,
    is_training: bool = True,
    epsilon: float = 1e-05,
) -> Value:
    """InstanceNormalization; with given mean and variance Sub, Div, Mul, Add."""
    if is_training and op.rank(gamma) > 1:  # a number for every channel of every image
        axes = range(2, op.rank(x))
        distance = x - op.ReduceMean(x, axes, keepdims=1)
        own = op.ReduceMean(distance * distance, axes, keepdims=1)
        y = distance / op.Sqrt(own + epsilon)
        return (y * gamma + beta, mean, variance)
    if is_training:
        return (op.InstanceNormalization(x, gamma, beta, epsilon=epsilon), mean, variance)
    if mean is None or variance is None:
        raise Unsupported("normalizes by a mean and a variance, and has but one of them or none")
    std = op.Sqrt(variance + epsilon)
    y = (x - mean) / std
    return (y * gamma + beta, mean, variance)


@primitives({"LayerNorm": False, "LayerNormV3": True})
def _layer_norm_of(
    op: Builder,
    inverted: bool,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    begin_norm_axis: int = 1,
    begin_params_axis: int = 1,
    epsilon: float = 1e-7,
) -> Value:
    """LayerNormalization; V3 gives the reciprocal of the standard deviation in place of the variance."""
    y, mean, var = _layer_norm(op, x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon)
    return y, mean, _reciprocal_root(op, var, epsilon) if inverted else var


@primitive("LayerNormExt")
def _layer_norm_ext(
    op: Builder,
    x: Tensor,
    normalized_shape: Ints,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Value:
    first = op.rank(x) - len(normalized_shape)
    ones = op.constant(np.ones(room(*normalized_shape), op.dtype(x).numpy())) if weight is None else weight
    var, mean = variance(op, x, range(first, op.rank(x)), 0, True)
    return (
        op.LayerNormalization(x, ones, bias, axis=first, epsilon=eps),
        mean,
        _reciprocal_root(op, var, eps),
    )


def _batch_statistics(op: Builder, x: Tensor) -> Tensors:
    return variance(op, x, [0, *range(2, op.rank(x))], 0)[::-1]


def _layer_norm(
    op: Builder, x: Tensor, gamma: Tensor, beta: Tensor, norm_axis: int, params_axis: int, epsilon: float
) -> Tensors:
    """The result, the mean and the variance."""
    first, alike = op.axis(norm_axis, x), op.axis(params_axis, x) == op.axis(norm_axis, x)
    ones = None if alike else op.constant(np.ones(room(*op.static_shape(x)[first:]), op.dtype(x).numpy()))
    scale, offset = (gamma, beta) if alike else (ones, None)
    y = op.LayerNormalization(x, scale, offset, axis=first, epsilon=epsilon)
    var, mean = variance(op, x, range(first, op.rank(x)), 0, True)
    return y if alike else y * gamma + beta, op.cast(mean, op.result(x, 1)), op.cast(var, op.result(x, 2))


def _of_channels(op: Builder, x: Tensor, given: Tensor | None, number: int) -> Tensor:
    """Return the given tensor, else the number for each channel."""
    if given is not None:
        return given
    channels = op.shape(x)[1]
    if channels is None:
        raise Unsupported("needs the number of channels fixed")
    return op.constant(np.full(room(channels), number, op.dtype(x).numpy()))


def _plain(op: Builder, x: Value, number: int) -> Tensor:
    return op.constant(np.full(room(*op.static_shape(x)), number, op.dtype(x).numpy()))


def _reciprocal_root(op: Builder, x: Tensor, epsilon: float) -> Tensor:
    return op.Reciprocal(op.Sqrt(x + epsilon))


def rms_norm(op: Builder, x: Tensor, gamma: Tensor, epsilon: float) -> Tensors:
    """The result, and the reciprocal of the root of the mean square, in the form that engines fuse."""
    wide = x if op.dtype(x) is DOUBLE else op.cast(x, FLOAT)
    root = op.Sqrt(op.ReduceMean(op.Pow(wide, 2.0), range(-op.rank(gamma), 0), keepdims=1) + epsilon)
    return op.cast(wide / root, op.dtype(x)) * op.cast(gamma, op.dtype(x)), op.Reciprocal(root)


formulas(
    {
        "LRN": lambda op, x, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5: op.LRN(
            x, size=2 * depth_radius + 1, bias=bias, alpha=alpha * (2 * depth_radius + 1), beta=beta
        ),
        "RmsNorm": lambda op, x, gamma, epsilon=1e-6: rms_norm(op, x, gamma, epsilon),
    }
)
