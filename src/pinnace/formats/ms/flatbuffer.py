"""A FlatBuffers reader that checks every access.

Generated readers and the `flatbuffers` runtime follow any offset in a file. This one checks each offset,
length and string against the buffer first, so a damaged file raises one `ModelFormatError` that names the
file, the byte and the field. All tables are read at once, even unused ones, which detects truncated files.

A file may also refer to the same place many times, and so require far more work than its size. No writer does
that: decoded bytes are counted, and a file that needs several times its own size is rejected. Vectors of
bytes are returned as a `Span`, which costs nothing.

The layout is that of https://flatbuffers.dev/internals: a table begins with the signed distance back to its
vtable, which holds its own size, the size of the table, and for each slot the offset of the field in the
table or 0; strings and vectors begin with a length; offsets are relative to their own position.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import Any

from pinnace.errors import ModelFormatError
from pinnace.formats.ms.schema import Field, Schema, Span

_U8, _U16, _U32, _I32 = Struct("<B"), Struct("<H"), Struct("<I"), Struct("<i")
_VTABLE = Struct("<HH")
_WORK_FACTOR = 8
"""Limit of decoded bytes, as a multiple of the file's size; real files stay below 2."""
_WORK_LIMIT = 1 << 26
"""Limit of decoded bytes for any file; a graph of 100 000 nodes needs half of it."""
_TABLE_COST = 16
"""Cost of a table's Python object, in bytes."""


class Table:
    """One table of the file.

    A field is a number (of a scalar or enumeration; the default if the file omits it), a str, a `Span` for a
    vector of bytes, a tuple for another vector, a `Table` for a table or union. Omitted fields other than
    scalars are "", an empty `Span`, (), or None. A table that the schema does not know, from a later release,
    has no fields.
    """

    __slots__ = ("_buffer", "_label", "_parent", "_values", "at", "name")

    def __init__(self, buffer: Buffer, name: str, at: int, parent: Table | None, label: str) -> None:
        self.name, self.at = name, at
        self._buffer, self._parent, self._label = buffer, parent, label
        self._values: dict[str, Any] = {}

    def __getitem__(self, field: str) -> Any:
        return self._values[field]

    @property
    def path(self) -> str:
        """Path of the table in the file, for messages."""
        return self._label if self._parent is None else f"{self._parent.path}.{self._label}"

    def where(self, field: str) -> str:
        """Return file, byte and field, the start of an error message."""
        at = self._buffer.place(self, self._buffer.schema.tables[self.name][field])
        return f"{self._buffer.source}: byte {at}: {self.path}.{field}"

    def error(self, field: str, what: str) -> ModelFormatError:
        """Return a ModelFormatError for a field of this table."""
        return ModelFormatError(f"{self.where(field)}: {what}")

    def fields(self) -> dict[str, Any]:
        """Return all fields by name, with tables as dicts and vectors of bytes as bytes.

        FlatBuffers has no vector of vectors; a table with the one field `data` represents a vector, and
        becomes one here.
        """
        return {name: self._resolved(value) for name, value in self._values.items()}

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Table):
            fields = value.fields()
            return fields["data"] if fields.keys() == {"data"} else fields
        if isinstance(value, Span):
            return self._buffer.copy(value, self)
        if isinstance(value, tuple):
            return tuple(self._resolved(item) for item in value)
        return value


