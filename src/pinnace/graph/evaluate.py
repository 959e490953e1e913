"""Computation of single nodes by ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from pinnace.graph.traits import Trait, having
from pinnace.graph.walk import inner_graphs
from pinnace.types import Array

_RANDOM = having(Trait.RANDOM)


def evaluated(node: ir.Node, opset: int, given: Sequence[Any]) -> list[Any] | None:
    """Return the results of a node for the values of its inputs in order, None for an input that it lacks.

    Returns None where the reference implementation refuses, and for nodes that draw numbers or hold graphs.
    """
    if node.op_type in _RANDOM or inner_graphs(node):
        return None
    from onnx.reference import ReferenceEvaluator  # takes 25 ms, which only a resize or a conversion needs

    try:
        if node.op_type == "GatherElements" and not node.domain:
            return [_gathered(given[0], given[1], node.attributes.get_int("axis", 0))]
        proto = ir.serde.serialize_node(node)
        # By names of their own: a node may read one value twice.
        values = {f"input{i}": value for i, value in enumerate(given) if value is not None}
        proto.input[:] = [f"input{i}" if f"input{i}" in values else "" for i in range(len(given))]
        ports = [onnx.ValueInfoProto(name=name) for name in values]
        results = [onnx.ValueInfoProto(name=name) for name in proto.output]
        graph = onnx.helper.make_graph([proto], "folded", ports, results)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, values))
    except Exception:  # it refuses what it does not know in many ways
        return None


def _gathered(data: Array, indices: npt.NDArray[np.integer], axis: int) -> Array:
    """Return GatherElements, whose data may have more rows than its indices; ONNX's refuses these."""
    axis %= data.ndim
    rows = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))
    found: Array = np.take_along_axis(data[rows], indices, axis)
    return found
