"""Failures of lowering."""

from __future__ import annotations

from pinnace.program import Node

MISFITS = (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError)
"""Exceptions that lowerings raise on malformed input; others are bugs of Pinnace."""


class NodeFailure(Exception):
    """A node that cannot be lowered, with the reason."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(f"node {node.name!r} ({node.primitive or 'call'}): {reason}")
        self.node = node
        self.reason = reason
