"""Rules of MindSpore Lite's dialect (see `rules`): elementwise, reductions, shapes and places.

In a `.ms` images have their channels last (see `images`).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import operators, shapes
from pinnace.converter.rules.images import joined, nchw, nhwc, order, over, padded_image, reduction, turned
from pinnace.converter.rules.narrow import as_type, in_int32, int32, ints32, of, reshaped
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Value

_BOOL, _FLOAT = ir.DataType.BOOL, ir.DataType.FLOAT
_INT32, _INT64 = ir.DataType.INT32, ir.DataType.INT64
_RELU6, _ELU, _LEAKY_RELU, _HSIGMOID, _SWISH, _GELU = 3, 4, 5, 13, 18, 19  # ActivationType
_FLOAT_PAD, _REFLECT = 0, 1  # PaddingMode


# -- elementwise -----------------------------------------------------------------------------------


@operators("Abs Ceil Cos Equal Erf Floor Greater Less Log Neg Reciprocal Round Sin Sqrt")
@operators(Add="AddFusion", Div="DivFusion", Exp="ExpFusion", Mul="MulFusion", Sub="SubFusion")
@operators(And="LogicalAnd", GreaterOrEqual="GreaterEqual", LessOrEqual="LessEqual")
@operators(Not="LogicalNot", Or="LogicalOr")
def _of_other_name(op: Primitives, primitive: str, *x: Tensor) -> Tensor:
    return over(op, primitive, *x)


@operators(Max="Maximum", Min="Minimum", Sum="AddFusion")
def _folded(op: Primitives, primitive: str, first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = over(op, primitive, first, other)
    return first


def Pow(op: Primitives, x: Tensor, y: Tensor) -> Tensor:
    return over(op, "PowFusion", x, op.cast(y, op.dtype(x)))


def Mod(op: Primitives, a: Tensor, b: Tensor, fmod: int = 0) -> Tensor:
    shapes.check_signs(op, a, fmod)
    return over(op, "Mod" if fmod else "FloorMod", a, b)


@operators(HardSwish=12, Relu=1, Sigmoid=2, Softplus=9, Tanh=10)
def _activation(op: Primitives, activation: int, x: Tensor) -> Tensor:
    if not is_float(op, x):
        raise Unsupported(f"is of {op.dtype(x).name}, and Activation of floating-point numbers")
    return over(op, "Activation", x, activation_type=activation)


def Elu(op: Primitives, x: Tensor, alpha: float = 1.0) -> Tensor:
    return over(op, "Activation", x, activation_type=_ELU, alpha=alpha)


def LeakyRelu(op: Primitives, x: Tensor, alpha: float = 0.01) -> Tensor:
    return over(op, "Activation", x, activation_type=_LEAKY_RELU, alpha=alpha)


def HardSigmoid(op: Primitives, x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        raise Unsupported(f"has alpha {alpha} and beta {beta}, and Lite's HSIGMOID 1/6 and 0.5")
    return over(op, "Activation", x, activation_type=_HSIGMOID)


def Swish(op: Primitives, x: Tensor, alpha: float = 1.0) -> Tensor:
    if alpha != 1:
        raise Unsupported(f"has alpha {alpha}, and Lite's SWISH 1")
    return over(op, "Activation", x, activation_type=_SWISH)


def Gelu(op: Primitives, x: Tensor, approximate: str = "none") -> Tensor:
    return over(op, "Activation", x, activation_type=_GELU, approximate=approximate == "tanh")


def Clip(op: Primitives, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if is_float(op, x) and op.known(low) == 0 and op.known(high) == 6:
        return over(op, "Activation", x, activation_type=_RELU6)
    x = x if low is None else over(op, "Maximum", x, low)
    return x if high is None else over(op, "Minimum", x, high)


def PRelu(op: Primitives, x: Tensor, slope: Tensor) -> Tensor:
    dims = op.static_shape(slope)
    whole = len([d for d in dims if d != 1]) <= 1 and dims[-3:][:1] == op.shape(x)[1:2]
    if op.rank(x) != 4 or not is_float(op, x) or not whole:
        raise Unsupported(
            "has a slope that is not a number for each channel of an image, as PReLUFusion wants it"
        )
    return nchw(op, op.PReLUFusion(nhwc(op, x), flat(op, slope)))


def Cast(op: Primitives, x: Tensor, to: int, _saturate: int = 1) -> Tensor:
    """Lite's Cast makes bool of floats only, and int32 and floats of bool."""
    dtype, own = ir.DataType(to), op.dtype(x)
    number_of(dtype)
    if own is _BOOL and dtype in (_INT32, _INT64):
        return of(op, op.cast(x, _INT32), dtype)
    if dtype is _BOOL and own is not _BOOL and not is_float(op, x):
        return op.cast(op.cast(x, _FLOAT), _BOOL)
    return as_type(op, x, dtype)


