"""Tensors of one number, of numbers in a row, and of one-hot vectors."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.ops import binding
from pinnace.ops.array import counting, filled
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.room import span
from pinnace.ops.table import Dims, Dtype, Tensor, primitive, primitives
from pinnace.ops.values import RankUnknown, Unsupported, Value

_PLACE = "device pin_memory"
"""Arguments that say where a tensor lies."""


@primitives({"ZerosLike ZerosLikeExt EmptyLike": 0, "OnesLike OnesLikeExt": 1}, unused=_PLACE)
def filled_like(b: Builder, number: int, x: Tensor, dtype: Dtype | None = None) -> Value:
    """ConstantOfShape of {number}."""
    dtype = dtype or b.dtype(x)
    try:
        return filled(b, number, b.dims(x), dtype)
    except RankUnknown:
        return b.op("Expand", b.constant(number, dtype.numpy()), b.op("Shape", x))


@function
@primitive("FillScalar", "FillTensor", "FillV2")
def fill(b: Builder, shape: Dims, value: Value, dtype: Dtype | None = None) -> Value:
    """Expand."""
    number = b.tensor(value)
    number = b.cast(number, dtype or b.result(number))
    return b.op("Expand", b.scalar(number), b.vector(shape))


formulas(
    __name__,
    """
    Eye: n: int, m: int | None = None, dtype: Dtype = FLOAT ->
        # A constant.
        constant(np.eye(*room(n, m if m is not None and m >= 0 else n), dtype=dtype.numpy()))
    Fill: dtype: Dtype, shape: Dims, value: Value -> fill(shape, value, dtype)
    FullLike Fills: x, value: Value, dtype: Dtype | None = None -> fill(dims(x), value, dtype or dtype(x))
    NewFull: x, size: Dims, value: Value, dtype: Dtype | None = None -> fill(size, value, dtype or dtype(x))
    NewZeros(0) NewEmpty(0) NewOnes(1); device pin_memory: number, x, size: Dims,
        dtype: Dtype | None = None ->
        # ConstantOfShape of {number}.
        filled(number, size, dtype or dtype(x))
    OneHot OneHotExt: indices, depth: Value, on_value: Value = 1, off_value: Value = 0, axis: int = -1 ->
        # Equal with Range, and Where; of several values the first counts.
        axis = axis % (rank(indices) + 1)
        number = cast(scalar(tensor(depth)), INT64)
        count = known(number)
        classes = counting(number if count is None else int(count))
        classes = reshape(classes, [-1, *[1] * (rank(indices) - axis)])
        place = Unsqueeze(cast(indices, INT64), [axis])
        on = tensor(on_value)
        off = cast(tensor(off_value), dtype(on))
        Where(place == classes, Gather(reshape(on, [-1]), [0]), Gather(reshape(off, [-1]), [0]))
    Zeros(0) Empty(0) Ones(1); device pin_memory: number, size: Dims, dtype: Dtype | None = None ->
        # ConstantOfShape of {number}.
        filled(number, size, dtype or FLOAT)
    """,
)


@primitive("Range", "Arange", unused="dtype maxlen d_type")
def range_(b: Builder, start: Value, limit: Value, delta: Value) -> Value:
    """Range, or a constant."""
    known = [b.known(v) for v in (start, limit, delta)]
    dtype = b.declared[0].dtype if b.declared and b.declared[0] is not None else None
    if all(k is not None for k in known):
        if any(np.asarray(k).dtype.kind not in "biuf" for k in known):
            raise Unsupported("ranges over values that are not numbers")
        first, last, step = (np.asarray(k).reshape(-1)[0].item() for k in known)
        span(math.ceil((last - first) / step))
        numbers = np.arange(first, last, step)
        dtype = dtype or (ir.DataType.FLOAT if numbers.dtype.kind == "f" else ir.DataType.INT64)
        if numbers.size <= 64:
            return b.constant(numbers.astype(dtype.numpy()))
    tensors = [b.scalar(b.tensor(v)) for v in (start, limit, delta)]
    dtype = dtype or b.dtype(tensors[0])
    return b.op("Range", *(b.cast(t, dtype) for t in tensors))


@primitive("LinSpace", "LinSpaceExt")
def lin_space(b: Builder, start: Value, stop: Value, num: Value, dtype: Dtype | None = None) -> Value:
    """Range, scaled."""
    first, last = b.tensor(start), b.tensor(stop)
    kind = dtype or b.result(first)
    count = b.known(num)
    ends = b.known(first), b.known(last)
    if count is not None and all(e is not None for e in ends):
        lo, hi = (float(np.reshape(e, -1)[0]) for e in ends)
        return b.constant(np.linspace(lo, hi, span(binding.int_(b, num))).astype(kind.numpy()))
    steps = b.cast(counting(b, b.scalar(b.tensor(num))), kind)
    gaps = b.op("Max", b.cast(b.op("Sub", b.scalar(b.tensor(num)), b.constant(1, np.int64)), kind), 1)
    slope = b.op("Div", b.op("Sub", b.cast(last, kind), b.cast(first, kind)), gaps)
    return b.op("Add", b.scalar(b.cast(first, kind)), b.op("Mul", steps, b.scalar(slope)))
