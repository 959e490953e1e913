"""Quantized tensors in MindSpore Lite's dialect (see `rules`).

A file says of an int8 tensor what its integers stand for (`Primitives.quantized`). ONNX writes the steps
between both as nodes, which become `QuantDTypeCast`; `converter.finishing` lets the primitives between two of
them compute in integers. A constant of integers is a weight like any other until it is written.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.converter.decompositions.quantized import Scaling
from pinnace.converter.finishing import Dequantized
from pinnace.converter.primitives import Primitives, number_of, type_of
from pinnace.converter.rules import layout, rule
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor
from pinnace.program import Dialect, Quantized, TypeInfo

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)
_FLOAT = ir.DataType.FLOAT
_WEIGHTS = (*_BYTES, ir.DataType.INT4, ir.DataType.INT16, ir.DataType.INT32)
_DYNAMIC = 6
"""The QuantType of nodes whose scales each run finds."""


@rule(Dialect.LITE)
def QuantizeLinear(
    op: Primitives, x: Tensor, scale: Tensor, zero: Tensor | None = None, *, given: Scaling
) -> Tensor:
    """A tensor of floats as int8, of which the file says what they stand for."""
    _check_blocks(given)
    usual = ir.DataType.UINT8 if zero is None else zero.dtype
    to = ir.DataType(given.output_dtype) if given.output_dtype else usual
    meaning, readers = _meaning(op, to, scale, zero), _readers(op)
    if meaning.axis is not None or not readers:
        raise Unsupported("has several scales, or other readers than DequantizeLinear: give it one scale")
    if x.dtype is not _FLOAT or to not in _BYTES:
        raise Unsupported("is not of float32, or not to 8 bits, as QuantDTypeCast wants it")
    if any(_meaning(op, to, *node.inputs[1:]) != meaning for node in readers):
        raise Unsupported("is read with another scale or zero point, and a file has one for a tensor")
    last = layout.nhwc(op, x) if op.rank(x) == layout.IMAGE else x
    cast = _cast(op, last, _FLOAT, ir.DataType.INT8)
    op.quantized[op.name(cast)] = meaning
    return layout.nchw(op, cast) if last is not x else cast


@rule(Dialect.LITE)
def DequantizeLinear(
    op: Primitives, x: Tensor, scale: Tensor, zero: Tensor | None = None, *, given: Scaling
) -> Tensor:
    _check_blocks(given)
    if op.dtype(scale) is not _FLOAT or given.output_dtype not in (0, _FLOAT):
        raise Unsupported("gives other floats than float32, of which a file has the integers")
    if x.const_value is not None and x.dtype in _WEIGHTS and op.rank(x) > 0:
        return op.weight(Dequantized(x.const_value, _meaning(op, x.dtype, scale, zero, axis=given.axis)))
    last = op.channels_last.get(op.names.get(x, ""), x)
    if op.names.get(last) not in op.quantized:
        raise Unsupported("reads integers that the model computes with: leave them to DequantizeLinear alone")
    if op.quantized[op.names[last]] is None:
        return x
    y = _cast(op, last, ir.DataType.INT8, _FLOAT)
    return y if last is x else layout.nchw(op, y)


def _check_blocks(given: Scaling) -> None:
    if given.block_size:
        raise Unsupported("has scales of blocks, and a file has one for a tensor, or one a channel")


@rule(Dialect.LITE)
def DynamicQuantizeLinear(op: Primitives, x: Tensor) -> tuple[Tensor, ...]:
    """A tensor of floats as int8 for products with weights of integers."""
    readers = _readers(op)
    products = [product for node in readers for product, _ in node.outputs[0].uses()]
    own = [] if op.node is None else list(op.node.outputs)
    others = any(list(node.inputs) != own for node in readers)
    if not readers or others or any(not _is_product(node) for node in products):
        raise Unsupported(
            "gives integers that not only products with constant weights read: dequantize them for others"
        )
    y = op.DynamicQuant(x, dst_type=number_of(ir.DataType.INT8), quantType=_DYNAMIC)
    op.quantized[op.name(y)] = None
    op.written[op.name(y)].types = (TypeInfo(ir.DataType.INT8, None),)
    return y, y, y


def _is_product(node: ir.Node) -> bool:
    weight = node.inputs[1] if node.op_type in ("MatMul", "Gemm") else None
    maker = None if weight is None else weight.producer()
    whole = None if maker is None or maker.op_type != "DequantizeLinear" else maker.inputs[0]
    return whole is not None and whole.const_value is not None


def _readers(op: Primitives) -> list[ir.Node]:
    """Return the readers of the node that is raised, none unless all make float32 of its integers."""
    results = [] if op.node is None else op.node.outputs
    found = [node for result in results for node, _ in result.uses()]
    given = any(result.is_graph_output() for result in results)
    return [] if given or any(not _dequantizes(results[0], node) for node in found) else found


def _dequantizes(x: ir.Value, node: ir.Node) -> bool:
    """Return True for a node beside that of `x`, in no branch, that makes float32 of its integers."""
    maker, step = x.producer(), node.op_type == "DequantizeLinear" and not node.domain
    beside = maker is not None and maker.graph is node.graph
    return step and beside and node.inputs[0] is x and node.outputs[0].dtype is _FLOAT


def _cast(op: Primitives, x: Tensor, of: ir.DataType, to: ir.DataType) -> Tensor:
    y = op.QuantDTypeCast(x, src_t=number_of(of), dst_t=number_of(to))
    y.type, y.shape = ir.TensorType(to), x.shape
    op.written[op.name(y)].types = (type_of(y),)
    return y


def _meaning(
    op: Primitives,
    dtype: ir.DataType | None,
    scale: Tensor | None,
    zero: Tensor | None = None,
    *,
    axis: int = 0,
) -> Quantized:
    """Return what integers stand for, those of uint8 as int8."""
    scales, zeros = op.known(scale), None if zero is None else op.known(zero)
    if scales is None or (zero is not None and zeros is None) or scales.ndim > 1 or dtype not in _WEIGHTS:
        raise Unsupported(
            "has scales known only at run time, in blocks, or of other integers: give one, or one a channel"
        )
    shift = 128 if dtype is ir.DataType.UINT8 else 0
    whole = np.zeros(scales.shape, np.int64) if zeros is None else zeros.astype(np.int64)
    points = tuple(int(z) - shift for z in whole.reshape(-1))
    return Quantized(tuple(map(float, scales.reshape(-1))), points, axis if len(points) > 1 else None)
