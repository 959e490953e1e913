"""Steps of profiled runs."""

from __future__ import annotations

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
