"""Fusions of normalizations."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.constants import constant, floats, ints, number
from pinnace.graph.failures import room
from pinnace.graph.matching import is_float32, made_by, permuted, private


def batch_norm_of_merged(b: Builder, node: ir.Node) -> ir.Value | None:
    """Reshape, BatchNormalization, Reshape back -> BatchNormalization.

    MindSpore exports this form for images of three dimensions. Without the Reshapes, onnxruntime fuses it
    with the convolution before it.
    """
    norm = made_by(node.inputs[0], "BatchNormalization")
    before = None if norm is None else made_by(norm.inputs[0], "Reshape")
    if norm is None or before is None or before.inputs[0] is None or not private(norm.outputs[0]):
        return None
    if norm.attributes.get_int("training_mode", 0):
        return None
    x = before.inputs[0]
    shape, merged = b.static_shape(x), b.static_shape(before.outputs[0])
    if shape[:2] != merged[:2] or b.static_shape(node.outputs[0]) != shape:
        return None
    return b.op("BatchNormalization", x, *norm.inputs[1:], epsilon=norm.attributes["epsilon"].as_float())


def group_norm(b: Builder, node: ir.Node) -> ir.Value | None:
    """GroupNormalization -> InstanceNormalization of the groups, Mul and Add.

    onnxruntime (seen in 1.31) has no kernel for it, and its own decomposition takes twice as long; that of
    float64 stays, as no InstanceNormalization computes in float64.
    """
    x, factor, offset = node.inputs
    groups = node.attributes["num_groups"].as_int()
    if x is None or b.dtype(x) is ir.DataType.DOUBLE:
        return None
    dtype, epsilon = b.dtype(x).numpy(), node.attributes.get_float("epsilon", 1e-5)
    one, zero = b.constant(np.ones(room(groups), dtype)), b.constant(np.zeros(groups, dtype))
    merged = b.reshape(x, [b.dim(x, 0), groups, -1])
    dims = [-1 if d is None else d for d in b.shape(x)]
    back = b.vector(dims) if dims.count(-1) < 2 else b.op("Shape", x)
    y = b.op("Reshape", b.op("InstanceNormalization", merged, one, zero, epsilon=epsilon), back)
    for op_type, operand in (("Mul", factor), ("Add", offset)):
        if operand is not None and not _changes_nothing(op_type, operand):
            y = b.op(op_type, y, b.reshape(operand, [-1, *[1] * (b.rank(x) - 2)]))
    return y


def _changes_nothing(op_type: str, operand: ir.Value) -> bool:
    known = floats(operand)
    return known is not None and bool((known == (op_type == "Mul")).all())


def scale_of_channels(b: Builder, node: ir.Node) -> ir.Value | None:
    """x * s + t for images, s and t per channel -> BatchNormalization of mean 0 and variance 1.

    MindSpore Lite's converter writes BatchNormalization in this form, with the channels last. As one operator
    it is fused with an adjacent convolution or activation.
    """
    value, offset = node.inputs
    mul = made_by(value, "Mul")
    if mul is None or not private(value) or not _is_vector(offset):
        return None
    x, factor = mul.inputs if _is_vector(mul.inputs[1]) else mul.inputs[::-1]
    if x is None or factor is None or offset is None or not _is_vector(factor) or not _among_images(x, node):
        return None
    shape, scale = b.shape(x), constant(factor)
    if (
        scale is None or not np.isfinite(scale.numpy()).all()
    ):  # BatchNormalization multiplies it by the mean, 0
        return None
    if len(shape) != 4 or not (b.shape(factor) == b.shape(offset) == shape[3:]) or not is_float32(b, x):
        return None
    zeros, ones = (b.constant(np.full(shape[3:], n, np.float32)) for n in (0, 1))
    y = b.op("BatchNormalization", b.transpose(x, _FIRST), factor, offset, zeros, ones, epsilon=0.0)
    return b.transpose(y, _LAST)


_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _is_vector(value: ir.Value | None) -> bool:
    known = constant(value)
    return known is not None and len(known.shape) == 1 and known.size > 1


def _among_images(x: ir.Value, node: ir.Node) -> bool:
    """Return True if the channels were just transposed to the end, or soon are to the front."""
    readers = [u.node for u in node.outputs[0].uses()]
    readers += [u.node for r in readers for o in r.outputs for u in o.uses()]
    return permuted(x, *_LAST) is not None or any(permuted(r.outputs[0], *_FIRST) for r in readers)


def layer_norm(b: Builder, node: ir.Node) -> ir.Value | None:
    """(x - mean) / sqrt(mean of its squares + epsilon), over the last dimension -> LayerNormalization."""
    for centered, squares, epsilon in _over_roots(node):
        distance = made_by(centered, "Sub")
        mean = None if distance is None else made_by(distance.inputs[1], "ReduceMean")
        if centered is None or distance is None or mean is None or mean.inputs[0] is not distance.inputs[0]:
            continue
        x = distance.inputs[0]
        if x is None or not _over_last(b, mean, x) or not _is_mean_square(b, squares, centered):
            continue
        size = b.shape(x)[-1]
        if size and is_float32(b, x):  # empty tensors have no norm
            ones = b.constant(np.ones(size, np.float32))
            return b.op("LayerNormalization", x, ones, axis=-1, epsilon=epsilon)
    return None


def scaled_layer_norm(b: Builder, node: ir.Node) -> ir.Value | None:
    """Mul after LayerNormalization without a scale, Add after one without a bias -> LayerNormalization."""
    for value, operand in (node.inputs, node.inputs[::-1]):
        norm = made_by(value, "LayerNormalization")
        if norm is None or operand is None or not private(value) or len(norm.inputs) != 2:
            continue
        x, scale = norm.inputs
        axis, epsilon = norm.attributes["axis"].as_int(), norm.attributes["epsilon"].as_float()
        if x is None or scale is None or not is_float32(b, operand):
            continue
        if b.shape(operand) != b.shape(scale) or None in b.shape(scale):
            continue
        if node.op_type == "Add":
            return b.op("LayerNormalization", x, scale, operand, axis=axis, epsilon=epsilon)
        if _is_ones(scale):
            return b.op("LayerNormalization", x, operand, axis=axis, epsilon=epsilon)
    return None


def root_mean_square(b: Builder, node: ir.Node) -> ir.Value | None:
    """x * (1 / sqrt(mean(x * x) + epsilon)) * w -> SimplifiedLayerNormalization."""
    for normalized, weight in (node.inputs, node.inputs[::-1]):
        inner = made_by(normalized, "Mul", "Div")
        if inner is None or weight is None or not private(normalized):
            continue
        size = b.shape(weight)
        for x, squares, epsilon in _over_roots(inner):
            fits = x is not None and _is_mean_square(b, squares, x) and b.shape(x)[-1:] == size != (None,)
            if x is None or not fits or not is_float32(b, x) or not is_float32(b, weight):
                continue
            return b.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon)
    return None


def _over_roots(node: ir.Node) -> list[tuple[ir.Value | None, ir.Value | None, float]]:
    """Return x, s and e for each match of a node with x / sqrt(s + e)."""
    found = []
    pairs = [(node.inputs[0], node.inputs[1])]
    if node.op_type == "Mul":
        inverses = [(x, made_by(i, "Reciprocal")) for x, i in (*pairs, pairs[0][::-1])]
        pairs = [(x, i.inputs[0]) for x, i in inverses if i is not None]
    for x, root in pairs:
        under = made_by(root, "Sqrt")
        total = None if under is None else made_by(under.inputs[0], "Add")
        epsilon = None if total is None else number(total.inputs[1])
        if total is not None and epsilon is not None:
            found.append((x, total.inputs[0], epsilon))
    return found


def _is_mean_square(b: Builder, value: ir.Value | None, x: ir.Value) -> bool:
    """Return True if `value` is the mean of squares of `x` over the last dimension, with keepdims."""
    mean, share = made_by(value, "ReduceMean"), made_by(value, "Div")
    if mean is not None:
        square = made_by(mean.inputs[0], "Mul", "Pow")
        if square is None or square.inputs[0] is not x or not _over_last(b, mean, x):
            return False
        return square.inputs[1] is x if square.op_type == "Mul" else number(square.inputs[1]) == 2
    total = None if share is None else made_by(share.inputs[0], "ReduceSumSquare")
    if share is None or total is None or total.inputs[0] is not x or not _over_last(b, total, x):
        return False
    return number(share.inputs[1]) == b.shape(x)[-1]


def _over_last(b: Builder, reduction: ir.Node, x: ir.Value) -> bool:
    old = tuple(reduction.attributes.get_ints("axes", ()))  # before operator set 18
    axes = ints(reduction.inputs[1]) if len(reduction.inputs) > 1 else old
    return axes in ((-1,), (b.rank(x) - 1,)) and reduction.attributes.get_int("keepdims", 1) == 1


def _is_ones(value: ir.Value) -> bool:
    known = constant(value)
    return known is not None and bool((known.numpy() == 1).all())
