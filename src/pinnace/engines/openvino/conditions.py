"""Conditions under which OpenVINO computes an operator differently than ONNX defines."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import onnx_ir as ir

from pinnace.ops.inference import infer

_REMOVED = {"Dropout", "Einsum", "Max", "Min", "Sum"}
"""Operators that OpenVINO removes if they have only one input."""

_SELECTING = {"Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze"}
"""Operators whose results are elements of their first input."""

_SEVEN_BITS = 64
"""The largest weight of which two products with a byte fit into 16 bits."""


def set_attributes(node: ir.Node) -> set[str]:
    """Return the names of attributes that are neither 0 nor empty."""
    return {name for name, attribute in node.attributes.items() if attribute.value}


def exceeds_32_bits(value: ir.Value | None) -> bool:
    """Return True if a constant contains integers of more than 32 bits."""
    known = _constant(value)
    if known is None or known.dtype is not ir.DataType.INT64 or not known.size:
        return False
    numbers = known.numpy()
    return bool(numbers.min() < -(1 << 31) or numbers.max() >= 1 << 31)


def is_integer(node: ir.Node, opset: int) -> bool | None:
    """Return True if the first input is of integers, None if its type is unknown."""
    kind = input_type(node, opset)
    return None if kind is None else kind.is_integer()


def is_int64(node: ir.Node, opset: int) -> bool:
    """Return True if the first input is int64."""
    return input_type(node, opset) is ir.DataType.INT64


def is_small(value: ir.Value | None) -> bool:
    """Return True if a value comes from shapes, constants and booleans only."""
    return comes_from_shapes(value, or_booleans=True)


def input_type(node: ir.Node, opset: int) -> ir.DataType | None:
    """Return the element type of the first input, inferred if the file does not declare it."""
    value = node.inputs[0] if node.inputs else None
    if value is not None and value.dtype is None:
        infer(value, opset)
    return None if value is None else value.dtype


def is_used(value: ir.Value) -> bool:
    """Return True if something reads a value."""
    return bool(value.uses()) or value.is_graph_output()


def returns_an_input(node: ir.Node) -> bool:
    """Return True if the output is an input of the graph, except for nodes that change nothing."""
    value: ir.Value | None = node.outputs[0]
    given = value is not None and value.is_graph_output()
    while value is not None and (producer := value.producer()) is not None:
        if producer.op_type not in _REMOVED or len([i for i in producer.inputs if i is not None]) != 1:
            return False
        value = producer.inputs[0]
    return given and value is not None and value.is_graph_input()


def transposes_attention(node: ir.Node, opset: int) -> bool:
    """Return True for a Transpose of softmax(x) @ v that keeps the shape."""
    turned = node.inputs[0]
    product = turned.producer() if turned is not None else None
    weights = product.inputs[0] if product is not None and product.op_type == "MatMul" else None
    mixing = weights.producer() if weights is not None else None
    if turned is None or mixing is None or mixing.op_type != "Softmax":
        return False
    before, after = inferred_shape(turned, opset), inferred_shape(node.outputs[0], opset)
    return before is not None and before == after


def is_cast_again(node: ir.Node) -> bool:
    """Return True if a Cast reads the result."""
    return any(use.node.op_type == "Cast" for use in node.outputs[0].uses())


def inferred_shape(value: ir.Value | None, opset: int) -> tuple[object, ...] | None:
    """Return the shape of a value, inferred if the file does not declare it; None if its rank is unknown."""
    if value is not None and value.shape is None:
        infer(value, opset)
    return None if value is None or value.shape is None else tuple(value.shape)


def is_static(value: ir.Value | None, opset: int) -> bool:
    """Return True if all dimensions of a value are known."""
    shape = inferred_shape(value, opset)
    return shape is not None and all(isinstance(size, int) for size in shape)


def is_subtracted(node: ir.Node) -> bool:
    """Return True if the result of a reduction is subtracted from its input."""
    readers = (use.node for use in node.outputs[0].uses())
    return any(reader.op_type == "Sub" and reader.inputs[0] is node.inputs[0] for reader in readers)


def pads_automatically(node: ir.Node) -> bool:
    """Return True for a pool or convolution whose padding is no plain list of numbers."""
    return node.op_type == "AveragePool" or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET"


def is_natural(number: object) -> bool:
    """Return True for an integer of 0 or more, or a list of such."""
    return (isinstance(number, int) and number >= 0) or (isinstance(number, list) and min(number) >= 0)


def constant_values(value: ir.Value | None) -> object:
    """Return the elements of a constant, else None."""
    known = _constant(value)
    return None if known is None else known.numpy().tolist()


def _constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant, else None."""
    with suppress(ValueError):  # a node Constant with several values
        return ir.convenience.get_const_tensor(value) if value is not None else None
    return None


