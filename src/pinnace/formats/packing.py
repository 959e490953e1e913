"""Unpacking and dequantizing of weights that MindSpore Lite stores compressed.

A quantized weight holds integers q, and represents

    (q - zeroPoint) * scale * varCorr + meanCorr

with one set of the four numbers for the tensor, or one for each index of its channel axis; the corrections
restore the original mean and variance of a channel. `weightQuantCompressType` is the packing of the integers,
of `numBits` bits. Signed integers are packed as q + 2^(numBits - 1), unsigned.

* NONE: plain int8 or int16.
* BITPACKING: consecutive, the lowest bit first.
* INDEXING: a table of the distinct values, and for each element its index there. `numBits` bits hold the
  number of values (0 means the maximum), then come the values, then the indices with as many bits as the last
  index needs; the highest bit first, here and in the next.
* SPARSE: the elements that differ from their channel's zero point. 8 bits hold the width of a distance, 32
  the number of elements, then come a table as above, the elements' indices into it, and for each element its
  distance: the number of elements omitted since the previous one.
* FSE: indices into a table of float values instead of integers, as a finite state entropy code; see `_fse`.

All of this was derived from the output of MindSpore Lite's converter, and checked against the results of its
runtime. FSE_INT and FSE_INFER, which later releases write, Huffman codes (`enableHuffmanCode`) and
`quantClusters` are not supported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.program import Quantized
from pinnace.weights.source import Source

if TYPE_CHECKING:
    import numpy.typing as npt

Row = Mapping[str, Any]
"""`scale`, `zeroPoint`, `varCorr`, `meanCorr` and `numBits` of one channel."""
STORAGE_ONLY = (2, 4)
"""The `QuantType`s of nodes that compute with dequantized weights."""
Bytes = np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]
Floats = np.ndarray[tuple[Any, ...], np.dtype[np.float32]]
Integers = np.ndarray[tuple[Any, ...], np.dtype[np.int32]]

_EXPANSION, _DECODED = 320, 64
"""Maximum of elements per stored byte: one-bit weights that are nearly all equal reached 278. FSE elements
are decoded one by one.
"""
_MAX_ELEMENTS = {True: 1 << 26, False: 1 << 24}
"""Maximum of elements of a model's quantized weights, 256 MiB as float32, and of those decoded one by one."""
_FOR_A_BYTE = 8
"""Further elements for each byte of the model's files: those of one-bit weights."""
_CHUNK = 1 << 16
"""Elements that are unpacked together; each needs a hundred bytes meanwhile."""
_STORED: Mapping[ir.DataType, np.dtype[np.generic]] = {
    ir.DataType.INT8: np.dtype("i1"),
    ir.DataType.INT16: np.dtype("<i2"),
}
"""Element types of quantized weights."""

_LARGEST = float(np.finfo(np.float32).max)
_IDENTITY = {"zeroPoint": 0, "scale": 1.0, "varCorr": 1.0, "meanCorr": 0.0}
"""The parameters of values that are not quantized."""


class Pack(NamedTuple):
    """The packing of one tensor; `error` creates errors about its data."""

    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    bits: int
    quantized: bool
    zero_point: Integers
    scale: Floats
    shift: Floats
    error: Callable[[str], ModelFormatError]

    def unpack(self, data: Bytes) -> Floats:
        """Unpack the stored bytes `data`. Raises `ModelFormatError` if they are damaged."""
        count = math.prod(self.shape)
        if count > (_EXPANSION if self.quantized else _DECODED) * len(data):
            raise self.error(f"{len(data)} bytes cannot hold {count} elements")
        if not self.quantized:
            return _fse(self, data, count).reshape(self.shape)
        integers = _INTEGERS[self.kind](self, data, count).reshape(self.shape)
        integers -= self.zero_point
        values = integers.view(np.float32)  # in place, as few bytes may unpack to many
        with np.errstate(over="ignore"):
            np.copyto(values, integers, casting="unsafe")
            values *= self.scale
            values += self.shift
        return values


