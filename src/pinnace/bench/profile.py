"""Profiles as a trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pinnace.engines.steps import Step

Runs = Sequence[Sequence[Step]]
"""The steps of each run."""


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
