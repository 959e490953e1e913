"""Names of profiled steps: those that their nodes have in the model's file.

Engines make new nodes out of those of a graph. They name each after a node of the graph or one of its
outputs, and add words of their own ("fused Conv_1", "Conv_1/WithoutBiases", "%3_nchwc").
"""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from pinnace.graph.nodes import origins
from pinnace.graph.walk import nodes

_MAX_FUSED = 4  # nodes of a chain that an engine may fuse into one, named after the last


class _GraphNode(NamedTuple):
    """A node of the graph: its operator, its name in the file, and the name of its first input."""

    operator: str
    name: str
    first_input: str


class Names:
    """Maps an engine's node names to the names that the nodes have in the model's file."""

    def __init__(self, model: ir.Model) -> None:
        self._nodes: dict[str, _GraphNode] = {}
        for node in nodes(model.graph):
            first = node.inputs[0] if node.inputs else None
            known = _GraphNode(node.op_type, origins(node)[0], "" if first is None else first.name or "")
            for name in (node.name, *(output.name for output in node.outputs)):
                self._nodes[name or ""] = known

    def of(self, engine_name: str, operator: str = "") -> str:
        """Return the file's name for an engine's node, or `engine_name` if the engine added the node.

        For several fused nodes it is the name of the one with this operator.
        """
        key = self._key(engine_name.removeprefix("fused "))
        if not key:
            return engine_name
        last = node = self._nodes[key]
        for _ in range(_MAX_FUSED):
            if node.operator == operator.removeprefix("Fused"):
                return node.name
            if node.first_input not in self._nodes:
                break
            node = self._nodes[node.first_input]
        return last.name

    def _key(self, engine_name: str) -> str:
        """Return the longest name in the graph that the engine's name begins with; "" if there is none."""
        if engine_name in self._nodes:
            return engine_name
        ends = (end for end in range(len(engine_name) - 1, 0, -1) if not engine_name[end].isalnum())
        return next((engine_name[:end] for end in ends if engine_name[:end] in self._nodes), "")
