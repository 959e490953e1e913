"""Removal of weights from a protobuf message before parsing.

Protobuf parsers copy every byte of a message, weights included. `outline` copies a message without its large
payloads and replaces these by references, so that little is left to parse and the weights stay in the file.
It works on the wire format (protobuf.dev/programming-guides/encoding): a message is a sequence of fields,
each a varint key (number shifted by three, and wire type) and a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pinnace.errors import ModelFormatError

Fields = Mapping[int, Any]
"""Field number -> the `Fields` of the message there, or PAYLOAD."""

PAYLOAD = object()
"""Marks a bytes field that may be large."""

_DEPTH = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


def outline(
    data: memoryview,
    fields: Fields,
    reference: Callable[[int, int], bytes],
    smallest: int,
    name: str,
) -> bytes:
    """Return the message with every payload longer than `smallest` bytes replaced.

    `reference(offset, length)` returns the encoded fields that replace the payload at that place of `data`.
    Raises ModelFormatError, with `name` and the byte offset, if the message is damaged.
    """
    return _Outline(data, reference, smallest, name).message(0, len(data), fields, 0)


def fields_of(data: memoryview, name: str) -> Iterator[tuple[int, int]]:
    """Yield the number and the bytes of each field of a message; raises as `outline` does."""
    message, position = _Outline(data, lambda offset, length: b"", 0, name), 0
    while position < len(data):
        key, position = message._varint(position, len(data))
        begin, position = message._value(key, position, len(data))
        yield key >> 3, position - begin


class _Outline:
    def __init__(
        self, data: memoryview, reference: Callable[[int, int], bytes], smallest: int, name: str
    ) -> None:
        self.data, self.reference, self.smallest, self.name = data, reference, smallest, name

    def message(self, start: int, end: int, fields: Fields, depth: int) -> bytes:
        """Return the outline of the message in `data[start:end]`."""
        if depth > _DEPTH:
            raise ModelFormatError(f"{self.name}: messages are nested too deeply at byte {start}")
        parts: list[bytes | memoryview] = []
        copied = position = start
        while position < end:
            begin = position
            key = self.data[position]
            if key < 0x80:  # the most common case
                position += 1
            else:
                key, position = self._varint(position, end)
            body, position = self._value(key, position, end)
            inner = fields.get(key >> 3)
            if inner is None or key & 7 != _BYTES or position - body <= self.smallest:
                continue
            parts.append(self.data[copied:begin])
            copied = position
            if inner is PAYLOAD:
                parts.append(self.reference(body, position - body))
            else:
                message = self.message(body, position, inner, depth + 1)
                parts.append(delimited(key >> 3, message))
        parts.append(self.data[copied:end])
        return b"".join(parts)

    def _value(self, key: int, position: int, end: int) -> tuple[int, int]:
        """Return the begin (after its length) and end of the value behind a key."""
        kind = key & 7
        if kind == _VARINT:
            return position, self._varint(position, end)[1]
        if kind == _BYTES:
            length = self.data[position] if position < end else 0x80
            if length < 0x80:
                position += 1
            else:
                length, position = self._varint(position, end)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ModelFormatError(f"{self.name}: byte {position - 1} begins no field (wire type {kind})")
        if not key >> 3 or length > end - position:
            raise ModelFormatError(
                f"{self.name}: field {key >> 3} at byte {position} declares {length} bytes, "
                f"and {end - position} are left"
            )
        return position, position + length

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        result = 0
        for shift in range(0, 70, 7):
            if position >= end:
                raise ModelFormatError(f"{self.name}: the data ends inside a field, at byte {position}")
            byte = self.data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result, position
        raise ModelFormatError(f"{self.name}: a number at byte {position - 10} is too long")


def varint(number: int) -> bytes:
    """Encode a number of 0 or more."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def head(field: int, length: int) -> bytes:
    """Encode what stands before a field of bytes, text or message."""
    return varint(field << 3 | _BYTES) + varint(length)


def delimited(field: int, value: bytes) -> bytes:
    """Encode a field of bytes, text or message."""
    return head(field, len(value)) + value


def number(field: int, value: int) -> bytes:
    """Encode an integer field."""
    return varint(field << 3 | _VARINT) + varint(value)
