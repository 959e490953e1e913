"""Small graphs of one class of work each, from which the profile of a machine is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder

Part = Callable[[Builder, ir.Value], ir.Value]


@dataclass(frozen=True)
class Sample:
    """A chain of `part`, applied to an input of `shape`, that shows the speed of a class of work (`kind`).

    The difference between chains of `times` parts more counts, which leaves out what a call costs, and the
    layouts at both ends; with 0 it is the time of one part.
    """

    kind: str
    shape: tuple[int, ...]
    part: Part
    times: int

    def whole(self) -> Sample:
        """Return a sample whose part is the longer chain: less exact, and measured in half of the time."""
        if self.kind == "node" or not self.times:
            return self
        return replace(
            self, part=lambda b, x: reduce(lambda y, _: self.part(b, y), range(1 + self.times), x), times=0
        )

    def model(self, count: int) -> ir.Model:
        """Return a graph of `count` parts with random weights."""
        b = Builder()
        x = y = ir.Value(name="x", shape=ir.Shape(self.shape), type=ir.TensorType(ir.DataType.FLOAT))
        for _ in range(count):
            y = self.part(b, y)
        y.name = "y"
        for name, value in b.initializers.items():
            value.name = name
        weights = list(b.initializers.values())
        graph = ir.Graph([x], [y], nodes=b.nodes, initializers=weights, opset_imports={"": b.opset}, name="g")
        return ir.Model(graph, ir_version=10)


def _weight(b: Builder, *shape: int) -> ir.Value:
    some = np.random.default_rng(0).normal(size=4099, scale=float(np.prod(shape[1:])) ** -0.5)
    return b.weight(ir.tensor(np.resize(some.astype(np.float32), shape)))


def conv(
    b: Builder, x: ir.Value, channels: int, window: int = 1, step: int = 1, group: int = 1, sides: int = 2
) -> ir.Value:
    """Write a convolution with a bias that keeps the size of images, or divides it by `step`."""
    weight = _weight(b, channels, b.static_shape(x)[1] // group, *[window] * sides)
    zeros = b.constant(np.zeros(channels, np.float32))
    pads = [window // 2] * 2 * sides
    return b.op("Conv", x, weight, zeros, pads=pads, strides=[step] * sides, group=group)


def activated(b: Builder, x: ir.Value, channels: int, window: int, step: int = 1, sides: int = 2) -> ir.Value:
    """Write a convolution and a Relu."""
    return b.op("Relu", conv(b, x, channels, window, step, sides=sides))


def _grouped(b: Builder, x: ir.Value, window: int, groups: int) -> ir.Value:
    return b.op("Relu", conv(b, x, b.static_shape(x)[1], window, group=groups))


def _pair(b: Builder, x: ir.Value, wide: int) -> ir.Value:
    return activated(b, activated(b, x, wide, 1), b.static_shape(x)[1], 1)


def _silu(b: Builder, x: ir.Value) -> ir.Value:
    y = conv(b, x, b.static_shape(x)[1])
    return b.op("Mul", y, b.op("Sigmoid", y))


def product(b: Builder, x: ir.Value, wide: int) -> ir.Value:
    """Write a product with a matrix of `wide` columns, and a bias."""
    y = b.op("MatMul", x, _weight(b, b.static_shape(x)[-1], wide))
    return b.op("Add", y, b.constant(np.zeros(wide, np.float32)))


def _dense(b: Builder, x: ir.Value, wide: int, between: str = "") -> ir.Value:
    y = product(b, x, wide)
    return product(b, b.op(between, y) if between else y, b.static_shape(x)[-1])


def _activated_product(b: Builder, x: ir.Value, wide: int) -> ir.Value:
    """Write two products, one with an activation, as half of those in networks have.

    OpenVINO computes these by oneDNN, which obeys limits of the instruction set, and the others by MLAS.
    """
    return _dense(b, x, wide, "Relu")


def _attended(b: Builder, x: ir.Value) -> ir.Value:
    scores = b.op("MatMul", x, b.transpose(x, (0, 1, 3, 2)))
    return b.op("MatMul", b.op("Softmax", scores, axis=-1), x)


def _norm(b: Builder, x: ir.Value) -> ir.Value:
    size = b.static_shape(x)[-1]
    one, zero = b.constant(np.ones(size, np.float32)), b.constant(np.zeros(size, np.float32))
    return b.op("LayerNormalization", x, one, zero, axis=-1)


def _turned(b: Builder, x: ir.Value, *perm: int) -> ir.Value:
    return b.reshape(b.transpose(x, perm), b.static_shape(x))


def _swapped(b: Builder, x: ir.Value) -> ir.Value:
    """Write a convolution whose results change places, which may need another layout."""
    y = activated(b, x, b.static_shape(x)[1], 1)
    first, second = b.ops("Split", 2, y, axis=1, num_outputs=2)
    return b.op("Concat", second, first, axis=1)


def _pooled(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)


def _lstm(b: Builder, x: ir.Value) -> ir.Value:
    size = b.static_shape(x)[-1]
    weights = [_weight(b, 1, 4 * size, size) for _ in range(2)]
    return b.op("Squeeze", b.op("LSTM", x, *weights, hidden_size=size), [1])


def _small(b: Builder, x: ir.Value) -> ir.Value:
    """Write six nodes that take no time but their own."""
    y = b.op("MatMul", x, _weight(b, 16, 16))
    y = b.op("Softmax", b.op("Concat", y, y, axis=1), axis=-1)
    y = b.op("ReduceSum", b.reshape(y, [1, 2, 8, 16]), [1], keepdims=0)
    return _turned(b, y, 0, 2, 1)


def samples() -> Iterator[Sample]:
    """Yield the samples, each after those whose classes of work it has too."""
    yield Sample("call", (1, 16), lambda b, x: b.op("Relu", x), 0)
    yield Sample("node", (1, 8, 16), _small, 6)
    yield from _convolutions()
    yield from _products()
    yield from _others()


def _convolutions() -> Iterator[Sample]:
    for channels, size in (32, 112), (64, 56), (128, 28), (512, 7):
        part = partial(activated, channels=channels, window=3)
        yield Sample("conv", (1, channels, size, size), part, 3)
    yield Sample("conv", (1, 3, 224, 224), partial(activated, channels=32, window=3, step=2), 0)
    narrow = (16, 96, 112), (24, 144, 56), (12, 36, 28), (96, 576, 14), (160, 960, 7)
    for few, many, size in *narrow, (64, 256, 56), (128, 512, 28), (512, 2048, 7):
        yield Sample("pointwise", (1, few, size, size), partial(_pair, wide=many), 3)
    depthwise = (96, 112, 3), (144, 56, 3), (192, 28, 3), (960, 7, 3), (480, 14, 5)
    for channels, size, window in depthwise:
        part = partial(_grouped, window=window, groups=channels)
        yield Sample("depthwise", (1, channels, size, size), part, 6)
    for channels, size, window in (24, 56, 3), (100, 14, 3), (36, 28, 5):
        part = partial(_grouped, window=window, groups=channels)
        yield Sample("unblocked", (1, channels, size, size), part, 6)
    for channels, size, groups in (128, 28, 2), (256, 14, 32):
        yield Sample("grouped", (1, channels, size, size), partial(_grouped, window=3, groups=groups), 4)
    yield Sample("volume", (1, 16, 8, 28, 28), partial(activated, channels=16, window=3, sides=3), 3)
    yield Sample("sigmoid", (1, 128, 28, 28), _silu, 6)


def _products() -> Iterator[Sample]:
    shapes = (
        (128, 768, 768),
        (197, 192, 768),
        (49, 384, 1536),
        (3136, 96, 384),
        (3136, 32, 256),
        (16, 768, 3072),
    )
    for rows, narrow, wide in *shapes, (128, 768, 3072):
        yield Sample("product", (1, rows, narrow), partial(_activated_product, wide=wide), 3)
    # No cache holds these weights.
    yield Sample("product", (1, 128, 768), partial(_activated_product, wide=3072), 7)
    for narrow, wide, times in (256, 256, 12), (768, 3072, 4), (2048, 8192, 2):
        yield Sample("vector", (1, narrow), partial(_dense, wide=wide), times)
    for length in 128, 49:
        shape = (1, 12, 128 * 128 // length, length)
        yield Sample("softmax", shape, lambda b, x: b.op("Softmax", x, axis=-1), 6)
    for heads, tokens, size in (12, 128, 64), (192, 49, 32), (8, 512, 40):
        yield Sample("attention", (1, heads, tokens, size), _attended, 4)
    yield Sample("product", (1, 128, 64), partial(_activated_product, wide=3072), 4)
    yield Sample("erf", (1, 128, 64), partial(_dense, wide=3072, between="Gelu"), 4)


def _others() -> Iterator[Sample]:
    for shape in (1, 128, 768), (1, 3136, 96):
        yield Sample("norm", shape, _norm, 8)
    yield Sample("pool", (1, 64, 56, 56), _pooled, 6)
    yield Sample("move", (1, 12, 128, 64), lambda b, x: _turned(b, x, 0, 2, 1, 3), 8)
    yield Sample("move", (1, 128, 768), lambda b, x: _turned(b, x, 0, 2, 1), 8)
    yield Sample("cut", (1, 128, 28, 28), _swapped, 6)
    yield Sample("elementwise", (1, 128, 768), lambda b, x: b.op("Add", _turned(b, x, 0, 2, 1), 1.5), 6)
    mean = "GlobalAveragePool"
    yield Sample("reduction", (1, 256, 14, 14), lambda b, x: b.op("Mul", x, b.op(mean, x)), 6)
    yield Sample("recurrent", (64, 1, 128), _lstm, 2)
