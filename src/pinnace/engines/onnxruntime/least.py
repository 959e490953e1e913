"""Integer divisions of the least number by -1.

Their quotient is one more than the greatest number. onnxruntime (seen in 1.31) leaves them to the processor,
and some end the process with SIGFPE then, where no Python can catch it.
"""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.inference import opset_of
from pinnace.ops.values import Unsupported


def divide_by_one(model: ir.Model) -> None:
    """Divide the negative by 1 where a divisor that only the run knows is -1."""
    b = Builder(opset=opset_of(model))
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.op_type in ("Div", "Mod") and not node.domain and _may_be_minus_one(b, node):
            _guard(b, node)
    for name, value in b.initializers.items():
        value.name = f"{name}.divisor"
        model.graph.register_initializer(value)


def _guard(b: Builder, node: ir.Node) -> None:
    x, y = node.inputs
    assert x is not None
    assert y is not None
    b.nodes.clear()
    minus = b.op("Equal", y, b.like(-1, y))
    node.replace_input_with(1, b.op("Where", minus, b.like(1, y), y))
    if node.op_type == "Div":  # of Mod nothing is left either way
        node.replace_input_with(0, b.op("Where", minus, b.op("Neg", x), x))
    for number, new in enumerate(b.nodes):
        new.outputs[0].name = f"{node.outputs[0].name}.divisor{number}"
    assert isinstance(node.graph, ir.Graph)
    node.graph.insert_before(node, b.nodes)


def _may_be_minus_one(b: Builder, node: ir.Node) -> bool:
    divisor = node.inputs[1] if len(node.inputs) == 2 else None
    if divisor is None or node.inputs[0] is None:
        return False
    known = ir.convenience.get_const_tensor(divisor)
    if known is not None and known.dtype.is_integer():
        return known.dtype.is_signed() and bool((known.numpy() == -1).any())
    try:
        kind = b.dtype(divisor)
    except Unsupported:
        return False
    return kind.is_integer() and kind.is_signed() and not _is_size(divisor) and not _is_guarded(divisor)


def _is_guarded(divisor: ir.Value) -> bool:
    """Return whether -1 was taken out by a lowering, which puts 1 in its place."""
    made = divisor.producer()
    if made is None or made.op_type != "Where":
        return False
    one = ir.convenience.get_const_tensor(made.inputs[1]) if made.inputs[1] is not None else None
    return one is not None and bool((one.numpy() == 1).all())


def _is_size(divisor: ir.Value) -> bool:
    """Return whether it is taken from a Shape, which holds no -1."""
    made = divisor.producer()
    while made is not None and made.op_type in ("Cast", "Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze"):
        divisor = made.inputs[0] or divisor
        made = divisor.producer()
    return made is not None and made.op_type in ("Shape", "Size")
