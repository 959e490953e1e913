"""Steps of profiled runs, and their sums by node or operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One execution of one node of an engine's graph.

    `start` and `duration` are in microseconds; `start` counts from a moment that the engine chooses, maybe
    for each run. A step of a nested graph (a branch, an iteration of a loop) lies within the step of its node
    on the same `thread`.
    """

    node: str
    operator: str
    start: float
    duration: float
    thread: int = 0


@dataclass(frozen=True)
class OperatorTime:
    """Sum over runs of the time of a node, or of all nodes of an operator.

    `total` is in milliseconds, `share` is that of the whole, 0..1. Nodes within a branch or loop count for
    themselves, not for the node around them.
    """

    name: str
    operator: str
    calls: int
    total: float
    share: float


class Profile(list[OperatorTime]):
    """Times of nodes by their names in the model file, longest first. `runs` has the steps of each run."""

    def __init__(self, runs: Sequence[Sequence[Step]]) -> None:
        super().__init__(_sums(runs, lambda step: (step.node, step.operator)))
        self.runs = runs

    def by_operator(self) -> list[OperatorTime]:
        return _sums(self.runs, lambda step: (step.operator, step.operator))


def _sums(runs: Sequence[Sequence[Step]], key: Callable[[Step], tuple[str, str]]) -> list[OperatorTime]:
    taken = defaultdict[tuple[str, str], list[float]](list)
    for run in runs:
        for step, own in _own_durations(run):
            taken[key(step)].append(own)
    whole = sum(map(sum, taken.values())) or 1.0  # shorter than the engine's clock resolution
    sums = [
        OperatorTime(name, operator, len(times), sum(times) / 1e3, sum(times) / whole)
        for (name, operator), times in taken.items()
    ]
    return sorted(sums, key=lambda entry: -entry.total)


def _own_durations(steps: Sequence[Step]) -> list[tuple[Step, float]]:
    """Return the steps of a run, each with its duration minus that of the steps nested in it."""
    own: list[tuple[Step, float]] = []
    around: list[int] = []  # indices in `own` of the open outer steps, the innermost last
    for step in sorted(steps, key=lambda step: (step.thread, step.start, -step.duration)):
        while around and not _within(step, own[around[-1]][0]):
            around.pop()
        if around:
            outer, left = own[around[-1]]
            own[around[-1]] = outer, max(0.0, left - step.duration)
        around.append(len(own))
        own.append((step, step.duration))
    return own


def _within(step: Step, outer: Step) -> bool:
    # Compare only the start: rounding makes the ends inexact.
    return step.thread == outer.thread and step.start < outer.start + outer.duration
