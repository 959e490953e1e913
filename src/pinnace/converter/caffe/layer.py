"""A layer of Caffe, with its inputs, weights and parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from pinnace.converter.caffe.prototxt import Message
from pinnace.errors import ModelFormatError
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported

_PARAMETERS = {
    **dict.fromkeys(("Deconvolution", "ConvolutionDepthwise", "DepthwiseConvolution"), "convolution_param"),
    "Normalize": "norm_param",
    "ArgMax": "argmax_param",
    "ReLU": "relu_param",
    "PReLU": "prelu_param",
}
"""Messages of parameters that are not named as their layer."""


@dataclass(frozen=True)
class Layer:
    name: str
    kind: str
    bottoms: Sequence[ir.Value]
    blobs: Sequence[ir.TensorProtocol]
    tops: int
    message: Message

    @property
    def parameters(self) -> Message:
        """The message with the layer's own parameters."""
        return self.message.message(_PARAMETERS.get(self.kind) or f"{_snake(self.kind)}_param")

    @property
    def x(self) -> ir.Value:
        """The first input. Raises ModelFormatError if there is none."""
        return self.bottom(0)

    def bottom(self, place: int) -> ir.Value:
        """Return an input. Raises ModelFormatError if there are fewer."""
        if place >= len(self.bottoms):
            raise ModelFormatError(f"{self.message.where}: layer {self.name!r} has no input {place}")
        return self.bottoms[place]

    def blob(self, place: int, shape: Sequence[int]) -> ir.TensorProtocol:
        """Return a blob. Raises ModelFormatError if the weights lack it, or have one of another size."""
        where = f"{self.message.where}: layer {self.name!r}"
        if place >= len(self.blobs):
            raise ModelFormatError(
                f"{where} has {len(self.blobs)} blobs in the weights, and wants {place + 1}"
            )
        have = self.blobs[place].shape.numpy()
        if prod(have) != prod(shape):
            raise ModelFormatError(f"{where}: blob {place} is {list(have)} in the weights, not {list(shape)}")
        return self.blobs[place]

    def weight(self, b: Builder, place: int, shape: Sequence[int]) -> ir.Value:
        """Return a blob as a tensor of a shape, which older files write with four dimensions."""
        value = b.weight(self.blob(place, shape))
        return value if b.static_shape(value) == tuple(shape) else b.reshape(value, list(shape))


def axis_of(b: Builder, x: ir.Value, axis: int) -> int:
    """Return an axis from 0. Raises Unsupported for one that the input lacks."""
    rank = b.rank(x)
    if not -rank <= axis < rank:
        raise Unsupported(
            f"has axis {axis}, and its input {rank} dimensions: name one of {-rank} to {rank - 1}"
        )
    return axis % rank


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
