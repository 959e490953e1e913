"""`pinnace bench`: speed of a model on this machine, and accuracy against a reference."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pinnace.cli import options
from pinnace.cli.settings import Setting, settings

if TYPE_CHECKING:
    from pinnace import Context, ModelParallelRunner, Tensor
    from pinnace.bench.timing import RunLimit
    from pinnace.cli.bench_report import Accuracy, BenchReport
    from pinnace.cli.inputs import InputData
    from pinnace.engines.steps import Profile

PROFILED = 20
"""Default number of profiled predictions."""


@dataclass(frozen=True)
class Setup:
    """The subject of the measurements, the predictions before each of them, and the end of each."""

    path: Path
    inputs: Sequence[str]
    config: Path | None
    provider: str
    precision: str
    warming: RunLimit
    limit: RunLimit


@dataclass(frozen=True)
class Opened:
    """An open model, its inputs with their data, and the milliseconds that opening took."""

    model: ModelParallelRunner
    tensors: list[Tensor]
    fed: list[InputData]
    milliseconds: float


def bench(
    model: options.ModelFile,
    inputs: options.InputFiles = None,
    shapes: options.ShapesInTurn = None,
    batch: options.BatchesInTurn = None,
    threads: options.ThreadsInTurn = "0",
    workers: options.WorkersInTurn = None,
    clients: options.Clients = "5",
    rate: options.Rates = None,
    seconds: options.SecondsEach = 3.0,
    runs: options.RunsEach = None,
    warm_up: options.WarmUp = 3,
    provider: options.Provider = "automatic",
    precision: options.Precision = "enforce_fp32",
    config: options.ConfigFile = None,
    profile: options.Profile = False,
    trace: options.TraceFile = None,
    reference: options.ReferenceFile = None,
    threshold: options.Threshold = 0.5,
    cosine_threshold: options.CosineThreshold = None,
    plot: options.PlotFile = None,
    url: options.ServerUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure latency, throughput and accuracy.

    It measures opening, latency of one caller, throughput over workers and clients, and memory. With
    --reference the exit status is 1 if the outputs are too far from it. With --url MODEL is the name of a
    model of a server, of which latency and throughput are measured.
    """
    from pinnace.bench.timing import RunLimit

    fed = (part for given in inputs or () for part in (given, given.partition("=")[2]))  # FILE or NAME=FILE
    read = [model, *map(Path, fed), *filter(None, (config, reference))]
    _check_files(plot, trace, read)
    warming, limit = RunLimit(0.0, warm_up), RunLimit(seconds, runs)
    if url:
        from pinnace.cli.bench_server import measured_at

        wanted = settings(shapes or [], batch, "0", "1", clients, rate)
        remote = measured_at(url, str(model), inputs or [], wanted, warming, limit)
        _present(remote, as_json, None, plot)
        return
    setup = Setup(model, inputs or [], config, provider, precision, warming, limit)
    wanted = settings(shapes or [], batch, threads, workers, clients, rate)
    measured = _looked_at(setup, wanted)
    if reference:
        measured.accuracy = _compare(setup, wanted[0], reference, threshold, cosine_threshold)
    _time(setup, wanted, measured)
    if profile or trace:
        measured.profiled = _profile(setup, wanted[0])
    _present(measured, as_json, trace, plot)
    _judge(measured, reference)


def _check_files(plot: Path | None, trace: Path | None, read: Sequence[Path]) -> None:
    """Raise before the measurement if a file cannot be written, or is `read`."""
    from pinnace.bench import plot as plotting
    from pinnace.writing import check_output

    if plot:
        plotting.check(plot)
    for path in filter(None, (plot, trace)):
        check_output(path, read)


def _time(setup: Setup, settings: Sequence[Setting], measured: BenchReport) -> None:
    from pinnace.bench.throughput import caller
    from pinnace.bench.timing import collector_off, resident
    from pinnace.cli.bench_report import row_of
    from pinnace.cli.console import progress

    for number, setting in enumerate(settings, 1):
        before = resident()
        doing = f"{setting} ({number} of {len(settings)})"
        with _opened(setup, setting) as opened, progress(doing, model=measured.model), collector_off():
            client = partial(caller, opened.model, [one.array for one in opened.fed])
            submit = partial(opened.model.submit, opened.tensors)
            row = row_of(setting, client, submit, setup.warming, setup.limit)
            row.memory = max(0, resident() - before)
        measured.add(row)


