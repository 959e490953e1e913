"""The cost of the checks of indices and shapes on OpenVINO: networks with them and without, in one process.

    python -m benchmarks guards [NETWORK ...] [--threads 1] [--seconds 20]

Networks have random weights, and are those of `benchmarks.models` and small ones, where a check costs the
most. Both forms are built by OpenVINO from one file and take turns of some 5 ms, A B A B, after a pause in
which the threads of the other one stop to spin. What counts is the tenth percentile of the turns of each, by
the clock: on a machine with other work the slower ones say nothing of the network. The form without checks is
there twice: how far it is from itself says what the other ratio is worth.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.models import INPUTS, MAKERS, Arrays
from benchmarks.models.detector import yolo
from benchmarks.models.language import bert
from benchmarks.models.writer import INT64, Writer
from pinnace.bench.timing import collector_off
from pinnace.building.build import build_model as build
from pinnace.engines.openvino import conversion
from pinnace.engines.protocol import Execution
from pinnace.options.settings import Settings
from pinnace.options.target import Target

_TURN = 5e-3
_LEAST = 20


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks guards")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(_NETWORKS)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="what a network is measured for")
    options = parser.parse_args(arguments)
    os.environ["PINNACE_CACHE_DIR"] = "off"
    print("| network | without, us | with, us | with over without | without over itself |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks or _NETWORKS:
            make, arrays = _NETWORKS[name]
            path = make(Path(folder) / f"{name}.onnx")
            print(_row(name, path, list(arrays().values()), options), flush=True)
            path.unlink()


def _row(name: str, path: Path, arrays: list[np.ndarray], options: argparse.Namespace) -> str:
    target = Target(threads=options.threads, provider="openvino")
    made = [build(str(path), None, target, Settings())]
    with _unguarded():
        made += [build(str(path), None, target, Settings()) for _ in range(2)]
    runs = [executable.execution() for executable in made]
    for unchecked in runs[1:]:
        unchecked._limits = []
    for run in runs:
        run.run(arrays)
    calls = max(1, round(_TURN / _turn(runs[0], arrays, 10) * 10))
    turns = []
    end = time.perf_counter() + options.seconds
    with collector_off():
        while len(turns) < _LEAST or time.perf_counter() < end:
            turns.append([_turn(run, arrays, calls) for run in runs])
    checked, plain, again = (float(us) for us in np.percentile(turns, 10, axis=0) / calls * 1e6)
    for executable in made:
        assert executable.info["engine"].startswith("openvino")
        executable.close()
    return f"| {name} | {plain:.1f} | {checked:.1f} | **{checked / plain:.3f}** | {again / plain:.3f} |"


def _turn(run: Execution, arrays: list[np.ndarray], calls: int) -> float:
    time.sleep(0.005)
    run.run(arrays)
    start = time.perf_counter()
    for _ in range(calls):
        run.run(arrays)
    return time.perf_counter() - start


@contextmanager
def _unguarded() -> Iterator[None]:
    guard, conversion.guard = conversion.guard, lambda model, inputs: None
    try:
        yield
    finally:
        conversion.guard = guard


def small_bert(path: Path) -> Path:
    """Two layers of width 64, with words, types and places from the request: three Gathers."""
    return bert(path, 1, 16, 1000, width=64, heads=2, layers=2, kinds=2, places=64)


def _words() -> Arrays:
    return {n: np.arange(16, dtype=np.int64).reshape(1, 16) % most for n, most in _SMALL.items()}


_SMALL = {"ids": 1000, "kinds": 2, "places": 64}


def two_towers(path: Path) -> Path:
    """A recommender: 26 tables of 16 numbers each, and two layers. Little but Gathers."""
    w = Writer()
    looked_up = []
    ids = w.nodes("Split", 26, w.input("ids", [1, 26], INT64), axis=1)
    for i, one in enumerate(ids):
        table = w.weight(f"table{i}", 1000, 16)
        looked_up.append(
            w.node("Reshape", w.node("Gather", table, one), w.constant("flat", [1, 16], np.int64))
        )
    x = w.node("Relu", w.dense(w.node("Concat", *looked_up, axis=1), "one", 26 * 16, 64))
    w.output("score", w.dense(x, "two", 64, 1), [1, 1])
    return w.save(path)


def picked(path: Path) -> Path:
    """A detector that gives the best box of each class: a Gather whose indices are computed."""
    model = onnx.load(yolo(path, 160))
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array(0), "first"))
    graph.node.extend(
        (
            helper.make_node("ArgMax", ["boxes"], ["places"], axis=1, keepdims=0),
            helper.make_node("Gather", ["boxes", "first"], ["rows"], axis=0),
            helper.make_node("Gather", ["rows", "places"], ["picked"]),
        )
    )
    graph.output[0].CopyFrom(helper.make_tensor_value_info("picked", onnx.TensorProto.FLOAT, [1, 85, 85]))
    onnx.save(model, path)
    return path


def _small_image() -> Arrays:
    return {"image": np.random.default_rng(0).random((1, 3, 160, 160), np.float32)}


_NETWORKS: dict[str, tuple[Callable[[Path], Path], Callable[[], Arrays]]] = {
    "small_bert": (small_bert, _words),
    "two_towers": (two_towers, lambda: {"ids": np.arange(26, dtype=np.int64).reshape(1, 26)}),
    "picked": (picked, _small_image),
    **{name: (MAKERS[name], INPUTS[name]) for name in ("bert_base", "gpt2_step")},
}
