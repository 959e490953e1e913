"""Conditions under which OpenVINO computes an operator differently than ONNX defines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import numpy as np
import onnx_ir as ir

from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.ops.inference import infer

CUT = "OpenVINO computes int64 in 32 bits"
_IN_FLOATS = "OpenVINO computes integers in float32, which is inexact above 2^24"
UNCHECKED = "OpenVINO does not check indices and sizes before it accesses memory"

_BYTES = {ir.DataType.INT8, ir.DataType.UINT8}
_REMOVED = {"Dropout", "Einsum", "Max", "Min", "Sum"}
"""Operators that OpenVINO removes if they have only one input."""

_SELECTING = {"Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze"}
"""Operators whose results are elements of their first input."""

_SEVEN_BITS = 64
"""The largest weight of which two products with a byte fit into 16 bits."""

_Condition = Callable[[ir.Node, int], object]

_CONDITIONS: tuple[tuple[str, _Condition, str], ...] = (
    ("AveragePool", lambda n, _: {"ceil_mode", "count_include_pad"} <= _set_attributes(n),
     "OpenVINO counts the elements that ceil_mode adds"),
    ("AveragePool MaxPool", lambda n, _: "ceil_mode" in _set_attributes(n) and _may_start_beyond(n),
     "OpenVINO counts windows that start beyond the image"),
    ("BatchNormalization", lambda n, _: any(map(_is_used, n.outputs[1:])),
     "OpenVINO does not compute the statistics of the batch"),
    ("Cast", lambda n, _: n.attributes.get_int("to", 0) == ir.DataType.FLOAT16 and _is_cast_again(n),
     "OpenVINO omits roundings to float16"),
    ("Dropout Einsum Max Min Sum", lambda n, _: _returns_an_input(n),
     "OpenVINO removes it, and does not write an output that is an input"),
    ("Transpose", lambda n, opset: _transposes_attention(n, opset),
     "OpenVINO transposes dimensions of equal size in place after an attention"),
    ("Conv", lambda n, _: _has_holes_in_one_volume(n),
     "OpenVINO computes dilated windows of volumes of one channel wrongly on CPUs with AVX2"),
    ("ConvTranspose", lambda n, _: n.attributes.get_string("auto_pad", "").startswith("SAME"),
     "OpenVINO returns images of another size"),
    ("HardSigmoid Selu", lambda n, _: not all(a.value for a in n.attributes.values()),
     "OpenVINO ignores attributes of 0"),
    ("If", lambda n, _: _ranks_of_branches_differ(n), "OpenVINO returns one number with one dimension"),
    ("MaxPool", lambda n, _: {"auto_pad", "dilations"} <= _set_attributes(n) and _pads_automatically(n),
     "OpenVINO returns images of another size"),
    ("Resize", lambda n, _: {"antialias", "exclude_outside"} & _set_attributes(n)
     or not n.attributes.get_float("cubic_coeff_a", -0.75), "OpenVINO interpolates differently"),
    ("Resize", lambda n, _: n.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch",
     "OpenVINO stretches images"),
    ("CumSum", lambda n, _: not _is_natural(_constant_values(n.inputs[1])),
     "OpenVINO ends the process for a negative axis"),
    ("GatherElements", lambda n, opset: not _indexes_all(n, opset),
     "OpenVINO requires indices for all elements except along the axis"),
    ("Softmax LogSoftmax", lambda n, opset: opset < 13 and not _is_over_last(n, opset),
     "OpenVINO interprets the axis as in opset 13"),
    ("Split", lambda n, opset: "num_outputs" in _set_attributes(n) and not _splits_evenly(n, opset),
     "OpenVINO splits into equal parts only"),
    ("Pad", lambda n, _: any(_pads_automatically(use.node) for use in n.outputs[0].uses()),
     "OpenVINO merges it with the next operator's padding, which has another rule"),
    ("ReduceL1 ReduceL2 ReduceSumSquare", lambda n, _: "noop_with_empty_axes" in _set_attributes(n),
     "OpenVINO returns the input if there are no axes"),
    ("TopK", lambda n, _: len(n.inputs) > 1 and _constant_values(n.inputs[1]) == [0],
     "OpenVINO does not support k = 0"),
    ("TopK", lambda n, _: any(map(_is_used, n.outputs[1:])),
     "OpenVINO returns equal values in another order"),
    ("Abs Add Mul Neg Sub", lambda n, opset: _input_type(n, opset) in _BYTES,
     "OpenVINO saturates at the limits of 8 bits instead of wrapping around"),
    ("Add Div Mul Pow Sub", lambda n, opset: _adds_dimensions(n, opset),
     "OpenVINO loses the dimensions that a constant of one element adds"),
    ("Add Sub", lambda n, opset: _is_int64(n, opset) and not any(map(_is_small, n.inputs)), CUT),
    ("CumSum Mul", lambda n, opset: _is_int64(n, opset) and not all(map(_is_small, n.inputs)), CUT),
    ("Mod", lambda n, opset: _is_integer(n, opset) is False, "OpenVINO loses digits of the remainder"),
    ("ReduceLogSum", lambda n, opset: _is_integer(n, opset), "OpenVINO rounds to integers differently"),
    ("Floor", lambda n, _: (x := n.inputs[0]) and (maker := x.producer()) and maker.op_type == "Div",
     "OpenVINO multiplies by the reciprocal, so x / x may be less than 1"),
    ("ReduceL1 ReduceLogSum", lambda n, _: "axes" in _set_attributes(n),
     "OpenVINO reduces over all axes from opset 13 on"),
    ("Expand Unsqueeze", lambda n, _: len(n.inputs) > 1 and _constant_values(n.inputs[1]) == [],
     "OpenVINO adds a dimension"),
    ("Reshape", lambda n, opset: _is_integer(n, opset) is False and _constant_values(n.inputs[1]) == [],
     "OpenVINO ends the process if a matrix product is reshaped to a scalar"),
    ("ReduceMean", lambda n, _: not n.attributes.get_int("keepdims", 1) and _is_subtracted(n),
     "OpenVINO fuses it as the mean of a normalisation, which keeps its dimensions"),
    ("ReduceMax ReduceMin", lambda n, opset: _input_type(n, opset) is ir.DataType.BOOL,
     "OpenVINO returns other dimensions for booleans"),
    ("OneHot", lambda n, opset: _is_integer(n, opset) is False, "OpenVINO rounds indices differently"),
    ("GRU LSTM RNN", lambda n, _: len(n.inputs) > 4 and n.inputs[4] is not None,
     "OpenVINO ignores sequence lengths if dimensions are free"),
    ("LSTM", lambda n, _: "input_forget" in _set_attributes(n), "OpenVINO does not couple the gates"),
    ("LSTM", lambda n, _: len(n.inputs) > 7 and n.inputs[7] is not None, "OpenVINO ignores peepholes"),
    ("GRU LSTM RNN", lambda n, _: n.attributes.get_string("direction", "forward") != "bidirectional",
     "OpenVINO gives other values after the export of the model, which the compile cache needs"),
    ("DequantizeLinear", lambda n, _: sums_of_bytes_overflow() and _overflows(n),
     "OpenVINO adds products of 8 bits in 16, which overflow: this CPU has no VNNI"),
    ("Gemm MatMul Neg Pow Relu Trilu ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
     "ReduceSumSquare",
     lambda n, opset: _is_integer(n, opset) and not _is_small(n.inputs[0]), _IN_FLOATS),
    ("Div Mod", lambda n, opset: _is_integer(n, opset) and not comes_from_shapes(n.inputs[0]),
     _IN_FLOATS),
    ("Div Mod", lambda n, opset: _is_integer(n, opset) and any(map(_may_be_negative, n.inputs)),
     "OpenVINO rounds constant quotients of integers down"),
)  # fmt: skip
"""Names of operators, a condition of node and operator set under which they are wrong, and the reason."""


def wrong_condition(node: ir.Node, opset: int) -> str:
    """Return the reason why a node is wrong by the table of conditions; "" if it is not."""
    return next((reason for is_wrong, reason in _conditions(node.op_type) if is_wrong(node, opset)), "")


@cache
def _conditions(op_type: str) -> list[tuple[_Condition, str]]:
    return [(is_wrong, reason) for names, is_wrong, reason in _CONDITIONS if op_type in names.split()]


def _has_holes_in_one_volume(node: ir.Node) -> bool:
    weight = node.inputs[1]
    shape = () if weight is None or weight.shape is None else tuple(weight.shape)
    return (
        len(shape) == 5
        and shape[:2] == (1, 1)
        and any(d > 1 for d in node.attributes.get_ints("dilations", ()))
    )


def _ranks_of_branches_differ(node: ir.Node) -> bool:
    branches = [node.attributes[name].as_graph().outputs for name in ("then_branch", "else_branch")]
    pairs = [(x.shape, y.shape) for x, y in zip(*branches, strict=True)]
    return any(x is not None and y is not None and len(x) != len(y) for x, y in pairs)


def _set_attributes(node: ir.Node) -> set[str]:
    """Return the names of attributes that are neither 0 nor empty."""
    return {name for name, attribute in node.attributes.items() if attribute.value}


def exceeds_32_bits(value: ir.Value | None) -> bool:
    """Return True if a constant contains integers of more than 32 bits."""
    known = _constant(value)
    if known is None or known.dtype is not ir.DataType.INT64 or not known.size:
        return False
    numbers = known.numpy()
    return bool(numbers.min() < -(1 << 31) or numbers.max() >= 1 << 31)


def _is_integer(node: ir.Node, opset: int) -> bool | None:
    """Return True if the first input is of integers, None if its type is unknown."""
    kind = _input_type(node, opset)
    return None if kind is None else kind.is_integer()


def _is_int64(node: ir.Node, opset: int) -> bool:
    """Return True if the first input is int64."""
    return _input_type(node, opset) is ir.DataType.INT64


def _is_small(value: ir.Value | None) -> bool:
    """Return True if a value comes from shapes, constants and booleans only."""
    return comes_from_shapes(value, or_booleans=True)


def _input_type(node: ir.Node, opset: int) -> ir.DataType | None:
    """Return the element type of the first input, inferred if the file does not declare it."""
    value = node.inputs[0] if node.inputs else None
    if value is not None and value.dtype is None:
        infer(value, opset)
    return None if value is None else value.dtype


def _is_used(value: ir.Value) -> bool:
    """Return True if something reads a value."""
    return bool(value.uses()) or value.is_graph_output()


def _returns_an_input(node: ir.Node) -> bool:
    """Return True if the output is an input of the graph, except for nodes that change nothing."""
    value: ir.Value | None = node.outputs[0]
    given = value is not None and value.is_graph_output()
    while value is not None and (producer := value.producer()) is not None:
        if producer.op_type not in _REMOVED or len([i for i in producer.inputs if i is not None]) != 1:
            return False
        value = producer.inputs[0]
    return given and value is not None and value.is_graph_input()


def _transposes_attention(node: ir.Node, opset: int) -> bool:
    """Return True for a Transpose of softmax(x) @ v that keeps the shape."""
    turned = node.inputs[0]
    product = turned.producer() if turned is not None else None
    weights = product.inputs[0] if product is not None and product.op_type == "MatMul" else None
    mixing = weights.producer() if weights is not None else None
    if turned is None or mixing is None or mixing.op_type != "Softmax":
        return False
    before, after = _inferred_shape(turned, opset), _inferred_shape(node.outputs[0], opset)
    return before is not None and before == after


def _is_cast_again(node: ir.Node) -> bool:
    """Return True if a Cast reads the result."""
    return any(use.node.op_type == "Cast" for use in node.outputs[0].uses())


def _inferred_shape(value: ir.Value | None, opset: int) -> tuple[object, ...] | None:
    """Return the shape of a value, inferred if the file does not declare it; None if its rank is unknown."""
    if value is not None and value.shape is None:
        infer(value, opset)
    return None if value is None or value.shape is None else tuple(value.shape)


def _is_subtracted(node: ir.Node) -> bool:
    """Return True if the result of a reduction is subtracted from its input."""
    readers = (use.node for use in node.outputs[0].uses())
    return any(reader.op_type == "Sub" and reader.inputs[0] is node.inputs[0] for reader in readers)


def _pads_automatically(node: ir.Node) -> bool:
    """Return True for a pool or convolution whose padding is no plain list of numbers."""
    return node.op_type == "AveragePool" or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET"


def _is_natural(number: object) -> bool:
    """Return True for an integer of 0 or more, or lists of such."""
    array = np.asarray(number)
    return array.dtype.kind == "i" and bool(np.all(array >= 0))


def _constant_values(value: ir.Value | None) -> object:
    """Return the elements of a constant, else None."""
    known = _constant(value)
    return None if known is None or known.dtype is ir.DataType.STRING else known.numpy().tolist()


def _constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant, else None."""
    with suppress(ValueError):  # a node Constant with several values
        return ir.convenience.get_const_tensor(value) if value is not None else None
    return None


