"""Latency as a picture: every contestant over Pinnace, a group of bars a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.suite.figures import OURS, chosen, contestants_of, models_of, of_model, ratio
from benchmarks.suite.turns import Record


def plot(records: Sequence[Record], path: Path) -> bool:
    """Write an SVG file; False where there is nothing to show. Needs matplotlib (the extra "bench")."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    mine = chosen(records, "latency")
    threads = sorted({int(record.setting["threads"]) for record in mine})
    if not threads:
        return False
    figure, panels = pyplot.subplots(
        len(threads), 1, figsize=(10, 3.2 * len(threads)), squeeze=False, layout="constrained"
    )
    for count, panel in zip(threads, panels[:, 0], strict=True):
        _bars(panel, chosen(mine, "latency", threads=count))
        panel.set_title(f"{count} thread(s)")
    panels[0, 0].legend(ncols=4, fontsize="small")
    figure.supylabel("latency over Pinnace's (lower is faster)")
    figure.savefig(path)
    pyplot.close(figure)
    return True


def _bars(panel: Any, records: Sequence[Record]) -> None:
    models = [model for model in models_of(records) if OURS in of_model(records, model)]
    names = contestants_of(records)
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        for place, model in enumerate(models):
            found = of_model(records, model)
            if name not in found:
                continue
            named = panel.get_legend_handles_labels()[1]
            height = ratio(found[name], found[OURS], "seconds")
            spread = [[height.middle - height.least], [height.most - height.middle]]
            panel.bar(
                place + i * width, height.middle, width, yerr=spread, color=f"C{i}",
                label=None if name in named else name, error_kw={"elinewidth": 0.7},
            )  # fmt: skip
    panel.axhline(1, color="black", linewidth=0.7)
    panel.set_xticks([place + 0.4 - width / 2 for place in range(len(models))], models)
    panel.set_ylim(0, 3)
