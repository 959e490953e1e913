"""Tensors of a `.ms` file: their declared types, and the data of constants.

Data that engines can read directly stays in place (see `weights.source`), in the `.ms` file or in the file
that `externalData` names. Data that is packed, quantized or in half precision for storage only is unpacked on
access (see `packing`).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.formats import packing
from pinnace.formats.ms import schema
from pinnace.formats.ms.flatbuffer import Table
from pinnace.formats.ms.schema import Span
from pinnace.program import DTYPES, Quantized, TypeInfo
from pinnace.weights.placed import lazy
from pinnace.weights.source import Source, check_shape


def type_of(tensor: Table) -> TypeInfo | None:
    """Return the declared type of a tensor; None for others, such as a list of tensors.

    -1 is a free dimension.
    """
    dtype = DTYPES.get(tensor["dataType"])
    return None if dtype is None else TypeInfo(dtype, tuple(d if d >= 0 else None for d in tensor["dims"]))


_INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16)
"""Element types that can be computed with while quantized; constants may also be INT32, like biases."""


def constant(
    tensor: Table, source: Source, use: packing.Use, budget: packing.ElementBudget
) -> ir.TensorProtocol | None:
    """Return the data of a tensor; None if the graph computes it.

    Raises `ModelFormatError` if data and declaration do not match, or packed data exceeds the `budget`.
    """
    span: Span = tensor["data"]
    outside: tuple[Table, ...] = tensor["externalData"]
    if not span.length and not outside and 0 not in tensor["dims"]:
        return None
    name, (dtype, shape) = str(tensor["name"]), _declared(tensor)
    pack = _pack(tensor, dtype, shape, use)
    if pack is not None:
        budget.take(pack)
        raw = _stored(source, name, ir.DataType.UINT8, (_length(span, outside),), span, outside)
        return lazy(lambda: pack.unpack(raw.numpy()), ir.DataType.FLOAT, shape, name)
    size = math.prod(shape) * dtype.itemsize
    if not outside and span.length != size:
        what = f"{name!r} is {dtype.name}{list(shape)}, {size} bytes, but the file has {span.length}"
        raise tensor.error("data", what)
    stored = _stored(source, name, dtype, shape, span, outside)
    if dtype is ir.DataType.FLOAT16 and use.in_float32:
        return lazy(lambda: stored.numpy().astype(np.float32), ir.DataType.FLOAT, shape, name)
    return stored


def quantized(tensor: Table, use: packing.Use) -> Quantized | None:
    """Return the quantization of a tensor if nodes compute with its integers, else None."""
    dtype = DTYPES.get(tensor["dataType"])
    constant = bool(tensor["data"].length or tensor["externalData"])
    rows = [p.fields() for p in tensor["quantParams"]]
    if not rows or (dtype not in _INTEGERS and not (constant and dtype is ir.DataType.INT32)):
        return None
    if constant and (use.stored or _kind(tensor) != "NONE"):
        return None
    meaning = packing.quantized(rows, use.axis or 0)
    limits = np.iinfo(dtype.numpy())
    if meaning is not None and not all(limits.min <= z <= limits.max for z in meaning.zero_point):
        # The converter of release 2.0.0 writes three random bytes here for ONNX's QuantizeLinear.
        what = f"{tensor['name']!r} is {dtype.name} and has a zero point of {meaning.zero_point[0]}"
        raise tensor.error("quantParams", what)
    return meaning


def _kind(tensor: Table) -> str:
    return schema.load().name_of("WeightQuantCompressType", tensor["weightQuantCompressType"])


def _pack(tensor: Table, dtype: ir.DataType, shape: tuple[int, ...], use: packing.Use) -> packing.Pack | None:
    """Return the packing of a constant, or None if its data has the declared type."""
    if tensor["enableHuffmanCode"] or tensor["quantClusters"]:
        what = f"{tensor['name']!r} is Huffman coded or clustered, which is not supported"
        raise tensor.error("enableHuffmanCode", what)
    kind = _kind(tensor)
    rows = [p.fields() for p in tensor["quantParams"]]
    plain = kind == "NONE"
    if plain and (not rows or dtype not in _INTEGERS or quantized(tensor, use) is not None):
        return None

    def error(what: str) -> ModelFormatError:
        field = "quantParams" if plain else "weightQuantCompressType"
        return tensor.error(field, f"{tensor['name']!r} {what}")

    return packing.of(kind, shape, dtype, rows, use.axis or 0, error)


def _declared(tensor: Table) -> tuple[ir.DataType, tuple[int, ...]]:
    dtype = DTYPES.get(tensor["dataType"])
    if dtype is None:
        what = f"constant {tensor['name']!r} has elements of type {tensor['dataType']}, which are not numbers"
        raise tensor.error("dataType", what)
    shape: tuple[int, ...] = tensor["dims"]
    try:
        check_shape(f"constant {tensor['name']!r}", shape)
    except ModelFormatError as error:
        raise tensor.error("dims", str(error)) from None
    return dtype, shape


def _length(span: Span, outside: tuple[Table, ...]) -> int:
    length: int = outside[0]["length"] if outside else span.length
    if length < 0:
        raise outside[0].error("length", "packed weights in another file need a length")
    return length


def _stored(
    source: Source,
    name: str,
    dtype: ir.DataType,
    shape: tuple[int, ...],
    span: Span,
    outside: tuple[Table, ...],
) -> ir.TensorProtocol:
    if not outside:
        return source.tensor(name, dtype, shape, *span)
    entry = outside[0]
    return source.external(name, dtype, shape, entry["location"], entry["offset"], entry["length"])
