"""Expected time of a graph, from the profile of a machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pinnace.engines.work import Work

Rows = Sequence[tuple[Sequence[float], float]]
"""What was measured of one class of work: a size, and seconds for a unit of work."""

Rates = Mapping[str, Rows]
"""The classes of work that one engine was measured with; "node" and "call" are seconds for each."""

_NEAR = 0.1


def seconds(works: Sequence[Work], rates: Rates) -> float:
    """Return the expected seconds of one prediction."""
    total = sum(rate(rates, work.kind, work.size) * work.amount for work in works)
    return total + len(works) * rate(rates, "node") + rate(rates, "call")


def rate(rates: Rates, kind: str, size: Sequence[float] = ()) -> float:
    """Return the seconds of a unit of work: between the measured ones, the nearest sizes count most."""
    rows = rates.get(kind, ())
    if len(rows) < 2:
        return rows[0][1] if rows else 0.0
    weights = [1 / (_distance(size, other) + _NEAR) ** 4 for other, _ in rows]
    logs = (weight * math.log(one) for weight, (_, one) in zip(weights, rows, strict=True))
    return math.exp(sum(logs) / sum(weights))


def _distance(size: Sequence[float], other: Sequence[float]) -> float:
    return math.hypot(*(math.log2(max(a, 1) / max(b, 1)) for a, b in zip(size, other, strict=True)))
