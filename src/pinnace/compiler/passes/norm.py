"""Normalisation."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.compiler.passes.match import attribute, ints, is_float, made_by, number, private
from pinnace.ops.builder import Builder


def batch_norm_of_merged(b: Builder, node: ir.Node) -> ir.Value | None:
    """Reshape, BatchNormalization, Reshape back -> BatchNormalization.

    So MindSpore writes it for images of three dimensions. Without, it meets the convolution before it,
    which takes it in.
    """
    norm = made_by(node.inputs[0], "BatchNormalization")
    before = None if norm is None else made_by(norm.inputs[0], "Reshape")
    if norm is None or before is None or before.inputs[0] is None or not private(norm.outputs[0]):
        return None
    x = before.inputs[0]
    shape, merged = b.static_shape(x), b.static_shape(before.outputs[0])
    if shape[:2] != merged[:2] or b.static_shape(node.outputs[0]) != shape:
        return None
    return b.op("BatchNormalization", x, *norm.inputs[1:], epsilon=norm.attributes["epsilon"].as_float())


def root_mean_square(b: Builder, node: ir.Node) -> ir.Value | None:
    """x * (1 / sqrt(mean(x * x) + epsilon)) * w -> SimplifiedLayerNormalization: half of the time."""
    for scaled, weight in (node.inputs, node.inputs[::-1]):
        found = _normalised(b, scaled)
        if found is None or weight is None or len(b.shape(weight)) != 1:
            continue
        x, epsilon = found
        if b.shape(weight)[0] == b.shape(x)[-1] and is_float(b, x) and is_float(b, weight):
            return b.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon)
    return None


def _normalised(b: Builder, value: ir.Value | None) -> tuple[ir.Value, float] | None:
    """x and epsilon, where `value` is x over the root of the mean of its squares."""
    node = made_by(value, "Mul", "Div")
    if node is None or not private(value):
        return None
    for x, factor in (node.inputs, node.inputs[::-1]):
        root = (
            made_by(factor, "Sqrt")
            if node.op_type == "Div"
            else _under(made_by(factor, "Reciprocal"), "Sqrt")
        )
        total = _under(root, "Add")
        if x is None or total is None:
            continue
        mean, epsilon = made_by(total.inputs[0], "ReduceMean"), number(total.inputs[1])
        if mean is not None and epsilon is not None and _is_mean_square(b, mean, x):
            return x, epsilon
    return None


def _under(node: ir.Node | None, op_type: str) -> ir.Node | None:
    return None if node is None else made_by(node.inputs[0], op_type)


def _is_mean_square(b: Builder, mean: ir.Node, x: ir.Value) -> bool:
    axes = ints(mean.inputs[1]) if len(mean.inputs) > 1 else None
    square = made_by(mean.inputs[0], "Mul", "Pow")
    if square is None or axes is None or len(axes) != 1 or axes[0] % b.rank(x) != b.rank(x) - 1:
        return False
    twice = square.inputs[1] is x if square.op_type == "Mul" else number(square.inputs[1]) == 2
    return square.inputs[0] is x and twice and attribute(mean, "keepdims", 1) == 1
