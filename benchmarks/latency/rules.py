"""What the compiler's rules gain: models with them and without, in one process and in turn.

    python -m benchmarks rules MODEL ... [--rule attention] [--free 1] [--threads 1] [--rounds 8]

MODEL is a `.mindir`, `.ms` or `.onnx`, which gets random inputs, of --free where a dimension is free. The
rules for faster forms are compared with none, or with all but --rule (a function of
`pinnace.engines.onnxruntime.rules`), which passes over models that it does not touch. The compile cache is
off. A ratio is of medians of four predictions each, by round; "least" is that of the fastest predictions of
all rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from pinnace import Context, Model, ModelType, Tensor
from pinnace.engines.onnxruntime import rules

_KINDS = {".ms": ModelType.MINDIR_LITE, ".onnx": ModelType.ONNX}
_TURN = 4


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rules")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rule", default="", help="the name of one")
    parser.add_argument("--free", type=int, default=1, metavar="SIZE", help="of free dimensions")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args(arguments)
    os.environ["PINNACE_CACHE_DIR"] = "off"
    print("| model | with, ms | without, ms | with over without | least | largest difference |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    ratios = [r for path in options.models if (r := _compare(path, options)) is not None]
    if ratios:
        mean, least, largest = statistics.geometric_mean(ratios), min(ratios), max(ratios)
        print(f"\n{len(ratios)} models, geometric mean {mean:.3f}, {least:.2f} to {largest:.2f}")


def _compare(path: Path, options: argparse.Namespace) -> float | None:
    rewritten = _built(path, options.threads)
    if options.rule not in rewritten.get_model_info("rules"):
        return None
    tables = {
        name: {
            operator: [rule for rule in some if options.rule and rule.__name__ != options.rule]
            for operator, some in getattr(rules, name).items()
        }
        for name in ("RULES", "ON_CPU")
    }
    with patch.multiple(rules, **tables):
        plain = _built(path, options.threads)
    random = np.random.default_rng(0)
    inputs = [_random(random, tensor, options.free) for tensor in rewritten.get_inputs()]
    given, expected = (_outputs(model, inputs) for model in (rewritten, plain))
    difference = max(abs(g - e).max() / max(abs(e).max(), 1e-9) for g, e in zip(given, expected, strict=True))
    times: list[list[float]] = [[], []]
    for _ in range(options.rounds):
        for model, seconds in zip((rewritten, plain), times, strict=True):
            model.predict(inputs)
            seconds += [_seconds(model, inputs) for _ in range(_TURN)]
    first, second = ([statistics.median(t[i : i + _TURN]) for i in range(0, len(t), _TURN)] for t in times)
    ratios = [a / b for a, b in zip(first, second, strict=True)]
    ratio, least = statistics.median(ratios), min(times[0]) / min(times[1])
    medians = " | ".join(f"{1e3 * statistics.median(t):.2f}" for t in times)
    spread = f"**{ratio:.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"
    print(
        f"| {path.parent.name}/{path.stem} | {medians} | {spread} | {least:.2f} | {difference:.0e} |",
        flush=True,
    )
    return ratio


def _built(path: Path, threads: int) -> Model:
    context = Context()
    context.target = ["cpu"]
    context.cpu.thread_num, context.cpu.provider = threads, "onnxruntime"
    model = Model()
    model.build_from_file(str(path), _KINDS.get(path.suffix, ModelType.MINDIR), context)
    return model


def _random(random: np.random.Generator, tensor: Tensor, free: int) -> np.ndarray:
    shape = [free if size < 0 else size for size in tensor.shape]
    return random.random(shape).astype(tensor.dtype.to_numpy())  # zeros for whole numbers: indices that exist


def _outputs(model: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [tensor.get_data_to_numpy().astype(np.float64) for tensor in model.predict(inputs)]


def _seconds(model: Model, inputs: list[np.ndarray]) -> float:
    begun = time.perf_counter()
    model.predict(inputs)
    return time.perf_counter() - begun
