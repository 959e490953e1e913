"""Writer of FlatBuffers from plain values, by the schema of `flatbuffer`'s reader.

A table is a dict of its fields, a vector a list, a member of a union a pair of its name and fields. A vector
of bytes may be a tensor: it is written last, from file to file, and is never held. Its data begins at a
multiple of 64 bytes, so that runtimes compute with it where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, BinaryIO

import onnx_ir as ir

from pinnace.formats.ms.schema import Field, Schema

_U16, _U32, _I32 = Struct("<H"), Struct("<I"), Struct("<i")
_ALIGNED = 64
_ALWAYS = {("ArgMinFusion", "top_k")}
"""Fields that are written even with their default, because releases before 2.10 have another one."""
LIMIT = (1 << 31) - 1
"""Bytes that one FlatBuffer may have."""


class TooLarge(ValueError):
    """More than one FlatBuffer holds."""


class TableWriter:
    """A file of one root table, ready to be written."""

    def __init__(self, schema: Schema, root: Mapping[str, Any]) -> None:
        """Lay out a file. Raises TooLarge."""
        self.schema = schema
        self.out = bytearray(4) + schema.identifier.encode()
        self.layouts: dict[bytes, int] = {}
        """The place of each layout of fields, which tables share."""
        self.tensors: list[tuple[int, ir.TensorProtocol]] = []
        """Tensors, each with the place of the offset that points to it."""
        self.point(0, self.table(schema.root, root))
        self.begins: list[int] = []
        """The place at which the data of each tensor begins."""
        end = len(self.out)
        for place, tensor in self.tensors:
            begin = end + 4 + -(end + 4) % _ALIGNED
            self.point(place, begin - 4)
            self.begins.append(begin)
            end = begin + tensor.nbytes
        if end > LIMIT:
            raise TooLarge(f"the file takes {end} bytes, but a FlatBuffer can have only {LIMIT}")

    def write(self, file: BinaryIO) -> None:
        """Write the file. Raises OSError."""
        file.write(self.out)
        end = len(self.out)
        for begin, (_, tensor) in zip(self.begins, self.tensors, strict=True):
            file.write(bytes(begin - 4 - end) + _U32.pack(tensor.nbytes))
            tensor.tofile(file)  # type: ignore[attr-defined]
            end = begin + tensor.nbytes

    def point(self, place: int, target: int) -> None:
        """Let the offset at a place lead to a target behind it."""
        _U32.pack_into(self.out, place, min(target - place, LIMIT))

    def table(self, name: str, values: Mapping[str, Any]) -> int:
        """Write a table and all that it leads to; return its place."""
        fields = self.schema.tables[name]
        given = [
            (fields[n], v)
            for n, v in values.items()
            if v is not None and (v != fields[n].absent or (name, n) in _ALWAYS)
        ]
        places, size = _places(given)
        slots = [places.get(slot, 0) for slot in range(1 + max(places, default=-1))]
        layout = b"".join(map(_U16.pack, (4 + 2 * len(slots), size, *slots)))
        self.out += bytes(-len(self.out) % 8)
        vtable = self.layouts.setdefault(layout, len(self.out))
        if vtable == len(self.out):
            self.out += layout + bytes(-len(layout) % 8)
        at = len(self.out)
        self.out += bytes(size)
        _I32.pack_into(self.out, at, at - vtable)
        for field, value in given:
            place = at + places[field.slot]
            if field.is_union:
                members = self.schema.unions[field.type].items()
                self.out[place] = next(number for number, member in members if member == value[0])
                place = at + places[field.slot + 1]
                self.point(place, self.table(*value))
            elif field.form is not None and not field.is_vector:
                field.form.pack_into(self.out, place, value)
            elif isinstance(value, ir.TensorProtocol):
                self.tensors.append((place, value))
            else:
                self.point(place, self._reached(field, value))
        return at

    def _reached(self, field: Field, value: Any) -> int:
        """Write a string, vector or table; return its place."""
        if field.type == "string":
            return self._vector(value.encode() + b"\0", len(value.encode()), 1)
        if not field.is_vector:
            return self.table(field.type, value)
        if field.form is not None:
            packed = bytes(value) if field.type == "[ubyte]" else b"".join(map(field.form.pack, value))
            return self._vector(packed, len(value), field.form.size)
        at = self._vector(bytes(4 * len(value)), len(value), 4)
        for i, item in enumerate(value):
            self.point(at + 4 + 4 * i, self.table(field.type.strip("[]"), item))
        return at

    def _vector(self, packed: bytes, count: int, item: int) -> int:
        self.out += bytes(-(len(self.out) + 4) % max(4, item))
        at = len(self.out)
        self.out += _U32.pack(count) + packed
        return at


def _places(given: list[tuple[Field, Any]]) -> tuple[dict[int, int], int]:
    """The offset of each slot in a table, and the table's size; large fields come first, for alignment."""
    parts = [(f.slot, f.size) for f, _ in given] + [(f.slot + 1, 4) for f, _ in given if f.is_union]
    places, at = {}, 8 if any(size == 8 for _, size in parts) else 4
    for slot, size in sorted(parts, key=lambda part: -part[1]):
        places[slot], at = at, at + size
    return places, at + -at % 4
