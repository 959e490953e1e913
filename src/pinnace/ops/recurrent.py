"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinnace.ops.array import split_into
from pinnace.ops.builder import Builder
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value

_LSTM_GATES = (0, 3, 1, 2)
"""ONNX orders the gates input, output, forget, cell; MindSpore input, forget, cell, output."""


@primitive("LSTM")
def lstm(
    b: Builder,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w: Tensor,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    has_bias: bool = True,
    bidirectional: bool = False,
    dropout: float = 0.0,
    proj_size: int = 0,
) -> Value:
    """LSTM for each layer, its weights cut out of the one vector of weights."""
    directions = 2 if bidirectional else 1
    pieces = _Pieces(b, w, num_layers, directions, input_size, hidden_size, has_bias)
    starts_h = split_into(b, h, [directions] * num_layers, 0)
    starts_c = split_into(b, c, [directions] * num_layers, 0)
    ends_h, ends_c = [], []
    for layer in range(num_layers):
        weights, recurrence, bias = pieces.layer(layer)
        y, end_h, end_c = b.ops(
            "LSTM",
            3,
            x,
            weights,
            recurrence,
            bias,
            None,
            starts_h[layer],
            starts_c[layer],
            hidden_size=hidden_size,
            direction="bidirectional" if bidirectional else "forward",
        )
        x = joined_directions(b, y, directions, hidden_size)
        ends_h.append(end_h)
        ends_c.append(end_c)
    nothing = b.constant([[0.0]], np.float32)
    return x, _stacked(b, ends_h), _stacked(b, ends_c), nothing, nothing


def joined_directions(b: Builder, y: Tensor, directions: int, hidden: int) -> Tensor:
    """ONNX's (sequence, direction, batch, hidden) as (sequence, batch, direction * hidden)."""
    if directions == 1:
        return b.op("Squeeze", y, [1])
    turned = b.transpose(y, (0, 2, 1, 3))
    return b.reshape(turned, [b.dim(y, 0), b.dim(y, 2), directions * hidden])


def _stacked(b: Builder, parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else b.op("Concat", *parts, axis=0)


class _Pieces:
    """The weights of an LSTM, cut out of MindSpore's one vector: all of W and R, then the biases."""

    def __init__(
        self,
        b: Builder,
        w: Tensor,
        layers: int,
        directions: int,
        input_size: int,
        hidden: int,
        has_bias: bool,
    ) -> None:
        self.b, self.directions, self.hidden = b, directions, hidden
        self.widths = [input_size] + [hidden * directions] * (layers - 1)
        sizes = []
        for width in self.widths:
            sizes += [4 * hidden * width, 4 * hidden * hidden] * directions
        self.weights = len(sizes)
        if has_bias:
            # The two biases of a direction come as their sum, or one after the other.
            rest = b.static_shape(w)[0] - sum(sizes)
            sizes += [rest // (layers * directions)] * (layers * directions)
        self.parts = split_into(b, b.reshape(w, [-1]), sizes, 0)

    def layer(self, index: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """W, R and B of one layer as ONNX wants them."""
        first = index * self.directions
        numbers = range(first, first + self.directions)
        own = [self._matrix(self.parts[2 * n], self.widths[index]) for n in numbers]
        back = [self._matrix(self.parts[2 * n + 1], self.hidden) for n in numbers]
        biases = self.parts[self.weights :]
        bias = _stacked(self.b, [self._bias(biases[n]) for n in numbers]) if biases else None
        return _stacked(self.b, own), _stacked(self.b, back), bias

    def _matrix(self, part: Tensor, width: int) -> Tensor:
        return self._in_order(self.b.reshape(part, [1, 4, self.hidden, width]), [1, 4 * self.hidden, width])

    def _bias(self, part: Tensor) -> Tensor:
        (size,) = self.b.static_shape(part)
        gates = 4 * self.hidden
        if size == gates:
            part = self.b.op("Concat", part, self.b.constant(np.zeros(gates, np.float32)), axis=0)
        return self._in_order(self.b.reshape(part, [2, 4, self.hidden]), [1, 2 * gates])

    def _in_order(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        return self.b.reshape(self.b.op("Gather", x, list(_LSTM_GATES), axis=1), dims)
