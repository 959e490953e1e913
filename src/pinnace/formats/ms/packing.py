"""Weights that MindSpore Lite stored smaller than their type: unpacking and dequantising them.

A quantised weight holds integers q, and stands for

    (q - zeroPoint) * scale * varCorr + meanCorr

with one set of the four numbers for the tensor, or one for each index of its channel axis; the two
corrections make mean and variance of a channel those of the weight that was quantised. Integers of a
width that no type has are packed, `weightQuantCompressType` says how:

* NONE: as they are, int8 or int16.
* BITPACKING: `numBits` bits each.

What is not listed is refused by name, and so are Huffman codes (`enableHuffmanCode`) and `quantClusters`,
which no converter since 1.x writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.formats.ms import schema
from pinnace.formats.ms.flatbuffer import Table

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Pack:
    """How one tensor is packed. `where` begins an error message."""

    kind: str
    stored: np.dtype[Any]
    shape: tuple[int, ...]
    bits: int
    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int32]
    offset: npt.NDArray[np.float32]
    axis: int
    where: str

    result = ir.DataType.FLOAT

    def unpack(self, data: Bytes) -> npt.NDArray[np.float32]:
        """The float32 values of a tensor whose stored bytes are `data`."""
        raise NotImplementedError


def of(tensor: Table, shape: tuple[int, ...], channel_axis: int | None) -> Pack | None:
    """How a constant is packed, or None where its data is as its type says."""
    kind = schema.load().name_of("WeightQuantCompressType", tensor["weightQuantCompressType"])
    parameters: tuple[Table, ...] = tensor["quantParams"]
    if kind == "NONE" and not tensor["enableHuffmanCode"] and (channel_axis is None or not parameters):
        return None
    raise tensor.error("weightQuantCompressType", f"{tensor['name']!r} is packed ({kind})")
