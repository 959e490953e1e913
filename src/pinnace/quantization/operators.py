"""Operators of a graph that can have fewer bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph.constants import constant, floats
from pinnace.graph.editor import Editor, remove_unread, replace_value
from pinnace.graph.matching import made_by, private
from pinnace.lowering.plan import PLANNED
from pinnace.types import Array

Floats = npt.NDArray[np.float32]

_PRODUCTS = ("Gemm", "MatMul")
_WEIGHTED = ("Conv", *_PRODUCTS)
_BETWEEN = ("Add", "AveragePool", "GlobalAveragePool", "MaxPool")
"""Operators that compute in integers if what they read comes from such a convolution."""
_THROUGH = ("Relu", "Clip", "BatchNormalization")
_OF_CONVOLUTIONS = ("bits16", "int8", "stored")
"""The methods that change convolutions too."""
_LEAST = 64
"""Elements of a weight for which it pays."""

_SINCE = {"held8": 7, "dynamic8": 11, "int8": 13}
"""The first ONNX operator set that has the operators that a method writes."""


@dataclass(frozen=True)
class Operator:
    """A node, and the BatchNormalization after it that its weight can take up."""

    node: ir.Node
    norm: ir.Node | None = None

    @property
    def last(self) -> ir.Value:
        """The value that the operator computes."""
        return (self.norm or self.node).outputs[0]

    @property
    def name(self) -> str:
        """The name of that value."""
        return self.last.name or ""

    @property
    def end(self) -> ir.Value:
        """That value after the activation that alone reads it."""
        after = _only_reader(self.last, "Relu", "Clip")
        return self.last if after is None else after.outputs[0]


def candidates(model: ir.Model, method: str, for_file: bool = False) -> list[Operator]:
    """Return the operators that a method can change, in the order of the graph.

    Files that are not ONNX have no operator set.
    """
    if model.opset_imports.get("", 1) < _SINCE.get(method, 0) and not for_file:
        return []
    found: list[Operator] = []
    integers: set[ir.Value] = set()
    taken = _WEIGHTED if method in _OF_CONVOLUTIONS else _PRODUCTS
    for node in model.graph:
        if node.domain or node.op_type not in (*taken, *_BETWEEN):
            continue
        if node.op_type in taken and weight_of(node) is not None and _plain(node):
            operator = Operator(node, _norm_after(node) if node.op_type == "Conv" else None)
            if node.op_type == "Conv":
                integers.add(operator.last)
        elif method == "int8" and node.op_type in _BETWEEN and integers & set(map(_before, node.inputs)):
            operator = Operator(node)
            integers.add(operator.last)
        else:
            continue
        found.append(operator)
    return found


def held(b: Editor, operator: Operator, *arrays: Array) -> list[ir.Value]:
    """Return the parts of a weight, which are named after the operator."""
    return [b.weight(ir.tensor(array, name=f"{operator.name}/bits")) for array in arrays]


def put_in_place(b: Editor, operator: Operator, new: ir.Value, has_bias: bool = False) -> None:
    """Insert what was written before an operator, whose result `new` replaces, after the bias of a Gemm."""
    node, old = operator.node, operator.last
    if node.op_type == "Gemm" and len(node.inputs) > 2 and node.inputs[2] is not None and not has_bias:
        new = b.op("Add", new, node.inputs[2])
    b.insert_before(node)
    replace_value(old, new)
    remove_unread(operator.norm or node)


def keep_float32(operator: Operator) -> None:
    """Mark an operator as one that keeps its type where others are computed in 16 bits."""
    operator.node.meta[PLANNED] = ir.DataType.FLOAT


def weight_of(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the weight of a node: a float32 constant of more than one dimension; else None."""
    value = node.inputs[1] if len(node.inputs) > 1 else None
    tensor = constant(value)
    if tensor is None or tensor.dtype is not ir.DataType.FLOAT or tensor.size < _LEAST:
        return None
    fits = len(tensor.shape) == 2 or (node.op_type == "Conv" and len(tensor.shape) > 2)
    return tensor if fits else None


def matrix(node: ir.Node) -> Floats:
    """Return the weight of a product with its rows as those of the input."""
    tensor = weight_of(node)
    assert tensor is not None
    turned = node.op_type == "Gemm" and node.attributes.get_int("transB", 0) == 1
    weight: Floats = tensor.numpy()
    return np.ascontiguousarray(weight.T if turned else weight)


def normalized(operator: Operator) -> tuple[Floats, Floats | None]:
    """Return weight and bias, with the BatchNormalization of a convolution; the bias if it is a vector."""
    tensor, (factor, bias) = weight_of(operator.node), factors(operator)
    assert tensor is not None
    weight: Floats = tensor.numpy()
    return weight if factor is None else scaled(weight, factor), bias


def factors(operator: Operator) -> tuple[Floats | None, Floats | None]:
    """Return the numbers by which a BatchNormalization multiplies the channels of a weight, and the bias."""
    node = operator.node
    bias = floats(node.inputs[2]) if node.op_type != "MatMul" and len(node.inputs) > 2 else None
    if bias is not None and bias.ndim != 1:
        bias = None
    if operator.norm is None:
        return None, bias
    known = [x.const_value for x in operator.norm.inputs[1:] if x is not None]
    scale, offset, mean, variance = (x.numpy() for x in known if x is not None)
    deviation = np.sqrt(variance + operator.norm.attributes.get_float("epsilon", 1e-5))
    factor = (scale / deviation).astype(np.float32)
    return factor, (offset + ((0 if bias is None else bias) - mean) * factor).astype(np.float32)


def scaled(weight: Floats, factor: Floats) -> Floats:
    """Return a weight whose output channels are multiplied."""
    return (weight * factor.reshape(-1, *[1] * (weight.ndim - 1))).astype(np.float32)


def _plain(node: ir.Node) -> bool:
    """Return True if the node does nothing that rewrites leave out."""
    if PLANNED in node.meta or (node.op_type == "Conv" and _open_bias(node)):
        return False
    return node.op_type != "Gemm" or (
        node.attributes.get_float("alpha", 1.0) == node.attributes.get_float("beta", 1.0) == 1.0
        and node.attributes.get_int("transA", 0) == 0
    )


def _open_bias(node: ir.Node) -> bool:
    return len(node.inputs) > 2 and node.inputs[2] is not None and floats(node.inputs[2]) is None


def _norm_after(conv: ir.Node) -> ir.Node | None:
    """Return the BatchNormalization that alone reads a convolution, if all it knows is constant."""
    norm = _only_reader(conv.outputs[0], "BatchNormalization")
    if norm is None or norm.inputs[0] is not conv.outputs[0] or len(norm.outputs) > 1:
        return None
    return norm if all(floats(x) is not None for x in norm.inputs[1:]) else None


def _only_reader(value: ir.Value, *op_types: str) -> ir.Node | None:
    """Return the node that alone reads a value, if it is one of these operators."""
    reader = next(iter(value.uses())).node if private(value) else None
    return reader if reader is not None and reader.op_type in op_types else None


def _before(value: ir.Value | None) -> ir.Value | None:
    """Return what an activation or normalization made a value of; the value itself for others."""
    while (node := made_by(value, *_THROUGH)) is not None and node.op_type != "BatchNormalization":
        value = node.inputs[0]
    return value
