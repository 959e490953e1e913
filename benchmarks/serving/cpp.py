"""C++ clients beside Python's: throughput of a runner, microseconds of a call, memory of the process.

    python -m benchmarks cpp [--case efficientnet_lite0|mlp|identity ...] [--rounds 5] [--seconds 2]

Two workers of one thread. `efficientnet_lite0` and `mlp` have five clients, `identity` (16 floats) one: its
time is the least mean of ten calls. Fresh processes in turn, medians, and ratios round by round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Figures, in_turn, resident, table
from pinnace import Context, ModelParallelRunner

ROOT = Path(__file__).parents[2]
NET = ROOT / "src" / "pinnace" / "data" / "efficientnet_lite0.mindir"
CASES = {"efficientnet_lite0": 3 * 224 * 224, "mlp": 16, "identity": 16}
"""Elements of the input."""
UNITS = {"requests/s": "1/s", "least us": "us", "resident MB": "MB", "private MB": "MB"}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--python"]:
        model, size, count, seconds = arguments[1:]
        print(json.dumps(clients(model, int(size), int(count), float(seconds))))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks cpp", description=__doc__)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args(arguments)
    os.environ["PINNACE_CACHE_DIR"] = "off"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compiled(folder)
        for case in options.case or CASES:
            count = 1 if case == "identity" else 5
            rest = [written(case, folder), str(CASES[case]), str(count), str(options.seconds)]
            python = ["-m", "benchmarks", "cpp", "--python", *rest]
            runs = in_turn({"Python": python, "C++": [program, *rest]}, options.rounds)
            print(f"{case}, {count} client(s)\n\n{table(runs, 'Python', UNITS)}\n", flush=True)


def compiled(folder: Path) -> str:
    """Return the path of the program of C++."""
    from pinnace.cpp.build import build, default_folder

    built, program = build(default_folder()), str(folder / "clients")
    source = str(Path(__file__).with_name("clients.cc"))
    subprocess.run(["c++", "-O2", source, "-o", program, *built.cflags, *built.ldflags], check=True)
    return program


def written(case: str, folder: Path) -> str:
    """Return the path of a case's model."""
    import onnx_ir as ir  # the clients of Python, whose memory is measured, need none of these

    from benchmarks.latency.overhead import NOTHING
    from benchmarks.models.small import mlp

    path = folder / f"{case}.onnx"
    if case == "efficientnet_lite0":
        return str(NET)
    if case == "mlp":
        return str(mlp(path))
    path.write_bytes(ir.to_proto(ir.from_onnx_text(NOTHING)).SerializeToString())
    return str(path)


def clients(model: str, size: int, count: int, seconds: float) -> Figures:
    """Do in Python what clients.cc does."""
    context = Context()
    context.cpu.thread_num, context.parallel.workers_num = 1, 2
    runner = ModelParallelRunner(model, context)
    values = np.full(size, 0.5, np.float32)
    done, least = [0] * count, [1e9] * count
    go, stop = threading.Event(), threading.Event()

    def client(number: int) -> None:
        inputs = runner.get_inputs()
        inputs[0].set_data_from_numpy(values)
        for _ in range(10):
            runner.predict(inputs)
        go.wait()
        while not stop.is_set():
            start = time.perf_counter()
            for _ in range(10):
                runner.predict(inputs)
                done[number] += 1
                if stop.is_set():
                    return
            least[number] = min(least[number], (time.perf_counter() - start) / 10)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    start = time.perf_counter()
    go.set()
    time.sleep(seconds)
    rate = sum(done) / (time.perf_counter() - start)
    stop.set()
    for thread in threads:
        thread.join()
    memory = dict(zip(("resident MB", "private MB"), resident(), strict=True))
    return {"requests/s": rate, "least us": min(least) * 1e6, **memory}
