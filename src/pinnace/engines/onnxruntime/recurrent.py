"""Recurrent operators without rows or steps.

onnxruntime (1.31) ends the process for an LSTM or a GRU of a batch of no rows, and for a GRU of no steps. A
Reshape that copies nothing raises an error before: with -1 for one dimension, the others must not be 0.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

_CHECKS = {"GRU": ((-1, 0, 0), (0, -1, 0)), "LSTM": ((-1, 0, 0),)}
"""Shapes of the Reshapes before an operator, whose inputs are steps, rows, and numbers of each."""


def refuse_nothing(model: ir.Model) -> None:
    """Check dimensions before recurrent operators that only the run knows."""
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        checks = _CHECKS.get(node.op_type, ()) if not node.domain else ()
        x = node.inputs[0] if node.inputs and checks else None
        result = next((value.name for value in node.outputs if value.name), None)
        if x is None or result is None:
            continue
        if x.shape is not None and all(isinstance(size, int) and size for size in x.shape):
            continue
        assert isinstance(node.graph, ir.Graph)
        for number, shape in enumerate(checks):
            name = f"{result}.check{number}"
            sizes = ir.Value(
                name=f"{name}.shape", const_value=ir.tensor(np.array(shape), name=f"{name}.shape")
            )
            node.graph.register_initializer(sizes)
            check = ir.Node("", "Reshape", [x, sizes], name=name)
            check.outputs[0].name = name
            node.graph.insert_before(node, check)
            x = check.outputs[0]
        node.replace_input_with(0, x)