def Softmax(op: Primitives, x: Tensor, axis: int = -1) -> Tensor:
    return op.Softmax(x, axis=(axis,))


def LogSoftmax(op: Primitives, x: Tensor, axis: int = -1) -> Tensor:
    return op.LogSoftmax(x, axis=axis)


def CumSum(op: Primitives, x: Tensor, axis: int, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """A CumSum; PyTorch's older exporter writes those of bool, which have int64."""
    whole = op.cast(x, _INT32) if x.dtype is _BOOL else x
    y = op.CumSum(whole, int32(op, axis), exclusive=bool(exclusive), reverse=bool(reverse))
    if whole is x:
        return y
    assert op.node is not None
    op.node.outputs[0].type = ir.TensorType(_INT64)
    return of(op, y, _INT64)


# -- reductions ------------------------------------------------------------------------------------


@operators(ReduceL1=6, ReduceL2=8, ReduceMax=1, ReduceMean=0)
@operators(ReduceMin=2, ReduceProd=3, ReduceSum=4, ReduceSumSquare=5)
def _reduced(
    op: Primitives,
    mode: int,
    data: Tensor,
    axes: Ints | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Tensor:
    if not axes and noop_with_empty_axes:
        square, absolute = mode == 5, mode in (6, 8)
        return over(op, "MulFusion", data, data) if square else over(op, "Abs", data) if absolute else data
    return reduction(op, data, tuple(axes or ()), mode, bool(keepdims))


@operators(ArgMax="ArgMaxFusion", ArgMin="ArgMinFusion")
def _extreme(
    op: Primitives, primitive: str, data: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    if select_last_index:
        raise Unsupported("takes the last of equal elements, and Lite the first")
    return of(op, op.op(primitive, data, axis=axis, top_k=1, keep_dims=bool(keepdims)), _INT64)


def TopK(
    op: Primitives, x: Tensor, k: Tensor, axis: int = -1, largest: int = 1, _sorted: int = 1
) -> tuple[Tensor, ...]:
    if not largest:
        raise Unsupported("takes the smallest, and TopKFusion the greatest")
    most, at = in_int32(op, k), axis % op.rank(x)
    values, places = op.ops("TopKFusion", 2, x, most, axis=at, sorted=True, largest=1)
    return values, of(op, places, _INT64)


# -- shapes ----------------------------------------------------------------------------------------


def Shape(op: Primitives, data: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    if start or end is not None:
        raise Unsupported("takes a part of the shape, and Lite's Shape gives all of it")
    return of(op, op.Shape(data), _INT64)


def Size(op: Primitives, data: Tensor) -> Tensor:
    return of(op, op.Size(data), _INT64)


def Reshape(op: Primitives, data: Tensor, shape: Tensor, allowzero: int = 0) -> Tensor:
    dims = shapes.target(op, data, shape, allowzero, keeps=True)
    known = isinstance(dims, tuple)
    if (allowzero and not shapes.told(op, shape)) or (known and 0 in dims):
        raise Unsupported("has dimensions of size zero, which Lite's Reshape takes for those of its input")
    return reshaped(op, data, dims) if known else op.Reshape(data, in_int32(op, dims))


def Flatten(op: Primitives, x: Tensor, axis: int = 1) -> Tensor:
    return op.Reshape(x, ints32(op, shapes.matrix(op, x, axis)))


def Squeeze(op: Primitives, data: Tensor, axes: Value = None) -> Tensor:
    at = _numbers(op, axes)
    if at is None:
        return reshaped(op, data, _declared_dims(op))
    if op.dtype(data) is _INT64 and op.rank(data) == len(at):  # of which Lite has no Squeeze
        return reshaped(op, data, ())
    return op.Squeeze(data, axis=at)


def Unsqueeze(op: Primitives, data: Tensor, axes: Value) -> Tensor:
    at = _numbers(op, axes)
    if at is None:
        return reshaped(op, data, _declared_dims(op))
    for axis in sorted(a % (op.rank(data) + len(at)) for a in at):
        data = op.Unsqueeze(data, axis=(axis,))
    return data


def _numbers(op: Primitives, axes: Value) -> Ints | None:
    """Axes that are known, none where none are given."""
    if not isinstance(axes, Tensor):
        return axes or ()
    known = op.known(axes)
    return None if known is None else tuple(map(int, known.reshape(-1)))


def _declared_dims(op: Primitives) -> Ints:
    """The shape that the model declares of the result, of which one dimension may be free."""
    declared = op.declared[0].shape if op.declared and op.declared[0] else None
    if declared is None or declared.count(None) > 1 or 0 in declared:
        raise Unsupported("has axes known only at run time, and Lite wants them in the file")
    return tuple(-1 if d is None else d for d in declared)


def Transpose(op: Primitives, data: Tensor, perm: Ints | None = None) -> Tensor:
    return turned(op, data, perm or tuple(range(op.rank(data)))[::-1])


def Concat(op: Primitives, *inputs: Tensor, axis: int) -> Tensor:
    return joined(op, shapes.with_elements(op, inputs, axis), axis)


def Expand(op: Primitives, x: Tensor, shape: Tensor) -> Tensor:
    dims = shapes.broadcast(op, x, shape)
    known = isinstance(dims, tuple)
    return op.BroadcastTo(x, shape=dims) if known else op.BroadcastTo(x, in_int32(op, dims))


def Tile(op: Primitives, x: Tensor, repeats: Tensor) -> Tensor:
    return op.TileFusion(x, in_int32(op, repeats))


def Slice(
    op: Primitives,
    data: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    (count,) = op.static_shape(starts)
    at = ints32(op, range(count)) if axes is None else in_int32(op, axes)
    by = ints32(op, [1] * count) if steps is None else in_int32(op, steps)
    return op.StridedSlice(data, in_int32(op, starts), in_int32(op, ends), at, by)


def Split(
    op: Primitives, x: Tensor, split: Tensor | None = None, axis: int = 0, _num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    sizes = shapes.sizes_of(op, x, split, axis)
    count = len(sizes)
    return op.ops("Split", count, x, output_num=count, size_splits=sizes, axis=axis % op.rank(x))


def Pad(
    op: Primitives,
    data: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Value = None,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    known, filled = op.known(pads), op.known(constant_value)
    if known is None and mode == "constant":
        pairs = turned(op, op.Reshape(_all_pads(op, data, pads, axes), ints32(op, [2, -1])), (1, 0))
        return op.PadFusion(data, pairs, op.like(value, data) if constant_value is None else constant_value)
    if known is None or mode not in ("constant", "reflect"):
        raise Unsupported(f"has mode {mode}, and PadFusion constant, and reflect of sizes that are known")
    both = shapes.both_sides(known, _numbers(op, axes) if axes is not None else None, op.rank(data))
    if min(both) < 0:
        raise Unsupported("has a padding below zero, and PadFusion only adds: use Slice")
    if (constant_value is not None and filled is None) or not is_float(op, data):
        filler = op.constant([0], np.int32) if constant_value is None else flat(op, constant_value)
        return padded_image(op, data, both, filler)
    kind, number = _REFLECT if mode == "reflect" else _FLOAT_PAD, value if filled is None else filled.item()
    return padded_image(op, data, both, padding_mode=kind, constant_value=number)


def _all_pads(op: Primitives, x: Tensor, pads: Tensor, axes: Value) -> Tensor:
    """Return the padding before each dimension, then after each, where some are known only in the run."""
    at, (count,), rank = _numbers(op, axes), op.static_shape(pads), op.rank(x)
    if at is None:
        raise Unsupported("has axes known only at run time, and Lite wants them in the file")
    places = [count] * 2 * rank
    for i, axis in enumerate(at or range(count // 2)):
        places[axis % rank], places[axis % rank + rank] = i, i + count // 2
    known = op.Concat(in_int32(op, pads), ints32(op, [0]), axis=0)
    return op.Gather(known, ints32(op, places), int32(op, 0))


def flat(op: Primitives, x: Tensor) -> Tensor:
    """A constant as a vector."""
    known = op.known(x)
    return op.Reshape(x, op.constant([-1], np.int32)) if known is None else op.constant(known.reshape(-1))


def Range(op: Primitives, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return op.Range(start, limit, delta)


def ConstantOfShape(op: Primitives, shape: Tensor, value: Value = None) -> Tensor:
    number = op.constant(0, np.float32) if value is None else op.constant(value.numpy()[0])
    return op.Fill(number, in_int32(op, shape))


def Trilu(op: Primitives, x: Tensor, k: int = 0, upper: int = 1) -> Tensor:
    return op.op("Triu" if upper else "Tril", x, op.constant(k, np.int64))


def DepthToSpace(op: Primitives, x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    return nchw(op, op.DepthToSpace(nhwc(op, x), block_size=blocksize, mode=mode, format=order(op)))


def SpaceToDepth(op: Primitives, x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    if mode != "DCR":
        raise Unsupported(f"has mode {mode}, and SpaceToDepth DCR")
    return nchw(op, op.SpaceToDepth(nhwc(op, x), block_size=blocksize, format=order(op)))


# -- places ----------------------------------------------------------------------------------------


def Gather(op: Primitives, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    return op.Gather(data, indices, int32(op, axis % op.rank(data)))


def GatherElements(op: Primitives, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    return op.GatherD(data, int32(op, axis % op.rank(data)), indices)


def ScatterElements(
    op: Primitives, data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    if reduction != "none":
        raise Unsupported(f"has reduction {reduction}, which the primitive lacks")
    return op.ScatterElements(data, indices, updates, axis=axis)


Scatter = ScatterElements


def ScatterND(
    op: Primitives, data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none"
) -> Tensor:
    if reduction not in ("none", "add"):
        raise Unsupported(f"has reduction {reduction}, which the primitive lacks")
    return op.op("TensorScatterAdd" if reduction == "add" else "ScatterNdUpdate", data, indices, updates)


def OneHot(op: Primitives, indices: Tensor, depth: Tensor, values: Tensor, axis: int = -1) -> Tensor:
    return op.OneHot(indices, in_int32(op, depth), values, axis=axis % (op.rank(indices) + 1))


def NonZero(op: Primitives, x: Tensor) -> Tensor:
    return of(op, turned(op, op.Where(x), (1, 0)), _INT64)


def NonMaxSuppression(
    op: Primitives,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    score: Tensor | None = None,
    center_point_box: int = 0,
) -> Tensor:
    most = op.constant(0, np.int64) if most is None else most
    overlap = op.constant(0, np.float32) if overlap is None else overlap
    rest = [] if score is None else [score]
    found = op.NonMaxSuppression(boxes, scores, most, overlap, *rest, center_point_box=center_point_box)
    return of(op, found, _INT64)


def ReverseSequence(
    op: Primitives, x: Tensor, sequence_lens: Tensor, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    return op.ReverseSequence(x, sequence_lens, seq_dim=time_axis, batch_dim=batch_axis)
