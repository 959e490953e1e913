"""What the choice between onnxruntime and OpenVINO costs over the better one, for models as they come.

    python -m benchmarks engines PATH ... [--seconds 3] [--half]

PATH is a model, or a folder of models, as `tools/conformance/export_networks.py` makes it. Each has a process
of its own, in which the engines take turns on made-up inputs. Figures are medians of the processor's time of
one thread, and a ratio the median over turns, so that what else runs on the machine counts as little as can
be. The first build has the engine of the rule, the kept model that of the measurement, which is made apart
from the figures and shorter. --half is for builds that prefer 16 bits.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pinnace.building.choosing import candidates, with_choice
from pinnace.building.measuring import call, in_turns, measured, ratio
from pinnace.building.opening import open_model
from pinnace.building.spec import Stages
from pinnace.options.settings import Settings
from pinnace.options.target import Target

_TURNS = 400
_HEAD = (
    "| network | onnxruntime, ms | OpenVINO, ms | ratio | first | cost | kept | cost |\n"
    "| --- | ---: | ---: | ---: | --- | ---: | --- | ---: |"
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks engines")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=3, help="processor's time of each engine")
    parser.add_argument("--half", action="store_true", help="prefer 16 bits")
    options = parser.parse_args(arguments)
    print(_HEAD, flush=True)
    costs: dict[str, list[float]] = {"always onnxruntime": [], "the first builds": [], "kept models": []}
    for path in _files(options.paths):
        found = _child(path, options.seconds, options.half)
        if "alone" in found:
            print(f"| {path.stem} | {found['alone']} |" + " |" * 6, flush=True)
            continue
        over, first, kept = found["ratio"], found["first"], found["kept"]
        of_all, of_first, of_kept = (
            (over if engine == "openvino" else 1) / min(over, 1) for engine in ("onnxruntime", first, kept)
        )
        for name, cost in zip(costs, (of_all, of_first, of_kept), strict=True):
            costs[name].append(cost)
        print(
            f"| {path.stem} | {found['onnxruntime']:.3g} | {found['openvino']:.3g} | {over:.2f} "
            f"| {first} | {of_first:.2f} | {kept} | {of_kept:.2f} |",
            flush=True,
        )
    print(f"\n{len(costs['kept models'])} networks that both engines run; over the better engine")
    for name, some in costs.items():
        if some:
            print(f"* {name} cost {statistics.geometric_mean(some):.3f}, at most {max(some):.2f}")


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.iterdir()) if path.is_dir() else [path]
        yield from (one for one in found if one.suffix in (".onnx", ".mindir", ".ms"))


def _child(path: Path, seconds: float, half: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.latency.engines", str(path), str(seconds), str(int(half))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"alone": (done.stderr.strip() or "died").splitlines()[-1][:150]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def judged(path: Path, seconds: float, half: bool) -> dict[str, Any]:
    """Return the milliseconds of each engine, and which one runs the first build and the kept model."""
    target = Target(threads=1, precision="preferred_fp16" if half else "enforce_fp32")
    spec = open_model(path, None, target, Settings())
    choices = candidates(spec, Stages())
    kept = measured(spec, choices, False) if len(choices) > 1 else choices[0]
    if "measured when" not in kept.why:
        return {"alone": kept.why}
    with ExitStack() as stack:
        calls = {one.provider: call(with_choice(spec, one), stack) for one in choices}
        times = in_turns(calls, seconds, _TURNS)
    medians = {engine: statistics.median(turns) for engine, turns in times.items()}
    return medians | {"ratio": ratio(times), "first": choices[0].provider, "kept": kept.provider}


if __name__ == "__main__":
    os.environ["PINNACE_CACHE_DIR"] = "off"
    print(json.dumps(judged(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "1")))
