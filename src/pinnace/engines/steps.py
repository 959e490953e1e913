"""What an engine notes of a run that it profiles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One execution of one node of an engine's graph.

    `start` and `duration` are in microseconds; `start` counts from a moment of the engine's choice, which may
    be another one for each run. A step of a graph within a node (a branch, a turn of a loop) lies within that
    node's step on the same `thread`.
    """

    node: str
    operator: str
    start: float
    duration: float
    thread: int = 0
