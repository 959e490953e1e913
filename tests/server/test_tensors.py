"""Element types, raw bytes and JSON of the protocol, beside those of Triton's client."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from pinnace.server import fields, tensors
from pinnace.server.failures import RequestError
from pinnace.types import DataType

TEXTS = ["", "a", "grüß dich", "b" * 300]
KINDS = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
    np.float32, np.float64, np.object_,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_element_types_have_the_names_of_tritons_client(kind):
    name = np_to_triton_dtype(bool if kind is np.bool_ else kind)
    assert tensors.name_of(np.zeros(1, kind)) == name
    expected = DataType.STRING if kind is np.object_ else DataType.from_numpy(np.dtype(kind))
    assert tensors.data_type(name, "x") is expected


def test_texts_are_the_bytes_of_tritons_client():
    wanted = serialize_byte_tensor(np.array([text.encode() for text in TEXTS], object)).item()
    assert tensors.to_raw(np.array(TEXTS, object)) == wanted
    read = tensors.from_raw(memoryview(wanted), "x", DataType.STRING, (2, 2))
    assert read.tolist() == [TEXTS[:2], TEXTS[2:]]
    none = tensors.from_raw(memoryview(b""), "x", DataType.STRING, (0, 3))
    assert (none.shape, tensors.to_raw(none)) == ((0, 3), b"")


RAW = serialize_byte_tensor(np.array([b"one", b""], object)).item()


@pytest.mark.parametrize(
    ("data", "count"), [(RAW, 1), (RAW, 3), (RAW[:-1], 2), (RAW + b"\0", 2), (RAW[:6], 1), (b"\1\0\0", 1)]
)
def test_texts_that_are_cut_or_too_many_are_refused(data, count):
    with pytest.raises(RequestError, match=f"its bytes are not {count} elements of BYTES"):
        tensors.from_raw(memoryview(data), "x", DataType.STRING, (count,))


def test_texts_that_are_no_utf8_are_refused():
    data = serialize_byte_tensor(np.array([b"\xff"], object)).item()
    with pytest.raises(RequestError, match="no UTF-8"):
        tensors.from_raw(memoryview(data), "x", DataType.STRING, (1,))


def test_raw_numbers_have_exactly_the_bytes_of_their_shape():
    data = np.arange(6, dtype=np.int16)
    read = tensors.from_raw(memoryview(data.tobytes()), "x", DataType.INT16, (2, 3))
    np.testing.assert_array_equal(read, data.reshape(2, 3))
    assert bytes(tensors.to_raw(data.reshape(2, 3).T)) == data.reshape(2, 3).T.tobytes()
    assert tensors.from_raw(memoryview(b""), "x", DataType.INT16, (0, 3)).shape == (0, 3)
    for shape in ((5,), (7,), (2, 3, 2)):
        with pytest.raises(RequestError, match="has 12 bytes, but"):
            tensors.from_raw(memoryview(data.tobytes()), "x", DataType.INT16, shape)


@pytest.mark.parametrize(
    ("dtype", "items", "wanted"),
    [
        (DataType.BOOL, [True, False], [True, False]),
        (DataType.UINT8, [0, 255], [0, 255]),
        (DataType.INT8, [-128, 127], [-128, 127]),
        (DataType.FLOAT32, [1, 0.5], [1.0, 0.5]),
        (DataType.FLOAT16, [1e9, -1e9], [np.inf, -np.inf]),
        (DataType.BFLOAT16, [1.5, 3], [1.5, 3.0]),
        (DataType.STRING, ["a", b"b"], ["a", "b"]),
    ],
)
def test_items_of_json_become_arrays(dtype, items, wanted):
    for given, shape in ((items, (2,)), ([items], (1, 2)), (items, (1, 2))):
        array = tensors.from_items(given, "x", dtype, shape)
        assert array.shape == shape
        assert array.ravel().tolist() == wanted
        assert dtype is DataType.STRING or array.dtype == dtype.to_numpy()


@pytest.mark.parametrize(
    ("dtype", "items", "message"),
    [
        (DataType.BOOL, [1, 0], "must be true or false"),
        (DataType.INT32, [1.0, 2], "must be whole numbers$"),
        (DataType.UINT8, [True, 2], "must be whole numbers of at least 0"),
        (DataType.UINT8, [-1, 2], "numbers that UINT8 does not hold"),
        (DataType.UINT8, [256, 2], "numbers that UINT8 does not hold"),
        (DataType.FLOAT32, [True, 2], "must be numbers"),
        (DataType.FLOAT32, ["1", 2], "must be numbers"),
        (DataType.BFLOAT16, ["1", 2], "must be numbers"),
        (DataType.STRING, ["a", 2], "must be text"),
        (DataType.STRING, ["a", b"\xff"], "no UTF-8"),
        (DataType.INT32, [1], "has 1 elements, but the shape"),
        (DataType.INT32, [[1], [2]], "more dimensions than its shape"),
        (DataType.INT32, {"0": 1}, "must be a list"),
        (DataType.BFLOAT16, [0, 10**39], "does not hold"),
        (DataType.FLOAT64, [0, 10**400], "does not hold"),
    ],
)
def test_items_that_do_not_fit_are_refused(dtype, items, message):
    with pytest.raises(RequestError, match=message):
        tensors.from_items(items, "x", dtype, (2,))


def test_results_become_json_in_row_major_order():
    for kind in (np.float16, ml_dtypes.bfloat16, np.int64):
        assert json.loads(tensors.to_json(np.array([[1, 2], [3, 4]], kind).T)) == [1, 3, 2, 4]
    assert json.loads(tensors.to_json(np.array([["a", ", é"]], object))) == ["a", ", é"]
    assert tensors.to_json(np.empty(0)) == b"[]"


@pytest.mark.parametrize("dtype", [dtype for dtype in tensors.NAMES if dtype is not DataType.STRING])
def test_json_keeps_every_bit_of_a_number(dtype):
    kind = dtype.to_numpy()
    bits = np.random.default_rng(0).integers(0, 256, 4096 * kind.itemsize, np.uint8)
    numbers = (bits % 2).view(kind) if dtype is DataType.BOOL else bits.view(kind)
    items = fields.parsed(b'{"data": %b}' % tensors.to_json(numbers))["data"]
    found = tensors.from_items(items, "x", dtype, numbers.shape)
    if dtype is DataType.BFLOAT16:  # in which numpy does not know NaN
        found, numbers = found.astype(np.float32), numbers.astype(np.float32)
    np.testing.assert_array_equal(found, numbers)


@pytest.mark.parametrize("count", [(1 << 14) - 1, 1 << 14, (1 << 15) + 1])
def test_many_elements_are_converted_in_parts(count):
    numbers = list(range(count))
    array = tensors.from_items(numbers, "x", DataType.INT32, (count,))
    assert array.tolist() == numbers == json.loads(tensors.to_json(array))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), ((1 << 31) - 1,)])
def test_a_shape_is_sizes_of_31_bits(shape):
    assert tensors.checked_shape(list(shape), "x") == shape
    for wrong in (-1, 1 << 31, 1.0, True, "1"):
        with pytest.raises(RequestError, match="sizes are whole"):
            tensors.checked_shape([*shape, wrong], "x")


@pytest.mark.parametrize("shape", [[1] * 33, [(1 << 31) - 1] * 2, [0, *[(1 << 31) - 1] * 3], [2] * 500])
def test_a_shape_has_as_many_dimensions_and_elements_as_an_array(shape):
    with pytest.raises(RequestError, match=f"of {len(shape)} dimensions: no array has so many"):
        tensors.checked_shape(shape, "x")


def test_half_a_surrogate_pair_in_json_is_no_text():
    with pytest.raises(RequestError, match="no UTF-8"):
        tensors.from_items(["\ud800"], "x", DataType.STRING, (1,))
    assert tensors.from_items(["\0é"], "x", DataType.STRING, (1,)).tolist() == ["\0é"]
