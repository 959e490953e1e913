"""What tests of the formats use: `.ms` files written out of nested dicts, for what no converter writes."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import pytest

from pinnace.formats.ms import schema

SCHEMA = schema.load()


@pytest.fixture
def write_ms():
    """The function `ms_file`."""
    return ms_file


def ms_file(**fields: Any) -> bytes:
    """The bytes of a `.ms` file whose root table has the given fields.

    A union is given as (name of its table, fields of it). A dict that is given twice is written once.
    """
    builder = flatbuffers.Builder(1024)
    builder.Finish(_table(builder, SCHEMA.root, fields, {}), file_identifier=SCHEMA.identifier.encode())
    return bytes(builder.Output())


def _table(builder: flatbuffers.Builder, name: str, fields: dict[str, Any], written: dict[int, int]) -> int:
    if id(fields) not in written:
        written[id(fields)] = _new_table(builder, name, fields, written)
    return written[id(fields)]


def _new_table(
    builder: flatbuffers.Builder, name: str, fields: dict[str, Any], written: dict[int, int]
) -> int:
    declared = SCHEMA.tables[name]
    ready = {key: _value(builder, declared[key], value, written) for key, value in fields.items()}
    builder.StartObject(SCHEMA.slots[name])
    for field, value in ready.items():
        slot, form = declared[field].slot, declared[field].form
        if declared[field].is_union:
            number, target = value
            builder.PrependUint8Slot(slot, number, 0)
            builder.PrependUOffsetTRelativeSlot(slot + 1, target, 0)
        elif form is not None and not declared[field].is_vector:
            _SLOT[form.format](builder)(slot, value, None)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
    return builder.EndObject()


def _value(builder: flatbuffers.Builder, field: schema.Field, value: Any, written: dict[int, int]) -> Any:
    """What goes into the slot of a field: a number, or the offset of what is written."""
    if field.is_union:
        member, fields = value
        number = next(n for n, m in SCHEMA.unions[field.type].items() if m == member)
        return number, _table(builder, member, fields, written)
    if field.form is not None:
        array = np.asarray(list(value), field.form.format) if field.is_vector else None
        return value if array is None else builder.CreateNumpyVector(array)
    if field.type == "string":
        return builder.CreateString(value)
    if not field.is_vector:
        return _table(builder, field.type, value, written)
    tables = [_table(builder, field.type[1:-1], item, written) for item in value]
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return builder.EndVector()


_SLOT = {
    "<B": lambda b: b.PrependUint8Slot,
    "<b": lambda b: b.PrependInt8Slot,
    "<i": lambda b: b.PrependInt32Slot,
    "<I": lambda b: b.PrependUint32Slot,
    "<q": lambda b: b.PrependInt64Slot,
    "<f": lambda b: b.PrependFloat32Slot,
    "<d": lambda b: b.PrependFloat64Slot,
}
