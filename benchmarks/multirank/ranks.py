"""One model in two ranks, a core each, beside one core alone and two threads of one process.

    python -m benchmarks ranks MODEL [--shape ids=1,128] [--rounds 5] [--provider openvino]
        [--builds 4] [--kills 20]

MODEL is an ONNX file, or a name from benchmarks/models (bert_base, gpt2_step, llama_block), and is cut by
`pinnace shard`. Contestants run in turn, in fresh processes, on one engine, or each on the one that it would
get. With --builds the ranks are built so often without a compile cache, with an empty one, and with the one
that this filled. With --kills the ranks serve, and one of them is killed at a random moment, so often: what
the others say, and after what time, is printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.harness import resident
from benchmarks.models.language import bert_base, gpt2_step, llama_block

MAKERS = {make.__name__: make for make in (bert_base, gpt2_step, llama_block)}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ranks")
    parser.add_argument("model", type=Path)
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,128")
    parser.add_argument("--strategy", default="")
    parser.add_argument("--provider", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--builds", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument(
        "--one", choices=("one core", "two threads", "two ranks", "serve"), help=argparse.SUPPRESS
    )
    parser.add_argument("--save", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        _contestant(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        name = str(options.model)
        if name in MAKERS:
            options.model = MAKERS[name](Path(folder, f"{name}.onnx"))
        _compare(options, [word for word in arguments if word != name], Path(folder))


def _compare(options: argparse.Namespace, own: list[str], folder: Path) -> None:
    cut = ["shard", str(options.model), "-n", "2", "--output", str(folder)]
    cut += [word for shape in options.shape for word in ("--shape", shape)]
    cut += ["--strategy", options.strategy] if options.strategy else []
    subprocess.run([sys.executable, "-m", "pinnace", *cut], check=True)
    part = str(folder / f"{options.model.stem}_{{rank}}.onnx")

    def run(what: str, cache: str | None = None) -> list[dict]:
        command = ["-m", "benchmarks", "ranks", part if "ranks" in what else str(options.model), *own]
        command += ["--one", what, "--save", str(folder)]
        start = [sys.executable]
        if "ranks" in what:
            start += ["-m", "pinnace", "launch", "-n", "2"]
        env = os.environ if cache is None else os.environ | {"PINNACE_CACHE_DIR": cache}
        done = subprocess.run([*start, *command], capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise SystemExit(f"{what} failed:\n{done.stderr}")
        return [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line]

    figures: dict[str, list[list[dict]]] = {what: [] for what in ("one core", "two threads", "two ranks")}
    for turn in range(options.rounds + 1):
        for what, runs in figures.items():
            found = run(what)
            if turn:
                runs.append(found)
    head = "| contestant | ms, median of rounds | least | beside one core (least) | CPU ms a rank |"
    print(f"\n{head} resident MB a rank |")
    print("| --- | --- | --- | --- | --- | --- |")
    for what, runs in figures.items():
        times = [max(one["ms"] for one in each) for each in runs]
        least = min(max(one["least"] for one in each) for each in runs)
        ratios = [a[0]["ms"] / t for a, t in zip(figures["one core"], times, strict=True)]
        best = min(one["least"] for each in figures["one core"] for one in each) / least
        cpu = statistics.median(one["cpu"] for each in runs for one in each)
        memory = statistics.median(one["resident"] for each in runs for one in each)
        row = f"{statistics.median(times):.0f} | {least:.0f} | {statistics.median(ratios):.2f} ({best:.2f})"
        print(f"| {what} | {row} | {cpu:.0f} | {memory:.0f} |")
    whole = np.load(folder / "one core 0.npz")
    for rank in range(2):
        ours = np.load(folder / f"two ranks {rank}.npz")
        error = max(float(np.abs(ours[key] - whole[key]).max()) for key in whole)
        print(f"rank {rank}: the largest difference from the whole model is {error:.1e}")
    if options.builds:
        _build(run, options.builds)
    if options.kills:
        _kill(part, own, options.kills)


def _build(run: Callable[[str, str], list[dict]], count: int) -> None:
    """How long the slower rank takes from a path to a model."""
    seconds: dict[str, list[float]] = {"off": [], "first build, which is kept": [], "later builds": []}
    for _ in range(count):
        with tempfile.TemporaryDirectory() as kept:
            for cache, found in zip(("off", kept, kept), seconds.values(), strict=True):
                found.append(max(one["built"] for one in run("two ranks", cache)))
    print("\n| compile cache | s, median | least |\n| --- | --- | --- |")
    for what, found in seconds.items():
        print(f"| {what} | {statistics.median(found):.2f} | {min(found):.2f} |")


def _contestant(options: argparse.Namespace) -> None:
    import pinnace

    context = pinnace.Context()
    rank = context.gpu.rank_id
    threads = 2 if options.one == "two threads" else 1
    context.cpu.thread_num, context.cpu.provider = threads, options.provider
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]} if threads == 1 else set(cores[:2]))
    _import_all(options.one)
    before = resident()[0]
    model = pinnace.Model()
    path = str(options.model).replace("{rank}", str(rank))
    limit = {"distributed": {"timeout": "30"}}
    start = time.perf_counter()
    model.build_from_file(path, pinnace.ModelType.ONNX, context, config_dict=limit)
    built = time.perf_counter() - start
    inputs = [_filled(tensor, dict(s.split("=") for s in options.shape)) for tensor in model.get_inputs()]
    outputs = model.predict(inputs)
    if options.one == "serve":
        print(f"serves {os.getpid()}", flush=True)
        while True:
            model.predict(inputs)
    times, cpus = [], []
    for _ in range(options.runs):
        start, used = time.perf_counter(), time.process_time()
        model.predict(inputs)
        times.append(1e3 * (time.perf_counter() - start))
        cpus.append(1e3 * (time.process_time() - used))
    memory = resident()[0] - before
    values = {f"y{i}": output.get_data_to_numpy() for i, output in enumerate(outputs)}
    np.savez(options.save / f"{options.one} {rank}.npz", **values)
    found = {"ms": statistics.median(times), "least": min(times), "cpu": statistics.median(cpus)}
    print(json.dumps({**found, "resident": memory, "built": built}), flush=True)


def _import_all(what: str) -> None:
    """What any build imports, so that the memory after it is that of the model."""
    from pinnace.deferred import import_onnx_ir

    import_onnx_ir()
    importlib.import_module("onnx")
    importlib.import_module("onnxruntime")
    importlib.import_module("pinnace.distributed.executable")
    if what in ("two ranks", "serve"):
        importlib.import_module("mpi4py.MPI")


def _filled(tensor: object, shapes: dict[str, str]) -> np.ndarray:
    """The same numbers for every contestant."""
    shape = [int(d) for d in shapes[tensor.name].split(",")] if tensor.name in shapes else tensor.shape
    dtype = tensor.dtype.to_numpy()
    numbers = np.arange(np.prod(shape)).reshape(shape) * 37 % 1000
    return numbers.astype(dtype) if dtype.kind in "iu" else (numbers / 1000).astype(dtype)


def _kill(part: str, own: list[str], count: int) -> None:
    outcomes: dict[str, int] = {}
    slowest = 0.0
    for turn in range(count):
        command = [
            "-m",
            "pinnace",
            "launch",
            "-n",
            "2",
            "-m",
            "benchmarks",
            "ranks",
            part,
            *own,
            "--one",
            "serve",
        ]
        serving = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes = sorted(serving.stdout.readline().split() for _ in range(2))
        time.sleep(random.random())
        killed = turn % 2
        os.kill(int(processes[killed][2]), signal.SIGKILL)
        start = time.perf_counter()
        _, errors = serving.communicate(timeout=60)
        slowest = max(slowest, time.perf_counter() - start)
        lines = [line for line in errors.splitlines() if f"rank {killed}" in line and "ended" in line]
        kind = (
            "named rank and collective"
            if any("AllReduce" in one for one in lines)
            else "other: " + errors[-300:]
        )
        outcomes[kind] = outcomes.get(kind, 0) + 1
    print(f"{count} times a rank was killed: {outcomes}; all had ended after {slowest:.1f} s at most")
