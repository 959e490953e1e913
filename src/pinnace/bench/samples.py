"""Small graphs of one class of work each, from which the profile of a machine is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder

Part = Callable[[Builder, ir.Value], ir.Value]


@dataclass(frozen=True)
class Sample:
    """A graph: `part` is applied `times` in a row to an input of `shape`."""

    name: str
    shape: tuple[int, ...]
    part: Part
    times: int = 4

    def model(self, times: int) -> ir.Model:
        """Return the graph; weights are random."""
        b, x = Builder(), _value("x", self.shape)
        y = x
        for _ in range(times):
            y = self.part(b, y)
        y.name = "y"
        graph = ir.Graph(
            [x], [y], nodes=b.nodes, initializers=list(b.initializers.values()), opset_imports={"": b.opset}, name="sample"
        )
        for name, value in b.initializers.items():
            value.name = name
        return ir.Model(graph, ir_version=10)


def _value(name: str, shape: tuple[int, ...]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))


def _weight(b: Builder, *shape: int) -> ir.Value:
    spread = float(np.prod(shape[1:])) ** -0.5
    return b.weight(ir.tensor(np.random.default_rng(0).normal(size=shape, scale=spread).astype(np.float32)))


def conv(b: Builder, x: ir.Value, channels: int, window: int = 1, step: int = 1, group: int = 1) -> ir.Value:
    """Write a convolution with bias and Relu."""
    given = b.static_shape(x)[1]
    weight = _weight(b, channels, given // group, window, window)
    y = b.op(
        "Conv", x, weight, b.constant(np.zeros(channels, np.float32)), kernel_shape=[window] * 2, pads=[window // 2] * 4, strides=[step] * 2, group=group,
    )  # fmt: skip
    return b.op("Relu", y)


def _pair(b: Builder, x: ir.Value, wide: int) -> ir.Value:
    return conv(b, conv(b, x, wide), b.static_shape(x)[1])


def _dense(b: Builder, x: ir.Value, wide: int) -> ir.Value:
    return _product(b, _product(b, x, wide), b.static_shape(x)[-1])


def _product(b: Builder, x: ir.Value, wide: int) -> ir.Value:
    y = b.op("MatMul", x, _weight(b, b.static_shape(x)[-1], wide))
    return b.op("Add", y, b.constant(np.zeros(wide, np.float32)))


def _attended(b: Builder, x: ir.Value) -> ir.Value:
    scores = b.op("MatMul", x, b.transpose(x, (0, 1, 3, 2)))
    return b.op("MatMul", scores, x)


def _norm(b: Builder, x: ir.Value) -> ir.Value:
    size = b.static_shape(x)[-1]
    one, zero = b.constant(np.ones(size, np.float32)), b.constant(np.zeros(size, np.float32))
    return b.op("LayerNormalization", x, one, zero, axis=-1)


def _gelu(b: Builder, x: ir.Value, wide: int) -> ir.Value:
    return _product(b, b.op("Gelu", _product(b, x, wide)), b.static_shape(x)[-1])


def _silu(b: Builder, x: ir.Value) -> ir.Value:
    y = conv(b, x, b.static_shape(x)[1]).producer().inputs[0]
    return b.op("Mul", y, b.op("Sigmoid", y))


def _plain(b: Builder, x: ir.Value) -> ir.Value:
    return conv(b, x, b.static_shape(x)[1]).producer().inputs[0]


def _op(b: Builder, x: ir.Value, op: str, **attributes) -> ir.Value:
    return b.op(op, x, **attributes)


def _turn(b, x):
    return b.reshape(b.transpose(x, (0, 2, 1, 3)), b.static_shape(x))

def _halves(b: Builder, x: ir.Value) -> ir.Value:
    first, second = b.ops("Split", 2, x, axis=1, num_outputs=2)
    return b.op("Concat", second, first, axis=1)

def _lstm(b, x):
    s=b.static_shape(x); h=s[-1]
    w=_weight(b,1,4*h,h); r=_weight(b,1,4*h,h)
    y=b.op("LSTM", x, w, r, hidden_size=h)
    return b.op("Squeeze", y, [1])

def _image(c, s): return (1, c, s, s)

def samples() -> Iterator[Sample]:
    """Yield the samples, each after those that it is corrected by."""
    yield Sample("call", (1, 16), lambda b, x: b.op("Relu", x), 0)
    yield Sample("node", (1, 8, 16), _small, 6)
    for size, channels in ((112, 32), (56, 64), (28, 128), (14, 256), (7, 512)):
        yield Sample("conv", _image(channels, size), partial(conv, channels=channels, window=3), 3)
    yield Sample("conv", _image(3, 224), partial(conv, channels=32, window=3, step=2), 0)
    for size, narrow, wide in ((112, 16, 96), (56, 24, 144), (28, 32, 192), (14, 96, 576), (7, 160, 960), (56, 64, 256), (28, 128, 512), (14, 256, 1024), (7, 512, 2048)):
        yield Sample("pointwise", _image(narrow, size), partial(_pair, wide=wide), 3)
    for size, channels, window in ((112, 96, 3), (56, 144, 3), (28, 192, 3), (14, 576, 3), (7, 960, 3), (14, 480, 5)):
        yield Sample("depthwise", _image(channels, size), lambda b, x, c=channels, w=window: conv(b, x, c, w, group=c), 6)
    for size, channels, window in ((56, 24, 3), (14, 100, 3), (28, 36, 5)):
        yield Sample("unblocked", _image(channels, size), lambda b, x, c=channels, w=window: conv(b, x, c, w, group=c), 6)
    yield Sample("grouped", _image(256, 14), partial(conv, channels=256, window=3, group=32), 6)
    yield Sample("volume", (1, 16, 8, 28, 28), _volume, 3)
    for rows, narrow, wide in ((128, 768, 3072), (128, 768, 768), (197, 192, 768), (49, 384, 1536), (3136, 96, 384), (16, 768, 3072)):
        yield Sample("product", (1, rows, narrow), partial(_dense, wide=wide), 3)
    yield Sample("product", (1, 128, 768), partial(_dense, wide=3072), 11)
    for narrow, wide, times in ((256, 256, 12), (768, 3072, 4), (2048, 8192, 3)):
        yield Sample("vector", (1, narrow), partial(_dense, wide=wide), times)
    for heads, tokens, size in ((12, 128, 64), (3, 197, 64), (8, 1024, 40)):
        yield Sample("attention", (1, heads, tokens, size), _attended, 4)
    yield Sample("softmax", (1, 12, 128, 128), partial(_op, op="Softmax", axis=-1), 6)
    yield Sample("norm", (1, 128, 768), _norm, 8)
    yield Sample("norm", (1, 3136, 96), _norm, 8)
    yield Sample("function", (1, 128, 768), partial(_gelu, wide=3072), 4)
    yield Sample("function", _image(128, 28), _silu, 6)
    yield Sample("pool", _image(64, 56), partial(_op, op="MaxPool", kernel_shape=[3, 3], pads=[1] * 4), 6)
    yield Sample("move", (1, 12, 128, 64), _turn, 8)
    yield Sample("move", (1, 128, 768), _turn3, 8)
    yield Sample("move", _image(128, 28), _halves, 6)
    yield Sample("elementwise", (1, 128, 768), lambda b, x: b.op("Add", _turn3(b, x), 1.5), 6)
    yield Sample("reduction", _image(256, 14), lambda b, x: b.op("Mul", x, b.op("GlobalAveragePool", x)), 6)
    yield Sample("recurrent", (64, 1, 128), _lstm, 2)

def _small(b, x):
    y = b.op("MatMul", x, _weight(b, 16, 16))
    y = b.op("Softmax", b.op("Concat", y, y, axis=1), axis=-1)
    return b.op("Transpose", b.op("Transpose", b.op("ReduceSum", b.reshape(y, [1,2,8,16]), [1], keepdims=0), perm=[1,0,2]), perm=[1,0,2])

def _volume(b, x):
    c=b.static_shape(x)[1]
    return b.op("Relu", b.op("Conv", x, _weight(b, c, c, 3, 3, 3), kernel_shape=[3]*3, pads=[1]*6))

def _turn3(b, x):
    return b.op("Reshape", b.transpose(x, (0, 2, 1)), list(b.static_shape(x)))
