"""Scales and offsets of quantised tensors: functions of `parts`."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported


@function
def number_beside(b: Builder, number: ir.Value, x: ir.Value, axis: int, block_size: int) -> ir.Value:
    """Numbers of a tensor, of each index of an axis or of blocks of it, as an operand beside it."""
    if b.rank(number) == 0:
        return number
    if block_size:
        dims = list(b.static_shape(number))
        at = axis % len(dims)
        wide = b.op("Unsqueeze", number, [at + 1])
        spread = b.op("Expand", wide, [*dims[: at + 1], block_size, *dims[at + 1 :]])
        whole = b.op("Reshape", spread, [*dims[:at], dims[at] * block_size, *dims[at + 1 :]])
        return b.op("Slice", whole, [0], [b.static_shape(x)[at]], [at])
    if b.rank(number) > 1:
        raise Unsupported(
            "has scales of several dimensions without block_size, and those of one axis can be written"
        )
    if b.static_shape(number) == (1,):
        return b.scalar(number)
    dims = [1] * b.rank(x)
    dims[axis] = -1
    return b.op("Reshape", number, dims)


@function
def row_of(b: Builder, number: ir.Value) -> ir.Value:
    """A number for each row of a product's first operand, or one for all, as an operand beside it."""
    return b.op("Unsqueeze", number, [-1]) if b.rank(number) == 1 and b.shape(number) != (1,) else number


@function
def unit_pads(b: Builder, x: ir.Value) -> tuple[int, ...]:
    """No padding of the last dimensions of a tensor."""
    return (0,) * 2 * (b.rank(x) - 2)


@function
def least(b: Builder, dtype: ir.DataType) -> float:
    """The least number of an element type of integers."""
    if dtype.bitwidth < 8 or not dtype.is_integer():
        raise Unsupported(f"is of element type {dtype.name}, and integers of 8 bits and more can be written")
    return float(np.iinfo(dtype.numpy()).min)


@function
def most(b: Builder, dtype: ir.DataType) -> float:
    """The greatest number of an element type of integers."""
    return float(np.iinfo(dtype.numpy()).max)
