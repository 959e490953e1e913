"""FlatBuffers read with every step checked.

The generated readers and the `flatbuffers` runtime follow whatever offset a file holds. Here each offset,
length and string is held against the buffer before it is used, so a damaged file ends in one
`ModelFormatError` that names the file, the byte and the field.

A file may also point at the same place many times, and so ask for far more work than it has bytes. No
writer does that, so what is decoded is counted, and a file that asks for several times its own size is
refused. Vectors of bytes are given as a `Span`, which costs nothing.

The layout is that of https://flatbuffers.dev/internals: a table begins with the signed distance back to
its vtable, which is its own size, the size of the table, and per slot the place of the field in the table
or 0; strings and vectors begin with a length; all offsets are relative to where they stand.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import Any, NamedTuple

from pinnace.errors import ModelFormatError
from pinnace.formats.ms.schema import SCALARS, Field, Schema

_U16, _U32, _I32 = Struct("<H"), Struct("<I"), Struct("<i")
_WORK_FACTOR = 8
"""What may be decoded, as a multiple of the file's size: names and vtables shared by a writer fit well."""
_WORK_LIMIT = 1 << 26
"""What may be decoded of any file; a graph of 100 000 nodes takes half of it."""
_TABLE_COST = 16
"""What a table counts, for the object that is made for it."""


class Span(NamedTuple):
    """Bytes of the file."""

    offset: int
    length: int


