"""Quantized tensors of the `.mindir` files of MindSpore Lite's converter.

A weight has `quant_params`, lists with a number for each channel, and `compression_type` if it is packed. The
attribute `quant_type` of the nodes that use it tells whether they need the integers or the dequantized
values; see `packing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.formats import packing
from pinnace.formats.messages import Proto
from pinnace.formats.mindir.schema import number_of
from pinnace.program import Layout, Node, Quantized
from pinnace.program_structure import quantized_axis
from pinnace.weights.placed import lazy

_LISTS = {
    "scale": "scale_list",
    "zeroPoint": "zero_point_list",
    "varCorr": "var_corr_list",
    "meanCorr": "mean_corr_list",
    "numBits": "num_bit_list",
}
"""The parameters of a channel, and the names of their lists."""
KIND = "quant_type"
"""The attribute of a node with its QuantType."""
RESULT = "quant_param"
"""The attribute of a node with the parameters of its result, in a tensor without elements."""
_KINDS = {number: name.replace("_", "") for name, number in number_of("TensorProto.CompressionType").items()}


_WRITTEN = {
    "scale_list": ("doubles", "DOUBLE", 1.0),
    "zero_point_list": ("ints", "INT32", 0),
    "var_corr_list": ("floats", "FLOAT", 1.0),
    "mean_corr_list": ("floats", "FLOAT", 0.0),
    "num_bit_list": ("ints", "INT32", 8),
    "min_list": ("doubles", "DOUBLE", 0.0),
    "max_list": ("doubles", "DOUBLE", 0.0),
    "narrow_range_list": ("ints", "BOOL", 1),
}
"""The lists that MindSpore Lite wants: field and type of a number, and the number where none is given."""


def uses(nodes: list[Node]) -> dict[str, packing.Use]:
    """Return the use of each value that may be a quantized weight."""
    found: dict[str, packing.Use] = {}
    for node in nodes:
        gathered = node.attributes.get("axis")
        axis_of_gather = gathered if isinstance(gathered, int) else 0
        for position, name in enumerate(node.inputs):
            axis = quantized_axis(node.primitive, position, node.attributes, Layout.NCHW, axis_of_gather)
            found[name] = found.get(name, packing.Use()).by(node.attributes.get(KIND), axis)
    return found


def describe(tensor: Proto, meaning: Quantized, bits: int = 8) -> None:
    """Write what the integers of a tensor, of so many bits, stand for."""
    proto, count = tensor.quant_params.add(quant_algo_name="linear_quant"), len(meaning.scale)
    given = {
        "scale_list": meaning.scale,
        "zero_point_list": meaning.zero_point,
        "num_bit_list": [bits] * count,
    }
    types = number_of("AttributeProto.AttributeType")
    for name, (field, kind, default) in _WRITTEN.items():
        column = proto.attribute.add(name=name, type=types["LIST"])
        for number in given.get(name, [default] * count):
            column.values.add(**{field: [number], "type": types[kind]})


def of_results(nodes: list[Node]) -> dict[str, Quantized | None]:
    """Return what the integers of the results of nodes stand for."""
    found = {node.outputs[0]: node.attributes.get(RESULT) for node in nodes}
    return {name: meaning for name, meaning in found.items() if isinstance(meaning, Quantized)}


def meaning(tensor: Proto, use: packing.Use) -> Quantized | None:
    """Return the quantization of a weight if nodes compute with its integers, else None."""
    rows = _rows(tensor)
    return packing.quantized(rows, use.axis or 0) if rows and not use.stored and not _packed(tensor) else None


def unpacked(
    tensor: Proto,
    dtype: ir.DataType,
    use: packing.Use,
    raw: ir.TensorProtocol,
    budget: packing.ElementBudget,
    error: Callable[[str], ModelFormatError],
) -> ir.TensorProtocol:
    """Return the float32 values of a weight with element type `dtype`, whose stored bytes are `raw`."""
    shape = tuple(tensor.dims)
    kind = _KINDS.get(tensor.compression_type, f"type {tensor.compression_type}")
    pack = packing.of(kind if _packed(tensor) else "NONE", shape, dtype, _rows(tensor), use.axis or 0, error)
    budget.take(pack)
    return lazy(lambda: pack.unpack(np.asarray(raw.numpy())), ir.DataType.FLOAT, shape, raw.name or "")


def is_stored(tensor: Proto, use: packing.Use) -> bool:
    """Return True if a weight must be unpacked."""
    rows = _rows(tensor)
    return _packed(tensor) or (bool(rows) and meaning(tensor, use) is None)


def _packed(tensor: Proto) -> bool:
    return bool(tensor.compression_type)


def _rows(tensor: Proto) -> list[Mapping[str, Any]]:
    """Return the parameters of each channel; [] if the weight is not quantized."""
    if not tensor.quant_params:
        return []
    lists = {a.name: [_number(v) for v in a.values] for a in tensor.quant_params[0].attribute}
    columns = [lists.get(name, []) for name in _LISTS.values()]
    return [dict(zip(_LISTS, row, strict=True)) for row in zip(*columns, strict=False)]


def _number(value: Proto) -> float | int:
    for many in (value.doubles, value.floats, value.ints):
        if many:
            number: float | int = many[0]
            return number
    return 0
