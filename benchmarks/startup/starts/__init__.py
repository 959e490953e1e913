"""Time from nothing to the first answer, beside onnxruntime, and memory that no other process shares.

    python -m benchmarks starts [MODEL[=MODEL.onnx] ...] [--matrices 1,100,450,3200] [--rounds 5]
    python -m benchmarks starts --memory [MODEL ...] [--matrices 100]
    python -m benchmarks starts --clients 5 [--workers 2] [--seconds 5] [MODEL ...] [--matrices 100]

Every start is a process of its own, and they take turns: it imports its library, builds the model with one
thread and predicts once, from zeros. Times begin when the interpreter runs. "first" finds an empty compile
cache, "again" one that has the model, which is there "kept after" the end of the first process. Behind "=" is
the ONNX file of the same network for onnxruntime.
`--matrices` adds ONNX files of square matrices with as many MB of weights, beside the file from 2 GB on.
Files are in the page cache.

`--memory` has MB of anonymous memory of a process that opens a kept model, after a request: those that other
processes with the same model do not share.

`--clients` has the first seconds of a service, from the end of its build: requests a second, and their 99th
percentile. "none" keeps no model, "kept" finds it in the cache, and beside "being kept" the helper works.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

_KEEP = {"first": "after", "again": "never", "none": "never", "kept": "before"}
_CHILD, _SERVING = (str(Path(__file__).with_name(name)) for name in ("child.py", "serving.py"))
_PATIENCE = 60.0  # seconds for which a helper outlives its process
_INSIDE = 1900  # MB that a protobuf message can hold


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks starts")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--matrices", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--clients", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args(arguments)
    service = [str(number) for number in (options.clients, options.workers, options.seconds)]
    with tempfile.TemporaryDirectory() as folder:
        made = [str(matrices(Path(folder), int(size))) for size in options.matrices.split(",") if size]
        way = memory if options.memory else partial(serving, service) if options.clients else starts
        for line in way([*options.models, *made], folder, options.rounds):
            print(line, flush=True)


def matrices(folder: Path, megabytes: int) -> Path:
    """Write an ONNX file of square matrices, each with a Relu behind it."""
    from onnx import TensorProto, helper

    side = 256 if megabytes < 16 else 2048
    path = folder / f"matrices_{megabytes}.onnx"
    count, outside = max(1, round(megabytes * 1e6 / 4 / side**2)), megabytes > _INSIDE
    draw = np.random.default_rng(0)
    weights, nodes = [], []
    with open(f"{path}.data", "wb") as data:
        for number in range(count):
            value = draw.standard_normal((side, side), np.float32) * np.float32(side**-0.5)
            weight = TensorProto(name=f"w{number}", dims=value.shape, data_type=TensorProto.FLOAT)
            if outside:
                place = {"location": f"{path.name}.data", "offset": data.tell(), "length": value.nbytes}
                weight.data_location = TensorProto.EXTERNAL
                for key, text in place.items():
                    weight.external_data.add(key=key, value=str(text))
                data.write(value.tobytes())
            else:
                weight.raw_data = value.tobytes()
            weights.append(weight)
            nodes.append(helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"y{number}"]))
            nodes.append(helper.make_node("Relu", [f"y{number}"], [f"x{number + 1}"]))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, side]) for n in ("x0", f"x{count}")]
    graph = helper.make_graph(nodes, "matrices", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def starts(models: Sequence[str], folder: str, rounds: int) -> Iterator[str]:
    """Yield the rows of the table of times."""
    head = ("file", "MB", "onnxruntime, s", "first, s", "again, s", "build, first", "build, again", "peak MB")
    yield f"| {' | '.join(head)} | kept after, s |"
    yield "| --- | ---: | ---: | --- | --- | ---: | ---: | --- | ---: |"
    for model in models:
        path, _, onnx = model.partition("=")
        start("kept", path, folder)
        contestants = {"onnxruntime": onnx or path, "first": path, "again": path}
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
        for _ in range(rounds):
            for name, file in contestants.items():
                runs[name].append(start(name, file, folder))

        def median(name: str, key: str, runs: dict[str, list[dict[str, float]]] = runs) -> float:
            return statistics.median(run[key] for run in runs[name])

        def over(name: str, key: str, runs: dict[str, list[dict[str, float]]] = runs) -> str:
            ratios = [a[key] / b[key] for a, b in zip(runs[name], runs["onnxruntime"], strict=True)]
            return f"{statistics.median(ratios):.2f}"

        size = sum(file.stat().st_size for file in Path(path).parent.glob(f"{Path(path).name}*")) / 1e6
        times = [f"{median(name, 'total'):.2f} (**{over(name, 'total')}**)" for name in ("first", "again")]
        peaks, kept = f"{median('first', 'peak'):.0f} ({over('first', 'peak')})", median("first", "kept")
        yield (
            f"| {Path(path).name} | {size:.0f} | {median('onnxruntime', 'total'):.2f} | {' | '.join(times)} "
            f"| {over('first', 'build')} | {over('again', 'build')} | {peaks} | {kept:.1f} |"
        )


def serving(service: Sequence[str], models: Sequence[str], folder: str, rounds: int) -> Iterator[str]:
    """Yield the rows of the table of first seconds."""
    ways = {"none": "none", "being kept": "first", "kept": "kept"}
    yield "| file | " + " | ".join(f"{way}, a second | p99, ms" for way in ways) + " |"
    yield "| --- |" + " ---: | ---: |" * len(ways)
    for path in models:
        start("kept", path, folder)
        command = [_SERVING, path, *service]
        runs = [{way: run(name, command, folder) for way, name in ways.items()} for _ in range(rounds)]
        cells = (
            f"{statistics.median(one[way]['a second'] for one in runs):.0f} "
            f"| {statistics.median(one[way]['p99'] for one in runs):.1f}"
            for way in ways
        )
        yield f"| {Path(path).name} | {' | '.join(cells)} |"


def memory(models: Sequence[str], folder: str, _: int) -> Iterator[str]:
    """Yield the rows of the table of memory."""
    ways = [("onnxruntime", ""), ("openvino", ""), ("openvino", "preferred_fp16")]
    yield "| file | MB | " + " | ".join(f"{engine} {precision}".strip() for engine, precision in ways) + " |"
    yield "| --- | ---: |" + " ---: |" * len(ways)
    for path in models:
        cells = []
        for way in ways:
            start("kept", path, folder, *way)
            cells.append(f"{start('again', path, folder, *way)['anonymous']:.0f}")
        yield f"| {Path(path).name} | {os.path.getsize(path) / 1e6:.0f} | {' | '.join(cells)} |"


def start(name: str, path: str, folder: str, *way: str) -> dict[str, float]:
    """Return the figures of one process that starts."""
    return run(name, [_CHILD, name, path, *way], folder)


def run(name: str, command: Sequence[str], folder: str) -> dict[str, float]:
    """Return the figures of one process; after a first one wait until its model is kept."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as empty:
        cache = empty if name in ("first", "none") else f"{folder}/cache"
        environment = {**os.environ, "PINNACE_CACHE_DIR": cache, "PINNACE_CACHE_KEEP": _KEEP.get(name, "")}
        figures = figures_of([sys.executable, *command], environment)
        end = time.perf_counter()
        while name == "first" and not any(Path(cache).glob("entries/*")):
            if time.perf_counter() > end + _PATIENCE:
                raise SystemExit(f"{command}: its model was not kept")
            time.sleep(0.01)
        return {**figures, "kept": time.perf_counter() - end}


def figures_of(command: Sequence[str], environment: dict[str, str]) -> dict[str, float]:
    """Return what a process prints as JSON."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
