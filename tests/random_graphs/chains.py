"""Chains of nodes that compilers write otherwise, each a little different every time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tests.random_graphs.draft import Draft
from tests.random_graphs.quantized import add_integers, add_quantized


def add_chain(d: Draft) -> None:
    """Add one of the chains; Refused where it got something that does not fit, with the nodes so far there."""
    d.plain = d.chance(0.5)
    d.mutates = not d.plain
    try:
        _CHAINS[int(d.rng.integers(len(_CHAINS)))](d)
    finally:
        d.mutates = False


def _n(d: Draft, *sizes: int) -> int:
    return int(d.choice(*sizes))


def _number(d: Draft, value: float, *others: float) -> str:
    """A constant number, mostly this one, as a scalar or with dimensions of 1."""
    if d.plain:
        return d.leaf(value, np.float32, fixed=True)
    if d.chance(0.1):
        value = d.choice(*others, value * 1.001, -value, 1.0, 0.0)
    shape = d.choice((), (), (), (1,), (1, 1), (1, 1, 1, 1))
    return d.leaf(np.full(shape, value), np.float32, fixed=not d.chance(0.05))


def _vector(d: Draft, *sizes: int) -> str:
    return d.random(sizes, fixed=d.plain or not d.chance(0.1))


def _activation(d: Draft, x: str) -> str:
    match d.choice(
        "Relu", "Relu", "Clip", "Clip6", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "swish", "Elu"
    ):
        case "Clip":
            return _clip(d, x, d.choice(0.0, -1.0, None), d.choice(6.0, 1.0, None))
        case "Clip6":
            return _clip(d, x, 0.0, 6.0)
        case "HardSwish":
            six, three = _number(d, 6.0, 3.0), _number(d, 3.0, 2.0)
            return d.op("Mul", x, d.op("Div", _clip(d, d.op("Add", x, three), 0.0, 6.0), six))
        case "swish":
            return d.op("Mul", x, d.op("Sigmoid", x))
        case name:
            return d.op(name, x)


def _clip(d: Draft, x: str, low: float | None, high: float | None) -> str:
    if d.opset < 11:
        return d.op("Clip", x, min=low, max=high)
    ends = ["" if v is None else d.leaf(v, d.dtype(x), fixed=d.chance(0.9)) for v in (low, high)]
    return d.op("Clip", x, *ends)


def _reduce(d: Draft, op_type: str, x: str, axes: list[int], keepdims: int = 1) -> str:
    by_input = d.opset >= (13 if op_type == "ReduceSum" else 18)
    if by_input:
        return d.op(op_type, x, d.leaf(axes, np.int64, fixed=not d.chance(0.05)), keepdims=keepdims)
    return d.op(op_type, x, axes=axes, keepdims=keepdims)


def _squeeze(d: Draft, op_type: str, x: str, axes: list[int]) -> str:
    if d.opset >= 13:
        return d.op(op_type, x, d.leaf(axes, np.int64, fixed=True))
    return d.op(op_type, x, axes=axes)


def _pad(d: Draft, x: str) -> str:
    rank = len(d.shape(x))
    amounts = [0] * 2 * rank
    for axis in range(2 if d.chance(0.9) else 1, rank):
        amounts[axis], amounts[axis + rank] = _n(d, 0, 1, 2), _n(d, 0, 1, 2)
    mode = d.choice("constant", "constant", "constant", "reflect", "edge")
    if d.opset < 11:
        return d.op("Pad", x, pads=amounts, mode=mode, value=d.choice(0.0, 0.0, 1.0))
    if d.opset >= 18 and d.chance(0.3):
        axes = [int(a) for a in d.rng.permutation(rank)[: _n(d, 1, rank)]]
        some = d.leaf([amounts[a + side] for side in (0, rank) for a in axes], np.int64, fixed=True)
        return d.op("Pad", x, some, "", d.leaf([a - d.choice(0, rank) for a in axes], np.int64, fixed=True))
    fill = [d.leaf(d.choice(0.0, 0.0, 1.0, -np.inf), d.dtype(x), fixed=True)] if d.chance(0.5) else []
    return d.op("Pad", x, d.leaf(amounts, np.int64, fixed=True), *fill, mode=mode)


def _image(d: Draft, least: int = 1) -> str:
    big = d.chance(0.06)
    if big:
        return d.random((_n(d, 1, 2), _n(d, 48, 192), _n(d, 14, 20), _n(d, 14, 21)))
    space = [max(least, _n(d, 1, 3, 5, 7, 8)) for _ in range(d.choice(2, 2, 2, 2, 1, 3))]
    return d.random((_n(d, 1, 1, 2, 3), _n(d, 1, 3, 4, 8, 16), *space))


def _conv(d: Draft, x: str) -> str:
    channels, space = d.shape(x)[1], d.shape(x)[2:]
    group = d.choice(1, 1, 1, channels)
    filters = channels if channels >= 48 else group * _n(d, 1, 2, 4, 8)
    if channels >= 48:
        group = 1
    kernel = [min(d.choice(1, 3, 3) if channels < 48 else 3, s + 2) for s in space]
    w = d.leaf(
        d.rng.integers(-8, 9, (filters, channels // group, *kernel)) / 8, np.float32, fixed=not d.chance(0.08)
    )
    bias = [d.random((filters,), fixed=True)] if d.chance(0.5) else []
    pads = [k // 2 for k in kernel] * 2 if d.chance(0.7) else None
    steps = d.choice(None, None, [2] * len(kernel))
    return d.op(
        "Conv",
        x,
        w,
        *bias,
        group=group,
        pads=pads,
        strides=steps,
        auto_pad=None if pads or d.chance(0.7) else "SAME_UPPER",
    )


def _norm(d: Draft, x: str) -> str:
    channels = d.shape(x)[1]
    return d.op(
        "BatchNormalization",
        x,
        *(_vector(d, channels) for _ in range(3)),
        d.positive((channels,), fixed=True),
        epsilon=d.choice(None, 1e-3, 0.0),
    )


def _convolution(d: Draft) -> None:
    x = _image(d)
    if d.chance(0.25):
        x = _pad(d, x)
    y = _conv(d, x)
    steps = [_norm, _activation, _scaled_channels, _residual, _pool, _conv, _pad]
    for _ in range(int(d.rng.integers(1, 4))):
        y = steps[int(d.rng.choice(len(steps), p=(0.25, 0.25, 0.15, 0.1, 0.1, 0.1, 0.05)))](d, y)


def _scaled_channels(d: Draft, x: str) -> str:
    shape = d.shape(x)
    one = d.choice(
        (1, shape[1], *[1] * (len(shape) - 2)),
        (shape[1], *[1] * (len(shape) - 2)),
        (),
        (1,),
        (shape[-1],),
        shape,
    )
    return d.op(d.choice("Mul", "Add", "Sub", "Div"), *_ordered(d, x, d.positive(one, fixed=True)))


def _ordered(d: Draft, x: str, y: str) -> tuple[str, str]:
    return (x, y) if d.chance(0.6) else (y, x)


def _residual(d: Draft, x: str) -> str:
    other = d.existing(lambda v: v.shape == d.shape(x) and v.dtype == d.dtype(x)) or x
    return d.op(d.choice("Add", "Sum", "Mul", "Sub"), *_ordered(d, x, other))


def _pool(d: Draft, x: str) -> str:
    space = d.shape(x)[2:]
    kind = d.choice("MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool", "LpPool")
    if kind == "GlobalAveragePool":
        return d.op(kind, x)
    kernel = [min(_n(d, 1, 2, 3, 5), s) for s in space]
    pads = [min(_n(d, 0, 0, 1, 2), k - 1) for k in kernel * 2]
    own = {"count_include_pad": d.choice(None, 0, 1)} if kind == "AveragePool" else {}
    if d.opset >= (18 if kind == "LpPool" else 10):
        own["ceil_mode"] = d.choice(None, None, 0, 1)
    rule = d.choice(None, None, "SAME_UPPER", "SAME_LOWER", "VALID")
    strides = d.choice(None, [_n(d, 1, 2, 3) for _ in kernel])
    if rule and strides:  # no padding that would be negative: onnxruntime alone refuses it
        strides = [min(pair) for pair in zip(strides, kernel, strict=True)]
    return d.op(
        kind, x, kernel_shape=kernel, pads=None if rule else pads, auto_pad=rule, strides=strides, **own
    )


def _padded_pool(d: Draft) -> None:
    y = _pool(d, _pad(d, _image(d, 3)))
    if d.chance(0.4):
        _activation(d, y)


def _matrix(d: Draft) -> str:
    lead = d.choice((), (), (2,), (1,), (2, 3))
    return d.random((*lead, _n(d, 1, 2, 4, 7), _n(d, 1, 3, 4, 8)))


def _linear(d: Draft) -> None:
    x = _matrix(d)
    if d.chance(0.3):
        x = _turned(d, x)
    inner, columns = d.shape(x)[-1], _n(d, 1, 2, 4, 8)
    w = d.random((inner, columns), fixed=not d.chance(0.2))
    if len(d.shape(x)) == 2 and d.chance(0.4):
        c = (
            [d.random(d.choice((columns,), (1, columns), (), (d.shape(x)[0], 1)), fixed=d.chance(0.7))]
            if d.chance(0.6) or d.opset < 11
            else []
        )
        y = d.op("Gemm", x, w, *c, alpha=d.choice(None, 0.5), beta=d.choice(None, 2.0))
    else:
        y = d.op("MatMul", x, w)
    for _ in range(int(d.rng.integers(1, 4))):
        match d.choice("bias", "scale", "act", "turn", "next", "sum", "bias"):
            case "bias":
                vector = d.choice((d.shape(y)[-1],), (1, d.shape(y)[-1]), (1,), d.shape(y))
                y = d.op("Add", *_ordered(d, y, _vector(d, *vector)))
            case "scale":
                y = d.op(d.choice("Mul", "Div"), y, _number(d, 0.5, 2.0))
            case "act":
                y = _activation(d, y)
            case "turn":
                y = _turned(d, y)
            case "sum":
                y = _residual(d, y)
            case "next":
                y = d.op("MatMul", y, d.random((d.shape(y)[-1], _n(d, 1, 3, 8)), fixed=d.chance(0.8)))


def _turned(d: Draft, x: str) -> str:
    rank = len(d.shape(x))
    perm = (
        [*range(rank - 2), rank - 1, rank - 2] if d.chance(0.7) else [int(i) for i in d.rng.permutation(rank)]
    )
    return d.op("Transpose", x, perm=perm)


def _three(d: Draft) -> None:
    if d.chance(0.3):  # large enough for the other order to pay
        m, k, n, p = _n(d, 256, 300), _n(d, 8, 16), _n(d, 256, 300), _n(d, 8, 16)
    else:
        m, k, n, p = (_n(d, 1, 2, 5) for _ in range(4))
    lead = d.choice((), (2,), (1, 2))
    a, b, c = (d.random((*lead, *s)) for s in ((m, k), (k, n), (n, p)))
    y = d.op("MatMul", a, b)
    if d.chance(0.5):
        y = d.op("Mul", *_ordered(d, y, _number(d, 0.125)))
    d.op("MatMul", y, c)


def _attention(d: Draft) -> None:
    batch, heads, tokens, keys, size = (
        _n(d, 1, 2),
        _n(d, 1, 2, 3),
        _n(d, 1, 2, 5),
        _n(d, 2, 4, 5),
        _n(d, 1, 2, 4),
    )
    last = d.choice(size, size, 3)

    def part(tokens: int, size: int, *perm: int) -> str:
        x = d.random((batch, tokens, heads * size))
        x = d.op(
            "Reshape",
            x,
            d.leaf(
                [0, 0, heads, size] if d.chance(0.7) else [batch, tokens, heads, size], np.int64, fixed=True
            ),
        )
        return d.op("Transpose", x, perm=list(perm))

    if d.chance(0.25):
        last, keys = size, tokens
        whole = d.random((batch, tokens, 3 * heads * size))
        whole = d.op("Reshape", whole, d.leaf([0, 0, 3, heads, size], np.int64, fixed=True))
        whole = d.op("Transpose", whole, perm=[2, 0, 3, 1, 4])
        q, k, v = (
            d.op("Gather", whole, d.leaf(i, np.int64, fixed=True), axis=0) for i in d.rng.permutation(3)
        )
        k = d.op("Transpose", k, perm=[0, 1, 3, 2])
    else:
        q, v = part(tokens, size, 0, 2, 1, 3), part(keys, last, 0, 2, 1, 3)
        k = (
            part(keys, size, 0, 2, 3, 1)
            if d.chance(0.6)
            else d.op("Transpose", part(keys, size, 0, 2, 1, 3), perm=[0, 1, 3, 2])
        )
    if d.chance(0.2):
        q = d.op("Mul", q, _number(d, 0.5))
    scores = d.op("MatMul", q, k)
    if d.chance(0.6):
        scores = d.op(d.choice("Mul", "Div"), scores, _number(d, 0.5, 2.0))
    if d.chance(0.3):
        mask = d.choice((tokens, keys), (1, 1, tokens, keys), (batch, 1, 1, keys), (keys,))
        scores = d.op("Add", *_ordered(d, scores, d.random(mask, fixed=d.chance(0.5))))
    axis = d.choice(-1, -1, -1, 3, 3, 2, None)
    mixed = d.op("MatMul", d.op("Softmax", scores, axis=axis), v)
    y = d.op("Transpose", mixed, perm=d.choice([0, 2, 1, 3], [0, 2, 1, 3], [0, 1, 3, 2]))
    if d.chance(0.8):
        d.op("Reshape", y, d.leaf([0, 0, d.shape(y)[2] * d.shape(y)[3]], np.int64, fixed=True))


def _rows(d: Draft) -> str:
    if d.chance(0.2):
        found = d.existing(lambda v: v.ndim > 0 and v.dtype == np.float32 and v.size > 0)
        if found:
            return found
    return d.random((*d.choice((), (2,), (1, 3), (2, 1, 3)), _n(d, 1, 2, 4, 8)))


def _square(d: Draft, x: str) -> str:
    return d.op("Mul", x, x) if d.chance(0.5) else d.op("Pow", x, _number(d, 2.0, 3.0))


def _layer_norm(d: Draft) -> None:
    x = _rows(d)
    if d.chance(0.3):
        x = _residual(d, x)
    rank = len(d.shape(x))
    axes = [d.choice(-1, -1, rank - 1)] if d.chance(0.85) else [int(d.rng.integers(-rank, rank))]
    keepdims = int(not d.chance(0.04))
    mean = _reduce(d, "ReduceMean", x, axes, keepdims)
    centered = d.op("Sub", *((x, mean) if d.chance(0.95) else (mean, x)))
    again = centered if d.chance(0.8) else d.op("Sub", x, mean)
    variance = _reduce(d, "ReduceMean", _square(d, again), axes if d.chance(0.95) else [0], keepdims)
    root = d.op("Sqrt", d.op("Add", *((variance, _epsilon(d)) if d.chance(0.8) else (_epsilon(d), variance))))
    y = _over(d, centered, root)
    _affine(d, y)


def _epsilon(d: Draft) -> str:
    return _number(d, d.choice(1e-5, 1e-3, 1e-12, 1.0), 0.5)


def _over(d: Draft, x: str, root: str) -> str:
    if d.chance(0.6):
        return d.op("Div", *((x, root) if d.chance(0.93) else (root, x)))
    inverse = d.op("Reciprocal", root) if d.chance(0.7) else d.op("Div", _number(d, 1.0), root)
    return d.op("Mul", *_ordered(d, x, inverse))


def _affine(d: Draft, y: str) -> str:
    for op_type in ("Mul", "Add"):
        if d.chance(0.75):
            shape = d.choice(d.shape(y)[-1:], d.shape(y)[-1:], (), d.shape(y), (1, *d.shape(y)[-1:]))
            y = d.op(op_type, *_ordered(d, y, _vector(d, *shape)))
    return y


def _root_mean_square(d: Draft) -> None:
    x = _rows(d)
    axes = [-1] if d.chance(0.85) else [0]
    if d.chance(0.7):
        squares = _reduce(d, "ReduceMean", _square(d, x), axes)
    else:
        squares = d.op("Div", _reduce(d, "ReduceSumSquare", x, axes), _number(d, d.shape(x)[-1]))
    _affine(d, _over(d, x, d.op("Sqrt", d.op("Add", *_ordered(d, squares, _epsilon(d))))))


def _layer_normalization(d: Draft) -> None:
    if d.opset < 17:
        return _layer_norm(d)
    x = _rows(d)
    if d.chance(0.3):
        x = _residual(d, x)
    axis = d.choice(-1, -1, None, int(d.rng.integers(-len(d.shape(x)), len(d.shape(x)))))
    shape = d.shape(x)[-1 if axis is None else axis :]
    ones = d.leaf(np.ones(shape), np.float32, fixed=True)
    w = ones if d.chance(0.4) else _vector(d, *shape)
    bias = [_vector(d, *shape)] if d.chance(0.4) else []
    _affine(d, d.op("LayerNormalization", x, w, *bias, axis=axis, epsilon=d.choice(None, 1e-3)))
    return None


def _gelu(d: Draft) -> None:
    x = _rows(d)
    if d.chance(0.3):
        x = d.op("Add", *_ordered(d, x, _vector(d, d.shape(x)[-1])))
    form = d.choice("erf", "erf", "tanh", "quick", "Gelu")
    if form == "Gelu" and d.opset >= 20:
        d.op("Gelu", x, approximate=d.choice(None, "tanh"))
        return
    if form == "quick":
        d.op("Mul", *_ordered(d, x, d.op("Sigmoid", d.op("Mul", *_ordered(d, x, _number(d, 1.702, 1.7))))))
        return
    if form == "tanh":
        cube = d.op("Pow", x, _number(d, 3.0, 2.0)) if d.chance(0.5) else d.op("Mul", x, d.op("Mul", x, x))
        inner = d.op("Add", *_ordered(d, x, d.op("Mul", *_ordered(d, cube, _number(d, 0.044715)))))
        curve = d.op("Tanh", d.op("Mul", *_ordered(d, inner, _number(d, math.sqrt(2 / math.pi)))))
    elif d.opset >= 9:
        divided = d.chance(0.5)
        inner = (
            d.op("Div", x, _number(d, math.sqrt(2)))
            if divided
            else d.op("Mul", *_ordered(d, x, _number(d, math.sqrt(0.5))))
        )
        curve = d.op("Erf", inner)
    else:
        return
    rise = d.op("Add", *_ordered(d, curve, _number(d, 1.0)))
    half = _number(d, 0.5)
    orders = (
        lambda: d.op("Mul", d.op("Mul", x, half), rise),
        lambda: d.op("Mul", x, d.op("Mul", rise, half)),
    )
    orders += (
        lambda: d.op("Mul", half, d.op("Mul", x, rise)),
        lambda: d.op("Mul", d.op("Mul", rise, x), half),
    )
    d.choice(*orders)()


def _moves(d: Draft) -> None:
    """Values that are moved about, and little else."""
    x = d.random(
        (_n(d, 1, 2), _n(d, 1, 2, 4), _n(d, 1, 3), _n(d, 2, 4))[: _n(d, 2, 3, 4, 4)],
        d.choice(np.float32, np.float32, np.int64, np.float16),
    )
    steps = (
        _turned,
        _turned,
        _merged,
        _unary,
        _reduced,
        _sliced,
        _joined,
        _around,
        _elementwise,
        _split,
        _gathered,
        _softmaxed,
        _pad,
    )
    for _ in range(int(d.rng.integers(2, 6))):
        x = d.choice(*steps)(d, x)


def _merged(d: Draft, x: str) -> str:
    shape = list(d.shape(x))
    if len(shape) > 1 and d.chance(0.6):
        at = int(d.rng.integers(len(shape) - 1))
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    else:
        shape.insert(int(d.rng.integers(len(shape) + 1)), 1)
    if d.chance(0.4) and 0 not in shape:
        shape[int(d.rng.integers(len(shape)))] = -1
    return d.op("Reshape", x, d.leaf(shape, np.int64, fixed=True))


def _unary(d: Draft, x: str) -> str:
    return d.op(d.choice("Abs", "Neg", "Relu", "Identity", "Sign", "Sqrt", "Sigmoid"), x)


def _reduced(d: Draft, x: str) -> str:
    rank = len(d.shape(x))
    axes = [int(a) for a in d.rng.permutation(rank)[: _n(d, 1, 1, 2)]]
    return _reduce(
        d,
        d.choice("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceMin", "ReduceProd"),
        x,
        axes,
        d.choice(0, 1),
    )


def _sliced(d: Draft, x: str) -> str:
    rank = len(d.shape(x))
    axis = int(d.rng.integers(-rank, rank))
    start, end, step = d.choice(
        (0, 2, 1), (1, 2**31 - 1, 1), (0, 2**63 - 1, 2), (-1, -100, -1), (-2, 2**31 - 1, 1), (0, -1, 1)
    )
    if d.opset < 10:
        return d.op("Slice", x, starts=[start], ends=[end], axes=[axis])
    cut = [d.leaf([v], np.int64, fixed=not d.chance(0.05)) for v in (start, end, axis, step)]
    return d.op("Slice", x, *cut[: d.choice(3, 4, 4)])


def _joined(d: Draft, x: str) -> str:
    rank = len(d.shape(x))
    other = d.existing(lambda v: v.shape == d.shape(x) and v.dtype == d.dtype(x)) or x
    return d.op("Concat", x, other, *([x] if d.chance(0.3) else []), axis=int(d.rng.integers(-rank, rank)))


def _around(d: Draft, x: str) -> str:
    """There and back."""
    match d.choice("Cast", "Transpose", "Unsqueeze", "Reshape", "Cast16"):
        case "Cast":
            wide = {"float32": 11, "float16": 1, "int64": 6}.get(d.dtype(x).name, 1)
            back = {"float32": 1, "float16": 10, "int64": 7}.get(d.dtype(x).name, 1)
            return d.op("Cast", d.op("Cast", x, to=wide), to=back)
        case "Cast16":
            return d.op("Cast", d.op("Cast", x, to=10), to=1)
        case "Transpose":
            perm = [int(i) for i in d.rng.permutation(len(d.shape(x)))]
            y = _unary(d, d.op("Transpose", x, perm=perm))
            return d.op("Transpose", y, perm=[int(i) for i in np.argsort(perm)])
        case "Unsqueeze":
            axis = int(d.rng.integers(len(d.shape(x)) + 1))
            y = _squeeze(d, "Unsqueeze", x, [axis])
            return _squeeze(d, "Squeeze", y, [axis])
        case _:
            whole = d.op("Reshape", x, d.leaf([-1], np.int64, fixed=True))
            return d.op("Reshape", whole, d.op("Shape", x))


def _elementwise(d: Draft, x: str) -> str:
    shape = d.shape(x)
    other = d.choice(shape, shape[-1:], (), (1,), (1, *shape), tuple(1 for _ in shape), shape[1:])
    y = d.random(other, d.dtype(x), fixed=d.chance(0.7))
    if d.chance(0.25):  # what changes nothing, or nearly
        op_type, number = d.choice(("Add", 0), ("Mul", 1), ("Div", 1), ("Sub", 0), ("Mul", 0), ("Pow", 1))
        return d.op(
            op_type,
            x,
            d.leaf(np.full(d.choice((), (1,), (1, *(1 for _ in shape))), number), d.dtype(x), fixed=True),
        )
    return d.op(d.choice("Add", "Mul", "Sub", "Max", "Min"), *_ordered(d, x, y))


def _split(d: Draft, x: str) -> str:
    shape = d.shape(x)
    axis = int(d.rng.integers(len(shape)))
    size = shape[axis]
    sizes = [size // 2, size - size // 2]
    if d.opset >= 13:
        parts = d.op("Split", x, d.leaf(sizes, np.int64, fixed=True), axis=axis, outputs=2)
    else:
        parts = d.op("Split", x, axis=axis, split=sizes, outputs=2)
    parts = [_unary(d, p) if d.chance(0.3) else p for p in (parts if d.chance(0.6) else parts[::-1])]
    return d.op("Concat", *parts, axis=axis - (len(shape) if d.chance(0.5) else 0))


def _gathered(d: Draft, x: str) -> str:
    axis = int(d.rng.integers(len(d.shape(x))))
    size = d.shape(x)[axis]
    shape = d.choice((), (1,), (2,), (2, 2))
    return d.op(
        "Gather",
        x,
        d.leaf(d.rng.integers(-size, max(size, 1), shape), np.int64, fixed=d.chance(0.8)),
        axis=axis,
    )


def _softmaxed(d: Draft, x: str) -> str:
    rank = len(d.shape(x))
    return d.op(
        d.choice("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"),
        x,
        axis=int(d.rng.integers(-rank, rank)) if d.opset >= 11 else int(d.rng.integers(rank)),
    )


def _of_shapes(d: Draft) -> None:
    """A shape that is computed from another one."""
    x = d.random((_n(d, 1, 2), _n(d, 2, 3), _n(d, 2, 4)))
    sizes = d.op("Shape", x)
    picked = [
        d.op("Gather", sizes, d.leaf(i if scalar else [i], np.int64, fixed=True), axis=0)
        for i in (0, 1)
        for scalar in [d.chance(0.6)]
    ]
    flat = [p if d.shape(p) else _squeeze(d, "Unsqueeze", p, [0]) for p in picked]
    if d.chance(0.3):
        flat[1] = d.op("Mul", flat[1], d.leaf([1], np.int64, fixed=True))
    target = d.op("Concat", *flat, d.leaf([-1], np.int64, fixed=True), axis=0)
    y = d.op("Reshape", x, target)
    if d.chance(0.5) and d.opset >= 8:
        d.op("Expand", d.random((1,)), sizes)
    if d.chance(0.5) and d.opset >= 9:
        _residual(d, d.op("ConstantOfShape", sizes))
    _turned(d, y)


def _image_layout(d: Draft) -> None:
    """Channels are put last, worked on, and put first again."""
    x = _image(d)
    rank = len(d.shape(x))
    last, first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    y = d.op("Transpose", x, perm=last)
    channels = d.shape(y)[-1]
    y = d.op("Mul", *_ordered(d, y, _vector(d, channels)))
    y = d.op("Add", *_ordered(d, y, _vector(d, *d.choice((channels,), (channels,), (1, channels), (1,)))))
    if d.chance(0.4):
        y = _activation(d, y)
    d.op("Transpose", y, perm=first if d.chance(0.85) else last)


def _merged_norm(d: Draft) -> None:
    x = d.random((_n(d, 1, 2), _n(d, 2, 4), 2, 3, _n(d, 1, 2)))
    if d.chance(0.5):
        x = _conv(d, x)
    n, c, *space = d.shape(x)
    y = _norm(
        d, d.op("Reshape", x, d.leaf([n, c, int(np.prod(space[:-1])), space[-1]], np.int64, fixed=True))
    )
    d.op("Reshape", y, d.leaf([n, c, *space] if d.chance(0.9) else [n * c, *space], np.int64, fixed=True))


def _row_sums(d: Draft) -> None:
    shape = d.choice(
        (64, 64), (1, 100, 48), (1, 16, 16, 32), (16, 16, 16), (1, 48, 10, 10), (3, 70, 64), (2, 3, 4)
    )
    x = d.random(shape)
    axes = d.choice([0], [-2], [1], [1, 2], [0, 1], [2, 3], [1, -2])
    op_type = d.choice(
        "ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare", "ReduceMax", "ReduceLogSumExp"
    )
    _unary(d, _reduce(d, op_type, x, axes, d.choice(0, 1)))


def _boxes(d: Draft) -> None:
    """Parts of the last dimension, after a Transpose, put together again."""
    channels = _n(d, 6, 8)
    x = d.random((1, channels, *d.choice((5,), (3, 4))))
    rank = len(d.shape(x))
    y = d.op(
        "Transpose",
        x,
        perm=[0, *range(2, rank), 1] if d.chance(0.8) else [int(i) for i in d.rng.permutation(rank)],
    )
    size = d.shape(y)[-1]
    sizes = [2, 2, size - 4]
    if d.chance(0.5):
        last = d.choice(-1, rank - 1)
        parts = (
            d.op("Split", y, d.leaf(sizes, np.int64, fixed=True), axis=last, outputs=3)
            if d.opset >= 13
            else d.op("Split", y, axis=last, split=sizes, outputs=3)
        )
    else:
        parts = [_cut(d, y, start, start + n) for start, n in zip((0, 2, 4), sizes, strict=True)]
    a, b, c = parts
    a = d.op("Mul", d.op("Sigmoid", a), _vector(d, *d.choice((), (2,), (1, 1, 2), d.shape(a))))
    b = d.op(d.choice("Exp", "Sqrt", "Abs"), b)
    if d.chance(0.3):
        b = d.op("Sub", b, a)
    d.op("Concat", a, b, c, axis=d.choice(-1, rank - 1, rank - 1, 1))


def _cut(d: Draft, x: str, start: int, end: int) -> str:
    axis = len(d.shape(x)) - 1
    if d.opset < 10:
        return d.op("Slice", x, starts=[start], ends=[end], axes=[axis])
    return d.op("Slice", x, *(d.leaf([v], np.int64, fixed=True) for v in (start, end, axis)))


def _cuts_of_values(d: Draft) -> None:
    """Bounds after bounds, and truths of truths."""
    x = d.random((2, 3), d.choice(np.float32, np.float32, np.float16))
    if d.chance(0.3):
        y = d.op("Not", d.op(d.choice("Equal", "Greater", "Less"), x, d.random((3,), d.dtype(x))))
        y = d.op("Not", y) if d.chance(0.5) else y
        if d.opset >= 9:
            d.op("Where", y, x, d.random((1,), d.dtype(x)))
        return
    for _ in range(3):
        match d.choice("Relu", "Clip", "Clip", "Max", "Min", "Neg"):
            case "Clip":
                x = _clip(d, x, d.choice(-1.0, 0.0, None), d.choice(1.0, 6.0, None))
            case "Max" | "Min" as name:
                x = d.op(name, x, d.random(d.choice((), (3,)), d.dtype(x), fixed=True))
            case name:
                x = d.op(name, x)


def _recurrent(d: Draft) -> None:
    kind = d.choice("LSTM", "GRU", "RNN")
    steps, batch, size, hidden = _n(d, 1, 3), _n(d, 1, 2), _n(d, 1, 3), _n(d, 2, 4)
    direction = d.choice(None, "forward", "reverse", "bidirectional")
    both = 2 if direction == "bidirectional" else 1
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * hidden
    x, w, r = d.random((steps, batch, size)), _vector(d, both, gates, size), _vector(d, both, gates, hidden)
    rest = [_vector(d, both, 2 * gates)] if d.chance(0.6) else []
    if rest and d.chance(0.5):
        rest += [
            d.leaf(d.rng.integers(1, steps + 1, batch), np.int32) if d.chance(0.5) else "",
            d.random((both, batch, hidden)),
        ]
    own = {"linear_before_reset": d.choice(None, 1)} if kind == "GRU" else {}
    y, *_ = d.op(kind, x, w, r, *rest, hidden_size=hidden, direction=direction, outputs=2, **own)
    if d.chance(0.5):
        y = d.op("Transpose", y, perm=[0, 2, 1, 3])
        d.op("Reshape", y, d.leaf([0, 0, -1], np.int64, fixed=True))


def _range_of_rows(d: Draft) -> None:
    """Rows between bounds, some of which count from the end."""
    if d.opset < 11:
        return
    bounds = d.choice((0, 2, 1), (0, 3, 2), (2, -1, -1), (-2, 0, 1), (-1, -4, -1), (1, 1, 1))
    places = d.op("Range", *(d.leaf(v, np.int64, fixed=d.chance(0.3)) for v in bounds))
    d.op("Gather", d.random((_n(d, 3, 5), _n(d, 3, 4))), places, axis=d.choice(None, 0, 1, -1))


def _inverse(d: Draft) -> None:
    """Times one divided by something."""
    kind, sizes = d.choice(np.float32, np.float16, np.int32, np.int64), ((), (3,), (2, 3))
    one = d.leaf(np.ones(d.choice((), (), (1,), (1, 1))), kind, fixed=True)
    y = d.op("Div", one, d.leaf(d.rng.integers(1, 5, d.choice(*sizes)), kind, fixed=d.chance(0.3)))
    d.op("Mul", *_ordered(d, y, d.random(d.choice(*sizes), kind)))


def _turned_product(d: Draft) -> None:
    """A Gemm between Transposes, and an addition."""
    rows, inner, columns = (_n(d, 1, 2, 3) for _ in range(3))
    turns = d.choice(0, 1), d.choice(0, 1)
    sides = []
    for size, turn in zip(((rows, inner), (inner, columns)), turns, strict=True):
        size = size[::-1] if turn else size
        turned = d.op("Transpose", d.random(size[::-1]), perm=[1, 0]) if d.chance(0.5) else ""
        sides.append(turned or d.random(size, fixed=d.chance(0.4)))
    bias = [_vector(d, columns)] if d.opset < 11 or d.chance(0.3) else []
    y = d.op("Gemm", *sides, *bias, transA=turns[0], transB=turns[1], alpha=d.choice(None, 0.5))
    y = _turned(d, y) if d.chance(0.5) else y
    if d.chance(0.5):
        d.op(
            "Sum", *_ordered(d, y, d.random(d.choice(d.shape(y), d.shape(y)[1:], (1,)), fixed=d.chance(0.5)))
        )


def _labels(d: Draft) -> None:
    """A label for another label."""
    x = d.random((2, 3), np.int64)
    for _ in range(_n(d, 2, 3)):
        keys, found = ([int(v) for v in d.rng.permutation(range(-4, 5))[:4]] for _ in range(2))
        given = {"keys_int64s": keys, "values_int64s": found, "default_int64": d.choice(None, 2)}
        x = d.op("LabelEncoder", x, domain="ai.onnx.ml", **given)


_CHAINS: tuple[Callable[[Draft], None], ...] = (
    add_integers,
    *(_convolution,) * 3,
    *(_linear,) * 2,
    *(_moves,) * 4,
    *(add_quantized,) * 2,
    _attention,
    _attention,
    _boxes,
    _cuts_of_values,
    _gelu,
    _image_layout,
    _inverse,
    _labels,
    _layer_norm,
    _layer_normalization,
    _merged_norm,
    _of_shapes,
    _padded_pool,
    _range_of_rows,
    _recurrent,
    _root_mean_square,
    _row_sums,
    _three,
    _turned_product,
)
