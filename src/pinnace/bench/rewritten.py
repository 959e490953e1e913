"""Measurement of what the rules of onnxruntime gain: chains of nodes with a rule and without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from pinnace.bench import samples
from pinnace.bench.samples import Sample
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.speed.gains import NONE, Gains
from pinnace.engines.speed.profile import Rates, Row
from pinnace.ops.builder import Builder
from pinnace.options.target import Target

Seconds = Callable[[Sample, int, Target], float]
"""Returns the seconds of a chain of so many parts of a sample, built for a target."""


def gains(threads: Sequence[int], seconds: Seconds, watch: Callable[[str], None]) -> Rates:
    """Measure the time with each rule over that without: the geometric mean over numbers of threads."""
    found: dict[str, list[Row]] = {}
    for sample in rewritten():
        watch(sample.kind)
        ratios = [_ratio(sample, seconds, count) for count in threads]
        size = _size(sample)
        found.setdefault(sample.kind, []).append((size, round(math.prod(ratios) ** (1 / len(ratios)), 3)))
    return found


def _ratio(sample: Sample, seconds: Seconds, threads: int) -> float:
    times = [
        seconds(sample, sample.times, Target(provider="onnxruntime", threads=threads, rules=rules))
        for rules in (f"{NONE} +{sample.kind}", NONE)
    ]
    return times[0] / times[1]


def _size(sample: Sample) -> tuple[float, ...]:
    """Return the size by which the rule of a sample asks for its gain."""
    asked = _Asked({}, settings=f"{NONE} +{sample.kind}")
    rewrite(sample.model(1), asked)
    return asked.sizes.get(sample.kind, ())


class _Asked(Gains):
    """Gains that remember the sizes that rules asked for."""

    def __init__(self, rates: Rates, origin: str = "", settings: str = "") -> None:
        super().__init__(rates, origin, settings)
        self.sizes: dict[str, tuple[float, ...]] = {}

    def ratio(self, rule: str, size: Sequence[float] = ()) -> float:
        self.sizes[rule] = tuple(size)
        return super().ratio(rule, size)


def rewritten() -> Iterator[Sample]:
    """Yield a sample for each rule, some for those that depend on sizes; `kind` is the rule."""
    for channels, size in (
        (32, 56),
        (64, 56),
        (64, 20),
        (128, 28),
        (128, 14),
        (256, 28),
        (256, 14),
        (512, 14),
        (512, 7),
    ):
        for side in 4, 2:
            part = partial(_block, channels=channels)
            yield Sample(f"winograd:{side}", (1, channels, size, size), part, 2)
    for rows, columns in (4, 1024), (49, 64), (196, 512), (3136, 96):
        yield Sample("sum_of_rows", (1, rows, columns), _mean_of_rows, 4)
    for tokens in 64, 256, 1024:
        yield Sample("attention", (1, tokens, 768 if tokens < 1024 else 256), _attention, 2)
    yield from _normalising()
    yield from _others()


def _block(b: Builder, x: ir.Value, channels: int) -> ir.Value:
    y = samples.activated(b, x, channels, 3)
    return samples.activated(b, y, channels, 1)


def _mean_of_rows(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("Sub", x, b.op("ReduceMean", x, [1], keepdims=1))


def _attention(b: Builder, x: ir.Value) -> ir.Value:
    batch, tokens, size = b.static_shape(x)
    q, k, v = (
        b.transpose(b.reshape(samples.product(b, x, size), [batch, tokens, -1, 64]), (0, 2, 1, 3))
        for _ in range(3)
    )
    scores = b.op("Mul", b.op("MatMul", q, b.transpose(k, (0, 1, 3, 2))), 0.125)
    mixed = b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
    return b.reshape(b.transpose(mixed, (0, 2, 1, 3)), [batch, tokens, size])


def _vectors(b: Builder, size: int) -> tuple[ir.Value, ir.Value]:
    random = np.random.default_rng(0).uniform(0.5, 1.5, (2, size)).astype(np.float32)
    return b.constant(random[0]), b.constant(random[1])


def _spelled_norm(b: Builder, x: ir.Value) -> ir.Value:
    centred = b.op("Sub", x, b.op("ReduceMean", x, [-1]))
    squares = b.op("ReduceMean", b.op("Mul", centred, centred), [-1])
    return b.op("Div", centred, b.op("Sqrt", b.op("Add", squares, 1e-5)))


def _scaled_norm(b: Builder, x: ir.Value) -> ir.Value:
    factor, offset = _vectors(b, b.static_shape(x)[-1])
    norm = b.op(
        "LayerNormalization", x, b.constant(np.ones(b.static_shape(x)[-1], np.float32)), axis=-1, epsilon=1e-5
    )
    return b.op("Add", b.op("Mul", norm, factor), offset)


def _root_mean_square(b: Builder, x: ir.Value) -> ir.Value:
    squares = b.op("ReduceMean", b.op("Mul", x, x), [-1])
    root = b.op("Sqrt", b.op("Add", squares, 1e-5))
    return b.op("Mul", b.op("Mul", x, b.op("Reciprocal", root)), _vectors(b, b.static_shape(x)[-1])[0])


def _after_sum(b: Builder, x: ir.Value) -> ir.Value:
    factor, offset = _vectors(b, b.static_shape(x)[-1])
    return b.op("LayerNormalization", b.op("Add", x, samples.product(b, x, 96)), factor, offset, axis=-1)


def _group_norm(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("GroupNormalization", x, *_vectors(b, 64), num_groups=8)


def _channels_last(b: Builder, x: ir.Value) -> ir.Value:
    factor, offset = _vectors(b, b.static_shape(x)[1])
    y = b.transpose(samples.activated(b, x, b.static_shape(x)[1], 1), (0, 2, 3, 1))
    return b.transpose(b.op("Add", b.op("Mul", y, factor), offset), (0, 3, 1, 2))


def _merged_norm(b: Builder, x: ir.Value) -> ir.Value:
    shape = b.static_shape(x)
    y = samples.conv(b, x, shape[1], sides=3)
    given = (*_vectors(b, shape[1]), *_vectors(b, shape[1]))
    y = b.op("BatchNormalization", b.reshape(y, [*shape[:2], -1, shape[-1]]), *given, epsilon=1e-5)
    return b.reshape(y, shape)


def _normalising() -> Iterator[Sample]:
    yield Sample("layer_norm", (1, 197, 192), _spelled_norm, 6)
    yield Sample("scaled_layer_norm", (1, 197, 192), _scaled_norm, 6)
    for shape in (1, 8, 64), (1, 32, 256), (1, 128, 768):
        yield Sample("root_mean_square", shape, _root_mean_square, 6)
    yield Sample("apart_from_layer_norm", (1, 197, 96), _after_sum, 6)
    yield Sample("group_norm", (1, 64, 28, 28), _group_norm, 4)
    yield Sample("scale_of_channels", (1, 64, 28, 28), _channels_last, 4)
    yield Sample("batch_norm_of_merged", (1, 16, 8, 28, 28), _merged_norm, 2)


def _gelu(b: Builder, x: ir.Value) -> ir.Value:
    """Write a form that onnxruntime does not fuse by itself."""
    rise = b.op("Add", b.op("Erf", b.op("Mul", x, 0.5**0.5)), 1.0)
    return b.op("Mul", b.op("Mul", x, 0.5), rise)


def _pool(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)


def _three(b: Builder, x: ir.Value) -> ir.Value:
    scores = b.op("MatMul", x, b.transpose(x, (0, 2, 1)))
    return b.op("MatMul", scores, x)


def _boxes(b: Builder, x: ir.Value) -> ir.Value:
    """Write a detector's decoding: centres and sizes apart, joined again."""
    rows = b.transpose(x, (0, 2, 1))
    centres, sizes, rest = (
        b.op("Slice", rows, [first], [last], [2]) for first, last in ((0, 2), (2, 4), (4, 84))
    )
    parts = b.op("Mul", b.op("Sigmoid", centres), 2.0), b.op("Mul", sizes, sizes), b.op("Sigmoid", rest)
    return b.reshape(b.op("Concat", *parts, axis=2), b.static_shape(x))


