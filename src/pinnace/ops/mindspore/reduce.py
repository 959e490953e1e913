"""Reductions over dimensions, and what runs along one: cumulative sums, sorting, the largest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.math import floating, is_float, promoted
from pinnace.ops.table import Dtype, Ints, Tensor, Tensors, formulas, primitive, primitives
from pinnace.ops.values import BOOL, FLOAT, INT32, INT64, Value


def reduce(op: Builder, op_type: str, x: Tensor, axes: Sequence[int] | None, keep: bool = False) -> Tensor:
    """A reduction operator over `axes`; over all dimensions where there are none."""
    axes = list(axes) if axes and op.rank(x) else None  # MindSpore takes axes 0 and -1 of a scalar
    result = op.op(op_type, x, axes, keepdims=int(keep))
    if axes is None and not keep:
        result.shape = ir.Shape([])  # MindSpore declares [1] of EqualExt
    return result


def product(op: Builder, x: Tensor, axes: Sequence[int] | None, keep: bool = False) -> Tensor:
    """The product over `axes`; of integers by Mul of halves: onnxruntime's ReduceProd computes in float64.

    Smaller types are multiplied as int64, whose lowest bits are theirs.
    """
    along = sorted({op.axis(a, x) for a in axes or range(op.rank(x))}) if op.rank(x) else []
    kind = op.dtype(x)
    if not along or not kind.is_integer() or not all(op.shape(x)[axis] for axis in along):
        return reduce(op, "ReduceProd", x, axes, keep)
    x = x if kind is INT32 else op.cast(x, INT64)
    for axis in along:
        while (size := op.shape(x)[axis] or 1) > 1:
            lengths = [size // 2, size // 2, size % 2][: 2 + size % 2]
            first, second, *rest = op.ops("Split", len(lengths), x, lengths, axis=axis)
            x = first * second
            x = op.Concat(x, *rest, axis=axis) if rest else x
    return op.cast(x if keep else op.Squeeze(x, along), kind)


def variance(
    op: Builder, x: Tensor, axes: Sequence[int] | None, correction: int, keep: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance, its sum of squares divided by the count less `correction`, and the mean."""
    mean = reduce(op, "ReduceMean", x, axes, True)
    distance = x - mean
    if correction:
        total = reduce(op, "ReduceSumSquare", distance, axes, keep)
        var = total / (count(op, x, axes) - op.like(correction, x))
    else:
        var = reduce(op, "ReduceMean", distance * distance, axes, keep)
    if not keep:
        mean = op.Squeeze(mean, [op.axis(a, x) for a in axes] if axes else None)
    return var, mean


def count(op: Builder, x: Tensor, axes: Sequence[int] | None) -> Tensor:
    """The number of elements that a reduction takes together, as a scalar of the type of `x`."""
    sizes = [op.dim(x, a) for a in (axes or range(op.rank(x)))]
    known = math.prod(d for d in sizes if isinstance(d, int))
    free = [d for d in sizes if isinstance(d, ir.Value)]
    if not free:
        return op.like(known, x)
    total = op.constant(known, np.int64)
    for size in free:
        total = total * size
    return op.cast(total, op.dtype(x))


def as_result(op: Builder, x: Tensor) -> Tensor:
    """`x` in the type that the file declares of the result."""
    return op.cast(x, op.result(x))


@primitives({"Argmax ArgMax": "ArgMax", "Argmin ArgMin": "ArgMin"})
def _argmax(op: Builder, op_type: str, x: Tensor, axis: int | None = -1, output_type: Dtype = INT32) -> Value:
    return op.cast(_place(op, op_type, x, axis), output_type)


