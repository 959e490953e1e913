"""Operators without a primitive, as other operators of ONNX (see `rules`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.places import FAR, along, chosen, only
from pinnace.converter.rules import operators, shapes
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Arguments, Ints, Tensor
from pinnace.ops.values import INT32, INT64, Value

# -- elementwise and reductions --------------------------------------------------------------------


class Reduction(Arguments):
    keepdims: int = 1
    noop_with_empty_axes: int = 0


class Product(Arguments):
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0


def Gemm(op: Builder, a: Tensor, b: Tensor, c: Tensor | None = None, *, given: Product) -> Value:
    a = op.transpose(a, [1, 0]) if given.transA else a
    y = op.MatMul(a, op.transpose(b, [1, 0]) if given.transB else b)
    y = y if given.alpha == 1 else y * given.alpha
    return y if c is None else y + (c if given.beta == 1 else c * given.beta)


def Mean(op: Builder, *inputs: Tensor) -> Value:
    return op.Sum(*inputs) / len(inputs)


def Mod(op: Builder, a: Tensor, b: Tensor, _fmod: int = 0) -> Tensor:
    rest = op.Mod(a, b, fmod=1)
    other_sign = op.And(op.Not(op.Equal(rest, 0)), op.Xor(op.Less(rest, 0), op.Less(b, 0)))
    return op.Where(other_sign, rest + b, rest)


def IsInf(op: Builder, x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if not detect_positive and not detect_negative:
        return op.Not(op.Equal(x, x))
    return op.And(op.IsInf(x), op.Greater(x, 0) if detect_positive else op.Less(x, 0))


def BitCast(op: Builder, x: Tensor, to: int) -> Tensor:
    if is_float(op, x) or ir.DataType(to).is_floating_point():
        raise Unsupported("takes the bits of floats, and only those of integers can be written")
    return op.Cast(x, to=to)


def Celu(op: Builder, x: Tensor, alpha: float = 1.0) -> Value:
    """A Celu of any floats: ONNX's definition has one of float32."""
    return op.Elu(x / alpha) * alpha


