"""Expected times of networks beside measured ones: how well the speed of a machine explains them.

    python -m benchmarks prediction PATH ... [--threads 1,2] [--half] [--seconds 2] [--fit]

PATH is a `.mindir`, `.ms` or `.onnx` file, whose inputs are those of `benchmarks/models` for a file of
that name, of the `.npz` beside it (run0_x0, run0_x1, ...), or random numbers. Both engines run in fp32,
with --half OpenVINO in 16 bits too. The expected time is that of the measured profile of this machine,
else of the table. A cell has the expected and the measured milliseconds; at the end the typical error is
the geometric mean of the distance of their ratio from 1, and the loss that of the time of the chosen
engine over the faster one's. --fit also prints the factors of `pinnace/bench/factors.json` with which the
figures are explained best: least squares of relative errors, drawn to the present factors. A network that
is named twice counts twice.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.models import INPUTS
from pinnace import Context, Model, formats
from pinnace.bench import machine
from pinnace.building.opening import source_of
from pinnace.cache.profiles import profile
from pinnace.cache.store import Store
from pinnace.compiler.graph import compilable
from pinnace.engines.speed.choice import WORTH
from pinnace.engines.speed.profile import PICO, rate
from pinnace.engines.speed.work import NodeWork, works
from pinnace.options.settings import Settings

Way = tuple[str, str, int]

_TURNS, _REST = 5, 0.03
_DRAWN, _BOUNDS, _SWEEPS = 0.05, (0.5, 2.5), 500
_FP32, _HALF = "enforce_fp32", "preferred_fp16"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks prediction")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--seconds", type=float, default=2, help="of a network")
    options = parser.parse_args(arguments)
    speed = profile(Store.of(Settings()))
    os.environ["PINNACE_CACHE_DIR"] = "off"
    ways = [
        (engine, precision, int(threads))
        for threads in options.threads.split(",")
        for engine, precision in (("onnxruntime", _FP32), ("openvino", _FP32), ("openvino", _HALF))
        if options.half or precision == _FP32
    ]
    print(f"{speed.origin}\n\n| network | " + " | ".join(map(_name, ways)) + " |")
    print("| --- " + "| ---: " * len(ways) + "|")
    errors: dict[Way, list[float]] = {way: [] for way in ways}
    losses, found = [], []
    for path in options.paths:
        work, measured = _work(path), _measured(path, ways, options.seconds)
        expected = {way: speed.seconds(work, *way) or math.nan for way in ways}
        found.append((work, measured))
        cells = [f"{expected[w] * 1e3:.3g} / {measured[w] * 1e3:.3g}" if w in measured else "" for w in ways]
        print(f"| {path.stem} | {' | '.join(cells)} |", flush=True)
        for way in measured:
            errors[way].append(abs(math.log(expected[way] / measured[way])))
        losses += _losses(expected, measured)
    cells = [f"**{math.exp(statistics.mean(errors[way])):.2f}**" if errors[way] else "" for way in ways]
    print(f"| typical error | {' | '.join(cells)} |")
    if losses:
        print(
            f"\nloss of choices in fp32: {statistics.geometric_mean(losses):.3f}, at most {max(losses):.2f}"
        )
    if options.fit:
        print(json.dumps({machine.factors_name(way): _factors(way, found, speed) for way in ways}))


def _factors(way: Way, networks: list[tuple[list[NodeWork], dict[Way, float]]], speed) -> dict[str, float]:
    """Return the factors of an engine, precision and number of threads."""
    rates, shares = speed.rates[way], []
    for work, measured in networks:
        if way in measured:
            share = Counter({"call": rate(rates, "call"), "node": len(work) * rate(rates, "node")})
            for one in work:
                share[one.kind] += rate(rates, one.kind, one.size) * one.amount
            shares.append({kind: PICO * time / measured[way] for kind, time in share.items()})
    kinds = sorted(set().union(*shares) & rates.keys())
    matrix = np.array([[share.get(kind, 0) for kind in kinds] for share in shares])
    present = np.array([machine.factors().get(machine.factors_name(way), {}).get(kind, 1) for kind in kinds])
    better = _least_squares(matrix, *(bound / present for bound in _BOUNDS))
    return dict(zip(kinds, (present * better).round(2).tolist(), strict=True))


def _least_squares(matrix: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return the factors within bounds, near 1, for which each row of the matrix has a sum near 1."""
    found, squares = np.ones(matrix.shape[1]), (matrix**2).sum(0) + _DRAWN
    for _ in range(_SWEEPS):
        for i, column in enumerate(matrix.T):
            left = 1 - matrix @ found + column * found[i]
            found[i] = np.clip((column @ left + _DRAWN) / squares[i], least[i], most[i])
    return found


def _name(way: Way) -> str:
    return f"{way[0]}{', 16 bits' if way[1] == _HALF else ''}, {way[2]} thread(s), ms"


def _work(path: Path) -> list[NodeWork]:
    source = source_of(path, Settings())
    graph = compilable(formats.read(source, formats.kind(source, None)), path.stem, None)
    return works(graph.model.graph)


def _measured(path: Path, ways: list[Way], seconds: float) -> dict[Way, float]:
    """Seconds of a prediction; without the ways in which an engine cannot run it."""
    times: dict[Way, list[float]] = {}
    for way in ways:
        with _opened(path, *way) as call:
            for _ in range(_TURNS if call else 0):
                time.sleep(_REST)
                call()
                times.setdefault(way, []).append(_median(call, seconds / _TURNS / len(ways)))
    return {way: statistics.median(one) for way, one in times.items()}


@contextmanager
def _opened(path: Path, engine: str, precision: str, threads: int) -> Iterator:
    context = Context()
    context.target = ["cpu"]
    context.cpu.provider, context.cpu.precision_mode, context.cpu.thread_num = engine, precision, threads
    with Model(path, context=context) as model:
        inputs = model.get_inputs()
        arrays = _arrays(path, inputs)
        model.resize(inputs, [list(array.shape) for array in arrays])
        inputs = model.get_inputs()
        for tensor, array in zip(inputs, arrays, strict=True):
            tensor.set_data_from_numpy(array)
        in_use = model.get_model_info("engine"), model.get_model_info("precision") == "float32"
        runs = in_use[0].startswith(engine) and in_use[1] == (precision == _FP32)
        yield (lambda: model.predict(inputs)) if runs else None


def _arrays(path: Path, inputs) -> list[np.ndarray]:
    beside, random = path.with_suffix(".npz"), np.random.default_rng(0)
    if path.stem in INPUTS and path.suffix == ".onnx":
        return list(INPUTS[path.stem]().values())
    if beside.exists():
        stored = np.load(beside)
        return [stored[f"run0_x{i}"] for i in range(len(inputs))]
    return [random.normal(size=[max(n, 1) for n in i.shape]).astype(i.dtype.to_numpy()) for i in inputs]


def _median(call, seconds: float) -> float:
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _losses(expected: dict[Way, float], measured: dict[Way, float]) -> Iterator[float]:
    for threads in {way[2] for way in measured}:
        lean, other = ("onnxruntime", _FP32, threads), ("openvino", _FP32, threads)
        if lean in measured and other in measured:
            chosen = other if expected[other] < WORTH * expected[lean] else lean
            yield measured[chosen] / min(measured[lean], measured[other])
