"""What OpenVINO is not given: operators that it does not know, or computes otherwise than ONNX says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir

from pinnace.errors import UnsupportedPrimitive
from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.ops.inference import infer, opset_of
from pinnace.ops.nodes import origins

_CUT = "OpenVINO computes int64 in 32 bits"
_IN_FLOATS = "OpenVINO computes integers in float32, which are wrong above 2^24"
_UNCHECKED = "OpenVINO does not check what it takes for places in memory"
_OF_NAN = "OpenVINO gives other values for NaN and infinities"
_WRONG = {
    "AffineGrid": "OpenVINO gives two places where a picture has one",
    "Attention": "OpenVINO does not check that shapes fit",
    "BitShift": "OpenVINO cuts off what is shifted out, rounds what is lost, and shifts by 31 bits at most",
    "Celu": _OF_NAN,
    "Col2Im": _UNCHECKED,
    "Compress": _UNCHECKED,
    "DynamicQuantizeLinear": "OpenVINO adds the zero point before it rounds, and halves go the other way",
    "DFT": "OpenVINO gives results of one dimension more",
    "GatherND": _UNCHECKED,
    "Hardmax": _OF_NAN,
    "LRN": "OpenVINO normalises over another window",
    "Loop": "OpenVINO changes what a loop reads of the graph around it, from one turn to the next",
    "LpNormalization": "OpenVINO adds something to what it divides by",
    "LpPool": "OpenVINO gives other values where it pads",
    "ReduceLogSumExp": _OF_NAN,
    "RoiAlign": "OpenVINO gives other values for boxes beyond the picture",
    "Scan": "OpenVINO gives other values for states",
    "Scatter": _UNCHECKED,
    "ScatterElements": _UNCHECKED,
    "STFT": "OpenVINO cuts other frames",
    "Shrink": _OF_NAN,
    "ThresholdedRelu": _OF_NAN,
    "Unique": "OpenVINO gives the values in another order",
}
"""Operators whose results differ from ONNX's, seen in OpenVINO 2026.4 with the goldens of this project
and with random graphs (`python -m tests.random_graphs --engine openvino`)."""

_CHOOSING = {
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
"""Inputs by which a request would choose memory, or get other values, where ONNX has an error."""

_KINDS = {
    ir.DataType.DOUBLE: "OpenVINO computes float64 in float32",
    ir.DataType.BFLOAT16: "OpenVINO leaves out roundings to bfloat16",
    ir.DataType.STRING: "OpenVINO has no strings on the processor",
    ir.DataType.COMPLEX64: "OpenVINO has no complex numbers",
    ir.DataType.COMPLEX128: "OpenVINO has no complex numbers",
    ir.DataType.INT16: "OpenVINO computes int16 in int32",
    ir.DataType.UINT16: "OpenVINO computes uint16 in int32",
    ir.DataType.UINT32: "OpenVINO computes uint32 in int32",
    ir.DataType.UINT64: "OpenVINO computes uint64 in int32",
}
"""Element types whose values would be others."""

_BYTES = {ir.DataType.INT8, ir.DataType.UINT8}
_ENDS = {
    "Clip",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Slice",
}
"""Operators that do with the largest of 32 bits as with larger numbers."""

_LEFT_OUT = {"Dropout", "Einsum", "Max", "Min", "Sum"}
"""Operators of which OpenVINO leaves nothing where one input is all they have."""

_PICKING = {"Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze"}
"""Operators whose results are elements of their first input."""

_SEVEN_BITS = 64
"""The largest weight of which two products with a byte fit into 16 bits."""


_Rule = Callable[[ir.Node, int], object]

_RULES: tuple[tuple[str, _Rule, str], ...] = (
    ("AveragePool", lambda n, _: {"ceil_mode", "count_include_pad"} <= _given(n),
     "OpenVINO counts what ceil_mode adds"),
    ("Cast", lambda n, _: n.attributes.get_int("to", 0) == ir.DataType.FLOAT16 and _is_cast_again(n),
     "OpenVINO leaves out roundings to float16"),
    ("Einsum", lambda n, opset: not all(_is_static(value, opset) for value in n.inputs), _UNCHECKED),
    ("Dropout Einsum Max Min Sum", lambda n, _: _gives_an_input(n),
     "OpenVINO leaves it out, and an output that is an input unwritten"),
    ("Transpose", lambda n, opset: _turns_mixed_values(n, opset),
     "OpenVINO exchanges dimensions of equal size in place after an attention"),
    ("ConvTranspose", lambda n, _: n.attributes.get_string("auto_pad", "").startswith("SAME"),
     "OpenVINO gives images of another size"),
    ("HardSigmoid Selu", lambda n, _: not all(a.value for a in n.attributes.values()),
     "OpenVINO takes an attribute of 0 for one that is not there"),
    ("MaxPool", lambda n, _: {"auto_pad", "dilations"} <= _given(n) and _pads_otherwise(n),
     "OpenVINO gives images of another size"),
    ("AveragePool MaxPool", lambda n, _: "ceil_mode" in _given(n) and _may_begin_beyond(n),
     "OpenVINO counts windows that begin beyond the image"),
    ("Resize", lambda n, _: {"antialias", "exclude_outside"} & _given(n) or not _cubic_coefficient(n),
     "OpenVINO interpolates otherwise"),
    ("Resize", lambda n, _: n.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch",
     "OpenVINO stretches images"),
    ("CumSum", lambda n, _: not _is_natural(_constant(n.inputs[1])),
     "OpenVINO ends the process for an axis counted from the end"),
    ("GatherElements", lambda n, opset: not _fits_beside(n, opset),
     "OpenVINO wants as many indices as elements beside the axis"),
    ("Softmax LogSoftmax", lambda n, opset: opset < 13 and not _is_over_last(n, opset),
     "OpenVINO takes the axis for that of opset 13"),
    ("Split", lambda n, opset: "num_outputs" in _given(n) and not _cuts_evenly(n, opset),
     "OpenVINO cuts into equal parts only"),
    ("Pad", lambda n, _: any(_pads_otherwise(use.node) for use in n.outputs[0].uses()),
     "OpenVINO adds it to the padding of the next operator, which has another rule"),
    ("ReduceL1 ReduceL2 ReduceSumSquare", lambda n, _: "noop_with_empty_axes" in _given(n),
     "OpenVINO gives what it is given where there are no axes"),
    ("TopK", lambda n, _: len(n.inputs) > 1 and _constant(n.inputs[1]) == [0], "OpenVINO takes one at least"),
    ("TopK", lambda n, _: any(map(_is_used, n.outputs[1:])), "OpenVINO gives equal values in another order"),
    ("Abs Add Mul Neg Sub", lambda n, opset: _kind(n, opset) in _BYTES,
     "OpenVINO stops at the ends of 8 bits, where others begin anew"),
    ("Add Div Mul Pow Sub", lambda n, opset: _adds_dimensions(n, opset),
     "OpenVINO loses the dimensions that a constant of one element adds"),
    ("Add Sub", lambda n, opset: _is_long(n, opset) and not any(map(_is_small, n.inputs)), _CUT),
    ("CumSum Mul", lambda n, opset: _is_long(n, opset) and not all(map(_is_small, n.inputs)), _CUT),
    ("Mod", lambda n, opset: _is_whole(n, opset) is False, "OpenVINO loses digits of what is left over"),
    ("ReduceLogSum", lambda n, opset: _is_whole(n, opset), "OpenVINO rounds to integers otherwise"),
    ("Floor", lambda n, _: (of := n.inputs[0]) and (made := of.producer()) and made.op_type == "Div",
     "OpenVINO divides by the reciprocal: x / x may be less than 1"),
    ("ReduceL1 ReduceLogSum", lambda n, _: "axes" in _given(n),
     "OpenVINO takes these axes for all axes from opset 13 on"),
    ("Expand Unsqueeze", lambda n, _: len(n.inputs) > 1 and _constant(n.inputs[1]) == [],
     "OpenVINO adds a dimension"),
    ("Reshape", lambda n, opset: _is_whole(n, opset) is False and _constant(n.inputs[1]) == [],
     "OpenVINO ends the process for a product of matrices that becomes a scalar"),
    ("ReduceMean", lambda n, _: not n.attributes.get_int("keepdims", 1) and _is_subtracted(n),
     "OpenVINO takes it for the mean of a norm, whose dimensions are kept"),
    ("ReduceMax ReduceMin", lambda n, opset: _kind(n, opset) is ir.DataType.BOOL,
     "OpenVINO gives other dimensions for truth values"),
    ("OneHot", lambda n, opset: _is_whole(n, opset) is False, "OpenVINO rounds indices otherwise"),
    ("GRU LSTM RNN", lambda n, _: len(n.inputs) > 4 and n.inputs[4] is not None,
     "OpenVINO leaves out the lengths of sequences where dimensions are free"),
    ("LSTM", lambda n, _: "input_forget" in _given(n), "OpenVINO does not couple the gates"),
    ("LSTM", lambda n, _: len(n.inputs) > 7 and n.inputs[7] is not None, "OpenVINO leaves out the peepholes"),
    ("GRU LSTM RNN", lambda n, _: not _both_ways(n),
     "OpenVINO gives other values once the model was exported, as the compile cache does"),
    ("DequantizeLinear", lambda n, _: sums_of_bytes_overflow() and _overflows(n),
     "OpenVINO adds products of 8 bits in 16, which overflow: this processor has no VNNI"),
    ("Gemm MatMul Neg Pow Relu Trilu ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
     "ReduceSumSquare", lambda n, opset: _is_whole(n, opset) and not _is_small(n.inputs[0]), _IN_FLOATS),
    ("Div Mod", lambda n, opset: _is_whole(n, opset) and not _of_shapes(n.inputs[0]), _IN_FLOATS),
    ("Div Mod", lambda n, opset: _is_whole(n, opset) and any(map(_may_be_negative, n.inputs)),
     "OpenVINO rounds constant quotients of integers down"),
)  # fmt: skip
"""Operators that are right where they are used otherwise: by name, when they are wrong (told by the node and
the operator set), and why."""


def wrong(model: ir.Model) -> list[UnsupportedPrimitive]:
    """The operators of a model without functions that OpenVINO would compute otherwise, most used first."""
    reasons: dict[str, str] = {}
    count: Counter[str] = Counter()
    first: dict[str, str] = {}
    opset, nodes = opset_of(model), list(ir.traversal.RecursiveGraphIterator(model.graph))
    short = any(_too_few(node, opset) for node in nodes)  # the other rules trust that inputs are there
    for node in nodes:
        if short:
            reason = _too_few(node, opset)
        else:
            reason = _WRONG.get(node.op_type) or _wrong_use(node, opset) or _wrong_kind(node)
        if not reason and not short and _is_within(node, model) and _needs_guard(node):
            reason = f"{_UNCHECKED}, in branches and loops"
        if reason:
            count[node.op_type] += 1
            first.setdefault(node.op_type, origins(node)[0])
            reasons.setdefault(node.op_type, reason)
    return [UnsupportedPrimitive(name, n, first[name], reasons[name]) for name, n in count.most_common()]


def _too_few(node: ir.Node, opset: int) -> str:
    """The reason why a node lacks inputs or outputs that ONNX requires, or ""."""
    known = node.domain in ("", "ai.onnx")
    places, inputs, outputs = _least(node.op_type, opset) if known else ((), 0, 0)
    given = [place for place, value in enumerate(node.inputs) if value is not None]
    if set(places) <= set(given) and len(node.inputs) >= inputs and len(node.outputs) >= outputs:
        return ""
    return "it lacks inputs or outputs, without which OpenVINO ends the process"


@cache
def _least(op_type: str, opset: int) -> tuple[tuple[int, ...], int, int]:
    """The places of the inputs that an operator must have, and how many inputs and outputs at least."""
    if not onnx.defs.has(op_type, opset):
        return (), 0, 0
    schema = onnx.defs.get_schema(op_type, opset)
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    places = tuple(place for place, value in enumerate(schema.inputs) if value.option == single)
    return places, schema.min_input, schema.min_output


def _wrong_use(node: ir.Node, opset: int) -> str:
    """What is wrong with an operator that is right where it is used otherwise."""
    choosing = (node.inputs[place] for place in _CHOOSING.get(node.op_type, ()) if place < len(node.inputs))
    if any(value is not None and not _of_shapes(value) for value in choosing):
        return _UNCHECKED
    if any(v is not None and v.const_value is None and v.shape and 0 in v.shape for v in node.inputs):
        return "OpenVINO leaves results of nothing undefined, or ends the process"
    if node.op_type not in _ENDS and any(map(_is_cut, node.inputs)):
        return _CUT
    for is_wrong, why in _rules(node.op_type):
        if is_wrong(node, opset):
            return why
    if any(value is not None and value.shape is not None and 0 in value.shape for value in node.outputs):
        return "OpenVINO gives tensors without elements other shapes, or ends the process"
    return ""


@cache
def _rules(op_type: str) -> list[tuple[_Rule, str]]:
    return [(is_wrong, why) for names, is_wrong, why in _RULES if op_type in names.split()]


def _given(node: ir.Node) -> set[str]:
    """The names of the attributes that are neither 0 nor empty."""
    return {name for name, attribute in node.attributes.items() if attribute.value}


def _is_cut(value: ir.Value | None) -> bool:
    """Return whether a constant holds integers of more than 32 bits."""
    known = _known(value)
    if known is None or known.dtype is not ir.DataType.INT64 or not known.size:
        return False
    numbers = known.numpy()
    return bool(numbers.min() < -(1 << 31) or numbers.max() >= 1 << 31)


def _is_whole(node: ir.Node, opset: int) -> bool | None:
    """Return whether the first input holds integers; None where that is not known."""
    kind = _kind(node, opset)
    return None if kind is None else kind.is_integer()


def _is_long(node: ir.Node, opset: int) -> bool:
    return _kind(node, opset) is ir.DataType.INT64


def _is_small(value: ir.Value | None) -> bool:
    return _of_shapes(value, or_truths=True)


def _cubic_coefficient(node: ir.Node) -> float:
    return node.attributes.get_float("cubic_coeff_a", -0.75)


def _kind(node: ir.Node, opset: int) -> ir.DataType | None:
    """The element type of the first input, by inference where the file does not say it."""
    value = node.inputs[0] if node.inputs else None
    if value is not None and value.dtype is None:
        infer(value, opset)
    return None if value is None else value.dtype


def _is_used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _gives_an_input(node: ir.Node) -> bool:
    """Return whether an output of the graph is an input of it, but for nodes that change nothing."""
    value: ir.Value | None = node.outputs[0]
    given = value is not None and value.is_graph_output()
    while value is not None and (made := value.producer()) is not None:
        if made.op_type not in _LEFT_OUT or len([each for each in made.inputs if each is not None]) != 1:
            return False
        value = made.inputs[0]
    return given and value is not None and value.is_graph_input()


def _turns_mixed_values(node: ir.Node, opset: int) -> bool:
    """Return whether a product with a Softmax of fixed shape is turned to the same shape."""
    turned = node.inputs[0]
    product = turned.producer() if turned is not None else None
    weights = product.inputs[0] if product is not None and product.op_type == "MatMul" else None
    mixing = weights.producer() if weights is not None else None
    if turned is None or mixing is None or mixing.op_type != "Softmax":
        return False
    before, after = _shape(turned, opset), _shape(node.outputs[0], opset)
    return before is not None and before == after


def _is_cast_again(node: ir.Node) -> bool:
    return any(use.node.op_type == "Cast" for use in node.outputs[0].uses())


def _shape(value: ir.Value | None, opset: int) -> tuple[object, ...] | None:
    """The shape of a value, by inference where the file does not say it; None where its rank is not known."""
    if value is not None and value.shape is None:
        infer(value, opset)
    return None if value is None or value.shape is None else tuple(value.shape)


def _is_static(value: ir.Value | None, opset: int) -> bool:
    shape = _shape(value, opset)
    return shape is not None and all(isinstance(size, int) for size in shape)


def _is_subtracted(node: ir.Node) -> bool:
    """Return whether a reduction is taken from what it reduces."""
    readers = (use.node for use in node.outputs[0].uses())
    return any(reader.op_type == "Sub" and reader.inputs[0] is node.inputs[0] for reader in readers)


def _may_begin_beyond(pool: ir.Node) -> bool:
    """Return whether the last window may begin beyond the image, with what ceil_mode adds."""
    kernel = pool.attributes.get_ints("kernel_shape", ())
    steps = pool.attributes.get_ints("strides", [1] * len(kernel))
    after = pool.attributes.get_ints("pads", [0] * 2 * len(kernel))[len(kernel) :]
    return any(pad + step > size for pad, step, size in zip(after, steps, kernel, strict=True))


def _pads_otherwise(node: ir.Node) -> bool:
    return node.op_type == "AveragePool" or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET"


def _is_natural(number: object) -> bool:
    return (isinstance(number, int) and number >= 0) or (isinstance(number, list) and min(number) >= 0)


def _constant(value: ir.Value | None) -> object:
    """The elements of a constant."""
    known = _known(value)
    return None if known is None else known.numpy().tolist()


def _known(value: ir.Value | None) -> ir.TensorProtocol | None:
    with suppress(ValueError):  # a node Constant with several values
        return ir.convenience.get_const_tensor(value) if value is not None else None
    return None


def _adds_dimensions(node: ir.Node, opset: int) -> bool:
    """Return whether an operand is one constant element with more dimensions than the other may have."""
    for number, other in (node.inputs, node.inputs[::-1]):
        known = _known(number)
        if known is not None and known.size == 1 and len(known.shape) > 1:
            shape = _shape(other, opset)
            return shape is None or len(shape) < len(known.shape)
    return False


def _fits_beside(node: ir.Node, opset: int) -> bool:
    """Return whether indices are known to have the sizes of the data, but along the axis."""
    data, indices = (_shape(value, opset) for value in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices):
        return False
    along = node.attributes.get_int("axis", 0) % len(data)
    pairs = enumerate(zip(data, indices, strict=True))
    return all(axis == along or (isinstance(n, int) and n == m) for axis, (n, m) in pairs)


def _is_over_last(node: ir.Node, opset: int) -> bool:
    axis, shape = node.attributes.get_int("axis", 1), _shape(node.inputs[0], opset)
    return axis == -1 or (shape is not None and axis == len(shape) - 1)


def _cuts_evenly(node: ir.Node, opset: int) -> bool:
    shape = _shape(node.inputs[0], opset)
    size = shape[node.attributes.get_int("axis", 0)] if shape else None
    return isinstance(size, int) and size % len(node.outputs) == 0


def _is_within(node: ir.Node, model: ir.Model) -> bool:
    """Return whether a node stands in a branch or a loop, into which `guards` cannot write checks."""
    return node.graph is not model.graph


def _needs_guard(node: ir.Node) -> bool:
    """Return whether `guards` may have to check a node."""
    shapes = [value.shape for value in node.inputs[:2] if value is not None]
    fits = all(shape is not None and shape.is_static() for shape in shapes)
    return node.op_type in ("Gather", "Range") or (node.op_type in ("MatMul", "Gemm") and not fits)


def _overflows(node: ir.Node) -> bool:
    """Whether weights use the 8th bit, and are multiplied with what was quantised as well."""
    weight = node.inputs[0].const_value if node.inputs[0] is not None else None
    middle = {ir.DataType.INT8: 0, ir.DataType.UINT8: 128}.get(weight.dtype) if weight is not None else None
    if weight is None or middle is None or node.graph is None:
        return False
    wide = bool((np.abs(weight.numpy().astype(np.int16) - middle) > _SEVEN_BITS).any())
    return wide and any(n.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") for n in node.graph)


def _of_shapes(value: ir.Value | None, or_truths: bool = False) -> bool:
    """Return whether a value comes of shapes and constants alone, or of truth values.

    Such integers are small, and right in float32.
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
        told = or_truths and first is not None and first.dtype is ir.DataType.BOOL and node.op_type == "Cast"
        if not told and node.op_type not in ("Shape", "Size", "Constant"):
            todo += [given for given in node.inputs if given not in seen]
            seen.update(node.inputs)
    return True


