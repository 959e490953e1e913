"""The rules of Caffe's layers: a function with the name of a layer writes it as nodes of ONNX.

Parameters and defaults are those of Caffe's caffe.proto, and of the layers that SSD, DeepLab and others added
to it. A network has fixed shapes, so that what depends on them is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import isfunction
from math import prod

import numpy as np
import onnx_ir as ir

from pinnace.converter.caffe import windows
from pinnace.converter.caffe.layer import Layer, axis_of
from pinnace.converter.caffe.prototxt import Message
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported

Rule = Callable[[Builder, Layer], ir.Value | Sequence[ir.Value]]


def kind_of(name: str) -> str:
    """Return the type of a layer by its present name: networks once wrote INNER_PRODUCT."""
    return _OLD.get(name.replace("_", "").lower(), name)


def write(b: Builder, layer: Layer) -> Sequence[ir.Value]:
    """Return the results of a layer. Raises Unsupported, and ModelFormatError for what does not fit."""
    if layer.kind in _OPERATORS:
        return [b.op(_OPERATORS[layer.kind], layer.x)]
    if layer.kind not in _RULES:
        raise Unsupported(
            "the converter has no rule for this type: cut the network before it, or write it of others"
        )
    results = _RULES[layer.kind](b, layer)
    return [results] if isinstance(results, ir.Value) else results


def _any(names: Iterable[str]) -> str:
    return " or ".join(names)


def BatchNorm(b: Builder, layer: Layer) -> ir.Value:
    p, x = layer.parameters, layer.x
    if not p.get("use_global_stats", True):
        raise Unsupported("computes statistics of the batch, as for training: write use_global_stats: true")
    channels = b.static_shape(x)[1]
    blobs = (layer.blob(i, [n]).numpy().ravel() for i, n in enumerate((channels, channels, 1)))
    mean, variance, (total,) = blobs
    scale = 1 / total if total else 0.0
    ones, zeros = (b.constant(np.full(channels, v), np.float32) for v in (1, 0))
    known = [b.constant(v * scale, np.float32) for v in (mean, variance)]
    return b.op("BatchNormalization", x, ones, zeros, *known, epsilon=p.get("eps", 1e-5))


def _beside(b: Builder, x: ir.Value, other: ir.Value, axis: int) -> ir.Value:
    """`other`, whose dimensions are those of `x` from `axis` on, as an operand beside it."""
    rank, own = b.rank(x), b.static_shape(other)
    axis = axis_of(b, x, axis)
    return b.reshape(other, [*own, *[1] * (rank - axis - len(own))])


def Scale(b: Builder, layer: Layer) -> ir.Value:
    """Scale and Bias: by a second input, or by blobs of the dimensions from `axis` on."""
    p, x, blobs = layer.parameters, layer.x, 0
    axis, y = p.get("axis", 1), x
    shape = b.static_shape(x)
    start = axis_of(b, x, axis)
    count = p.get("num_axes", 1)
    own = shape[start:] if count == -1 else shape[start : start + count]

    def operand() -> ir.Value:
        nonlocal blobs
        if len(layer.bottoms) > 1 and y is x:
            return _beside(b, x, layer.bottom(1), axis)
        blobs += 1
        return _beside(b, x, layer.weight(b, blobs - 1, own), axis)

    if layer.kind == "Scale":
        y = b.op("Mul", x, operand())
    if layer.kind == "Bias" or p.get("bias_term", False):
        y = b.op("Add", y, operand())
    return y


def Eltwise(b: Builder, layer: Layer) -> ir.Value:
    p = layer.parameters
    operation, factors = p.get("operation", "SUM"), p.all("coeff", float)
    terms = list(layer.bottoms)
    if factors and operation == "SUM":
        terms = [b.op("Mul", x, f) if f != 1 else x for x, f in zip(terms, factors, strict=True)]
    if operation not in _ELTWISE or not terms:
        raise Unsupported(
            f"has operation {operation} over {len(terms)} inputs: name inputs, and {_any(_ELTWISE)}"
        )
    y = terms[0]
    for other in terms[1:]:
        y = b.op(_ELTWISE[operation], y, other)
    return y


_ELTWISE = {"SUM": "Add", "PROD": "Mul", "MAX": "Max"}


def Concat(b: Builder, layer: Layer) -> ir.Value:
    p = layer.parameters
    axis = p.get("axis", p.get("concat_dim", 1))
    return b.op("Concat", *layer.bottoms, axis=axis_of(b, layer.x, axis))


def Slice(b: Builder, layer: Layer) -> Sequence[ir.Value]:
    p, x = layer.parameters, layer.x
    axis, points = axis_of(b, x, p.get("axis", p.get("slice_dim", 1))), p.all("slice_point", int)
    size = b.static_shape(x)[axis]
    if not points:
        points = [size // layer.tops * i for i in range(1, layer.tops)]
    parts = np.diff([0, *points, size]).tolist()
    if min(parts) < 1 or len(parts) != layer.tops:
        raise Unsupported(
            f"cuts {size} elements at {points} for {layer.tops} tops: name rising places, one fewer than tops"
        )
    return b.ops("Split", layer.tops, x, parts, axis=axis)


def Flatten(b: Builder, layer: Layer) -> ir.Value:
    p, x = layer.parameters, layer.x
    shape = b.static_shape(x)
    start, end = axis_of(b, x, p.get("axis", 1)), axis_of(b, x, p.get("end_axis", -1)) + 1
    return b.reshape(x, [*shape[:start], prod(shape[start:end]), *shape[end:]])


def Reshape(b: Builder, layer: Layer) -> ir.Value:
    p, x = layer.parameters, layer.x
    shape, dims = b.static_shape(x), p.message("shape").all("dim", int)
    axis, count = p.get("axis", 0), p.get("num_axes", -1)
    start = axis + (len(shape) + 1 if axis < 0 else 0)
    end = len(shape) if count == -1 else start + count
    if not 0 <= start <= end <= len(shape) or any(d == 0 for d in dims[end - start :]):
        raise Unsupported(f"makes {dims} of {list(shape)} from axis {axis}: name axes that its input has")
    made = [shape[start + i] if d == 0 else d for i, d in enumerate(dims)]
    whole = [*shape[:start], *made, *shape[end:]]
    rest = prod(d for d in whole if d != -1)
    if whole.count(-1) > 1 or (prod(shape) % rest if -1 in whole else prod(shape) - rest):
        raise Unsupported(f"makes {whole} of {list(shape)}: name dimensions with as many elements")
    return b.reshape(x, [prod(shape) // rest if d == -1 else d for d in whole])


def Power(b: Builder, layer: Layer) -> ir.Value:
    p = layer.parameters
    y = _linear(b, layer.x, p)
    power = p.get("power", 1.0)
    return y if power == 1 else b.op("Pow", y, power)


def _linear(b: Builder, x: ir.Value, p: Message) -> ir.Value:
    scale, shift = p.get("scale", 1.0), p.get("shift", 0.0)
    y = x if scale == 1 else b.op("Mul", x, scale)
    return y if shift == 0 else b.op("Add", y, shift)


def Exp(b: Builder, layer: Layer) -> ir.Value:
    p = layer.parameters
    base, y = p.get("base", -1.0), _linear(b, layer.x, p)
    return b.op("Exp", y if base == -1 else b.op("Mul", y, float(np.log(base))))


def Log(b: Builder, layer: Layer) -> ir.Value:
    p = layer.parameters
    base, y = p.get("base", -1.0), b.op("Log", _linear(b, layer.x, p))
    return y if base == -1 else b.op("Div", y, float(np.log(base)))


def PReLU(b: Builder, layer: Layer) -> ir.Value:
    channels = 1 if layer.parameters.get("channel_shared", False) else b.static_shape(layer.x)[1]
    slope = layer.weight(b, 0, [channels])
    return b.op("PRelu", layer.x, b.reshape(slope, [channels, *[1] * (b.rank(layer.x) - 2)]))


def ReLU(b: Builder, layer: Layer) -> ir.Value:
    slope = layer.parameters.get("negative_slope", 0.0)
    return b.op("LeakyRelu", layer.x, alpha=slope) if slope else b.op("Relu", layer.x)


def Crop(b: Builder, layer: Layer) -> ir.Value:
    p, x = layer.parameters, layer.x
    axis, offsets = axis_of(b, x, p.get("axis", 2)), p.all("offset", int)
    want = b.static_shape(layer.bottom(1))[axis:]
    starts = [*offsets, *(offsets[-1:] or [0]) * len(want)][: len(want)]
    ends = [start + size for start, size in zip(starts, want, strict=True)]
    return b.op("Slice", x, starts, ends, list(range(axis, axis + len(want))))


def Interp(b: Builder, layer: Layer) -> ir.Value:
    """Interp of DeepLab and PSPNet: by factors with the corners in place, or to a size."""
    p, x = layer.parameters, layer.x
    before, after = p.get("pad_beg", 0), p.get("pad_end", 0)
    if before or after:
        ends = [size + after for size in b.static_shape(x)[2:]]
        x = b.op("Slice", x, [-before] * 2, ends, [2, 3])
    size = [p.get("height", 0), p.get("width", 0)]
    if not all(size):
        shrink, zoom = p.get("shrink_factor", 1), p.get("zoom_factor", 1)
        size = [(n - 1) // shrink + 1 for n in b.static_shape(x)[2:]]
        size = [n + (n - 1) * (zoom - 1) for n in size]
    mode = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return b.op("Resize", x, None, None, [*b.static_shape(x)[:2], *size], **mode)


def Upsample(b: Builder, layer: Layer) -> ir.Value:
    scale = layer.parameters.get("scale", 2)
    size = [n * scale for n in b.static_shape(layer.x)[2:]]
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return b.op("Resize", layer.x, None, None, [*b.static_shape(layer.x)[:2], *size], **mode)


def Normalize(b: Builder, layer: Layer) -> ir.Value:
    """Normalize of SSD."""
    p, x = layer.parameters, layer.x
    axes = [1, 2, 3] if p.get("across_spatial", True) else [1]
    total = b.op("ReduceSum", b.op("Mul", x, x), axes)
    y = b.op("Div", x, b.op("Sqrt", b.op("Add", total, p.get("eps", 1e-10))))
    channels = 1 if p.get("channel_shared", True) else b.static_shape(x)[1]
    return b.op("Mul", y, b.reshape(layer.weight(b, 0, [channels]), [channels, 1, 1]))


def MVN(b: Builder, layer: Layer) -> ir.Value:
    p, x = layer.parameters, layer.x
    axes = [1, 2, 3] if p.get("across_channels", False) else [2, 3]
    y = b.op("Sub", x, b.op("ReduceMean", x, axes))
    if not p.get("normalize_variance", True):
        return y
    std = b.op("Sqrt", b.op("ReduceMean", b.op("Mul", y, y), axes))
    return b.op("Div", y, b.op("Add", std, p.get("eps", 1e-9)))


def ArgMax(b: Builder, layer: Layer) -> ir.Value:
    p, x = layer.parameters, layer.x
    if p.get("top_k", 1) != 1 or p.get("out_max_val", False) or "axis" not in p.fields:
        raise Unsupported(
            "gives several or greatest values, or has no axis: write axis, top_k: 1 and out_max_val: false"
        )
    axis = axis_of(b, x, p.get("axis", 0))
    return b.cast(b.op("ArgMax", x, axis=axis), ir.DataType.FLOAT)


def Reduction(b: Builder, layer: Layer) -> ir.Value:
    p, x = layer.parameters, layer.x
    operation = p.get("operation", "SUM")
    if operation not in _REDUCTIONS:
        raise Unsupported(f"has operation {operation}: write {_any(_REDUCTIONS)}")
    axes = list(range(axis_of(b, x, p.get("axis", 0)), b.rank(x)))
    y = b.op(_REDUCTIONS[operation], x, axes, keepdims=0)
    factor = p.get("coeff", 1.0)
    return y if factor == 1 else b.op("Mul", y, factor)


_REDUCTIONS = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


def Tile(b: Builder, layer: Layer) -> ir.Value:
    p, rank = layer.parameters, b.rank(layer.x)
    repeats = [1] * rank
    repeats[axis_of(b, layer.x, p.get("axis", 1))] = p.get("tiles", 1)
    return b.op("Tile", layer.x, repeats)


def ShuffleChannel(b: Builder, layer: Layer) -> ir.Value:
    """ShuffleChannel of ShuffleNet."""
    group = layer.parameters.get("group", 1)
    n, c, h, w = b.static_shape(layer.x)
    if group < 1 or c % group:
        raise Unsupported(f"has {group} groups over {c} channels: name a group that divides them")
    parts = b.transpose(b.reshape(layer.x, [n, group, c // group, h, w]), [0, 2, 1, 3, 4])
    return b.reshape(parts, [n, c, h, w])


def Embed(b: Builder, layer: Layer) -> ir.Value:
    p = layer.parameters
    out, size = p.get("num_output", 0), p.get("input_dim", 0)
    places = b.cast(layer.x, ir.DataType.INT64)
    y = b.op("Gather", layer.weight(b, 0, [size, out]), places)
    return b.op("Add", y, layer.weight(b, 1, [out])) if p.get("bias_term", True) else y


_OPERATORS = {
    "AbsVal": "Abs",
    "BNLL": "Softplus",
    "Dropout": "Identity",
    "Sigmoid": "Sigmoid",
    "TanH": "Tanh",
}
"""Layers that are an operator of ONNX."""
_RULES: dict[str, Rule] = {
    name: f for name, f in (vars(windows) | globals()).items() if name[0].isupper() and isfunction(f)
}
_RULES |= dict.fromkeys(
    ("ConvolutionDepthwise", "Deconvolution", "DepthwiseConvolution"), windows.Convolution
)
_RULES["Bias"] = Scale
_RULES |= {
    "ELU": lambda b, layer: b.op("Elu", layer.x, alpha=layer.parameters.get("alpha", 1.0)),
    "Permute": lambda b, layer: b.transpose(layer.x, layer.parameters.all("order", int)),
    "ReLU6": lambda b, layer: b.op("Clip", layer.x, 0.0, 6.0),
    "Silence": lambda b, layer: (),
    "Softmax": lambda b, layer: b.op("Softmax", layer.x, axis=layer.parameters.get("axis", 1)),
    "Split": lambda b, layer: [b.op("Identity", layer.x) for _ in range(layer.tops)],
    "Swish": lambda b, layer: b.op("Mul", layer.x, b.op("Sigmoid", layer.x)),
    "Threshold": lambda b, layer: b.cast(
        b.op("Greater", layer.x, layer.parameters.get("threshold", 0.0)), ir.DataType.FLOAT
    ),
}
_OLD = {kind.lower(): kind for kind in (*_RULES, *_OPERATORS)}