class Use(NamedTuple):
    """Use of a weight by nodes: the axis of its channels, and which values they need.

    Those are dequantized ones if it is `stored` in integers only, and float32 whatever float type is stored.
    """

    axis: int | None = None
    stored: bool = False
    in_float32: bool = False

    def by(self, kind: int | None, axis: int, in_float32: bool = False) -> Use:
        """Return the use with one more node, of this `QuantType`.

        Of several axes, one from the front takes precedence over one from the end.
        """
        shared = self.axis if kind == 0 else max(axis, axis if self.axis is None else self.axis)
        return Use(shared, self.stored or kind in STORAGE_ONLY, self.in_float32 or in_float32)


class ElementBudget:
    """The limit of elements in all packed weights of a model together, as there may be many small ones."""

    def __init__(self, source: Source) -> None:
        self._source, self._taken = source, dict.fromkeys(_MAX_ELEMENTS, 0)

    def take(self, pack: Pack) -> None:
        """Count a weight. Raises its error if the limit is exceeded."""
        self._taken[pack.quantized] += math.prod(pack.shape)
        bound = _MAX_ELEMENTS[pack.quantized] + _FOR_A_BYTE * self._source.size
        if self._taken[pack.quantized] > bound:
            raise pack.error(f"and the packed weights before it have more than {bound} elements")


def of(
    kind: str,
    shape: tuple[int, ...],
    dtype: ir.DataType,
    rows: Sequence[Row],
    axis: int,
    error: Callable[[str], ModelFormatError],
) -> Pack:
    """Return the packing `kind` of a tensor of type `dtype` with parameters `rows`, one or one per channel.

    `axis` is that of the channels. `error` creates the error for data that cannot be unpacked.
    """
    quantized = kind != "FSE"
    if quantized and kind not in _INTEGERS:
        raise error(f"is packed as {kind}, which is not supported")
    if quantized and (not rows or dtype not in _STORED):
        raise error(f"is packed as {kind} without its parameters")
    stored = _STORED.get(dtype, np.dtype("<f4"))
    bits = int(rows[0]["numBits"]) if rows else 0
    if quantized and kind != "NONE" and not 1 <= bits <= 8 * stored.itemsize:
        raise error(f"has {bits} bits in {stored.name}")
    layout = _channel_shape(shape, axis, len(rows), error)

    def column(formula: Callable[[Row], float]) -> npt.NDArray[np.float64]:
        numbers = np.array([formula(row) for row in rows or [_IDENTITY]], np.float64).reshape(layout)
        if not (np.abs(numbers) <= _LARGEST).all():
            raise error("has scales beyond float32")
        return numbers

    zero_point = column(lambda p: p["zeroPoint"]).astype(np.int32)
    scale = column(lambda p: p["scale"] * p["varCorr"]).astype(np.float32)
    shift = column(lambda p: p["meanCorr"]).astype(np.float32)
    return Pack(kind, shape, stored, bits, quantized, zero_point, scale, shift, error)


def bit_packed(whole: npt.NDArray[np.generic], bits: int) -> Bytes:
    """Return signed integers as BITPACKING has them, without a chunk more in memory than the result."""
    numbers = whole.reshape(-1)
    parts = []
    for start in range(0, numbers.size, _CHUNK):
        some = numbers[start : start + _CHUNK].astype(np.int64) + (1 << (bits - 1))
        parts.append(np.packbits((some[:, None] >> np.arange(bits)) & 1, bitorder="little"))
    return np.concatenate(parts)


def quantized(rows: Sequence[Row], axis: int) -> Quantized | None:
    """Return the parameters of a tensor that is computed with as integers; None if they shift their
    channels.
    """
    if any(row["meanCorr"] for row in rows):
        return None
    scale = tuple(float(row["scale"] * row["varCorr"]) for row in rows)
    return Quantized(scale, tuple(int(row["zeroPoint"]) for row in rows), axis if len(rows) > 1 else None)


