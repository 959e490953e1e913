"""Reasons why a node cannot be written, and limits of the arrays that it may ask for."""

from __future__ import annotations

import math

MISFITS = (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError)
"""Exceptions that lowerings raise on malformed input; others are bugs of Pinnace."""
_MOST = 1 << 25
"""Elements; a quarter of a GiB of the widest type. What holds more is a weight, and lies in the file."""


class Unsupported(Exception):
    """A node that cannot be lowered; the message is the reason, without node or primitive."""


class RankUnknown(Unsupported):
    """A node that asks for the rank of a tensor known only at run time."""


def room(*dims: int) -> tuple[int, ...]:
    """The dimensions of a constant; Unsupported where nobody would put it into a graph."""
    if min(dims, default=0) < 0 or math.prod(max(d, 1) for d in dims) > _MOST:
        raise Unsupported(f"needs a constant of dimensions {list(dims)}, which is impossible or too large")
    return dims


def span(length: int) -> int:
    """A number of steps, for `range` and the like; Unsupported where nobody takes so many."""
    room(max(length, 0))
    return length
