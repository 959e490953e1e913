"""The rules of Caffe's layers with windows or a matrix of weights: each writes one as nodes of ONNX."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.caffe.layer import Layer, axis_of
from pinnace.converter.caffe.prototxt import Message
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported


def Convolution(b: Builder, layer: Layer) -> ir.Value:
    """Convolution and Deconvolution: padding is the same on both sides."""
    p, x = layer.parameters, layer.x
    channels, group = b.static_shape(x)[1], p.get("group", 1)
    if layer.kind == "ConvolutionDepthwise":
        group = channels
    kernel, out, turned = _sizes(p, "kernel", 0), p.get("num_output", 0), layer.kind == "Deconvolution"
    if group < 1 or out % group or channels % group or min(*kernel, out) < 1 or b.rank(x) != 4:
        raise Unsupported(
            f"has kernel {kernel}, {out} outputs and {group} groups over {list(b.static_shape(x))}: "
            "name a kernel over two dimensions, and groups that divide outputs and channels"
        )
    sides = (channels, out // group) if turned else (out, channels // group)
    bias = layer.weight(b, 1, [out]) if p.get("bias_term", True) else None
    return b.op(
        "ConvTranspose" if turned else "Conv",
        x,
        layer.weight(b, 0, [*sides, *kernel]),
        bias,
        kernel_shape=kernel,
        strides=_sizes(p, "stride", 1),
        pads=_sizes(p, "pad", 0) * 2,
        dilations=_sizes(p, "dilation", 1),
        group=group,
    )


def InnerProduct(b: Builder, layer: Layer) -> ir.Value:
    """InnerProduct: all axes from `axis` on are one."""
    p, x = layer.parameters, layer.x
    axis, out = axis_of(b, x, p.get("axis", 1)), p.get("num_output", 0)
    shape = b.static_shape(x)
    deep = prod(shape[axis:])
    turned = p.get("transpose", False)
    weight = layer.weight(b, 0, [deep, out] if turned else [out, deep])
    bias = layer.weight(b, 1, [out]) if p.get("bias_term", True) else None
    flat = b.reshape(x, [prod(shape[:axis]), deep])
    y = b.op("Gemm", flat, weight, bias, transB=0 if turned else 1)
    return y if axis == 1 else b.reshape(y, [*shape[:axis], out])


def Pooling(b: Builder, layer: Layer) -> ir.Value:
    """Pooling: Caffe rounds up, and the windows beyond the input count what they cover."""
    p, x = layer.parameters, layer.x
    method = p.get("pool", "MAX")
    if method not in ("MAX", "AVE") or layer.tops > 1:
        raise Unsupported(f"pools by {method} with {layer.tops} tops: write MAX or AVE, and one top")
    if p.get("global_pooling", False):
        return b.op("GlobalMaxPool" if method == "MAX" else "GlobalAveragePool", x)
    kernel, stride, pad = _sizes(p, "kernel", 0), _sizes(p, "stride", 1), _sizes(p, "pad", 0)
    up = p.get("round_mode", "CEIL") == "CEIL" and p.get("ceil_mode", True)
    return _pooled(b, x, method, kernel, stride, pad, up)


def _pooled(
    b: Builder, x: ir.Value, method: str, kernel: list[int], stride: list[int], pad: list[int], up: bool
) -> ir.Value:
    """Windows of Caffe: the last one may reach beyond the padding, which an average then does not count."""
    size = b.static_shape(x)[2:]
    if len(size) != 2 or min(*kernel, *stride) < 1 or min(pad) < 0:
        raise Unsupported(
            f"has kernel {kernel}, stride {stride} and pad {pad} over {list(size)}: name a kernel and "
            "a stride of 1 or more, and a pad of 0 or more, over two dimensions"
        )
    beyond, counts = [], []
    for n, k, s, p in zip(size, kernel, stride, pad, strict=True):
        rest = n + 2 * p - k
        if rest < 0:
            raise Unsupported(
                f"has kernel {kernel}, and {list(size)} with its padding is smaller: give a larger input"
            )
        out = (rest + s - 1 if up else rest) // s + 1
        out -= int(any(pad) and (out - 1) * s >= n + p)
        beyond.append(max(0, (out - 1) * s - rest))
        begins = np.arange(out) * s - p
        counts.append(np.minimum(begins + k, n + p) - begins)
    pads = [*pad, *(p + more for p, more in zip(pad, beyond, strict=True))]
    shared: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": pads}
    if method == "MAX":
        return b.op("MaxPool", x, **shared)
    y = b.op("AveragePool", x, count_include_pad=1, **shared)
    if not any(beyond):
        return y
    return b.op("Mul", y, b.constant(prod(kernel) / np.outer(*counts), np.float32))


def LRN(b: Builder, layer: Layer) -> ir.Value:
    p = layer.parameters
    size, alpha, beta = p.get("local_size", 5), p.get("alpha", 1.0), p.get("beta", 0.75)
    if p.get("norm_region", "ACROSS_CHANNELS") == "ACROSS_CHANNELS":
        return b.op("LRN", layer.x, size=size, alpha=alpha, beta=beta, bias=p.get("k", 1.0))
    square = b.op("Mul", layer.x, layer.x)
    mean = _pooled(b, square, "AVE", [size] * 2, [1, 1], [(size - 1) // 2] * 2, True)
    return b.op("Mul", layer.x, b.op("Pow", b.op("Add", b.op("Mul", mean, alpha), 1), -beta))


def _sizes(p: Message, name: str, default: int) -> list[int]:
    """Height and width of a parameter that is written once, twice, or as `kernel_h` and `kernel_w`."""
    found = p.all(f"{name}_size" if name == "kernel" else name, int) or [default]
    both = [*found, found[-1]][:2]
    return [p.get(f"{name}_{axis}", value) for axis, value in zip("hw", both, strict=True)]
