"""Make src/pinnace/formats/ms/schema.json out of the schema of a release of MindSpore Lite.

    python tools/tables/make_ms_schema.py SCHEMA [src/pinnace/formats/ms/schema.json]

SCHEMA is its folder with ops_types.fbs, ops.fbs and model.fbs; `git diff` then shows what the release changed. What
comes out is what the reader needs and no more: defaults are numbers, and a field that is deprecated stays as a slot
without a name.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

FLOATS = {"float", "double"}
DEFAULT_OUT = Path(__file__).parents[2] / "src/pinnace/formats/ms/schema.json"
FILES = ("ops_types.fbs", "ops.fbs", "model.fbs")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DECLARED = re.compile(r"\b(enum|union|table)\s+(\w+)\s*(?::\s*(\w+))?\s*\{(.*?)\}", re.DOTALL)
FIELD = re.compile(r"(\w+)\s*:\s*(\[?\w+\]?)\s*(?:=\s*([^\s(]+))?\s*(?:\((\w+)\))?$")


def parts(body: str, separator: str) -> list[str]:
    """The entries of a declaration."""
    return [part for part in map(str.strip, body.split(separator)) if part]


def numbers(body: str, first: int) -> dict[str, int]:
    """Names of an enumeration or union by number; one without a number follows the one before."""
    found: dict[str, int] = {}
    for entry in parts(body, ","):
        name, _, given = map(str.strip, entry.partition("="))
        found[name] = int(given) if given else max(found.values(), default=first - 1) + 1
    return found


def row(field: str, enums: dict[str, Any]) -> list[Any]:
    """A field's name ("" if it is deprecated), type, and the value of a scalar that a file leaves out."""
    name, kind, text, note = FIELD.match(field).groups()  # type: ignore[union-attr]
    name = "" if note == "deprecated" else name
    if kind == "bool":
        return [name, kind, text == "true"]
    if kind in FLOATS:
        return [name, kind, float(text or 0)]
    if kind in enums and text in enums[kind][1]:
        return [name, kind, enums[kind][1][text]]
    if kind in enums or kind in ("byte", "ubyte", "int", "uint", "long", "int64"):
        return [name, kind, int(text or 0)]
    return [name, kind]


def schema(folder: Path) -> dict[str, Any]:
    """The whole schema in the form that `pinnace.formats.ms.schema` reads."""
    text = COMMENT.sub("", "\n".join((folder / name).read_text() for name in FILES))
    found = DECLARED.findall(text)
    enums = {name: [base, numbers(body, 0)] for kind, name, base, body in found if kind == "enum"}
    return {
        "identifier": re.search(r'file_identifier "(\w+)"', text)[1],  # type: ignore[index]
        "root": re.search(r"root_type (\w+)", text)[1],  # type: ignore[index]
        "enums": enums,
        "unions": {name: numbers(body, 1) for kind, name, _, body in found if kind == "union"},
        "tables": {
            name: [row(f, enums) for f in parts(body, ";")]
            for kind, name, _, body in found
            if kind == "table"
        },
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
    out.write_text(to_text(schema(Path(sys.argv[1]))))
