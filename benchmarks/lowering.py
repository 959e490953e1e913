"""How fast what we lower runs: MindSpore files beside the ONNX files of the same networks.

    python -m benchmarks lowering PATH ... [--rounds 5] [--seconds 3]

PATH is a `.mindir` or `.ms` with an `.onnx` of the same name beside it and a `.npz` that holds its inputs as
run0_x0, run0_x1, ...; or a folder of such, as `python -m tests.zoo --work` makes it. Three routes take
turns, prediction by prediction, in one process with one thread on one core: the MindSpore file in Pinnace,
the ONNX file in Pinnace, and the ONNX file in onnxruntime. Times are processor times of the one thread, so
that what else runs on the machine counts as little as can be. Every round is a new process, so that where
things come to lie in memory differs. A ratio is the median over rounds of the medians over turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness import Figures, in_turn
from benchmarks.opening import open_onnxruntime, open_pinnace

ROUTES = ("mindir", "onnx", "onnxruntime")
_HEAD = (
    "| network | `.mindir`, Pinnace, ms | `.onnx`, Pinnace, ms | `.onnx`, onnxruntime, ms "
    "| `.mindir` over `.onnx` | spread | over onnxruntime |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks lowering")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5, help="processes for each network")
    parser.add_argument(
        "--seconds", type=float, default=3, help="what a process measures for, 5 turns at least"
    )
    options = parser.parse_args(arguments)
    print(_HEAD)
    means = []
    for path in _networks(options.paths):
        command = ["-m", "benchmarks.lowering", str(path), str(options.seconds)]
        try:
            runs = in_turn({"all": command}, options.rounds)["all"]
        except SystemExit as failure:  # MindSpore writes ONNX files that no one can run
            print(f"| {path.stem} | {str(failure).splitlines()[-1][:90]} |" + " |" * 5, flush=True)
            continue
        print(_row(path.stem, runs), flush=True)
        means.append([_ratio(runs, base)[0] for base in ROUTES[1:]])
    shown = " and ".join(f"{statistics.geometric_mean(column):.3f}" for column in zip(*means, strict=True))
    print(f"\n{len(means)} networks, geometric means of the ratios to the two ONNX routes: {shown}")


def _networks(paths: Sequence[Path]) -> Iterator[Path]:
    """Model files that have an ONNX file and inputs."""
    for path in paths:
        candidates = sorted([*path.glob("*.mindir"), *path.glob("*.ms")]) if path.is_dir() else [path]
        for file in candidates:
            if file.with_suffix(".onnx").exists() and file.with_suffix(".npz").exists():
                yield file


def _row(name: str, runs: Sequence[Figures]) -> str:
    times = [f"{statistics.median(r[route] for r in runs):.2f}" for route in ROUTES]
    (middle, least, most), (other, *_) = (_ratio(runs, base) for base in ROUTES[1:])
    cells = [name, *times, f"**{middle:.2f}**", f"{least:.2f} to {most:.2f}", f"{other:.2f}"]
    return f"| {' | '.join(cells)} |"


def _ratio(runs: Sequence[Figures], base: str) -> tuple[float, float, float]:
    """The middle, least and largest ratio of the MindSpore file's route to another."""
    ratios = [r[f"over {base}"] for r in runs]
    return statistics.median(ratios), min(ratios), max(ratios)


def child(path: Path, seconds: float) -> None:
    """One round: milliseconds of each route, and the first one's ratios turn by turn, as medians."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    goldens = np.load(path.with_suffix(".npz"))
    inputs = [goldens[f"run0_x{i}"] for i in range(sum(key.startswith("run0_x") for key in goldens))]
    routes = _routes(path, inputs)
    times: dict[str, list[float]] = {name: [] for name in ROUTES}
    order = list(ROUTES)
    for turn in _turns(seconds):
        order.append(order.pop(0))  # each comes first, and after each other, as often
        for name in order:
            start = time.thread_time()
            routes[name]()
            if turn:  # the first is thrown away
                times[name].append((time.thread_time() - start) * 1e3)
    figures = {name: statistics.median(taken) for name, taken in times.items()}
    for base in ROUTES[1:]:
        ratios = (ours / theirs for ours, theirs in zip(times["mindir"], times[base], strict=True))
        figures[f"over {base}"] = statistics.median(ratios)
    print(json.dumps(figures))


def _turns(seconds: float) -> Iterator[int]:
    """Numbers of turns, until so many seconds are over."""
    start = time.perf_counter()
    for turn in itertools.count():
        if turn > 5 and time.perf_counter() - start > seconds:
            return
        yield turn


def _routes(path: Path, inputs: list[np.ndarray]) -> dict[str, Callable[[], object]]:
    onnx = str(path.with_suffix(".onnx"))
    ours, door, plain = open_pinnace(str(path), 1), open_pinnace(onnx, 1), open_onnxruntime(onnx, 1)
    # The images of a `.ms` have their channels last.
    own = [
        x if x.shape == tuple(t.shape) else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        for x, t in zip(inputs, ours.get_inputs(), strict=True)
    ]
    feed = dict(zip((i.name for i in plain.get_inputs()), inputs, strict=True))
    return {
        "mindir": lambda: ours.predict(own),
        "onnx": lambda: door.predict(inputs),
        "onnxruntime": lambda: plain.run(None, feed),
    }


if __name__ == "__main__":
    child(Path(sys.argv[1]), float(sys.argv[2]))