class Buffer:
    """The bytes of one file, with the reading of what lies at an offset."""

    def __init__(self, data: memoryview, source: str, schema: Schema) -> None:
        self.data = data
        self.source = source
        self.schema = schema
        self._work = min(_WORK_FACTOR * len(data), _WORK_LIMIT)

    def root(self) -> Table:
        """The root table. ModelFormatError where the buffer does not begin as a file of this schema."""
        if len(self.data) < 8:
            raise self.error(0, "header", f"only {len(self.data)} bytes, too short for a .ms model")
        identifier = bytes(self.data[4:8])
        if identifier != self.schema.identifier.encode():
            raise self.error(4, "header", f"identifier {identifier!r} is not {self.schema.identifier!r}")
        return self.table(self.schema.root, self.follow(0, self.schema.root), self.schema.root)

    def error(self, at: int, path: str, what: str) -> ModelFormatError:
        """A ModelFormatError for byte `at` and the field called `path`."""
        return ModelFormatError(f"{self.source}: byte {at}: {path}: {what}")

    def check(self, at: int, size: int, path: str) -> None:
        """ModelFormatError unless the bytes `at` to `at + size` are in the file."""
        if at < 0 or at + size > len(self.data):
            what = f"needs {size} bytes, but the file ends at byte {len(self.data)}"
            raise self.error(at, path, what)

    def scalar(self, form: Struct, at: int, path: str) -> Any:
        """The number at a place."""
        self.check(at, form.size, path)
        return form.unpack_from(self.data, at)[0]

    def follow(self, at: int, path: str) -> int:
        """Where the offset that stands at `at` leads."""
        return at + int(self.scalar(_U32, at, path))

    def vector(self, at: int, item: int, path: str) -> Span:
        """The elements, of `item` bytes each, of the vector at a place; `length` counts elements."""
        count = self.scalar(_U32, at, path)
        if at + 4 + count * item > len(self.data):
            what = f"a vector of {count} elements of {item} bytes runs past the end, byte {len(self.data)}"
            raise self.error(at, path, what)
        return Span(at + 4, count)

    def spend(self, amount: int, at: int, path: str) -> None:
        """Count work; ModelFormatError where the file asks for more than any real one."""
        self._work -= amount
        if self._work < 0:
            raise self.error(at, path, "the file points at the same bytes again and again")

    def string(self, at: int, path: str) -> str:
        """The UTF-8 string at a place."""
        start, length = self.vector(at, 1, path)
        self.spend(length, at, path)
        try:
            return str(self.data[start : start + length], "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(start + error.start, path, "the string is not UTF-8") from None

    def scalars(self, kind: str, at: int, path: str) -> tuple[Any, ...]:
        """The numbers of the vector at a place."""
        form = self.schema.scalars[kind]
        start, count = self.vector(at, form.size, path)
        self.spend(8 * count, at, path)
        return unpack_from(f"<{count}{form.format[1:]}", self.data, start)

    def tables(self, name: str, at: int, path: str) -> tuple[Table, ...]:
        """The tables of the vector at a place."""
        start, count = self.vector(at, 4, path)
        self.spend(4 * count, at, path)
        return tuple(self.table(name, self.follow(start + 4 * i, path), f"{path}[{i}]") for i in range(count))

    def table(self, name: str, at: int, path: str) -> Table:
        """The table at a place."""
        return Table(self, name, at, path)


class Table:
    """One table of the file; a field is read when it is asked for.

    `name` is the table's in the schema, `path` its place in the file for error messages.
    """

    def __init__(self, buffer: Buffer, name: str, at: int, path: str) -> None:
        self.name, self.at, self.path = name, at, path
        self._buffer = buffer
        self._vtable = at - buffer.scalar(_I32, at, path)
        self._slots = (buffer.scalar(_U16, self._vtable, path) - 4) // 2
        self._size = buffer.scalar(_U16, self._vtable + 2, path)
        if self._slots < 0 or self._size < 4:
            raise buffer.error(self._vtable, path, "the table's layout is damaged")
        buffer.check(self._vtable, 4 + 2 * self._slots, path)
        buffer.check(at, self._size, path)
        buffer.spend(_TABLE_COST + self._size, at, path)

    def where(self, field: str) -> str:
        """File, byte and field, to begin an error message with."""
        slot = self._buffer.schema.tables[self.name][field].slot
        at = self._place(slot, 1, field) or self.at
        return f"{self._buffer.source}: byte {at}: {self.path}.{field}"

    def error(self, field: str, what: str) -> ModelFormatError:
        """A ModelFormatError for a field of this table."""
        return ModelFormatError(f"{self.where(field)}: {what}")

    def __getitem__(self, name: str) -> Any:
        """The value of a field.

        A scalar or enumeration is a number (of a file that leaves it out: the default), a string a str, a
        vector of bytes a `Span`, another vector a tuple, a table or union a `Table`. Of what is no scalar
        and not in the file: "", (), an empty `Span`, None.
        """
        field = self._buffer.schema.tables[self.name][name]
        if field.type in self._buffer.schema.scalars:
            return self._scalar(field)
        if field.type.startswith("["):
            return self._vector(field)
        if field.type in self._buffer.schema.unions:
            return self._union(field)
        target = self._target(field.slot, name)
        if field.type == "string":
            return "" if target is None else self._buffer.string(target, f"{self.path}.{name}")
        return None if target is None else self._buffer.table(field.type, target, f"{self.path}.{name}")

    def fields(self) -> dict[str, Any]:
        """All fields by name, with tables resolved to their own fields and vectors of bytes to bytes.

        FlatBuffers has no vector of vectors; a table with the one field `data` stands for a vector, and is
        given as that. A table of a later release, which the schema does not know, has no fields.
        """
        names = self._buffer.schema.tables.get(self.name, {})
        return {name: self._resolve(self[name], f"{self.path}.{name}") for name in names}

    def _resolve(self, value: Any, path: str) -> Any:
        if isinstance(value, Table):
            fields = value.fields()
            return fields["data"] if fields.keys() == {"data"} else fields
        if isinstance(value, Span):
            self._buffer.spend(value.length, value.offset, path)
            return bytes(self._buffer.data[value.offset : value.offset + value.length])
        if isinstance(value, tuple):
            return tuple(self._resolve(item, path) for item in value)
        return value

    def _place(self, slot: int, size: int, name: str) -> int | None:
        """Where the field of a slot lies; None where the file leaves it out."""
        if slot >= self._slots:
            return None
        inside = _U16.unpack_from(self._buffer.data, self._vtable + 4 + 2 * slot)[0]
        if inside == 0:
            return None
        if inside < 4 or inside + size > self._size:
            at = self._vtable + 4 + 2 * slot
            raise self._buffer.error(at, f"{self.path}.{name}", "the field lies outside of its table")
        return self.at + int(inside)

    def _target(self, slot: int, name: str) -> int | None:
        at = self._place(slot, 4, name)
        return None if at is None else self._buffer.follow(at, f"{self.path}.{name}")

    def _scalar(self, field: Field) -> Any:
        form = self._buffer.schema.scalars[field.type]
        at = self._place(field.slot, form.size, field.name)
        value = field.default if at is None else form.unpack_from(self._buffer.data, at)[0]
        return bool(value) if field.type == "bool" else value

    def _vector(self, field: Field) -> Any:
        kind, path = field.type[1:-1], f"{self.path}.{field.name}"
        target = self._target(field.slot, field.name)
        if kind == "ubyte":
            return Span(0, 0) if target is None else self._buffer.vector(target, 1, path)
        if target is None:
            return ()
        if kind in self._buffer.schema.scalars:
            return self._buffer.scalars(kind, target, path)
        return self._buffer.tables(kind, target, path)

    def _union(self, field: Field) -> Table | None:
        at = self._place(field.slot, 1, field.name)
        number = SCALARS["ubyte"].unpack_from(self._buffer.data, at)[0] if at is not None else 0
        target = self._target(field.slot + 1, field.name)
        if number == 0 or target is None:
            return None
        member = self._buffer.schema.unions[field.type].get(number)
        if member is None:
            # a primitive of a later release: it has a number and no name or fields here
            return self._buffer.table(f"{field.type}_{number}", target, f"{self.path}.{field.name}")
        return self._buffer.table(member, target, f"{self.path}.{field.name}")
