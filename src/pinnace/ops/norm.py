"""Normalisation."""

from __future__ import annotations

from pinnace.ops.formulas import formulas, functions

formulas(
    __name__,
    """
    AddLayerNormV2; additionalOut: x1, x2, gamma, beta, epsilon: float = 1e-05 ->
        # Add and LayerNormalization.
        total = x1 + x2
        y, mean, spread = layer_norm(total, gamma, beta, -1, -1, epsilon)
        (y, mean, reciprocal_root(spread, epsilon), total)
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
    LayerNorm: x, gamma, beta, begin_norm_axis: int = 1, begin_params_axis: int = 1, epsilon: float = 1e-7 ->
        # LayerNormalization; Mul and Add of gamma and beta where these begin at another axis.
        layer_norm(x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon)
    LayerNormExt: x, normalized_shape: Ints, weight = None, bias = None, eps: float = 1e-5 ->
        # LayerNormalization.
        first = rank(x) - len(normalized_shape)
        ones = constant(np.ones(room(*normalized_shape), dtype(x).numpy())) if weight is None else weight
        spread, mean = variance(x, range(first, rank(x)), 0, True)
        LayerNormalization(x, ones, bias, axis=first, epsilon=eps), mean, reciprocal_root(spread, eps)
    LayerNormV3: x, gamma, beta, begin_norm_axis: int = 1, begin_params_axis: int = 1,
        epsilon: float = 1e-7 ->
        # LayerNormalization, with the reciprocal of the standard deviation in place of the variance.
        y, mean, spread = layer_norm(x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon)
        y, mean, reciprocal_root(spread, epsilon)
    LRN: x, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5 ->
        # LRN.
        size = 2 * depth_radius + 1
        LRN(x, size=size, bias=bias, alpha=alpha * size, beta=beta)
    RmsNorm: x, gamma, epsilon: float = 1e-6 ->
        # Div by the root of the mean square, and Mul: what engines fuse into one; in float32.
        rms_norm(x, gamma, epsilon)
    """,
)


functions(
    __name__,
    """
    batch_statistics: x -> variance(x, [0, *range(2, rank(x))], 0)[::-1]
    layer_norm: x, gamma, beta, norm_axis, params_axis, epsilon ->
        # The result, the mean and the variance.
        first, alike = axis(norm_axis, x), axis(params_axis, x) == axis(norm_axis, x)
        ones = None if alike else constant(np.ones(room(*static_shape(x)[first:]), dtype(x).numpy()))
        scale, offset = (gamma, beta) if alike else (ones, None)
        y = LayerNormalization(x, scale, offset, axis=first, epsilon=epsilon)
        spread, mean = variance(x, range(first, rank(x)), 0, True)
        y if alike else y * gamma + beta, cast(mean, result(x, 1)), cast(spread, result(x, 2))
    of_channels: x, given, number ->
        # What is given, else the number for each channel.
        if given is not None:
            return given
        if shape(x)[1] is None:
            raise Unsupported("needs the number of channels fixed")
        constant(np.full(room(shape(x)[1]), number, dtype(x).numpy()))
    plain: x, number -> constant(np.full(room(*static_shape(x)), number, dtype(x).numpy()))
    reciprocal_root: x, epsilon -> Reciprocal(Sqrt(x + epsilon))
    rms_norm: x, gamma, epsilon ->
        # The result, and the reciprocal of the root of the mean square.
        wide = x if dtype(x) is DOUBLE else cast(x, FLOAT)
        mean = ReduceMean(wide**2.0, range(rank(x) - rank(gamma), rank(x)), keepdims=1)
        root = Sqrt(mean + epsilon)
        cast(wide / root, dtype(x)) * gamma, Reciprocal(root)
    """,
)