def _channel_shape(
    shape: tuple[int, ...], axis: int, count: int, error: Callable[[str], ModelFormatError]
) -> list[int]:
    """Return the shape that broadcasts one number per channel over the tensor."""
    layout = [1] * len(shape)
    if count <= 1:
        return layout
    if not -len(shape) <= axis < len(shape) or shape[axis] != count:
        raise error(f"has {count} scales, which fit no axis of {list(shape)}")
    layout[axis] = count
    return layout


class _Bits:
    """Reads numbers of any width from bits, the highest bit first."""

    def __init__(self, pack: Pack, data: Bytes) -> None:
        self._pack, self._bits, self._at = pack, data, 0

    def take(self, count: int, width: int) -> Integers:
        """Read the next `count` numbers of `width` bits."""
        end = self._at + count * width
        if end > 8 * len(self._bits):
            raise self._pack.error(f"ends at bit {8 * len(self._bits)} of {count} numbers of {width} bits")
        weights = 1 << np.arange(width, dtype=np.int64)[::-1]
        numbers = np.empty(count, np.int32)
        for start in range(0, count, _CHUNK):
            some = numbers[start : start + _CHUNK]
            at = self._at + start * width
            last = at + len(some) * width
            bits = np.unpackbits(self._bits[at // 8 : -(-last // 8)])[at % 8 :][: len(some) * width]
            some[:] = bits.reshape(len(some), width) @ weights
        self._at = end
        return numbers

    def number(self, width: int) -> int:
        return int(self.take(1, width)[0]) & ((1 << width) - 1)

    def table(self, width: int) -> Integers:
        """Read a table of distinct signed values."""
        count = self.number(width) or 1 << width
        return self.take(count, width) - (1 << (width - 1))

    def looked_up(self, table: Integers, count: int) -> Integers:
        """Read indices into a table, and return their values."""
        places = self.take(count, (len(table) - 1).bit_length())
        if places.max(initial=0) >= len(table):
            raise self._pack.error(f"refers to value {places.max()} of {len(table)}")
        return table[places]


def _plain(pack: Pack, data: Bytes, count: int) -> Integers:
    if len(data) != count * pack.dtype.itemsize:
        raise pack.error(f"{len(data)} bytes are not {count} elements of {pack.dtype.name}")
    return data.view(pack.dtype).astype(np.int32)


def _bit_packed(pack: Pack, data: Bytes, count: int) -> Integers:
    if count * pack.bits > 8 * len(data):
        raise pack.error(f"{len(data)} bytes are not {count} numbers of {pack.bits} bits")
    numbers = np.empty(count, np.int32)
    for start in range(0, count, _CHUNK):  # a chunk begins and ends at a byte
        some = numbers[start : start + _CHUNK]
        part = data[start * pack.bits // 8 :]
        bits = np.unpackbits(part, count=len(some) * pack.bits, bitorder="little").reshape(-1, pack.bits)
        some[:] = bits @ (1 << np.arange(pack.bits)) - (1 << (pack.bits - 1))
    return numbers


def _indexed(pack: Pack, data: Bytes, count: int) -> Integers:
    bits = _Bits(pack, data)
    return bits.looked_up(bits.table(pack.bits), count)


def _sparse(pack: Pack, data: Bytes, count: int) -> Integers:
    bits = _Bits(pack, data)
    width, present = bits.number(8), bits.number(32)
    if width > 32 or present > count:
        raise pack.error(f"has {present} of {count} elements, at distances of {width} bits")
    values = bits.looked_up(bits.table(pack.bits), present)
    places = np.cumsum(bits.take(present, width).astype(np.int64) + 1) - 1
    if places.max(initial=-1) >= count:
        raise pack.error(f"has an element at {places.max()} of {count}")
    result = np.broadcast_to(pack.zero_point, pack.shape).reshape(-1).copy()
    result[places] = values
    return result


_INTEGERS = {"NONE": _plain, "BITPACKING": _bit_packed, "INDEXING": _indexed, "SPARSE": _sparse}


def _fse(pack: Pack, data: Bytes, count: int) -> Floats:
    """Decode a finite state entropy code (tabled asymmetric numeral system, as in zstd, RFC 8878).

    Layout: u16 number of symbols, u16 log2 of the table's size, u32 number of words; a u32 frequency and then
    a float32 value for each symbol, both padded to 8 bytes; the words, of 64 bits; u8 number of bits in the
    last word, which fill it from the top. Words are read from the last to the first, each from its lowest
    bit; elements come from the last to the first, too.
    """
    if len(data) < 9:
        raise pack.error("has no header")
    symbols, log, words = (int(n) for n in (*data[:4].view("<u2"), data[4:8].view("<u4")[0]))
    column = 4 * symbols + 4 * (symbols & 1)
    start = 8 + 2 * column
    if not words or log > 15 or len(data) != start + 8 * words + 1:
        raise pack.error(f"{len(data)} bytes are not {symbols} symbols and {words} words")
    frequencies = data[8 : 8 + 4 * symbols].view("<u4").astype(np.int64)
    values = data[8 + column : 8 + column + 4 * symbols].view("<f4")
    if frequencies.sum() != 1 << log:
        raise pack.error(f"frequencies add up to {frequencies.sum()}, and must to {1 << log}")
    stream = _word_stream(data[start:-1], int(data[-1]))
    if stream is None:
        raise pack.error(f"{data[-1]} bits in a word of 64")
    found = _decode(frequencies.tolist(), log, stream, 64 * (words - 1) + int(data[-1]), count)
    if found is None:
        raise pack.error(f"the code ends before {count} elements")
    return values[found[::-1]].astype(np.float32)


def _word_stream(words: Bytes, used: int) -> Bytes | None:
    """Return the words as bytes to read from the lowest bit, without the unused bits of the first."""
    if used > 64:
        return None
    bits = np.unpackbits(words.reshape(-1, 8)[::-1].reshape(-1), bitorder="little")
    return np.packbits(bits[64 - used :], bitorder="little")


def _decode(
    frequencies: Sequence[int], log: int, stream: Bytes, total: int, count: int
) -> npt.NDArray[np.int32] | None:
    """Decode `count` symbols of a stream of `total` bits; None if it is too short."""
    symbol, width, base = _decoding_table(frequencies, log)
    # windows[i] holds the 24 bits from byte i on: enough for any state at any bit of that byte.
    padded = np.concatenate([stream, np.zeros(4, np.uint8)]).astype(np.uint32)
    windows = (padded[:-2] | padded[1:-1] << 8 | padded[2:] << 16).tolist()
    found = np.empty(count, np.int32)
    state, at = windows[0] & ((1 << log) - 1), log
    for i in range(count):
        found[i] = symbol[state]
        if i == count - 1:
            break
        bits = width[state]
        if at + bits > total:
            return None
        state = base[state] + (windows[at >> 3] >> (at & 7) & ((1 << bits) - 1))
        at += bits
    return found


def _decoding_table(frequencies: Sequence[int], log: int) -> tuple[list[int], list[int], list[int]]:
    """Return for each state its symbol, the number of bits to the next state, and the base that they
    add to.
    """
    size = 1 << log
    step = (size >> 1) + (size >> 3) + 3
    symbol, at = [0] * size, 0
    for s, frequency in enumerate(frequencies):
        for _ in range(frequency):
            symbol[at] = s
            at = (at + step) % size
    nexts, width, base = list(frequencies), [0] * size, [0] * size
    for state, s in enumerate(symbol):
        width[state] = log - (nexts[s].bit_length() - 1)
        base[state] = (nexts[s] << width[state]) - size
        nexts[s] += 1
    return symbol, width, base