def _judge(measured: BenchReport, reference: Path | None) -> None:
    """Exit with status 1 if the outputs are too far from the reference."""
    from pinnace.cli.console import note
    from pinnace.log import ERROR

    if measured.accuracy and not measured.accuracy.passed:
        note(f"{measured.model}: its outputs are too far from {reference}", "inaccurate", ERROR)
        raise typer.Exit(1)


def _present(measured: BenchReport, as_json: bool, trace: Path | None, plot: Path | None) -> None:
    """Print the measurements, and write the files that were asked for."""
    from pinnace.bench import plot as plotting
    from pinnace.bench.profile import trace as chrome_trace
    from pinnace.cli.bench_report import drawing, show
    from pinnace.cli.console import note
    from pinnace.writing import replacing

    if as_json:
        print(json.dumps(measured.as_json(), indent=2))
    else:
        show(measured)
    if trace and measured.profiled:
        with replacing(trace) as place:
            name = Path(measured.model).name
            place.write_text(chrome_trace(measured.profiled.runs, name), encoding="utf-8")
        note(f"wrote {trace}", "wrote", path=str(trace))
    if plot:
        plotting.draw(plot, drawing(measured))
        note(f"wrote {plot}", "wrote", path=str(plot))


def _looked_at(setup: Setup, settings: Sequence[Setting]) -> BenchReport:
    """Open the model twice, first as the compile cache has it, and run every case once.

    Errors come before the measurements. Returns the model's properties.
    """
    from pinnace.api.cache import cached_models
    from pinnace.cli.bench_report import BenchReport, Build
    from pinnace.cli.opening import note_inputs

    measured = BenchReport(str(setup.path))
    for name in ("first", "again"):
        before = cached_models(str(setup.config or ""))
        with _opened(setup, settings[0]) as opened:
            compiled = before is None or cached_models(str(setup.config or "")) != before
            measured.builds.append(Build(name, compiled, opened.milliseconds))
            measured.engine = opened.model.get_model_info("engine")
            measured.precision = opened.model.get_model_info("precision")
            if name == "again":
                measured.inputs = note_inputs(opened.tensors, opened.fed)
                _run_once(opened)
    for setting in {one.case: one for one in settings if one.case != settings[0].case}.values():
        with _opened(setup, setting) as opened:
            _run_once(opened)
    return measured


def _run_once(opened: Opened) -> None:
    from pinnace.cli.opening import guesses_named

    with guesses_named(opened.tensors, opened.fed):
        opened.model.predict(opened.tensors)


def _compare(
    setup: Setup, setting: Setting, reference: Path, threshold: float, cosine_threshold: float | None
) -> Accuracy:
    from pinnace.bench import references
    from pinnace.cli.bench_report import Accuracy
    from pinnace.quantization import accuracy

    wanted = references.read(reference)
    with _opened(setup, setting) as opened:
        outputs = {o.name: o.get_data_to_numpy() for o in opened.model.predict(opened.tensors)}
    closeness = accuracy.compare(outputs, references.assign(wanted, list(outputs)))
    return Accuracy(closeness, threshold, cosine_threshold)


def _profile(setup: Setup, setting: Setting) -> Profile:
    from pinnace.cli.console import progress

    with _opened(setup, setting) as opened, progress(f"Profiling {setup.path.name}", model=str(setup.path)):
        return opened.model.profile(opened.tensors, setup.limit.runs or PROFILED, setup.warming.runs or 0)


@contextmanager
def _opened(setup: Setup, setting: Setting) -> Iterator[Opened]:
    from pinnace.cli.console import progress
    from pinnace.cli.opening import fill, open_model

    context = _context(setup, setting)
    with progress(f"Opening {setup.path.name}", model=str(setup.path)):
        started = time.perf_counter_ns()
        model = open_model(setup.path, context)
        taken = (time.perf_counter_ns() - started) / 1e6
    with model:
        tensors, fed = fill(model, setup.inputs, setting.case.shapes, batch=setting.case.batch)
        yield Opened(model, tensors, fed, taken)


def _context(setup: Setup, setting: Setting) -> Context:
    from pinnace.cli.opening import context_for

    provider = "" if setup.provider == "automatic" else setup.provider
    return context_for(setting.threads, setup.config, setting.workers, provider, setup.precision)
