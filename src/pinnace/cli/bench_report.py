"""Results of `pinnace bench`, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pinnace.bench.arrivals import OpenLoad, Submit, arrive
from pinnace.bench.plot import Drawing, Point
from pinnace.bench.throughput import Throughput, served, throughput
from pinnace.bench.timing import Call, CallLatency, RunLimit, latency, milliseconds, spans
from pinnace.cli.console import table
from pinnace.cli.outputs import finite
from pinnace.cli.settings import Setting, counted
from pinnace.engines.steps import OperatorTime, Profile
from pinnace.machine import cores, processor
from pinnace.quantization.accuracy import Closeness, mean_cosine, mean_relative_error

SHOWN_NODES = 20
"""Number of nodes shown of a profile."""


@dataclass(frozen=True)
class Build:
    """One opening of the model, either compiled or loaded from the compile cache."""

    name: str
    compiled: bool
    milliseconds: float


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of the outputs against a reference, and its limits; `threshold` is in percent."""

    outputs: Sequence[Closeness]
    threshold: float
    cosine_threshold: float | None

    @property
    def relative_error(self) -> float:
        """Mean over the outputs, in percent."""
        return mean_relative_error(self.outputs)

    @property
    def cosine(self) -> float:
        return mean_cosine(self.outputs)

    @property
    def passed(self) -> bool:
        near = self.cosine_threshold is None or self.cosine >= self.cosine_threshold
        return self.relative_error <= self.threshold and near


@dataclass
class Row:
    """A measurement: its setting, figures, durations in ms for a plot, and the bytes that the model takes."""

    setting: Setting
    figures: CallLatency | Throughput | OpenLoad
    times: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    memory: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return JSON values: times in milliseconds, memory in bytes."""
        setting = {"case": str(self.setting.case), "batch": self.setting.case.batch or None}
        places = {"threads": self.setting.threads, "workers": self.setting.workers}
        return {**setting, **places, **asdict(self.figures), "memory": self.memory}


def row_of(
    setting: Setting, client: Callable[[], Call], submit: Submit, warming: RunLimit, limit: RunLimit
) -> Row:
    """Measure a setting: `client` makes the call of one client, `submit` sends a request without waiting."""
    calls = [client() for _ in range(setting.clients or 1)]
    served(calls, warming)
    if setting.rate:
        return Row(setting, arrive(submit, setting.rate, limit))
    if setting.clients:
        return Row(setting, throughput(served(calls, limit)))
    noted = spans(calls[0], limit)
    return Row(setting, latency(noted), milliseconds(noted))


@dataclass
class BenchReport:
    """All measurements of one model: of one caller, of clients, of requests that arrive at a rate."""

    model: str
    inputs: list[dict[str, Any]] = field(default_factory=list)
    engine: str = ""
    precision: str = ""
    machine: str = field(
        default_factory=lambda: f"{processor.name()}, {counted(cores.usable_core_count(), 'core')}"
    )
    builds: list[Build] = field(default_factory=list)
    accuracy: Accuracy | None = None
    latency: list[Row] = field(default_factory=list)
    throughput: list[Row] = field(default_factory=list)
    arrivals: list[Row] = field(default_factory=list)
    profiled: Profile | None = None

    def add(self, row: Row) -> None:
        """Add a row to those of its kind of load."""
        setting = row.setting
        rows = self.arrivals if setting.rate else self.throughput if setting.clients else self.latency
        rows.append(row)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values: times in milliseconds, errors in percent, None or empty if not measured."""
        return {
            "model": self.model,
            "inputs": self.inputs,
            "engine": self.engine,
            "precision": self.precision,
            "machine": self.machine,
            "build": [asdict(one) for one in self.builds],
            "accuracy": None if self.accuracy is None else _accuracy_as_json(self.accuracy),
            "latency": [row.as_json() for row in self.latency],
            "throughput": [row.as_json() for row in self.throughput],
            "arrivals": [row.as_json() for row in self.arrivals],
            "profile": _profile_as_json(self.profiled) if self.profiled else None,
        }


def _profile_as_json(profiled: Profile) -> dict[str, Any]:
    return {
        "runs": len(profiled.runs),
        "operators": [asdict(one) for one in profiled.by_operator()],
        "nodes": [asdict(one) for one in profiled],
    }


