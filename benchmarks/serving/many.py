"""Several models on the same cores: threads that all of them share, as in a server, beside threads of each.

    python -m benchmarks many [--models 10] [--clients 20] [--seconds 3] [--rounds 5]

Each client asks models at random, one request after the other. MobileNetV2, two workers of one thread each,
in turns; requests a second, milliseconds, and threads that serve.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.models import INPUTS, mobilenet_v2
from pinnace.server.metrics import Metrics
from pinnace.server.models import OpenModel
from pinnace.server.settings import ModelSettings
from pinnace.serving.thread_pool import ThreadPool
from pinnace.types import Array

SETTINGS = ModelSettings(workers=2, threads=1, engine="onnxruntime")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks many", description=__doc__)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    os.environ["PINNACE_CACHE_DIR"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        path = mobilenet_v2(Path(folder, "mobilenet_v2.onnx"))
        ways = {
            "shared": opened(path, options.models, ThreadPool()),
            "own": opened(path, options.models, None),
        }
        inputs = list(INPUTS[path.stem]().values())
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, models in ways.items():
                found[name].append(turn(models, inputs, options.clients, options.seconds))
    print("| threads | requests a second | p50, ms | p99, ms | number |\n| --- | ---: | ---: | ---: | ---: |")
    for name, rounds in found.items():
        rate, p50, p99 = (median(column) for column in zip(*rounds, strict=True))
        print(f"| {name} | {rate:.0f} | {p50:.1f} | {p99:.1f} | {threads_of(ways[name])} |")


def opened(path: Path, count: int, threads: ThreadPool | None) -> list[OpenModel]:
    return [
        OpenModel(path.stem, str(n), path, SETTINGS, Metrics(), threads=threads) for n in range(1, count + 1)
    ]


def threads_of(models: Sequence[OpenModel]) -> int:
    """Return the number of threads that serve the queues of these models."""
    pools = {model.runner._built().workers._threads for model in models}
    return sum(len(pool._threads) for pool in pools)


def turn(models: Sequence[OpenModel], inputs: list[Array], clients: int, seconds: float) -> tuple[float, ...]:
    """Return the requests a second, and percentiles 50 and 99 of the latency in milliseconds."""
    taken: list[float] = []
    end = perf_counter() + seconds

    def client(seed: int) -> None:
        choose = random.Random(seed)
        while (start := perf_counter()) < end:
            choose.choice(models).runner.submit(inputs).result()
            taken.append(perf_counter() - start)

    running = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return len(taken) / seconds, *(np.percentile(taken, (50, 99)) * 1e3)
