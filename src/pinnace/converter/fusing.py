"""Convolutions that take up the nodes around them: the padding before, the normalization after."""

from __future__ import annotations

from contextlib import suppress

import onnx
import onnx_ir as ir

from pinnace.converter.folding import fold
from pinnace.graph.constants import array
from pinnace.graph.editor import Editor
from pinnace.graph.inference import infer_node, opset_of
from pinnace.graph.matching import attributes
from pinnace.quantization.operators import Operator, candidates, factors, put_in_place, scaled, weight_of


def fuse(model: ir.Model) -> None:
    """Fuse what is around the convolutions of a graph. Weights are multiplied when they are written."""
    for node in model.graph:
        with suppress(onnx.shape_inference.InferenceError):  # engines will say it
            infer_node(node, opset_of(model))
        fold(node, opset_of(model))
    b = Editor(model, "%fused")
    for operator in candidates(model, "stored", for_file=True):
        if operator.norm is not None:
            _normalize(b, operator)
    b.finish()
    for node in model.graph:
        if node.op_type == "Conv" and not node.domain:
            _pad(node)


def _normalize(b: Editor, operator: Operator) -> None:
    """Multiply weight and bias of a convolution in the place of its BatchNormalization."""
    node, tensor, (factor, bias) = operator.node, weight_of(operator.node), factors(operator)
    assert tensor is not None
    assert factor is not None
    assert bias is not None
    shape = ir.Shape(tensor.shape.numpy())
    lazy = ir.LazyTensor(lambda: ir.Tensor(scaled(tensor.numpy(), factor)), tensor.dtype, shape)
    y = b.op("Conv", node.inputs[0], b.weight(lazy), bias, **attributes(node))
    put_in_place(b, operator, y)


def _pad(conv: ir.Node) -> None:
    """Let a convolution pad its input with zeros in the place of a Pad."""
    pad = None if conv.inputs[0] is None else conv.inputs[0].producer()
    if pad is None or pad.op_type != "Pad" or conv.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return
    known = [array(x) for x in pad.inputs[1:3] if x is not None]
    if pad.attributes.get_string("mode", "constant") != "constant" or len(pad.inputs) > 3 or not known:
        return
    if any(numbers is None for numbers in known) or any(fill.any() for fill in known[1:] if fill is not None):
        return
    assert known[0] is not None
    both = known[0].reshape(2, -1)
    if both.min() < 0 or both[:, :2].any():
        return
    own = conv.attributes.get_ints("pads") or [0] * both[:, 2:].size
    conv.attributes["pads"] = ir.AttrInt64s("pads", (both[:, 2:].reshape(-1) + own).tolist())
    conv.replace_input_with(0, pad.inputs[0])