def drawing(measured: BenchReport) -> Drawing:
    """Return the plot of the measurements; with batch sizes, throughput counts rows of batches."""
    loaded = [*measured.throughput, *measured.arrivals]
    batched = any(row.setting.case.batch for row in loaded)
    drawn = Drawing(
        f"{Path(measured.model).name} on {measured.engine}, {measured.precision}",
        measured.machine,
        "rows" if batched else "predictions",
        {_named(row, "case", "threads"): row.times for row in measured.latency},
    )
    lines: dict[str, list[tuple[int, float]]] = {}
    points: dict[str, list[Point]] = {}
    for row in loaded:
        per_second, p99 = row.figures.per_second * (row.setting.case.batch or 1), row.figures.p99
        point = Point(_named(row, "workers", "load"), per_second, p99)
        group = _named(row, "case", "threads") + ", at a rate" * bool(row.setting.rate)
        points.setdefault(group, []).append(point)
        if row.setting.clients:
            lines.setdefault(_named(row, "case", "threads", "load"), []).append(
                (row.setting.workers, per_second)
            )
    return replace(drawn, throughputs=lines, points=points if len(loaded) > 1 else {})


def _named(row: Row, *facts: str) -> str:
    values = row.setting.facts()
    return ", ".join(values[fact] for fact in facts if values[fact])


def show(measured: BenchReport) -> None:
    facts = (("engine", measured.engine), ("precision", measured.precision), ("machine", measured.machine))
    table(measured.model, facts)
    if measured.builds:
        table("build, ms", [_build_row(one) for one in measured.builds])
    if measured.accuracy:
        _show_accuracy(measured.accuracy)
    _show_rows("latency of one caller, ms", measured.latency, "threads")
    _show_rows("throughput, and latency in ms", measured.throughput, "workers x threads")
    _show_rows("requests that arrive at a rate, latency in ms", measured.arrivals, "workers x threads")
    if measured.profiled:
        _show_profile(measured.profiled)


def _build_row(one: Build) -> tuple[str, str, str]:
    how = "compiled" if one.compiled else "loaded from the compile cache"
    return one.name, how, _number(one.milliseconds)


def _show_rows(title: str, rows: Sequence[Row], place: str) -> None:
    if not rows:
        return
    names = [name.replace("_", " ") for name in asdict(rows[0].figures)]
    head = ["case", place, *names, "memory MB"]
    cells = []
    for row in rows:
        threads = str(row.setting.threads or "automatic")
        where = threads if place == "threads" else f"{row.setting.workers} x {threads}"
        figures = (f"{v:g}" if name == "rate" else _number(v) for name, v in asdict(row.figures).items())
        cells.append([str(row.setting.case), where, *figures, _number(row.memory / 1e6)])
    if len({row.setting.case for row in rows}) == 1:
        head, cells = head[1:], [row[1:] for row in cells]
    table(title, cells, head)


def _show_profile(profiled: Profile) -> None:
    runs = len(profiled.runs)
    figures = ("calls", "total", "of a run", "share")
    operators = [[one.name, *_figures(one, runs)] for one in profiled.by_operator()]
    table(f"profile of {runs} runs by operator, ms", operators, ["operator", *figures])
    nodes = [[one.operator, *_figures(one, runs), one.name] for one in profiled]
    title = f"profile of {runs} runs by node, ms, {min(SHOWN_NODES, len(nodes))} of {len(nodes)}"
    table(title, nodes[:SHOWN_NODES], ["operator", *figures, "node"])


def _figures(one: OperatorTime, runs: int) -> tuple[str, ...]:
    return str(one.calls), f"{one.total:.3f}", f"{one.total / runs:.4f}", f"{one.share:.1%}"


def _show_accuracy(accuracy: Accuracy) -> None:
    outputs = [*accuracy.outputs, Closeness("mean of all", accuracy.relative_error, accuracy.cosine)]
    rows = [[one.name, f"{one.relative_error:.4f} %", f"{one.cosine:.7f}"] for one in outputs]
    verdict = "passed" if accuracy.passed else "failed"
    table(f"accuracy: {verdict}", rows, ("output", "relative error", "cosine"))


def _number(value: float) -> str:
    """Return a number with about four digits."""
    digits = 3 if value < 10 else 2 if value < 100 else 1
    return str(value) if isinstance(value, int) else f"{value:.{digits}f}"


def _accuracy_as_json(accuracy: Accuracy) -> dict[str, Any]:
    return {
        "outputs": [
            {"name": one.name, "relative_error": finite(one.relative_error), "cosine": finite(one.cosine)}
            for one in accuracy.outputs
        ],
        "relative_error": finite(accuracy.relative_error),
        "cosine": finite(accuracy.cosine),
        "threshold": accuracy.threshold,
        "cosine_threshold": accuracy.cosine_threshold,
        "passed": accuracy.passed,
    }
