"""Changes of the graph before it is written, by the option `optimize`.

* "none": the nodes of the model one by one. What is computed from constants alone, as shapes are, is always
  computed: primitives want it known.
* "general": without nodes that do nothing or whose results nobody reads, and equal ones only once; with the
  padding before a convolution and the BatchNormalization after it as part of the convolution.
* "gpu_oriented": the same; no primitive is special to GPUs.
* "ascend_oriented": the same; the file notes the shapes that it was converted for.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import CommonSubexpressionEliminationPass, RemoveUnusedNodesPass

from pinnace.converter.folding import fold
from pinnace.graph.constants import array
from pinnace.graph.editor import Editor
from pinnace.graph.inference import InferenceError, opset_of, refine
from pinnace.graph.matching import attributes
from pinnace.lowering.graph import cast_output, has_collectives
from pinnace.quantization.operators import Operator, candidates, factors, put_in_place, scaled, weight_of
from pinnace.types import Array
from pinnace.weights.placed import lazy

Optimize = Literal["none", "general", "gpu_oriented", "ascend_oriented"]


_SAME = "wrote what optimize=general writes: MindSpore's primitives, which every device runs"
EXPLANATIONS: Mapping[Optimize, tuple[str, ...]] = {
    "gpu_oriented": (f"optimize=gpu_oriented {_SAME}; kernels are chosen where the model is built",),
    "ascend_oriented": (
        f"optimize=ascend_oriented {_SAME}, and noted the shapes of a configuration; CANN compiles them "
        f"where the model is built",
    ),
}
"""Notes on values whose effect is less than their names promise."""


def optimized(model: ir.Model, optimize: Optimize) -> None:
    if optimize != "none" and not has_collectives(model):  # the others of a rank have no results, or an order
        _without_identities(model)
        _fuse(model)
        if not any(node.graph is not model.graph for node in model.graph.all_nodes()):
            CommonSubexpressionEliminationPass()(model)  # which fails for results of nested graphs
        RemoveUnusedNodesPass()(model)


def _without_identities(model: ir.Model) -> None:
    """Leave out Identity, except where it names a result: onnx-ir's pass fails for those of nested graphs."""
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Identity" and not node.domain and not node.outputs[0].is_graph_output():
            assert node.inputs[0] is not None
            assert node.graph is not None
            node.outputs[0].replace_all_uses_with(node.inputs[0])
            node.graph.remove(node, safe=True)


def _fuse(model: ir.Model) -> None:
    """Fuse what is around the convolutions of a graph. Weights are multiplied when they are written."""
    for node in model.graph:
        with suppress(InferenceError):  # engines will say it
            refine(node, opset_of(model))
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
    weight = lazy(lambda: scaled(tensor.numpy(), factor), tensor.dtype, tensor.shape.numpy())
    y = b.op("Conv", node.inputs[0], b.weight(weight), bias, **attributes(node))
    put_in_place(b, operator, y)


def _pad(conv: ir.Node) -> None:
    """Let a convolution pad its input with zeros in the place of a Pad."""
    pad = None if conv.inputs[0] is None else conv.inputs[0].producer()
    if pad is None or pad.op_type != "Pad" or conv.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return
    given = [x for x in pad.inputs[1:3] if x is not None]
    known = [numbers for x in given if (numbers := array(x)) is not None]
    if pad.attributes.get_string("mode", "constant") != "constant" or len(pad.inputs) > 3 or not known:
        return
    if len(known) < len(given) or any(fill.any() for fill in known[1:]):
        return
    both = known[0].reshape(2, -1)
    if both.min() < 0 or both[:, :2].any():
        return
    own = conv.attributes.get_ints("pads") or [0] * both[:, 2:].size
    conv.attributes["pads"] = ir.AttrInt64s("pads", (both[:, 2:].reshape(-1) + own).tolist())
    conv.replace_input_with(0, pad.inputs[0])


Turn = Literal["", "NHWC", "NCHW"]
TURNS: dict[Turn, tuple[int, int, int, int]] = {"NHWC": (0, 2, 3, 1), "NCHW": (0, 3, 1, 2)}
"""The order of dimensions that makes pictures of the other layout so."""


def take_pictures(model: ir.Model, turn: Turn) -> None:
    """Make the inputs of four dimensions NHWC (channels last) where they are NCHW, or the reverse."""
    perm = TURNS[turn]
    for value in model.graph.inputs:
        if value.shape is None or len(value.shape) != 4 or value.name in model.graph.initializers:
            continue
        inside = ir.Value(name=f"{value.name}/before_{turn}", type=value.type, shape=value.shape)
        value.replace_all_uses_with(inside)
        back = {"perm": [perm.index(i) for i in range(4)]}
        value.shape = ir.Shape([value.shape[i] for i in perm])
        node = ir.node("Transpose", [value], back, outputs=[inside], name=inside.name)
        model.graph.insert_before(model.graph[0], node)


_NARROW = {ir.DataType.INT64: ir.DataType.INT32, ir.DataType.DOUBLE: ir.DataType.FLOAT}
_TAKING_INT32 = {"Gather": (1,), "GatherElements": (1,), "Cast": (0,)}
"""Operators, and which of their inputs may be int32 without a cast."""


def narrowed(model: ir.Model) -> list[str]:
    """Make inputs and outputs of int64 int32, and those of float64 float32; return what was done.

    MindSpore Lite's converter makes a whole graph of int32 and float32. Here only the ports change: what is
    computed between them keeps its width, so that no sum overflows that did not.
    """
    graph = model.graph
    found: dict[ir.DataType, list[str]] = {}
    for value in graph.inputs:
        if value.dtype in _NARROW and value.name not in graph.initializers:
            found.setdefault(value.dtype, []).append(f"input {value.name!r}")
            _narrow_input(graph, value)
    for place, value in enumerate(list(graph.outputs)):
        if value.dtype in _NARROW:
            found.setdefault(value.dtype, []).append(f"output {value.name!r}")
            cast_output(model, place, _NARROW[value.dtype])
    names = {ir.DataType.INT64: "int64 became int32", ir.DataType.DOUBLE: "float64 became float32"}
    return [f"{names[kind]}, as MindSpore Lite has them: {', '.join(ports)}" for kind, ports in found.items()]


def _narrow_input(graph: ir.Graph, value: ir.Value) -> None:
    wide = value.dtype
    assert wide is not None
    inside = ir.Value(name=f"{value.name}/{wide.name}", type=ir.TensorType(wide), shape=value.shape)
    for node, place in list(value.uses()):
        if node.domain or place not in _TAKING_INT32.get(node.op_type, ()):
            node.replace_input_with(place, inside)
    value.type = ir.TensorType(_NARROW[wide])
    if inside.uses():
        node = ir.node("Cast", [value], {"to": wide.value}, outputs=[inside], name=inside.name)
        graph.insert_before(graph[0], node)


def as_narrow(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return an array of an original's element type in that of the narrower port, if it is one."""
    pair = array.dtype, dtype
    return array.astype(dtype) if any(pair == (w.numpy(), n.numpy()) for w, n in _NARROW.items()) else array
