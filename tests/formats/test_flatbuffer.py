"""The reader of FlatBuffers: values of all kinds as the official package writes them, and what damage is."""

from __future__ import annotations

import struct

import flatbuffers
import pytest

from pinnace.errors import ModelFormatError
from pinnace.formats.ms import schema
from pinnace.formats.ms.flatbuffer import Buffer

SCHEMA = schema.load()


def read(data, name="m.ms"):
    return Buffer(memoryview(data), name, SCHEMA).root()


def small():
    """A root table of one field, its version: the vtable is at 8, the table behind it, and then the text."""
    slot = SCHEMA.tables["MetaGraph"]["version"].slot
    vtable = struct.pack("<HH", 4 + 2 * (slot + 1), 8) + bytes(2 * slot) + struct.pack("<H", 4)
    vtable += bytes(-len(vtable) % 4)
    at = 8 + len(vtable)
    table = struct.pack("<iI", at - 8, 4)
    text = struct.pack("<I", 3) + b"2.0\0"
    return bytearray(struct.pack("<I", at) + b"MSL2" + vtable + table + text), at


def test_a_file_of_one_field_is_read():
    data, at = small()
    root = read(data)
    assert (root["version"], root.at, root["nodes"], root["name"]) == ("2.0", at, (), "")
    assert root.where("version") == f"m.ms: byte {at + 4}: MetaGraph.version"
    assert root.where("name") == f"m.ms: byte {at}: MetaGraph.name"
    last = max(SCHEMA.tables["MetaGraph"].values(), key=lambda field: field.slot)
    assert root.where(last.name) == f"m.ms: byte {at}: MetaGraph.{last.name}"
    with pytest.raises(ModelFormatError, match="7 bytes are too few"):
        read(data[:7])
    with pytest.raises(ModelFormatError, match=f"byte {at}: MetaGraph: the table is past the end, byte 8"):
        read(data[:8])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda d, at: d[:4] + b"MSL1" + d[8:], "the identifier is b'MSL1', but 'MSL2' is expected"),
        (lambda d, at: d[: at + 3], "the table is past the end"),
        (lambda d, at: d[:at] + struct.pack("<i", at + 1) + d[at + 4 :], "its layout is declared at byte -1"),
        (
            lambda d, at: d[:at] + struct.pack("<i", at - len(d) + 3) + d[at + 4 :],
            "its layout is declared at byte",
        ),
        (lambda d, at: d[:8] + struct.pack("<H", 3) + d[10:], "with a layout of 3 bytes do not fit"),
        (lambda d, at: d[:8] + struct.pack("<H", len(d) - 7) + d[10:], "do not fit before the end"),
        (lambda d, at: d[:10] + struct.pack("<H", 3) + d[12:], "3 bytes with a layout"),
        (lambda d, at: d[:10] + struct.pack("<H", len(d) - at + 1) + d[12:], "do not fit before the end"),
        (
            lambda d, at: d[:10] + struct.pack("<H", 7) + d[12:],
            "version: the field lies outside of its table",
        ),
        (
            lambda d, at: d[: at + 4] + struct.pack("<I", 99) + d[at + 8 :],
            "version: the vector is past the end",
        ),
        (
            lambda d, at: d[: at + 8] + struct.pack("<I", 5) + d[at + 12 :],
            "5 elements of 1 bytes run past the end",
        ),
        (lambda d, at: d[: at + 8] + struct.pack("<I", 4) + d[at + 12 :], "the string is not terminated"),
        (lambda d, at: d[: at + 13] + b"\xff" + d[at + 14 :], "the string is not UTF-8"),
    ],
)
def test_damage_is_named_with_byte_and_field(data, message):
    with pytest.raises(ModelFormatError, match=rf"^m\.ms: byte \d+: .*{message}"):
        read(bytes(data(*small())))


def test_a_file_that_ends_with_its_last_byte_is_read():
    data, at = small()
    for limit in (8, len(data) - at):  # sizes that the table may declare
        assert read(data[:10] + struct.pack("<H", limit) + data[12:])["version"] == "2.0"
    with pytest.raises(ModelFormatError):
        read(data[:-1])
    assert not read(struct.pack("<I4siHH", 8, b"MSL2", -4, 4, 4))["version"]  # an empty layout is last


def test_fields_of_later_releases_are_refused():
    builder, count = flatbuffers.Builder(64), SCHEMA.slots["MetaGraph"]
    builder.StartObject(count + 1)
    builder.PrependUint8Slot(count, 1, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"MSL2")
    message = f"has field number {count}, which only releases of MindSpore Lite after 2.11 write"
    with pytest.raises(ModelFormatError, match=message):
        read(bytes(builder.Output()))


@pytest.mark.parametrize(
    ("primitive", "fields"),
    [
        ("Conv2DFusion", {"stride": [2, 3], "group": -5, "activation_type": 1}),
        ("LeakyRelu", {"negative_slope": 0.25}),
        ("MatMulFusion", {"transpose_b": True}),
        ("Custom", {"type": "Fast\u00e4"}),
        ("PadFusion", {"constant_value": -1.5, "padding_mode": 2}),
        ("Reshape", {}),
    ],
)
def test_values_of_all_kinds_are_those_that_were_written(write_ms, primitive, fields):
    node = {"name": "n", "primitive": {"value": (primitive, fields)}, "inputIndex": [0], "outputIndex": [1]}
    data = write_ms(
        nodes=[node], allTensors=[{"name": "t", "dims": [-1, 7], "data": b"12345", "refCount": -3}]
    )
    root = read(data)
    found = root["nodes"][0]["primitive"]["value"]
    assert found.name == primitive
    for name, field in SCHEMA.tables[primitive].items():
        expected = fields.get(name, field.absent)
        value = found[name]
        assert value == (tuple(expected) if isinstance(expected, list) else expected)
        assert type(value) is not int or not isinstance(expected, bool)
    assert found.fields().keys() == SCHEMA.tables[primitive].keys()
    tensor = root["allTensors"][0]
    assert (tensor["dims"], tensor["refCount"]) == ((-1, 7), -3)
    assert tensor.fields()["data"] == b"12345"
    assert tensor.path == "MetaGraph.allTensors[0]"
    assert found.path == "MetaGraph.nodes[0].primitive.value"


def test_the_work_for_a_file_is_bounded_by_its_size(write_ms):
    tensor = {"name": "t", "dims": list(range(500))}
    assert len(read(write_ms(allTensors=[tensor] * 2))["allTensors"]) == 2
    with pytest.raises(ModelFormatError, match="the file refers to the same bytes too often"):
        read(write_ms(allTensors=[tensor] * 200))