class Buffer:
    """The bytes of one file."""

    def __init__(self, data: memoryview, source: str, schema: Schema) -> None:
        self.data, self.source, self.schema = data, source, schema
        self._end = len(data)
        self._work = min(_WORK_FACTOR * len(data), _WORK_LIMIT)

    def root(self) -> Table:
        """Return the root table. Raises ModelFormatError if the buffer is no complete file of this schema."""
        if self._end < 8:
            raise ModelFormatError(f"{self.source}: byte 0: {self._end} bytes are too few for a .ms model")
        identifier = bytes(self.data[4:8])
        if identifier != self.schema.identifier.encode():
            what = f"the identifier is {identifier!r}, but {self.schema.identifier!r} is expected"
            raise ModelFormatError(f"{self.source}: byte 4: {what}")
        return self._table(self.schema.root, _U32.unpack_from(self.data, 0)[0], None, self.schema.root)

    def place(self, table: Table, field: Field) -> int:
        """Return the byte offset of a field, or that of the table if the file omits the field."""
        vtable = table.at - _I32.unpack_from(self.data, table.at)[0]
        if 4 + 2 * field.slot >= _U16.unpack_from(self.data, vtable)[0]:
            return table.at
        return table.at + int(_U16.unpack_from(self.data, vtable + 4 + 2 * field.slot)[0])

    def copy(self, span: Span, table: Table) -> bytes:
        self._spend(span.length, span.offset, table)
        return bytes(self.data[span.offset : span.offset + span.length])

    # -- reading: every method checks the bytes that it reads, and the lengths that they declare ----------

    def _table(self, name: str, at: int, parent: Table | None, label: str) -> Table:
        table = Table(self, name, at, parent, label)
        if at + 4 > self._end:
            raise self._damage(at, table, "", f"the table is past the end, byte {self._end}")
        vtable = at - _I32.unpack_from(self.data, at)[0]
        if not 0 <= vtable <= self._end - 4:
            raise self._damage(at, table, "", f"its layout is declared at byte {vtable}")
        layout, size = _VTABLE.unpack_from(self.data, vtable)
        if layout < 4 or vtable + layout > self._end or size < 4 or at + size > self._end:
            what = f"{size} bytes with a layout of {layout} bytes do not fit before the end, byte {self._end}"
            raise self._damage(vtable, table, "", what)
        self._spend(_TABLE_COST + size, at, table)
        fields = self.schema.tables.get(name, {})
        places = unpack_from(f"<{layout // 2 - 2}H", self.data, vtable + 4)
        count = min(len(places), self.schema.slots.get(name, len(places)))
        later = next((slot for slot in range(count, len(places)) if places[slot]), None)
        if later is not None:
            what = f"has field number {later}, which only releases of MindSpore Lite after 2.11 write"
            raise self._damage(at, table, "", f"{what}: convert the model with an older one")
        for field in fields.values():
            inside = places[field.slot] if field.slot < count else 0
            if inside and (inside < 4 or inside + field.size > size):
                raise self._damage(vtable, table, field.name, "the field lies outside of its table")
            value = self._field(table, field, places, at, size) if inside else field.absent
            table._values[field.name] = value
        return table

    def _field(self, table: Table, field: Field, places: tuple[int, ...], start: int, size: int) -> Any:
        at = start + places[field.slot]
        if field.form is not None and not field.is_vector:
            value = field.form.unpack_from(self.data, at)[0]
            return bool(value) if field.type == "bool" else value
        if field.is_union:
            return self._union(table, field, places, start, size)
        target = at + _U32.unpack_from(self.data, at)[0]
        if field.is_vector:
            return self._vector(table, field, target)
        if field.type == "string":
            return self._string(table, field, target)
        return self._table(field.type, target, table, field.name)

    def _vector(self, table: Table, field: Field, at: int) -> Any:
        span = self._span(table, field, at, 4 if field.form is None else field.form.size)
        if field.type == "[ubyte]":
            return span
        start, count = span
        self._spend(8 * count, at, table)
        if field.form is not None:
            return unpack_from(f"<{count}{field.form.format[1:]}", self.data, start)
        offsets = unpack_from(f"<{count}I", self.data, start)
        return tuple(
            self._table(field.type[1:-1], start + 4 * i + offset, table, f"{field.name}[{i}]")
            for i, offset in enumerate(offsets)
        )

    def _string(self, table: Table, field: Field, at: int) -> str:
        start, length = self._span(table, field, at, 1)
        if start + length + 1 > self._end:
            raise self._damage(at, table, field.name, "the string is not terminated")
        self._spend(length, at, table)
        try:
            return str(self.data[start : start + length], "utf-8")
        except UnicodeDecodeError as error:
            raise self._damage(start + error.start, table, field.name, "the string is not UTF-8") from None

    def _union(
        self, table: Table, field: Field, places: tuple[int, ...], start: int, size: int
    ) -> Table | None:
        number = _U8.unpack_from(self.data, start + places[field.slot])[0]
        inside = places[field.slot + 1] if field.slot + 1 < len(places) else 0
        if not number or not inside:
            return None
        if inside < 4 or inside + 4 > size:
            raise self._damage(start, table, field.name, "the field lies outside of its table")
        at = start + inside
        member = self.schema.unions[field.type].get(number, f"{field.type}_{number}")
        return self._table(member, at + _U32.unpack_from(self.data, at)[0], table, field.name)

    def _span(self, table: Table, field: Field, at: int, item: int) -> Span:
        """Return the elements of the vector at `at`, of `item` bytes each; `length` counts elements."""
        if at + 4 > self._end:
            raise self._damage(at, table, field.name, f"the vector is past the end, byte {self._end}")
        count = _U32.unpack_from(self.data, at)[0]
        if at + 4 + count * item > self._end:
            what = f"{count} elements of {item} bytes run past the end, byte {self._end}"
            raise self._damage(at, table, field.name, what)
        return Span(at + 4, count)

    def _spend(self, amount: int, at: int, table: Table) -> None:
        self._work -= amount
        if self._work < 0:
            raise self._damage(at, table, "", "the file refers to the same bytes too often")

    def _damage(self, at: int, table: Table, field: str, what: str) -> ModelFormatError:
        path = f"{table.path}.{field}" if field else table.path
        return ModelFormatError(f"{self.source}: byte {at}: {path}: {what}")
