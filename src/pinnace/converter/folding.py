"""Computation of nodes whose inputs are constants, by ONNX's reference implementation.

It is what exporters leave to do: shapes as tensors, ranges, masks. Large results stay computed in the run: a
file should hold the weights that it had.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter import partly
from pinnace.converter.reference import evaluated
from pinnace.graph.nodes import DOMAIN

_MOST = 1 << 16
"""Elements of inputs and results that are computed."""
_RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")


def fold(node: ir.Node, opset: int) -> bool:
    """Give the results of a node their values, if they are known; return whether they are.

    Weights of integers stay integers. A node at which ranks meet is done whatever its results are.
    """
    if node.domain == DOMAIN:
        return False
    if all(_is_empty(output) or output.const_value is not None for output in node.outputs):
        return True
    if node.op_type == "DequantizeLinear":
        return False
    if node.op_type == "Constant" and not node.domain:
        return _constant(node)
    if node.op_type in ("Shape", "Size") and not node.domain:
        return _measured(node) or _followed(node, opset)
    known = [_small(x) for x in node.inputs if x is not None]  # of all: rules ask for them, too
    if not all(known):
        return _followed(node, opset)
    if node.op_type.startswith(_RANDOM):
        return False
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return False
    if any(o.shape is None or not _fits(o.shape) for o in node.outputs):
        return False
    try:
        constants = [None if x is None else x.const_value for x in node.inputs]
        values = evaluated(node, opset, [None if x is None else x.numpy() for x in constants])
    except Exception:  # the reference implementation refuses what it does not know in many ways
        return False
    for output, value in zip(node.outputs, values, strict=True):
        _give(output, value)
    return all(output.const_value is not None for output in node.outputs)


def _followed(node: ir.Node, opset: int) -> bool:
    """Give the result of a node its value, if it takes only known parts of its inputs."""
    found = partly.follow(node, opset)
    return found is not None and _give(node.outputs[0], found)


def _small(x: ir.Value) -> bool:
    return _is_empty(x) or (x.const_value is not None and x.const_value.size <= _MOST)


def _is_empty(x: ir.Value) -> bool:
    """Return True for a tensor of no elements, which has but one value: that it gets."""
    shape = x.shape
    if shape is None or x.dtype is None or not shape.is_static() or 0 not in shape.numpy():
        return False
    if x.const_value is None:
        _give(x, np.zeros(shape.numpy(), x.dtype.numpy()))
    return True


def _fits(shape: ir.Shape) -> bool:
    return not shape.is_static() or math.prod(shape.numpy()) <= _MOST


def _constant(node: ir.Node) -> bool:
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is not None:
        node.outputs[0].const_value = tensor
        node.outputs[0].type = ir.TensorType(tensor.dtype)
        node.outputs[0].shape = ir.Shape(tensor.shape.numpy())
    return tensor is not None


def _measured(node: ir.Node) -> bool:
    """Give a Shape or Size its value, if its input has one shape."""
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None or not shape.is_static():
        return False
    dims: Any = list(shape.numpy())
    if node.op_type == "Size":
        dims = math.prod(dims)
    else:
        dims = dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(dims))]
    return _give(node.outputs[0], np.asarray(dims, np.int64))


def _give(output: ir.Value, value: Any) -> bool:
    """Give a result its value; return False if that is no tensor of its type."""
    if not isinstance(value, np.ndarray | np.generic):
        return False
    try:
        tensor = ir.tensor(np.asarray(value), dtype=output.dtype, name=output.name)
    except TypeError:
        return False
    output.const_value, output.shape = tensor, ir.Shape(tensor.shape.numpy())
    output.type = ir.TensorType(tensor.dtype)
    return True
