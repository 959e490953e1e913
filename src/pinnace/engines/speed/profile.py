"""The speed of a machine by classes of work: measured by `pinnace devices --measure`, or of a table."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pinnace.engines.speed.work import NodeWork
from pinnace.machine import processor

Row = tuple[Sequence[float], float]
"""A size (`NodeWork.size`), and the picoseconds of a unit of work."""

Rates = Mapping[str, Sequence[Row]]
"""The measurements by class of work; "node" and "call" are the picoseconds of each."""

Record = dict[str, Any]
"""A profile as a JSON object."""

_NONE: Mapping[str, Record] = {}
_TABLE = Path(__file__).with_name("table.json")
_NEAR = 0.1
PICO = 1e-12


@dataclass(frozen=True)
class MachineProfile:
    """The time of each class of work on a machine.

    `rates` are by engine, precision and number of threads; `rules` are the times of nodes of onnxruntime that
    a rule rewrote over those as they are, by rule; `origin` says where all come from.
    """

    origin: str
    rates: Mapping[tuple[str, str, int], Rates]
    rules: Rates = field(default_factory=dict)

    def seconds(self, works: Sequence[NodeWork], engine: str, precision: str, threads: int) -> float | None:
        """Return the expected seconds of one prediction by a graph with these works.

        `engine` and `precision` are those of a `Target`. Between the measured numbers of threads and beyond
        them, the time falls by the same factor with each doubling, at most by half. None if nothing was
        measured.
        """
        known = sorted(t for e, p, t in self.rates if (e, p) == (engine, precision))
        if not known:
            return None
        one, more = _around(known, threads)
        first = _seconds(works, self.rates[engine, precision, one])
        nearest = self.rates[engine, precision, more if threads >= more else one]
        call = PICO * rate(nearest, "call")
        if one == more:
            return call + first
        second = _seconds(works, self.rates[engine, precision, more])
        fall = math.log(max(second, 1e-9) / max(first, 1e-9)) / math.log(more / one)
        return call + first * math.pow(threads / one, min(max(fall, -1.0), 0.0))


def built_in() -> MachineProfile:
    """Return the profile of the table for this CPU as each engine uses it; without rates if it has none."""
    table = _table()
    own = {
        engine: next((feature for feature in table if feature in features), "")
        for engine, features in (
            ("onnxruntime", processor.features_of_cpuid()),
            ("openvino", processor.features()),
        )
    }
    if not own["onnxruntime"]:
        return MachineProfile("no measurement and no table for this CPU", {})
    found = {engine: from_record(table[feature], table) for engine, feature in own.items() if feature}
    rates = {
        way: one
        for engine, profile in found.items()
        for way, one in profile.rates.items()
        if way[0] == engine
    }
    origin = " and ".join(dict.fromkeys(profile.origin for profile in found.values()))
    return MachineProfile(origin, rates, found["onnxruntime"].rules)


def from_record(record: Record, others: Mapping[str, Record] = _NONE) -> MachineProfile:
    """Return the profile of a JSON object, in which names of `others` stand for their rates.

    Raises KeyError, TypeError or ValueError if it is none.
    """
    rates = {
        _way(way): as_rates(others[one]["rates"][way] if isinstance(one, str) else one)
        for way, one in record["rates"].items()
    }
    rules = record["rules"]
    return MachineProfile(
        str(record["origin"]), rates, as_rates(others[rules]["rules"] if isinstance(rules, str) else rules)
    )


def as_record(profile: MachineProfile) -> Record:
    """Return a profile as a JSON object."""
    rates = {" ".join(map(str, way)): one for way, one in profile.rates.items()}
    return {"origin": profile.origin, "rates": rates, "rules": profile.rules}


def as_rates(record: Mapping[str, Sequence[tuple[Sequence[float], float]]]) -> Rates:
    """Return the rates of a JSON object."""
    return {kind: [(tuple(size), float(one)) for size, one in rows] for kind, rows in record.items()}


def rate(rates: Rates, kind: str, size: Sequence[float] = ()) -> float:
    """Return the picoseconds of a unit of work: the mean of those measured, the nearest sizes above all."""
    rows = rates.get(kind, ())
    if len(rows) < 2:
        return rows[0][1] if rows else 0.0
    weights = [1 / (_distance(size, other) + _NEAR) ** 4 for other, _ in rows]
    logs = (weight * math.log(one) for weight, (_, one) in zip(weights, rows, strict=True))
    return math.exp(sum(logs) / sum(weights))


def _seconds(works: Sequence[NodeWork], rates: Rates) -> float:
    amounts: dict[tuple[str, tuple[float, ...]], float] = defaultdict(float)  # many layers are alike
    for work in works:
        amounts[work.kind, work.size] += work.amount
    total = sum(rate(rates, *sort) * amount for sort, amount in amounts.items())
    return PICO * (total + len(works) * rate(rates, "node"))


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


@cache
def _table() -> Mapping[str, Record]:
    """Read the table: profiles by the processor feature that they are for, the first that is there counts."""
    found: Mapping[str, Record] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return found
