"""`pinnace tune`: find the fastest engine and numbers of threads and workers for a model."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pinnace.cli import options
from pinnace.errors import warn

if TYPE_CHECKING:
    from pinnace.bench.rounding import Tried
    from pinnace.bench.tuning import Outcome, Subject
    from pinnace.building.spec import Spec
    from pinnace.cache.choices import Configuration, Measurement, Tuning
    from pinnace.types import Array

BOUNDS = {"enforce_fp32": 1e-4, "preferred_fp16": 2e-2}
"""Largest relative error by precision: another order of sums; 8 bits of bfloat16, over many layers."""


def tune(
    model: options.ModelFile,
    inputs: options.InputFiles = None,
    shapes: options.ManyShapes = None,
    threads: options.ThreadCounts = None,
    workers: options.WorkerCounts = None,
    precision: options.Precisions = "enforce_fp32",
    seconds: options.SecondsInAll = None,
    max_latency: options.MaxLatency = None,
    error: options.ErrorBound = None,
    max_error: options.MaxError = None,
    data: options.DataFolder = None,
    made_up: options.MadeUp = False,
    config: options.ConfigFile = None,
    forget: options.Forget = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the fastest way to run a model.

    Engines, threads, workers and precisions are measured, for all shapes, and
    the result is stored. Later builds of the model on this machine use the fastest engine and numbers,
    where they set none. With --max-error, forms with fewer bits compete too; builds use them unless they set
    fp32. These are stored only if they were measured with typical inputs (--data, --input). Ctrl-C shows what
    was measured so far, and stores nothing.
    """
    from pinnace.bench.tuning import Subject
    from pinnace.cli import gain

    if forget:
        _forget(model, config, as_json)
        return
    if (data or made_up) and max_error is None:
        raise typer.BadParameter(f"{'--data' if data else '--made-up'} is for --max-error")
    bounds = {name: BOUNDS[name] if error is None else error for name in _precisions(precision)}
    numbers = _numbers(threads, workers)
    seconds = (120.0 if max_error else 30.0) if seconds is None else seconds
    found, is_whole = _Found(Subject(str(model), ())), False
    try:
        found.subject, samples, is_typical = _subject(model, inputs or [], shapes or [], config, data)
        found.may_round = is_typical or made_up
        if max_error is not None and not found.may_round:
            warn(gain.NOT_STORED)
        _compare(found, samples, bounds, numbers, seconds, max_error, max_latency)
        is_whole = True
    except KeyboardInterrupt:
        pass
    tuning = _tuning(found.subject, found.outcomes, max_latency)
    not_stored = _not_stored(tuning, _spec(model, config)) if is_whole else "interrupted"
    _tell(found, tuning, next(iter(bounds)), max_error, not_stored, as_json)
    if not is_whole:
        raise typer.Exit(130)


@dataclass
class _Found:
    """Measurements so far: the forms within the error, and the outcomes of all ways to run the model.

    Forms must be chosen only if they `may_round`.
    """

    subject: Subject
    may_round: bool = True
    forms: list[Tried] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


def _tell(
    found: _Found, tuning: Tuning, precision: str, max_error: float | None, not_stored: str, as_json: bool
) -> None:
    from pinnace.cli import gain
    from pinnace.cli.console import note
    from pinnace.cli.fewer import show_forms

    if as_json:
        print(json.dumps(_as_json(tuning, found.outcomes, found.forms, not not_stored), indent=2))
    elif found.outcomes:
        _show(tuning, found.outcomes)
        show_forms(found.forms, max_error)
    note(gain.said(tuning, found.outcomes, precision, not_stored), "tuned", model=tuning.model)


def _compare(
    found: _Found, samples: list[list[Array]], bounds: dict[str, float],
    numbers: tuple[list[int], list[int]], seconds: float, max_error: float | None, max_latency: float | None,
) -> None:  # fmt: skip
    """Find the forms within `max_error`, and measure all ways to run the model."""
    from pinnace.bench.tuning import FEWER, compete
    from pinnace.cli.console import note
    from pinnace.cli.fewer import forms_within
    from pinnace.cli.gain import MADE_UP

    subject, precisions = found.subject, list(bounds)
    if max_error is not None:
        seconds /= 2
        found.forms += forms_within(subject, samples, max_error, max(numbers[0]), seconds)
        bounds = {**bounds, FEWER: max_error}
    contestants = _contestants(precisions, *numbers, [one.way for one in found.forms])
    for one in compete(subject, contestants, seconds, bounds, note, max_latency):
        is_fit = found.may_round or not one.way.form
        found.outcomes.append(one if is_fit else replace(one, reason=MADE_UP))


def _not_stored(tuning: Tuning, spec: Spec) -> str:
    """Store a tuning. Returns why not, or ""."""
    from pinnace.building.spec import Stages, lowered

    if not tuning.measured:
        return "nothing fits"
    try:
        lowered(spec, Stages())  # which files belong to the model
        return "" if spec.cache.keep_tuning(tuning) else "the compile cache is off"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"


