"""The last line of `pinnace tune`: what was chosen, what it gains, and whether it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinnace.bench.tuning import Outcome
    from pinnace.cache.choices import Measurement, Tuning

MADE_UP = "inputs are made up"
"""Why a form with fewer bits is not chosen."""
NOT_STORED = f"no form with fewer bits is stored, because {MADE_UP}: give --data or --input, or --made-up"


def said(tuning: Tuning, outcomes: Sequence[Outcome], precision: str, not_stored: str) -> str:
    """Return the line; `not_stored` is why nothing is stored, "" if the tuning is."""
    parts = _chosen(tuning, outcomes, precision) or ["nothing is chosen"]
    parts.append(
        f"nothing is stored: {not_stored}"
        if not_stored
        else f"stored for builds that leave this open (pinnace tune --forget {tuning.model} deletes it)"
    )
    if any(one.reason == MADE_UP for one in outcomes):
        parts.append(NOT_STORED)
    return "; ".join(parts)


def _chosen(tuning: Tuning, outcomes: Sequence[Outcome], precision: str) -> list[str]:
    """Return what builds that leave everything open get, beside the fastest of plain onnxruntime."""
    from pinnace.bench.tuning import REFERENCE

    plain = [
        one.measured
        for one in outcomes
        if one.measured
        and not one.way.form
        and (one.way.provider, one.way.precision) == (REFERENCE.provider, REFERENCE.precision)
    ]
    one, many = (tuning.best("", precision, 0, workers, may_round=True) for workers in (1, 0))
    if one is None or many is None:
        return []
    least = min((p.latency for p in plain if p.workers == 1), default=one.latency)
    most = max((p.throughput for p in plain), default=many.throughput)
    return [
        f"chosen for latency: {_way(one)}, {one.latency:.3g} ms, where onnxruntime in fp32 takes {least:.3g}",
        f"for throughput: {_way(many)}, {many.throughput:.4g}/s, where onnxruntime in fp32 has {most:.4g}",
    ]


def _way(one: Measurement) -> str:
    from pinnace.cli.fewer import label

    what = (one.provider, label(one.form) or one.precision)
    return f"{', '.join(filter(None, what))}, {one.workers} x {one.threads} (workers x threads)"
