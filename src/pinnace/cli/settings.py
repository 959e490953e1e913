"""The settings of measurements by `pinnace bench` and `tune`: shapes, batch sizes, threads, workers, load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import typer

from pinnace.machine.cores import usable_core_count


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


def settings(
    shapes: Sequence[str],
    batch: str | None,
    threads: str,
    workers: str | None,
    clients: str,
    rate: str | None,
) -> list[Setting]:
    """Return all settings of the options of `pinnace bench`: those of one caller, of clients, at rates."""
    batches = counts("--batch", batch, 1) if batch else [0]
    cases = [Case(one, size) for one in in_turn(shapes) for size in batches]
    callers = [Setting(case, count) for case in cases for count in counts("--threads", threads, 0)]
    places = [replace(one, workers=count) for one in callers for count in counts("--workers", workers, 1)]
    wanted = list(filter(None, counts("--clients", clients, 0)))
    closed = [replace(one, clients=count) for one in places for count in wanted]
    opened = [
        replace(one, rate=one_rate) for one in places for one_rate in (_rates("--rate", rate) if rate else [])
    ]
    return [*callers, *closed, *opened]


def in_turn(shapes: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the values of --shape for each turn; inputs with one value have it in all of them.

    A range, as in "x=1..6,128", stands for its ends and what doubling the first gives between them.
    """
    values: dict[str, list[str]] = {}
    for text in shapes:
        values.setdefault(text.rpartition("=")[0], []).extend(_ranged(text))
    turns = max(map(len, values.values()), default=1)
    if any(len(texts) not in (1, turns) for texts in values.values()):
        raise typer.BadParameter(f"--shape: give each input one shape or {turns}")
    return [tuple(texts[turn % len(texts)] for texts in values.values()) for turn in range(turns)]


def _ranged(text: str) -> list[str]:
    """Return a shape for each size of its ranges; "1..6" is 1, 2, 4 and 6."""
    found = re.search(r"(\d+)\.\.(\d+)", text)
    if found is None:
        return [text]
    first, last = map(int, found.groups())
    if not 0 < first <= last:
        raise typer.BadParameter(f"--shape {text}: the range {found[0]} has no sizes")
    sizes = [*(first << n for n in range(last.bit_length()) if first << n < last), last]
    return [one for size in sizes for one in _ranged(text.replace(found[0], str(size), 1))]


def counts(flag: str, text: str | None, least: int) -> list[int]:
    """Parse distinct whole numbers from "1,2,4"; for None they are 1 and the number of usable cores."""
    if not text:
        return sorted({1, usable_core_count()})
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{flag} {text}: expected whole numbers such as 1,2,4") from None
    if min(numbers) < least:
        raise typer.BadParameter(f"{flag} {text}: every number must be at least {least}")
    return list(dict.fromkeys(numbers))


def _rates(flag: str, text: str) -> list[float]:
    """Parse distinct numbers above 0 from "10,0.5"."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [0.0]
    if not all(0 < number < float("inf") for number in numbers):
        raise typer.BadParameter(f"{flag} {text}: expected numbers above 0 such as 10,50")
    return list(dict.fromkeys(numbers))
