"""Tensors of one number, of numbers in a row, and of one-hot vectors."""

from __future__ import annotations

import math

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import RankUnknown, Unsupported, room, span
from pinnace.ops import binding
from pinnace.ops.mindspore.array import as_declared, counting, filled
from pinnace.ops.table import Dims, Dtype, Tensor, primitive, primitives
from pinnace.ops.values import FLOAT, INT64, Value

_PLACE = "device pin_memory"
"""Arguments that say where a tensor lies."""


@primitives({"ZerosLike ZerosLikeExt EmptyLike": 0, "OnesLike OnesLikeExt": 1}, unused=_PLACE)
def filled_like(op: Builder, number: int, x: Tensor, dtype: Dtype | None = None) -> Value:
    """ConstantOfShape of {number}."""
    dtype = dtype or op.dtype(x)
    try:
        return filled(op, number, op.dims(x), dtype)
    except RankUnknown:
        return op.Expand(op.constant(number, dtype.numpy()), op.Shape(x))


@primitive("FillScalar", "FillTensor", "FillV2")
def fill(op: Builder, shape: Dims, value: Value, dtype: Dtype | None = None) -> Value:
    number = op.tensor(value)
    number = op.cast(number, dtype or op.result(number))
    return op.Expand(op.scalar(number), op.vector(shape))


@primitive("Eye")
def _eye(op: Builder, n: int, m: int | None = None, dtype: Dtype = FLOAT) -> Value:
    return op.constant(np.eye(*room(n, m if m is not None and m >= 0 else n), dtype=dtype.numpy()))


@primitive("Fill")
def _fill(op: Builder, dtype: Dtype, shape: Dims, value: Value) -> Value:
    return fill(op, shape, value, dtype)


@primitive("FullLike", "Fills")
def _full_like(op: Builder, x: Tensor, value: Value, dtype: Dtype | None = None) -> Value:
    return fill(op, tuple(op.dims(x)), value, dtype or op.dtype(x))


@primitive("NewFull")
def _new_full(op: Builder, x: Tensor, size: Dims, value: Value, dtype: Dtype | None = None) -> Value:
    return fill(op, size, value, dtype or op.dtype(x))


@primitives({"NewZeros NewEmpty": 0, "NewOnes": 1}, unused="device pin_memory")
def _new_zeros(op: Builder, number: int, x: Tensor, size: Dims, dtype: Dtype | None = None) -> Value:
    return filled(op, number, size, dtype or op.dtype(x))


@primitive("OneHot", "OneHotExt")
def _one_hot(
    op: Builder, indices: Tensor, depth: Value, on_value: Value = 1, off_value: Value = 0, axis: int = -1
) -> Value:
    """Equal with Range, and Where; of several values the first counts."""
    axis = axis % (op.rank(indices) + 1)
    number = op.cast(op.scalar(op.tensor(depth)), INT64)
    count = op.known(number)
    classes = counting(op, number if count is None else int(count))
    classes = op.reshape(classes, [-1, *[1] * (op.rank(indices) - axis)])
    place = op.Unsqueeze(op.cast(indices, INT64), [axis])
    on = op.tensor(on_value)
    off = op.cast(op.tensor(off_value), op.dtype(on))
    return op.Where(
        op.Equal(place, classes), op.Gather(op.reshape(on, [-1]), [0]), op.Gather(op.reshape(off, [-1]), [0])
    )


@primitives({"Zeros Empty": 0, "Ones": 1}, unused="device pin_memory")
def _zeros(op: Builder, number: int, size: Dims, dtype: Dtype | None = None) -> Value:
    return filled(op, number, size, dtype or FLOAT)


@primitive("Range", "Arange", unused="dtype maxlen d_type")
def range_(op: Builder, start: Value, limit: Value, delta: Value) -> Value:
    known = [op.known(v) for v in (start, limit, delta)]
    dtype = op.declared[0].dtype if op.declared and op.declared[0] is not None else None
    if all(k is not None for k in known):
        if any(np.asarray(k).dtype.kind not in "biuf" for k in known):
            raise Unsupported("ranges over values that are not numbers")
        first, last, step = (np.asarray(k).reshape(-1)[0].item() for k in known)
        span(math.ceil((last - first) / step))
        numbers = np.arange(first, last, step)
        dtype = dtype or (FLOAT if numbers.dtype.kind == "f" else INT64)
        if numbers.size <= 64:
            return op.constant(numbers.astype(dtype.numpy()))
    tensors = [op.scalar(op.tensor(v)) for v in (start, limit, delta)]
    dtype = dtype or op.dtype(tensors[0])
    return op.Range(*(op.cast(t, dtype) for t in tensors))


@primitive("LinSpace", "LinSpaceExt")
def lin_space(op: Builder, start: Value, stop: Value, num: Value, dtype: Dtype | None = None) -> Value:
    first, last = op.tensor(start), op.tensor(stop)
    kind = dtype or op.result(first)
    count = op.known(num)
    ends = op.known(first), op.known(last)
    if count is not None and all(e is not None for e in ends):
        lo, hi = (float(np.reshape(e, -1)[0]) for e in ends)
        return op.constant(np.linspace(lo, hi, span(binding.int_(op, num))).astype(kind.numpy()))
    steps = op.cast(counting(op, op.scalar(op.tensor(num))), kind)
    gaps = op.Max(op.cast(op.scalar(op.tensor(num)) - op.constant(1, np.int64), kind), 1)
    slope = (op.cast(last, kind) - op.cast(first, kind)) / gaps
    return op.scalar(op.cast(first, kind)) + steps * op.scalar(slope)


@primitive("LogSpace", unused="dtype")
def _log_space(op: Builder, start: float, end: float, *, steps: int = 10, base: int = 10) -> Value:
    return as_declared(op, np.power(float(base), np.linspace(start, end, span(steps))), FLOAT)
