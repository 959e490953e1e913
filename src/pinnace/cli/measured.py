"""Results of `pinnace bench`, as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pinnace.bench.accuracy import Closeness, mean_cosine, mean_relative_error
from pinnace.bench.throughput import Throughput, throughput
from pinnace.bench.timing import CallLatency, Spans, latency, milliseconds
from pinnace.cli.console import table
from pinnace.engines.steps import OperatorTime, Profile

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
        """Mean over the outputs."""
        return mean_cosine(self.outputs)

    @property
    def passed(self) -> bool:
        """True if the accuracy is within the limits."""
        near = self.cosine_threshold is None or self.cosine >= self.cosine_threshold
        return self.relative_error <= self.threshold and near


@dataclass
class BenchReport:
    """All measurements of one model.

    `callers` maps numbers of threads to the times of one caller, `clients` maps threads and workers to the
    times of each client. 0 threads means automatic.
    """

    model: str
    inputs: list[dict[str, Any]] = field(default_factory=list)
    engine: str = ""
    precision: str = ""
    builds: list[Build] = field(default_factory=list)
    accuracy: Accuracy | None = None
    callers: dict[int, Spans] = field(default_factory=dict)
    clients: dict[tuple[int, int], list[Spans]] = field(default_factory=dict)
    profiled: Profile | None = None

    def latencies(self) -> dict[int, CallLatency]:
        """Return the latency of one caller by threads."""
        return {threads: latency(noted) for threads, noted in self.callers.items()}

    def throughputs(self) -> dict[tuple[int, int], Throughput]:
        """Return the throughput by threads and workers."""
        return {place: throughput(noted) for place, noted in self.clients.items()}

    def latencies_drawn(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the latencies of one caller in milliseconds by plot label."""
        return {in_words(threads): milliseconds(noted) for threads, noted in self.callers.items()}

    def throughputs_drawn(self) -> dict[str, list[tuple[int, float]]]:
        """Return workers and predictions per second by plot label."""
        lines: dict[str, list[tuple[int, float]]] = {}
        for (threads, workers), one in self.throughputs().items():
            lines.setdefault(f"{in_words(threads)}, {one.clients} clients", []).append(
                (workers, one.per_second)
            )
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return JSON values: times in milliseconds, errors in percent, None or empty if not measured."""
        return {
            "model": self.model,
            "inputs": self.inputs,
            "engine": self.engine,
            "precision": self.precision,
            "build": [asdict(one) for one in self.builds],
            "accuracy": None if self.accuracy is None else _accuracy_as_json(self.accuracy),
            "latency": [{"threads": threads} | asdict(one) for threads, one in self.latencies().items()],
            "throughput": [
                {"threads": threads, "workers": workers} | asdict(one)
                for (threads, workers), one in self.throughputs().items()
            ],
            "profile": _profile_as_json(self.profiled) if self.profiled else None,
        }


def _profile_as_json(profiled: Profile) -> dict[str, Any]:
    return {
        "runs": len(profiled.runs),
        "operators": [asdict(one) for one in profiled.by_operator()],
        "nodes": [asdict(one) for one in profiled],
    }


def in_words(threads: int) -> str:
    """Describe a number of threads."""
    return f"{threads or 'automatic'} thread{'' if threads == 1 else 's'}"


def show(measured: BenchReport) -> None:
    """Print tables; all times are in milliseconds."""
    table(measured.model, [("engine", measured.engine), ("precision", measured.precision)])
    table("build, ms", [_build_row(one) for one in measured.builds])
    if measured.accuracy:
        _show_accuracy(measured.accuracy)
    rows = {str(threads or "automatic"): one for threads, one in measured.latencies().items()}
    _show_rows("latency of one caller, ms", "threads", rows)
    if measured.clients:
        served = {
            f"{workers} x {threads or 'automatic'}": one
            for (threads, workers), one in measured.throughputs().items()
        }
        _show_rows("throughput, and latency in ms", "workers x threads", served)
    if measured.profiled:
        _show_profile(measured.profiled)


def _build_row(one: Build) -> tuple[str, str, str]:
    how = "compiled" if one.compiled else "loaded from the compile cache"
    return one.name, how, f"{one.milliseconds:10.2f}"


def _show_rows(title: str, first: str, rows: Mapping[str, CallLatency | Throughput]) -> None:
    names = [name.replace("_", " ") for name in asdict(next(iter(rows.values())))]
    cells = [[name, *(_number(value) for value in asdict(row).values())] for name, row in rows.items()]
    table(title, _aligned([[first, *names], *cells]))


def _show_profile(profiled: Profile) -> None:
    runs = len(profiled.runs)
    figures = ("calls", "total", "of a run", "share")
    operators = [[one.name, *_figures(one, runs)] for one in profiled.by_operator()]
    table(f"profile of {runs} runs by operator, ms", _aligned([["operator", *figures], *operators]))
    nodes = [[one.name, one.operator, *_figures(one, runs)] for one in profiled]
    title = f"profile of {runs} runs by node, ms, {min(SHOWN_NODES, len(nodes))} of {len(nodes)}"
    table(title, _aligned([["node", "operator", *figures], *nodes[:SHOWN_NODES]]))


def _figures(one: OperatorTime, runs: int) -> tuple[str, ...]:
    return str(one.calls), f"{one.total:.3f}", f"{one.total / runs:.4f}", f"{one.share:.1%}"


def _show_accuracy(accuracy: Accuracy) -> None:
    outputs = [*accuracy.outputs, Closeness("mean of all", accuracy.relative_error, accuracy.cosine)]
    rows = [[one.name, f"{one.relative_error:.4f} %", f"{one.cosine:.7f}"] for one in outputs]
    verdict = "passed" if accuracy.passed else "failed"
    table(f"accuracy: {verdict}", _aligned([["output", "relative error", "cosine"], *rows]))


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Align all columns but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [[row[0], *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))] for row in rows]


def _accuracy_as_json(accuracy: Accuracy) -> dict[str, Any]:
    return {
        "outputs": [
            {"name": one.name, "relative_error": _finite(one.relative_error), "cosine": _finite(one.cosine)}
            for one in accuracy.outputs
        ],
        "relative_error": _finite(accuracy.relative_error),
        "cosine": _finite(accuracy.cosine),
        "threshold": accuracy.threshold,
        "cosine_threshold": accuracy.cosine_threshold,
        "passed": accuracy.passed,
    }


def _finite(value: float) -> float | str:
    """Return NaN and infinities, which JSON lacks, as strings."""
    return value if math.isfinite(value) else str(value)
