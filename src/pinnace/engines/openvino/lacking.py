"""Operators that OpenVINO lacks, or computes differently than ONNX defines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import onnx
import onnx_ir as ir
import openvino as ov

from pinnace.compiler.nodes import nodes
from pinnace.engines.openvino.conditions import (
    CUT,
    UNCHECKED,
    comes_from_shapes,
    exceeds_32_bits,
    wrong_condition,
)
from pinnace.engines.openvino.limits import is_constant
from pinnace.errors import UnsupportedPrimitive
from pinnace.ops.inference import opset_of
from pinnace.ops.nodes import origins

_FREE = "OpenVINO trusts the shapes of requests: export the model with fixed dimensions, or use onnxruntime"
_OF_NAN = "OpenVINO gives other values for NaN and infinities"
_WRONG = {
    "AffineGrid": "OpenVINO returns two coordinates for a grid of size one",
    "Attention": "OpenVINO does not check that shapes fit",
    "BitShift": "OpenVINO saturates, rounds, and shifts by at most 31 bits",
    "Celu": _OF_NAN,
    "Col2Im": UNCHECKED,
    "Compress": UNCHECKED,
    "DynamicQuantizeLinear": "OpenVINO adds the zero point before rounding, so halves round differently",
    "DFT": "OpenVINO returns one more dimension",
    "GatherND": UNCHECKED,
    "Hardmax": _OF_NAN,
    "LRN": "OpenVINO normalises over another window",
    "Loop": "OpenVINO changes values of the outer graph between iterations",
    "LpNormalization": "OpenVINO adds an epsilon to the norm",
    "LpPool": "OpenVINO gives other values with padding",
    "ReduceLogSumExp": _OF_NAN,
    "RoiAlign": "OpenVINO gives other values for boxes beyond the image",
    "Scan": "OpenVINO gives other values for states",
    "Scatter": UNCHECKED,
    "ScatterElements": UNCHECKED,
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
    "OneHot": (1,),
    "Resize": (1, 2, 3),
    "RotaryEmbedding": (3,),
    "SequenceAt": (1,),
    "Slice": (3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Tile": (1,),
    "Trilu": (1,),
    "Upsample": (1,),
}
"""Inputs by which a request could access other memory, or get values where ONNX defines an error."""

_TYPES = {
    ir.DataType.DOUBLE: "OpenVINO computes float64 in float32",
    ir.DataType.BFLOAT16: "OpenVINO omits roundings to bfloat16",
    ir.DataType.STRING: "OpenVINO has no strings on the CPU",
    ir.DataType.COMPLEX64: "OpenVINO has no complex numbers",
    ir.DataType.COMPLEX128: "OpenVINO has no complex numbers",
    ir.DataType.INT16: "OpenVINO computes int16 in int32",
    ir.DataType.UINT16: "OpenVINO computes uint16 in int32",
    ir.DataType.UINT32: "OpenVINO computes uint32 in int32",
    ir.DataType.UINT64: "OpenVINO computes uint64 in int32",
}
"""Element types whose values would differ."""

_SATURATING = {"Clip", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Slice"}
"""Operators for which constants may be saturated to 32 bits."""


def unsupported(model: ir.Model) -> list[UnsupportedPrimitive]:
    """Return the operators that OpenVINO lacks or computes differently, most used first.

    Functions of the model must be inlined.
    """
    free = [x for x in model.graph.inputs if x.shape is None or not _is_filled(x.shape)]
    if free:
        return UnsupportedPrimitive.counted(("free dimensions", _FREE, x.name or "") for x in free)
    opset, every = opset_of(model), list(nodes(model.graph))
    # The conditions rely on required inputs.
    found = [(node, reason) for node in every if (reason := _incomplete(node, opset))]
    found = found or [(node, reason) for node in every if (reason := _reason(node, opset, model))]
    return _rows(found)


def _is_filled(shape: ir.Shape) -> bool:
    return all(isinstance(size, int) and size > 0 for size in shape)


def free_shapes(model: ov.Model) -> list[UnsupportedPrimitive]:
    """Return the operators whose results may differ in shape from run to run, or lack elements."""
    results = (output for node in model.get_ordered_ops() for output in node.outputs())
    found = (output.get_node() for output in results if not _is_known(output))
    return UnsupportedPrimitive.counted(
        (node.get_type_name(), _FREE, str(node.get_friendly_name())) for node in found
    )


def _is_known(output: ov.Output) -> bool:
    shape = output.get_partial_shape()
    return shape.is_static and (0 not in shape.to_shape() or is_constant(output))


def _rows(found: Iterable[tuple[ir.Node, str]]) -> list[UnsupportedPrimitive]:
    return UnsupportedPrimitive.counted((node.op_type, reason, origins(node)[0]) for node, reason in found)


def _reason(node: ir.Node, opset: int, model: ir.Model) -> str:
    """Return the reason why OpenVINO computes a node differently; "" if it does not."""
    if node.domain:
        return "no test has shown that OpenVINO checks requests of operators outside of ONNX's own domain"
    reason = _WRONG.get(node.op_type) or _wrong_use(node, opset) or _wrong_type(node)
    if not reason and node.graph is not model.graph and _needs_guard(node):
        return f"{UNCHECKED}, in branches and loops"
    return reason


def _incomplete(node: ir.Node, opset: int) -> str:
    """Return an error if ONNX has no such operator, or it lacks inputs or outputs; else ""."""
    known = node.domain in ("", "ai.onnx")
    if known and not onnx.defs.has(node.op_type, opset):
        return "ONNX has no such operator"
    places, names, inputs, outputs = _required(node.op_type, opset) if known else ((), (), 0, 0)
    given = [place for place, value in enumerate(node.inputs) if value is not None]
    named = set(places) <= set(given) and node.attributes.keys() >= set(names)
    if named and len(node.inputs) >= inputs and len(node.outputs) >= outputs:
        return ""
    return "it lacks inputs, outputs or attributes, without which OpenVINO ends the process"


@cache
def _required(op_type: str, opset: int) -> tuple[tuple[int, ...], tuple[str, ...], int, int]:
    """Return an operator's required inputs by position and attributes by name, and the minimum of inputs and
    outputs.
    """
    if not onnx.defs.has(op_type, opset):
        return (), (), 0, 0
    schema = onnx.defs.get_schema(op_type, opset)
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    places = tuple(place for place, value in enumerate(schema.inputs) if value.option == single)
    names = tuple(name for name, attribute in schema.attributes.items() if attribute.required)
    return places, names, schema.min_input, schema.min_output


def _wrong_use(node: ir.Node, opset: int) -> str:
    """Return the reason why an operator is wrong with these inputs and attributes; "" if it is not."""
    unchecked = _UNCHECKED_INPUTS.get(node.op_type, ())
    values = (node.inputs[place] for place in unchecked if place < len(node.inputs))
    if any(value is not None and not comes_from_shapes(value) for value in values):
        return UNCHECKED
    if node.op_type not in _SATURATING and any(map(exceeds_32_bits, node.inputs)):
        return CUT
    if reason := wrong_condition(node, opset):
        return reason
    if any(value is not None and value.shape is not None and 0 in value.shape for value in node.outputs):
        return "OpenVINO gives empty tensors other shapes, or ends the process"
    return ""


def _needs_guard(node: ir.Node) -> bool:
    """Return True for a node that `guards` may have to check, which it cannot in nested graphs."""
    return node.op_type == "Gather"


def _wrong_type(node: ir.Node) -> str:
    to = node.attributes.get("to")
    types = [value.dtype for value in (*node.inputs, *node.outputs) if value is not None]
    if node.op_type == "Constant" and _is_text(node):
        types.append(ir.DataType.STRING)
    types += [ir.DataType(to.as_int())] if to is not None and node.op_type == "Cast" else []
    return next((_TYPES[dtype] for dtype in types if dtype in _TYPES), "")


def _is_text(constant: ir.Node) -> bool:
    value = constant.attributes.get("value")
    if value is not None and value.type is ir.AttributeType.TENSOR:
        return bool(value.as_tensor().dtype is ir.DataType.STRING)
    return not constant.attributes.keys().isdisjoint(("value_string", "value_strings"))


def unknown(model: ir.Model, message: str) -> list[UnsupportedPrimitive]:
    """Return the operators of a model that an error of OpenVINO's reader names, most used first."""
    named = set(re.findall(r"[\w.]+", message))
    every = ((n, {n.op_type, f"{n.domain}.{n.op_type}", f"ai.onnx.{n.op_type}"}) for n in nodes(model.graph))
    return _rows((node, "OpenVINO cannot read it") for node, names in every if names & named)
