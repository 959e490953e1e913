"""Pools that give nothing for an image that is smaller than their windows."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder, Unsupported


def may_be_empty(b: Builder, node: ir.Node) -> bool:
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
