"""Quantised weights of the `.mindir` that MindSpore Lite's converter writes.

A weight has `quant_params`, lists of numbers for its channels, and `compression_type` where it is packed.
The attribute `quant_type` of the nodes that use it says whether they want the integers or what these
stand for; see `packing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.formats import packing
from pinnace.formats.mindir.schema import number_of
from pinnace.program import Layout, Node, Quantised

_STORAGE_ONLY = (2, 4)
"""The `quant_type`s of nodes that compute with what their quantised weights stand for."""
_LISTS = {
    "scale": "scale_list",
    "zeroPoint": "zero_point_list",
    "varCorr": "var_corr_list",
    "meanCorr": "mean_corr_list",
    "numBits": "num_bit_list",
}
"""The parameters of a channel, and the lists that they stand in."""
_KINDS = {number: name.replace("_", "") for name, number in number_of("TensorProto.CompressionType").items()}


class WeightUse(NamedTuple):
    """What nodes make of a quantised weight: the axis of its channels, and whether it is only stored so."""

    axis: int | None = None
    stored: bool = False


def uses(nodes: list[Node]) -> dict[str, WeightUse]:
    """By name of a value, what nodes make of it where it is a quantised weight."""
    found: dict[str, WeightUse] = {}
    for node in nodes:
        kind, gathered = node.attributes.get("quant_type"), node.attributes.get("axis")
        for position, name in enumerate(node.inputs):
            before = found.get(name, WeightUse())
            axis = packing.channel_axis(
                node.primitive,
                position,
                node.attributes,
                Layout.NCHW,
                gathered if isinstance(gathered, int) else 0,
            )
            kept = before.axis if kind == 0 else packing.shared_axis(before.axis, axis)
            found[name] = WeightUse(kept, kind in _STORAGE_ONLY or before.stored)
    return found


def meaning(tensor: Any, use: WeightUse) -> Quantised | None:
    """What a weight's integers stand for where nodes compute with them; None of any other weight."""
    rows = _rows(tensor)
    return packing.quantised(rows, use.axis or 0) if rows and not use.stored and not _packed(tensor) else None


def unpacked(
    tensor: Any,
    dtype: ir.DataType,
    use: WeightUse,
    raw: ir.TensorProtocol,
    room: packing.ElementBudget,
    error: Callable[[str], ModelFormatError],
) -> ir.TensorProtocol:
    """A weight of the element type `dtype`, whose stored bytes are `raw`, as float32."""
    shape = tuple(tensor.dims)
    kind = _KINDS.get(tensor.compression_type, f"type {tensor.compression_type}")
    pack = packing.of(kind if _packed(tensor) else "NONE", shape, dtype, _rows(tensor), use.axis or 0, error)
    room.take(pack)
    name = raw.name or ""
    return ir.LazyTensor(
        lambda: ir.Tensor(pack.unpack(np.asarray(raw.numpy())), name=name),
        ir.DataType.FLOAT,
        ir.Shape(shape),
        name=name,
    )


def is_stored(tensor: Any, use: WeightUse) -> bool:
    """Whether a weight is to be unpacked."""
    rows = _rows(tensor)
    return _packed(tensor) or (bool(rows) and meaning(tensor, use) is None)


def _packed(tensor: Any) -> bool:
    return bool(tensor.compression_type)


def _rows(tensor: Any) -> list[Mapping[str, Any]]:
    """The parameters of each channel; none of a weight that is not quantised."""
    if not tensor.quant_params:
        return []
    lists = {a.name: [_number(v) for v in a.values] for a in tensor.quant_params[0].attribute}
    columns = [lists.get(name, []) for name in _LISTS.values()]
    return [dict(zip(_LISTS, row, strict=True)) for row in zip(*columns, strict=False)]


def _number(value: Any) -> float | int:
    for many in (value.doubles, value.floats, value.ints):
        if many:
            number: float | int = many[0]
            return number
    return 0
