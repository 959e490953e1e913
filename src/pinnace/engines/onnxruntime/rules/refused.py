"""Rewrites of ONNX forms that onnxruntime (seen in 1.31) refuses or computes wrongly."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.engines.onnxruntime.rules.softplus import softplus
from pinnace.graph.builder import Builder
from pinnace.graph.constants import constant, ints
from pinnace.graph.matching import attributes, is_read, made_by
from pinnace.graph.windows import windows


def same_as_pads(b: Builder, node: ir.Node) -> ir.Value | None:
    """Conv or pool with auto_pad, and with dilations or strides beyond its windows -> with pads.

    A Conv with dilations is refused, pools are computed without theirs; pools with pads of whole windows are
    refused, too. Where windows step over elements the padding is negative: pools are refused, a Conv's
    windows may move.
    """
    x = node.inputs[0]
    if x is None or any(map(is_read, node.outputs[1:])):
        return None
    over = windows(b, node)
    if not over.is_same:
        return None
    # With stride 1 padding does not depend on the size; a window of one element needs none.
    along = zip(b.shape(x)[2:], over.reach, over.strides, strict=True)
    size = [s if n is None and 1 in (r, s) else n for n, r, s in along]
    known = [n for n in size if n is not None]
    if len(known) < len(size):
        return None
    step_over = (n > (n - 1) // s * s + r for n, r, s in zip(known, over.reach, over.strides, strict=True))
    if over.kernel == over.reach and not any(step_over):
        return None
    pads = over.padded(known)
    whole = any(n >= k for n, k in zip(pads, over.kernel * 2, strict=True))
    if whole and not node.op_type.startswith("Conv"):
        return None
    return b.op(node.op_type, *node.inputs, pads=pads, **attributes(node, "auto_pad", "pads"))


def same_with_holes(b: Builder, node: ir.Node) -> ir.Value | None:
    """Conv of images of free sizes with dilations and auto_pad, which is refused -> Pad and Conv."""
    x, over = node.inputs[0], windows(b, node)
    if not over.is_same or over.kernel == over.reach or x is None:
        return None
    step, length = b.constant(over.strides, np.int64), b.op("Shape", x, start=2)
    last = b.op("Mul", b.op("Div", b.op("Sub", length, 1), step), step)
    total = b.op("Max", b.op("Sub", b.op("Add", last, list(over.reach)), length), b.constant(0, np.int64))
    less = b.op("Div", total, 2)
    sides = [less, b.op("Sub", total, less)]
    before, after = sides if over.padding == "SAME_UPPER" else sides[::-1]
    padded = b.op("Pad", x, b.op("Concat", [0, 0], before, [0, 0], after, axis=0))
    return b.op("Conv", padded, *node.inputs[1:], **attributes(node, "auto_pad", "pads"))


def resize_of_all_axes(b: Builder, node: ir.Node) -> ir.Value | None:
    """Resize of some axes, which an optimizer that moves Transposes computes wrongly -> sizes of all axes."""
    x, roi, scales, sizes = (*node.inputs, None, None, None)[:4]
    axes, wanted = node.attributes.get_ints("axes", ()), ints(sizes)
    if x is None or roi is not None or scales is not None or not axes or wanted is None:
        return None
    whole = list(b.static_shape(x))
    for axis, size in zip(axes, wanted, strict=True):
        whole[axis] = size
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    return b.op("Resize", x, None, None, whole, **attributes(node, "axes"))


def log_of_sigmoid(b: Builder, node: ir.Node) -> ir.Value | None:
    """Log(Sigmoid(x)) -> Neg(Softplus(-x)); the Sigmoid saturates at -18, its logarithm does not."""
    sigmoid = made_by(node.inputs[0], "Sigmoid")
    if sigmoid is None or sigmoid.inputs[0] is None:
        return None
    return b.op("Neg", softplus(b, b.op("Neg", sigmoid.inputs[0])))


def reduction_of_nothing(b: Builder, node: ir.Node) -> ir.Value | None:
    """Reduction along negative axes, computed wrongly if `x` is empty -> along axes from the front."""
    x, axes = (*node.inputs, None)[:2]
    kept = attributes(node)
    given = ints(axes) or kept.pop("axes", None) or [kept.get("axis", 0)]
    if x is None or min(given) >= 0 or all(b.shape(x)):
        return None
    front = [b.axis(a, x) for a in given]
    if axes is not None:
        return b.op(node.op_type, x, front, **kept)
    return b.op(node.op_type, x, **kept | ({"axis": front[0]} if "axis" in kept else {"axes": front}))


def pool_of_nothing(b: Builder, node: ir.Node) -> ir.Value | None:
    """Pool of images without channels, which is refused -> pool of no images."""
    x = node.inputs[0]
    if x is None or x.shape is None or x.shape[1] != 0:  # not worth an inference
        return None
    if any(map(is_read, node.outputs[1:])):
        return None
    y = b.op(node.op_type, b.reshape(x, [0, 1, *b.dims(x)[2:]]), **attributes(node))
    return b.reshape(y, [b.dim(x, 0), 0, *b.dims(y)[2:]])


def product_with_vector(b: Builder, node: ir.Node) -> ir.Value | None:
    """MatMul with a vector -> MatMul with a matrix, Squeeze.

    Matrices without rows are refused; of transposed ones, also before other nodes, an optimizer makes a
    FusedMatMul that is wrong. The kernel for vectors is slower, too: 2 (64 x 64) to 15 times (32 x 4096).
    """
    x, y = node.inputs
    if x is None or y is None or b.rank(y) != 1:
        return None
    if b.opset < 13:
        product = b.op("MatMul", x, b.op("Unsqueeze", y, axes=[1]))
        return b.op("Squeeze", product, axes=[b.rank(x) - 1])
    return b.op("Squeeze", b.op("MatMul", x, b.op("Unsqueeze", y, [1])), [-1])


def prelu_of_integers(b: Builder, node: ir.Node) -> ir.Value | None:
    """PRelu of integers, for which there is no kernel -> x * slope or x. Floats would round large ones."""
    x, slope = node.inputs
    if x is None or slope is None or not b.dtype(x).is_integer():
        return None
    return b.op("Where", b.op("Less", x, b.like(0, x)), b.op("Mul", x, slope), x)


def signed_steps(b: Builder, node: ir.Node) -> ir.Value | None:
    """DequantizeLinear of QuantizeLinear to int8 -> both with uint8, shifted by 128.

    onnxruntime does the same for its kernels on x86, but sometimes produces a graph that it refuses. On Arm
    it has kernels for int8, whose inputs and outputs are of one type.
    """
    if platform.machine() == "aarch64":
        return None
    before = made_by(node.inputs[0], "QuantizeLinear")
    if before is None or before.inputs[1:] != node.inputs[1:] or len(node.inputs) < 3:
        return None
    x, scale, zero = before.inputs
    found = constant(zero)
    if x is None or found is None or found.dtype is not ir.DataType.INT8:
        return None
    shifted = b.constant(found.numpy().astype(np.int16) + 128, np.uint8)
    integers = b.op("QuantizeLinear", x, scale, shifted, **attributes(before, "output_dtype"))
    return b.op("DequantizeLinear", integers, scale, shifted, **attributes(node))


def of_exact_sigmoid(b: Builder, node: ir.Node) -> ir.Value | None:
    """Pow, Reciprocal or Sqrt of a Sigmoid, or Div by one -> of Reciprocal(Exp(-x) + 1), exact below -18."""
    place = 1 if node.op_type == "Div" else 0
    sigmoid = made_by(node.inputs[place], "Sigmoid")
    if sigmoid is None or sigmoid.inputs[0] is None:
        return None
    inputs = list(node.inputs)
    inputs[place] = b.op("Reciprocal", b.op("Add", b.op("Exp", b.op("Neg", sigmoid.inputs[0])), 1.0))
    return b.op(node.op_type, *inputs)


def mean_variance(b: Builder, node: ir.Node) -> ir.Value | None:
    """MeanVarianceNormalization -> (x - mean) / (deviation + 1e-9), as ONNX defines it.

    onnxruntime computes the variance as E(x^2) - E(x)^2, which is negative for some constants,
    and leaves out 1e-9: what is constant was NaN. It refuses float16.
    """
    x = node.inputs[0]
    if x is None:
        return None
    dtype = b.dtype(x)
    wide = b.cast(x, ir.DataType.FLOAT) if dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) else x
    axes = attributes(node).get("axes", [0, 2, 3])
    centered = b.op("Sub", wide, _mean(b, wide, axes))
    deviation = b.op("Sqrt", _mean(b, b.op("Mul", centered, centered), axes))
    return b.cast(b.op("Div", centered, b.op("Add", deviation, 1e-9)), dtype)


def _mean(b: Builder, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    if b.opset < 18:  # axes were an attribute
        return b.op("ReduceMean", x, axes=axes)
    return b.op("ReduceMean", x, list(axes))
