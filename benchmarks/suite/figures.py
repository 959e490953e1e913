"""The arithmetic of the report: medians over rounds, ratios round by round, and the best peer."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.suite.turns import Record

OURS = "pinnace"


@dataclass(frozen=True)
class Ratio:
    """A median over rounds, and the least and the largest of them."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.least:.2f} to {self.most:.2f})"


def middle(record: Record, key: str) -> float:
    """The median of a figure over rounds."""
    return statistics.median(answer[key] for answer in record.rounds)


def ratio(ours: Record, theirs: Record, key: str) -> Ratio:
    """One contestant's figure over another's in the same round, as far as both have rounds."""
    pairs = zip(ours.rounds, theirs.rounds, strict=False)
    quotients = [a[key] / b[key] for a, b in pairs]
    return Ratio(statistics.median(quotients), min(quotients), max(quotients))


def best_peer(records: Iterable[Record], key: str, larger: bool = False) -> Record | None:
    """Who of the peers has the smallest median (or the largest); None where nobody ran."""
    peers = [record for record in records if not record.contestant.startswith(OURS)]
    return (max if larger else min)(peers, key=lambda record: middle(record, key), default=None)


def chosen(records: Iterable[Record], section: str, **setting: int | str) -> list[Record]:
    """Those of a section and a setting; settings not named may be anything."""
    return [
        record
        for record in records
        if record.section == section and record.rounds and setting.items() <= record.setting.items()
    ]


def of_model(records: Iterable[Record], model: str) -> dict[str, Record]:
    """By contestant."""
    return {record.contestant: record for record in records if record.model == model}


def models_of(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(record.model for record in records))


def contestants_of(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(record.contestant for record in records))


def geometric_mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if values else float("nan")


def share_of_allowed(record: Record, workers: int) -> float:
    """Throughput over workers divided by the latency that one client alone has in the same process."""
    return statistics.median(answer["rate"] * answer["alone"] / workers for answer in record.rounds)
