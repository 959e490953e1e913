"""Quantised tensors in MindSpore Lite's dialect: functions of `lite`.

A file says of an int8 tensor what its integers stand for (`Primitives.quantised`). ONNX writes the steps
between both as nodes, which become `QuantDTypeCast`; `converter.integers` lets the primitives between two of
them compute in integers. A constant of integers is a weight like any other until it is written.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.converter.integers import Dequantised
from pinnace.converter.primitives import Primitives, number_of, type_of
from pinnace.converter.rules import images
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported
from pinnace.program import Quantised, TypeInfo

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)
_WEIGHTS = (*_BYTES, ir.DataType.INT4, ir.DataType.INT16, ir.DataType.INT32)
_IMAGE = 4
_DYNAMIC = 6
"""The QuantType of nodes whose scales each run finds."""


@function
def in_integers(b: Primitives, x: ir.Value, scale: ir.Value, zero: ir.Value | None) -> ir.Value:
    """A tensor of floats as int8, of which the file says what they stand for."""
    meaning = _meaning(b, scale, zero, ir.DataType.UINT8 if zero is None else zero.dtype)
    if meaning.axis is not None or _readers(b) != {"DequantizeLinear"}:
        raise Unsupported(
            "gives integers that other operators than DequantizeLinear read, or has several scales: give it one"
        )
    last = images.nhwc(b, x) if b.rank(x) == _IMAGE else x
    cast = _cast(b, last, ir.DataType.FLOAT, ir.DataType.INT8)
    b.quantised[b.name(cast)] = meaning
    return images.nchw(b, cast) if last is not x else cast


@function
def meant(b: Primitives, x: ir.Value, scale: ir.Value, zero: ir.Value | None, axis: int) -> ir.Value:
    """The floats that integers stand for."""
    if x.const_value is not None and x.dtype in _WEIGHTS and b.rank(x) > 0:
        return b.weight(Dequantised(x.const_value, _meaning(b, scale, zero, x.dtype, axis)))
    last = b.channels_last.get(b.names.get(x, ""), x)
    if b.names.get(last) not in b.quantised:
        raise Unsupported("reads integers that the model computes with: leave them to DequantizeLinear alone")
    if b.quantised[b.names[last]] is None:
        return x
    y = _cast(b, last, ir.DataType.INT8, ir.DataType.FLOAT)
    return y if last is x else images.nchw(b, y)


@function
def in_dynamic_steps(b: Primitives, x: ir.Value) -> tuple[ir.Value, ...]:
    """A tensor of floats as int8 for products with weights of integers."""
    known = [] if b.node is None else [node for node, _ in b.node.outputs[0].uses()]
    products = [product for node in known for product, _ in node.outputs[0].uses()]
    if _readers(b) != {"DequantizeLinear"} or any(not _is_product(node) for node in products):
        raise Unsupported(
            "gives integers that not only products with constant weights read: dequantise them for others"
        )
    y = b.op("DynamicQuant", x, dst_type=number_of(ir.DataType.INT8), quantType=_DYNAMIC)
    b.quantised[b.name(y)] = None
    b.written[b.name(y)].types = (TypeInfo(ir.DataType.INT8, None),)
    return y, y, y


def _is_product(node: ir.Node) -> bool:
    weight = node.inputs[1] if node.op_type in ("MatMul", "Gemm") else None
    maker = None if weight is None else weight.producer()
    whole = None if maker is None or maker.op_type != "DequantizeLinear" else maker.inputs[0]
    return whole is not None and whole.const_value is not None


def _readers(b: Primitives) -> set[str]:
    """Return the operators that read results of the node that is raised, "" for the model's user."""
    if b.node is None:
        return {""}
    read = {node.op_type for output in b.node.outputs for node, _ in output.uses()}
    return read | {"" for output in b.node.outputs if output.is_graph_output()}


def _cast(b: Primitives, x: ir.Value, of: ir.DataType, to: ir.DataType) -> ir.Value:
    y = b.op("QuantDTypeCast", x, src_t=number_of(of), dst_t=number_of(to))
    y.type, y.shape = ir.TensorType(to), x.shape
    b.written[b.name(y)].types = (type_of(y),)
    return y


def _meaning(
    b: Primitives, scale: ir.Value, zero: ir.Value | None, dtype: ir.DataType | None, axis: int = 0
) -> Quantised:
    """Return what integers stand for, those of uint8 as int8."""
    scales, zeros = b.known(scale), None if zero is None else b.known(zero)
    if scales is None or (zero is not None and zeros is None) or scales.ndim > 1 or dtype not in _WEIGHTS:
        raise Unsupported(
            "has scales known only at run time, in blocks, or of other integers: give constants, one or one for each channel"
        )
    shift = 128 if dtype is ir.DataType.UINT8 else 0
    whole = np.zeros(scales.shape, np.int64) if zeros is None else zeros.astype(np.int64)
    points = tuple(int(z) - shift for z in whole.reshape(-1))
    return Quantised(tuple(map(float, scales.reshape(-1))), points, axis if len(points) > 1 else None)
