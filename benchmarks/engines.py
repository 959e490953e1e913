"""Which engine is the faster one: onnxruntime beside OpenVINO, through Pinnace, over many networks.

    python -m benchmarks engines PATH ... [--seconds 6] [--json FILE] [--quantised]

PATH is a model file, or a folder of `.mindir` files, as `python -m tests.zoo --work` makes it. Inputs are
those of the `.npz` beside it (run0_x0, run0_x1, ...), else made up. Each network is measured in a process of
its own, in three places: 1 and 2 threads for one caller, and 2 workers of 1 thread for 4 callers. The
engines take turns, A B A B; a ratio is the median over turns of OpenVINO's figure over onnxruntime's in the
same turn, below 1 where OpenVINO is the better one. With one thread, and with workers of one thread, what
counts is processor time, so that what else runs on the machine counts as little as can be; with two threads
it is the clock. Memory is what is private to a process of its own that has made a prediction with 1 thread,
without what it had before it opened the model, which was in the compile cache. With --quantised, ONNX files
are first quantised by onnxruntime's `quantize_static`, per channel, with one sample of their inputs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import resident
from pinnace.bench.throughput import served
from pinnace.bench.timing import Call, RunLimit, collector_off

ENGINES = ("onnxruntime", "openvino")
PLACES = {"1 thread": (1, 1, 1), "2 threads": (2, 1, 1), "2 workers": (1, 2, 4)}
"""Threads, workers, callers."""

_TURNS = 5
_HEAD = (
    "| network | onnxruntime, 1 thread, ms | OpenVINO | ratio | 2 threads, ratio | 2 workers, ratio "
    "| onnxruntime, private MB | OpenVINO | deviation |\n"
    "| --- " + "| ---: " * 8 + "|"
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks engines")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=6, help="what a network is measured for")
    parser.add_argument("--json", type=Path, help="where to add a line for each network")
    parser.add_argument("--quantised", action="store_true", help="measure 8-bit forms of ONNX files")
    options = parser.parse_args(arguments)
    print(_HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        paths = _files(options.paths)
        chosen = (_quantised(path, Path(folder)) for path in paths) if options.quantised else paths
        rows = list(_rows(chosen, options))
    for place in PLACES:
        ratios = [row[f"{place}, ratio"] for row in rows]
        better = sum(ratio < 1 for ratio in ratios)
        print(
            f"\n{place}: geometric mean {statistics.geometric_mean(ratios):.3f}, "
            f"OpenVINO is the better one for {better} of {len(ratios)}"
        )


def _rows(paths: Iterable[Path], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Figures of networks, printed one by one."""
    for path in paths:
        try:
            found = {"network": path.stem} | _child("times", path, options.seconds)
            found |= {f"private {engine}": _child(engine, path, 0)["private"] for engine in ENGINES}
        except RuntimeError as failure:
            print(f"| {path.stem} | {failure} |" + " |" * 7, flush=True)
            continue
        print(_row(found), flush=True)
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
        yield found


def _quantised(path: Path, folder: Path) -> Path:
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    from pinnace import Model

    class Sample(CalibrationDataReader):
        def __init__(self, fed: dict[str, np.ndarray]) -> None:
            self._left = iter([fed])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._left, None)

    with Model(path) as model:
        names = [tensor.name for tensor in model.get_inputs()]
        sample = Sample(dict(zip(names, _inputs(path, model), strict=True)))
    quantize_static(path, made := folder / path.name, sample, per_channel=True)
    return made


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.mindir")) if path.is_dir() else [path]


def _row(found: dict[str, Any]) -> str:
    times = [f"{found[f'1 thread, {engine}']:.2f}" for engine in ENGINES]
    ratios = [f"**{found[f'{place}, ratio']:.2f}**" for place in PLACES]
    memory = [f"{found[f'private {engine}']:.0f}" for engine in ENGINES]
    cells = [found["network"], *times, *ratios, *memory, f"{found['deviation']:.0e}"]
    return f"| {' | '.join(cells)} |"


def _child(what: str, path: Path, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.engines", what, str(path), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "died").splitlines()[-1][:150])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(path: Path, seconds: float) -> dict[str, float]:
    """Figures of all places: of a prediction in milliseconds by engine, and their ratio."""
    from pinnace.bench.tuning import deviation

    figures: dict[str, float] = {}
    for place, (threads, workers, callers) in PLACES.items():
        with ExitStack() as stack:
            calls = {e: stack.enter_context(_Open(path, e, threads, workers)) for e in ENGINES}
            outputs = [[o.get_data_to_numpy() for o in opened.client()()] for opened in calls.values()]
            clients = {engine: [opened.client() for _ in range(callers)] for engine, opened in calls.items()}
            for engine in ENGINES:
                served(clients[engine], RunLimit(0, 3))
            share = seconds / len(PLACES) / len(ENGINES) / _TURNS
            by_processor = threads == 1  # several threads spin while they wait for each other
            with collector_off():
                turns = [[_turn(clients[e], share, by_processor) for e in ENGINES] for _ in range(_TURNS)]
        for index, engine in enumerate(ENGINES):
            figures[f"{place}, {engine}"] = statistics.median(turn[index] for turn in turns)
        figures[f"{place}, ratio"] = statistics.median(turn[1] / turn[0] for turn in turns)
        figures["deviation"] = deviation(outputs[1], outputs[0])
    return figures


def _turn(clients: Sequence[Call], seconds: float, by_processor: bool) -> float:
    """Milliseconds of a prediction, after one that does not count."""
    time.sleep(0.02)  # threads of the other engine spin for a while
    served(clients, RunLimit(0, 1))
    clock = time.process_time if by_processor else time.perf_counter
    start = clock()
    answers = sum(map(len, served(clients, RunLimit(seconds))))
    return (clock() - start) / answers * 1e3


class _Open:
    """A model that is open in a `with` block."""

    def __init__(self, path: Path, engine: str, threads: int, workers: int) -> None:
        from pinnace.cli.opening import context_for, open_model

        self.model = open_model(path, context_for(threads, None, workers, engine))
        by = self.model.get_model_info("engine")
        if not by.startswith(engine):
            raise SystemExit(f"{engine} cannot run it")
        self._arrays = _inputs(path, self.model)
        self.model.resize(self.model.get_inputs(), [list(array.shape) for array in self._arrays])

    def client(self) -> Call:
        tensors = self.model.get_inputs()
        for tensor, array in zip(tensors, self._arrays, strict=True):
            tensor.set_data_from_numpy(array)
        return lambda: self.model.predict(tensors)

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *_: object) -> None:
        self.model.close()


def _inputs(path: Path, model: Any) -> list[np.ndarray]:
    from pinnace.cli.inputs import Pictures, feed

    beside = path.with_suffix(".npz")
    if beside.exists():
        goldens = np.load(beside)
        return [goldens[f"run0_x{i}"] for i in range(len(model.get_inputs()))]
    return [one.array for one in feed(model.get_inputs(), {}, {}, Pictures())]


def memory(path: Path, engine: str) -> dict[str, float]:
    """Private memory of this process in MB that came with the model."""
    importlib.import_module(engine)
    _, before = resident()
    with _Open(path, engine, 1, 1) as opened:
        opened.client()()
        return {"private": resident()[1] - before}


if __name__ == "__main__":
    kind, file = sys.argv[1], Path(sys.argv[2])
    print(json.dumps(measure(file, float(sys.argv[3])) if kind == "times" else memory(file, kind)))
