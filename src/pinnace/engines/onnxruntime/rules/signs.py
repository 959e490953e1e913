"""Products of signed and unsigned bytes that onnxruntime computes wrongly (seen in 1.32).

On processors without VNNI it adds products of uint8 and int8 in 16 bits, which overflow. Its own remedy makes
weights unsigned, too, but not those that are computed, nor those of a QLinearMatMul of operator set 21.
ConvInteger takes an int8 input for uint8 where the weight is uint8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.engines.onnxruntime.rules.scales import zeros
from pinnace.graph.builder import Builder
from pinnace.graph.constants import array
from pinnace.graph.matching import attributes
from pinnace.graph.scales import uses
from pinnace.machine.processor import sums_of_bytes_overflow

_FACTORS = ("Conv", "Gemm", "MatMul")
_U8, _I8 = ir.DataType.UINT8, ir.DataType.INT8


class _Places(NamedTuple):
    """The places of the factors and of their zero points among the inputs of an operator."""

    first: tuple[int, int]
    second: tuple[int, int]


_PLACES = {
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), _Places((0, 2), (1, 3))),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), _Places((0, 2), (3, 5))),
}
OPERATORS = tuple(_PLACES)


def unsigned_bytes(b: Builder, node: ir.Node) -> ir.Value | None:
    """A product of an unsigned and a signed factor -> of unsigned ones, shifted by 128 as its zero point."""
    first, second = _PLACES[node.op_type]
    inputs = list(node.inputs) + [None] * (4 - len(node.inputs))
    factors = inputs[first[0]], inputs[second[0]]
    kinds = tuple(None if factor is None else b.dtype(factor) for factor in factors)
    if kinds == (_U8, _I8) and sums_of_bytes_overflow():
        places = second
    elif kinds == (_I8, _U8) and node.op_type == "ConvInteger":
        places = first
    else:
        return None
    for place in places:
        inputs[place] = _shifted(b, inputs[place])
    return b.op(node.op_type, *inputs, **attributes(node))


def unsigned_step(b: Builder, node: ir.Node) -> ir.Value | None:
    """DequantizeLinear of a computed int8 that is the second factor of a product -> of uint8."""
    integers, scale, zero = (*node.inputs, None)[:3]
    if integers is None or scale is None or b.dtype(integers) is not _I8 or array(integers) is not None:
        return None
    if not sums_of_bytes_overflow():
        return None
    if not any(place == 1 for reader, place, _ in uses(node, b.rank(integers)) if reader.op_type in _FACTORS):
        return None
    shifted = _shifted(b, zero or zeros(b, scale, _I8))
    return b.op("DequantizeLinear", _shifted(b, integers), scale, shifted, **attributes(node))


def _shifted(b: Builder, value: ir.Value | None) -> ir.Value:
    """Return int8 as uint8, 128 higher; None stands for a zero point of 0."""
    if value is None:
        return b.constant(128, np.uint8)
    known = array(value)
    if known is not None:
        return b.weight(ir.tensor(known.view(np.uint8) ^ np.uint8(128)))
    higher = b.op("Add", b.cast(value, ir.DataType.INT32), b.constant(128, np.int32))
    return b.cast(higher, _U8)
