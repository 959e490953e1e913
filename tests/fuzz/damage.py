"""What is done to a file: to its bytes, to the messages of a protobuf, to the tables of a FlatBuffer."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from pinnace.errors import PinnaceError
from pinnace.formats.mindir.schema import model_class
from pinnace.formats.ms import schema
from pinnace.formats.ms.flatbuffer import Buffer, Table
from pinnace.types import ModelType

INTEGERS = [0, 1, 2, 3, -1, -2, 7, 64, 255, 4096, 65536, 2**24]
INTEGERS += [2**31 - 1, -(2**31), 2**32, 2**40, 2**63 - 1, -(2**63)]
NUMBERS = [
    n.to_bytes(size, "little")
    for size in (1, 2, 4, 8)
    for n in (0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)
]
# ... and what protobuf makes of large and small numbers.
NUMBERS += [b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x07", b"\x80" * 12]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, -1e38, float("inf"), float("-inf"), float("nan")]


def damaged(rng: Random, data: bytes, others: Sequence[bytes], kind: ModelType) -> bytes:
    """A file with some injuries; `others` are files of its kind, from which parts may come."""
    style = rng.choice(["bytes", "structure", "structure", "both"])
    if style != "bytes":
        data = _flatbuffer(rng, data) if kind is ModelType.MINDIR_LITE else _protobuf(rng, data, others, kind)
    return data if style == "structure" else _bytes(rng, data, rng.choice(others))


def _bytes(rng: Random, file: bytes, other: bytes) -> bytes:
    data = bytearray(file)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        kind = rng.choice(["flip", "flip", "number", "number", "cut", "drop", "double", "move", "splice"])
        at, length = rng.randrange(len(data) + 1), rng.randint(1, 64)
        piece = bytes(data[at : at + length])
        if kind == "flip":
            data[at : at + 1] = bytes(b ^ 1 << rng.randrange(8) for b in data[at : at + 1])
        elif kind == "number":
            number = rng.choice(NUMBERS)
            data[at : at + len(number)] = number
        elif kind == "cut":
            del data[at:]
        elif kind == "drop":
            del data[at : at + length]
        elif kind == "double":
            data[at:at] = piece
        elif kind == "move":
            del data[at : at + length]
            place = rng.randrange(len(data) + 1)
            data[place:place] = piece
        else:
            start = rng.randrange(len(other))
            data[at : at + length] = other[start : start + rng.randint(1, 512)]
    return bytes(data)


# -- protobuf ------------------------------------------------------------------------------------------


def _protobuf(rng: Random, data: bytes, others: Sequence[bytes], kind: ModelType) -> bytes:
    cls: Any = onnx.ModelProto if kind is ModelType.ONNX else model_class()
    try:
        model = cls.FromString(data)
        donor = cls.FromString(rng.choice(others))
    except DecodeError:
        return data
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        messages = _by_class(model)
        rng.choice([_rewire, _field, _field, _attribute, _transplant])(rng, messages, _by_class(donor))
    try:
        result: bytes = model.SerializeToString()
    except (ValueError, RecursionError):  # nested deeper than a writer allows
        return data
    return result


Messages = dict[str, list[Any]]


def _by_class(root: Any) -> Messages:
    """All messages in a message, by the name of their class."""
    found: Messages = defaultdict(list)
    pending = [root]
    while pending:
        message = pending.pop()
        found[message.DESCRIPTOR.name].append(message)
        for field, value in message.ListFields():
            if field.message_type is not None:
                pending.extend(value if _is_repeated(value) else [value])
    return found


def _is_repeated(value: Any) -> bool:
    return hasattr(value, "extend")


def _rewire(rng: Random, messages: Messages, _: Messages) -> None:
    """What a node takes, gives or does, or what a graph gives, becomes that of another."""
    nodes = messages["NodeProto"]
    if not nodes:
        return
    node, other = rng.choice(nodes), rng.choice(nodes)
    names = [name for n in nodes for name in (*n.input, *n.output)]
    names += [name for graph in messages["GraphProto"] for name in (graph.name, f"REF::{graph.name}")]
    what = rng.choice(["input", "input", "input", "output", "kind", "result"])
    if what == "kind":
        node.op_type, other.op_type = other.op_type, node.op_type
    elif what == "result":
        graph = rng.choice(messages["GraphProto"])
        if graph.output:
            rng.choice(graph.output).name = rng.choice(names)
    else:
        ports = getattr(node, what)
        if ports:
            ports[rng.randrange(len(ports))] = rng.choice([*names, *node.output])


def _attribute(rng: Random, messages: Messages, _: Messages) -> None:
    """A number that an attribute, a constant or a dimension says becomes extreme."""
    holders = [m for kind in ("AttributeProto", "TensorProto", "Dimension") for m in messages[kind]]
    message = rng.choice(holders) if holders else _any(rng, messages)
    numbers = [f.name for f, v in message.ListFields() if f.type == f.TYPE_INT64 and v]
    if numbers:
        name = rng.choice(numbers)
        value = getattr(message, name)
        if _is_repeated(value):
            value[rng.randrange(len(value))] = rng.choice(INTEGERS)
        else:
            setattr(message, name, rng.choice(INTEGERS))


def _field(rng: Random, messages: Messages, _: Messages) -> None:
    """A field of a message is lost, doubled, changes places, or says something extreme."""
    message = _any(rng, messages)
    present = [field for field, _ in message.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.85 else message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    if not _is_repeated(value):
        if field.message_type is not None or rng.random() < 0.2:
            message.ClearField(field.name)
        else:
            _set(message, field.name, value, _extreme(rng, value))
    elif len(value):
        _change_list(rng, value)
    elif field.message_type is not None:
        value.add()
    else:
        value.append({field.TYPE_BYTES: b"x", field.TYPE_STRING: "x"}.get(field.type, 1))


def _change_list(rng: Random, values: Any) -> None:
    at, other = rng.randrange(len(values)), rng.randrange(len(values))
    items, what = list(values), rng.choice(["drop", "double", "swap", "value", "value", "many"])
    scalar = not hasattr(items[0], "DESCRIPTOR")
    if what == "drop":
        del values[at]
    elif what == "double":
        values.append(items[at]) if scalar else values.add().CopyFrom(items[at])
    elif what == "many":
        values.extend(rng.choice([2, 16, 70]) * [items[at]])
    elif scalar and what == "value":
        _set_item(values, at, _extreme(rng, items[at]))
    elif scalar:
        values[at], values[other] = items[other], items[at]
    else:
        items[at], items[other] = items[other], items[at]
        copies = [type(m).FromString(m.SerializePartialToString()) for m in items]
        del values[:]
        values.extend(copies)


def _transplant(rng: Random, messages: Messages, donors: Messages) -> None:
    """A message becomes one of the same class, of this file or another."""
    message = _any(rng, messages)
    where = rng.choice([messages, donors])[message.DESCRIPTOR.name]
    if where:
        copy = type(message).FromString(rng.choice(where).SerializePartialToString())
        message.CopyFrom(copy)


def _any(rng: Random, messages: Messages) -> Any:
    return rng.choice(messages[rng.choice(sorted(k for k, v in messages.items() if v))])


def _extreme(rng: Random, value: Any) -> Any:
    if isinstance(value, float):
        return rng.choice(FLOATS)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([*INTEGERS, value + 1, value - 1, -value])
    longer = value * rng.choice([2, 3, 1000])
    kinds = [value[:0], value[: len(value) // 2], value[1:], longer]
    if isinstance(value, str):
        kinds += [
            "REF::",
            f"REF::{value}",
            "../../etc/hostname",
            "\0",
            value.removeprefix("REF::"),
            "\u00e9" * 5,
        ]
    else:
        kinds += [bytes(len(value)), b"\xff" * len(value), b"REF::x"]
    return rng.choice(kinds)


def _set(message: Any, name: str, old: Any, value: Any) -> None:
    try:
        setattr(message, name, value)
    except (ValueError, TypeError):  # too large for this field
        setattr(message, name, type(old)(0) if isinstance(old, int | float) else old)


def _set_item(values: Any, at: int, value: Any) -> None:
    try:
        values[at] = value
    except (ValueError, TypeError):
        values[at] = type(value)(0)


# -- FlatBuffers ---------------------------------------------------------------------------------------


def _flatbuffer(rng: Random, file: bytes) -> bytes:
    data = bytearray(file)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        try:
            tables = _tables(Buffer(memoryview(bytes(data)), "", schema.load()).root())
        except PinnaceError:
            break
        by_name: dict[str, list[Table]] = defaultdict(list)
        for table in tables:
            by_name[table.name].append(table)
        table = rng.choice(by_name[rng.choice(sorted(by_name))])
        rng.choice([_scalar, _scalar, _vector, _vector, _offset, _layout])(rng, data, table, tables)
    return bytes(data)


def _tables(root: Table) -> list[Table]:
    found, pending = [], [root]
    while pending:
        table = pending.pop()
        found.append(table)
        for value in table._values.values():
            inner = value if isinstance(value, tuple) else (value,)
            pending.extend(item for item in inner if isinstance(item, Table))
    return found


def _present(table: Table, wanted: Callable[[schema.Field], bool]) -> list[tuple[schema.Field, int]]:
    fields = schema.load().tables.get(table.name, {}).values()
    places = [(field, table._buffer.place(table, field)) for field in fields if wanted(field)]
    return [(field, at) for field, at in places if at != table.at]


def _scalar(rng: Random, data: bytearray, table: Table, _: list[Table]) -> None:
    """A number becomes another, which for a union is another kind of table."""
    fields = _present(table, lambda f: f.is_union or (f.form is not None and not f.is_vector))
    if fields:
        field, at = rng.choice(fields)
        if field.is_union:
            data[at] = rng.randrange(256)  # among them many kinds that there are
        else:
            _write(rng, data, at, field.form)


def _vector(rng: Random, data: bytearray, table: Table, _: list[Table]) -> None:
    """A vector says another length, or one of its numbers or tables becomes another."""
    fields = _present(table, lambda f: f.is_vector)
    if not fields:
        return
    field, at = rng.choice(fields)
    start = at + struct.unpack_from("<I", data, at)[0]
    count = struct.unpack_from("<I", data, start)[0]
    form = field.form or struct.Struct("<I")
    if not count or rng.random() < 0.3:
        struct.pack_into(
            "<I", data, start, rng.choice([0, 1, count + 1, max(count - 1, 0), 2**31, 2**32 - 1])
        )
    elif field.form is None:
        first, second = (start + 4 + 4 * rng.randrange(count) for _ in "ab")
        target = second + struct.unpack_from("<I", data, second)[0]
        struct.pack_into("<I", data, first, (target - first) % 2**32)
    else:
        _write(rng, data, start + 4 + form.size * rng.randrange(count), form)


def _offset(rng: Random, data: bytearray, table: Table, tables: list[Table]) -> None:
    """A field points at a table of its own kind, at any table, or anywhere."""
    fields = _present(table, lambda f: f.form is None and not f.is_union)
    if fields:
        field, at = rng.choice(fields)
        alike = [t.at for t in tables if t.name == field.type]
        target = rng.choice(
            [*alike[:8], rng.choice(tables).at, at + rng.choice(INTEGERS), rng.randrange(len(data))]
        )
        struct.pack_into("<I", data, at, (target - at) % 2**32)


def _layout(rng: Random, data: bytearray, table: Table, _: list[Table]) -> None:
    """The table's layout lies elsewhere, or says another size or place of a field."""
    distance = struct.unpack_from("<i", data, table.at)[0]
    if rng.random() < 0.3:
        changed = distance + rng.choice([-4, 4, -2, 2, 16, -(2**30), 2**30])
        struct.pack_into("<i", data, table.at, changed)
    else:
        layout = table.at - distance
        slots = struct.unpack_from("<H", data, layout)[0] // 2
        struct.pack_into(
            "<H", data, layout + 2 * rng.randrange(slots), rng.choice([0, 2, 4, 6, 8, 12, 64, 65535])
        )


def _write(rng: Random, data: bytearray, at: int, form: struct.Struct | None) -> None:
    if form is None or at + form.size > len(data):
        return
    old = form.unpack_from(data, at)[0]
    if isinstance(old, float):
        form.pack_into(
            data, at, rng.choice(FLOATS) if form.size == 8 else rng.choice([0.0, -1.0, float("nan")])
        )
        return
    value = rng.choice([*INTEGERS, old + 1, old - 1]) % 2 ** (8 * form.size)
    data[at : at + form.size] = value.to_bytes(form.size, "little")
