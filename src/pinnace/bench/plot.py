"""Plots of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

from pinnace.errors import ArgumentValueError

SUFFIXES = (".svg", ".png")


def check(path: Path) -> None:
    """Raise ArgumentValueError before the measurement if a plot cannot be drawn."""
    if path.suffix not in SUFFIXES:
        raise ArgumentValueError(f"{path}: a plot is one of {', '.join(SUFFIXES)}")
    _matplotlib()


def draw(
    path: Path,
    title: str,
    latencies: Mapping[str, npt.NDArray[np.float64]],
    throughputs: Mapping[str, Sequence[tuple[int, float]]],
) -> None:
    """Draw histograms of `latencies` (in ms) beside lines of `throughputs` (workers, predictions per second).

    Keys are labels; an empty mapping is left out.
    """
    _matplotlib()
    from matplotlib.figure import Figure

    shown = [part for part in (latencies, throughputs) if part]
    figure = Figure(figsize=(5.5 * len(shown), 4), layout="constrained")
    figure.suptitle(title, parse_math=False)
    axes = list(figure.subplots(1, len(shown), squeeze=False)[0])
    if latencies:
        ax = axes.pop(0)
        bins = np.histogram_bin_edges(np.concatenate(list(latencies.values())), 50)
        for name, times in latencies.items():
            ax.hist(times, bins, alpha=0.6, label=name)
        ax.set(xlabel="latency, ms", ylabel="predictions")
        ax.legend()
    if throughputs:
        ax = axes.pop(0)
        for name, points in throughputs.items():
            ax.plot(*zip(*points, strict=True), marker="o", label=name)
        ax.set(xlabel="workers", ylabel="predictions a second")
        ax.set_xticks(sorted({workers for points in throughputs.values() for workers, _ in points}))
        ax.set_ylim(bottom=0)
        ax.legend()
    figure.savefig(path)


def _matplotlib() -> ModuleType:
    try:
        import matplotlib
    except ImportError:
        raise ArgumentValueError(
            "plots are drawn with the package matplotlib: pip install matplotlib"
        ) from None
    return matplotlib
