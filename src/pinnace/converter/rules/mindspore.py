"""Rules of MindSpore's own dialect (see `rules`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import Rules, borders, choices, resize, rules, shapes
from pinnace.ops.formulas import function

assert borders
assert choices
assert resize
assert shapes  # their functions are those of rules


@function
def _number(b: Primitives, to: int) -> int:
    """MindSpore's number of an element type, from ONNX's."""
    return number_of(ir.DataType(to))


@function
def _counted(b: Primitives, start: ir.Value, limit: ir.Value, delta: ir.Value) -> ir.Value:
    """A Range, whose numbers are int64 or float32."""
    dtype = b.dtype(start)
    known = [b.known(x) for x in (start, limit, delta)]
    bounds = [
        b.op("TensorToScalar", x) if number is None else number.reshape(-1)[0].item()
        for number, x in zip(known, (start, limit, delta), strict=True)
    ]
    made = b.op("Range", *bounds)
    made.type = ir.TensorType(ir.DataType.FLOAT if dtype.is_floating_point() else ir.DataType.INT64)
    made.shape = ir.Shape([None])
    b.declare(made)
    return b.cast(made, dtype)


@function
def _typed(b: Primitives, results: Any, *types: tuple[ir.DataType, Sequence[int | None] | None]) -> Any:
    """The results of a primitive, with their element types and shapes; no shape is that of the operator's."""
    own = b.declared[0].shape if b.declared and b.declared[0] is not None else None
    values = results if isinstance(results, tuple) else (results,)
    for value, (dtype, shape) in zip(values, types, strict=True):
        shape = own if shape is None else shape
        value.type, value.shape = ir.TensorType(dtype), None if shape is None else ir.Shape(shape)
    b.declare(*values)
    return results


@function
def _chosen_of(b: Primitives, *x: ir.Value) -> ir.Value:
    """A Where; MindSpore Lite's Select wants operands of one shape."""
    whole = shapes.declared_shape(b)
    if whole is None:
        return b.op("Select", *x)
    wide = [v if b.shape(v) == whole else _widened(b, v, whole) for v in x]
    return b.op("Select", *wide)


