"""AllReduce of two ranks on this machine, through each communicator that is here.

    python -m benchmarks collectives [--rounds 7]

Microseconds from call to result, with the two ranks on two cores where this process may use two; CPU is the
processor time of both, and start what it takes from the first import until the ranks have met. "MPI itself"
is mpi4py's Allreduce, which polls without a pause and looks for no rank that has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np

from benchmarks.harness import in_turn, resident, table

SIZES = {"1 KB": (256, 400), "4 KB": (1024, 400), "64 KB": (16_384, 200), "400 KB": (102_400, 100)}
SIZES |= {"4 MB": (1_048_576, 30)}
"""Floats, and how often."""
_ITSELF = "MPI itself"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks collectives")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank:
        _rank(options.way == _ITSELF)
    elif options.way:
        _both(options.way)
    else:
        here = {_ITSELF: "mpi4py", "mpi": "mpi4py", "sockets": "socket"}
        ways = [way for way, module in here.items() if find_spec(module)]
        runs = in_turn({w: ["-m", "benchmarks", "collectives", "--way", w] for w in ways}, options.rounds)
        units = {unit: unit.split()[-1] for unit in next(iter(runs.values()))[0]}
        print(f"{len(os.sched_getaffinity(0))} core(s); ratios to sockets\n")
        print(table(runs, "sockets", units))


def _both(way: str) -> None:
    rank = ["-m", "benchmarks", "collectives", "--rank", "--way", way]
    command = ["-m", "pinnace", "launch", "-n", "2", "--with", "mpi" if way == _ITSELF else way, *rank]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    results = [json.loads(line.partition("] ")[2]) for line in done.stdout.splitlines()]
    print(json.dumps({key: statistics.mean(one[key] for one in results) for key in results[0]}))


def _rank(is_mpi_itself: bool) -> None:
    start = time.perf_counter()
    before = resident()[0]
    from pinnace.distributed.world import communicator
    from pinnace.options.settings import Settings
    from pinnace.options.target import Target

    ranks = communicator(Target(), Settings.load())
    figures = {"start ms": 1e3 * (time.perf_counter() - start), "memory MB": resident()[0] - before}
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[ranks.rank % len(cores)]})
    group = (0, 1)
    link = ranks.link([group])

    def reduce(x: np.ndarray, out: np.ndarray) -> None:
        ranks.watchdog.begin("AllReduce")  # as a model does
        link.all_reduce(group, x, out, "sum")

    if is_mpi_itself:
        from mpi4py import MPI

        reduce = MPI.COMM_WORLD.Allreduce
    for size, (floats, count) in SIZES.items():
        x, out = np.ones(floats, np.float32), np.empty(floats, np.float32)
        times = []
        for turn in range(count + 5):
            if turn == 5:
                cpu = time.process_time()
            begun = time.perf_counter()
            reduce(x, out)
            times.append(1e6 * (time.perf_counter() - begun))
        assert (out == 2).all()
        figures[f"{size} us"] = statistics.median(times[5:])
        figures[f"{size}, CPU us"] = 2e6 * (time.process_time() - cpu) / count
    print(json.dumps(figures))
