"""The speed of a machine by classes of work: measured by `pinnace devices --measure`, or of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pinnace.engines.speed.work import NodeWork
from pinnace.machine import processor

Row = tuple[Sequence[float], float]
"""A size (`NodeWork.size`), and the picoseconds of a unit of work."""

Rates = Mapping[str, Sequence[Row]]
"""What was measured by class of work; "node" and "call" are the picoseconds of each."""

_TABLE = Path(__file__).with_name("table.json")
_NEAR = 0.1
PICO = 1e-12


@dataclass(frozen=True)
class MachineProfile:
    """What each class of work takes on a machine.

    `rates` are by engine, precision and number of threads; `origin` says where they come from.
    """

    origin: str
    rates: Mapping[tuple[str, str, int], Rates]

    def seconds(self, works: Sequence[NodeWork], engine: str, precision: str, threads: int) -> float | None:
        """Return the expected seconds of one prediction by a graph with these works.

        `engine` and `precision` are those of a `Target`; between the measured numbers of threads, and beyond
        them, the time falls by the same factor with each doubling. None if nothing was measured.
        """
        known = sorted(t for e, p, t in self.rates if (e, p) == (engine, precision))
        if not known:
            return None
        one, more = _around(known, threads)
        first, second = (_seconds(works, self.rates[engine, precision, t]) for t in (one, more))
        if one == more:
            return first
        return first * math.pow(second / first, math.log(threads / one) / math.log(more / one))


def built_in() -> MachineProfile:
    """Return the profile of the table for this processor; one without rates if the table has none."""
    for feature, record in _table().items():
        if feature in processor.features():
            return from_record(record)
    return MachineProfile("no measurement, and no table for this processor", {})


def from_record(record: Mapping[str, object]) -> MachineProfile:
    """Return the profile of a JSON object. Raises KeyError, TypeError or ValueError if it is none."""
    origin, rates = record["origin"], record["rates"]
    if not isinstance(origin, str) or not isinstance(rates, Mapping):
        raise TypeError("not a profile")
    return MachineProfile(origin, {_way(name): _rates(one) for name, one in rates.items()})


def as_record(profile: MachineProfile) -> dict[str, object]:
    """Return a profile as a JSON object."""
    rates = {" ".join(map(str, way)): one for way, one in profile.rates.items()}
    return {"origin": profile.origin, "rates": rates}


def rate(rates: Rates, kind: str, size: Sequence[float] = ()) -> float:
    """Return the picoseconds of a unit of work: the mean of those measured, the nearest sizes above all."""
    rows = rates.get(kind, ())
    if len(rows) < 2:
        return rows[0][1] if rows else 0.0
    weights = [1 / (_distance(size, other) + _NEAR) ** 4 for other, _ in rows]
    logs = (weight * math.log(one) for weight, (_, one) in zip(weights, rows, strict=True))
    return math.exp(sum(logs) / sum(weights))


def _seconds(works: Sequence[NodeWork], rates: Rates) -> float:
    total = sum(rate(rates, work.kind, work.size) * work.amount for work in works)
    return PICO * (total + len(works) * rate(rates, "node") + rate(rates, "call"))


def _distance(size: Sequence[float], other: Sequence[float]) -> float:
    return math.hypot(*(math.log2(max(a, 1) / max(b, 1)) for a, b in zip(size, other, strict=True)))


def _around(known: Sequence[int], wanted: int) -> tuple[int, int]:
    """Return the two nearest of the known numbers of threads, twice the same for one that is known."""
    if wanted in known or len(known) == 1:
        return (wanted, wanted) if wanted in known else (known[0], known[0])
    place = min(max(sum(one < wanted for one in known), 1), len(known) - 1)
    return known[place - 1], known[place]


def _way(name: str) -> tuple[str, str, int]:
    engine, precision, threads = name.split()
    return engine, precision, int(threads)


def _rates(record: Mapping[str, Sequence[tuple[Sequence[float], float]]]) -> Rates:
    return {kind: [(tuple(size), float(one)) for size, one in rows] for kind, rows in record.items()}


@cache
def _table() -> Mapping[str, Mapping[str, object]]:
    """Read the table: profiles by the processor feature that they are for, the first that is there counts."""
    found: Mapping[str, Mapping[str, object]] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return found
