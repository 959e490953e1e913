"""Make src/pinnace/formats/ms/schema.json out of the field tables of the `.ms` FlatBuffer.

    python tools/make_ms_schema.py FIELD_TABLES.json [src/pinnace/formats/ms/schema.json]

The field tables list, per table, the fields in slot order with `name`, `type`, `default` (text) and
`deprecated`. What comes out is what the reader needs and no more: defaults are numbers, and a field that
is deprecated stays as a slot without a name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FLOATS = {"float", "double"}
DEFAULT_OUT = Path(__file__).parent.parent / "src/pinnace/formats/ms/schema.json"


def default_of(field: dict[str, Any], enums: dict[str, Any]) -> Any:
    """The value of a field that a file leaves out; None for what is no scalar."""
    kind, text = field["type"], field.get("default")
    if kind.startswith("[") or kind == "string":
        return None
    if kind == "bool":
        return text == "true"
    if kind in FLOATS:
        return float(text or 0)
    if kind in enums:
        values = enums[kind]["values"]
        return values[text] if text in values else int(text or 0)
    return int(text or 0)


def compact(tables: dict[str, Any]) -> dict[str, Any]:
    """The whole schema in the form that `pinnace.formats.ms.schema` reads."""
    enums = tables["enums"]
    scalars = {"bool", "byte", "ubyte", "int", "uint", "long", "int64", *FLOATS, *enums}

    def row(field: dict[str, Any]) -> list[Any]:
        name = "" if field.get("deprecated") else field["name"]
        default = default_of(field, enums) if field["type"] in scalars else None
        return [name, field["type"]] if default is None else [name, field["type"], default]

    return {
        "identifier": tables["file_identifier"],
        "root": tables["root"],
        "enums": {name: [e["type"], e["values"]] for name, e in enums.items()},
        "unions": tables["unions"],
        "tables": {name: [row(f) for f in fields] for name, fields in tables["tables"].items()},
    }


def to_text(schema: dict[str, Any]) -> str:
    """JSON with one enumeration, union or table a line."""
    parts = []
    for key, value in schema.items():
        if isinstance(value, dict):
            lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{lines}\n }}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_OUT
    out.write_text(to_text(compact(json.loads(Path(sys.argv[1]).read_text()))))