def adds_dimensions(node: ir.Node, opset: int) -> bool:
    """Return True if an operand is a constant of one element with more dimensions than the other."""
    for number, other in (node.inputs, node.inputs[::-1]):
        known = _constant(number)
        if known is not None and known.size == 1 and len(known.shape) > 1:
            shape = inferred_shape(other, opset)
            return shape is None or len(shape) < len(known.shape)
    return False


def indexes_all(node: ir.Node, opset: int) -> bool:
    """Return True if indices have the same sizes as the data except along the axis."""
    data, indices = (inferred_shape(value, opset) for value in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices):
        return False
    along = node.attributes.get_int("axis", 0) % len(data)
    pairs = enumerate(zip(data, indices, strict=True))
    return all(axis == along or (isinstance(n, int) and n == m) for axis, (n, m) in pairs)


def is_over_last(node: ir.Node, opset: int) -> bool:
    """Return True if the axis of a Softmax of opset 11 is the last."""
    axis, shape = node.attributes.get_int("axis", 1), inferred_shape(node.inputs[0], opset)
    return axis == -1 or (shape is not None and axis == len(shape) - 1)


def splits_evenly(node: ir.Node, opset: int) -> bool:
    """Return True if the outputs of a Split have the same size."""
    shape = inferred_shape(node.inputs[0], opset)
    size = shape[node.attributes.get_int("axis", 0)] if shape else None
    return isinstance(size, int) and size % len(node.outputs) == 0


def overflows(node: ir.Node) -> bool:
    """Return True if weights use the 8th bit, and the activations are quantised too."""
    weight = node.inputs[0].const_value if node.inputs[0] is not None else None
    middle = {ir.DataType.INT8: 0, ir.DataType.UINT8: 128}.get(weight.dtype) if weight is not None else None
    if weight is None or middle is None or node.graph is None:
        return False
    wide = bool((np.abs(weight.numpy().astype(np.int16) - middle) > _SEVEN_BITS).any())
    return wide and any(n.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") for n in node.graph)


def comes_from_shapes(value: ir.Value | None, or_booleans: bool = False) -> bool:
    """Return True if a value comes from shapes and constants only, or (`or_booleans`) from booleans.

    Such integers are small, and exact in float32.
    """
    todo, seen = [value], {value}
    while todo:
        value = todo.pop()
        if value is None or value.const_value is not None:
            continue
        node = value.producer()
        if node is None or any(a.type is ir.AttributeType.GRAPH for a in node.attributes.values()):
            return False
        first = node.inputs[0] if node.inputs else None
        is_boolean = (
            or_booleans and first is not None and first.dtype is ir.DataType.BOOL and node.op_type == "Cast"
        )
        if not is_boolean and node.op_type not in ("Shape", "Size", "Constant"):
            todo += [given for given in node.inputs if given not in seen]
            seen.update(node.inputs)
    return True


def may_be_negative(value: ir.Value | None) -> bool:
    """Return True if a value that comes from shapes may be negative: by a difference or a constant."""
    todo, seen = [value], {value}
    while todo:
        value = todo.pop()
        known, node = constant_values(value), value.producer() if value is not None else None
        if known is not None:
            if np.any(np.asarray(known) < 0):
                return True
        elif node is not None and node.op_type not in ("Shape", "Size"):
            if node.op_type in ("Sub", "Neg"):
                return True
            given = [
                each for each in node.inputs[: 1 if node.op_type in _SELECTING else None] if each not in seen
            ]
            todo += given
            seen.update(given)
    return False


def may_start_beyond(pool: ir.Node) -> bool:
    """Return True if the last window of a pool may start beyond the image with ceil_mode."""
    kernel = pool.attributes.get_ints("kernel_shape", ())
    strides = pool.attributes.get_ints("strides", [1] * len(kernel))
    after = pool.attributes.get_ints("pads", [0] * 2 * len(kernel))[len(kernel) :]
    return any(pad + stride > size for pad, stride, size in zip(after, strides, kernel, strict=True))