def _rounded(b: Builder, x: ir.Value) -> ir.Value:
    step, zero = b.constant(np.float32(0.05)), b.constant(np.uint8(0))
    return b.op("DequantizeLinear", b.op("QuantizeLinear", x, step, zero), step, zero)


def _quantised_weight(b: Builder, *shape: int) -> ir.Value:
    numbers = b.weight(ir.tensor(np.resize(np.arange(-127, 128, dtype=np.int8), shape)))
    return b.op("DequantizeLinear", numbers, b.constant(np.float32(0.001)), b.constant(np.int8(0)))


def _quantised_conv(b: Builder, x: ir.Value) -> ir.Value:
    channels = b.static_shape(x)[1]
    y = b.op("Conv", _rounded(b, x), _quantised_weight(b, channels, channels, 3, 3), pads=[1] * 4)
    return _rounded(b, b.op("Clip", y, 0.0, 6.0))


def _quantised_gemm(b: Builder, x: ir.Value) -> ir.Value:
    size = b.static_shape(x)[-1]
    bias = b.constant(np.ones(size, np.float32))
    return b.op("Gemm", _rounded(b, x), _quantised_weight(b, size, size), bias)


def _others() -> Iterator[Sample]:
    yield Sample("gelu", (1, 128, 1024), _gelu, 4)
    yield Sample("average_pool", (1, 100, 28, 28), _pool, 4)
    yield Sample("product_of_three", (8, 512, 32), _three, 4)
    yield Sample("transposed_parts", (1, 84, 2100), _boxes, 2)
    yield Sample("faster_softplus", (1, 64, 28, 28), lambda b, x: b.op("Softplus", x), 4)
    yield Sample("faster_mish", (1, 64, 28, 28), lambda b, x: b.op("Mish", x), 4)
    yield Sample("activation_of_integers", (1, 128, 28, 28), _quantised_conv, 4)
    yield Sample("bias_of_integers", (1, 512), _quantised_gemm, 4)