def _forget(model: Path, config: Path | None, as_json: bool) -> None:
    count = _spec(model, config).cache.forget_tunings()
    told = {"model": str(model), "forgotten": count}
    print(json.dumps(told) if as_json else f"{model}: {count} tuning(s) forgotten")


def _numbers(threads: str | None, workers: str | None) -> tuple[list[int], list[int]]:
    from pinnace.cli.numbers import counts, usual_counts

    thread_counts = counts("--threads", threads, 1) if threads else usual_counts()
    return thread_counts, counts("--workers", workers, 1) if workers else usual_counts()


def _contestants(
    precisions: list[str], threads: list[int], workers: list[int], others: Sequence[Configuration]
) -> Sequence[Configuration]:
    """Return the ways to run a model that have room on this machine."""
    from pinnace.bench.tuning import ways
    from pinnace.engines import installed
    from pinnace.machine.cores import usable_core_count

    cores = usable_core_count()
    contestants = ways(list(installed()), precisions, threads, workers, cores, others)
    if not contestants:
        raise typer.BadParameter(f"--workers times --threads are more than the {cores} cores")
    return contestants


def _precisions(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in BOUNDS:
            raise typer.BadParameter(f"--precision {text}: choose from {', '.join(BOUNDS)}")
    return names


def _subject(
    path: Path, inputs: Sequence[str], shapes: Sequence[str], config: Path | None, data: Path | None
) -> tuple[Subject, list[list[Array]], bool]:
    """Return the model and its inputs, filled as `pinnace run` fills them, those of all samples, and False if
    some are made up.
    """
    from pinnace.bench.tuning import REFERENCE, Subject
    from pinnace.cli.console import progress
    from pinnace.cli.fewer import samples_of
    from pinnace.cli.opening import context_for, fill, guesses_named, note_inputs, open_model
    from pinnace.cli.sweep import in_turn

    cases, is_typical = [], True
    with progress(f"Opening {path.name}", model=str(path)):
        model = open_model(path, context_for(1, config, provider=REFERENCE.provider))
    with model:
        samples = samples_of(model, data, shapes) if data else []
        for one_shapes in in_turn(shapes):
            tensors, fed = fill(model, inputs, one_shapes)
            note_inputs(tensors, fed)
            with guesses_named(tensors, fed):
                model.predict(tensors)
            cases.append([one.array for one in fed])
            is_typical = is_typical and not any(one.made_up for one in fed)
    is_typical = is_typical or bool(samples)
    return Subject(str(path), samples[:1] or cases, str(config or "")), samples or cases, is_typical


def _spec(path: Path, config: Path | None) -> Spec:
    from pinnace.building.opening import open_model
    from pinnace.options.settings import Settings
    from pinnace.options.target import Target

    return open_model(path, None, Target(), Settings.load(str(config or "")))


def _tuning(subject: Subject, outcomes: Sequence[Outcome], max_latency: float | None) -> Tuning:
    """Return the tuning to store: all results that may be chosen."""
    from pinnace.cache.choices import Tuning

    fits = tuple(one.measured for one in outcomes if one.measured and not one.reason)
    shapes = tuple(tuple(array.shape) for arrays in subject.cases for array in arrays)
    return Tuning(subject.path, shapes, time.time(), fits, max_latency)


def _wins(tuning: Tuning, one: Measurement) -> list[str]:
    """Describe where a configuration is the fastest: in latency or in throughput."""
    wins = []
    if one.workers == 1 and one == tuning.best("", one.precision, one.threads, 1, bool(one.form)):
        wins.append("for latency")
    if one == tuning.best("", one.precision, 0, one.workers, bool(one.form)):
        wins.append("for throughput")
    return wins


def _rows(tuning: Tuning, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    from pinnace.cli.fewer import label

    return [
        asdict(one.measured or one.way)
        | {"computes_in": one.computes_in, "form": label(one.way.form)}
        | {"wins": _wins(tuning, one.measured) if one.measured and not one.reason else []}
        | {"reason": one.reason}
        for one in outcomes
    ]


def _as_json(
    tuning: Tuning, outcomes: Sequence[Outcome], forms: Sequence[Tried], kept: bool
) -> dict[str, Any]:
    from pinnace.cli.fewer import label

    rows = [
        row | ({} if isfinite(row.get("deviation", 0.0)) else {"deviation": str(row["deviation"])})
        for row in _rows(tuning, outcomes)
    ]  # JSON has no word for infinity
    found = [
        {"form": label(one.way.form), "provider": one.way.provider} | asdict(one.closeness) for one in forms
    ]
    told = {"model": tuning.model, "shapes": tuning.shapes, "ways": rows, "forms": found, "remembered": kept}
    return told if found else {key: value for key, value in told.items() if key != "forms"}


def _show(tuning: Tuning, outcomes: Sequence[Outcome]) -> None:
    from pinnace.cli.console import table

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
