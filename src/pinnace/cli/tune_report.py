"""Results of `pinnace tune`: tables, JSON, and the last line, on what was chosen and what it gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from pinnace.bench.tuning import REFERENCE
from pinnace.cli.console import note, table
from pinnace.quantization.scheme import QuantizationScheme

if TYPE_CHECKING:
    from pinnace.api.cache import Measurement, Tuning
    from pinnace.bench.mixed_precision import Tried
    from pinnace.bench.tuning import Outcome

MADE_UP = "inputs are made up"
"""Why a form with fewer bits is not chosen."""
NOT_STORED = f"no form with fewer bits is stored, because {MADE_UP}: give --data or --input, or --made-up"


def conclusion(tuning: Tuning, outcomes: Sequence[Outcome], precision: str, not_stored: str) -> str:
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
    plain = [
        one.measured
        for one in outcomes
        if one.measured
        and not one.setup.form
        and (one.setup.provider, one.setup.precision) == (REFERENCE.provider, REFERENCE.precision)
    ]
    one, many = (tuning.best("", precision, 0, workers, may_round=True) for workers in (1, 0))
    if one is None or many is None:
        return []
    least = min((p.latency for p in plain if p.workers == 1), default=one.latency)
    most = max((p.throughput for p in plain), default=many.throughput)
    where = "where onnxruntime in fp32"
    return [
        f"chosen for latency: {_words(one)}, {one.latency:.3g} ms, {where} takes {least:.3g}",
        f"for throughput: {_words(many)}, {many.throughput:.4g}/s, {where} has {most:.4g}",
    ]


def _words(one: Measurement) -> str:
    what = (one.provider, _label(one.form) or one.precision)
    return f"{', '.join(filter(None, what))}, {one.workers} x {one.threads} (workers x threads)"


def _wins(tuning: Tuning, one: Measurement) -> list[str]:
    """Describe where builds of its precision that leave all else open take a configuration."""
    best = (tuning.best("", one.precision, 0, workers, bool(one.form)) for workers in (1, 0))
    return [what for what, won in zip(("for latency", "for throughput"), best, strict=True) if one == won]


def _rows(tuning: Tuning, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [
        asdict(one.measured or one.setup)
        | {"computes_in": one.computes_in, "form": _label(one.setup.form)}
        | {"wins": _wins(tuning, one.measured) if one.measured and not one.reason else []}
        | {"reason": one.reason}
        for one in outcomes
    ]


def as_json(
    tuning: Tuning, outcomes: Sequence[Outcome], forms: Sequence[Tried], kept: bool
) -> dict[str, Any]:
    rows = [
        row | ({} if isfinite(row.get("deviation", 0.0)) else {"deviation": str(row["deviation"])})
        for row in _rows(tuning, outcomes)
    ]  # JSON has no word for infinity
    found = [
        {"form": _label(one.setup.form), "provider": one.setup.provider} | asdict(one.closeness)
        for one in forms
    ]
    report = {
        "model": tuning.model,
        "shapes": tuning.shapes,
        "ways": rows,
        "forms": found,
        "remembered": kept,
    }
    return report if found else {key: value for key, value in report.items() if key != "forms"}


def show(tuning: Tuning, outcomes: Sequence[Outcome]) -> None:
    head = ["workers x threads", "precision", "computes in", "engine"]
    head += ["p50 ms", "p99 ms", "per second", "MB", "deviation", "chosen"]
    rows = []
    for row in _rows(tuning, outcomes):
        figures = ["", "", "", "", ""]
        if "latency" in row:
            figures = [f"{row['latency']:.3f}", f"{row['p99']:.3f}", f"{row['throughput']:.1f}"]
            figures += [f"{row['memory'] / 1e6:.1f}", f"{row['deviation']:.1e}"]
        remark = row["reason"].partition("\n")[0] or ", ".join(row["wins"])
        place = f"{row['workers']} x {row['threads']}"
        computes_in = row["form"] or row["computes_in"]
        rows.append([place, row["precision"], computes_in, row["provider"], *figures, remark])
    if len({row[1] for row in rows}) == 1:
        head, *rows = ([*row[:1], *row[2:]] for row in (head, *rows))
    table(tuning.model, rows, head)


def _label(form: str) -> str:
    return str(QuantizationScheme.of(form)) if form else ""


def show_forms(forms: Sequence[Tried], bound: float | None) -> None:
    if bound is not None and not forms:
        note(f"no form with fewer bits is faster within an error of {bound:g}")
    rows = [[_label(one.setup.form), one.setup.provider, *_figures(one)] for one in forms]
    if rows:
        head = ["form", "engine", "relative error", "cosine", "same largest"]
        table("Beside float32, over all inputs", rows, head)


def _figures(one: Tried) -> list[str]:
    close = one.closeness
    return [f"{close.error:.1e}", f"{close.cosine:.6f}", f"{close.same_top:.1%}"]