@primitives({"ArgMaxExt": "ArgMax", "ArgMinExt": "ArgMin"})
def _arg_max_ext(
    op: Builder, op_type: str, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Value:
    return _place(op, op_type, x, dim, keepdim)


@primitives({"ArgMaxWithValue": "Max", "ArgMinWithValue": "Min"}, unused="dimension")
def _arg_max_with_value(op: Builder, which: str, x: Tensor, axis: int = 0, keep_dims: bool = False) -> Value:
    """Arg{which}, and Reduce{which}."""
    value, index = _best(op, which, x, axis, keep_dims)
    return as_result(op, index), value


@primitive("CountNonZero")
def _count_non_zero(op: Builder, x: Tensor, dim: Ints | None = None) -> Value:
    there = op.cast(op.cast(x, BOOL), INT64)
    return as_result(op, reduce(op, "ReduceSum", there, dim))


@primitive("EqualExt")
def _equal_ext(op: Builder, x: Tensor, y: Tensor) -> Value:
    """Equal and ReduceMin; false where the shapes differ."""
    alike = op.static_shape(x) == op.static_shape(y)
    return reduce(op, "ReduceMin", op.Equal(*promoted(op, x, y)), None) if alike else op.constant(False)


@primitive("EuclideanNorm")
def _euclidean_norm(op: Builder, x: Tensor, axes: Ints, *, keep_dims: bool = False) -> Value:
    return reduce(op, "ReduceL2", x, axes, keep_dims)


@primitive("L2Normalize")
def _l2_normalize(op: Builder, x: Tensor, axis: Ints = (0,), epsilon: float = 0.0001) -> Value:
    total = reduce(op, "ReduceSumSquare", x, axis, True)
    return x / op.Sqrt(op.Max(total, epsilon))


@primitive("LogSumExp")
def _log_sum_exp(op: Builder, x: Tensor, dim: Ints | None = None, keepdim: bool = False) -> Value:
    return reduce(op, "ReduceLogSumExp", floating(op, x), dim, keepdim)


@primitive("LpNorm", "LpNormV2")
def _lp_norm(
    op: Builder,
    x: Tensor,
    *,
    p: float = 2.0,
    axis: Ints | None = None,
    keep_dims: bool = False,
    epsilon: float = 1e-12,
) -> Value:
    length = norm(op, x, p, axis, keep_dims)
    return length if epsilon <= _TINY else op.Max(length, epsilon)


@primitives({"MaxDim": "Max", "MinDim": "Min"})
def _max_dim(op: Builder, which: str, x: Tensor, dim: int, keepdim: bool = False) -> Value:
    """Reduce{which}, and Arg{which}."""
    return _best(op, which, x, dim, keepdim)


@primitive("Nansum")
def _nansum(
    op: Builder, x: Tensor, dim: Ints | None = None, keepdim: bool = False, dtype: Dtype | None = None
) -> Value:
    x = op.Where(op.IsNaN(x), 0, x) if is_float(op, x) else x
    return reduce(op, "ReduceSum", op.cast(x, dtype or op.result(x)), dim, keepdim)


@primitive("Norm", "LinalgVectorNorm")
def _norm(
    op: Builder,
    x: Tensor,
    ord: float = 2.0,
    dim: Ints | None = None,
    keepdim: bool = False,
    dtype: Dtype | None = None,
) -> Value:
    return norm(op, op.cast(x, dtype or op.result(x)), ord, dim, keepdim)


@primitives(
    {"ReduceAny Any AnyExt": ("ReduceMax", "ReduceSum"), "ReduceAll All": ("ReduceMin", "ReduceProd")}
)
def _reduce_any(
    op: Builder, op_type: str, of_nothing: str, x: Tensor, axis: Ints | None = (), keep_dims: bool = False
) -> Value:
    """{op_type} of what is not 0."""
    x = op.cast(x, BOOL)
    if 0 not in op.shape(x):
        return reduce(op, op_type, x, axis, keep_dims)
    # There is no maximum of nothing.
    return op.cast(reduce(op, of_nothing, op.cast(x, INT64), axis, keep_dims), BOOL)


@primitives({"ReduceMax Max": "ReduceMax", "ReduceMin Min": "ReduceMin"})
def _reduce_max(
    op: Builder, op_type: str, x: Tensor, axis: Ints | None = (), keep_dims: bool = False
) -> Value:
    return reduce(op, op_type, x, axis, keep_dims)


@primitive("ReduceStd")
def _reduce_std(
    op: Builder, x: Tensor, axis: Ints | None = (), unbiased: bool = True, keep_dims: bool = False
) -> Value:
    value, mean = variance(op, x, axis, int(unbiased), keep_dims)
    return op.Sqrt(value), mean


@primitives(
    {"ReduceSum SumExt": "ReduceSum", "ReduceMean MeanExt": "ReduceMean", "ReduceProd ProdExt": "ReduceProd"}
)
def _reduce_sum(
    op: Builder,
    op_type: str,
    x: Tensor,
    axis: Ints | None = (),
    keep_dims: bool = False,
    *,
    skip_mode: bool = False,
    dtype: Dtype | None = None,
) -> Value:
    """{op_type}, in the type of the result."""
    if skip_mode and not axis:
        return x
    x = op.cast(x, dtype or op.result(x))
    if op_type == "ReduceProd":
        return product(op, x, axis, keep_dims)
    return reduce(op, op_type, x, axis, keep_dims)


@primitives({"Std": (True, False), "Var": (False, False), "VarMean": (False, True), "StdMean": (True, True)})
def _std(
    op: Builder,
    root: bool,
    with_mean: bool,
    x: Tensor,
    dim: Ints | None = None,
    correction: int = 1,
    keepdim: bool = False,
) -> Value:
    """The mean square distance, its Sqrt for Std, and ReduceMean for the mean."""
    value, mean = variance(op, x, dim, correction, keepdim)
    value = op.Sqrt(value) if root else value
    return (value, mean) if with_mean else value


_TINY = 1e-10
"""An epsilon that stands for none."""


def norm(op: Builder, x: Tensor, p: float, axes: Sequence[int] | None, keep: bool) -> Tensor:
    if p == 2:
        return reduce(op, "ReduceL2", x, axes, keep)
    if p == 1:
        return reduce(op, "ReduceL1", x, axes, keep)
    size = op.Abs(x)
    if math.isinf(p):
        return reduce(op, "ReduceMax" if p > 0 else "ReduceMin", size, axes, keep)
    if p == 0:
        return reduce(op, "ReduceSum", op.cast(op.Not(op.Equal(x, 0.0)), op.dtype(x)), axes, keep)
    return op.Pow(reduce(op, "ReduceSum", op.Pow(size, p), axes, keep), 1.0 / p)


def _best(op: Builder, which: str, x: Tensor, along: int, keep: bool) -> Tensors:
    """The best along an axis, and its place."""
    if op.rank(x) == 0:
        return x, op.constant(0, np.int64)
    return reduce(op, f"Reduce{which}", x, [along], keep), op.op(f"Arg{which}", x, axis=along, keepdims=keep)


def _place(op: Builder, op_type: str, x: Tensor, along: int | None, keep: bool = False) -> Tensor:
    """The place of the best along an axis, or in all of x."""
    if along is None or op.rank(x) == 0:
        return op.op(op_type, op.reshape(x, [-1]), axis=0, keepdims=0)
    return op.op(op_type, x, axis=along, keepdims=keep)


formulas(
    {
        "EqualCount": lambda op, x, y: op.reshape(
            as_result(op, reduce(op, "ReduceSum", op.cast(op.Equal(x, y), INT32), None)), [1]
        ),
        "FloatStatus": lambda op, x: op.reshape(
            reduce(op, "ReduceMax", op.cast(op.IsNaN(x - x), FLOAT), None), [1]
        ),
        "L2Loss": lambda op, x: reduce(op, "ReduceSumSquare", x, None) * 0.5,
        "SquareSumAll": lambda op, *both: tuple(reduce(op, "ReduceSumSquare", x, None) for x in both),
    }
)
