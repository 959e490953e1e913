"""Messages without their payloads, as protobuf's own parser reads them."""

from __future__ import annotations

import pytest

from pinnace.errors import ModelFormatError
from pinnace.formats.messages import message_class
from pinnace.formats.wire import PAYLOAD, delimited, head, number, outline, varint

TABLE = """\
message Outer
  1 count int64
  2 inner Inner
  3 many repeated Inner
  4 ratio double
  5 part float
  200 far bytes
message Inner
  1 data bytes
  2 offset int64
  3 length int64
  4 note bytes
"""
FIELDS = {2: {1: PAYLOAD}, 3: {1: PAYLOAD}, 200: PAYLOAD}


def outer(**fields):
    return message_class(TABLE, "wire", "Outer")(**fields)


def reference(offset, length):
    return number(2, offset) + number(3, length)


def outlined(data, smallest=4):
    return outline(memoryview(data), FIELDS, reference, smallest, "m.bin")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, (1 << 32) - 1, (1 << 63) - 1])
def test_numbers_are_encoded_as_protobuf_does(value):
    message = outer(count=value)
    assert (number(1, value) if value else b"") == message.SerializeToString()
    assert outer().FromString(number(1, value)).count == value
    assert len(varint(value)) == max(1, -(-value.bit_length() // 7))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 20_000])
def test_bytes_are_encoded_as_protobuf_does(length):
    content = bytes(range(256)) * 80
    message = outer(far=content[:length])
    assert delimited(200, content[:length]) == message.SerializeToString() or not length
    assert delimited(200, content[:length]) == head(200, length) + content[:length]


@pytest.mark.parametrize("length", [5, 100, 127, 128, 5000])
def test_payloads_are_replaced_by_where_they_are_and_all_else_stays(length):
    content = bytes(range(256)) * 20
    message = outer(count=1 << 40, ratio=0.5, part=0.25)
    message.inner.data, message.inner.note = content[:length], content[:300]
    for place in range(3):
        message.many.add(data=content[place : place + length], offset=0)
    data = message.SerializeToString()
    found = outer().FromString(outlined(data))
    assert (found.count, found.ratio, found.part) == (1 << 40, 0.5, 0.25)
    assert found.inner.note == content[:300]
    for mine, whole in zip((found.inner, *found.many), (message.inner, *message.many), strict=True):
        assert not mine.data
        assert data[mine.offset : mine.offset + mine.length] == whole.data


def test_payloads_that_are_small_stay():
    data = outer(inner={"data": b"1234"}).SerializeToString()
    assert outlined(data) == data
    assert outlined(data, 3) == delimited(2, number(2, 4) + number(3, 4))
    assert outlined(b"") == b""


def nested(depth):
    fields: dict[int, object] = {}
    fields[1] = fields
    data = b"1" * 9
    for _ in range(depth):
        data = delimited(1, data)
    return outline(memoryview(data), fields, reference, 4, "m.bin")


def test_messages_are_nested_64_deep_at_the_most():
    assert nested(64)
    with pytest.raises(ModelFormatError, match=r"m\.bin: messages are nested too deeply at byte"):
        nested(65)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80", "ends inside a field, at byte 1"),
        (b"\x08", "ends inside a field, at byte 1"),
        (b"\x08" + b"\xff" * 10, "a number at byte 1 is too long"),
        (b"\x12", "ends inside a field, at byte 1"),
        (b"\x12\x05abcd", "field 2 at byte 2 declares 5 bytes, and 4 are left"),
        (b"\x12\x80\x01abcd", "field 2 at byte 3 declares 128 bytes, and 4 are left"),
        (b"\x21abcdefg", "field 4 at byte 1 declares 8 bytes, and 7 are left"),
        (b"\x2dabc", "field 5 at byte 1 declares 4 bytes, and 3 are left"),
        (b"\x0b", r"byte 0 begins no field \(wire type 3\)"),
        (b"\x02\x00", "field 0 at byte 2 declares 0 bytes"),
        (b"\x12\x07\x0a\x06abcde", "field 1 at byte 4 declares 6 bytes, and 5 are left"),
    ],
)
def test_damage_is_named_with_its_byte(data, message):
    with pytest.raises(ModelFormatError, match=f"^m.bin: .*{message}"):
        outlined(data)


@pytest.mark.parametrize(
    "data", [b"\x21abcdefgh", b"\x80\x01\x05", b"\x2dabcd", b"\x12\x00", b"\x08" + b"\xff" * 9 + b"\x01"]
)
def test_fields_that_end_with_the_data_are_read(data):
    assert outlined(data) == data
