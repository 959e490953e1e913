"""Measurements in turns, A B A B ..., so that a drift of the machine meets everybody."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

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


def start(
    stack: ExitStack, material: Material, entrants: list[Entrant], notes: Notes, **job: Any
) -> list[Running]:
    """All contestants with the model loaded, their outputs compared. Those that cannot are noted."""
    running = []
    for entrant in entrants:
        try:
            contestant, answer = stack.enter_context(material.opened(entrant, **job))
            difference = material.difference(contestant)
        except (LeftOut, Failed) as reason:
            notes.add(f"{entrant.name}, {material.name}", reason)
            continue
        if entrant.precision == answer["precision"] == "fp32" and difference > WRONG:
            notes.add(f"{entrant.name}, {material.name}", f"its outputs are off by {difference:.2g}")
            continue
        running.append(Running(entrant, contestant, answer | {"difference": difference}))
    return running


def rounds(
    running: list[Running], count: int, notes: Notes, model: str, do: str, **arguments: Any
) -> list[tuple[Running, list[dict[str, Any]]]]:
    """Ask everybody `count` times, each first as often. Who fails is noted, and has no answers."""
    answers: dict[int, list[dict[str, Any]]] = {i: [] for i in range(len(running))}
    for turn in range(count):
        for i in sorted(answers, key=lambda i: (i - turn) % len(running)):
            time.sleep(REST)
            try:
                answers[i].append(running[i].contestant.ask(do, **arguments))
            except Failed as failure:
                notes.add(f"{running[i].entrant.name}, {model}", failure)
                del answers[i]
    return [(running[i], given) for i, given in answers.items()]
