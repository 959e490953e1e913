"""The forms that `pinnace tune --max-error` finds for models: time over float32, error reached, form chosen.

    python -m benchmarks fewer [--max-error 1e-2] [--seconds 60] [--threads 1] [MODEL.onnx ...]

Without files it is the suite's models. Inputs are those of the `.npz` beside a file, else made up. Times are
those of `pinnace tune`, in one process and in turns, over the faster engine in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.models import INPUTS, MAKERS
from benchmarks.suite.machine import describe


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks fewer", description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--max-error", default="1e-2")
    parser.add_argument("--seconds", default="60")
    parser.add_argument("--threads", default="1")
    options = parser.parse_args(arguments)
    print(", ".join(f"{key}: {value}" for key, value in describe().items()), end="\n\n")
    print("| model | float32, ms | chosen | ms | over float32 | error | cosine | same largest |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for path in options.models or _made(Path(folder)):
            print(_row(path, options, folder), flush=True)


def _made(folder: Path):
    """The suite's models, each written when its turn comes."""
    for name in INPUTS:
        np.savez(folder / f"{name}.npz", **INPUTS[name]())
        yield MAKERS[name](folder / f"{name}.onnx")


def _row(path: Path, options: argparse.Namespace, folder: str) -> str:
    command = [sys.executable, "-m", "pinnace", "tune", str(path), "--json", "--workers", "1"]
    command += ["--max-error", options.max_error, "--seconds", options.seconds, "--threads", options.threads]
    given = path.with_suffix(".npz")
    command += ["--input", str(given)] if given.exists() else []
    environment = {**os.environ, "PINNACE_CACHE_DIR": f"{folder}/cache"}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    found = json.loads(output)
    ways = [way for way in found["ways"] if not way["reason"]]
    whole = min(way["latency"] for way in ways if not way["form"])
    best = min(ways, key=lambda way: way["latency"] if way["form"] else whole * (1 - 1e-9))
    forms = {(form["form"], form["provider"]): form for form in found.get("forms", [])}
    chosen = forms.get((best["form"], best["provider"]))
    if chosen is None:
        return f"| {path.stem} | {whole:.3g} | float32 | {whole:.3g} | **1.00** | 0 | 1 | 100 % |"
    return (
        f"| {path.stem} | {whole:.3g} | {best['form']}, {best['provider']} | {best['latency']:.3g} "
        f"| **{best['latency'] / whole:.2f}** | {chosen['error']:.1e} | {chosen['cosine']:.5f} "
        f"| {chosen['same_top']:.0%} |"
    )
