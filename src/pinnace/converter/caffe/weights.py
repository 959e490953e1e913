"""Reader of Caffe's weights (`.caffemodel`), which leaves them in the file.

The fields are those of NetParameter in Caffe's own caffe.proto; of its layers only names and blobs are read.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from google.protobuf.message import DecodeError

from pinnace.errors import ModelFormatError
from pinnace.formats.messages import Proto, message_class
from pinnace.formats.wire import PAYLOAD, Fields, number, outline
from pinnace.weights.source import SMALL, Source, check_size

_TABLE = """\
message NetParameter
  2 layers repeated V1LayerParameter
  100 layer repeated LayerParameter
message LayerParameter
  1 name string
  7 blobs repeated BlobProto
message V1LayerParameter
  4 name string
  6 blobs repeated BlobProto
message BlobShape
  1 dim repeated int64
message BlobProto
  1 num int64
  2 channels int64
  3 height int64
  4 width int64
  5 data repeated float
  7 shape BlobShape
  8 double_data repeated double
  1000 offset int64
  1001 length int64
"""
"""`offset` and `length` are our own: the place of numbers that stay in the file."""
_BLOB: Fields = {5: PAYLOAD}
_NET: Fields = {2: {6: _BLOB}, 100: {7: _BLOB}}


def read(source: Source) -> dict[str, list[ir.TensorProtocol]]:
    """Return the blobs of each layer by its name. Raises ModelFormatError."""
    net = message_class(_TABLE, "caffe", "NetParameter", "proto2")()
    try:
        net.ParseFromString(outline(source.data, _NET, _reference, SMALL, source.name))
    except DecodeError as error:
        raise ModelFormatError(f"{source.name}: is not a .caffemodel: {error}") from None
    layers = [*net.layer, *net.layers]
    if not layers:
        raise ModelFormatError(f"{source.name}: is not a .caffemodel: it has no layers")
    return {
        layer.name: [_tensor(blob, f"{layer.name}/{i}", source) for i, blob in enumerate(layer.blobs)]
        for layer in layers
    }


def _reference(offset: int, length: int) -> bytes:
    return number(1000, offset) + number(1001, length)


def _tensor(blob: Proto, name: str, source: Source) -> ir.TensorProtocol:
    dims = blob.shape.dim if blob.HasField("shape") else (blob.num, blob.channels, blob.height, blob.width)
    shape = tuple(dims)
    if blob.HasField("offset"):
        return source.tensor(name, ir.DataType.FLOAT, shape, blob.offset, blob.length)
    numbers = np.array(blob.data or blob.double_data, np.float32)
    check_size(f"{source.name}: blob {name!r}", ir.DataType.FLOAT, shape, numbers.nbytes)
    return ir.tensor(numbers.reshape(shape), name=name) if math.prod(shape) else ir.tensor(numbers, name=name)
