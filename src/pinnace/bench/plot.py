"""Plots of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pinnace.errors import ArgumentValueError
from pinnace.writing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".svg", ".png")
_BINS = 50
_WIDE = 20
"""Quotient of the largest and the smallest value above which an axis is logarithmic."""


@dataclass(frozen=True)
class Point:
    """A measurement under load: what distinguishes it, throughput per second, p99 in ms."""

    name: str
    per_second: float
    p99: float


@dataclass
class Drawing:
    """A plot; keys of mappings are labels, and an empty mapping is left out.

    `latencies` are in ms; `throughputs` are pairs of workers and throughput per second; `counted` is what the
    throughput counts.
    """

    title: str
    machine: str
    counted: str = "predictions"
    latencies: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    throughputs: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    points: Mapping[str, Sequence[Point]] = field(default_factory=dict)


def check(path: Path) -> None:
    """Raise ArgumentValueError before the measurement if a plot cannot be drawn."""
    if path.suffix not in SUFFIXES:
        raise ArgumentValueError(f"{path}: the name of a plot must end in {' or '.join(SUFFIXES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ArgumentValueError(
            "plots are drawn with the package matplotlib: pip install matplotlib"
        ) from None


def draw(path: Path, drawing: Drawing) -> None:
    """Draw a histogram of latencies, throughput over workers, and p99 over throughput."""
    from matplotlib.figure import Figure

    parts = (
        (drawing.latencies, _draw_latencies),
        (drawing.throughputs, _draw_throughputs),
        (drawing.points, _draw_points),
    )
    shown = [part for data, part in parts if data]
    entries = max(len(data) for data, _ in parts)
    figure = Figure(figsize=(1 + 5.5 * len(shown), 4.5 + 0.19 * entries), layout="constrained")
    figure.suptitle(f"{drawing.title}\n{drawing.machine}", parse_math=False, fontsize="medium")
    for ax, part in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        part(ax, drawing)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    with replacing(path) as place:
        figure.savefig(place, format=path.suffix[1:])  # of a link, not of the file that it names


def _draw_latencies(ax: Axes, drawing: Drawing) -> None:
    latencies = drawing.latencies
    together = np.concatenate(list(latencies.values()))
    if wide := _wide(together):
        ax.set_xscale("log")
    edges = np.geomspace if wide else np.linspace
    bins = list(edges(together.min(), together.max(), _BINS))
    for number, (name, times) in enumerate(latencies.items()):
        p50, p99 = np.percentile(times, (50, 99))
        label = f"{name}: p50 {p50:.3g}, p99 {p99:.3g}"
        ax.hist(times, bins, alpha=0.5, label=label, color=f"C{number}")
        ax.axvline(p50, color=f"C{number}")
        ax.axvline(p99, color=f"C{number}", linestyle="dashed")
    ax.set(xlabel="latency, ms", ylabel="predictions")
    ax.set_title("latency of one caller: p50 (line), p99 (dashed)", fontsize="small")


def _draw_throughputs(ax: Axes, drawing: Drawing) -> None:
    lines = drawing.throughputs
    for name, points in lines.items():
        ax.plot(*zip(*points, strict=True), marker="o", label=name)
    ax.set(xlabel="workers", ylabel=f"{drawing.counted} per second")
    ax.set_xticks(sorted({workers for points in lines.values() for workers, _ in points}))
    ax.set_ylim(bottom=0)
    ax.set_title("throughput", fontsize="small")


def _draw_points(ax: Axes, drawing: Drawing) -> None:
    ax.margins(x=0.15)  # room for names
    for name, group in drawing.points.items():
        ax.scatter([one.per_second for one in group], [one.p99 for one in group], label=name)
    every = [one for group in drawing.points.values() for one in group]
    best = front(every)
    ax.plot(
        [one.per_second for one in best],
        [one.p99 for one in best],
        color="gray",
        label="best trade-offs",
        zorder=0,
    )
    for one in best:
        ax.annotate(
            one.name, (one.per_second, one.p99), xytext=(4, 4), textcoords="offset points",
            fontsize="x-small", parse_math=False,
        )  # fmt: skip
    ax.set(xlabel=f"{drawing.counted} per second", ylabel="p99, ms")
    if _wide([one.per_second for one in every]):
        ax.set_xscale("log")
    else:
        ax.set_xlim(left=0)
    if _wide([one.p99 for one in every]):
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    ax.set_title("p99 against throughput", fontsize="small")


def _wide(values: npt.ArrayLike) -> bool:
    found = np.asarray(values)
    return bool(found.min() > 0 and found.max() / found.min() > _WIDE)


def front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats in both throughput and p99, by increasing p99."""
    best: list[Point] = []
    for one in sorted(points, key=lambda one: (one.p99, -one.per_second)):
        if not best or one.per_second > best[-1].per_second:
            best.append(one)
    return best
