"""Forms of operators and what surrounds them that OpenVINO computes wrongly, and what tells them apart.

`supported.py` names the operators. OpenVINO 2026.4 computes some nodes together with their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import onnx_ir as ir

from pinnace.graph.constants import array, constant, given_ints
from pinnace.graph.inference import infer
from pinnace.graph.matching import made_by
from pinnace.graph.scales import FAR, are_of_channels, is_one, stored, uses

_T = ir.DataType
FLOATS = frozenset((_T.FLOAT, _T.FLOAT16))
INTEGERS = frozenset((_T.INT32, _T.INT64))
_ROUNDED, _NEAR = 1e-5, 0.01
"""Relative errors of a constant: of one that was rounded, and of one that is surely another."""
_PRODUCTS = ("Conv", "Gemm", "MatMul")
_SCALING = ("Add", "DequantizeLinear", "Div", "Identity", "Mul", "Sub")
_SEVEN_BITS = 64
"""The largest weight of which two products with a byte fit into 16 bits."""


def type_of(value: ir.Value, opset: int) -> ir.DataType | None:
    """Return the element type of a value, inferred if the file does not declare it."""
    if value.dtype is None:
        infer(value, opset)
    return value.dtype


def _shape(value: ir.Value | None, opset: int) -> tuple[object, ...] | None:
    """Return the shape of a value, inferred if the file does not declare it; None if its rank is unknown."""
    if value is not None and value.shape is None:
        infer(value, opset)
    return None if value is None or value.shape is None else tuple(value.shape)


def has(node: ir.Node, name: str) -> bool:
    return name in node.attributes and bool(node.attributes[name].value)


def operator_of(value: ir.Value | None) -> str:
    node = None if value is None else value.producer()
    return "" if node is None else node.op_type


def constant_values(value: ir.Value | None) -> object:
    known = array(value)
    return None if known is None else known.tolist()


def is_natural(value: ir.Value | None) -> bool:
    """Return True for constants of integers of 0 or more; a negative axis ends the process."""
    array = np.asarray(constant_values(value))
    return array.dtype.kind == "i" and bool(np.all(array >= 0))


def exceeds_32_bits(value: ir.Value | None) -> bool:
    known = array(value)
    if known is None or known.dtype != np.int64 or not known.size:
        return False
    return bool(known.min() < -(1 << 31) or known.max() >= 1 << 31)


def is_small(value: ir.Value | None) -> bool:
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


def adds_dimensions(node: ir.Node, opset: int) -> bool:
    """Return True if an operand is a constant of one element with more dimensions, which get lost."""
    for number, other in (node.inputs, node.inputs[::-1]):
        known = constant(number)
        if known is not None and known.size == 1 and len(known.shape) > 1:
            shape = _shape(other, opset)
            return shape is None or len(shape) < len(known.shape)
    return False


def seems_of_channels(prelu: ir.Node, opset: int) -> bool:
    """Return True if slopes for the last dimension are taken for those of as many channels."""
    slopes, given = _shape(prelu.inputs[1], opset), _shape(prelu.inputs[0], opset)
    return slopes is None or (len(slopes) == 1 and slopes != (1,) and (given is None or len(given) != 2))


def omits_rounding(node: ir.Node) -> bool:
    """Return True if a Cast to float16 is cast again, or if its type is none of those known."""
    to = ir.DataType(node.attributes.get_int("to", 0))
    return to not in FLOATS | INTEGERS | {_T.BOOL} or (
        to is _T.FLOAT16 and any(use.node.op_type == "Cast" for use in node.outputs[0].uses())
    )


def is_almost_gelu(erf: ir.Node) -> bool:
    """Return True for erf(c * x) with a c that is only near 1 / sqrt(2), of which OpenVINO makes a Gelu."""
    scaled = None if (x := erf.inputs[0]) is None else x.producer()
    if scaled is None or scaled.op_type not in ("Div", "Mul"):
        return False
    factors = [known.item() for x in scaled.inputs if (known := array(x)) is not None and known.size == 1]
    off = (abs(factor * 2**0.5 - 1 if scaled.op_type == "Mul" else factor / 2**0.5 - 1) for factor in factors)
    return any(_ROUNDED < error < _NEAR for error in off)


def has_holes_in_one_volume(node: ir.Node) -> bool:
    """Return True for dilated windows of volumes of one channel, which are wrong on CPUs with AVX2."""
    shape = () if (weight := node.inputs[1]) is None or weight.shape is None else tuple(weight.shape)
    return len(shape) == 5 and shape[:2] == (1, 1) and max(node.attributes.get_ints("dilations", [1])) > 1


def may_start_beyond(pool: ir.Node) -> bool:
    """Return True if the last window of a pool may start beyond the image with ceil_mode.

    So may that of attributes that do not belong together: onnxruntime says what is wrong with them.
    """
    kernel = pool.attributes.get_ints("kernel_shape", ())
    strides = pool.attributes.get_ints("strides", [1] * len(kernel))
    after = pool.attributes.get_ints("pads", [0] * 2 * len(kernel))[len(kernel) :]
    if not len(after) == len(strides) == len(kernel):
        return True
    return any(pad + stride > size for pad, stride, size in zip(after, strides, kernel, strict=True))


def may_be_activated(pool: ir.Node) -> bool:
    """Return True if a pool of a convolution's results feeds what is not known to be right behind it.

    OpenVINO computes the activation behind such a MaxPool in the convolution, before the pool; only for a
    function that grows everywhere that is the same. What is farther than FAR values takes the safe way.
    """
    return _is_of_convolution(pool.inputs[0]) and _is_followed(
        pool, lambda operator: operator not in (*_GROWING, *_NEVER_ACTIVATED), _NEVER_ACTIVATED
    )


_GROWING = ("Clip", "Concat", "Flatten", "Identity", "Reshape", "Sigmoid", "Tanh", "Transpose")
_NEVER_ACTIVATED = (*_PRODUCTS, "AveragePool", "BatchNormalization", "GlobalAveragePool", "MaxPool", "Relu")
"""Operators before which the search ends: nothing behind them is computed in the convolution, or only of
numbers from 0 on, where all activations grow."""


def _is_of_convolution(value: ir.Value | None) -> bool:
    """Return True if only constant factors and offsets are between a convolution and a value."""
    for _ in range(FAR):
        maker = made_by(value, "BatchNormalization", "Conv", *_SCALING)
        if maker is None or maker.op_type == "Conv":
            return maker is not None
        value = _only_computed(maker)
    return True


def _only_computed(node: ir.Node) -> ir.Value | None:
    """Return the only input that is not constant; None if there are others."""
    computed = [x for x in node.inputs if x is not None and constant(x) is None]
    return computed[0] if len(computed) == 1 else None


def pads_automatically(node: ir.Node) -> bool:
    """Return True for a pool or convolution with another rule of padding than that of a Pad before it."""
    return node.op_type == "AveragePool" or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET"


def is_subtracted(node: ir.Node) -> bool:
    """Return True for a mean without its dimensions that is subtracted: OpenVINO fuses it with them."""
    readers = (use.node for use in node.outputs[0].uses())
    return not node.attributes.get_int("keepdims", 1) and any(
        reader.op_type == "Sub" and reader.inputs[0] is node.inputs[0] for reader in readers
    )


def is_wrong_reduction(node: ir.Node, opset: int) -> bool:
    return _feeds_vectors(node, opset) or _reduces_added_dimensions(node, opset)


def _reduces_added_dimensions(node: ir.Node, opset: int) -> bool:
    """Return True if a Reshape or Unsqueeze does nothing but add dimensions of 1 to what is reduced.

    OpenVINO adds them to the result instead, and may put them into other places.
    """
    value = node.inputs[0]
    reduced = _shape(value, opset)
    for _ in range(FAR):
        made = made_by(value, "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
        if made is None:
            return False
        value = made.inputs[0]
        before = _shape(value, opset)
        if reduced is None or before is None:
            return True
        if len(before) < len(reduced) and _without_ones(before) == _without_ones(reduced):
            return True
    return True


def _without_ones(shape: tuple[object, ...]) -> list[object]:
    return [size for size in shape if size != 1]


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
    return outer and (_any_behind(node, _is_vector) or (_quantizes(node.graph) and _is_scaled_before(node)))


def _is_scaled_before(node: ir.Node) -> bool:
    """Return True if constants of several elements precede a node, up to a product, but along the last axis.

    In a graph that quantizes anything, OpenVINO computes them behind a reduction.
    """
    todo = [node.inputs[0]]
    for _ in range(FAR):
        if not todo:
            return False
        value = todo.pop()
        made = None if value is None else value.producer()
        if made is None or made.op_type in _PRODUCTS:
            continue
        for x in made.inputs:
            if x is None or constant(x) is None:
                todo.append(x)
            elif _is_vector(x) and not (made.op_type in _SCALING and len(x.shape or ()) == 1):
                return True
    return bool(todo)


def _quantizes(graph: ir.Graph | ir.Function | None) -> bool:
    return graph is not None and any(node.op_type == "QuantizeLinear" for node in graph)


def _is_vector(value: ir.Value) -> bool:
    known = constant(value)
    return known is not None and known.size > 1 and known.dtype in FLOATS


def _any_behind(node: ir.Node, is_wrong: Callable[[ir.Value], bool]) -> bool:
    """Return True if another operand of what follows a node is wrong, up to a product or what is computed.

    So is what follows beyond FAR values: walks to the end from each node would take the square of a chain.
    """
    todo = [*node.outputs]
    for _ in range(FAR):
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


def is_rounded_behind(node: ir.Node) -> bool:
    """Return True if an AveragePool or Clip follows a DequantizeLinear, up to a product.

    OpenVINO computes both in integers: it rounds averages and the limits of a Clip to the scale, and pads an
    average with the integer 0, whatever the zero point. What is farther than FAR values takes the safe way.
    """
    if constant(node.inputs[0]) is not None:
        return False
    return _is_followed(node, ("AveragePool", "Clip").__contains__, (*_PRODUCTS, "QuantizeLinear"))


def is_quantized(reduction: ir.Node) -> bool:
    """Return True if the result is quantized, up to a product: OpenVINO reduces the bytes, and is wrong."""
    return _quantizes(reduction.graph) and _is_followed(reduction, "QuantizeLinear".__eq__, _PRODUCTS)


def _is_followed(node: ir.Node, is_wanted: Callable[[str], bool], ends: Collection[str]) -> bool:
    """Return True if an operator that `is_wanted` follows a node before those in which a search `ends`."""
    todo = [node.outputs[0]]
    for _ in range(FAR):
        if not todo:
            return False
        for reader in {use.node for use in todo.pop().uses()}:
            if is_wanted(reader.op_type):
                return True
            if reader.op_type not in ends:
                todo += reader.outputs
    return bool(todo)


def is_of_vector(node: ir.Node, opset: int) -> bool:
    """Return True if the input may be a vector: Abs changes a joined one for its other readers, too."""
    return len(_shape(node.inputs[0], opset) or (1,)) == 1


def scales_vector(product: ir.Node) -> bool:
    """Return True for a product with a constant vector that constants follow.

    OpenVINO makes one constant of them, and gives the result another rank.
    """
    known = [constant(x) for x in product.inputs]
    vector = any(x is not None and len(x.shape) == 1 for x in known)
    return vector and _any_behind(product, lambda x: constant(x) is not None)


def meets_computed(node: ir.Node) -> bool:
    """Return True if what follows a GroupNormalization has an operand that is not computed from it alone.

    If that is elementwise, OpenVINO computes the operator in it, and ends the process.
    """
    own = {node.outputs[0], *(use.node.outputs[0] for use in node.outputs[0].uses())}
    return _any_behind(node, lambda x: constant(x) is None and x not in own)


def has_parameters_of_channels(node: ir.Node, opset: int) -> bool:
    """Return True if scale and bias of a GroupNormalization are those of all channels.

    With one for all, a Clip that follows ends the process.
    """
    x, *parameters = (_shape(value, opset) for value in node.inputs)
    return x is not None and all(shape == x[1:2] for shape in parameters)


def is_over_last(node: ir.Node, opset: int) -> bool:
    """Return True if the axis of a Softmax of opset 11 is the last."""
    axis, shape = node.attributes.get_int("axis", 1), _shape(node.inputs[0], opset)
    return axis == -1 or (shape is not None and axis == len(shape) - 1)


def splits_evenly(node: ir.Node, opset: int) -> bool:
    shape = _shape(node.inputs[0], opset)
    size = shape[node.attributes.get_int("axis", 0)] if shape else None
    return isinstance(size, int) and size % len(node.outputs) == 0


def transposes_attention(node: ir.Node, opset: int) -> bool:
    """Return True for a Transpose of softmax(x) @ v, or of a query's reshape, that keeps the shape.

    OpenVINO makes one attention of them all, which leaves it out.
    """
    maker = None if (turned := node.inputs[0]) is None else turned.producer()
    if maker is None or not (
        maker.op_type == "Reshape"
        or (maker.op_type == "MatMul" and operator_of(maker.inputs[0]) == "Softmax")
    ):
        return False
    before, after = _shape(turned, opset), _shape(node.outputs[0], opset)
    return before is not None and len(before) > 2 and before == after


def indexes_all(node: ir.Node, opset: int) -> bool:
    """Return True if indices have the same sizes as the data except along the axis."""
    data, indices = (_shape(value, opset) for value in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices):
        return False
    along = node.attributes.get_int("axis", 0) % len(data)
    pairs = enumerate(zip(data, indices, strict=True))
    return all(axis == along or (isinstance(n, int) and n == m) for axis, (n, m) in pairs)


def gains_dimension(node: ir.Node, opset: int) -> bool:
    """Return True if a scalar gets the dimension of its scale or zero point."""
    first, *others = (_shape(value, opset) for value in node.inputs if value is not None)
    return first == () and any(shape != () for shape in others)


def has_other_scales(step: ir.Node, opset: int) -> bool:
    """Return True for several scales, unless they are those of a bias or of a weight's channels."""
    if is_one(step.inputs[1]) or step.inputs[0] is None or step.inputs[0].dtype is _T.INT32:
        return False
    if step.op_type == "QuantizeLinear":
        return constant(step.inputs[0]) is None
    shape = _shape(step.inputs[0], opset)
    return shape is None or not all(
        reader.op_type == "ConvTranspose" or are_of_channels(step, reader, place, axis)
        for reader, place, axis in uses(step, len(shape))
    )


