"""The uses of operators that OpenVINO is known to compute as ONNX defines them.

A model runs on OpenVINO if every node is one of these uses; all other models run on onnxruntime. Goldens,
random graphs (`python -m tests.random_graphs --engine openvino`) and networks of timm and transformers have
shown them right with OpenVINO 2026.4. A use is added with a test that compares it with another library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import onnx
import onnx_ir as ir
import openvino as ov

from pinnace.engines.openvino import forms
from pinnace.engines.openvino.guards import is_constant
from pinnace.errors import UnsupportedPrimitive
from pinnace.graph.constants import constant
from pinnace.graph.inference import opset_of
from pinnace.graph.matching import dequantizing, is_read
from pinnace.graph.nodes import origins
from pinnace.graph.walk import nodes
from pinnace.machine.processor import sums_of_bytes_overflow

_FREE = "OpenVINO trusts the shapes of requests: export the model with fixed dimensions, or use onnxruntime"
_UNKNOWN = "no test has shown that OpenVINO computes it right"
_CUT = "OpenVINO computes int64 in 32 bits"
_EMPTY = "OpenVINO gives empty tensors other shapes, or ends the process"
_INCOMPLETE = "it lacks inputs, outputs or attributes, without which OpenVINO ends the process"

_T = ir.DataType
_BYTES = frozenset((_T.INT8, _T.UINT8))
_NUMBERS = forms.FLOATS | forms.INTEGERS
_ALL = _NUMBERS | _BYTES | {_T.BOOL}


class _Use(NamedTuple):
    """Uses of operators: their `attributes`, the `types` of their inputs, and what they must not be.

    Other attributes have their defaults. Inputs in the places `fixed` come from shapes and constants.
    """

    names: str
    attributes: str = ""
    types: frozenset[ir.DataType] = forms.FLOATS
    fixed: tuple[int, ...] = ()
    wrong: Callable[[ir.Node, int], object] = lambda node, opset: False


_WINDOWS = "auto_pad dilations kernel_shape pads strides"
_USES = (
    _Use("Clip", fixed=(1, 2)),  # with others it loses a dimension of 1
    _Use("Ceil Cos Exp HardSwish Log Mish Neg Reciprocal Relu Sigmoid Sign Sin Softsign Sqrt Tanh"),
    _Use("PRelu", wrong=forms.seems_of_channels),
    _Use("Abs", wrong=forms.is_of_vector),
    _Use("Erf", wrong=lambda n, _: forms.is_almost_gelu(n)),
    # OpenVINO multiplies by the reciprocal.
    _Use("Floor", wrong=lambda n, _: forms.operator_of(n.inputs[0]) == "Div"),
    _Use("Elu LeakyRelu", "alpha"),
    _Use("HardSigmoid", "alpha beta", wrong=lambda n, _: not all(a.value for a in n.attributes.values())),
    _Use("Gelu", "approximate"),
    _Use("Add Div Mul Pow Sub", wrong=forms.adds_dimensions),
    _Use("Add Mul Sub", types=frozenset((_T.INT32,))),
    _Use("Add Sub", types=forms.INTEGERS, wrong=lambda n, _: not any(map(forms.is_small, n.inputs))),
    _Use("Abs", types=forms.INTEGERS,
         wrong=lambda n, opset: forms.is_of_vector(n, opset) or not forms.is_small(n.inputs[0])),
    _Use("Mul Neg", types=forms.INTEGERS, wrong=lambda n, _: not all(map(forms.is_small, n.inputs))),
    _Use("Max Min Sum", wrong=lambda n, _: len(n.inputs) < 2),  # removed, and an output is not written
    _Use("Max Min", types=forms.INTEGERS, wrong=lambda n, _: len(n.inputs) < 2),
    _Use("CumSum", "exclusive reverse", wrong=lambda n, _: not forms.is_natural(n.inputs[1])),
    _Use("CumSum", "exclusive reverse", forms.INTEGERS,
         wrong=lambda n, _: not (forms.is_natural(n.inputs[1]) and forms.is_small(n.inputs[0]))),
    _Use("And Not Or", types=frozenset((_T.BOOL,))),
    _Use("Equal Where", types=_NUMBERS | {_T.BOOL}),
    _Use("Greater GreaterOrEqual Less LessOrEqual", types=_NUMBERS),
    _Use("Cast", "to", _NUMBERS | {_T.BOOL}, wrong=lambda n, _: forms.omits_rounding(n)),
    _Use("Cast", "to", _BYTES, wrong=lambda n, _: constant(n.inputs[0]) is None),  # quantized weights
    _Use("MatMul", wrong=lambda n, _: forms.scales_vector(n)),
    _Use("Gemm", "alpha beta transA transB"),
    _Use("Einsum", "equation", wrong=lambda n, _: len(n.inputs) < 2),
    _Use("Conv", f"{_WINDOWS} group", wrong=lambda n, _: forms.has_holes_in_one_volume(n)),
    _Use("ConvTranspose", "dilations group kernel_shape output_padding pads strides",
         wrong=lambda n, _: dequantizing(n.inputs[1])),  # negative sums of bytes are taken for large ones
    _Use("AveragePool", "auto_pad count_include_pad kernel_shape pads strides"),
    _Use("AveragePool", "auto_pad ceil_mode kernel_shape pads strides",
         wrong=lambda n, _: forms.may_start_beyond(n)),
    _Use("MaxPool", "ceil_mode dilations kernel_shape pads storage_order strides",
         wrong=lambda n, _: len(n.outputs) > 1 or forms.may_be_activated(n)
         or (forms.has(n, "ceil_mode") and forms.may_start_beyond(n))),
    _Use("MaxPool", "auto_pad kernel_shape pads strides",
         wrong=lambda n, _: len(n.outputs) > 1 or forms.may_be_activated(n)),
    _Use("GlobalAveragePool", wrong=forms.is_wrong_reduction),
    _Use("GlobalMaxPool", wrong=lambda n, opset: forms.is_wrong_reduction(n, opset) or forms.is_quantized(n)),
    _Use("BatchNormalization", "epsilon momentum spatial",
         wrong=lambda n, _: any(map(is_read, n.outputs[1:]))),
    _Use("InstanceNormalization", "epsilon"),
    _Use("GroupNormalization", "epsilon num_groups",
         wrong=lambda n, opset: forms.meets_computed(n) or not forms.has_parameters_of_channels(n, opset)),
    _Use("LayerNormalization", "axis epsilon", wrong=lambda n, _: any(map(is_read, n.outputs[1:]))),
    _Use("LogSoftmax Softmax", "axis",
         wrong=lambda n, opset: opset < 13 and not forms.is_over_last(n, opset)),
    _Use("ReduceMax ReduceMin", "axes keepdims noop_with_empty_axes", fixed=(1,),
         wrong=lambda n, opset: forms.is_wrong_reduction(n, opset) or forms.is_quantized(n)),
    _Use("ReduceProd ReduceSum", "axes keepdims noop_with_empty_axes", fixed=(1,),
         wrong=forms.is_wrong_reduction),
    _Use("ReduceMean", "axes keepdims noop_with_empty_axes", fixed=(1,),
         wrong=lambda n, opset: forms.is_subtracted(n) or forms.is_wrong_reduction(n, opset)),
    _Use("ReduceL2", "axes keepdims", fixed=(1,), wrong=forms.is_wrong_reduction),
    _Use("ReduceSum", "keepdims noop_with_empty_axes", forms.INTEGERS, (1,),
         lambda n, opset: not forms.is_small(n.inputs[0]) or forms.is_wrong_reduction(n, opset)),
    _Use("ArgMax ArgMin", "axis keepdims"),
    _Use("Concat", "axis", _ALL),
    _Use("Flatten", "axis", _ALL),
    _Use("Identity", types=_ALL),
    _Use("Reshape", "allowzero", _ALL, (1,), lambda n, _: forms.constant_values(n.inputs[1]) == []),
    _Use("Slice", "axes ends starts", _ALL, (1, 2, 3, 4)),
    _Use("Split", "axis num_outputs split", _ALL, (1,),
         lambda n, opset: forms.has(n, "num_outputs") and not forms.splits_evenly(n, opset)),
    _Use("Squeeze", "axes", _ALL, (1,)),
    _Use("Expand Unsqueeze", "axes", _ALL, (1,),
         lambda n, _: len(n.inputs) > 1 and forms.constant_values(n.inputs[1]) == []),
    _Use("Transpose", "perm", _ALL, wrong=forms.transposes_attention),
    _Use("Tile", types=_ALL, fixed=(1,)),
    _Use("Pad", "mode pads value", _ALL, (1, 2, 3),
         lambda n, _: any(forms.pads_automatically(use.node) for use in n.outputs[0].uses())),
    _Use("DepthToSpace SpaceToDepth", "blocksize mode"),
    _Use("Gather", "axis", _NUMBERS | {_T.BOOL}),
    # It reads four bytes for each, so up to three behind the last one of a request.
    _Use("Gather", "axis", _BYTES | forms.INTEGERS, wrong=lambda n, _: constant(n.inputs[0]) is None),
    _Use("GatherElements", "axis", _NUMBERS, wrong=lambda n, opset: not forms.indexes_all(n, opset)),
    _Use("ScatterND", fixed=(1,)),
    _Use("Trilu", "upper", fixed=(1,)),
    _Use("Resize", "coordinate_transformation_mode cubic_coeff_a extrapolation_value mode nearest_mode",
         fixed=(1, 2, 3), wrong=lambda n, opset: not n.attributes.get_float("cubic_coeff_a", -0.75)
         or (opset < 11 and n.attributes.get_string("mode", "") == "cubic")),  # which came with 11
    _Use("Constant", "value value_float value_floats value_int value_ints", _ALL),
    _Use("ConstantOfShape", "value", forms.INTEGERS, (0,)),
    _Use("Shape", "end start", _ALL),
    _Use("QuantizeLinear", "axis output_dtype",
         wrong=lambda n, opset: forms.gains_dimension(n, opset) or forms.has_other_scales(n, opset)
         or forms.is_joined_and_quantized_twice(n) or forms.is_constant_image(n)),
    _Use("DequantizeLinear", "axis", _BYTES | {_T.INT32},
         wrong=lambda n, opset: forms.gains_dimension(n, opset) or forms.is_rounded_behind(n)
         or forms.has_other_scales(n, opset)
         or (sums_of_bytes_overflow() and forms.overflows(n))),
)  # fmt: skip

OPERATORS = frozenset(name for use in _USES for name in use.names.split())
"""The operators of which some uses are known to be right."""

_SATURATING = {"Clip", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Slice"}
"""Operators for which constants may be saturated to 32 bits."""


def unsupported(model: ir.Model) -> list[UnsupportedPrimitive]:
    """Return the nodes that OpenVINO is not known to compute right, by operator, most used first.

    Functions of the model must be inlined.
    """
    free = [x for x in model.graph.inputs if x.shape is None or not _is_filled(x.shape)]
    if free:
        return UnsupportedPrimitive.counted(("free dimensions", _FREE, x.name or "") for x in free)
    opset, every = opset_of(model), list(nodes(model.graph))
    # The conditions rely on required inputs.
    found = [(node, _INCOMPLETE) for node in every if not _is_complete(node, opset)]
    return _rows(found or [(node, reason) for node in every if (reason := _reason(node, opset))])


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


@cache
def _uses(op_type: str) -> list[_Use]:
    return [use for use in _USES if op_type in use.names.split()]


def _is_complete(node: ir.Node, opset: int) -> bool:
    """Return False for a node of ONNX's own domain that lacks inputs, outputs or attributes."""
    if node.domain or not onnx.defs.has(node.op_type, opset):
        return True  # and unknown
    schema = onnx.defs.get_schema(node.op_type, opset)
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    needed = [place for place, value in enumerate(schema.inputs) if value.option == single]
    given = {place for place, value in enumerate(node.inputs) if value is not None}
    named = {name for name, attribute in schema.attributes.items() if attribute.required}
    counts = len(node.inputs) >= schema.min_input and len(node.outputs) >= schema.min_output
    return counts and given.issuperset(needed) and named <= node.attributes.keys()


