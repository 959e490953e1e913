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
from typing import Literal

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    RemoveUnusedNodesPass,
)

from pinnace.converter.fusing import fuse
from pinnace.lowering.graph import has_collectives

Optimize = Literal["none", "general", "gpu_oriented", "ascend_oriented"]


_SAME = "wrote what optimize=general writes: MindSpore's primitives, which every device runs"
SAID: Mapping[Optimize, tuple[str, ...]] = {
    "gpu_oriented": (f"optimize=gpu_oriented {_SAME}; kernels are chosen where the model is built",),
    "ascend_oriented": (
        f"optimize=ascend_oriented {_SAME}, and noted the shapes of a configuration; CANN compiles them "
        f"where the model is built",
    ),
}
"""Notes on values whose effect is less than their names promise."""


def optimized(model: ir.Model, optimize: Optimize) -> None:
    """Change a model as an option says."""
    if optimize != "none" and not has_collectives(model):  # the others of a rank have no results, or an order
        _without_identities(model)
        fuse(model)
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
