"""The part of MobileNetV2's throughput that the server's counts and histograms cost.

    python -m benchmarks histograms [--seconds 1] [--rounds 15]

Predictions through the server's model in one process, with its metrics and without, in turns of seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest.mock import patch

from benchmarks.models import INPUTS, mobilenet_v2
from pinnace.server.metrics import Metrics
from pinnace.server.models import OpenModel
from pinnace.server.settings import ModelSettings


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks histograms", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = mobilenet_v2(Path(folder, "mobilenet_v2.onnx"))
        settings = ModelSettings(workers=1, threads=1)
        model = OpenModel(path.stem, "1", path, settings, Metrics())
        model.warm_up()
        ratios = []
        for _ in range(options.rounds):
            counted = asyncio.run(_rate(model, options.seconds))
            with patch.object(OpenModel, "_served"):
                ratios.append(counted / asyncio.run(_rate(model, options.seconds)))
        model.runner.close()
    print(f"with metrics {median(ratios):.4f} of the rate without ({min(ratios):.3f} to {max(ratios):.3f})")
    start = perf_counter()
    for _ in range(10_000):
        model._metrics.served(1e-4, 5e-3)
    print(f"one request's metrics: {(perf_counter() - start) * 100:.1f} us")


async def _rate(model: OpenModel, seconds: float) -> float:
    """Return the predictions a second of one client."""
    inputs, count, begin = INPUTS[model.name](), 0, perf_counter()
    while (now := perf_counter()) < begin + seconds:
        await model.predict(inputs)
        count += 1
    return count / (now - begin)
