"""Enumerations have the numbers of MindSpore Lite's own headers, and element types those of numpy."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pinnace
from pinnace.types import DataType, Format

HEADERS = Path(pinnace.__file__).parent / "cpp" / "include" / "api"


def numbers(header):
    """The members of a header's enumerations, by name."""
    found = re.findall(r"^\s+(\w+) = (-?\d+)", (HEADERS / header).read_text(), re.MULTILINE)
    return {name: int(number) for name, number in found}


def test_layouts_have_the_numbers_of_mindspore_lite():
    there = numbers("format.h")
    del there["NUM_OF_FORMAT"]
    assert {member.name: member.value for member in Format} == {
        name.removesuffix("_FORMAT"): number for name, number in there.items()
    }


def test_element_types_have_the_numbers_of_mindspore():
    there = {
        re.sub("^k(NumberType|ObjectType|Type)", "", name).upper(): n
        for name, n in numbers("data_type.h").items()
    }
    own = {member.name: member.value for member in DataType}
    assert own.pop("INVALID") == np.iinfo(np.int32).max
    assert own == {name: there[name] for name in own}


def test_model_types_have_the_numbers_of_mindspore_lite():
    assert (pinnace.ModelType.MINDIR.value, pinnace.ModelType.MINDIR_LITE.value) == (0, 4)
    flags = pinnace.ModelGroupFlag
    assert (flags.SHARE_WEIGHT.value, flags.SHARE_WORKSPACE.value) == (1, 2)
    assert flags.SHARE_WEIGHT_WORKSPACE.value == 3


@pytest.mark.parametrize("member", [m for m in DataType if m not in (DataType.UNKNOWN, DataType.INVALID)])
def test_element_types_are_those_of_numpy(member):
    other = {DataType.STRING: object, DataType.BFLOAT16: ml_dtypes.bfloat16}
    dtype = np.dtype(other.get(member, member.name.lower()))
    assert member.to_numpy() == dtype
    assert DataType.from_numpy(dtype) is DataType.from_numpy(dtype.type) is member


def test_text_is_string_and_what_else_numpy_has_is_none():
    assert DataType.from_numpy(np.dtype("U5")) is DataType.STRING
    for dtype in ("complex64", "datetime64[s]", "S3", "nonsense"):
        with pytest.raises(ValueError, match="no DataType for numpy dtype"):
            DataType.from_numpy(dtype)
    for member in (DataType.UNKNOWN, DataType.INVALID):
        with pytest.raises(ValueError, match="has no numpy dtype"):
            member.to_numpy()
