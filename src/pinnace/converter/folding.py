"""Computation of nodes whose inputs are constants.

It is what exporters leave to do: shapes as tensors, ranges, masks. Large results stay computed in the run: a
file should hold the weights that it had.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.graph import shape_data
from pinnace.graph.evaluate import evaluated
from pinnace.graph.nodes import DOMAIN

_MOST = 1 << 16
"""Elements of inputs and results that are computed."""


def fold(node: ir.Node, opset: int) -> bool:
    """Give the results of a node, which inference has refined, their values; return whether all are known.

    Weights of integers stay integers. A node at which ranks meet is done whatever its results are.
    """
    if node.domain == DOMAIN:
        return False
    if all(_is_empty(output) or output.const_value is not None for output in node.outputs):
        return True
    if node.op_type == "DequantizeLinear":
        return False
    if node.op_type == "Constant" and not node.domain:
        tensor = ir.convenience.get_const_tensor(node.outputs[0])
        return tensor is not None and _give(node.outputs[0], tensor)
    exact = shape_data.exact(node.outputs[0])
    if exact is not None:
        return _give(node.outputs[0], exact)
    known = [_is_small(x) for x in node.inputs if x is not None]  # of all: rules ask for them, too
    if not all(known) or any(not _fits(output.shape) for output in node.outputs):
        return False
    constants = [None if x is None else x.const_value for x in node.inputs]
    values = evaluated(node, opset, [None if x is None else x.numpy() for x in constants])
    for output, value in zip(node.outputs, values or (), strict=False):
        _give(output, value)
    return all(output.const_value is not None for output in node.outputs)


def _is_small(x: ir.Value) -> bool:
    return _is_empty(x) or (x.const_value is not None and x.const_value.size <= _MOST)


def _is_empty(x: ir.Value) -> bool:
    """Return True for a tensor of no elements, which has but one value: that it gets."""
    shape = x.shape
    if shape is None or x.dtype is None or not shape.is_static() or 0 not in shape.numpy():
        return False
    if x.const_value is None:
        _give(x, np.zeros(shape.numpy(), x.dtype.numpy()))
    return True


def _fits(shape: ir.Shape | None) -> bool:
    return shape is not None and (not shape.is_static() or math.prod(shape.numpy()) <= _MOST)


def _give(output: ir.Value, value: Any) -> bool:
    """Give a result its value; return False if that is no tensor of its type."""
    if isinstance(value, np.ndarray | np.generic):
        try:
            value = ir.tensor(np.asarray(value), dtype=output.dtype, name=output.name)
        except TypeError:
            return False
    if not isinstance(value, ir.TensorProtocol):
        return False
    output.const_value, output.shape = value, ir.Shape(value.shape.numpy())
    output.type = ir.TensorType(value.dtype)
    return True
