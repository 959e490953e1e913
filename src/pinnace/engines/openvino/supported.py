"""The uses of operators that OpenVINO is known to compute as ONNX defines them.

A model runs on OpenVINO if every node is one of these uses; all other models run on onnxruntime. Goldens,
random graphs (`python -m tests.random_graphs --engine openvino`) and networks of timm and transformers have
shown them right with OpenVINO 2026.4. A use is added with a test that compares it with another library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import openvino as ov

from pinnace.engines.openvino.guards import is_constant
from pinnace.errors import UnsupportedPrimitive
from pinnace.graph.constants import array, constant, given_ints
from pinnace.graph.inference import infer, opset_of
from pinnace.graph.matching import is_read
from pinnace.graph.nodes import origins
from pinnace.graph.walk import nodes
from pinnace.machine.processor import sums_of_bytes_overflow

_FREE = "OpenVINO trusts the shapes of requests: export the model with fixed dimensions, or use onnxruntime"
_UNKNOWN = "no test has shown that OpenVINO computes it right"
_CUT = "OpenVINO computes int64 in 32 bits"
_EMPTY = "OpenVINO gives empty tensors other shapes, or ends the process"
_INCOMPLETE = "it lacks inputs, outputs or attributes, without which OpenVINO ends the process"

_T = ir.DataType
_FLOATS = frozenset((_T.FLOAT, _T.FLOAT16))
_INTEGERS = frozenset((_T.INT32, _T.INT64))
_BYTES = frozenset((_T.INT8, _T.UINT8))
_NUMBERS = _FLOATS | _INTEGERS
_ALL = _NUMBERS | _BYTES | {_T.BOOL}
_SEVEN_BITS = 64
"""The largest weight of which two products with a byte fit into 16 bits."""


class _Use(NamedTuple):
    """Uses of operators: their `attributes`, the `types` of their inputs, and what they must not be.

    Other attributes have their defaults. Inputs in the places `fixed` come from shapes and constants.
    """

    names: str
    attributes: str = ""
    types: frozenset[ir.DataType] = _FLOATS
    fixed: tuple[int, ...] = ()
    wrong: Callable[[ir.Node, int], object] = lambda node, opset: False


_ROUNDED, _NEAR = 1e-5, 0.01
"""Relative errors of a constant: of one that was rounded, and of one that is surely another."""
_FAR = 64
"""Values that are looked at behind a node: more than OpenVINO computes together."""
_PRODUCTS = ("Conv", "Gemm", "MatMul")
_WINDOWS = "auto_pad dilations kernel_shape pads strides"
_USES = (
    _Use("Ceil Clip Cos Exp HardSwish Log Mish Neg Reciprocal Relu Sigmoid Sign Sin Softsign Sqrt Tanh"),
    _Use("PRelu", wrong=lambda n, opset: _seems_of_channels(n, opset)),
    _Use("Abs", wrong=lambda n, opset: _is_of_vector(n, opset)),
    _Use("Erf", wrong=lambda n, _: _is_almost_gelu(n)),
    _Use("Floor", wrong=lambda n, _: _maker(n.inputs[0]) == "Div"),  # a product with the reciprocal
    _Use("Elu LeakyRelu", "alpha"),
    _Use("HardSigmoid", "alpha beta", wrong=lambda n, _: not all(a.value for a in n.attributes.values())),
    _Use("Gelu", "approximate"),
    _Use("Add Div Mul Pow Sub", wrong=lambda n, opset: _adds_dimensions(n, opset)),
    _Use("Add Mul Sub", types=frozenset((_T.INT32,))),
    _Use("Add Sub", types=_INTEGERS, wrong=lambda n, _: not any(map(_is_small, n.inputs))),
    _Use("Abs", types=_INTEGERS,
         wrong=lambda n, opset: _is_of_vector(n, opset) or not _is_small(n.inputs[0])),
    _Use("Mul Neg", types=_INTEGERS, wrong=lambda n, _: not all(map(_is_small, n.inputs))),
    _Use("Max Min Sum", wrong=lambda n, _: len(n.inputs) < 2),  # removed, and an output is not written
    _Use("Max Min", types=_INTEGERS, wrong=lambda n, _: len(n.inputs) < 2),
    _Use("CumSum", "exclusive reverse", wrong=lambda n, _: not _is_natural(n.inputs[1])),
    _Use("CumSum", "exclusive reverse", _INTEGERS,
         wrong=lambda n, _: not (_is_natural(n.inputs[1]) and _is_small(n.inputs[0]))),
    _Use("And Not Or", types=frozenset((_T.BOOL,))),
    _Use("Equal Where", types=_NUMBERS | {_T.BOOL}),
    _Use("Greater GreaterOrEqual Less LessOrEqual", types=_NUMBERS),
    _Use("Cast", "to", _NUMBERS | {_T.BOOL}, wrong=lambda n, _: _omits_rounding(n)),
    _Use("Cast", "to", _BYTES, wrong=lambda n, _: constant(n.inputs[0]) is None),  # quantized weights
    _Use("MatMul", wrong=lambda n, _: _scales_vector(n)),
    _Use("Gemm", "alpha beta transA transB"),
    _Use("Einsum", "equation", wrong=lambda n, _: len(n.inputs) < 2),
    _Use("Conv", f"{_WINDOWS} group", wrong=lambda n, _: _has_holes_in_one_volume(n)),
    _Use("ConvTranspose", "dilations group kernel_shape output_padding pads strides"),
    _Use("AveragePool", "auto_pad count_include_pad kernel_shape pads strides"),
    _Use("AveragePool", "auto_pad ceil_mode kernel_shape pads strides",
         wrong=lambda n, _: _may_start_beyond(n)),
    _Use("MaxPool", "ceil_mode dilations kernel_shape pads storage_order strides",
         wrong=lambda n, _: len(n.outputs) > 1 or (_has(n, "ceil_mode") and _may_start_beyond(n))),
    _Use("MaxPool", "auto_pad kernel_shape pads strides", wrong=lambda n, _: len(n.outputs) > 1),
    _Use("GlobalAveragePool GlobalMaxPool", wrong=lambda n, opset: _feeds_vectors(n, opset)),
    _Use("BatchNormalization", "epsilon momentum spatial",
         wrong=lambda n, _: any(map(is_read, n.outputs[1:]))),
    _Use("InstanceNormalization", "epsilon"),
    _Use("GroupNormalization", "epsilon num_groups", wrong=lambda n, _: _meets_computed(n)),
    _Use("LayerNormalization", "axis epsilon", wrong=lambda n, _: any(map(is_read, n.outputs[1:]))),
    _Use("LogSoftmax Softmax", "axis", wrong=lambda n, opset: opset < 13 and not _is_over_last(n, opset)),
    _Use("ReduceMax ReduceMin ReduceProd ReduceSum", "axes keepdims noop_with_empty_axes", fixed=(1,),
         wrong=lambda n, opset: _feeds_vectors(n, opset)),
    _Use("ReduceMean", "axes keepdims noop_with_empty_axes", fixed=(1,),
         wrong=lambda n, opset: _is_subtracted(n) or _feeds_vectors(n, opset)),
    _Use("ReduceL2", "axes keepdims", fixed=(1,), wrong=lambda n, opset: _feeds_vectors(n, opset)),
    _Use("ReduceSum", "keepdims noop_with_empty_axes", _INTEGERS, (1,),
         lambda n, _: not _is_small(n.inputs[0])),
    _Use("ArgMax ArgMin", "axis keepdims"),
    _Use("Concat", "axis", _ALL),
    _Use("Flatten", "axis", _ALL),
    _Use("Identity", types=_ALL),
    _Use("Reshape", "allowzero", _ALL, (1,), lambda n, _: _constant_values(n.inputs[1]) == []),
    _Use("Slice", "axes ends starts", _ALL, (1, 2, 3, 4)),
    _Use("Split", "axis num_outputs split", _ALL, (1,),
         lambda n, opset: _has(n, "num_outputs") and not _splits_evenly(n, opset)),
    _Use("Squeeze", "axes", _ALL, (1,)),
    _Use("Expand Unsqueeze", "axes", _ALL, (1,),
         lambda n, _: len(n.inputs) > 1 and _constant_values(n.inputs[1]) == []),
    _Use("Transpose", "perm", _ALL, wrong=lambda n, opset: _transposes_attention(n, opset)),
    _Use("Tile", types=_ALL, fixed=(1,)),
    _Use("Pad", "mode pads value", _ALL, (1, 2, 3),
         lambda n, _: any(_pads_automatically(use.node) for use in n.outputs[0].uses())),
    _Use("DepthToSpace SpaceToDepth", "blocksize mode"),
    _Use("Gather", "axis", _ALL),
    _Use("GatherElements", "axis", _NUMBERS, wrong=lambda n, opset: not _indexes_all(n, opset)),
    _Use("ScatterND", fixed=(1,)),
    _Use("Trilu", "upper", fixed=(1,)),
    _Use("Resize", "coordinate_transformation_mode cubic_coeff_a extrapolation_value mode nearest_mode",
         fixed=(1, 2, 3), wrong=lambda n, opset: not n.attributes.get_float("cubic_coeff_a", -0.75)
         or (opset < 11 and n.attributes.get_string("mode", "") == "cubic")),  # which came with 11
    _Use("Constant", "value value_float value_floats value_int value_ints", _ALL),
    _Use("ConstantOfShape", "value", _INTEGERS, (0,)),
    _Use("Shape", "end start", _ALL),
    _Use("QuantizeLinear", "axis output_dtype", wrong=lambda n, opset: _gains_dimension(n, opset)),
    _Use("DequantizeLinear", "axis", _BYTES | {_T.INT32},
         wrong=lambda n, opset: _gains_dimension(n, opset) or _is_rounded_behind(n)
         or (sums_of_bytes_overflow() and _overflows(n))),
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
    if node.op_type not in _SATURATING and any(map(_exceeds_32_bits, node.inputs)):
        return _CUT
    return _EMPTY if any(x.shape is not None and 0 in x.shape for x in node.outputs) else ""


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
            if not comes_from_shapes(value):
                return f"{_UNKNOWN} with the computed input {place}"
        elif not place or constant(value) is None:
            kind = _type(value, opset)
            if kind not in use.types:
                return f"{_UNKNOWN} for {'numbers of unknown type' if kind is None else kind.name.lower()}"
    for value in node.outputs:
        if is_read(value) and (kind := _type(value, opset)) not in _ALL:
            return f"{_UNKNOWN} for {'numbers of unknown type' if kind is None else kind.name.lower()}"
    return f"{_UNKNOWN} in this form" if use.wrong(node, opset) else ""


def _is_default(attribute: ir.Attr, op_type: str, opset: int) -> bool:
    known = onnx.defs.get_schema(op_type, opset).attributes if onnx.defs.has(op_type, opset) else {}
    if attribute.name not in known or not known[attribute.name].default_value.name:
        return False
    return bool(ir.from_proto(known[attribute.name].default_value).value == attribute.value)


def _type(value: ir.Value, opset: int) -> ir.DataType | None:
    """Return the element type of a value, inferred if the file does not declare it."""
    if value.dtype is None:
        infer(value, opset)
    return value.dtype


def _shape(value: ir.Value | None, opset: int) -> tuple[object, ...] | None:
    """Return the shape of a value, inferred if the file does not declare it; None if its rank is unknown."""
    if value is not None and value.shape is None:
        infer(value, opset)
    return None if value is None or value.shape is None else tuple(value.shape)


def _has(node: ir.Node, name: str) -> bool:
    return name in node.attributes and bool(node.attributes[name].value)


def _maker(value: ir.Value | None) -> str:
    node = None if value is None else value.producer()
    return "" if node is None else node.op_type


def _constant_values(value: ir.Value | None) -> object:
    known = array(value)
    return None if known is None else known.tolist()


def _is_natural(value: ir.Value | None) -> bool:
    """Return True for constants of integers of 0 or more; a negative axis ends the process."""
    array = np.asarray(_constant_values(value))
    return array.dtype.kind == "i" and bool(np.all(array >= 0))


def _exceeds_32_bits(value: ir.Value | None) -> bool:
    known = array(value)
    if known is None or known.dtype != np.int64 or not known.size:
        return False
    return bool(known.min() < -(1 << 31) or known.max() >= 1 << 31)


def _is_small(value: ir.Value | None) -> bool:
    return comes_from_shapes(value, or_booleans=True)


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
        is_boolean = or_booleans and first is not None and first.dtype is _T.BOOL and node.op_type == "Cast"
        if not is_boolean and node.op_type not in ("Shape", "Size", "Constant"):
            todo += [given for given in node.inputs if given not in seen]
            seen.update(node.inputs)
    return True


def _adds_dimensions(node: ir.Node, opset: int) -> bool:
    """Return True if an operand is a constant of one element with more dimensions, which get lost."""
    for number, other in (node.inputs, node.inputs[::-1]):
        known = constant(number)
        if known is not None and known.size == 1 and len(known.shape) > 1:
            shape = _shape(other, opset)
            return shape is None or len(shape) < len(known.shape)
    return False


def _seems_of_channels(prelu: ir.Node, opset: int) -> bool:
    """Return True if slopes for the last dimension are taken for those of as many channels."""
    slopes, given = _shape(prelu.inputs[1], opset), _shape(prelu.inputs[0], opset)
    return slopes is None or (len(slopes) == 1 and slopes != (1,) and (given is None or len(given) != 2))


def _omits_rounding(node: ir.Node) -> bool:
    """Return True if a Cast to float16 is cast again, or if its type is none of those known."""
    to = ir.DataType(node.attributes.get_int("to", 0))
    return to not in _NUMBERS | {_T.BOOL} or (
        to is _T.FLOAT16 and any(use.node.op_type == "Cast" for use in node.outputs[0].uses())
    )


def _is_almost_gelu(erf: ir.Node) -> bool:
    """Return True for erf(c * x) with a c that is only near 1 / sqrt(2), of which OpenVINO makes a Gelu."""
    scaled = None if (x := erf.inputs[0]) is None else x.producer()
    if scaled is None or scaled.op_type not in ("Div", "Mul"):
        return False
    factors = [known.item() for x in scaled.inputs if (known := array(x)) is not None and known.size == 1]
    off = (abs(factor * 2**0.5 - 1 if scaled.op_type == "Mul" else factor / 2**0.5 - 1) for factor in factors)
    return any(_ROUNDED < error < _NEAR for error in off)


def _has_holes_in_one_volume(node: ir.Node) -> bool:
    """Return True for dilated windows of volumes of one channel, which are wrong on CPUs with AVX2."""
    shape = () if (weight := node.inputs[1]) is None or weight.shape is None else tuple(weight.shape)
    return len(shape) == 5 and shape[:2] == (1, 1) and max(node.attributes.get_ints("dilations", [1])) > 1


def _may_start_beyond(pool: ir.Node) -> bool:
    """Return True if the last window of a pool may start beyond the image with ceil_mode."""
    kernel = pool.attributes.get_ints("kernel_shape", ())
    strides = pool.attributes.get_ints("strides", [1] * len(kernel))
    after = pool.attributes.get_ints("pads", [0] * 2 * len(kernel))[len(kernel) :]
    return any(pad + stride > size for pad, stride, size in zip(after, strides, kernel, strict=True))


def _pads_automatically(node: ir.Node) -> bool:
    """Return True for a pool or convolution with another rule of padding than that of a Pad before it."""
    return node.op_type == "AveragePool" or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET"


def _is_subtracted(node: ir.Node) -> bool:
    """Return True for a mean without its dimensions that is subtracted: OpenVINO fuses it with them."""
    readers = (use.node for use in node.outputs[0].uses())
    return not node.attributes.get_int("keepdims", 1) and any(
        reader.op_type == "Sub" and reader.inputs[0] is node.inputs[0] for reader in readers
    )


def _feeds_vectors(node: ir.Node, opset: int) -> bool:
    """Return True if constants of several elements follow a reduction of one outer axis of three.

    OpenVINO computes them in the reduction, along a wrong axis.
    """
    shape = _shape(node.inputs[0], opset)
    if shape is not None and len(shape) != 3:
        return False
    axes = (2,) if node.op_type.startswith("Global") else given_ints(node, 1, "axes")
    if axes is None:  # all, or what the graph computes from shapes
        outer = any(value is not None for value in node.inputs[1:])
    else:
        outer = [axis % 3 for axis in axes] in ([0], [2])
    return outer and _any_behind(node, _is_vector)


def _is_vector(value: ir.Value) -> bool:
    known = constant(value)
    return known is not None and known.size > 1 and known.dtype in _FLOATS


def _any_behind(node: ir.Node, is_wrong: Callable[[ir.Value], bool]) -> bool:
    """Return True if another operand of what follows a node is wrong, up to a product or what is computed.

    So is what follows beyond _FAR values: walks to the end from each node would take the square of a chain.
    """
    todo = [*node.outputs]
    for _ in range(_FAR):
        if not todo:
            return False
        value = todo.pop()
        for reader in {use.node for use in value.uses()} if value else ():
            if reader.op_type not in _PRODUCTS:
                others = [x for x in reader.inputs if x is not None and x is not value]
                if any(map(is_wrong, others)):
                    return True
                todo += reader.outputs if all(constant(x) is not None for x in others) else ()
    return bool(todo)


def _is_rounded_behind(node: ir.Node) -> bool:
    """Return True if an AveragePool or Clip follows a DequantizeLinear, up to a product.

    OpenVINO computes both in integers: it rounds averages and the limits of a Clip to the scale, and pads an
    average with the integer 0, whatever the zero point. What is farther than _FAR values takes the safe way.
    """
    todo = [] if constant(node.inputs[0]) is not None else [node.outputs[0]]
    for _ in range(_FAR):
        if not todo:
            return False
        for reader in {use.node for use in todo.pop().uses()}:
            if reader.op_type in ("AveragePool", "Clip"):
                return True
            if reader.op_type not in (*_PRODUCTS, "QuantizeLinear"):
                todo += reader.outputs
    return bool(todo)


def _is_of_vector(node: ir.Node, opset: int) -> bool:
    """Return True if the input may be a vector: Abs changes a joined one for its other readers, too."""
    return len(_shape(node.inputs[0], opset) or (1,)) == 1


def _scales_vector(product: ir.Node) -> bool:
    """Return True for a product with a constant vector that constants follow.

    OpenVINO makes one constant of them, and gives the result another rank.
    """
    known = [constant(x) for x in product.inputs]
    vector = any(x is not None and len(x.shape) == 1 for x in known)
    return vector and _any_behind(product, lambda x: constant(x) is not None)


def _meets_computed(node: ir.Node) -> bool:
    """Return True if what follows a GroupNormalization has an operand that is not computed from it alone.

    If that is elementwise, OpenVINO computes the operator in it, and ends the process.
    """
    own = {node.outputs[0], *(use.node.outputs[0] for use in node.outputs[0].uses())}
    return _any_behind(node, lambda x: constant(x) is None and x not in own)


def _is_over_last(node: ir.Node, opset: int) -> bool:
    """Return True if the axis of a Softmax of opset 11 is the last."""
    axis, shape = node.attributes.get_int("axis", 1), _shape(node.inputs[0], opset)
    return axis == -1 or (shape is not None and axis == len(shape) - 1)


def _splits_evenly(node: ir.Node, opset: int) -> bool:
    shape = _shape(node.inputs[0], opset)
    size = shape[node.attributes.get_int("axis", 0)] if shape else None
    return isinstance(size, int) and size % len(node.outputs) == 0


def _transposes_attention(node: ir.Node, opset: int) -> bool:
    """Return True for a Transpose of softmax(x) @ v, or of a query's reshape, that keeps the shape.

    OpenVINO makes one attention of them all, which leaves it out.
    """
    maker = None if (turned := node.inputs[0]) is None else turned.producer()
    if maker is None or not (
        maker.op_type == "Reshape" or (maker.op_type == "MatMul" and _maker(maker.inputs[0]) == "Softmax")
    ):
        return False
    before, after = _shape(turned, opset), _shape(node.outputs[0], opset)
    return before is not None and len(before) > 2 and before == after


def _indexes_all(node: ir.Node, opset: int) -> bool:
    """Return True if indices have the same sizes as the data except along the axis."""
    data, indices = (_shape(value, opset) for value in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices):
        return False
    along = node.attributes.get_int("axis", 0) % len(data)
    pairs = enumerate(zip(data, indices, strict=True))
    return all(axis == along or (isinstance(n, int) and n == m) for axis, (n, m) in pairs)


def _gains_dimension(node: ir.Node, opset: int) -> bool:
    """Return True if a scalar gets the dimension of its scale or zero point."""
    first, *others = (_shape(value, opset) for value in node.inputs if value is not None)
    return first == () and any(shape != () for shape in others)


def _overflows(node: ir.Node) -> bool:
    """Return True if weights use the 8th bit, and the activations are quantized too.

    On CPUs without VNNI, OpenVINO adds products of 8 bits in 16, which overflow.
    """
    weight = node.inputs[0].const_value if node.inputs[0] is not None else None
    middle = {_T.INT8: 0, _T.UINT8: 128}.get(weight.dtype) if weight is not None else None
    if weight is None or middle is None or node.graph is None:
        return False
    wide = bool((np.abs(weight.numpy().astype(np.int16) - middle) > _SEVEN_BITS).any())
    return wide and any(n.op_type == "QuantizeLinear" for n in node.graph)
