"""Operators without a primitive, as formulas of other ONNX operators (see `converter.parts`).

After the arrow stand ONNX's operators, as in the lowerings of `ops/`.
"""

from __future__ import annotations

from pinnace.converter.rules import (
    Rules,
    contraction,
    places,
    quantised,
    recurrent,
    resize,
    rules,
    sampling,
    windows,
)

_MATHEMATICS: Rules = rules(
    __name__,
    """
    Gemm: A, B, C = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0 ->
        a = Transpose(A, perm=[1, 0]) if transA else A
        y = a @ (Transpose(B, perm=[1, 0]) if transB else B)
        y = y if alpha == 1 else y * alpha
        if C is None:
            return y
        y + (C if beta == 1 else C * beta)
    Mean: *inputs -> Sum(*inputs) / len(inputs)
    Mod: A, B, fmod: int = 0 ->
        rest = Mod(A, B, fmod=1)
        Where((rest != 0) & Xor(rest < 0, B < 0), rest + B, rest)
    IsInf: X, detect_negative: int = 1, detect_positive: int = 1 ->
        if not detect_positive and not detect_negative:
            return X != X
        IsInf(X) & (X > 0 if detect_positive else X < 0)
    Selu: X, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875 ->
        Where(X > 0, X, (Exp(X) - 1.0) * alpha) * gamma
    BitCast: input, to: int ->
        if is_float(input) or element_type(to).is_floating_point():
            raise Unsupported("takes the bits of floats, which no primitive does, and only those of integers can be written")
        Cast(input, to=to)
    Shrink: input, bias: float = 0.0, lambd: float = 0.5 ->
        Where(input < -lambd, input + bias, Where(input > lambd, input - bias, 0))
    PRelu: X, slope -> Where(X < 0, X * slope, X)
    Hardmax: input, axis: int = -1 ->
        best = ArgMax(input, axis=axis, keepdims=1)
        cast(cast(best, INT32) == cast(along(input, axis), INT32), dtype(input))
    LpNormalization: input, axis: int = -1, p: int = 2 ->
        size = ReduceSum(Abs(input), [axis], keepdims=1) if p == 1 else Sqrt(ReduceSum(input * input, [axis], keepdims=1))
        Where(size == 0, 0, input / Where(size == 0, 1, size))
    CumSum: x, axis, exclusive: int = 0, reverse: int = 0 ->
        chosen(axis, x, [CumSum(x, constant(i, np.int64), exclusive=exclusive, reverse=reverse) for i in range(rank(x))])
    CumProd: x, axis, exclusive: int = 0, reverse: int = 0 ->
        chosen(axis, x, [CumProd(x, constant(i, np.int64), exclusive=exclusive, reverse=reverse) for i in range(rank(x))])
    """,
)
_SHAPES: Rules = rules(
    __name__,
    """
    Shape: data, start: int = 0, end: int | None = None ->
        Slice(Shape(data), [start], [rank(data) if end is None else end])
    Size: data -> ReduceProd(Shape(data), keepdims=0)
    Reshape: data, shape, allowzero: int = 0 -> whole_shape(data, shape, allowzero)
    Flatten: input, axis: int = 1 ->
        rows = ReduceProd(Shape(input, end=axis), keepdims=1)
        Reshape(input, Concat(rows, constant([-1], np.int64), axis=0))
    Slice: data, starts, ends, axes = None, steps = None ->
        whole_slice(data, starts, ends, axes, steps)
    OneHot: indices, depth, values, axis: int = -1 ->
        count = cast(scalar(depth), INT64)
        at = Unsqueeze(cast(indices, INT64), [axis])
        at = Where(at < 0, at + count, at)
        row = reshape(Range(constant(0, np.int64), count, constant(1, np.int64)), only(rank(indices) + 1, axis))
        Where(at == row, Slice(values, [1], [2]), Slice(values, [0], [1]))
    ConstantOfShape: input, value: Value = None ->
        Expand(constant(np.float32(0)) if value is None else constant(value.numpy().reshape(())), input)
    Trilu: input, k, upper: int = 1 ->
        rows, columns = static_shape(input)[-2:]
        far = constant(np.arange(columns) - np.arange(rows).reshape(-1, 1), np.int64)
        Where(far >= scalar(k) if upper else far <= scalar(k), input, 0)
    QuantizeLinear; saturate: x, y_scale, y_zero_point = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0, precision: int = 0 ->
        to = element_type(output_dtype) if output_dtype else UINT8 if y_zero_point is None else dtype(y_zero_point)
        scale = number_beside(y_scale, x, axis, block_size)
        whole = Round(x / cast(scale, dtype(x)))
        whole = whole if y_zero_point is None else whole + cast(number_beside(y_zero_point, x, axis, block_size), dtype(x))
        cast(Clip(whole, like(least(to), x), like(most(to), x)), to)
    DequantizeLinear: x, x_scale, x_zero_point = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0 ->
        far = cast(x, FLOAT)
        far = far if x_zero_point is None else far - cast(number_beside(x_zero_point, x, axis, block_size), FLOAT)
        cast(far * cast(number_beside(x_scale, x, axis, block_size), FLOAT), element_type(output_dtype) if output_dtype else dtype(x_scale))
    MatMulInteger: x, w, x_zero_point = None, w_zero_point = None ->
        left = cast(x, INT32) if x_zero_point is None else cast(x, INT32) - row_of(cast(x_zero_point, INT32))
        right = cast(w, INT32) if w_zero_point is None else cast(w, INT32) - cast(w_zero_point, INT32)
        cast(cast(left, DOUBLE) @ cast(right, DOUBLE), INT32)
    QLinearMatMul: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point ->
        left = (cast(x, FLOAT) - row_of(cast(x_zero_point, FLOAT))) * row_of(cast(x_scale, FLOAT))
        right = (cast(w, FLOAT) - cast(w_zero_point, FLOAT)) * cast(w_scale, FLOAT)
        QuantizeLinear(left @ right, cast(y_scale, FLOAT), y_zero_point)
    EyeLike: input, dtype: int | None = None, k: int = 0 ->
        cast(along(input, 1) - along(input, 0) == k, element_type(dtype) if dtype else dtype(input))
    DepthToSpace: input, blocksize: int, mode: str = "DCR" ->
        n, c, h, w = shape(input)
        size = blocksize
        blocks = reshape(input, [n if n else -1, c // size // size, size, size, h, w])
        reshape(transpose(blocks, [0, 1, 4, 2, 5, 3]), [n if n else -1, c // size // size, h * size, w * size])
    SpaceToDepth: input, blocksize: int, mode: str = "DCR" ->
        n, c, h, w = shape(input)
        size = blocksize
        blocks = reshape(input, [n if n else -1, c, h // size, size, w // size, size])
        order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
        reshape(transpose(blocks, order), [n if n else -1, c * size * size, h // size, w // size])
    GatherND: data, indices, batch_dims: int = 0 -> batched_gather(data, indices, batch_dims)
    Compress: input, condition, axis: int | None = None ->
        x = input if axis is not None else Reshape(input, [-1])
        at = Reshape(NonZero(condition), [-1])
        Gather(x, at, axis=axis or 0)
    Pad: data, pads, constant_value = None, axes = None, mode: str = "constant" ->
        gathered_pads(data, pads, constant_value, axes, mode)
    ArgMax("ArgMax") ArgMin("ArgMin"): op_type, data, axis: int = 0, keepdims: int = 1, select_last_index: int = 0 ->
        back = Slice(data, [-1], [-1099511627776], [axis], [-1])
        cast((shape(data)[axis] - 1) - cast(op(op_type, back, axis=axis, keepdims=keepdims), INT32), INT64)
    ReduceSum("ReduceSum") ReduceMean("ReduceMean") ReduceMax("ReduceMax") ReduceMin("ReduceMin") ReduceProd("ReduceProd"): op_type, data, axes, keepdims: int = 1, noop_with_empty_axes: int = 0 ->
        grouped(op_type, data, axes, keepdims)
    TopK: X, K, axis: int = -1, largest: int = 1, sorted: int = 1 ->
        last = rank(X) - 1
        turn = [last if i == axis % rank(X) else axis % rank(X) if i == last else i for i in range(rank(X))]
        along = transpose(X if largest else -X, turn)
        values, at = ops("TopK", 2, along, K, axis=-1, largest=1)
        values = transpose(values, turn)
        (values if largest else -values, transpose(at, turn))
    Einsum: *inputs, equation: str -> einsum(inputs, equation)
    GridSample: X, grid, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros" ->
        sampled(X, grid, bool(align_corners), mode, padding_mode)
    AffineGrid: theta, size, align_corners: int = 0 -> corners(theta, bool(align_corners))
    ScatterElements: data, indices, updates, axis: int = 0, reduction: str = "none" ->
        ScatterND(data, places_of(indices, axis % rank(data)), Reshape(updates, [-1]), reduction=reduction)
    TensorScatter: past_cache, update, write_indices = None, axis: int = -2, mode: str = "linear" ->
        at = along(update, axis)
        at = at if write_indices is None else at + Reshape(write_indices, [-1] + [1] * (rank(update) - 1))
        at = at % static_shape(past_cache)[axis] if mode == "circular" else at
        ScatterElements(past_cache, Expand(at, Shape(update)), update, axis=axis)
    Dropout; seed ratio: data, ratio: Value = None, training_mode: bool = False ->
        if training_mode:
            raise Unsupported("draws at random, as for training, and only a model for inference can be written")
        (data, Expand(constant(True, np.bool_), Shape(data)))
    MaxUnpool: X, I, kernel_shape: Ints, pads: Ints = (), strides: Ints = () ->
        dims = unpooled(static_shape(X), kernel_shape, pads or unit_pads(X), strides or (1,) * len(kernel_shape))
        y = ScatterElements(cast(constant(np.zeros(prod(dims), np.float32)), dtype(X)), Reshape(I, [-1]), Reshape(X, [-1]), axis=0)
        reshape(y, dims)
    Col2Im: input, image_shape: Ints, block_shape: Ints, dilations: Ints = (), pads: Ints = (), strides: Ints = () ->
        unit = (1,) * len(block_shape)
        merged(input, image_shape, block_shape, dilations or unit, pads or (0,) * 2 * len(unit), strides or unit)
    RNN("RNN") GRU("GRU") LSTM("LSTM"); hidden_size: kind, *inputs: Value, activations: tuple = (), direction: str = "forward", layout: int = 0, linear_before_reset: int = 0 ->
        recurrence(kind, inputs, direction, activations, layout, linear_before_reset)
    ReverseSequence: input, sequence_lens, batch_axis: int = 1, time_axis: int = 0 ->
        at = along(input, time_axis)
        length = reshape(cast(sequence_lens, INT64), only(rank(input), batch_axis))
        turned = Where(at < length, length - 1 - at, at)
        GatherElements(input, Expand(turned, Shape(input)), axis=time_axis)
    Resize: X, roi = None, scales = None, sizes = None, antialias: int = 0, axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor" ->
        resized_by_weights(X, roi, scales, sizes, axes, how(coordinate_transformation_mode, mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias), keep_aspect_ratio_policy, extrapolation_value))
    Upsample: X, scales, mode: str = "nearest" ->
        Resize(X, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    """,
)
_WINDOWS: Rules = rules(
    __name__,
    """
    Conv: X, W, B = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        size = rank(X) - 2
        unit = (1,) * size
        if size == 1:
            wide = (0, pads[0], 0, pads[1]) if pads else (0, 0, 0, 0)
            y = Conv(Unsqueeze(X, [2]), Unsqueeze(W, [2]), B, auto_pad=auto_pad, dilations=(1, *(dilations or unit)), group=group, pads=wide, strides=(1, *(strides or unit)))
            return Squeeze(y, [2])
        added = explicit(X, shape(W)[2:], auto_pad, dilations or unit, pads, strides or unit)
        if auto_pad == "NOTSET" and size == 3:
            return by_depth(X, W, B, dilations or unit, group, added, strides or unit)
        if auto_pad == "NOTSET":
            raise Unsupported(f"is over {size} dimensions, and 1, 2 and 3 can be written")
        Conv(X, W, B, dilations=dilations or unit, group=group, pads=added, strides=strides or unit)
    ConvTranspose: X, W, B = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), output_padding: Ints = (), output_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        spread(X, W, B, auto_pad, dilations, group, output_padding, output_shape, pads, strides)
    ConvInteger: x, w, x_zero_point = None, w_zero_point = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        unit = (1,) * (rank(x) - 2)
        left = cast(x, FLOAT) if x_zero_point is None else cast(x, FLOAT) - cast(x_zero_point, FLOAT)
        right = cast(w, FLOAT) if w_zero_point is None else cast(w, FLOAT) - number_beside(cast(w_zero_point, FLOAT), w, 0, 0)
        cast(Conv(left, right, auto_pad=auto_pad, dilations=dilations or unit, group=group, pads=pads or unit_pads(x), strides=strides or unit), INT32)
    QLinearConv: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        unit = (1,) * (rank(x) - 2)
        left = (cast(x, FLOAT) - cast(x_zero_point, FLOAT)) * x_scale
        right = (cast(w, FLOAT) - number_beside(cast(w_zero_point, FLOAT), w, 0, 0)) * number_beside(w_scale, w, 0, 0)
        bias = None if B is None else cast(B, FLOAT) * (x_scale * w_scale)
        QuantizeLinear(Conv(left, right, bias, auto_pad=auto_pad, dilations=dilations or unit, group=group, pads=pads or unit_pads(x), strides=strides or unit), y_scale, y_zero_point)
    MaxPool("MaxPool") AveragePool("AveragePool"): op_type, X, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0, dilations: Ints = (), kernel_shape: Ints = (), pads: Ints = (), storage_order: int = 0, strides: Ints = () ->
        if results() > 1:
            raise Unsupported("gives places of elements, which are written of windows over two dimensions with equal padding on both sides")
        pooled(op_type, X, auto_pad, ceil_mode, count_include_pad, dilations, kernel_shape, pads, strides)
    LpPool: X, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints = (), kernel_shape: Ints = (), p: int = 2, pads: Ints = (), strides: Ints = () ->
        means = pooled("AveragePool", Pow(Abs(X), float(p)), auto_pad, ceil_mode, 2, dilations, kernel_shape, pads, strides)
        Pow(means * prod(kernel_shape), 1 / p)
    GlobalAveragePool: X -> ReduceMean(X, range(2, rank(X)), keepdims=1)
    GlobalMaxPool: X -> ReduceMax(X, range(2, rank(X)), keepdims=1)
    GlobalLpPool: X, p: int = 2 -> Pow(ReduceSum(Pow(Abs(X), float(p)), range(2, rank(X)), keepdims=1), 1 / p)
    BatchNormalization; spatial: X, scale, B, mean, var, epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0 ->
        normalised(X, scale, B, mean, var, epsilon, momentum, training_mode)
    InstanceNormalization: input, scale, B, epsilon: float = 1e-5 ->
        axes = range(2, rank(input))
        far = input - ReduceMean(input, axes, keepdims=1)
        spread = ReduceMean(far * far, axes, keepdims=1)
        far / Sqrt(spread + epsilon) * for_channels(scale, input) + for_channels(B, input)
    LRN: X, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0 ->
        dims = shape(X)
        rows = Reshape(X * X, [0, 1, dims[1], -1])
        around = Pad(rows, [0, 0, (size - 1) // 2, 0, 0, 0, size // 2, 0])
        sums = AveragePool(around, kernel_shape=[size, 1]) * size
        X / Pow(reshape(sums, [d if d else -1 for d in dims]) * (alpha / size) + bias, beta)
    """,
)
RULES: Rules = {**_MATHEMATICS, **_SHAPES, **_WINDOWS}
assert contraction
assert places
assert quantised
assert recurrent
assert resize
assert sampling
assert windows  # their functions are those of the rules
