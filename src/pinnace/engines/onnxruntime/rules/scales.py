"""Quantized values that onnxruntime's integer kernels do not use as the file has them (seen in 1.32).

A kernel (see `quantized`) takes one scale for each input and result, and one for each output channel of a
weight. It uses other scales of the same number as if they were these, and refuses the rest in the run. It
takes the product of the scales of input and weight for that of a bias. If a product's weight alone is
quantized, it rounds the input to 8 bits, too. Such steps are written as arithmetic of floats, for which there
is no integer kernel.

Optimizers quantize what moves a dequantized value once more, to uint8 if there is no zero point: int8 gets
one, and int32, which is not quantized to, is written as floats.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.constants import array, constant
from pinnace.graph.failures import Unsupported
from pinnace.graph.matching import attributes, dequantizing, private
from pinnace.graph.scales import FAR, are_of_channels, axis_of, is_constant, is_dequantized, is_one, uses
from pinnace.graph.traits import Trait, having
from pinnace.types import Array

_INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16)
_SUMS = ir.DataType.INT32
_FLOAT = ir.DataType.FLOAT
_FLOATS = (_FLOAT, ir.DataType.FLOAT16)
_PRODUCTS = ("Gemm", "MatMul")
"""Operators with integer kernels that return floats."""
_BETWEEN = {"Clip", "MaxPool", "Relu", *having(Trait.MOVING)}
"""Operators before which optimizers move the QuantizeLinear of the result of an integer kernel."""
_ALIKE = 1e-4
"""Relative difference of scales that rounding explains: a bias of that error is far below a step."""


def dequantized_in_floats(b: Builder, node: ir.Node) -> ir.Value | None:
    """DequantizeLinear(q) -> (q - zero point) * scale, if an integer kernel would compute something else."""
    integers, scale, zero = (*node.inputs, None)[:3]
    if integers is None or scale is None or b.dtype(scale) not in _FLOATS:
        return None
    if b.dtype(integers) not in (*_INTEGERS, _SUMS):
        return None
    is_moved = any(reader.op_type == "Transpose" for reader in node.outputs[0].consumers())
    is_right = all(_is_right(b, node, *use) for use in uses(node, b.rank(integers)))
    if is_right and not (is_moved and b.dtype(integers) is _SUMS):
        return None
    factor, offset = _spread(b, node, scale), None if zero is None else _spread(b, node, zero)
    if (weight := _computed(integers, factor, offset)) is not None:
        return b.weight(ir.tensor(weight.astype(b.dtype(scale).numpy())))
    floats = b.cast(integers, _FLOAT)
    floats = b.op("Mul", floats if offset is None else b.op("Sub", floats, offset), factor)
    return b.cast(floats, b.dtype(scale))


def _computed(integers: ir.Value, factor: ir.Value, offset: ir.Value | None) -> Array | None:
    """Return the floats of a weight; None if others read it, as each would make four times its bytes."""
    whole, factors = array(integers) if private(integers) else None, array(factor)
    offsets = np.float32(0) if offset is None else array(offset)
    if whole is None or factors is None or offsets is None:
        return None
    floats = whole.astype(np.float32)
    floats -= offsets
    floats *= factors
    return floats


def with_zero_point(b: Builder, node: ir.Node) -> ir.Value | None:
    """DequantizeLinear(q, scale) -> the same with zero points, one for each scale."""
    integers, scale, zero = (*node.inputs, None)[:3]
    if integers is None or scale is None or zero is not None:
        return None
    kind = b.dtype(integers)
    if kind is ir.DataType.UINT8 or kind not in _INTEGERS:
        return None
    return b.op("DequantizeLinear", integers, scale, zeros(b, scale, kind), **attributes(node))


def zeros(b: Builder, scale: ir.Value, kind: ir.DataType) -> ir.Value:
    """Return zero points of 0, one for each scale."""
    if scale.shape is not None and scale.shape.is_static():
        return b.constant(np.zeros(scale.shape.numpy()), kind.numpy())
    return b.op("Expand", b.constant(0, kind.numpy()), b.op("Shape", scale))


def quantized_in_floats(b: Builder, node: ir.Node) -> ir.Value | None:
    """QuantizeLinear(x) with several scales -> Cast(Clip(Round(x / scale) + zero point)).

    No integer kernel returns several scales. What is constant is quantized at the build.
    """
    x, scale, zero = (*node.inputs, None)[:3]
    if x is None or scale is None or is_one(scale) or constant(x) is not None:
        return None
    kind = ir.DataType(node.attributes.get_int("output_dtype", 0)) if zero is None else b.dtype(zero)
    kind = kind or ir.DataType.UINT8
    if kind not in _INTEGERS or b.dtype(x) not in _FLOATS:
        return None
    steps = b.op("Round", b.op("Div", b.cast(x, _FLOAT), _spread(b, node, scale)))
    if zero is not None:
        steps = b.op("Add", steps, _spread(b, node, zero))
    ends = np.iinfo(kind.numpy())
    return b.cast(b.op("Clip", steps, b.like(ends.min, steps), b.like(ends.max, steps)), kind)


def _in_integers(b: Builder, node: ir.Node) -> bool:
    """Return True if onnxruntime may use an integer kernel; of many inputs or readers some are looked at."""
    if node.domain or not all(
        value is None
        or b.known_dtype(value) not in (*_FLOATS, None)
        or is_dequantized(value)
        or constant(value) is not None
        for value in node.inputs[:FAR]
    ):
        return False
    if node.op_type in _PRODUCTS:
        return True
    waiting = list(node.outputs)
    for _ in range(FAR):
        if not waiting:
            return False
        for reader, _ in waiting.pop().uses():
            if reader.op_type == "QuantizeLinear":
                return True
            waiting += reader.outputs if reader.op_type in _BETWEEN else []
    return True


def _is_right(b: Builder, step: ir.Node, reader: ir.Node, place: int, axis: int) -> bool:
    """Return True if `reader` has no integer kernel, or one that computes what the file says."""
    is_factor = place == 1 and reader.op_type in _PRODUCTS and is_constant(step.inputs[0])
    is_bias = place == 2 and reader.op_type in ("Conv", "Gemm")
    if step.inputs[0] is not None and b.dtype(step.inputs[0]) is _SUMS and not is_bias:
        return False
    if is_one(step.inputs[1]) and not (is_factor or is_bias):
        return True
    if not _in_integers(b, reader):
        return not is_factor
    if is_bias:
        return _is_bias(step, reader)
    return is_one(step.inputs[1]) or are_of_channels(step, reader, place, axis)


def _is_bias(step: ir.Node, reader: ir.Node) -> bool:
    """Return True if the scale of a bias is the product of those of the other inputs."""
    zero = (*step.inputs, None)[2]
    if zero is not None and ((points := array(zero)) is None or points.any()):
        return False
    steps = [dequantizing(value) for value in reader.inputs[:2]]
    bias, *scales = (array(one.inputs[1]) if one else None for one in (step, *steps))
    x, weight = scales
    if bias is None or x is None or weight is None or x.size != 1 or bias.size not in (1, weight.size):
        return False
    return bool(np.allclose(bias.reshape(-1), x.reshape(-1) * weight.reshape(-1), _ALIKE, 0))


def _spread(b: Builder, node: ir.Node, value: ir.Value) -> ir.Value:
    """Return scales or zero points as floats in a shape that broadcasts to the values of a node."""
    numbers, x = array(value), node.inputs[0]
    if is_one(value) or (numbers is not None and numbers.size == 1):
        return b.cast(b.scalar(value), _FLOAT) if numbers is None else b.constant(numbers, np.float32)
    if x is None:
        raise Unsupported("has no values")
    dims, block = b.shape(x), node.attributes.get_int("block_size", 0)
    axis = axis_of(node, len(dims))
    size, row = dims[axis], [-1, *[1] * (len(dims) - 1 - axis)]
    if numbers is None:
        several = b.cast(value, _FLOAT)
        return _repeated(b, several, x, axis, block) if block else b.op("Reshape", several, row)
    if not block:
        return b.constant(numbers.reshape(row), np.float32)
    if size is None:
        return _repeated(b, b.constant(numbers, np.float32), x, axis, block)
    return b.constant(numbers.take(np.arange(size) // block, axis), np.float32)


def _repeated(b: Builder, blocks: ir.Value, x: ir.Value, axis: int, block: int) -> ir.Value:
    """Return the scales of blocks of `block` elements along an axis of `x` as one for each element."""
    length = b.op("Gather", b.op("Shape", x), b.constant(axis, np.int64))
    places = b.op("Range", b.constant(0, np.int64), length, b.constant(1, np.int64))
    return b.op("Gather", blocks, b.op("Div", places, b.constant(block, np.int64)), axis=axis)