def is_constant_image(step: ir.Node) -> bool:
    """Return True for QuantizeLinear of what follows from constants, for the image of a Conv.

    OpenVINO returned numbers that nobody wrote (seen in 2026.4).
    """
    value = step.inputs[0]
    for _ in range(FAR):
        maker = None if value is None or constant(value) is not None else value.producer()
        if maker is None or not maker.inputs:
            break
        value = maker.inputs[0]
    steps = (n for n in step.outputs[0].consumers() if n.op_type == "DequantizeLinear")
    readers = (reader.op_type for n in steps for reader, place, _ in uses(n, 0) if place == 0)
    return value is not None and constant(value) is not None and "Conv" in readers


def is_joined_and_quantized_twice(step: ir.Node) -> bool:
    """Return True for QuantizeLinear of a Concat that is quantized, up to constant factors and offsets.

    OpenVINO computes both in the Concat, and ends the process.
    """
    value, is_second = step.inputs[0], False
    for _ in range(FAR):
        maker = None if value is None else value.producer()
        if maker is None or maker.op_type == "Concat":
            return maker is not None and is_second
        if maker.op_type == "QuantizeLinear":
            is_second = True
        elif not is_second and maker.op_type not in _SCALING:
            return False
        value = _only_computed(maker)
    return True


def overflows(node: ir.Node) -> bool:
    """Return True if weights use the 8th bit, or come from the run, and the activations are quantized too.

    On CPUs without VNNI, OpenVINO adds products of 8 bits in 16, which overflow.
    """
    weight = stored(node.inputs[0])
    if weight is None:
        factors = (reader for reader, place, _ in uses(node, 0) if place == 1)
        wide = any(reader.op_type in (*_PRODUCTS, "ConvTranspose") for reader in factors)
    elif weight.dtype in (_T.INT8, _T.UINT8):
        middle = 128 if weight.dtype is _T.UINT8 else 0
        wide = bool((np.abs(weight.numpy().astype(np.int16) - middle) > _SEVEN_BITS).any())
    else:
        wide = weight.dtype in FLOATS
    return wide and node.graph is not None and any(n.op_type == "QuantizeLinear" for n in node.graph)
