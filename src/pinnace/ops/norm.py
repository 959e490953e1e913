"""Normalisation."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.reduce import variance
from pinnace.ops.room import room
from pinnace.ops.table import Arguments, Ints, Tensor, primitive
from pinnace.ops.values import Unsupported, Value

formulas(
    __name__,
    """
    AddLayerNormV2; additionalOut: x1, x2, gamma, beta, epsilon: float = 1e-05 ->
        # Add and LayerNormalization.
        total = x1 + x2
        y, mean, rstd = layer_norm_v3(
            total,
            _LayerNorm(gamma=gamma, beta=beta, begin_norm_axis=-1, begin_params_axis=-1, epsilon=epsilon),
        )
        (y, mean, rstd, total)
    AddRmsNorm: x1, x2, gamma, epsilon: float = 1e-06 ->
        # Add, then as RmsNorm.
        total = x1 + x2
        y, rstd = rms_norm(total, gamma, epsilon)
        (y, rstd, total)
    BatchNorm; momentum: x, scale, bias, mean, variance, *, is_training: bool = False,
        epsilon: float = 1e-05, data_format: str = "NCHW" ->
        # BatchNormalization; in training with the batch's own mean and variance.
        image = images_first(x, data_format)
        mean, variance = batch_statistics(image) if is_training else (mean, variance)
        y = BatchNormalization(image, scale, bias, mean, variance, epsilon=epsilon)
        (images_back(y, data_format), scale, bias, mean, variance)
    BatchNormElemt; eps: x, weight = None, bias = None, mean = None, invstd = None ->
        # Sub, Mul, Mul, Add along the channels.
        aside = [-1, *[1] * (rank(x) - 2)]
        for op_type, operand in (("Sub", mean), ("Mul", invstd), ("Mul", weight), ("Add", bias)):
            x = op(op_type, x, reshape(operand, aside)) if operand is not None else x
        x
    BatchNormExt; momentum: x, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
        running_var: Tensor | None, *, training: bool = False, epsilon: float = 1e-05 ->
        # BatchNormalization; in training with the batch's own mean and variance.
        own = training or running_mean is None or running_var is None
        mean, variance = batch_statistics(x) if own else (running_mean, running_var)
        scale = plain(mean, 1) if weight is None else weight
        shift = plain(mean, 0) if bias is None else bias
        (BatchNormalization(x, scale, shift, mean, variance, epsilon=epsilon), mean, variance)
    GroupNorm: x, num_groups: int, weight = None, bias = None, eps: float = 1e-05 ->
        # GroupNormalization.
        factor, offset = of_channels(x, weight, 1), of_channels(x, bias, 0)
        y = GroupNormalization(x, factor, offset, num_groups=num_groups, epsilon=eps)
        groups = reshape(x, [dim(x, 0), num_groups, -1])
        spread, mean = variance(groups, [2], 0)
        (y, mean, reciprocal_root(spread, eps))
    InstanceNorm InstanceNormV2; momentum: x, gamma, beta, mean = None, variance = None, *,
        is_training: bool = True, epsilon: float = 1e-05 ->
        # InstanceNormalization; with given mean and variance Sub, Div, Mul, Add.
        if is_training and rank(gamma) > 1:  # a number for every channel of every image
            axes = range(2, rank(x))
            distance = x - ReduceMean(x, axes, keepdims=1)
            own = ReduceMean(distance * distance, axes, keepdims=1)
            y = distance / Sqrt(own + epsilon)
            return (y * gamma + beta, mean, variance)
        if is_training:
            return (InstanceNormalization(x, gamma, beta, epsilon=epsilon), mean, variance)
        if mean is None or variance is None:
            raise Unsupported("normalises by a mean and a variance, and has but one of them or none")
        spread = Sqrt(variance + epsilon)
        y = (x - mean) / spread
        (y * gamma + beta, mean, variance)
    LRN: x, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5 ->
        # LRN.
        size = 2 * depth_radius + 1
        LRN(x, size=size, bias=bias, alpha=alpha * size, beta=beta)
    """,
)


functions(
    __name__,
    """
    batch_statistics: x -> variance(x, [0, *range(2, rank(x))], 0)[::-1]
    """,
)


@function
def _plain(b: Builder, like: Tensor, number: float) -> Tensor:
    return b.constant(np.full(room(*b.static_shape(like)), number, b.dtype(like).numpy()))


class _LayerNorm(Arguments):
    """Scale, offset, first axes and epsilon of a layer normalisation."""

    gamma: Tensor
    beta: Tensor
    begin_norm_axis: int = 1
    begin_params_axis: int = 1
    epsilon: float = 1e-7


@primitive("LayerNorm")
def layer_norm(b: Builder, x: Tensor, arguments: _LayerNorm) -> Value:
    """LayerNormalization; Mul and Add of gamma and beta where these begin at another axis."""
    axis = b.axis(arguments.begin_norm_axis, x)
    if b.axis(arguments.begin_params_axis, x) == axis:
        y = b.op(
            "LayerNormalization", x, arguments.gamma, arguments.beta, axis=axis, epsilon=arguments.epsilon
        )
    else:
        ones = b.constant(np.ones(room(*b.static_shape(x)[axis:]), b.dtype(x).numpy()))
        plain = b.op("LayerNormalization", x, ones, axis=axis, epsilon=arguments.epsilon)
        y = b.op("Add", b.op("Mul", plain, arguments.gamma), arguments.beta)
    spread, mean = variance(b, x, range(axis, b.rank(x)), 0, True)
    return y, b.cast(mean, b.result(x, 1)), b.cast(spread, b.result(x, 2))


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
    scale = weight if weight is not None else b.constant(np.ones(room(*normalized_shape), b.dtype(x).numpy()))
    y = b.op("LayerNormalization", x, scale, bias, axis=axis, epsilon=eps)
    spread, mean = variance(b, x, range(axis, b.rank(x)), 0, True)
    return y, mean, reciprocal_root(b, spread, eps)


@function
@primitive("LayerNormV3")
def layer_norm_v3(b: Builder, x: Tensor, arguments: _LayerNorm) -> Value:
    """LayerNormalization, with the reciprocal of the standard deviation in place of the variance."""
    y, mean, spread = layer_norm(b, x, arguments)
    return y, mean, reciprocal_root(b, spread, arguments.epsilon)


@function
def reciprocal_root(b: Builder, x: Tensor, epsilon: float) -> Tensor:
    """1 / sqrt(x + epsilon)."""
    return b.op("Reciprocal", b.op("Sqrt", b.op("Add", x, epsilon)))


@function
def _of_channels(b: Builder, x: Tensor, given: Tensor | None, number: int) -> Tensor:
    """`given`, else the number for each channel."""
    if given is not None:
        return given
    channels = b.shape(x)[1]
    if channels is None:
        raise Unsupported("needs the number of channels fixed")
    return b.constant(np.full(room(channels), number, b.dtype(x).numpy()))


@function
@primitive("RmsNorm")
def rms_norm(b: Builder, x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Value:
    """Div by the root of the mean square, and Mul: what engines fuse into one; in float32."""
    dtype = b.dtype(x)
    wide = x if dtype is ir.DataType.DOUBLE else b.cast(x, ir.DataType.FLOAT)
    axes = list(range(b.rank(x) - b.rank(gamma), b.rank(x)))
    mean = b.op("ReduceMean", b.op("Pow", wide, 2.0), axes, keepdims=1)
    root = b.op("Sqrt", b.op("Add", mean, epsilon))
    y = b.op("Mul", b.cast(b.op("Div", wide, root), dtype), gamma)
    return y, b.op("Reciprocal", root)
