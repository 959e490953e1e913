"""Goldens under other names: a primitive that has several is shown by one program, renamed in its file."""

from __future__ import annotations

import json
from pathlib import Path

from pinnace.formats.mindir.schema import model_class

DATA = Path(__file__).parent / "data"
OTHER_NAMES: dict[str, list[str]] = json.loads((DATA / "other_names.json").read_text(encoding="utf-8"))
"""Name -> the golden that is renamed (below `DATA`), and the primitive in it that gets the name."""


def renamed(path: Path, old: str, new: str) -> bytes:
    """The file of a MindIR whose primitive `old` is called `new`."""
    model = model_class().FromString(path.read_bytes())
    found = [p for p in model.primitives if p.op_type == old]
    for primitive in found:
        primitive.op_type = new
    nodes = [n for graph in (model.graph, *model.functions) for n in graph.node if n.op_type == old]
    for node in nodes:
        node.op_type = new
    if not found and not nodes:
        raise ValueError(f"{path.name} has no {old}")
    return bytes(model.SerializeToString())
