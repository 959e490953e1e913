"""The tables of a `.ms` file as data, read from `schema.json`.

A table is a list of fields in slot order. The types are FlatBuffers': a scalar, an enumeration (kept as
its number), `string`, a table, a union, or `[type]`, a vector of one of these. `schema.json` is made by
`tools/make_ms_schema.py`; a new release of MindSpore Lite means a new `schema.json` and no new code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from struct import Struct

SCALARS: Mapping[str, Struct] = {
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
"""How each scalar type lies in the file. `long` has 64 bits, as everywhere in FlatBuffers."""


@dataclass(frozen=True)
class Field:
    """One slot of a table. `name` is "" where the slot is out of use; `default` is that of a scalar.

    A union takes two slots, the number of the member in `slot` and the member's table in `slot + 1`.
    """

    name: str
    type: str
    default: bool | int | float | None
    slot: int


@dataclass(frozen=True)
class Schema:
    """All tables, enumerations (name to number) and unions (number to table) of a file."""

    identifier: str
    root: str
    scalars: Mapping[str, Struct]
    enums: Mapping[str, Mapping[str, int]]
    unions: Mapping[str, Mapping[int, str]]
    tables: Mapping[str, Mapping[str, Field]]

    def name_of(self, enum: str, number: int) -> str:
        """The name of an enumeration's number, or the number where it has none."""
        return next((name for name, value in self.enums[enum].items() if value == number), str(number))


@cache
def load() -> Schema:
    """The schema that travels with the package."""
    raw = json.loads(resources.files(__package__).joinpath("schema.json").read_text(encoding="utf-8"))
    unions = {name: {number: member for member, number in u.items()} for name, u in raw["unions"].items()}
    return Schema(
        identifier=raw["identifier"],
        root=raw["root"],
        scalars={**SCALARS, **{name: SCALARS[base] for name, (base, _) in raw["enums"].items()}},
        enums={name: values for name, (_, values) in raw["enums"].items()},
        unions=unions,
        tables={name: _slots(rows, unions) for name, rows in raw["tables"].items()},
    )


def _slots(rows: list[list[object]], unions: Mapping[str, object]) -> dict[str, Field]:
    fields, slot = {}, 0
    for name, kind, *default in rows:
        if name:
            fields[str(name)] = Field(str(name), str(kind), default[0] if default else None, slot)  # type: ignore[arg-type]
        slot += 2 if kind in unions else 1
    return fields
