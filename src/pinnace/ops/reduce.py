"""Reductions over dimensions, and what runs along one: cumulative sums, sorting, the largest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.table import Tensor


@function
def reduce(b: Builder, op_type: str, x: Tensor, axes: Sequence[int] | None, keep: bool = False) -> Tensor:
    """A reduction operator over `axes`; over all dimensions where there are none."""
    axes = list(axes) if axes and b.rank(x) else None  # MindSpore takes axes 0 and -1 of a scalar
    result = b.op(op_type, x, axes, keepdims=int(keep))
    if axes is None and not keep:
        result.shape = ir.Shape([])  # MindSpore declares [1] of EqualExt
    return result


@function
def product(b: Builder, x: Tensor, axes: Sequence[int] | None, keep: bool = False) -> Tensor:
    """The product over `axes`; of integers by Mul of halves: onnxruntime's ReduceProd computes in float64."""
    along = sorted({b.axis(a, x) for a in axes or range(b.rank(x))}) if b.rank(x) else []
    integers = b.dtype(x) in (ir.DataType.INT32, ir.DataType.INT64)
    if not along or not integers or not all(b.shape(x)[axis] for axis in along):
        return reduce(b, "ReduceProd", x, axes, keep)
    for axis in along:
        while (size := b.shape(x)[axis] or 1) > 1:
            lengths = [size // 2, size // 2, size % 2][: 2 + size % 2]
            first, second, *rest = b.ops("Split", len(lengths), x, lengths, axis=axis)
            x = b.op("Mul", first, second)
            x = b.op("Concat", x, *rest, axis=axis) if rest else x
    return x if keep else b.op("Squeeze", x, along)


# -- spread ----------------------------------------------------------------------------------------


@function
def variance(
    b: Builder, x: Tensor, axes: Sequence[int] | None, correction: int, keep: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance, its sum of squares divided by the count less `correction`, and the mean."""
    mean = reduce(b, "ReduceMean", x, axes, True)
    distance = b.op("Sub", x, mean)
    if correction:
        total = reduce(b, "ReduceSumSquare", distance, axes, keep)
        spread = b.op("Div", total, b.op("Sub", count(b, x, axes), b.like(correction, x)))
    else:
        spread = reduce(b, "ReduceMean", b.op("Mul", distance, distance), axes, keep)
    if not keep:
        mean = b.op("Squeeze", mean, [b.axis(a, x) for a in axes] if axes else None)
    return spread, mean


def count(b: Builder, x: Tensor, axes: Sequence[int] | None) -> Tensor:
    """The number of elements that a reduction takes together, as a scalar of the type of `x`."""
    sizes = [b.dim(x, a) for a in (axes or range(b.rank(x)))]
    known = math.prod(d for d in sizes if isinstance(d, int))
    free = [d for d in sizes if isinstance(d, ir.Value)]
    if not free:
        return b.like(known, x)
    total = b.constant(known, np.int64)
    for size in free:
        total = b.op("Mul", total, size)
    return b.cast(total, b.dtype(x))


@function
def as_result(b: Builder, x: Tensor) -> Tensor:
    """`x` in the type that the file declares of the result."""
    return b.cast(x, b.result(x))


formulas(
    __name__,
    """
    Argmax("ArgMax") ArgMax("ArgMax") Argmin("ArgMin") ArgMin("ArgMin"): op_type, x, axis: int | None = -1,
        output_type: Dtype = INT32 ->
        # {op_type}.
        cast(place(op_type, x, axis), output_type)
    ArgMaxExt("ArgMax") ArgMinExt("ArgMin"): op_type, x, dim: int | None = None, keepdim: bool = False ->
        # {op_type}.
        place(op_type, x, dim, keepdim)
    ArgMaxWithValue("Max") ArgMinWithValue("Min"); dimension: which, x, axis: int = 0,
        keep_dims: bool = False ->
        # Arg{which}, and Reduce{which}.
        value, index = best(which, x, axis, keep_dims)
        as_result(index), value
    CountNonZero: x, dim: Ints | None = None ->
        # ReduceSum of what is not zero.
        there = cast(cast(x, BOOL), INT64)
        as_result(reduce("ReduceSum", there, dim))
    EqualCount: x, y -> reshape(as_result(reduce("ReduceSum", cast(Equal(x, y), INT32), None)), [1])
    EqualExt: x, y ->
        # Equal and ReduceMin; false where the shapes differ.
        alike = static_shape(x) == static_shape(y)
        reduce("ReduceMin", Equal(*promoted(x, y)), None) if alike else constant(False)
    EuclideanNorm: x, axes: Ints, *, keep_dims: bool = False -> reduce("ReduceL2", x, axes, keep_dims)
    FloatStatus: x -> reshape(reduce("ReduceMax", cast(IsNaN(x - x), FLOAT), None), [1])
    L2Loss: x -> reduce("ReduceSumSquare", x, None) * 0.5
    L2Normalize: x, axis: Ints = (0,), epsilon: float = 0.0001 ->
        # Div by Sqrt of ReduceSumSquare, not under epsilon.
        total = reduce("ReduceSumSquare", x, axis, True)
        x / Sqrt(Max(total, epsilon))
    LogSumExp: x, dim: Ints | None = None, keepdim: bool = False ->
        reduce("ReduceLogSumExp", floating(x), dim, keepdim)
    LpNorm LpNormV2: x, *, p: float = 2.0, axis: Ints | None = None, keep_dims: bool = False,
        epsilon: float = 1e-12 ->
        # ReduceL1, ReduceL2, ReduceMax, ReduceMin, or Pow of a sum of Pow; not under epsilon.
        not_under(norm(x, p, axis, keep_dims), epsilon)
    MaxDim("Max") MinDim("Min"): which, x, dim: int, keepdim: bool = False ->
        # Reduce{which}, and Arg{which}.
        best(which, x, dim, keepdim)
    Nansum: x, dim: Ints | None = None, keepdim: bool = False, dtype: Dtype | None = None ->
        # ReduceSum of zeros, by Where, for NaN.
        x = Where(IsNaN(x), 0, x) if is_float(x) else x
        reduce("ReduceSum", cast(x, dtype or result(x)), dim, keepdim)
    Norm LinalgVectorNorm: x, ord: float = 2.0, dim: Ints | None = None, keepdim: bool = False,
        dtype: Dtype | None = None ->
        # ReduceL1, ReduceL2, ReduceMax, ReduceMin, or Pow of a sum of Pow.
        norm(cast(x, dtype or result(x)), ord, dim, keepdim)
    ReduceAny("ReduceMax", "ReduceSum") Any("ReduceMax", "ReduceSum") AnyExt("ReduceMax", "ReduceSum")
        ReduceAll("ReduceMin", "ReduceProd") All("ReduceMin", "ReduceProd"): op_type, of_nothing, x,
        axis: Ints | None = (), keep_dims: bool = False ->
        # {op_type} of what is not 0.
        x = cast(x, BOOL)
        if 0 not in shape(x):
            return reduce(op_type, x, axis, keep_dims)
        cast(reduce(of_nothing, cast(x, INT64), axis, keep_dims), BOOL)  # there is no maximum of nothing
    ReduceMax("ReduceMax") Max("ReduceMax") ReduceMin("ReduceMin") Min("ReduceMin"): op_type, x,
        axis: Ints | None = (), keep_dims: bool = False ->
        # {op_type}.
        reduce(op_type, x, axis, keep_dims)
    ReduceStd: x, axis: Ints | None = (), unbiased: bool = True, keep_dims: bool = False ->
        # Sqrt of the mean square distance, and ReduceMean.
        value, mean = variance(x, axis, int(unbiased), keep_dims)
        Sqrt(value), mean
    ReduceProd ProdExt: x, axis: Ints | None = (), keep_dims: bool = False, *, skip_mode: bool = False,
        dtype: Dtype | None = None ->
        # ReduceProd, or Mul of halves, in the type of the result.
        if skip_mode and (not axis):
            return x
        product(cast(x, dtype or result(x)), axis, keep_dims)
    ReduceSum("ReduceSum") SumExt("ReduceSum") ReduceMean("ReduceMean") MeanExt("ReduceMean"): op_type, x,
        axis: Ints | None = (), keep_dims: bool = False, *, skip_mode: bool = False,
        dtype: Dtype | None = None ->
        # {op_type}, in the type of the result.
        if skip_mode and (not axis):
            return x
        reduce(op_type, cast(x, dtype or result(x)), axis, keep_dims)
    SquareSumAll: x, y -> (reduce("ReduceSumSquare", x, None), reduce("ReduceSumSquare", y, None))
    Std(True, False) Var(False, False) VarMean(False, True) StdMean(True, True): root, with_mean, x,
        dim: Ints | None = None, correction: int = 1, keepdim: bool = False ->
        # The mean square distance, its Sqrt for Std, and ReduceMean for the mean.
        value, mean = variance(x, dim, correction, keepdim)
        value = Sqrt(value) if root else value
        (value, mean) if with_mean else value
    """,
)


_TINY = 1e-10
"""An epsilon that stands for none."""


# -- norms -----------------------------------------------------------------------------------------


@function
def norm(b: Builder, x: Tensor, p: float, axes: Sequence[int] | None, keep: bool) -> Tensor:
    """The p-norm of vectors along `axes`."""
    if p == 2:
        return reduce(b, "ReduceL2", x, axes, keep)
    if p == 1:
        return reduce(b, "ReduceL1", x, axes, keep)
    size = b.op("Abs", x)
    if math.isinf(p):
        return reduce(b, "ReduceMax" if p > 0 else "ReduceMin", size, axes, keep)
    if p == 0:
        return reduce(b, "ReduceSum", b.cast(b.op("Not", b.op("Equal", x, 0.0)), b.dtype(x)), axes, keep)
    return b.op("Pow", reduce(b, "ReduceSum", b.op("Pow", size, p), axes, keep), 1.0 / p)


functions(
    __name__,
    """
    best: which, x, along, keep ->
        # The best along an axis, and its place.
        if rank(x) == 0:
            return x, constant(0, np.int64)
        reduce(f"Reduce{which}", x, [along], keep), op(f"Arg{which}", x, axis=along, keepdims=keep)
    not_under: x, epsilon -> x if epsilon <= _TINY else Max(x, epsilon)
    place: op_type, x, along, keep=False ->
        # The place of the best along an axis, or in all of x.
        if along is None or rank(x) == 0:
            return op(op_type, reshape(x, [-1]), axis=0, keepdims=0)
        op(op_type, x, axis=along, keepdims=keep)
    """,
)
