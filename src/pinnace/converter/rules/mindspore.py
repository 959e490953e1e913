"""Rules of MindSpore's own dialect (see `rules`): elementwise, reductions, shapes and places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import operators, shapes
from pinnace.graph.failures import Unsupported
from pinnace.ops import binding
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Value

_UNSIGNED = (ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64)


# -- elementwise -----------------------------------------------------------------------------------


@operators("Abs Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Mish Neg Reciprocal Round")
@operators("Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh Tile")
@operators(Acos="ACos", BitwiseNot="Invert", Det="MatrixDeterminant", HardSwish="HSwish")
@operators(IsNaN="IsNan", Not="LogicalNot", Relu="ReLU")
def _of_other_name(op: Primitives, primitive: str, *x: Tensor) -> Tensor:
    return op.op(primitive, *x)


@operators("Add BitwiseAnd BitwiseOr BitwiseXor Equal Greater Less Mul Sub", And="LogicalAnd")
@operators(GreaterOrEqual="GreaterEqual", LessOrEqual="LessEqual", Or="LogicalOr", Xor="LogicalXor")
def _of_two(op: Primitives, primitive: str, a: Tensor, b: Tensor) -> Tensor:
    if op.dtype(a) is ir.DataType.STRING:
        raise Unsupported("computes with text")
    return op.op(primitive, a, b)


@operators(Max="Maximum", Min="Minimum", Sum="Add")
def _folded(op: Primitives, primitive: str, first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = op.op(primitive, first, other)
    return first


def Pow(op: Primitives, x: Tensor, y: Tensor) -> Tensor:
    return op.Pow(x, op.cast(y, op.dtype(x)))


def Div(op: Primitives, a: Tensor, b: Tensor) -> Tensor:
    return op.Div(a, b) if is_float(op, a) else op.TruncateDiv(a, b)


def Mod(op: Primitives, a: Tensor, b: Tensor, fmod: int = 0) -> Tensor:
    shapes.check_signs(op, a, fmod)
    return op.TruncateMod(a, b) if fmod or op.dtype(a) in _UNSIGNED else op.FloorMod(a, b)


def BitShift(op: Primitives, x: Tensor, by: Tensor, direction: str) -> Tensor:
    """Bits shifted by a number that is no place in an element are gone, but for the sign."""
    left, width, known = direction == "LEFT", op.dtype(x).bitwidth, op.known(by)
    shift = "LeftShift" if left else "RightShift"
    if not op.dtype(x).is_signed() or (known is not None and ((known >= 0) & (known < width)).all()):
        return op.op(shift, x, by)
    within = op.LogicalAnd(op.GreaterEqual(by, op.like(0, by)), op.Less(by, op.like(width, by)))
    moved = op.op(shift, x, op.Select(within, by, op.like(0 if left else width - 1, by)))
    return op.Select(within, moved, op.like(0, x)) if left else moved


def Where(op: Primitives, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A Select, whose operands are of one shape: MindSpore Lite wants them so."""
    whole = shapes.declared_shape(op)
    if whole is None:
        return op.Select(condition, x, y)
    return op.Select(*(v if op.shape(v) == whole else _widened(op, v, whole) for v in (condition, x, y)))


def _widened(op: Primitives, x: Tensor, shape: Ints) -> Tensor:
    y = op.BroadcastTo(x, shape)
    y.type, y.shape = x.type, ir.Shape(shape)
    op.declare(y)
    return y


