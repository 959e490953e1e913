"""Chains of quantized operators: with scales of tensors as quantizers write them, of other axes and of blocks.

Most dimensions are the same number, so that scales of one axis have a fitting length along the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from tests.random_graphs.draft import Draft
from tests.random_graphs.operators import scales

_BYTES = (np.int8, np.uint8)
_LATER = (np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4)
"""Types since operator set 21."""


def add_quantized(d: Draft) -> None:
    """Operators of images or matrices, with steps of quantization between most of them."""
    if d.opset < 10:
        return
    n = d.choice(2, 4, 4, 4, 8)
    kind = d.choice(*_BYTES)
    if d.chance(0.5):
        x = d.random((d.choice(1, n), n, n, n)[: d.choice(3, 4, 4, 4)])
        steps = (*(_conv,) * 5, *(_conv_transpose,) * 2, _pool, _pool, _resized, *_ANY)
    else:
        x = d.random((n, d.choice(n, n, 32)) if d.chance(0.7) else (n, n, n))
        steps = (*(_matmul,) * 4, *(_gemm,) * 4, *_ANY)
    if d.chance(0.85):
        x = _given(d, d.shape(x), kind) if d.chance(0.2) else _quantized(d, x, kind)
    for _ in range(int(d.rng.integers(1, 4))):
        x = d.choice(*steps)(d, x)
        if d.chance(0.6):
            x = _quantized(d, x, kind)
    if d.chance(0.15):
        grid, axes = _grid(d, d.shape(x), kind, 0.3)
        d.op("QuantizeLinear", x, *grid, **axes)


def _grid(d: Draft, shape: tuple[int, ...], kind: Any, several: float) -> tuple[list[str], dict[str, int]]:
    """Scale and mostly zero point for values of a shape, and the attributes of several scales."""
    attributes: dict[str, int] = {}
    dims: tuple[int, ...] = d.choice((), (), (), (1,))
    if shape and d.opset >= 13 and d.chance(several):
        axis = int(d.rng.integers(len(shape)))
        dims = shape[axis : axis + 1]
        attributes["axis"] = axis - (len(shape) if d.chance(0.2) else 0)
        if d.opset >= 21 and d.chance(0.3):
            block = attributes["block_size"] = d.choice(2, 4, 16)
            dims = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
    made = [d.leaf(d.rng.choice(scales(d), dims) / d.choice(1, 4), np.float32, fixed=not d.chance(0.03))]
    if d.chance(0.8):
        middle = 128 if kind == np.uint8 else 0
        zero = np.zeros(dims) if d.chance(0.6) else d.rng.integers(-5 * (kind in _BYTES), 6, dims)
        made.append(d.leaf(np.asarray(zero + middle), kind, fixed=True))
    return made, attributes


def _quantized(d: Draft, x: str, kind: Any, several: float = 0.15) -> str:
    """A value after QuantizeLinear and DequantizeLinear, mostly with the same steps."""
    if d.opset >= 21 and d.chance(0.05):
        kind = d.choice(*_LATER)
    grid, axes = _grid(d, d.shape(x), kind, several)
    integers = d.op("QuantizeLinear", x, *grid, **axes)
    if d.chance(0.1):
        integers = d.op(d.choice("Transpose", "Identity"), integers)
    if d.chance(0.05):
        grid, axes = _grid(d, d.shape(x), kind, several)
    return d.op("DequantizeLinear", integers, *grid, **axes)


def _given(d: Draft, shape: tuple[int, ...], kind: Any) -> str:
    """Integers of a request after DequantizeLinear, of 32 bits now and then."""
    if wide := d.chance(0.3):
        kind = np.int32
    elif d.opset >= 21 and d.chance(0.2):
        kind = d.choice(np.int16, np.uint16)
    (scale, *zero), axes = _grid(d, shape, kind, 0.15)
    integers = d.leaf(d.rng.integers(-200, 200, shape), kind)
    return d.op("DequantizeLinear", integers, scale, *(() if wide else zero), **axes)


def _weight(d: Draft, shape: tuple[int, ...]) -> str:
    """A constant in floats, in integers, or in floats that the graph quantizes; some have several readers.

    It may be transposed or reshaped, before or after DequantizeLinear.
    """
    shared = d.existing(lambda v: v.shape == shape and v.dtype == np.float32) if d.chance(0.1) else None
    form = d.choice("floats", "steps", "steps", *("integers",) * 6)
    if shared or form == "floats":
        return shared or d.random(shape, fixed=True)
    kind = d.choice(*_BYTES, np.int8, *(_LATER if d.opset >= 21 else ()))
    moves: tuple[Callable[[str], str], ...] = (
        lambda w: d.op("Transpose", w),
        lambda w: d.op("Reshape", w, d.leaf(shape, np.int64, fixed=True)),
    )
    stored, move = d.choice((shape, None), (shape, None), (shape[::-1], moves[0]), ((shape[0], -1), moves[1]))
    stored = tuple(np.zeros(shape).reshape(stored).shape)
    early = d.chance(0.5) and form == "integers"
    grid, axes = _grid(d, shape if early else stored, kind, 0.5)
    if form == "integers":
        ends = ml_dtypes.iinfo(kind)
        q = d.leaf(d.rng.integers(max(ends.min, -200), min(ends.max, 300) + 1, stored), kind, fixed=True)
    else:
        q = d.op("QuantizeLinear", d.random(stored, fixed=True), *grid, **axes)
    w = d.op("DequantizeLinear", move(q) if move and early else q, *grid, **axes)
    return move(w) if move and not early else w


def _bias(d: Draft, size: int, x: str, w: str) -> list[str]:
    """None, floats, or integers whose scale is the product of those of the other inputs, or another one."""
    form = d.choice("none", "floats", "product", "product", "other")
    if form in ("none", "floats"):
        return [d.random((size,), fixed=True)] if form == "floats" else []
    scale = np.asarray(d.choice(0.01, 0.002))
    if form == "product":
        scale = np.asarray(_scale_of(d, x) * _scale_of(d, w))
    if d.chance(0.3) and not scale.ndim:
        scale = np.full(size, scale)
    b = d.leaf(d.rng.integers(-500, 500, size), np.int32, fixed=True)
    zero = [d.leaf(np.zeros(scale.shape), np.int32, fixed=True)] if d.chance(0.5) else []
    several = {"axis": 0} if scale.ndim and d.opset >= 13 else {}
    return [d.op("DequantizeLinear", b, d.leaf(scale, np.float32, fixed=True), *zero, **several)]


def _scale_of(d: Draft, x: str) -> np.ndarray:
    made = next((n for n in d.nodes if x in n.output and n.op_type == "DequantizeLinear"), None)
    return np.asarray(0.01) if made is None else np.squeeze(d.values[made.input[1]])


def _conv(d: Draft, x: str) -> str:
    _, n, *space = d.shape(x)
    group = d.choice(1, 1, n, 2)
    kernel = [d.choice(1, s, 3) for s in space]
    w = _weight(d, (d.choice(n, n, 2 * n), n // group, *kernel))
    pads = [k // 2 for k in kernel] * 2
    return d.op("Conv", x, w, *_bias(d, d.shape(w)[0], x, w), group=group, pads=pads)


def _conv_transpose(d: Draft, x: str) -> str:
    _, n, *space = d.shape(x)
    group = d.choice(1, 1, n)
    w = _weight(d, (n, n // group, *(d.choice(1, s, 2) for s in space)))
    return d.op("ConvTranspose", x, w, *_bias(d, n, x, w), group=group, strides=[d.choice(1, 2)] * len(space))


def _gemm(d: Draft, x: str) -> str:
    turned, inner = d.choice(None, None, None, 1), d.shape(x)[-1]
    inner = d.shape(x)[0] if turned else inner
    across = d.choice(None, 0, 1)
    columns = d.choice(inner, inner, 2 * inner)
    w = _weight(d, (columns, inner) if across else (inner, columns))
    bias = _bias(d, columns, x, w)
    alpha, beta = d.choice((None, None), (None, None), (0.5, 2.0))
    return d.op("Gemm", x, w, *bias, transA=turned, transB=across, alpha=alpha, beta=beta)


def _matmul(d: Draft, x: str) -> str:
    *lead, _, inner = d.shape(x)
    shape = (*(lead if d.chance(0.4) else ()), inner, d.choice(inner, inner, 2 * inner))
    other = _quantized(d, d.random(shape), d.choice(*_BYTES), 0.3) if d.chance(0.25) else _weight(d, shape)
    return d.op("MatMul", *((x, other) if d.chance(0.85) or shape[-1] != inner else (other, x)))


def _binary(d: Draft, x: str) -> str:
    shape = d.shape(x)
    other = d.existing(lambda v: v.shape == shape and v.dtype == np.float32) if d.chance(0.3) else None
    if other is None:
        kind = d.choice(*_BYTES)
        other = _quantized(d, d.random(shape), kind) if d.chance(0.5) else _weight(d, shape)
    operator = d.choice("Add", "Add", "Mul", "Sub", "Max", "Concat", "Where")
    pair = (x, other) if d.chance(0.7) else (other, x)
    if operator == "Where":
        return d.op(operator, d.random(shape, np.bool_), *pair)
    return d.op(
        operator, *pair, **({"axis": int(d.rng.integers(len(shape)))} if operator == "Concat" else {})
    )


def _unary(d: Draft, x: str) -> str:
    shape = d.shape(x)
    match d.choice(
        "Relu", "Relu", "LeakyRelu", "Sigmoid", "Clip", "Softmax", "Transpose", "Reshape", "Split"
    ):
        case "Clip" if d.opset < 11:
            return d.op("Clip", x, min=0.0, max=6.0)
        case "Clip":
            return d.op("Clip", x, *(d.leaf(v, np.float32, fixed=True) for v in (d.choice(0.0, -1.0), 6.0)))
        case "Softmax":
            return d.op("Softmax", x, axis=int(d.rng.integers(len(shape))))
        case "Transpose":
            return d.op("Transpose", x, perm=[int(i) for i in d.rng.permutation(len(shape))])
        case "Reshape":
            return d.op("Reshape", x, d.leaf([*shape[1:], shape[0]], np.int64, fixed=True))
        case "Split":
            return d.op("Split", x, outputs=2, axis=len(shape) - 1, num_outputs=2 if d.opset > 17 else None)[
                0
            ]
        case name:
            return d.op(name, x)


def _pool(d: Draft, x: str) -> str:
    kind = d.choice("MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    own = {} if kind.startswith("Global") else {"kernel_shape": [2] * (len(d.shape(x)) - 2)}
    if own and d.chance(0.3):
        own["pads"] = [1] * 2 * len(own["kernel_shape"])
    return d.op(kind, x, **own)


def _resized(d: Draft, x: str) -> str:
    factors = d.leaf([1.0, 1.0, *[2.0] * (len(d.shape(x)) - 2)], np.float32, fixed=True)
    mode = d.choice("nearest", "linear")
    return d.op("Resize", x, *(["", factors] if d.opset > 10 else [factors]), mode=mode)


_ANY = (_binary, _binary, _unary, _unary)


def add_integers(d: Draft) -> None:
    """Products of integers: with steps that only the run knows, or with those of the graph."""
    d.choice(_dynamic, _linear)(d)


def _dynamic(d: Draft) -> None:
    if d.opset < 11:
        return
    n, image = d.choice(4, 4, 8), d.chance(0.4)
    x = d.random((n,) * 4 if image else (*d.choice((), (2,)), 3, n))
    q, scale, zero = d.op("DynamicQuantizeLinear", x, outputs=3)
    kind = d.choice(*_BYTES)
    w = d.leaf(
        d.rng.integers(0 if kind == np.uint8 else -60, 60, (n,) * (4 if image else 2)), kind, fixed=True
    )
    points = [zero] if d.chance(0.9) else []
    if points and d.chance(0.4):
        shape = () if image else d.choice((), (n,))
        points.append(d.leaf(d.rng.integers(0, 5, shape), kind, fixed=True))
    y = d.op("ConvInteger" if image else "MatMulInteger", q, w, *points)
    factors = d.leaf(d.rng.choice(scales(d), d.choice((), (n,))), np.float32, fixed=not d.chance(0.05))
    y = d.op(
        "Mul", d.op("Cast", y, to=1), d.op("Mul", *((scale, factors) if d.chance(0.6) else (factors, scale)))
    )
    if d.chance(0.5):
        d.op("Add", y, d.random((n,), fixed=True))


def _linear(d: Draft) -> None:
    if d.opset < 10:
        return
    n, image = d.choice(2, 4, 4, 8), d.chance(0.5)
    kind, other = d.choice(*_BYTES), d.choice(*_BYTES)
    shape = (n,) * (4 if image else d.choice(2, 2, 3))

    def steps(dims: tuple[int, ...], kind: Any) -> list[str]:
        zero = d.rng.integers(0, 5, dims) if d.chance(0.5) else np.zeros(dims)
        return [d.leaf(d.rng.choice(scales(d), dims), np.float32, fixed=True), d.leaf(zero, kind, fixed=True)]

    several = d.choice((), (n,), (1,) if image else (n,))
    x = d.op("QuantizeLinear", d.random(shape), *(x_steps := steps((), kind)))
    w = d.leaf(d.rng.integers(0, 100, shape if image else (n, n)), other, fixed=d.chance(0.9))
    bias = [d.leaf(d.rng.integers(-99, 99, n), np.int32, fixed=True)] if image and d.chance(0.5) else []
    y_steps = steps((), kind)
    operator = "QLinearConv" if image else "QLinearMatMul"
    y = d.op(operator, x, *x_steps, w, *steps(several, other), *y_steps, *bias)
    if d.chance(0.6):
        d.op("DequantizeLinear", y, *y_steps)
