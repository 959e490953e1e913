"""The tables of a `.ms` file as data, read from `schema.json`.

A table is a list of fields in slot order. Types are FlatBuffers': a scalar, an enumeration (kept as its
number), `string`, a table, a union, or `[type]`, a vector of one of these.
`tools/tables/make_ms_schema.py` makes `schema.json`; a new release of MindSpore Lite needs a new one and no
new code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

_SCALARS: Mapping[str, Struct] = {
    "bool": Struct("<B"),
    "byte": Struct("<b"),
    "ubyte": Struct("<B"),
    "int": Struct("<i"),
    "uint": Struct("<I"),
    "long": Struct("<q"),
    "int64": Struct("<q"),
    "float": Struct("<f"),
    "double": Struct("<d"),
}
"""Binary form of each scalar type. `long` has 64 bits, as always in FlatBuffers."""


class Span(NamedTuple):
    """A vector of bytes in the file."""

    offset: int
    length: int


@dataclass(frozen=True)
class Field:
    """One slot of a table.

    `size` is its size in the table: that of a scalar, of a union's number (a byte), or of an offset. `form`
    is the binary form of a scalar, or of an element of a vector of scalars. `absent` is the value of an
    omitted field: the default of a scalar; "", (), an empty `Span`, or None. A union takes two slots, the
    number of the member in `slot` and the member's table in `slot + 1`.
    """

    name: str
    type: str
    slot: int
    size: int
    form: Struct | None
    absent: Any
    is_vector: bool
    is_union: bool


@dataclass(frozen=True)
class Schema:
    """All tables, enumerations (name to number) and unions (number to table) of a file."""

    identifier: str
    root: str
    enums: Mapping[str, Mapping[str, int]]
    unions: Mapping[str, Mapping[int, str]]
    tables: Mapping[str, Mapping[str, Field]]
    slots: Mapping[str, int]
    """Number of slots of each table."""

    def name_of(self, enum: str, number: int) -> str:
        """Return the name of an enumeration's number, or the number if it has none."""
        return next((name for name, value in self.enums[enum].items() if value == number), str(number))


@cache
def load() -> Schema:
    """Return the schema in the package."""
    raw = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    unions = {name: {number: member for member, number in u.items()} for name, u in raw["unions"].items()}
    forms = {**_SCALARS, **{name: _SCALARS[base] for name, (base, _) in raw["enums"].items()}}
    slots = {
        name: sum(2 if kind in unions else 1 for _, kind, *_ in rows) for name, rows in raw["tables"].items()
    }
    return Schema(
        identifier=raw["identifier"],
        root=raw["root"],
        enums={name: values for name, (_, values) in raw["enums"].items()},
        unions=unions,
        tables={name: _fields(rows, forms, unions) for name, rows in raw["tables"].items()},
        slots=slots,
    )


def _fields(
    rows: list[list[Any]], forms: Mapping[str, Struct], unions: Mapping[str, Any]
) -> dict[str, Field]:
    fields, slot = {}, 0
    for name, kind, *default in rows:
        if name:
            form, is_vector = forms.get(kind.strip("[]")), kind.startswith("[")
            size = 1 if kind in unions else 4 if form is None or is_vector else form.size
            absent = default[0] if default else _absent(kind)
            fields[name] = Field(name, kind, slot, size, form, absent, is_vector, kind in unions)
        slot += 2 if kind in unions else 1
    return fields


def _absent(kind: str) -> Any:
    if kind == "string":
        return ""
    if kind == "[ubyte]":
        return Span(0, 0)
    return () if kind.startswith("[") else None
