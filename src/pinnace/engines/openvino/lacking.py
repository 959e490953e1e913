"""Operators that OpenVINO lacks, or computes differently than ONNX defines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

import onnx
import onnx_ir as ir

from pinnace.compiler.nodes import nodes
from pinnace.engines.openvino.conditions import (
    adds_dimensions,
    comes_from_shapes,
    constant_values,
    exceeds_32_bits,
    indexes_all,
    input_type,
    is_cast_again,
    is_int64,
    is_integer,
    is_natural,
    is_over_last,
    is_small,
    is_static,
    is_subtracted,
    is_used,
    may_be_negative,
    may_start_beyond,
    overflows,
    pads_automatically,
    returns_an_input,
    set_attributes,
    splits_evenly,
    transposes_attention,
)
from pinnace.errors import UnsupportedPrimitive
from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.ops.inference import opset_of
from pinnace.ops.nodes import origins

_CUT = "OpenVINO computes int64 in 32 bits"
_IN_FLOATS = "OpenVINO computes integers in float32, which is inexact above 2^24"
_UNCHECKED = "OpenVINO does not check indices and sizes before it accesses memory"
_OF_NAN = "OpenVINO gives other values for NaN and infinities"
_WRONG = {
    "AffineGrid": "OpenVINO returns two coordinates for a grid of size one",
    "Attention": "OpenVINO does not check that shapes fit",
    "BitShift": "OpenVINO saturates, rounds, and shifts by at most 31 bits",
    "Celu": _OF_NAN,
    "Col2Im": _UNCHECKED,
    "Compress": _UNCHECKED,
    "DynamicQuantizeLinear": "OpenVINO adds the zero point before rounding, so halves round differently",
    "DFT": "OpenVINO returns one more dimension",
    "GatherND": _UNCHECKED,
    "Hardmax": _OF_NAN,
    "LRN": "OpenVINO normalises over another window",
    "Loop": "OpenVINO changes values of the outer graph between iterations",
    "LpNormalization": "OpenVINO adds an epsilon to the norm",
    "LpPool": "OpenVINO gives other values with padding",
    "ReduceLogSumExp": _OF_NAN,
    "RoiAlign": "OpenVINO gives other values for boxes beyond the image",
    "Scan": "OpenVINO gives other values for states",
    "Scatter": _UNCHECKED,
    "ScatterElements": _UNCHECKED,
    "STFT": "OpenVINO uses other frames",
    "Shrink": _OF_NAN,
    "ThresholdedRelu": _OF_NAN,
    "Unique": "OpenVINO returns the values in another order",
}
"""Operators whose results differ from ONNX's, seen in OpenVINO 2026.4 with the goldens of this project and
with random graphs (`python -m tests.random_graphs --engine openvino`)."""

_UNCHECKED_INPUTS = {
    "NonMaxSuppression": (2,),
    "Pad": (1, 2, 3),
    "Range": (2,),
    "OneHot": (1,),
    "RotaryEmbedding": (3,),
    "SequenceAt": (1,),
    "Slice": (3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Tile": (1,),
    "Trilu": (1,),
}
"""Inputs by which a request could access other memory, or get values where ONNX defines an error."""

_TYPES = {
    ir.DataType.DOUBLE: "OpenVINO computes float64 in float32",
    ir.DataType.BFLOAT16: "OpenVINO omits roundings to bfloat16",
    ir.DataType.STRING: "OpenVINO has no strings on the processor",
    ir.DataType.COMPLEX64: "OpenVINO has no complex numbers",
    ir.DataType.COMPLEX128: "OpenVINO has no complex numbers",
    ir.DataType.INT16: "OpenVINO computes int16 in int32",
    ir.DataType.UINT16: "OpenVINO computes uint16 in int32",
    ir.DataType.UINT32: "OpenVINO computes uint32 in int32",
    ir.DataType.UINT64: "OpenVINO computes uint64 in int32",
}
"""Element types whose values would differ."""

_BYTES = {ir.DataType.INT8, ir.DataType.UINT8}
_SATURATING = {"Clip", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Slice"}
"""Operators for which constants may be saturated to 32 bits."""

_Condition = Callable[[ir.Node, int], object]

_CONDITIONS: tuple[tuple[str, _Condition, str], ...] = (
    ("AveragePool", lambda n, _: {"ceil_mode", "count_include_pad"} <= set_attributes(n),
     "OpenVINO counts the elements that ceil_mode adds"),
    ("AveragePool MaxPool", lambda n, _: "ceil_mode" in set_attributes(n) and may_start_beyond(n),
     "OpenVINO counts windows that start beyond the image"),
    ("Cast", lambda n, _: n.attributes.get_int("to", 0) == ir.DataType.FLOAT16 and is_cast_again(n),
     "OpenVINO omits roundings to float16"),
    ("Einsum", lambda n, opset: not all(is_static(value, opset) for value in n.inputs), _UNCHECKED),
    ("Dropout Einsum Max Min Sum", lambda n, _: returns_an_input(n),
     "OpenVINO removes it, and does not write an output that is an input"),
    ("Transpose", lambda n, opset: transposes_attention(n, opset),
     "OpenVINO transposes dimensions of equal size in place after an attention"),
    ("ConvTranspose", lambda n, _: n.attributes.get_string("auto_pad", "").startswith("SAME"),
     "OpenVINO returns images of another size"),
    ("HardSigmoid Selu", lambda n, _: not all(a.value for a in n.attributes.values()),
     "OpenVINO ignores attributes of 0"),
    ("MaxPool", lambda n, _: {"auto_pad", "dilations"} <= set_attributes(n) and pads_automatically(n),
     "OpenVINO returns images of another size"),
    ("Resize", lambda n, _: {"antialias", "exclude_outside"} & set_attributes(n)
     or not n.attributes.get_float("cubic_coeff_a", -0.75), "OpenVINO interpolates differently"),
    ("Resize", lambda n, _: n.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch",
     "OpenVINO stretches images"),
    ("CumSum", lambda n, _: not is_natural(constant_values(n.inputs[1])),
     "OpenVINO ends the process for a negative axis"),
    ("GatherElements", lambda n, opset: not indexes_all(n, opset),
     "OpenVINO requires indices for all elements except along the axis"),
    ("Softmax LogSoftmax", lambda n, opset: opset < 13 and not is_over_last(n, opset),
     "OpenVINO interprets the axis as in opset 13"),
    ("Split", lambda n, opset: "num_outputs" in set_attributes(n) and not splits_evenly(n, opset),
     "OpenVINO splits into equal parts only"),
    ("Pad", lambda n, _: any(pads_automatically(use.node) for use in n.outputs[0].uses()),
     "OpenVINO merges it with the next operator's padding, which has another rule"),
    ("ReduceL1 ReduceL2 ReduceSumSquare", lambda n, _: "noop_with_empty_axes" in set_attributes(n),
     "OpenVINO returns the input if there are no axes"),
    ("TopK", lambda n, _: len(n.inputs) > 1 and constant_values(n.inputs[1]) == [0],
     "OpenVINO does not support k = 0"),
    ("TopK", lambda n, _: any(map(is_used, n.outputs[1:])),
     "OpenVINO returns equal values in another order"),
    ("Abs Add Mul Neg Sub", lambda n, opset: input_type(n, opset) in _BYTES,
     "OpenVINO saturates at the limits of 8 bits instead of wrapping around"),
    ("Add Div Mul Pow Sub", lambda n, opset: adds_dimensions(n, opset),
     "OpenVINO loses the dimensions that a constant of one element adds"),
    ("Add Sub", lambda n, opset: is_int64(n, opset) and not any(map(is_small, n.inputs)), _CUT),
    ("CumSum Mul", lambda n, opset: is_int64(n, opset) and not all(map(is_small, n.inputs)), _CUT),
    ("Mod", lambda n, opset: is_integer(n, opset) is False, "OpenVINO loses digits of the remainder"),
    ("ReduceLogSum", lambda n, opset: is_integer(n, opset), "OpenVINO rounds to integers differently"),
    ("Floor", lambda n, _: (x := n.inputs[0]) and (maker := x.producer()) and maker.op_type == "Div",
     "OpenVINO multiplies by the reciprocal, so x / x may be less than 1"),
    ("ReduceL1 ReduceLogSum", lambda n, _: "axes" in set_attributes(n),
     "OpenVINO reduces over all axes from opset 13 on"),
    ("Expand Unsqueeze", lambda n, _: len(n.inputs) > 1 and constant_values(n.inputs[1]) == [],
     "OpenVINO adds a dimension"),
    ("Reshape", lambda n, opset: is_integer(n, opset) is False and constant_values(n.inputs[1]) == [],
     "OpenVINO ends the process if a matrix product is reshaped to a scalar"),
    ("ReduceMean", lambda n, _: not n.attributes.get_int("keepdims", 1) and is_subtracted(n),
     "OpenVINO fuses it as the mean of a normalisation, which keeps its dimensions"),
    ("ReduceMax ReduceMin", lambda n, opset: input_type(n, opset) is ir.DataType.BOOL,
     "OpenVINO returns other dimensions for booleans"),
    ("OneHot", lambda n, opset: is_integer(n, opset) is False, "OpenVINO rounds indices differently"),
    ("GRU LSTM RNN", lambda n, _: len(n.inputs) > 4 and n.inputs[4] is not None,
     "OpenVINO ignores sequence lengths if dimensions are free"),
    ("LSTM", lambda n, _: "input_forget" in set_attributes(n), "OpenVINO does not couple the gates"),
    ("LSTM", lambda n, _: len(n.inputs) > 7 and n.inputs[7] is not None, "OpenVINO ignores peepholes"),
    ("GRU LSTM RNN", lambda n, _: n.attributes.get_string("direction", "forward") != "bidirectional",
     "OpenVINO gives other values after the export of the model, which the compile cache needs"),
    ("DequantizeLinear", lambda n, _: sums_of_bytes_overflow() and overflows(n),
     "OpenVINO adds products of 8 bits in 16, which overflow: this processor has no VNNI"),
    ("Gemm MatMul Neg Pow Relu Trilu ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
     "ReduceSumSquare",
     lambda n, opset: is_integer(n, opset) and not is_small(n.inputs[0]), _IN_FLOATS),
    ("Div Mod", lambda n, opset: is_integer(n, opset) and not comes_from_shapes(n.inputs[0]),
     _IN_FLOATS),
    ("Div Mod", lambda n, opset: is_integer(n, opset) and any(map(may_be_negative, n.inputs)),
     "OpenVINO rounds constant quotients of integers down"),
)  # fmt: skip
"""Names of operators, a condition of node and operator set under which they are wrong, and the reason."""


def unsupported(model: ir.Model) -> list[UnsupportedPrimitive]:
    """Return the operators that OpenVINO lacks or computes differently, most used first.

    Functions of the model must be inlined.
    """
    opset, every = opset_of(model), list(nodes(model.graph))
    # The conditions rely on required inputs.
    found = [(node, reason) for node in every if (reason := _incomplete(node, opset))]
    return _rows(found or [(node, reason) for node in every if (reason := _reason(node, opset, model))])


def _rows(found: Iterable[tuple[ir.Node, str]]) -> list[UnsupportedPrimitive]:
    return UnsupportedPrimitive.counted((node.op_type, reason, origins(node)[0]) for node, reason in found)


def _reason(node: ir.Node, opset: int, model: ir.Model) -> str:
    """Return the reason why OpenVINO computes a node differently; "" if it does not."""
    reason = _WRONG.get(node.op_type) or _wrong_use(node, opset) or _wrong_type(node)
    if not reason and node.graph is not model.graph and _needs_guard(node):
        return f"{_UNCHECKED}, in branches and loops"
    return reason


def _incomplete(node: ir.Node, opset: int) -> str:
    """Return an error if a node lacks inputs or outputs that ONNX requires; else ""."""
    known = node.domain in ("", "ai.onnx")
    places, inputs, outputs = _required(node.op_type, opset) if known else ((), 0, 0)
    given = [place for place, value in enumerate(node.inputs) if value is not None]
    if set(places) <= set(given) and len(node.inputs) >= inputs and len(node.outputs) >= outputs:
        return ""
    return "it lacks inputs or outputs, without which OpenVINO ends the process"


@cache
def _required(op_type: str, opset: int) -> tuple[tuple[int, ...], int, int]:
    """Return the positions of an operator's required inputs, and the minimum of inputs and outputs."""
    if not onnx.defs.has(op_type, opset):
        return (), 0, 0
    schema = onnx.defs.get_schema(op_type, opset)
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    places = tuple(place for place, value in enumerate(schema.inputs) if value.option == single)
    return places, schema.min_input, schema.min_output


