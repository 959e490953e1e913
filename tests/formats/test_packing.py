"""Packings of quantized weights, packed here by the description of each in `formats/packing.py`."""

from __future__ import annotations

import struct

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.errors import ModelFormatError
from pinnace.formats import packing
from pinnace.program import Quantized
from pinnace.weights.source import Source

INT8, INT16 = ir.DataType.INT8, ir.DataType.INT16


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Some hundred elements are more than are unpacked together."""
    monkeypatch.setattr(packing, "_CHUNK", 64)


def row(bits=8, zero_point=0, scale=1.0, var_corr=1.0, mean_corr=0.0):
    return {
        "numBits": bits,
        "zeroPoint": zero_point,
        "scale": scale,
        "varCorr": var_corr,
        "meanCorr": mean_corr,
    }


def pack(kind, shape, *rows, dtype=INT8, axis=0):
    return packing.of(kind, shape, dtype, rows, axis, lambda what: ModelFormatError(f"'w' {what}"))


def unpacked(kind, shape, data, *rows, dtype=INT8, axis=0):
    return pack(kind, shape, *rows, dtype=dtype, axis=axis).unpack(np.frombuffer(data, np.uint8))


def bytes_of(*numbers):
    """Bytes of (number, width), the highest bit first."""
    text = "".join(f"{number:0{width}b}" if width else "" for number, width in numbers)
    return bytes(int(text[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(text), 8))


def table(values, bits):
    """The distinct values, and the width of an index of them."""
    count = len(values) % (1 << bits)
    return [(count, bits), *((value + (1 << (bits - 1)), bits) for value in values)], (
        len(values) - 1
    ).bit_length()


def indexed(integers, bits):
    values = sorted(set(integers))
    head, width = table(values, bits)
    return bytes_of(*head, *((values.index(i), width) for i in integers))


def sparse(integers, zero_points, bits, width):
    places = [i for i, (q, z) in enumerate(zip(integers, zero_points, strict=True)) if q != z]
    values = sorted({integers[i] for i in places}) or [0]
    head, index = table(values, bits)
    omitted = [place - before - 1 for before, place in zip([-1, *places], places, strict=False)]
    found = [(values.index(integers[i]), index) for i in places]
    return bytes_of((width, 8), (len(places), 32), *head, *found, *((n, width) for n in omitted))


@pytest.mark.parametrize("bits", range(1, 17))
@pytest.mark.parametrize("count", [1, 37, 300])
def test_integers_of_any_width_are_packed_and_unpacked(bits, count):
    low, dtype = -(1 << (bits - 1)), INT8 if bits <= 8 else INT16
    whole = np.random.default_rng(bits).integers(low, -low, count)
    rows = [row(bits)]
    text = "".join(f"{q - low:0{bits}b}"[::-1] for q in whole[:40])
    data = packing.bit_packed(whole, bits)
    assert len(data) == -(-count * bits // 8)
    assert "".join(f"{byte:08b}"[::-1] for byte in data.tolist()).startswith(text)
    found = unpacked("BITPACKING", (count,), data.tobytes(), *rows, dtype=dtype)
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize(
    ("low", "high", "bits", "count"),
    [
        (-8, 8, 4, 100),
        (-1, 1, 1, 30),
        (3, 4, 8, 9),
        (-128, 128, 8, 3000),
        (-300, 200, 12, 50),
        (-5, 4, 5, 300),
    ],
)
def test_indices_of_distinct_values_are_looked_up(low, high, bits, count):
    whole = np.random.default_rng(0).integers(low, high, count)
    whole[: high - low] = np.arange(low, high)[:count]
    dtype = INT8 if bits <= 8 else INT16
    found = unpacked("INDEXING", (count,), indexed(whole.tolist(), bits), row(bits), dtype=dtype)
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("width", [0, 3, 8])
def test_elements_that_a_sparse_weight_omits_are_zero_points(width):
    rows = [row(4, zero_point=1), row(4, zero_point=-3)]
    omitted = {0: 0, 3: 5, 8: 250}[width]
    whole = np.repeat([[1], [-3]], 300, axis=1)
    whole[:, :: omitted + 1] = 7
    whole[0, 0] = -8
    zero_points = np.repeat([1, -3], 300).tolist()
    data = sparse(whole.reshape(-1).tolist(), zero_points, 4, width)
    found = unpacked("SPARSE", (2, 300), data, *rows)
    np.testing.assert_array_equal(found, whole - [[1], [-3]])


def test_a_sparse_weight_may_have_no_elements():
    data = sparse([5] * 40, [5] * 40, 4, 0)
    np.testing.assert_array_equal(unpacked("SPARSE", (40,), data, row(4, zero_point=5)), np.zeros(40))


@pytest.mark.parametrize("dtype", [INT8, INT16])
@pytest.mark.parametrize(("axis", "channels"), [(0, 2), (1, 3), (-1, 4), (2, 4), (0, 1), (7, 1)])
def test_integers_stand_for_numbers_by_the_parameters_of_their_channel(dtype, axis, channels):
    rows = [row(8, 3 * i - 1, 0.5 * (i + 1), 1 + i / 4, i / 8) for i in range(channels)]
    whole = np.arange(24, dtype=dtype.numpy()).reshape(2, 3, 4)
    per_channel = [1] * 3
    if channels > 1:
        per_channel[axis] = channels
    zero_point, scale, corrected, mean = (
        np.reshape([r[name] for r in rows], per_channel)
        for name in ("zeroPoint", "scale", "varCorr", "meanCorr")
    )
    found = unpacked("NONE", (2, 3, 4), whole.tobytes(), *rows, dtype=dtype, axis=axis)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, (whole - zero_point) * scale * corrected + mean, rtol=1e-6)


def test_numbers_beyond_float32_are_infinite():
    largest = float(np.finfo(np.float32).max)
    found = unpacked("NONE", (2,), bytes([1, 100]), row(scale=largest))
    np.testing.assert_array_equal(found, np.array([largest, np.inf], np.float32))


TOO_MANY = bytes_of((0, 8), (3, 32))
WRONG_DATA = {
    ("NONE", (4,), bytes(5)): "5 bytes are not 4 elements of int8",
    ("NONE", (4,), bytes(3)): "3 bytes are not 4 elements of int8",
    ("BITPACKING", (9,), bytes(4)): "4 bytes are not 9 numbers of 4 bits",
    ("BITPACKING", (321,), bytes(1)): "1 bytes cannot hold 321 elements",
    ("INDEXING", (5,), bytes_of((3, 4), (0, 4), (1, 4), (2, 4), (0, 2))): "ends at bit 24 of 5 numbers",
    ("INDEXING", (1,), bytes_of((3, 4), (0, 4), (1, 4), (2, 4), (3, 2))): "refers to value 3 of 3",
    ("SPARSE", (2,), TOO_MANY): "has 3 of 2 elements",
    ("SPARSE", (9,), bytes_of((33, 8), (1, 32))): "at distances of 33 bits",
    ("SPARSE", (9,), bytes_of((4, 8), (1, 32), (1, 4), (0, 4), (9, 4))): "has an element at 9 of 9",
    ("SPARSE", (9,), bytes_of((4, 8))): "ends at bit 8 of 1 numbers of 32 bits",
}


@pytest.mark.parametrize("damaged", WRONG_DATA, ids=WRONG_DATA.values())
def test_damaged_data_is_refused(damaged):
    kind, shape, data = damaged
    with pytest.raises(ModelFormatError, match=f"^'w' .*{WRONG_DATA[damaged]}"):
        unpacked(kind, shape, data, row(4 if kind != "NONE" else 8))


@pytest.mark.parametrize(
    ("kind", "count", "data"),
    [
        ("BITPACKING", 16, bytes(8)),
        ("INDEXING", 320, bytes_of((1, 4), (8, 4))),
        ("SPARSE", 9, bytes_of((4, 8), (1, 32), (1, 4), (8, 4), (8, 4))),
        ("SPARSE", 1, bytes_of((32, 8), (1, 32), (1, 4), (8, 4), (0, 32))),
    ],
)
def test_data_that_fits_exactly_is_read(kind, count, data):
    found = unpacked(kind, (count,), data, row(4))
    np.testing.assert_array_equal(found, np.full(count, -8 if kind == "BITPACKING" else 0))


@pytest.mark.parametrize(
    ("kind", "rows", "given", "message"),
    [
        ("FSE_INT", [row()], {}, "is packed as FSE_INT, which is not supported"),
        ("NONE", [], {}, "is packed as NONE without its parameters"),
        ("NONE", [row()], {"dtype": ir.DataType.FLOAT}, "is packed as NONE without its parameters"),
        ("BITPACKING", [row(0)], {}, "has 0 bits in int8"),
        ("BITPACKING", [row(9)], {}, "has 9 bits in int8"),
        ("INDEXING", [row(17)], {"dtype": INT16}, "has 17 bits in int16"),
        ("NONE", [row()] * 2, {"axis": 1}, r"has 2 scales, which fit no axis of \[2, 3\]"),
        ("NONE", [row()] * 3, {"axis": 2}, r"has 3 scales, which fit no axis of \[2, 3\]"),
        ("NONE", [row()] * 2, {"axis": -3}, r"has 2 scales, which fit no axis of \[2, 3\]"),
        ("NONE", [row(scale=1e39)], {}, "has scales beyond float32"),
        ("NONE", [row(zero_point=-1e39)], {}, "has scales beyond float32"),
        ("NONE", [row(mean_corr=float("nan"))], {}, "has scales beyond float32"),
    ],
)
def test_parameters_that_cannot_be_are_refused(kind, rows, given, message):
    with pytest.raises(ModelFormatError, match=f"^'w' {message}"):
        pack(kind, (2, 3), *rows, **given)


# -- finite state entropy --------------------------------------------------------------------------


def fse(symbols, values, frequencies, log):
    """A finite state entropy code of symbols, whose states are spread as in RFC 8878, section 4.1.1."""
    size, at = 1 << log, 0
    spread = [0] * size
    for symbol, frequency in enumerate(frequencies):
        for _ in range(frequency):
            spread[at] = symbol
            at = (at + (size >> 1) + (size >> 3) + 3) % size
    places = [[state for state, s in enumerate(spread) if s == symbol] for symbol in range(len(frequencies))]
    # Decoders begin with what was encoded last.
    bits, state = "", places[symbols[0]][0]
    for symbol in symbols[1:]:
        width = 0
        while (state + size) >> width >= 2 * frequencies[symbol]:
            width += 1
        bits += f"{state + size:b}"[-width:] if width else ""
        state = places[symbol][((state + size) >> width) - frequencies[symbol]]
    bits += f"{state:0{log}b}"
    words = [bits[i : i + 64] for i in range(0, len(bits), 64)]
    return fse_file(frequencies, values, log, words)


def fse_file(frequencies, values, log, words):
    """The bytes of a code whose words have these bits."""
    odd = bytes(4 * (len(frequencies) & 1))
    return b"".join(
        (
            struct.pack("<HHI", len(frequencies), log, len(words)),
            np.array(frequencies, "<u4").tobytes() + odd,
            np.array(values, "<f4").tobytes() + odd,
            *(struct.pack("<Q", int(word.ljust(64, "0"), 2)) for word in words),
            bytes([len(words[-1]) if words else 0]),
        )
    )


@pytest.mark.parametrize(
    ("frequencies", "log", "count"),
    [([11, 1, 4], 4, 50), ([5, 11], 4, 33), ([1] * 32, 5, 64), ([1000, 3, 21], 10, 900)],
)
def test_a_finite_state_entropy_code_is_decoded(frequencies, log, count):
    chance = np.array(frequencies) / sum(frequencies)
    symbols = np.random.default_rng(1).choice(len(frequencies), count, p=chance)
    values = np.linspace(-2, 3, len(frequencies)).astype(np.float32)
    data = fse(symbols.tolist(), values, frequencies, log)
    found = unpacked("FSE", (count,), data, dtype=ir.DataType.FLOAT)
    np.testing.assert_array_equal(found, values[symbols])


ENDS = fse_file([8, 8], [1, 2], 4, ["0" * 9])
WRONG_CODES = {
    (1, bytes(8)): "has no header",
    (1, ENDS[:-1]): "are not 2 symbols and 1 words",
    (1, fse_file([8, 8], [1, 2], 4, [])): "are not 2 symbols and 0 words",
    (1, fse_file([1 << 15, 1 << 15], [1, 2], 16, ["0" * 16])): "are not 2 symbols and 1 words",
    (1, fse_file([8, 9], [1, 2], 4, ["0" * 9])): "frequencies add up to 17, and must to 16",
    (1, ENDS[:-1] + bytes([65])): "65 bits in a word of 64",
    (7, ENDS): "the code ends before 7 elements",
    (64 * len(ENDS) + 1, ENDS): "cannot hold",
}


@pytest.mark.parametrize("damaged", WRONG_CODES, ids=WRONG_CODES.values())
def test_a_damaged_code_is_refused(damaged):
    count, data = damaged
    with pytest.raises(ModelFormatError, match=f"^'w' .*{WRONG_CODES[damaged]}"):
        unpacked("FSE", (count,), data, dtype=ir.DataType.FLOAT)


def test_a_code_ends_with_its_last_bit():
    assert len(unpacked("FSE", (6,), ENDS, dtype=ir.DataType.FLOAT)) == 6


def test_the_largest_table_has_15_bits():
    data = fse_file([1 << 14, 1 << 14], [1, 2], 15, ["0" * 15])
    assert unpacked("FSE", (1,), data, dtype=ir.DataType.FLOAT).tolist() == [1]


# -- what nodes make of them -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], (None, False, False)),
        ([(0, 1)], (None, False, False)),
        ([(None, 1)], (1, False, False)),
        ([(2, 1)], (1, True, False)),
        ([(4, 0), (1, 0)], (0, True, False)),
        ([(3, -1), (1, 0)], (0, False, False)),
        ([(1, 0), (1, -1)], (0, False, False)),
        ([(1, 0, True), (1, 0)], (0, False, True)),
    ],
)
def test_nodes_together_tell_the_axis_of_a_weight_and_what_they_need(nodes, expected):
    use = packing.Use()
    for node in nodes:
        use = use.by(*node)
    assert use == expected


def test_parameters_of_integers_that_are_computed_with():
    rows = [row(scale=0.5, zero_point=3, var_corr=1.5), row(scale=0.25, zero_point=-1)]
    assert packing.quantized(rows, 2) == Quantized((0.75, 0.25), (3, -1), 2)
    assert packing.quantized(rows[:1], 2) == Quantized((0.75,), (3,), None)
    assert packing.quantized([*rows, row(mean_corr=0.1)], 2) is None


@pytest.mark.parametrize(
    ("kind", "bound"), [("BITPACKING", (1 << 26) + 8 * 1000), ("FSE", (1 << 24) + 8 * 1000)]
)
def test_the_packed_weights_of_a_model_share_a_bound(kind, bound):
    budget = packing.ElementBudget(Source.of_buffer(bytes(1000)))
    dtype = INT8 if kind != "FSE" else ir.DataType.FLOAT
    budget.take(pack(kind, (bound - 6,), row(4), dtype=dtype))
    budget.take(pack(kind, (2, 3), row(4), dtype=dtype))
    with pytest.raises(ModelFormatError, match=f"packed weights before it have more than {bound}"):
        budget.take(pack(kind, (1,), row(4), dtype=dtype))
