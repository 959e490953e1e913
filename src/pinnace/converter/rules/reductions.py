"""Reductions, sums along an axis, and the greatest elements as primitives (see `rules`)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.common import Reduction
from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import operators, rule, shapes
from pinnace.converter.rules.int32 import from_int32, in_int32
from pinnace.converter.rules.layout import elementwise, reduction
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import INT32, INT64
from pinnace.program import Dialect

_MODES = {"ReduceL1": 6, "ReduceL2": 8, "ReduceMax": 1, "ReduceMean": 0, "ReduceMin": 2, "ReduceProd": 3}
_MODES |= {"ReduceSum": 4, "ReduceSumSquare": 5}  # ReduceMode


@operators("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd", only=Dialect.MINDSPORE)
def _reduced(
    op: Primitives, primitive: str, data: Tensor, axes: Ints | None = None, *, given: Reduction
) -> Tensor:
    if not axes and given.noop_with_empty_axes:
        return data
    if op.dtype(data) is ir.DataType.BOOL:
        primitive = "ReduceAny" if primitive == "ReduceMax" else "ReduceAll"
    return op.op(primitive, data, tuple(axes or range(op.rank(data))), bool(given.keepdims))


@operators(only=Dialect.LITE, **_MODES)
def _reduced_by_mode(
    op: Primitives, mode: int, data: Tensor, axes: Ints | None = None, *, given: Reduction
) -> Tensor:
    if not axes and given.noop_with_empty_axes:
        square, absolute = mode == _MODES["ReduceSumSquare"], mode in (_MODES["ReduceL1"], _MODES["ReduceL2"])
        if square:
            return elementwise(op, "Mul", data, data)
        return elementwise(op, "Abs", data) if absolute else data
    return reduction(op, data, tuple(axes or ()), mode, bool(given.keepdims))


@operators("CumProd CumSum", only=Dialect.MINDSPORE)
def _cumulative(
    op: Primitives, primitive: str, x: Tensor, axis: int, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    return op.op(primitive, x, axis, exclusive=bool(exclusive), reverse=bool(reverse))


@rule(Dialect.LITE)
def CumSum(op: Primitives, x: Tensor, axis: int, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """A CumSum; PyTorch's older exporter writes those of bool, which have int64."""
    whole = op.cast(x, INT32) if x.dtype is ir.DataType.BOOL else x
    y = op.CumSum(whole, axis, exclusive=bool(exclusive), reverse=bool(reverse))
    if whole is x:
        return y
    assert op.node is not None
    op.node.outputs[0].type = ir.TensorType(INT64)
    return from_int32(op, y, INT64)


@operators(ArgMax="Argmax", ArgMin="Argmin")
def _extreme(
    op: Primitives, primitive: str, data: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    if select_last_index:
        raise Unsupported("takes the last of equal elements, and the primitive the first")
    if op.lite:
        return from_int32(op, op.op(primitive, data, axis=axis, top_k=1, keep_dims=bool(keepdims)), INT64)
    dims = op.shape(data)
    places = op.op(primitive, data, axis, number_of(INT64))
    shapes.typed(op, places, (INT64, [n for i, n in enumerate(dims) if i != axis % len(dims)]))
    return op.ExpandDims(places, axis) if keepdims else places


def TopK(
    op: Primitives, x: Tensor, k: Tensor, axis: int = -1, largest: int = 1, _sorted: int = 1
) -> tuple[Tensor, ...]:
    at = axis % op.rank(x)
    if not largest or (op.mindspore and at != op.rank(x) - 1):
        raise Unsupported("is not of the greatest, as the primitive is, or not along the last axis")
    if op.lite:
        values, places = op.ops("TopKFusion", 2, x, in_int32(op, k), axis=at, sorted=True, largest=1)
        return values, from_int32(op, places, INT64)
    count, whole = op.known(k), shapes.declared_shape(op)
    if count is None and whole is not None:
        count = whole[axis]
    most = op.cast(op.Reshape(k, ()), INT32) if count is None else op.constant(np.ravel(count)[0], np.int32)
    values, places = op.ops("TopK", 2, x, most, sorted=True)
    shapes.typed(op, (values, places), (op.dtype(x), None), (INT32, None))
    return values, op.cast(places, INT64)