def _wrong_use(node: ir.Node, opset: int) -> str:
    """Return the reason why an operator is wrong with these inputs and attributes; "" if it is not."""
    unchecked = _UNCHECKED_INPUTS.get(node.op_type, ())
    values = (node.inputs[place] for place in unchecked if place < len(node.inputs))
    if any(value is not None and not comes_from_shapes(value) for value in values):
        return _UNCHECKED
    if any(v is not None and v.const_value is None and v.shape and 0 in v.shape for v in node.inputs):
        return "OpenVINO leaves results of empty tensors undefined, or ends the process"
    if node.op_type not in _SATURATING and any(map(exceeds_32_bits, node.inputs)):
        return _CUT
    for is_wrong, reason in _conditions(node.op_type):
        if is_wrong(node, opset):
            return reason
    if any(value is not None and value.shape is not None and 0 in value.shape for value in node.outputs):
        return "OpenVINO gives empty tensors other shapes, or ends the process"
    return ""


@cache
def _conditions(op_type: str) -> list[tuple[_Condition, str]]:
    return [(is_wrong, reason) for names, is_wrong, reason in _CONDITIONS if op_type in names.split()]


def _needs_guard(node: ir.Node) -> bool:
    """Return True for a node that `guards` may have to check, which it cannot in nested graphs."""
    shapes = [value.shape for value in node.inputs[:2] if value is not None]
    fits = all(shape is not None and shape.is_static() for shape in shapes)
    return node.op_type in ("Gather", "Range") or (node.op_type in ("MatMul", "Gemm") and not fits)


def _wrong_type(node: ir.Node) -> str:
    to = node.attributes.get("to")
    types = [value.dtype for value in (*node.inputs, *node.outputs) if value is not None]
    types += [ir.DataType(to.as_int())] if to is not None and node.op_type == "Cast" else []
    return next((_TYPES[dtype] for dtype in types if dtype in _TYPES), "")


def unknown(model: ir.Model, message: str) -> list[UnsupportedPrimitive]:
    """Return the operators of a model that an error of OpenVINO's reader names, most used first."""
    named = set(re.findall(r"[\w.]+", message))
    every = ((n, {n.op_type, f"{n.domain}.{n.op_type}", f"ai.onnx.{n.op_type}"}) for n in nodes(model.graph))
    return _rows((node, "OpenVINO cannot read it") for node, names in every if names & named)
