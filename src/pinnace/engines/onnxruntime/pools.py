"""Pools that give nothing for an image that is smaller than their windows.

onnxruntime's NchwcTransformer (seen in 1.31) puts other pools in after convolutions, which compute in
blocks of channels. In their kernels a result without elements, of an image that is one smaller than the
window, is a division by zero: SIGFPE, where no Python can catch it.
"""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.inference import opset_of
from pinnace.ops.values import Unsupported


def keep_plain(model: ir.Model) -> None:
    """Put Reshape to the shape that it has before pools that may be empty: they stay what they are.

    The convolutions keep their blocks, which networks with free sizes would lose with NchwcTransformer.
    """
    b = Builder(opset=opset_of(model))
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        x = node.inputs[0] if node.op_type in ("AveragePool", "MaxPool") and not node.domain else None
        if x is None or not _may_be_empty(b, node):
            continue
        b.nodes.clear()
        same = b.op("Reshape", x, b.op("Shape", x))
        for new in b.nodes:
            new.outputs[0].name = f"{new.outputs[0].name}.pooled"
        assert isinstance(node.graph, ir.Graph)
        node.graph.insert_before(node, b.nodes)
        node.replace_input_with(0, same)


def _may_be_empty(b: Builder, node: ir.Node) -> bool:
    """Whether the windows of a pool may be larger than its image, which has a pixel at least."""
    kernel = _ints(node, "kernel_shape", [])
    rule = node.attributes.get_string("auto_pad", "NOTSET")
    if rule is not None and rule.startswith("SAME"):  # as many results as steps that begin in the image
        return False
    pads = _ints(node, "pads", [0] * 2 * len(kernel)) if rule == "NOTSET" else [0] * 2 * len(kernel)
    dilations = _ints(node, "dilations", [1] * len(kernel))
    try:
        _, _, *size = b.shape(node.inputs[0]) if node.inputs[0] is not None else ()
    except (Unsupported, ValueError):
        size = [None] * len(kernel)
    along = zip(kernel, dilations, pads, pads[len(kernel) :], size, strict=False)
    return any((k - 1) * d >= (1 if n is None else n) + p + q for k, d, p, q, n in along)


def _ints(node: ir.Node, name: str, default: list[int]) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else default
