"""Reasons why a node cannot be written."""

from __future__ import annotations

MISFITS = (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError)
"""Exceptions that lowerings raise on malformed input; others are bugs of Pinnace."""


class Unsupported(Exception):
    """A node that cannot be lowered; the message is the reason, without node or primitive."""


class RankUnknown(Unsupported):
    """A node that asks for the rank of a tensor known only at run time."""
