"""Measurements in turns, A B A B ..., so that a drift of the machine meets everybody."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from benchmarks.suite.environments import LeftOut
from benchmarks.suite.material import Entrant, Material
from benchmarks.suite.talk import Contestant, Failed

REST = 0.1
"""Seconds between two turns: threads that spin after a prediction, as pools do, have stopped then."""

WRONG = 0.02
"""A contestant in fp32 whose outputs are further off, relative to the largest, computes something else."""


@dataclass
class Record:
    """What was measured of one contestant: an answer of each round, with names of figures."""

    section: str
    model: str
    setting: dict[str, int | str]
    contestant: str
    rounds: list[dict[str, Any]]
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Running:
    """A contestant that has the model."""

    entrant: Entrant
    contestant: Contestant
    facts: dict[str, Any]


class Notes:
    """Who did not take part in what, and the first reason; said at once and kept for the report."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    @property
    def lines(self) -> list[str]:
        return [f"{who}: {reason}" for who, reason in self._reasons.items()]

    def add(self, who: str, reason: object) -> None:
        if who not in self._reasons:
            self._reasons[who] = str(reason)
            print(f"left out: {self.lines[-1]}", file=sys.stderr, flush=True)


class Field:
    """Contestants that have one model loaded; a context manager, which ends them.

    `job` is how they load it: see `contestants/serving.py`. Those that cannot, or compute something else,
    are noted.
    """

    def __init__(self, material: Material, entrants: Sequence[Entrant], notes: Notes, **job: Any) -> None:
        self._model, self._notes = material.name, notes
        self._stack = ExitStack()
        self._running: list[Running] = []
        for entrant in entrants:
            try:
                self._running.append(self._started(material, entrant, job))
            except (LeftOut, Failed) as reason:
                notes.add(f"{entrant.name}, {material.name}", reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _started(self, material: Material, entrant: Entrant, job: dict[str, Any]) -> Running:
        contestant, answer = self._stack.enter_context(material.opened(entrant, **job))
        if entrant.precision != "fp32" and answer["precision"] == "fp32":
            raise LeftOut("it computes in fp32")
        difference = material.difference(contestant)
        if entrant.precision == answer["precision"] == "fp32" and difference > WRONG:
            raise LeftOut(f"its outputs are off by {difference:.2g}")
        return Running(entrant, contestant, answer | {"difference": difference})

    def measure(
        self, section: str, setting: dict[str, int | str], count: int, do: str, **arguments: Any
    ) -> Iterator[Record]:
        """Ask everybody `count` times, each first as often. Who fails is noted, and has no record."""
        answers: dict[int, list[dict[str, Any]]] = {i: [] for i in range(len(self._running))}
        for turn in range(count):
            for i in sorted(answers, key=lambda i, turn=turn: (i - turn) % len(self._running)):
                time.sleep(REST)
                try:
                    answers[i].append(self._running[i].contestant.ask(do, **arguments))
                except Failed as failure:
                    self._notes.add(f"{self._running[i].entrant.name}, {self._model}", failure)
                    del answers[i]
        for i, given in answers.items():
            one = self._running[i]
            yield Record(section, self._model, setting, one.entrant.name, given, one.facts)