def Clip(op: Primitives, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if op.known(low) == 0 and op.known(high) == 6 and is_float(op, x):
        return op.ReLU6(x)  # which becomes part of a convolution
    for primitive, bound in (("Maximum", low), ("Minimum", high)):
        x = x if bound is None else op.op(primitive, x, op.cast(bound, op.dtype(bound)))
    return x


def IsInf(op: Primitives, x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if not (detect_negative and detect_positive):
        raise Unsupported("detects infinities of one sign only, and IsInf those of both")
    return op.IsInf(x)


def Selu(op: Primitives, x: Tensor, alpha: float = 1.6732632, gamma: float = 1.050701) -> Tensor:
    if abs(alpha - 1.6732632) > 1e-6 or abs(gamma - 1.050701) > 1e-6:
        raise Unsupported(f"has alpha {alpha} and gamma {gamma}, and SeLU has those of ONNX's defaults")
    return op.SeLU(x)


@operators("CumProd CumSum")
def _cumulative(
    op: Primitives, primitive: str, x: Tensor, axis: int, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    return op.op(primitive, x, axis, exclusive=bool(exclusive), reverse=bool(reverse))


def Cast(op: Primitives, x: Tensor, to: int, _saturate: int = 1) -> Tensor:
    return op.Cast(x, number_of(ir.DataType(to)))


def Elu(op: Primitives, x: Tensor, alpha: float = 1.0) -> Tensor:
    if alpha != 1:
        raise Unsupported(f"has alpha {alpha}, and MindSpore's Elu only 1")
    return op.Elu(x)


def Gelu(op: Primitives, x: Tensor, approximate: str = "none") -> Tensor:
    if approximate != "tanh":
        raise Unsupported("is exact, and GeLU is the approximation by tanh")
    return op.GeLU(x)


def Softmax(op: Primitives, x: Tensor, axis: int = -1) -> Tensor:
    return op.Softmax(x, (axis,))


def LogSoftmax(op: Primitives, x: Tensor, axis: int = -1) -> Tensor:
    return op.LogSoftmax(x, axis)


# -- reductions ------------------------------------------------------------------------------------


@operators("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd")
def _reduced(
    op: Primitives,
    primitive: str,
    data: Tensor,
    axes: Ints | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Tensor:
    if not axes and noop_with_empty_axes:
        return data
    if op.dtype(data) is ir.DataType.BOOL:
        primitive = "ReduceAny" if primitive == "ReduceMax" else "ReduceAll"
    return op.op(primitive, data, tuple(axes or range(op.rank(data))), bool(keepdims))


@operators(ArgMax="Argmax", ArgMin="Argmin")
def _extreme(
    op: Primitives, primitive: str, data: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    if select_last_index:
        raise Unsupported("takes the last of equal elements, and MindSpore the first")
    dims, int64 = op.shape(data), ir.DataType.INT64
    places = op.op(primitive, data, axis, number_of(int64))
    typed(op, places, (int64, [n for i, n in enumerate(dims) if i != axis % len(dims)]))
    return op.ExpandDims(places, axis) if keepdims else places


def TopK(
    op: Primitives, x: Tensor, k: Tensor, axis: int = -1, largest: int = 1, _sorted: int = 1
) -> tuple[Tensor, ...]:
    if axis % op.rank(x) != op.rank(x) - 1 or not largest:
        raise Unsupported("is not of the greatest along the last axis, as TopK is")
    count, whole = op.known(k), shapes.declared_shape(op)
    if count is None and whole is not None:
        count = whole[axis]
    if count is not None:
        k = op.constant(np.ravel(count)[0], np.int32)
    else:
        k = op.cast(op.Reshape(k, ()), ir.DataType.INT32)
    values, places = op.ops("TopK", 2, x, k, sorted=True)
    typed(op, (values, places), (op.dtype(x), None), (ir.DataType.INT32, None))
    return values, op.cast(places, ir.DataType.INT64)


# -- shapes ----------------------------------------------------------------------------------------


def typed(op: Primitives, results: Any, *types: tuple[ir.DataType, Sequence[int | None] | None]) -> Any:
    """The results of a primitive, with their element types and shapes; no shape is that of the operator's."""
    own = op.declared[0].shape if op.declared and op.declared[0] is not None else None
    values = results if isinstance(results, tuple) else (results,)
    for value, (dtype, shape) in zip(values, types, strict=True):
        shape = own if shape is None else shape
        value.type, value.shape = ir.TensorType(dtype), None if shape is None else ir.Shape(shape)
    op.declare(*values)
    return results


def Shape(op: Primitives, data: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    if start or end is not None:
        raise Unsupported("takes a part of the shape, and TensorShape gives all of it")
    return op.TensorShape(data)


def Reshape(op: Primitives, data: Tensor, shape: Tensor, allowzero: int = 0) -> Tensor:
    return op.Reshape(data, shapes.target(op, data, shape, allowzero))


def Flatten(op: Primitives, x: Tensor, axis: int = 1) -> Tensor:
    return op.Reshape(x, shapes.matrix(op, x, axis))


def Squeeze(op: Primitives, data: Tensor, axes: Value = None) -> Tensor:
    if axes is None:
        return op.Squeeze(data, ())
    return (
        op.Reshape(data, shapes.declared(op))
        if op.known(axes) is None
        else op.Squeeze(data, binding.ints(op, axes))
    )


def Unsqueeze(op: Primitives, data: Tensor, axes: Value = None) -> Tensor:
    if axes is not None and op.known(axes) is None:
        return op.Reshape(data, shapes.declared(op))
    at = binding.ints(op, axes)
    for axis in sorted(a % (op.rank(data) + len(at)) for a in at):
        data = op.ExpandDims(data, axis)
    return data


def Transpose(op: Primitives, data: Tensor, perm: Ints | None = None) -> Tensor:
    return op.Transpose(data, perm or tuple(range(op.rank(data)))[::-1])


def Concat(op: Primitives, *inputs: Tensor, axis: int) -> Tensor:
    return op.Concat(shapes.with_elements(op, inputs, axis), axis)


def Expand(op: Primitives, x: Tensor, shape: Tensor) -> Tensor:
    dims = shapes.broadcast(op, x, shape)
    return op.BroadcastTo(x, dims) if isinstance(dims, tuple) else op.DynamicBroadcastTo(x, dims)


def Slice(
    op: Primitives, data: Tensor, starts: Tensor, ends: Tensor, axes: Ints | None = None, steps: Value = None
) -> Tensor:
    return op.StridedSlice(data, *shapes.cut(op, data, starts, ends, axes, steps))


def Split(
    op: Primitives, x: Tensor, split: Value = None, axis: int = 0, _num_outputs: int | None = None
) -> Value:
    sizes = shapes.sizes_of(op, x, split, axis)
    count = len(sizes)
    if count == 1:
        return x
    dims: list[int | None] = list(op.shape(x))
    if min(sizes) < max(sizes):  # MindSpore Lite 2.0 has no SplitWithSize
        ends = [op.constant([end], np.int64) for end in (0, *np.cumsum(sizes))]
        bounds = [shapes.cut(op, x, *both, (axis,), None) for both in pairwise(ends)]
        parts = tuple(op.StridedSlice(x, *bound) for bound in bounds)
        at = axis % len(dims)
        each = [[*dims[:at], size, *dims[at + 1 :]] for size in sizes]
    else:
        parts = op.ops("Split", count, x, axis, count)
        whole = dims[axis]
        dims[axis] = None if whole is None else whole // count
        each = [dims] * count
    return typed(op, parts, *((op.dtype(x), shape) for shape in each))


def Range(op: Primitives, *bounds: Tensor) -> Tensor:
    """A Range, whose numbers are int64 or float32."""
    dtype = op.dtype(bounds[0])
    known = [op.known(x) for x in bounds]
    numbers = [
        op.TensorToScalar(x) if number is None else number.reshape(-1)[0].item()
        for number, x in zip(known, bounds, strict=True)
    ]
    made = op.Range(*numbers)
    made.type = ir.TensorType(ir.DataType.FLOAT if dtype.is_floating_point() else ir.DataType.INT64)
    made.shape = ir.Shape([None])
    op.declare(made)
    return op.cast(made, dtype)


def Trilu(op: Primitives, x: Tensor, k: int = 0, upper: int = 1) -> Tensor:
    return op.Triu(x, k) if upper else op.Tril(x, diagonal=k)


def DepthToSpace(op: Primitives, x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    if mode == "CRD":
        raise Unsupported("has mode CRD, and DepthToSpace DCR")
    return op.DepthToSpace(x, block_size=blocksize)


# -- places ----------------------------------------------------------------------------------------


def Gather(op: Primitives, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    return op.Gather(data, indices, axis)


def GatherElements(op: Primitives, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    return op.GatherD(data, axis, indices)


def ScatterElements(
    op: Primitives, data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    if reduction not in ("none", "add"):
        raise Unsupported(f"has reduction {reduction}, and TensorScatterElements none or add")
    return op.TensorScatterElements(data, indices, updates, axis, int(reduction == "add"))


Scatter = ScatterElements


def ScatterND(
    op: Primitives, data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none"
) -> Tensor:
    kind = "Update" if reduction == "none" else reduction.capitalize()
    return op.op(f"TensorScatter{kind}", data, indices, updates)


def NonZero(op: Primitives, x: Tensor) -> Tensor:
    return op.Transpose(op.NonZero(x), (1, 0))
