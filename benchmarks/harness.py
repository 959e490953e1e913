"""What benchmarks share: contestants in fresh processes, in turn, and a table of ratios."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

Figures = dict[str, float]


def in_turn(contestants: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Figures]]:
    """Run each contestant's command once a round, A B A B ..., so that a drift of the machine meets all.

    A command is one of Python, or begins with the path of a program. It prints one line of JSON: its
    figures. A first round is thrown away.
    """
    runs: dict[str, list[Figures]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, command in contestants.items():
            program = [] if os.path.isabs(command[0]) else [sys.executable]
            done = subprocess.run([*program, *command], capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr}")
            if turn:
                runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    return runs


def table(runs: Mapping[str, Sequence[Figures]], base: str, units: Mapping[str, str]) -> str:
    """Medians, and ratios to `base` round by round (median, and the least and largest), as Markdown."""
    rows = ["| what | unit | " + " | ".join(f"{name} | ratio" for name in runs) + " |"]
    rows.append("| --- " * (2 + 2 * len(runs)) + "|")
    for key, unit in units.items():
        cells = []
        for figures in runs.values():
            ratios = [f[key] / b[key] for f, b in zip(figures, runs[base], strict=True) if b[key]]
            spread = (
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
            )
            cells.append(f"{statistics.median(f[key] for f in figures):.1f} | {spread}")
        rows.append(f"| {key} | {unit} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def resident() -> tuple[float, float]:
    """Resident and private dirty memory of this process in MB, from /proc/self/smaps_rollup."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        values = {line.split(":")[0]: line.split()[1] for line in file if "kB" in line}
    return int(values["Rss"]) / 1024, int(values["Private_Dirty"]) / 1024
