"""MindIR's protobuf messages, built from the field table `mind_ir.txt`.

The table lists the fields of each message of package `mind_ir` with number, name, label and type, as of
MindSpore 2.10. Enumerations are plain int32 fields, so that numbers added by newer versions are kept;
`number_of` maps their names.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Proto = Any
"""A protobuf message of MindIR, whose class is made at run time."""

_SCALARS = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12}
_MESSAGE, _ENUM = 11, 5
_OPTIONAL, _REPEATED = 1, 3


@cache
def model_class() -> Proto:
    """Return the protobuf class of `mind_ir.ModelProto`."""
    file = descriptor_pb2.FileDescriptorProto(name="mind_ir.proto", package="mind_ir", syntax="proto3")
    messages: dict[str, Proto] = {}
    for kind, name, lines in _entries():
        if kind != "message":
            continue
        outer, _, short = name.rpartition(".")
        messages[name] = (messages[outer].nested_type if outer else file.message_type).add(name=short)
        for line in lines:
            _add_field(messages[name], line.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("mind_ir.ModelProto"))


@cache
def number_of(enum: str) -> dict[str, int]:
    """Return the numbers of an enumeration by name; it is named as in the table: "TensorProto.DataType"."""
    for kind, name, lines in _entries():
        if kind == "enum" and name == enum:
            return {key: int(value) for key, value in (pair.split("=") for pair in " ".join(lines).split())}
    raise KeyError(enum)


def _add_field(message: Proto, words: list[str]) -> None:
    number, name, *label, type_ = words
    field = message.field.add(name=name, number=int(number))
    field.label = _REPEATED if "repeated" in label else _OPTIONAL
    if "enum" in label:
        field.type = _ENUM
    elif type_ in _SCALARS:
        field.type = _SCALARS[type_]
    else:
        field.type = _MESSAGE
        field.type_name = f".mind_ir.{type_}"


@cache
def _entries() -> list[tuple[str, str, list[str]]]:
    entries: list[tuple[str, str, list[str]]] = []
    for line in resources.files(__package__).joinpath("mind_ir.txt").read_text("utf-8").splitlines():
        if line.startswith("  "):
            entries[-1][2].append(line.strip())
        else:
            kind, name = line.split()
            entries.append((kind, name, []))
    return entries
