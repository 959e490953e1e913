"""Guards against graphs for which onnxruntime ends the process, where no Python can catch it (seen in 1.31).

* Attributes that kernels divide by: a ConvTranspose of group 0, or a DepthToSpace of blocksize 1 << 32, is a
  SIGFPE when the session is built. `check_divisors` refuses them.
* Integer division of the least number by -1, whose quotient overflows: some processors raise SIGFPE. If
  the divisor is -1, the negative is divided by 1.
* Pools in blocks of channels (NchwcTransformer) divide by zero if an image is one smaller than the window. A
  Reshape to the same shape before such a pool keeps it out of the blocks; the convolutions keep theirs.
* Recurrent operators without rows, and a GRU without steps. A Reshape that copies nothing raises an error
  first: with -1 for one dimension, the others must not be 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from pinnace.compiler.nodes import nodes
from pinnace.errors import EngineError
from pinnace.ops.builder import Builder
from pinnace.ops.inference import opset_of
from pinnace.ops.nodes import origins
from pinnace.ops.values import Unsupported

_DIVISORS = {"block_size", "blocksize", "dilations", "group", "groups", "kernel_shape", "kv_num_heads"}
_DIVISORS |= {"num_groups", "num_heads", "num_outputs", "q_num_heads", "strides"}
_MAX_SIZE = 1 << 31


def check_divisors(model: ir.Model, name: str) -> None:
    """Raise EngineError if an attribute that must be at least 1 is not, or overflows when it is squared."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for node in nodes(graph):
            for key in _DIVISORS.intersection(node.attributes):
                value = node.attributes[key].value
                numbers = [value] if isinstance(value, int) else value
                if isinstance(numbers, list | tuple) and not all(0 < n < _MAX_SIZE for n in numbers):
                    what = f"node {origins(node)[0]!r} ({node.op_type}) has {key} {value}, which is no size"
                    raise EngineError(f"{name}: {what}")


def guard(model: ir.Model) -> None:
    """Insert the guards before the nodes of a model and of its nested graphs that may need them."""
    b = Builder(opset=opset_of(model))
    for node in list(nodes(model.graph)):
        guarded = None if node.domain else _GUARDS.get(node.op_type)
        if guarded is None or not node.inputs or node.inputs[0] is None:
            continue
        b.nodes.clear()
        for place, value in guarded(b, node).items():
            node.replace_input_with(place, value)
        for new in b.nodes:
            new.outputs[0].name = f"{new.outputs[0].name}.guard"
        assert isinstance(node.graph, ir.Graph)
        node.graph.insert_before(node, b.nodes)
    for name, value in b.initializers.items():
        value.name = f"{name}.guard"
        model.graph.register_initializer(value)


_Inputs = Mapping[int, ir.Value]
"""The inputs of a node to replace, by position."""


def _division(b: Builder, node: ir.Node) -> _Inputs:
    x, y = (*node.inputs, None)[:2]
    if x is None or y is None or not _may_be_minus_one(b, y):
        return {}
    overflows = b.op("Equal", y, b.like(-1, y))
    divisor = {1: b.op("Where", overflows, b.like(1, y), y)}
    if node.op_type == "Mod":  # the remainder is 0 by either divisor
        return divisor
    return {0: b.op("Where", overflows, b.op("Neg", x), x), **divisor}


def _may_be_minus_one(b: Builder, divisor: ir.Value) -> bool:
    known = ir.convenience.get_const_tensor(divisor)
    if known is not None and known.dtype.is_integer():
        return known.dtype.is_signed() and bool((known.numpy() == -1).any())
    try:
        kind = b.dtype(divisor)
    except Unsupported:
        return False
    return kind.is_integer() and kind.is_signed() and not _is_size(divisor) and not _is_guarded(divisor)


def _is_guarded(divisor: ir.Value) -> bool:
    """Return True if a lowering has replaced -1 by 1."""
    node = divisor.producer()
    if node is None or node.op_type != "Where":
        return False
    one = ir.convenience.get_const_tensor(node.inputs[1]) if node.inputs[1] is not None else None
    return one is not None and bool((one.numpy() == 1).all())


def _is_size(divisor: ir.Value) -> bool:
    """Return True if it comes from a Shape, which contains no -1."""
    node = divisor.producer()
    while node is not None and node.op_type in ("Cast", "Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze"):
        divisor = node.inputs[0] or divisor
        node = divisor.producer()
    return node is not None and node.op_type in ("Shape", "Size")


def _pool(b: Builder, node: ir.Node) -> _Inputs:
    x = node.inputs[0]
    return {0: b.op("Reshape", x, b.op("Shape", x))} if _may_be_empty(b, node) else {}


def _may_be_empty(b: Builder, node: ir.Node) -> bool:
    """Return True if the windows of a pool may be larger than its image, which has at least one pixel."""
    kernel = node.attributes.get_ints("kernel_shape", ())
    rule = node.attributes.get_string("auto_pad", "NOTSET")
    if rule.startswith("SAME"):  # one result for each step that begins in the image
        return False
    none = [0] * 2 * len(kernel)
    pads = node.attributes.get_ints("pads", none) if rule == "NOTSET" else none
    dilations = node.attributes.get_ints("dilations", [1] * len(kernel))
    try:
        _, _, *size = b.shape(node.inputs[0]) if node.inputs[0] is not None else ()
    except (Unsupported, ValueError):
        size = [None] * len(kernel)
    along = zip(kernel, dilations, pads, pads[len(kernel) :], size, strict=False)
    return any((k - 1) * d >= (1 if n is None else n) + p + q for k, d, p, q, n in along)


_NOT_EMPTY = {"GRU": ((-1, 0, 0), (0, -1, 0)), "LSTM": ((-1, 0, 0),)}
"""Shapes of the Reshapes before an operator, whose input is (steps, rows, features)."""


def _recurrence(b: Builder, node: ir.Node) -> _Inputs:
    x = node.inputs[0]
    if x is None or (x.shape is not None and all(isinstance(size, int) and size for size in x.shape[:2])):
        return {}
    for shape in _NOT_EMPTY[node.op_type]:
        x = b.op("Reshape", x, list(shape))
    return {0: x}


_GUARDS = {
    "AveragePool": _pool,
    "Div": _division,
    "GRU": _recurrence,
    "LSTM": _recurrence,
    "MaxPool": _pool,
    "Mod": _division,
}