def _widened(b: Primitives, x: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    y = b.op("BroadcastTo", x, shape)
    y.type, y.shape = x.type, ir.Shape(shape)
    b.declare(y)
    return y


@function
def _as_int32(b: Primitives, number: int | ir.Value) -> ir.Value:
    """A number as a scalar of int32."""
    if isinstance(number, int):
        return b.constant(number, np.int32)
    return b.cast(b.op("Reshape", number, ()), ir.DataType.INT32)


@function
def _split_evenly(b: Primitives, x: ir.Value, axis: int, count: int) -> tuple[ir.Value, ...]:
    """A Split into equal parts."""
    dims: list[Any] = list(b.shape(x))
    dims[axis] = dims[axis] and dims[axis] // count
    parts: tuple[ir.Value, ...] = _typed(
        b, b.ops("Split", count, x, axis, count), *[(b.dtype(x), dims)] * count
    )
    return parts


@function
def _in_pairs_of(b: Primitives, both: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each dimension."""
    rank = len(both) // 2
    return tuple((int(both[i]), int(both[i + rank])) for i in range(rank))


@function
def _shifted(b: Primitives, x: ir.Value, by: ir.Value, left: bool) -> ir.Value:
    """A BitShift; bits shifted by a number that is no place in an element are gone, but for the sign."""
    width = b.dtype(x).bitwidth
    known = b.known(by)
    op_type = "LeftShift" if left else "RightShift"
    if not b.dtype(x).is_signed() or (known is not None and ((known >= 0) & (known < width)).all()):
        return b.op(op_type, x, by)
    within = b.op("LogicalAnd", b.op("GreaterEqual", by, b.like(0, by)), b.op("Less", by, b.like(width, by)))
    moved = b.op(op_type, x, b.op("Select", within, by, b.like(0 if left else width - 1, by)))
    return b.op("Select", within, moved, b.like(0, x)) if left else moved


@function
def _convolved(
    b: Primitives,
    x: ir.Value,
    w: ir.Value,
    bias: ir.Value | None,
    pads: Sequence[int],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int,
    same: bool = False,
) -> ir.Value:
    """A convolution over 2 or 3 dimensions; `pads` is before and after each, or is computed if `same`."""
    channels, _, *kernel = b.shape(w)
    unit = (1, 1) if len(kernel) == 2 else ()
    more: dict[str, Any] = {} if unit else {"strides": (1, 1, *strides), "dilations": (1, 1, *dilations)}
    y = b.op(
        f"Conv{len(kernel)}D",
        x,
        w,
        out_channel=channels,
        kernel_size=tuple(kernel),
        mode=1,
        pad_mode="same" if same else "pad",
        pad=tuple(pads),
        pad_list=tuple(pads),
        stride=(*unit, *strides),
        dilation=(*unit, *dilations),
        group=group,
        groups=group,
        **more,
    )
    _typed(b, y, (b.dtype(x), None))
    if bias is None:
        return y
    if unit:
        return b.op("BiasAdd", y, bias, 0)
    return b.op("Add", y, b.op("Reshape", bias, (-1, 1, 1, 1)))  # MindSpore loads no BiasAdd of volumes


@function
def _folded(b: Primitives, primitive: str, *x: ir.Value) -> ir.Value:
    """A primitive of two operands over all."""
    result = x[0]
    for other in x[1:]:
        result = b.op(primitive, result, other)
    return result


_ELEMENTWISE: Rules = rules(
    __name__,
    """
    Abs("Abs") Acos("ACos") Acosh("Acosh") Asin("Asin") Asinh("Asinh") Atan("Atan") Atanh("Atanh") Ceil("Ceil") Cos("Cos") Cosh("Cosh") Erf("Erf") Exp("Exp") Floor("Floor") HardSwish("HSwish") IsNaN("IsNan") Log("Log") Mish("Mish") Neg("Neg") Not("LogicalNot") Reciprocal("Reciprocal") Relu("ReLU") Round("Round") Sigmoid("Sigmoid") Sign("Sign") Sin("Sin") Sinh("Sinh") Softplus("Softplus") Softsign("Softsign") Sqrt("Sqrt") Tan("Tan") Tanh("Tanh") BitwiseNot("Invert"): primitive, X ->
        op(primitive, X)
    Add("Add") Sub("Sub") Mul("Mul") And("LogicalAnd") Or("LogicalOr") Xor("LogicalXor") Equal("Equal") Greater("Greater") GreaterOrEqual("GreaterEqual") Less("Less") LessOrEqual("LessEqual") BitwiseAnd("BitwiseAnd") BitwiseOr("BitwiseOr") BitwiseXor("BitwiseXor"): primitive, A, B ->
        if dtype(A) == STRING:
            raise Unsupported("computes with text")
        op(primitive, A, B)
    Pow: X, Y -> Pow(X, cast(Y, dtype(X)))
    Div: A, B -> Div(A, B) if is_float(A) else TruncateDiv(A, B)
    Mod: A, B, fmod: int = 0 ->
        if is_float(A) and not fmod:
            raise Unsupported("is of floating-point numbers with the sign of the divisor, and FloorMod is of integers: set fmod to 1")
        TruncateMod(A, B) if fmod or dtype(A) in (UINT16, UINT32, UINT64) else FloorMod(A, B)
    BitShift: X, Y, direction: str -> shifted(X, Y, direction == "LEFT")
    Max("Maximum") Min("Minimum") Sum("Add"): primitive, *inputs -> folded(primitive, *inputs)
    Where: condition, X, Y -> chosen_of(condition, X, Y)
    Identity: x -> x
    Dropout; seed ratio: data, ratio: Value = None, training_mode: bool = False ->
        if training_mode:
            raise Unsupported("draws at random, as for training, and only a model for inference can be written")
        data
    Clip: input, min = None, max = None -> bounded(input, min, max)
    IsInf: X, detect_negative: int = 1, detect_positive: int = 1 ->
        if not (detect_negative and detect_positive):
            raise Unsupported("detects infinities of one sign only, and IsInf those of both")
        IsInf(X)
    Selu: X, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875 ->
        if abs(alpha - 1.6732632) > 1e-6 or abs(gamma - 1.050701) > 1e-6:
            raise Unsupported(f"has alpha {alpha} and gamma {gamma}, and SeLU has those of ONNX's defaults")
        SeLU(X)
    CumProd: x, axis: int, exclusive: int = 0, reverse: int = 0 ->
        CumProd(x, axis, exclusive=bool(exclusive), reverse=bool(reverse))
    Det: X -> MatrixDeterminant(X)
    CumSum: x, axis: int, exclusive: int = 0, reverse: int = 0 ->
        CumSum(x, axis, bool(exclusive), bool(reverse))
    Cast; saturate: input, to: int -> Cast(input, number(to))
    Elu: X, alpha: float = 1.0 ->
        if alpha != 1:
            raise Unsupported(f"has alpha {alpha}, and MindSpore's Elu only 1")
        Elu(X)
    Gelu: X, approximate: str = "none" ->
        if approximate != "tanh":
            raise Unsupported("is exact, and GeLU is the approximation by tanh")
        GeLU(X)
    Softmax: input, axis: int = -1 -> Softmax(input, (axis,))
    LogSoftmax: input, axis: int = -1 -> LogSoftmax(input, axis)
    """,
)
_SHAPES: Rules = rules(
    __name__,
    """
    Shape: data, start: int = 0, end: int | None = None ->
        if start or end is not None:
            raise Unsupported("takes a part of the shape, and TensorShape gives all of it")
        TensorShape(data)
    Reshape: data, shape, allowzero: int = 0 -> Reshape(data, target(data, shape, allowzero))
    Flatten: input, axis: int = 1 -> Reshape(input, matrix(input, axis))
    Squeeze("Squeeze") Unsqueeze("Unsqueeze"): op_type, data, axes: Value = None ->
        if axes is not None and known(axes) is None:
            return Reshape(data, declared())
        if op_type == "Squeeze":
            return Squeeze(data, ints(axes) if axes is not None else ())
        axes = ints(axes)
        for axis in sorted([a % (rank(data) + len(axes)) for a in axes]):
            data = ExpandDims(data, axis)
        data
    Transpose: data, perm: Ints | None = None ->
        Transpose(data, perm or tuple(range(rank(data)))[::-1])
    Concat: *inputs, axis: int -> Concat(with_elements(inputs, axis), axis)
    Expand: input, shape ->
        dims = broadcast(input, shape)
        BroadcastTo(input, dims) if isinstance(dims, tuple) else DynamicBroadcastTo(input, dims)
    Tile: input, repeats -> Tile(input, repeats)
    Gather: data, indices, axis: int = 0 -> Gather(data, indices, axis)
    GatherElements: data, indices, axis: int = 0 -> GatherD(data, axis, indices)
    GatherND: data, indices, batch_dims: int = 0 ->
        if batch_dims:
            raise Unsupported(f"has {batch_dims} batch dimensions, and GatherNd none")
        GatherNd(data, indices)
    ScatterElements Scatter: data, indices, updates, axis: int = 0, reduction: str = "none" ->
        if reduction not in ("none", "add"):
            raise Unsupported(f"has reduction {reduction}, and TensorScatterElements none or add")
        TensorScatterElements(data, indices, updates, axis, 1 if reduction == "add" else 0)
    ScatterND: data, indices, updates, reduction: str = "none" ->
        op(_SCATTERS[reduction], data, indices, updates)
    Slice: data, starts, ends, axes: Ints | None = None, steps: Value = None ->
        StridedSlice(data, *cut(data, starts, ends, axes, steps))
    Split: input, split: Value = None, axis: int = 0, num_outputs: int | None = None ->
        sizes = sizes_of(input, split, axis)
        if len(sizes) == 1:
            return input
        if min(sizes) == max(sizes):
            return split_evenly(input, axis, len(sizes))
        whole = shape(input)
        dims = [[size if i == axis % len(whole) else n for i, n in enumerate(whole)] for size in sizes]
        typed(ops("SplitWithSize", len(sizes), input, sizes, axis), *[(dtype(input), d) for d in dims])
    Pad: data, pads, constant_value = None, axes: Ints | None = None, mode: str = "constant", value: float = 0.0 ->
        filled = like(value, data) if constant_value is None else constant_value
        if known(pads) is None:
            if axes is not None:
                raise Unsupported("has a padding of some axes known only at run time, and PadV3 wants that of all")
            return PadV3(data, Gather(pads, constant(last_first(range(2 * rank(data))), np.int64), 0), filled, mode=_BORDERS_OF_PADS[mode])
        both = both_sides(known(pads), axes, rank(data))
        if min(both) < 0:
            raise Unsupported("has a padding below zero, and PadV3 only adds: use Slice")
        if mode == "constant" and is_float(data) and known(filled) is not None and known(filled) == 0:
            return op("Pad", data, paddings=in_pairs_of(both))
        if mode == "constant":
            return with_border(data, both, filled)
        raise Unsupported(f"has mode {mode}, and PadV3 of known sizes is written for constant alone")
    Range: start, limit, delta -> counted(start, limit, delta)
    Unique: X, axis: int | None = None, sorted: int = 1 -> told_apart(X, axis, not sorted)
    NonZero: X -> Transpose(NonZero(X), (1, 0))
    Trilu: input, k: int = 0, upper: int = 1 ->
        Triu(input, k) if upper else Tril(input, diagonal=k)
    DepthToSpace: input, blocksize: int, mode: str = "DCR" ->
        if mode == "CRD":
            raise Unsupported("has mode CRD, and DepthToSpace DCR")
        DepthToSpace(input, block_size=blocksize)
    TopK: X, K, axis: int = -1, largest: int = 1, sorted: int = 1 ->
        if axis % rank(X) != rank(X) - 1 or not largest:
            raise Unsupported("is not of the greatest along the last axis, as TopK is")
        found = ops("TopK", 2, X, as_int32(known_or_declared(K, axis)), sorted=True)
        values, places = typed(found, (dtype(X), None), (INT32, None))
        (values, cast(places, INT64))
    """,
)
_REDUCTIONS: Rules = rules(
    __name__,
    """
    ReduceSum("ReduceSum") ReduceMean("ReduceMean") ReduceMax("ReduceMax") ReduceMin("ReduceMin") ReduceProd("ReduceProd"): primitive, data, axes: Ints | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0 ->
        if not axes and noop_with_empty_axes:
            return data
        if dtype(data) is BOOL:
            return op("ReduceAny" if primitive == "ReduceMax" else "ReduceAll", data, tuple(axes or range(rank(data))), bool(keepdims))
        op(primitive, data, tuple(axes or range(rank(data))), bool(keepdims))
    ArgMax("Argmax") ArgMin("Argmin"): primitive, data, axis: int = 0, keepdims: int = 1, select_last_index: int = 0 ->
        if select_last_index:
            raise Unsupported("takes the last of equal elements, and MindSpore the first")
        dims = shape(data)
        places = typed(op(primitive, data, axis, number(7)), (INT64, [n for i, n in enumerate(dims) if i != axis % len(dims)]))
        ExpandDims(places, axis) if keepdims else places
    """,
)
_BORDERS_OF_PADS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "circular"}
_SCATTERS = {
    "none": "TensorScatterUpdate",
    "add": "TensorScatterAdd",
    "mul": "TensorScatterMul",
    "max": "TensorScatterMax",
    "min": "TensorScatterMin",
}
"""The primitives of ScatterND's reductions."""
_NETWORKS: Rules = rules(
    __name__,
    """
    MatMul: A, B ->
        if rank(A) == 2 and rank(B) == 2 and dtype(A) not in (UINT32, UINT64):
            return MatMul(A, B)
        if rank(A) > 2 and rank(A) == rank(B) and None not in shape(A)[:-2] and shape(A)[:-2] == shape(B)[:-2]:
            return BatchMatMul(A, B)
        MatMulExt(A, B)
    NonMaxSuppression: boxes, scores, most = None, overlap = None, score = None, center_point_box: int = 0 ->
        suppressed_of_all(boxes, scores, most, overlap, score, bool(center_point_box))
    RoiAlign: X, rois, batch_indices, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0 ->
        if mode != "avg" or sampling_ratio < 1:
            raise Unsupported(f"has mode {mode} and sampling_ratio {sampling_ratio}, and MindSpore's ROIAlign takes the mean of a fixed number of samples")
        shifted = coordinate_transformation_mode == "half_pixel"
        ROIAlign(X, regions(rois, batch_indices, shifted, spatial_scale), pooled_height=output_height, pooled_width=output_width, spatial_scale=spatial_scale, sample_num=sampling_ratio, roi_end_mode=1 if shifted else 0)
    DeformConv: X, W, offset, B = None, mask = None, dilations: Ints = (1, 1), group: int = 1, kernel_shape: Ints = (), offset_group: int = 1, pads: Ints = (0, 0, 0, 0), strides: Ints = (1, 1) ->
        if rank(X) != 4:
            raise Unsupported(f"is over {rank(X) - 2} dimensions, and MindSpore's DeformableOffsets over 2")
        kernel = shape(W)[2:]
        taken = typed(bent(X, offset, mask, kernel, dilations, offset_group, pads, strides), (dtype(X), None))
        convolved(taken, W, B, (0, 0, 0, 0), kernel, (1, 1), group)
    Conv: X, W, B = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        size = rank(X) - 2
        if size not in (2, 3):
            raise Unsupported(f"is over {size} dimensions, and MindSpore's primitives over 2 or 3")
        same = pads_itself(X, auto_pad)
        convolved(X, W, B, in_pairs("NOTSET" if same else auto_pad, pads, size), strides or (1,) * size, dilations or (1,) * size, group, same)
    MaxPool: X, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints = (), kernel_shape: Ints = (), pads: Ints = (), storage_order: int = 0, strides: Ints = () ->
        if pads_itself(X, auto_pad) and rank(X) == 4 and results() == 1 and not ceil_mode and max(dilations or (1,)) == 1:
            return MaxPool(X, kernel_size=(1, 1, *kernel_shape), strides=(1, 1, *(strides or (1, 1))), pad_mode="SAME")
        if rank(X) != 4 or auto_pad not in ("NOTSET", "VALID"):
            raise Unsupported("is not over two dimensions, or has an auto_pad of which the padding depends on the size")
        if results() > 1:
            return pooled_with_places(X, kernel_shape, bool(ceil_mode), (dilations or (1, 1), pads or (0, 0, 0, 0), strides or (1, 1)), bool(storage_order))
        same = is_same(X, kernel_shape, pads or (0,) * 4, strides or (1, 1))
        if (max(pads or (0,)) and not same) or ceil_mode or max(dilations or (1,)) > 1:
            raise Unsupported("pads, rounds up, or has gaps in its windows, and MindSpore's MaxPool does not")
        MaxPool(X, kernel_size=(1, 1, *kernel_shape), strides=(1, 1, *(strides or (1, 1))), pad_mode="SAME" if same else "VALID")
    AveragePool: X, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0, dilations: Ints = (), kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        if pads_itself(X, auto_pad) and rank(X) == 4 and not count_include_pad and not ceil_mode and max(dilations or (1,)) == 1:
            return AvgPool(X, kernel_shape, strides or (1, 1), "SAME")
        if rank(X) != 4 or auto_pad not in ("NOTSET", "VALID") or max(pads or (0,)) or ceil_mode or max(dilations or (1,)) > 1:
            raise Unsupported("pads, rounds up, has gaps in its windows, or is not over two dimensions, as AvgPool is")
        AvgPool(X, kernel_shape, strides or (1, 1))
    BatchNormalization; momentum spatial: X, scale, B, mean, var, epsilon: float = 1e-5, training_mode: int = 0 ->
        if training_mode or rank(X) not in (2, 4) or dtype(X) is not FLOAT:
            raise Unsupported("trains, is of other numbers than float32, or has neither 2 nor 4 dimensions, as BatchNorm wants them")
        found = ops("BatchNorm", 5, X, scale, B, mean, var, False, epsilon, 0.1, 0)
        typed(found, (dtype(X), None), *[(dtype(scale), shape(scale)) for _ in range(4)])[0]
    LayerNormalization; stash_type: X, Scale, B = None, axis: int = -1, epsilon: float = 1e-5 ->
        axis = axis % rank(X)
        if B is None or shape(Scale) != shape(X)[axis:] or shape(B) != shape(Scale) or results() > 1:
            raise Unsupported("has no B, a Scale that is broadcast, or several results, and LayerNorm has all three")
        found = ops("LayerNorm", 3, X, Scale, B, axis, axis, epsilon)
        rows = [n if i < axis else 1 for i, n in enumerate(shape(X))]
        typed(found, (dtype(X), None), (FLOAT, rows), (FLOAT, rows))[0]
    LRN: X, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0 ->
        if size % 2 == 0 or rank(X) != 4:
            raise Unsupported(f"has size {size} over {rank(X)} dimensions, and MindSpore's LRN odd sizes over 4")
        LRN(X, depth_radius=size // 2, bias=bias, alpha=alpha / size, beta=beta)
    Resize; cubic_coeff_a exclude_outside extrapolation_value roi: X, roi: Value = None, scales = None, sizes = None, antialias: int = 0, axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel", keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor" ->
        form = (mode, coordinate_transformation_mode, nearest_mode if mode == "nearest" else "")
        if antialias or keep_aspect_ratio_policy != "stretch" or form not in _RESIZES or dtype(X) is not FLOAT:
            raise Unsupported(f"has mode {mode} and coordinate_transformation_mode {coordinate_transformation_mode}, which no primitive has")
        primitive, aligned, halves = _RESIZES[form]
        op(primitive, X, exact_size(X, scales, sizes, axes), aligned, halves)
    GridSample: X, grid, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros" ->
        if mode not in _MODES:
            raise Unsupported(f"has mode {mode}, and GridSampler is written for linear")
        op(f"GridSampler{rank(X) - 2}D", X, grid, _MODES[mode], _BORDERS[padding_mode], bool(align_corners))
    """,
)
_RESIZES = {
    ("nearest", "asymmetric", "floor"): ("ResizeNearestNeighborV2", False, False),
    ("linear", "half_pixel", ""): ("ResizeBilinearV2", False, True),
    ("linear", "pytorch_half_pixel", ""): ("ResizeBilinearV2", False, True),
    ("linear", "align_corners", ""): ("ResizeBilinearV2", True, False),
    ("linear", "asymmetric", ""): ("ResizeBilinearV2", False, False),
}
"""Primitives of Resize's forms, whether corners are aligned, and pixels have their centers at halves."""
_MODES = {"linear": 0, "bilinear": 0}
"""Those of GridSample; between two elements, MindSpore's nearest is the one that is further from zero."""
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}
RULES: Rules = {**_ELEMENTWISE, **_SHAPES, **_REDUCTIONS, **_NETWORKS}
