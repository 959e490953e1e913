"""Protobuf messages, built from field tables.

A table lists the fields of each message of a package with number, name, label and type:

    message Pair
      1 name string
      2 values repeated int64
      3 settings map Setting
      4 number oneof int64
      5 text oneof string

A map has keys of text; a message has at most one oneof, whose name is "choice".
Enumerations, "enum NAME" with "KEY=NUMBER" below, are plain int32 fields, so that numbers added by newer
versions are kept.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Proto = Any
"""A protobuf message, whose class is made at run time."""

_SCALARS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}
_MESSAGE, _ENUM = 11, 5
_OPTIONAL, _REPEATED = 1, 3


def message_class(table: str, package: str, name: str, syntax: str = "proto3") -> Proto:
    """Return the class of a message of a table.

    Written in the syntax "proto2", a field that was set to 0 is in the file, and lists of numbers are not
    packed.
    """
    found = _pool(table, package, syntax).FindMessageTypeByName(f"{package}.{name}")
    return message_factory.GetMessageClass(found)


@cache
def _pool(table: str, package: str, syntax: str) -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax=syntax)
    messages: dict[str, Proto] = {}
    for kind, called, lines in entries(table):
        if kind != "message":
            continue
        outer, _, short = called.rpartition(".")
        messages[called] = (messages[outer].nested_type if outer else file.message_type).add(name=short)
        for line in lines:
            _add_field(messages[called], line.split(), package)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


@cache
def entries(table: str) -> list[tuple[str, str, list[str]]]:
    """Return kind, name and lines of each message and enumeration of a table."""
    found: list[tuple[str, str, list[str]]] = []
    for line in table.splitlines():
        if line.startswith("  "):
            found[-1][2].append(line.strip())
        else:
            kind, name = line.split()
            found.append((kind, name, []))
    return found


def _add_field(message: Proto, words: list[str], package: str) -> None:
    number, name, *label, type_ = words
    if "map" in label:
        entry = f"{name.capitalize()}Entry"
        made = message.nested_type.add(name=entry)
        made.options.map_entry = True
        _add_field(made, ["1", "key", "string"], package)
        _add_field(made, ["2", "value", type_], package)
        label, type_ = ["repeated"], f"{message.name}.{entry}"
    field = message.field.add(name=name, number=int(number))
    field.label = _REPEATED if "repeated" in label else _OPTIONAL
    if "oneof" in label:
        if not message.oneof_decl:
            message.oneof_decl.add(name="choice")
        field.oneof_index = 0
    if "enum" in label:
        field.type = _ENUM
    elif type_ in _SCALARS:
        field.type = _SCALARS[type_]
    else:
        field.type = _MESSAGE
        field.type_name = f".{package}.{type_}"