def _adds_dimensions(node: ir.Node, opset: int) -> bool:
    """Return True if an operand is a constant of one element with more dimensions than the other."""
    for number, other in (node.inputs, node.inputs[::-1]):
        known = _constant(number)
        if known is not None and known.size == 1 and len(known.shape) > 1:
            shape = _inferred_shape(other, opset)
            return shape is None or len(shape) < len(known.shape)
    return False


def _indexes_all(node: ir.Node, opset: int) -> bool:
    """Return True if indices have the same sizes as the data except along the axis."""
    data, indices = (_inferred_shape(value, opset) for value in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices):
        return False
    along = node.attributes.get_int("axis", 0) % len(data)
    pairs = enumerate(zip(data, indices, strict=True))
    return all(axis == along or (isinstance(n, int) and n == m) for axis, (n, m) in pairs)


def _is_over_last(node: ir.Node, opset: int) -> bool:
    """Return True if the axis of a Softmax of opset 11 is the last."""
    axis, shape = node.attributes.get_int("axis", 1), _inferred_shape(node.inputs[0], opset)
    return axis == -1 or (shape is not None and axis == len(shape) - 1)


def _splits_evenly(node: ir.Node, opset: int) -> bool:
    """Return True if the outputs of a Split have the same size."""
    shape = _inferred_shape(node.inputs[0], opset)
    size = shape[node.attributes.get_int("axis", 0)] if shape else None
    return isinstance(size, int) and size % len(node.outputs) == 0


def _overflows(node: ir.Node) -> bool:
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


def _may_be_negative(value: ir.Value | None) -> bool:
    """Return True if a value that comes from shapes may be negative: by a difference or a constant."""
    todo, seen = [value], {value}
    while todo:
        value = todo.pop()
        known, node = _constant(value), value.producer() if value is not None else None
        if known is not None:
            if known.dtype is not ir.DataType.STRING and np.any(known.numpy() < 0):
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


def _may_start_beyond(pool: ir.Node) -> bool:
    """Return True if the last window of a pool may start beyond the image with ceil_mode."""
    kernel = pool.attributes.get_ints("kernel_shape", ())
    strides = pool.attributes.get_ints("strides", [1] * len(kernel))
    after = pool.attributes.get_ints("pads", [0] * 2 * len(kernel))[len(kernel) :]
    return any(pad + stride > size for pad, stride, size in zip(after, strides, kernel, strict=True))
