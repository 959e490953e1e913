"""The settings of `pinnace bench`: shapes, batch sizes, threads, workers, and load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import typer


@dataclass(frozen=True)
class Case:
    """Values of --shape for a measurement, and the first dimension of the inputs that leave it free.

    0 leaves that as it is.
    """

    shapes: tuple[str, ...] = ()
    batch: int = 0

    def __str__(self) -> str:
        return ", ".join((*self.shapes, *([f"batch {self.batch}"] if self.batch else [])))


@dataclass(frozen=True)
class Setting:
    """Conditions of a measurement: `clients` that ask in turn, or requests that arrive at a `rate` a second.

    Both are 0 for one caller. 0 threads means automatic.
    """

    case: Case
    threads: int
    workers: int = 1
    clients: int = 0
    rate: float = 0.0

    def facts(self) -> dict[str, str]:
        """Return the conditions as text by name, "" for what is not set."""
        load = f"at {self.rate:g}/s" if self.rate else counted(self.clients, "client")
        return {
            "case": str(self.case),
            "workers": counted(self.workers, "worker"),
            "threads": counted(self.threads, "thread") or "automatic threads",
            "load": load,
        }

    def __str__(self) -> str:
        facts = self.facts()
        if not facts["load"]:
            facts |= {"workers": "", "load": "one caller"}
        return ", ".join(filter(None, facts.values()))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, "" for 0."""
    return f"{number} {noun}{'s' * (number > 1)}" if number else ""


def cases(shapes: Sequence[str], batches: Sequence[int]) -> list[Case]:
    """Return all cases: an input that has several values of --shape takes them in turn, as do all such inputs
    together.
    """
    values: dict[str, list[str]] = {}
    for text in shapes:
        values.setdefault(text.rpartition("=")[0], []).append(text)
    turns = max(map(len, values.values()), default=1)
    if any(len(texts) not in (1, turns) for texts in values.values()):
        raise typer.BadParameter(f"--shape: give each input one shape or {turns}")
    together = [tuple(texts[turn % len(texts)] for texts in values.values()) for turn in range(turns)]
    return [Case(one, batch) for one in together for batch in batches or [0]]


def callers(cases: Sequence[Case], threads: Sequence[int]) -> list[Setting]:
    """Return the settings of one caller."""
    return [Setting(case, count) for case, count in product(cases, threads)]


def loads(
    cases: Sequence[Case],
    threads: Sequence[int],
    workers: Sequence[int],
    clients: Sequence[int],
    rates: Sequence[float],
) -> list[Setting]:
    """Return the settings under load."""
    places = [replace(one, workers=count) for one in callers(cases, threads) for count in workers]
    closed = [replace(one, clients=count) for one in places for count in clients]
    return closed + [replace(one, rate=rate) for one in places for rate in rates]