def Shrink(op: Builder, x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    wide = x if is_float(op, x) else op.cast(x, ir.DataType.DOUBLE)
    small = op.Where(op.Greater(wide, lambd), wide - bias, 0)
    return op.cast(op.Where(op.Less(wide, -lambd), wide + bias, small), op.dtype(x))


def PRelu(op: Builder, x: Tensor, slope: Tensor) -> Tensor:
    return op.Where(op.Less(x, 0), x * slope, x)


def Hardmax(op: Builder, x: Tensor, axis: int = -1) -> Tensor:
    best = op.cast(op.ArgMax(x, axis=axis), INT32)
    return op.cast(op.Equal(best, op.cast(along(op, x, axis), INT32)), op.dtype(x))


def LpNormalization(op: Builder, x: Tensor, axis: int = -1, p: int = 2) -> Tensor:
    total = op.ReduceSum(op.Abs(x) if p == 1 else x * x, [axis])
    size = total if p == 1 else op.Sqrt(total)
    return op.Where(op.Equal(size, 0), 0, x / size)


@operators("CumSum CumProd")
def cumulative(
    op: Builder, op_type: str, x: Tensor, axis: Tensor, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    places = [op.constant(i, np.int64) for i in range(op.rank(x))]
    return chosen(op, axis, x, [op.op(op_type, x, i, exclusive=exclusive, reverse=reverse) for i in places])


@operators("ArgMax ArgMin")
def _last_of_equal(
    op: Builder, op_type: str, data: Tensor, axis: int = 0, keepdims: int = 1, _select_last_index: int = 0
) -> Tensor:
    back = op.Slice(data, [-1], [-FAR], [axis], [-1])
    size = op.shape(data)[axis]
    if size is None:
        raise Unsupported(
            "takes the last of equal elements of a free dimension: fix it by shapes of the inputs"
        )
    return op.cast(size - 1 - op.cast(op.op(op_type, back, axis=axis, keepdims=keepdims), INT32), INT64)


def TopK(
    op: Builder, x: Tensor, k: Tensor, axis: int = -1, largest: int = 1, _sorted: int = 1
) -> tuple[Tensor, ...]:
    turn = list(range(op.rank(x)))
    turn[axis], turn[-1] = turn[-1], turn[axis]
    row = op.transpose(x if largest else -x, turn)
    values, at = op.ops("TopK", 2, row, k)
    values = op.transpose(values, turn)
    return values if largest else -values, op.transpose(at, turn)


@operators("ReduceL2 ReduceLogSum ReduceLogSumExp")
def _of_sum(op: Builder, op_type: str, data: Tensor, axes: Value = None, *, given: Reduction) -> Tensor:
    """A root or logarithm of a sum, which fits the element type where what it is of may not."""
    x, how = _wide(op, data), vars(given)
    if op_type == "ReduceL2":
        return op.cast(op.Sqrt(op.ReduceSum(x * x, axes, **how)), op.dtype(data))
    if op_type == "ReduceLogSum":
        return op.cast(op.Log(op.ReduceSum(x, axes, **how)), op.dtype(data))
    most = op.ReduceMax(x, axes, noop_with_empty_axes=given.noop_with_empty_axes)
    most = op.Where(op.IsInf(most), 0, most)
    total = op.ReduceSum(op.Exp(x - most), axes, **how)
    most = most if given.keepdims else op.Reshape(most, op.Shape(total))
    return op.cast(op.Log(total) + most, op.dtype(data))


def _wide(op: Builder, x: Tensor) -> Tensor:
    """A tensor as floats of 32 bits at least, integers as float64."""
    if not is_float(op, x):
        return op.cast(x, ir.DataType.DOUBLE)
    return op.cast(x, ir.DataType.FLOAT) if op.dtype(x).bitwidth < 32 else x


# -- normalization ---------------------------------------------------------------------------------


class Normalization(Arguments):
    axis: int = -1
    epsilon: float = 1e-5
    momentum: float = 0.9
    num_groups: int = 1
    spatial: int = 1
    stash_type: int = 1
    training_mode: int = 0


def LayerNormalization(
    op: Builder, x: Tensor, scale: Tensor, shift: Tensor | None = None, *, given: Normalization
) -> tuple[Value, ...]:
    wide, stash = _wide(op, x), ir.DataType(given.stash_type)
    mean, far, variance = _spread(op, wide, range(given.axis % op.rank(x), op.rank(x)))
    width = op.Sqrt(variance + given.epsilon)
    y = op.cast(far / width, op.dtype(scale)) * scale
    return y if shift is None else y + shift, op.cast(mean, stash), op.cast(op.Reciprocal(width), stash)


def RMSNormalization(op: Builder, x: Tensor, scale: Tensor, *, given: Normalization) -> Value:
    wide = _wide(op, x)
    square = op.ReduceMean(wide * wide, range(given.axis % op.rank(x), op.rank(x)))
    return op.cast(wide / op.Sqrt(square + given.epsilon), op.dtype(scale)) * scale


def MeanVarianceNormalization(op: Builder, x: Tensor, axes: Ints = (0, 2, 3)) -> Value:
    _, far, variance = _spread(op, _wide(op, x), axes)
    return op.cast(far / (op.Sqrt(variance) + 1e-9), op.dtype(x))


def GroupNormalization(
    op: Builder, x: Tensor, scale: Tensor, shift: Tensor, *, given: Normalization
) -> Value:
    y = op.Reshape(of_groups(op, x, given), op.Shape(x))
    return y * _for_channels(op, scale, x) + _for_channels(op, shift, x)


def of_groups(op: Builder, x: Tensor, given: Normalization) -> Value:
    """Groups of channels, each as a row of an image, with mean 0 and variance 1."""
    _, far, variance = _spread(op, op.Reshape(_wide(op, x), [0, given.num_groups, -1]), [2])
    return op.cast(far / op.Sqrt(variance + given.epsilon), op.dtype(x))


def BatchNormalization(op: Builder, *inputs: Tensor, given: Normalization) -> Value:
    """BatchNormalization; when it trains, with the running mean and variance."""
    x, scale, shift, mean, variance = inputs
    running: tuple[Tensor, ...] = ()
    if given.training_mode:
        axes, momentum = [0, *range(2, op.rank(x))], given.momentum
        now = op.ReduceMean(x, axes, keepdims=0)
        far = x - _for_channels(op, now, x)
        varying = op.ReduceMean(far * far, axes, keepdims=0)
        pairs = ((mean, now), (variance, varying))
        running = tuple(old * momentum + new * (1 - momentum) for old, new in pairs)
        mean, variance = now, varying
    width = op.Sqrt(variance + given.epsilon)
    far = x - _for_channels(op, mean, x)
    factor = _for_channels(op, scale / width, x)
    y = far * factor + _for_channels(op, shift, x)
    return (y, *running) if running else y


def InstanceNormalization(
    op: Builder, x: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5
) -> Value:
    _, far, variance = _spread(op, _wide(op, x), range(2, op.rank(x)))
    y = op.cast(far / op.Sqrt(variance + epsilon), op.dtype(x))
    return y * _for_channels(op, scale, x) + _for_channels(op, shift, x)


def _spread(op: Builder, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Value, Tensor]:
    """The mean along some axes, the distances from it, and the variance.

    The variance as ONNX defines it, mean of squares less square of the mean, cancels beside a great mean.
    """
    mean = op.ReduceMean(x, axes)
    far = x - mean
    return mean, far, op.ReduceMean(far * far, axes)


def LRN(
    op: Builder, x: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Value:
    dims = op.shape(x)
    rows = op.Reshape(x * x, [0, 1, dims[1], -1])
    around = op.Pad(rows, [0, 0, (size - 1) // 2, 0, 0, 0, size // 2, 0])
    sums = op.AveragePool(around, kernel_shape=[size, 1]) * size
    return x / op.Pow(op.reshape(sums, [d if d else -1 for d in dims]) * (alpha / size) + bias, beta)


def _for_channels(op: Builder, x: Tensor, beside: Tensor) -> Tensor:
    """A vector with a number for each channel, which is dimension 1, as an operand beside a tensor."""
    return op.Reshape(x, [-1] + [1] * (op.rank(beside) - 2))


# -- shapes and places -----------------------------------------------------------------------------


def Shape(op: Builder, data: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    return op.Slice(op.Shape(data), [start], [op.rank(data) if end is None else end])


def Size(op: Builder, data: Tensor) -> Tensor:
    return op.ReduceProd(op.Shape(data), keepdims=0)


def Flatten(op: Builder, x: Tensor, axis: int = 1) -> Tensor:
    rows = op.ReduceProd(op.Shape(x, end=axis))
    return op.Reshape(x, op.Concat(rows, op.constant([-1], np.int64), axis=0))


def OneHot(op: Builder, indices: Tensor, depth: Tensor, values: Tensor, axis: int = -1) -> Tensor:
    count = op.cast(op.scalar(depth), INT64)
    at = op.Unsqueeze(op.cast(indices, INT64), [axis])
    at = op.Where(op.Less(at, 0), at + count, at)
    numbers = op.Range(op.constant(0, np.int64), count, op.constant(1, np.int64))
    same = op.Equal(at, op.reshape(numbers, only(op.rank(indices) + 1, axis)))
    return op.Where(same, op.Slice(values, [1], [2]), op.Slice(values, [0], [1]))


def ConstantOfShape(op: Builder, shape: Tensor, value: Value = None) -> Tensor:
    number = np.float32(0) if value is None else value.numpy().reshape(())
    return op.Expand(op.constant(number), shape)


def Trilu(op: Builder, x: Tensor, k: Tensor | None = None, upper: int = 1) -> Tensor:
    rows, columns = op.static_shape(x)[-2:]
    far = op.constant(np.arange(columns) - np.arange(rows).reshape(-1, 1), np.int64)
    least = op.constant(0, np.int64) if k is None else op.scalar(k)
    return op.Where(op.GreaterOrEqual(far, least) if upper else op.LessOrEqual(far, least), x, 0)


@operators(
    HannWindow=(0.5, 0.5, 0.0), HammingWindow=(25 / 46, 21 / 46, 0.0), BlackmanWindow=(0.42, 0.5, 0.08)
)
def _window(
    op: Builder, factors: tuple[float, ...], size: Tensor, output_datatype: int = 1, periodic: int = 1
) -> Tensor:
    """A sum of cosines, of float64 if the result is: ONNX's definition has the digits of float32."""
    to = ir.DataType(output_datatype)
    n = op.cast(size, to if to is ir.DataType.DOUBLE else ir.DataType.FLOAT)
    angle = op.Range(op.like(0, n), n, op.like(1, n)) * (2 * np.pi / (n if periodic else n - 1))
    level, once, twice = factors
    return op.cast(level - once * op.Cos(angle) + twice * op.Cos(angle * 2), to)


def EyeLike(op: Builder, x: Tensor, dtype: int | None = None, k: int = 0) -> Tensor:
    on_diagonal = op.Equal(along(op, x, 1) - along(op, x, 0), k)
    return op.cast(on_diagonal, ir.DataType(dtype) if dtype else op.dtype(x))


def DepthToSpace(op: Builder, x: Tensor, blocksize: int, _mode: str = "DCR") -> Tensor:
    n, c, h, w = _image(op, x)
    size, depth = blocksize, c // blocksize // blocksize
    blocks = op.reshape(x, [n, depth, size, size, h, w])
    return op.reshape(op.transpose(blocks, [0, 1, 4, 2, 5, 3]), [n, depth, h * size, w * size])


def SpaceToDepth(op: Builder, x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = _image(op, x)
    size = blocksize
    blocks = op.reshape(x, [n, c, h // size, size, w // size, size])
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return op.reshape(op.transpose(blocks, order), [n, c * size * size, h // size, w // size])


def _image(op: Builder, x: Tensor) -> Sequence[int]:
    """The dimensions of images, whose number may be free."""
    n, *rest = op.shape(x)
    sizes = [d for d in rest if d is not None]
    if len(sizes) != 3:
        raise Unsupported(f"needs {rest} to be three fixed dimensions: fix them by shapes of the inputs")
    return [n or -1, *sizes]


def Compress(op: Builder, x: Tensor, condition: Tensor, axis: int | None = None) -> Tensor:
    rows = x if axis is not None else op.Reshape(x, [-1])
    return op.Gather(rows, op.Reshape(op.NonZero(condition), [-1]), axis=axis or 0)


def TensorScatter(
    op: Builder,
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    at = along(op, update, axis)
    at = at if write_indices is None else at + op.Reshape(write_indices, [-1] + [1] * (op.rank(update) - 1))
    at = op.Mod(at, op.static_shape(past_cache)[axis]) if mode == "circular" else at
    return op.ScatterElements(past_cache, op.Expand(at, op.Shape(update)), update, axis=axis)


def Dropout(
    op: Builder, data: Tensor, _ratio: Value = None, training_mode: bool = False, _seed: Value = None
) -> tuple[Tensor, ...]:
    shapes.check_inference(training_mode)
    return data, op.Expand(op.constant(True, np.bool_), op.Shape(data))


def ReverseSequence(
    op: Builder, x: Tensor, sequence_lens: Tensor, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    at = along(op, x, time_axis)
    length = op.reshape(op.cast(sequence_lens, INT64), only(op.rank(x), batch_axis))
    turned = op.Where(op.Less(at, length), length - 1 - at, at)
    return op.GatherElements(x, op.Expand(turned, op.Shape(x)), axis=time_axis)
