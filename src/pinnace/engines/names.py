"""Names of the steps of a run: those that their nodes have in the model's file.

Engines make nodes of their own out of those of a graph, and name them after a node of it or after what one
gives, with words of theirs around that ("fused Conv_1", "Conv_1/WithoutBiases", "%3_nchwc").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pinnace.ops.nodes import origins

if TYPE_CHECKING:
    import onnx_ir as ir

_FURTHEST = 4  # nodes before the one that gives its name, of which an engine makes one with it


class _Known(NamedTuple):
    """A node of the graph: its operator, its name in the file, and what its first input is called."""

    operator: str
    name: str
    before: str


class Names:
    """Names of nodes in the file that a graph was made of, by what an engine calls what it made of them."""

    def __init__(self, model: ir.Model) -> None:
        from onnx_ir.traversal import RecursiveGraphIterator

        self._known: dict[str, _Known] = {}
        for node in RecursiveGraphIterator(model.graph):
            first = node.inputs[0] if node.inputs else None
            known = _Known(node.op_type, origins(node)[0], "" if first is None else first.name or "")
            for called in (node.name, *(output.name for output in node.outputs)):
                self._known[called or ""] = known

    def of(self, called: str, operator: str = "") -> str:
        """The name for what an engine calls so; that itself where it is the engine's own.

        Of several nodes that became one, it is the name of the one with this operator.
        """
        key = self._key(called.removeprefix("fused "))
        if not key:
            return called
        found = one = self._known[key]
        for _ in range(_FURTHEST):
            if one.operator == operator.removeprefix("Fused"):
                return one.name
            if one.before not in self._known:
                break
            one = self._known[one.before]
        return found.name

    def _key(self, called: str) -> str:
        """The longest name that what an engine says begins with."""
        if called in self._known:
            return called
        ends = (place for place in range(len(called) - 1, 0, -1) if not called[place].isalnum())
        return next((called[:end] for end in ends if called[:end] in self._known), "")
