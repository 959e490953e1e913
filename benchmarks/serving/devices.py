"""One model on two devices that are simulated, one core each: what it gains, what its transport costs, kills.

    python -m benchmarks devices [--rounds 15] [--kills 20] [SECTION ...]

Sections: speed, transport, kills. The machine needs two cores. `speed` runs one device and two in turns, and
beside them two models of one device each at the same time, half a batch for each: what the machine allows.
It must be free: where Linux groups processes by session (/proc/sys/kernel/sched_autogroup_enabled), two
processes of a session have together no more of a busy machine than one has.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.models import MAKERS

BATCH = 8
MEGABYTES = 64
WAIT = 120  # seconds after which something hangs


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks devices", description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args(arguments)
    os.environ["PINNACE_SIMULATE"] = "ascend:2"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PINNACE_CACHE_DIR"] = str(Path(folder, "cache"))
        for section in options.sections:
            print(f"\n## {section}\n", flush=True)
            for line in SECTIONS[section](Path(folder), options):
                print(line, flush=True)


def parallel(path: Path, *devices: int) -> Any:
    import pinnace

    context = pinnace.Context()
    context.target = ["ascend"]
    return pinnace.DataParallel(str(path), context, list(devices))


def freed(path: Path) -> Path:
    """The network with a free batch."""
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, path)
    return path


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def speed(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """ResNet-50, a batch of 8; ratios round by round."""
    path = freed(MAKERS["resnet50"](folder / "resnet50.onnx"))
    x = np.random.default_rng(0).normal(size=(BATCH, 3, 224, 224)).astype(np.float32)
    half = x[: BATCH // 2]
    with parallel(path, 0) as one, parallel(path, 1) as other, parallel(path, 0, 1) as two:
        for device in one.devices + other.devices:
            yield f"{device}"

        def at_the_same_time() -> None:
            futures = [one.submit([half]), other.submit([half])]
            for future in futures:
                future.result(WAIT)

        def ahead() -> None:
            for future in [two.submit([x]) for _ in range(4)]:
                future.result(WAIT)

        def one_ahead() -> None:
            for future in [one.submit([x]) for _ in range(4)]:
                future.result(WAIT)

        runs: dict[str, Callable[[], object]] = {
            "one device": lambda: one.predict([x]),
            "two devices": lambda: two.predict([x]),
            "two models of one device at a time": at_the_same_time,
            "one device, 4 requests submitted": one_ahead,
            "two devices, 4 requests submitted": ahead,
        }
        rounds: list[dict[str, float]] = []
        for turn in range(options.rounds + 1):
            rounds.append({name: seconds(run) for name, run in runs.items()})
            if not turn:
                rounds.clear()
    yield "\n| what | ms a batch of 8 | times one device |"
    yield "| --- " * 3 + "|"
    for name in runs:
        count = 4 if "submitted" in name else 1
        base = "one device" if count == 1 else "one device, 4 requests submitted"
        times = [r[name] / count * 1000 for r in rounds]
        yield f"| {name} | {spread(times, 0)} | {spread([r[base] / r[name] for r in rounds])} |"


def _echo(pipe: Any) -> None:
    """What a process does that gets its data through a pipe."""
    pipe.send(b"")
    while (array := pipe.recv()) is not None:
        pipe.send(array[:, :1])


def transport(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """64 MB go in, a column of them comes out; the model itself reads no more than that column."""
    nodes = [helper.make_node("Slice", ["x", "from", "to", "axes"], ["y"])]
    numbers = {"from": 0, "to": 1, "axes": 1}
    initializers = [helper.make_tensor(k, TensorProto.INT64, [1], [v]) for k, v in numbers.items()]
    width = 1 << 20
    shapes = {"x": ["n", width], "y": ["n", 1]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in shapes.items())
    graph = helper.make_graph(nodes, "column", [x], [y], initializers)
    path = folder / "column.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    data = np.random.default_rng(0).random((MEGABYTES * (1 << 20) // 4 // width, width), np.float32)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_echo, args=(there,), daemon=True)
    process.start()
    here.recv()

    def piped() -> object:
        here.send(data)
        return here.recv()

    copy = np.empty_like(data)
    with parallel(path, 0) as model:
        np.testing.assert_array_equal(model.predict([data])[0].get_data_to_numpy(), piped())
        runs: dict[str, Callable[[], object]] = {
            "DataParallel, one device": lambda: model.predict([data]),
            "a pipe, pickled": piped,
            "np.copyto, within this process": lambda: np.copyto(copy, data),
        }
        rounds = [{name: seconds(run) for name, run in runs.items()} for _ in range(options.rounds + 1)][1:]
    here.send(None)
    process.join()
    yield f"| {MEGABYTES} MB to a process and a little back | ms | times the pipe |"
    yield "| --- " * 3 + "|"
    for name in runs:
        times = [r[name] * 1000 for r in rounds]
        yield f"| {name} | {spread(times, 1)} | {spread([r[name] / r['a pipe, pickled'] for r in rounds])} |"


def kills(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """kill -9 of one of two processes at random moments, while four clients predict."""
    path = freed(MAKERS["mobilenet_v2"](folder / "mobilenet_v2.onnx"))
    chance = random.Random(0)
    before = _left()
    with parallel(path, 0, 1) as model:
        given = [
            np.random.default_rng(i).normal(size=(2 + i, 3, 224, 224)).astype(np.float32) for i in range(4)
        ]
        right = [model.predict([x])[0].get_data_to_numpy() for x in given]
        over = threading.Event()
        failed: list[str] = []
        longest = [0.0] * 4
        served, wrong = [0] * 4, [0] * 4

        def client(number: int) -> None:
            while not over.is_set():
                start = time.perf_counter()
                try:
                    (result,) = model.predict([given[number]], timeout=WAIT)
                except Exception as error:
                    failed.append(str(error))
                    continue
                longest[number] = max(longest[number], time.perf_counter() - start)
                served[number] += 1
                wrong[number] += not np.allclose(result.get_data_to_numpy(), right[number], atol=1e-5)

        clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in clients:
            thread.start()
        killed = 0
        while killed < options.kills:
            time.sleep(chance.uniform(0, 1.5))
            pids = model.pids
            if pids:
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed += 1
        time.sleep(1)
        over.set()
        for thread in clients:
            thread.join()
        stats = model.stats()
        pids = model.pids
    yield f"{killed} processes killed while {sum(served)} predictions were served: {sum(wrong)} were wrong,"
    causes = ", ".join(sorted({text.partition(": ")[2] for text in failed})) or "none"
    yield f"{len(failed)} failed ({causes}),"
    yield f"{stats.retried} parts were computed once more, {stats.restarts} processes started again;"
    yield f"the slowest prediction took {max(longest):.1f} s."
    yield f"Left behind: {_left() - before} descriptors, threads and files of /dev/shm, "
    yield f"{sum(Path(f'/proc/{pid}').exists() for pid in pids)} processes."


def _left() -> int:
    return len(os.listdir("/proc/self/fd")) + threading.active_count() + len(os.listdir("/dev/shm"))


SECTIONS = {f.__name__: f for f in (speed, transport, kills)}
