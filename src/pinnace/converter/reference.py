"""Computation of single nodes by ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator


def evaluated(node: ir.Node, opset: int, given: Mapping[str, Any]) -> list[Any]:
    """Return the results of a node for the values of its inputs by their names.

    Raises what the reference implementation raises where it does not know an operator or its inputs.
    """
    proto = ir.serde.serialize_node(node)
    names = list(dict.fromkeys(name for name in proto.input if name))
    ports = [onnx.ValueInfoProto(name=name) for name in names]
    results = [onnx.ValueInfoProto(name=name) for name in proto.output]
    graph = onnx.helper.make_graph([proto], "folded", ports, results)
    imports = [onnx.helper.make_opsetid(node.domain, opset)]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, dict(given)))
