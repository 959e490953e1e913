"""Profiles: steps of an engine, summed by operator or node, and as a trace."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pinnace.engines.steps import Step

Runs = Sequence[Sequence[Step]]
"""The steps of each run."""


@dataclass(frozen=True)
class StepSum:
    """Sum over steps: milliseconds of all, and the share of the total, 0..1.

    Nested steps count for the inner step only.
    """

    name: str
    operator: str
    calls: int
    total: float
    share: float


def by_operator(runs: Runs) -> list[StepSum]:
    """Sum the steps by operator, longest first."""
    return _sums(runs, lambda step: (step.operator, step.operator))


def by_node(runs: Runs) -> list[StepSum]:
    """Sum the steps by node, longest first."""
    return _sums(runs, lambda step: (step.node, step.operator))


def trace(runs: Runs, process: str) -> str:
    """Return consecutive runs as JSON for chrome://tracing and ui.perfetto.dev.

    Source: "Trace Event Format" of the Chromium project; "X" is a complete event, times are in microseconds.
    """
    events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": process}}]
    end = 0.0
    for number, run in enumerate(runs):
        shift = end - min((step.start for step in run), default=0.0)
        events += [_event(step, step.start + shift, number) for step in run]
        end = max((step.start + step.duration + shift for step in run), default=end)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _event(step: Step, start: float, run: int) -> dict[str, Any]:
    return {
        "name": step.node,
        "cat": step.operator,
        "ph": "X",
        "pid": 1,
        "tid": step.thread,
        "ts": start,
        "dur": step.duration,
        "args": {"operator": step.operator, "run": run},
    }


def _sums(runs: Runs, key: Callable[[Step], tuple[str, str]]) -> list[StepSum]:
    taken = defaultdict[tuple[str, str], list[float]](list)
    for run in runs:
        for step, own in _own_durations(run):
            taken[key(step)].append(own)
    whole = sum(map(sum, taken.values())) or 1.0  # shorter than the engine's clock resolution
    sums = [
        StepSum(name, operator, len(times), sum(times) / 1e3, sum(times) / whole)
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
