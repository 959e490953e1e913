"""MindIR's protobuf messages, built from the field table `mind_ir.txt` of MindSpore 2.10."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pinnace.formats.messages import Proto, entries, message_class


@cache
def model_class() -> Proto:
    """Return the protobuf class of `mind_ir.ModelProto`."""
    return message_class(_table(), "mind_ir", "ModelProto")


@cache
def written_class() -> Proto:
    """Return the class of the same message as MindSpore writes and reads it, in the syntax "proto2"."""
    return message_class(_table(), "mind_ir", "ModelProto", "proto2")


@cache
def number_of(enum: str) -> dict[str, int]:
    """Return the numbers of an enumeration by name; it is named as in the table: "TensorProto.DataType"."""
    for kind, name, lines in entries(_table()):
        if kind == "enum" and name == enum:
            return {key: int(value) for key, value in (pair.split("=") for pair in " ".join(lines).split())}
    raise KeyError(enum)


@cache
def _table() -> str:
    return Path(__file__).with_name("mind_ir.txt").read_text("utf-8")
