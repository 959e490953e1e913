"""Tensors of the Open Inference Protocol: names of element types, raw bytes and JSON.

Source: the Open Inference Protocol (kserve.github.io), and Triton's extension "binary tensor data". Raw bytes
are in row-major order, little endian; an element of BYTES is four bytes with its length, and the bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from pinnace.server.failures import RequestError
from pinnace.types import Array, DataType

NAMES = {
    DataType.BOOL: "BOOL",
    DataType.INT8: "INT8",
    DataType.INT16: "INT16",
    DataType.INT32: "INT32",
    DataType.INT64: "INT64",
    DataType.UINT8: "UINT8",
    DataType.UINT16: "UINT16",
    DataType.UINT32: "UINT32",
    DataType.UINT64: "UINT64",
    DataType.FLOAT16: "FP16",
    DataType.FLOAT32: "FP32",
    DataType.FLOAT64: "FP64",
    DataType.BFLOAT16: "BF16",
    DataType.STRING: "BYTES",
}
"""The protocol's name of each element type."""
_TYPES = {name: dtype for dtype, name in NAMES.items()}
_RANK = 32
"""Dimensions of an array of any numpy."""
_PART = 1 << 14
"""Elements that are converted at once: Python lets nobody else run meanwhile."""
_RANGES = {"b": "true or false", "i": "whole numbers", "u": "whole numbers of at least 0", "f": "numbers"}


def data_type(name: str, tensor: str) -> DataType:
    """Return the element type with a name of the protocol. Raises RequestError if there is none."""
    try:
        return _TYPES[name]
    except KeyError:
        known = ", ".join(_TYPES)
        raise RequestError(f"input {tensor!r} has the unknown datatype {name!r}; there are {known}") from None


def checked_shape(shape: Sequence[Any], tensor: str) -> tuple[int, ...]:
    """Return the shape of an input. Raises RequestError unless it is sizes."""
    sizes = tuple(shape)
    elements = 1
    for size in sizes:
        if type(size) is not int or not 0 <= size < 1 << 31:
            raise RequestError(
                f"input {tensor!r} has the shape {list(sizes)[:16]}: sizes are whole, from 0 on"
            )
        elements *= size or 1
    if len(sizes) > _RANK or elements >= 1 << 59:
        raise RequestError(
            f"input {tensor!r} has the shape {list(sizes)[:16]} of {len(sizes)} dimensions: no array has so "
            f"many, or so many elements"
        )
    return sizes


def check_size(size: int, name: str, dtype: DataType, shape: tuple[int, ...]) -> None:
    """Raise RequestError unless an input of a type and shape has so many raw bytes."""
    wanted = math.prod(shape) * dtype.to_numpy().itemsize
    if dtype is not DataType.STRING and size != wanted:
        raise RequestError(
            f"input {name!r} has {size} bytes, but {list(shape)} of {NAMES[dtype]} takes {wanted}"
        )


def from_raw(data: memoryview, name: str, dtype: DataType, shape: tuple[int, ...]) -> Array:
    """Return the array of an input's raw bytes, which it shares. Raises RequestError if they do not fit."""
    if dtype is DataType.STRING:
        return _array(_texts(data, name, math.prod(shape)), shape)
    check_size(len(data), name, dtype, shape)
    return np.frombuffer(data, dtype.to_numpy()).reshape(shape)


def _texts(data: memoryview, name: str, elements: int) -> list[str]:
    texts, place = list[str](), 0
    while place + 4 <= len(data) and len(texts) < elements:
        (length,) = struct.unpack_from("<I", data, place)
        place += 4
        if place + length > len(data):
            break
        texts.append(_text(bytes(data[place : place + length]), name))
        place += length
    if place != len(data) or len(texts) != elements:
        raise RequestError(f"input {name!r}: its bytes are not {elements} elements of BYTES")
    return texts


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RequestError(f"input {name!r} has BYTES that are no UTF-8: models take text") from None


def from_items(items: Any, name: str, dtype: DataType, shape: tuple[int, ...]) -> Array:
    """Return the array of an input's elements, a flat or nested list. Raises RequestError if they do not fit.

    Numbers that the element type cannot hold exactly as a whole number are refused; those of floating point
    are rounded.
    """
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise RequestError(f"input {name!r}: its data must be a list")
    flat = list[Any]()
    _flatten(items, flat, len(shape), name)
    if len(flat) != math.prod(shape):
        raise RequestError(f"input {name!r} has {len(flat)} elements, but the shape {list(shape)}")
    if dtype is DataType.STRING:
        given = _of(flat, (str, bytes), name)
        encoded = (item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item for item in given)
        return _array([_text(item, name) for item in encoded], shape)
    kind = dtype.to_numpy()
    allowed = {"b": (bool,), "i": (int,), "u": (int,)}.get(kind.kind, (int, float))
    try:
        with np.errstate(over="ignore"):
            parts = [np.array(_of(part, allowed, name, kind.kind), kind) for part in _parts(flat)]
            return np.concatenate([*parts, np.empty(0, kind)]).reshape(shape)
    except (OverflowError, TypeError):  # ml_dtypes says that 10**39 is no number
        raise RequestError(f"input {name!r} has numbers that {NAMES[dtype]} does not hold") from None


def _of(items: list[Any], kinds: tuple[type, ...], name: str, kind: str = "") -> list[Any]:
    if not {*map(type, items)} <= {*kinds}:
        raise RequestError(
            f"input {name!r}: its data must be {_RANGES.get(kind, 'numbers' if kind else 'text')}"
        )
    return items


def _parts(items: Sequence[Any] | Array) -> Iterator[Any]:
    return (items[place : place + _PART] for place in range(0, len(items), _PART))


def _flatten(items: Sequence[Any], flat: list[Any], depth: int, name: str) -> None:
    if list not in {*map(type, items)}:
        flat.extend(items)
        return
    for item in items:
        if isinstance(item, list):
            if depth <= 1:
                raise RequestError(f"input {name!r}: its data has more dimensions than its shape")
            _flatten(item, flat, depth - 1, name)
        else:
            flat.append(item)


def _array(texts: list[str], shape: tuple[int, ...]) -> Array:
    made = np.empty(len(texts), object)
    made[:] = texts
    return made.reshape(shape)


def to_raw(array: Array) -> bytes | memoryview:
    """Return the raw bytes of an output."""
    if array.dtype == object:
        encoded = [str(text).encode() for text in array.ravel()]
        return b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    whole = np.ascontiguousarray(array)
    return whole.reshape(-1).view(np.uint8).data if whole.size else b""


def to_json(array: Array) -> bytes:
    """Return the elements of an output as a list of JSON, flat, in row-major order."""
    return b"[%b]" % b",".join(_listed(part)[1:-1] for part in _parts(array.ravel()))


def _listed(array: Array) -> bytes:
    if array.dtype == object:
        return json.dumps([str(text) for text in array]).encode()
    plain = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    if np.isfinite(plain).all():
        return orjson.dumps(plain, option=orjson.OPT_SERIALIZE_NUMPY)
    return json.dumps(plain.tolist()).encode()  # NaN and Infinity, as Triton writes them


def name_of(array: Array) -> str:
    """Return the protocol's name of an array's element type."""
    return NAMES[DataType.from_numpy(array.dtype)]
