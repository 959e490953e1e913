"""Rules of MindSpore Lite's dialect (see `rules`); in a `.ms` images have their channels last (see `images`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import Rules, images, integers, kernels, rules, shapes
from pinnace.converter.rules.narrow import in_int32, int32, ints32
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported, Value

assert images
assert integers
assert kernels
assert shapes  # their functions are those of the rules

_RELU, _SIGMOID, _RELU6, _ELU, _LEAKY_RELU, _SOFTPLUS, _TANH = 1, 2, 3, 4, 5, 9, 10  # ActivationType
_HSWISH, _HSIGMOID, _SWISH, _GELU = 12, 13, 18, 19
_FLOAT_PAD, _REFLECT = 0, 1  # PaddingMode
_IMAGE = 4
"""Dimensions of an image."""
_REDUCTIONS = {"Mean": 0, "Max": 1, "Min": 2, "Prod": 3, "Sum": 4, "SumSquare": 5, "L1": 6, "L2": 8}
_METHODS = {"linear": 0, "nearest": 1, "cubic": 2}
_COORDINATES = {"asymmetric": 0, "align_corners": 1, "half_pixel": 2}
_FLOOR = 3  # NearestMode


@function
def _folded(b: Primitives, primitive: str, *x: ir.Value) -> ir.Value:
    """A primitive of two operands over all."""
    result = x[0]
    for other in x[1:]:
        result = images.over(b, primitive, result, other)
    return result


_ELEMENTWISE: Rules = rules(
    __name__,
    """
    Abs("Abs") Ceil("Ceil") Cos("Cos") Erf("Erf") Exp("ExpFusion") Floor("Floor") Log("Log") Neg("Neg") Not("LogicalNot") Reciprocal("Reciprocal") Round("Round") Sin("Sin") Sqrt("Sqrt"): primitive, X ->
        over(primitive, X)
    Relu(1) Sigmoid(2) Softplus(9) Tanh(10) HardSwish(12): activation, X ->
        if not is_float(X):
            raise Unsupported(f"is of {dtype(X).name}, and Activation of floating-point numbers")
        over("Activation", X, activation_type=activation)
    Elu: X, alpha: float = 1.0 -> over("Activation", X, activation_type=_ELU, alpha=alpha)
    LeakyRelu: X, alpha: float = 0.01 -> over("Activation", X, activation_type=_LEAKY_RELU, alpha=alpha)
    HardSigmoid: X, alpha: float = 0.2, beta: float = 0.5 ->
        if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
            raise Unsupported(f"has alpha {alpha} and beta {beta}, and Lite's HSIGMOID 1/6 and 0.5")
        over("Activation", X, activation_type=_HSIGMOID)
    Swish: X, alpha: float = 1.0 ->
        if alpha != 1:
            raise Unsupported(f"has alpha {alpha}, and Lite's SWISH 1")
        over("Activation", X, activation_type=_SWISH)
    Gelu: X, approximate: str = "none" ->
        over("Activation", X, activation_type=_GELU, approximate=approximate == "tanh")
    Clip: input, min = None, max = None ->
        low, high = known(min), known(max)
        if is_float(input) and low is not None and high is not None and low == 0 and high == 6:
            return over("Activation", input, activation_type=_RELU6)
        y = input if min is None else over("Maximum", input, min)
        y if max is None else over("Minimum", y, max)
    PRelu: X, slope ->
        if rank(X) != 4 or not is_float(X) or len([d for d in static_shape(slope) if d != 1]) > 1 or static_shape(slope)[-3:][:1] != shape(X)[1:2]:
            raise Unsupported("has a slope that is not a number for each channel of an image, as PReLUFusion wants it")
        nchw(PReLUFusion(nhwc(X), flat(slope)))
    Add("AddFusion") Sub("SubFusion") Mul("MulFusion") Div("DivFusion") And("LogicalAnd") Or("LogicalOr") Equal("Equal") Greater("Greater") GreaterOrEqual("GreaterEqual") Less("Less") LessOrEqual("LessEqual"): primitive, A, B ->
        over(primitive, A, B)
    Pow: X, Y -> over("PowFusion", X, cast(Y, dtype(X)))
    Mod: A, B, fmod: int = 0 ->
        if is_float(A) and not fmod:
            raise Unsupported("is of floating-point numbers with the sign of the divisor, and FloorMod is of integers: set fmod to 1")
        over("Mod" if fmod else "FloorMod", A, B)
    Max("Maximum") Min("Minimum") Sum("AddFusion"): primitive, *inputs -> folded(primitive, *inputs)
    Where: condition, X, Y -> choice(condition, X, Y)
    Identity: x -> x
    Dropout; seed ratio: data, ratio: Value = None, training_mode: bool = False ->
        if training_mode:
            raise Unsupported("draws at random, as for training, and only a model for inference can be written")
        data
    Cast; saturate: input, to: int ->
        # Lite's Cast makes bool of floats only, and int32 and floats of bool.
        if dtype(input) is BOOL and datatype(to) in (INT32, INT64):
            return of(cast(input, INT32), datatype(to))
        if datatype(to) is BOOL and dtype(input) is not BOOL and not is_float(input):
            return cast(cast(input, FLOAT), BOOL)
        as_type(input, datatype(to))
    Softmax: input, axis: int = -1 -> Softmax(input, axis=(axis,))
    LogSoftmax: input, axis: int = -1 -> LogSoftmax(input, axis=axis)
    QuantizeLinear; saturate output_dtype precision axis: x, y_scale, y_zero_point = None -> in_integers(x, y_scale, y_zero_point)
    DequantizeLinear; output_dtype: x, x_scale, x_zero_point = None, axis: int = 1 -> meant(x, x_scale, x_zero_point, axis)
    DynamicQuantizeLinear: x -> in_dynamic_steps(x)
    CumSum: x, axis: int, exclusive: int = 0, reverse: int = 0 ->
        summed(x, axis, exclusive, reverse)
    """,
)
_SHAPES: Rules = rules(
    __name__,
    """
    Shape: data, start: int = 0, end: int | None = None ->
        if start or end is not None:
            raise Unsupported("takes a part of the shape, and Lite's Shape gives all of it")
        of(Shape(data), INT64)
    Size: data -> of(Size(data), INT64)
    Reshape: data, shape, allowzero: int = 0 ->
        dims = target(data, shape, allowzero, True)
        if allowzero and not told(shape) or isinstance(dims, tuple) and 0 in dims:
            raise Unsupported("has dimensions of size zero, which Lite's Reshape takes for those of its input")
        if isinstance(dims, tuple):
            return reshaped(data, dims)
        Reshape(data, in_int32(dims))
    Flatten: input, axis: int = 1 -> Reshape(input, ints32(matrix(input, axis)))
    Squeeze: data, axes: Value = None ->
        at = numbers(axes)
        if at is None:
            return reshaped(data, declared_dims())
        if dtype(data) is INT64 and rank(data) == len(at):  # of which Lite has no Squeeze
            return reshaped(data, ())
        Squeeze(data, axis=at)
    Unsqueeze: data, axes: Value ->
        at = numbers(axes)
        if at is None:
            return reshaped(data, declared_dims())
        for axis in sorted([a % (rank(data) + len(at)) for a in at]):
            data = Unsqueeze(data, axis=(axis,))
        data
    Transpose: data, perm: Ints | None = None -> turned(data, perm or tuple(range(rank(data)))[::-1])
    Concat: *inputs, axis: int -> joined(with_elements(inputs, axis), axis)
    Expand: input, shape ->
        dims = broadcast(input, shape)
        if isinstance(dims, tuple):
            return BroadcastTo(input, shape=dims)
        BroadcastTo(input, in_int32(dims))
    Tile: input, repeats -> TileFusion(input, in_int32(repeats))
    Gather: data, indices, axis: int = 0 -> Gather(data, indices, int32(axis % rank(data)))
    GatherElements: data, indices, axis: int = 0 -> GatherD(data, int32(axis % rank(data)), indices)
    GatherND: data, indices, batch_dims: int = 0 ->
        if batch_dims:
            raise Unsupported(f"has {batch_dims} batch dimensions, and GatherNd none")
        GatherNd(data, indices)
    ScatterElements Scatter: data, indices, updates, axis: int = 0, reduction: str = "none" ->
        if reduction != "none":
            raise Unsupported(f"has reduction {reduction}, which the primitive lacks")
        ScatterElements(data, indices, updates, axis=axis)
    ScatterND: data, indices, updates, reduction: str = "none" ->
        if reduction not in ("none", "add"):
            raise Unsupported(f"has reduction {reduction}, which the primitive lacks")
        op("TensorScatterAdd" if reduction == "add" else "ScatterNdUpdate", data, indices, updates)
    Slice: data, starts, ends, axes = None, steps = None ->
        count = static_shape(starts)[0]
        at = ints32(range(count)) if axes is None else in_int32(axes)
        by = ints32([1] * count) if steps is None else in_int32(steps)
        StridedSlice(data, in_int32(starts), in_int32(ends), at, by)
    Split: input, split = None, axis: int = 0, num_outputs: int | None = None ->
        sizes = sizes_of(input, split, axis)
        ops("Split", len(sizes), input, output_num=len(sizes), size_splits=sizes, axis=axis % rank(input))
    Pad: data, pads, constant_value = None, axes: Value = None, mode: str = "constant", value: float = 0.0 ->
        if known(pads) is None and mode == "constant":
            pairs = turned(Reshape(all_pads(data, pads, axes), ints32([2, -1])), (1, 0))
            return PadFusion(data, pairs, like(value, data) if constant_value is None else constant_value)
        if known(pads) is None or mode not in ("constant", "reflect"):
            raise Unsupported(f"has mode {mode} with a padding known only at run time, or one that PadFusion lacks: it has constant and reflect")
        both = both_sides(known(pads), numbers(axes) if axes is not None else None, rank(data))
        if min(both) < 0:
            raise Unsupported("has a padding below zero, and PadFusion only adds: use Slice")
        filled = value if constant_value is None else known(constant_value)
        if filled is None or not is_float(data):
            return padded_image(data, both, flat(constant_value) if constant_value is not None else constant([0], np.int32))
        padded_image(data, both, padding_mode=_REFLECT if mode == "reflect" else _FLOAT_PAD, constant_value=filled.item() if constant_value is not None else filled)
    OneHot: indices, depth, values, axis: int = -1 ->
        OneHot(indices, in_int32(depth), values, axis=axis % (rank(indices) + 1))
    Range: start, limit, delta -> Range(start, limit, delta)
    ConstantOfShape: input, value = None ->
        Fill(constant(0, np.float32) if value is None else constant(value.numpy()[0]), in_int32(input))
    Trilu: input, k: int = 0, upper: int = 1 -> op("Triu" if upper else "Tril", input, constant(k, np.int64))
    DepthToSpace: input, blocksize: int, mode: str = "DCR" ->
        nchw(DepthToSpace(nhwc(input), block_size=blocksize, mode=mode, format=order()))
    SpaceToDepth: input, blocksize: int, mode: str = "DCR" ->
        if mode != "DCR":
            raise Unsupported(f"has mode {mode}, and SpaceToDepth DCR")
        nchw(SpaceToDepth(nhwc(input), block_size=blocksize, format=order()))
    TopK: X, K, axis: int = -1, largest: int = 1, sorted: int = 1 ->
        if not largest:
            raise Unsupported("takes the smallest, and TopKFusion the greatest")
        values, places = ops("TopKFusion", 2, X, in_int32(K), axis=axis % rank(X), sorted=True, largest=1)
        (values, of(places, INT64))
    NonZero: X -> of(turned(op("Where", X), (1, 0)), INT64)
    NonMaxSuppression: boxes, scores, most = None, overlap = None, score = None, center_point_box: int = 0 ->
        limits = [constant(0, np.int64) if most is None else most, constant(0, np.float32) if overlap is None else overlap]
        rest = [] if score is None else [score]
        of(NonMaxSuppression(boxes, scores, *limits, *rest, center_point_box=center_point_box), INT64)
    ReverseSequence: input, sequence_lens, batch_axis: int = 1, time_axis: int = 0 ->
        ReverseSequence(input, sequence_lens, seq_dim=time_axis, batch_dim=batch_axis)
    """,
)
_NETWORKS: Rules = rules(
    __name__,
    """
    ReduceMean("Mean") ReduceMax("Max") ReduceMin("Min") ReduceProd("Prod") ReduceSum("Sum") ReduceSumSquare("SumSquare") ReduceL1("L1") ReduceL2("L2"): what, data, axes: Ints | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0 ->
        if not axes and noop_with_empty_axes:
            return over("MulFusion", data, data) if what == "SumSquare" else over("Abs", data) if what[0] == "L" else data
        reduction(data, tuple(axes or ()), _REDUCTIONS[what], bool(keepdims))
    ArgMax("ArgMaxFusion") ArgMin("ArgMinFusion"): primitive, data, axis: int = 0, keepdims: int = 1, select_last_index: int = 0 ->
        if select_last_index:
            raise Unsupported("takes the last of equal elements, and Lite the first")
        of(op(primitive, data, axis=axis, top_k=1, keep_dims=bool(keepdims)), INT64)
    MatMul: A, B -> MatMulFusion(A, B)
    Gemm: A, B, C = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0 ->
        if alpha != 1 or beta != 1 or not is_float(A) or C is not None and (known(C) is None or rank(C) != 1):
            raise Unsupported("scales, is of integers, or adds more than a constant vector, and MatMulFusion does neither")
        rest = [] if C is None else [C]
        MatMulFusion(A, B, *rest, transpose_a=bool(transA), transpose_b=bool(transB))
    Conv: X, W, B = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        if rank(X) != 4:
            raise Unsupported("is not over two dimensions, as Lite's primitive is")
        same = pads_itself(X, auto_pad)
        pads = in_pairs("NOTSET" if same else auto_pad, pads, 2)
        rest = [] if B is None else [B]
        y = Conv2DFusion(nhwc(X), nhwc(W), *rest, format=order(), kernel_size=shape(W)[2:], stride=strides or (1, 1), dilation=dilations or (1, 1), pad_mode=int(same), pad_list=pads, group=group, in_channel=shape(W)[1] * group, out_channel=shape(W)[0])
        nchw(y)
    ConvTranspose: X, W, B = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), output_padding: Ints = (), output_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        if rank(X) != 4 or output_shape:
            raise Unsupported("is not over two dimensions, as Lite's primitive is")
        pads = in_pairs(auto_pad, pads, 2)
        rest = [] if B is None else [B]
        y = Conv2dTransposeFusion(nhwc(X), nhwc(W), *rest, format=order(), kernel_size=shape(W)[2:], stride=strides or (1, 1), dilation=dilations or (1, 1), pad_mode=0, pad_list=pads, group=group, in_channel=shape(W)[0], out_channel=shape(W)[1] * group, output_paddings=output_padding or (0, 0))
        nchw(y)
    MaxPool("MaxPoolFusion") AveragePool("AvgPoolFusion"); storage_order: primitive, X, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0, dilations: Ints = (), kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        if rank(X) != 4 or max(dilations or (1,)) > 1 or results() > 1 or (count_include_pad and max(pads or (0,))):
            raise Unsupported("gives places, has dilations, counts its padding, or is not over two dimensions, as Lite's pools are")
        same = pads_itself(X, auto_pad)
        pads = in_pairs("NOTSET" if same else auto_pad, pads, 2)
        y = op(primitive, nhwc(X), format=order(), kernel_size=kernel_shape, strides=strides or (1, 1), pad_mode=int(same), pad=pads, round_mode=ceil_mode)
        nchw(y)
    GlobalMaxPool("MaxPoolFusion") GlobalAveragePool("AvgPoolFusion"): primitive, X ->
        if rank(X) != 4:
            raise Unsupported("is not over two dimensions, as Lite's primitive is")
        nchw(whole_pool(primitive, nhwc(X)))
    BatchNormalization; momentum spatial: X, scale, B, mean, var, epsilon: float = 1e-5, training_mode: int = 0 ->
        if training_mode or rank(X) != 4:
            raise Unsupported("trains, or is not over two dimensions, as FusedBatchNorm is")
        nchw(FusedBatchNorm(nhwc(X), scale, B, mean, var, epsilon=epsilon))
    InstanceNormalization: input, scale, B, epsilon: float = 1e-5 ->
        if rank(input) != 4:
            raise Unsupported("is not over two dimensions, as Lite's primitive is")
        InstanceNorm(input, scale, B, epsilon=epsilon)
    LayerNormalization; stash_type: X, Scale, B = None, axis: int = -1, epsilon: float = 1e-5 ->
        if results() > 1 or B is None or static_shape(Scale) != shape(X)[axis:]:
            raise Unsupported("has no B, a Scale that is broadcast, or several results, and LayerNormFusion has one")
        if not whole_norm(X, axis):
            raise Unsupported("is of few elements, of which LayerNormFusion computes only some when it has several threads")
        LayerNormFusion(X, Scale, B, begin_norm_axis=axis, begin_params_axis=axis, epsilon=epsilon, elementwise_affine=True)
    LRN: X, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0 ->
        if rank(X) != 4 or size % 2 == 0:
            raise Unsupported("is not over two dimensions, as Lite's primitive is")
        nchw(LRN(nhwc(X), depth_radius=size // 2, bias=bias, alpha=alpha / size, beta=beta, norm_region="ACROSS_CHANNELS"))
    Resize: X, roi = None, scales = None, sizes = None, antialias: int = 0, axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor" ->
        coordinates, place = coordinate_transformation_mode, nearest_mode if mode == "nearest" else "floor"
        size, factors = resized(X, scales, sizes, axes)
        if keep_aspect_ratio_policy != "stretch" and None in shape(X)[2:]:
            raise Unsupported("keeps the aspect ratio of free dimensions, and Lite's Resize that of none")
        repeats = place[:5] == "round" and coordinates == "half_pixel" and is_multiple(X, size)
        coordinates, place = ("asymmetric", "floor") if repeats else (coordinates, place)
        if antialias or coordinates not in _COORDINATES or mode == "cubic" and (exclude_outside or coordinates == "half_pixel"):
            raise Unsupported(f"has mode {mode}, coordinate_transformation_mode {coordinates} and antialias {antialias}, which Lite's Resize does not compute")
        if place != "floor" or mode == "nearest" and coordinates == "align_corners":
            raise Unsupported(f"has nearest_mode {place} and coordinate_transformation_mode {coordinates}, and Lite's Resize floor of asymmetric or half_pixel")
        y = Resize(nhwc(X), *factors, format=order(), method=_METHODS[mode], new_height=size[0], new_width=size[1], coordinate_transform_mode=_COORDINATES[coordinates], cubic_coeff=cubic_coeff_a, nearest_mode=_FLOOR)
        nchw(y)
    """,
)
RULES: Rules = {**_ELEMENTWISE, **_SHAPES, **_NETWORKS}


@function
def _datatype(b: Primitives, to: int) -> ir.DataType:
    """ONNX's element type of a number; MindSpore must have it."""
    number_of(ir.DataType(to))
    return ir.DataType(to)


@function
def _order(b: Primitives) -> int:
    """The Format of images, NCHW or NHWC."""
    return 0 if b.mindir else 1


@function
def _whole_pool(b: Primitives, primitive: str, x: ir.Value) -> ir.Value:
    """A pool of the whole image."""
    whole: dict[str, Any] = {"format": _order(b), "strides": (1, 1), "pad": (0, 0, 0, 0), "global": True}
    return b.op(primitive, x, **whole)


@function
def _numbers(b: Primitives, axes: Value) -> tuple[int, ...] | None:
    """Axes that are known, none where none are given."""
    if not isinstance(axes, ir.Value):
        return axes or ()
    known = b.known(axes)
    return None if known is None else tuple(map(int, known.reshape(-1)))


@function
def _declared_dims(b: Primitives) -> tuple[int, ...]:
    """The shape that the model declares of the result, of which one dimension may be free."""
    declared = b.declared[0].shape if b.declared and b.declared[0] else None
    if declared is None or declared.count(None) > 1 or 0 in declared:
        raise Unsupported("has axes known only at run time, and Lite wants them in the file")
    return tuple(-1 if d is None else d for d in declared)


@function
def _all_pads(b: Primitives, x: ir.Value, pads: ir.Value, axes: Value) -> ir.Value:
    """Return the padding before each dimension, then after each, where some are known only in the run."""
    at, (count,), rank = _numbers(b, axes), b.static_shape(pads), b.rank(x)
    if at is None:
        raise Unsupported("has axes known only at run time, and Lite wants them in the file")
    places = [count] * 2 * rank
    for i, axis in enumerate(at or range(count // 2)):
        places[axis % rank], places[axis % rank + rank] = i, i + count // 2
    known = b.op("Concat", in_int32(b, pads), ints32(b, [0]), axis=0)
    return b.op("Gather", known, ints32(b, places), int32(b, 0))


@function
def _flat(b: Primitives, x: ir.Value) -> ir.Value:
    """A constant as a vector."""
    known = b.known(x)
    return b.op("Reshape", x, b.constant([-1], np.int32)) if known is None else b.constant(known.reshape(-1))


@function
def _is_multiple(b: Primitives, x: ir.Value, size: Sequence[int | None]) -> bool:
    """True if height and width are multiples of those of an image."""
    pairs = zip(size, b.shape(x)[2:], strict=True)
    return all(new is not None and old and new % old == 0 for new, old in pairs)


@function
def _resized(
    b: Primitives,
    x: ir.Value,
    scales: ir.Value | None,
    sizes: ir.Value | None,
    axes: tuple[int, ...] | None,
) -> tuple[tuple[int | None, ...], tuple[ir.Value, ...]]:
    """Height and width after a Resize; where factors do not give them exactly, the factors for these."""
    dims = b.shape(x)
    declared = b.declared[0].shape if b.declared and b.declared[0] else None
    if len(dims) != _IMAGE or declared is None or declared[:2] != dims[:2]:
        raise Unsupported("is not over height and width, as Lite's Resize is")
    at = list(range(_IMAGE) if axes is None else axes)
    if not {2, 3} <= set(at):
        raise Unsupported("has no factor for each of height and width, as Lite's Resize wants them")
    places = b.constant([at.index(2), at.index(3)], np.int32)
    if scales is None or not scales.shape or 0 in b.shape(scales):
        if None not in declared[2:]:
            return declared[2:], ()
        assert sizes is not None
        return (None, None), (b.op("Gather", in_int32(b, sizes), places, b.constant(0, np.int32)),)
    if (factors := b.known(scales)) is not None:
        pair = [float(factors[at.index(axis)]) for axis in (2, 3)]
        whole = [None if size is None else size * f for size, f in zip(dims[2:], pair, strict=True)]
        if None in whole and any(f % 1 for f in pair):
            raise Unsupported("has a fraction of a free size, which Lite rounds, and ONNX cuts off")
        exact = None not in whole and whole == list(declared[2:])
        return declared[2:], () if exact else (b.constant(pair, np.float32),)
    return declared[2:], (b.op("Gather", scales, places, b.constant(0, np.int32)),)
