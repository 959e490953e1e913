"""Normalisation."""

from __future__ import annotations

import numpy as np

from pinnace.ops.builder import Builder
from pinnace.ops.reduce import variance
from pinnace.ops.table import Ints, Tensor, primitive
from pinnace.ops.values import Value


@primitive("BatchNorm")
def batch_norm(
    b: Builder,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    is_training: bool = False,
    epsilon: float = 1e-5,
    momentum: float = 0.1,
    data_format: str = "NCHW",
) -> Value:
    """BatchNormalization; in training with the batch's own mean and variance."""
    if is_training:
        mean, variance = _batch_statistics(b, x)
    return _normalised(b, x, scale, bias, mean, variance, epsilon), scale, bias, mean, variance


@primitive("BatchNormExt")
def batch_norm_ext(
    b: Builder,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    """BatchNormalization; in training with the batch's own mean and variance."""
    if training or running_mean is None or running_var is None:
        running_mean, running_var = _batch_statistics(b, x)
    scale = _plain(b, running_mean, 1) if weight is None else weight
    shift = _plain(b, running_mean, 0) if bias is None else bias
    y = _normalised(b, x, scale, shift, running_mean, running_var, eps)
    return y, running_mean, running_var


def _normalised(
    b: Builder, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> Tensor:
    return b.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon)


def _batch_statistics(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    spread, mean = variance(b, x, [0, *range(2, b.rank(x))], 0)
    return mean, spread


def _plain(b: Builder, like: Tensor, number: float) -> Tensor:
    return b.constant(np.full(b.static_shape(like), number, b.dtype(like).numpy()))


@primitive("LayerNorm")
def layer_norm(
    b: Builder,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    begin_norm_axis: int = 1,
    begin_params_axis: int = 1,
    epsilon: float = 1e-7,
) -> Value:
    """LayerNormalization; Mul and Add of gamma and beta where these begin at another axis."""
    axis = b.axis(begin_norm_axis, x)
    y = _layer_normalised(b, x, axis, gamma, beta, epsilon, b.axis(begin_params_axis, x))
    spread, mean = variance(b, x, range(axis, b.rank(x)), 0, True)
    return y, mean, spread


@primitive("LayerNormExt")
def layer_norm_ext(
    b: Builder,
    x: Tensor,
    normalized_shape: Ints,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Value:
    """LayerNormalization."""
    axis = b.rank(x) - len(normalized_shape)
    scale = weight if weight is not None else b.constant(np.ones(normalized_shape, b.dtype(x).numpy()))
    y = b.op("LayerNormalization", x, scale, bias, axis=axis, epsilon=eps)
    spread, mean = variance(b, x, range(axis, b.rank(x)), 0, True)
    return y, mean, reciprocal_root(b, spread, eps)


def reciprocal_root(b: Builder, x: Tensor, epsilon: float) -> Tensor:
    """1 / sqrt(x + epsilon)."""
    return b.op("Reciprocal", b.op("Sqrt", b.op("Add", x, epsilon)))


def _layer_normalised(
    b: Builder, x: Tensor, axis: int, gamma: Tensor, beta: Tensor, epsilon: float, params_axis: int
) -> Tensor:
    if params_axis == axis:
        return b.op("LayerNormalization", x, gamma, beta, axis=axis, epsilon=epsilon)
    ones = b.constant(np.ones(b.static_shape(x)[axis:], b.dtype(x).numpy()))
    plain = b.op("LayerNormalization", x, ones, axis=axis, epsilon=epsilon)
    return b.op("Add", b.op("Mul", plain, gamma), beta)


@primitive("GroupNorm")
def group_norm(
    b: Builder,
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Value:
    """GroupNormalization."""
    channels = b.shape(x)[1]
    ones = b.constant(np.ones(channels or 1, b.dtype(x).numpy()))
    scale = ones if weight is None else weight
    shift = b.op("Sub", ones, ones) if bias is None else bias
    y = b.op("GroupNormalization", x, scale, shift, num_groups=num_groups, epsilon=eps)
    grouped = b.reshape(x, [b.dim(x, 0), num_groups, -1])
    spread, mean = variance(b, grouped, [2], 0)
    return y, mean, reciprocal_root(b, spread, eps)


@primitive("InstanceNorm", "InstanceNormV2")
def instance_norm(
    b: Builder,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Value = None,
    variance: Value = None,
    is_training: bool = True,
    momentum: float = 0.1,
    epsilon: float = 1e-5,
) -> Value:
    """InstanceNormalization."""
    return b.op("InstanceNormalization", x, gamma, beta, epsilon=epsilon), mean, variance


@primitive("RmsNorm")
def rms_norm(b: Builder, x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Value:
    """Div by the root of the mean square, and Mul."""
    axes = list(range(b.rank(x) - b.rank(gamma), b.rank(x)))
    rstd = reciprocal_root(b, b.op("ReduceMean", b.op("Mul", x, x), axes, keepdims=1), epsilon)
    return b.op("Mul", b.op("Mul", x, rstd), gamma), rstd


@primitive("AddRmsNorm")
def add_rms_norm(b: Builder, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Value:
    """Add, then as RmsNorm."""
    total = b.op("Add", x1, x2)
    y, rstd = rms_norm(b, total, gamma, epsilon)
    return y, rstd, total


@primitive("LRN")
def lrn(
    b: Builder,
    x: Tensor,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    norm_region: str = "ACROSS_CHANNELS",
) -> Value:
    """LRN."""
    size = 2 * depth_radius + 1
    return b.op("LRN", x, size=size, bias=bias, alpha=alpha * size, beta=beta)
