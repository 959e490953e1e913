"""`pinnace tune`: find the fastest engine and numbers of threads and workers for a model."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pinnace.cli import options
from pinnace.errors import ArgumentValueError, warn

if TYPE_CHECKING:
    from pinnace import ModelParallelRunner
    from pinnace.api.cache import Configuration, Tuning
    from pinnace.bench.mixed_precision import Tried
    from pinnace.bench.tuning import Outcome, Subject
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
    from pinnace.cli import tune_report
    from pinnace.cli.settings import counts

    if forget:
        _forget(model, config, as_json)
        return
    if (data or made_up) and max_error is None:
        raise typer.BadParameter(f"{'--data' if data else '--made-up'} is for --max-error")
    bounds = {name: BOUNDS[name] if error is None else error for name in _precisions(precision)}
    numbers = counts("--threads", threads, 1), counts("--workers", workers, 1)
    seconds = (120.0 if max_error else 30.0) if seconds is None else seconds
    found, is_whole = _Found(Subject(str(model), ())), False
    try:
        found.subject, samples, is_typical = _subject(model, inputs or [], shapes or [], config, data)
        found.may_round = is_typical or made_up
        if max_error is not None and not found.may_round:
            warn(tune_report.NOT_STORED)
        _compare(found, samples, bounds, numbers, seconds, max_error, max_latency)
        is_whole = True
    except KeyboardInterrupt:
        pass
    tuning = _tuning(found.subject, found.outcomes, max_latency)
    not_stored = _not_stored(tuning, model, config) if is_whole else "interrupted"
    _show(found, tuning, next(iter(bounds)), max_error, not_stored, as_json)
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


def _show(
    found: _Found, tuning: Tuning, precision: str, max_error: float | None, not_stored: str, as_json: bool
) -> None:
    from pinnace.cli import tune_report
    from pinnace.cli.console import note

    if as_json:
        rows = tune_report.as_json(tuning, found.outcomes, found.forms, not not_stored)
        print(json.dumps(rows, indent=2))
    elif found.outcomes:
        tune_report.show(tuning, found.outcomes)
        tune_report.show_forms(found.forms, max_error)
    note(tune_report.conclusion(tuning, found.outcomes, precision, not_stored), "tuned", model=tuning.model)


def _compare(
    found: _Found, samples: list[list[Array]], bounds: dict[str, float],
    numbers: tuple[list[int], list[int]], seconds: float, max_error: float | None, max_latency: float | None,
) -> None:  # fmt: skip
    """Find the forms within `max_error`, and measure all ways to run the model."""
    from pinnace.bench.mixed_precision import Search
    from pinnace.bench.tuning import FEWER, compete
    from pinnace.cli.console import note
    from pinnace.cli.tune_report import MADE_UP

    subject, precisions = found.subject, list(bounds)
    if max_error is not None:
        seconds /= 2
        end = time.monotonic() + seconds
        search = Search(subject.path, subject.config, samples, max_error, max(numbers[0]), end, note)
        found.forms += search.found()
        bounds = {**bounds, FEWER: max_error}
    contestants = _contestants(precisions, *numbers, [one.setup for one in found.forms])
    for one in compete(subject, contestants, seconds, bounds, note, max_latency):
        is_fit = found.may_round or not one.setup.form
        found.outcomes.append(one if is_fit else replace(one, reason=MADE_UP))


def _not_stored(tuning: Tuning, model: Path, config: Path | None) -> str:
    """Store a tuning. Returns why not, or ""."""
    from pinnace.api.cache import keep_tuning

    if not tuning.measured:
        return "nothing fits"
    try:
        return "" if keep_tuning(model, str(config or ""), tuning) else "the compile cache is off"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"


def _forget(model: Path, config: Path | None, as_json: bool) -> None:
    from pinnace.api.cache import forget_tunings

    count = forget_tunings(model, str(config or ""))
    facts = {"model": str(model), "forgotten": count}
    print(json.dumps(facts) if as_json else f"{model}: {count} tuning(s) forgotten")


def _contestants(
    precisions: list[str], threads: list[int], workers: list[int], others: Sequence[Configuration]
) -> Sequence[Configuration]:
    """Return the ways to run a model that have room on this machine."""
    from pinnace.bench.tuning import configurations
    from pinnace.engines import installed
    from pinnace.machine.cores import usable_core_count

    cores = usable_core_count()
    contestants = configurations(list(installed()), precisions, threads, workers, cores, others)
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
    from pinnace.cli.opening import context_for, fill, guesses_named, note_inputs, open_model
    from pinnace.cli.settings import in_turn

    cases, is_typical = [], True
    with progress(f"Opening {path.name}", model=str(path)):
        model = open_model(path, context_for(1, config, provider=REFERENCE.provider))
    with model:
        samples = _samples(model, data, shapes) if data else []
        for one_shapes in in_turn(shapes):
            tensors, fed = fill(model, inputs, one_shapes)
            note_inputs(tensors, fed)
            with guesses_named(tensors, fed):
                model.predict(tensors)
            cases.append([one.array for one in fed])
            is_typical = is_typical and not any(one.made_up for one in fed)
    is_typical = is_typical or bool(samples)
    return Subject(str(path), samples[:1] or cases, str(config or "")), samples or cases, is_typical


def _samples(model: ModelParallelRunner, folder: Path, shapes: Sequence[str]) -> list[list[Array]]:
    """Return the inputs in a folder, one prediction a file, in the order of their names."""
    from pinnace.cli.opening import fill

    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise ArgumentValueError(f"--data {folder}: there are no files")
    return [[one.array for one in fill(model, [str(file)], shapes)[1]] for file in files]


def _tuning(subject: Subject, outcomes: Sequence[Outcome], max_latency: float | None) -> Tuning:
    from pinnace.api.cache import Tuning

    fits = tuple(one.measured for one in outcomes if one.measured and not one.reason)
    shapes = tuple(tuple(array.shape) for arrays in subject.cases for array in arrays)
    return Tuning(subject.path, shapes, time.time(), fits, max_latency)
