"""The work of one build so far, held against its limits, and failures of lowering."""

from __future__ import annotations

from pinnace import bounds
from pinnace.graph.failures import Unsupported
from pinnace.ops.values import TailCall, Value
from pinnace.program import Node, Program


class NodeFailure(Exception):
    """A node that cannot be lowered, with the reason."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(f"node {node.name!r} ({node.primitive or 'call'}): {reason}")
        self.node = node
        self.reason = reason


class Work:
    """Counts of all that was evaluated for one program, also where it is traced again."""

    def __init__(self, program: Program) -> None:
        self._most_nodes = bounds.of_file(bounds.NODES, sum(len(f.nodes) for f in program.functions.values()))
        self._nodes = 0
        self._leaves = 0
        self._measures: dict[int, tuple[Value, int, int]] = {}

    def count(self, node: Node) -> None:
        """Count the evaluation of a node. Raises NodeFailure beyond the limit."""
        self._nodes += 1
        if self._nodes > self._most_nodes:
            raise NodeFailure(node, f"is one of more than {self._most_nodes} nodes, with all calls inlined")

    def count_leaves(self, value: Value) -> None:
        """Count the items of tuples in a result. Raises Unsupported beyond the limits."""
        if not isinstance(value, tuple | TailCall):
            return
        leaves, nesting = self._measure(value)
        if leaves > bounds.LEAVES or nesting > bounds.NESTING:
            raise Unsupported(
                f"gives a tuple of {leaves} items in {nesting} nested tuples, and the limits are "
                f"{bounds.LEAVES} and {bounds.NESTING}"
            )
        self._leaves += leaves
        if self._leaves > bounds.ALL_LEAVES:
            raise Unsupported(f"makes tuples of more than {bounds.ALL_LEAVES} items in all")

    def _measure(self, value: Value) -> tuple[int, int]:
        """Return the number of leaves of a value, and its nesting depth."""
        if not isinstance(value, tuple | TailCall):
            return 1, 0
        known = self._measures.get(id(value))
        if known is None:
            items = value if isinstance(value, tuple) else (value.arguments, value.stop, value.result)
            inner = [self._measure(item) for item in items]
            nesting = 1 + max((depth for _, depth in inner), default=0)
            known = self._measures[id(value)] = value, sum(count for count, _ in inner), nesting
        return known[1:]