def _may_be_negative(value: ir.Value | None) -> bool:
    """Return whether what comes of shapes may be negative: by a difference or a negative constant."""
    todo, seen = [value], {value}
    while todo:
        value = todo.pop()
        known, node = _constant(value), value.producer() if value is not None else None
        if known is not None:
            if np.any(np.asarray(known) < 0):
                return True
        elif node is not None and node.op_type not in ("Shape", "Size"):
            if node.op_type in ("Sub", "Neg"):
                return True
            given = [
                each for each in node.inputs[: 1 if node.op_type in _PICKING else None] if each not in seen
            ]
            todo += given
            seen.update(given)
    return False


def _both_ways(node: ir.Node) -> bool:
    direction = node.attributes.get("direction")
    return direction is not None and direction.as_string() == "bidirectional"


def _wrong_kind(node: ir.Node) -> str:
    to = node.attributes.get("to")
    kinds = [value.dtype for value in (*node.inputs, *node.outputs) if value is not None]
    kinds += [ir.DataType(to.as_int())] if to is not None and node.op_type == "Cast" else []
    return next((_KINDS[kind] for kind in kinds if kind in _KINDS), "")


def unknown(model: ir.Model, message: str) -> list[UnsupportedPrimitive]:
    """The operators of a model that an error of OpenVINO's reader names, most used first."""
    named = set(re.findall(r"[\w.]+", message))
    count: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        names = {node.op_type, f"{node.domain}.{node.op_type}", f"ai.onnx.{node.op_type}"}
        if names & named:
            count[node.domain, node.op_type] += 1
            first.setdefault((node.domain, node.op_type), origins(node)[0])
    return [
        UnsupportedPrimitive(name, n, first[domain, name], "OpenVINO cannot read it")
        for (domain, name), n in count.most_common()
    ]
