"""Limits of the arrays that lowerings make from sizes that a file only claims."""

from __future__ import annotations

import math

from pinnace.graph.failures import Unsupported

_MOST = 1 << 25
"""Elements; a quarter of a GiB of the widest type. What holds more is a weight, and lies in the file."""


def room(*dims: int) -> tuple[int, ...]:
    """The dimensions of a constant; Unsupported where nobody would put it into a graph."""
    if min(dims, default=0) < 0 or math.prod(max(d, 1) for d in dims) > _MOST:
        raise Unsupported(f"needs a constant of dimensions {list(dims)}, which is impossible or too large")
    return dims


def span(length: int) -> int:
    """A number of steps, for `range` and the like; Unsupported where nobody takes so many."""
    room(max(length, 0))
    return length