def _reason(node: ir.Node, opset: int) -> str:
    """Return the reason why a node does not run on OpenVINO; "" if it does."""
    uses = [] if node.domain else _uses(node.op_type)
    reasons = [_misfit(node, opset, use) for use in uses]
    if not uses or all(reasons):
        return reasons[0] if uses else _UNKNOWN
    if node.op_type not in _SATURATING and any(map(forms.exceeds_32_bits, node.inputs)):
        return _CUT
    values = (*node.inputs[:1], *node.outputs)
    return _EMPTY if any(x is not None and x.shape is not None and 0 in x.shape for x in values) else ""


def _misfit(node: ir.Node, opset: int, use: _Use) -> str:
    """Return the reason why a node is no such use; "" if it is one."""
    given = use.attributes.split()
    for name, attribute in node.attributes.items():
        if name not in given and not _is_default(attribute, node.op_type, opset):
            return f"{_UNKNOWN} with the attribute {name}"
    for place, value in enumerate(node.inputs):
        if value is None:
            continue
        if place in use.fixed:
            if not forms.comes_from_shapes(value):
                return f"{_UNKNOWN} with the computed input {place}"
        elif not place or constant(value) is None:
            kind = forms.type_of(value, opset)
            if kind not in use.types:
                return f"{_UNKNOWN} for {'numbers of unknown type' if kind is None else kind.name.lower()}"
    for value in node.outputs:
        if is_read(value) and (kind := forms.type_of(value, opset)) not in _ALL:
            return f"{_UNKNOWN} for {'numbers of unknown type' if kind is None else kind.name.lower()}"
    return f"{_UNKNOWN} in this form" if use.wrong(node, opset) else ""


def _is_default(attribute: ir.Attr, op_type: str, opset: int) -> bool:
    known = onnx.defs.get_schema(op_type, opset).attributes if onnx.defs.has(op_type, opset) else {}
    if attribute.name not in known or not known[attribute.name].default_value.name:
        return False
    return bool(ir.from_proto(known[attribute.name].default_value).value == attribute.value)
