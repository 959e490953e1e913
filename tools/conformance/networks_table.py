"""Networks of timm or transformers, drawn at random: how many are right on each engine, and converted.

    python -m tools.conformance.networks_table timm|transformers --torch PYTHON [--count 60] [--seed 1]
                                   [--mindspore PYTHON] [--lite PYTHON] [--keep FOLDER]
                                   [--only NAME*] [--limit SECONDS]

Interpreters of environments with torch and the library, with MindSpore 2.10 and with mindspore_lite 2.0.
`export_networks.py` draws and exports them with random weights. A result is right if it is within 1e-4 of the
greatest of PyTorch's. Prints a row of counts, then what is wrong, by name. FOLDER keeps the ONNX files for the next run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from tools.conformance.converter_table import TOOLS, Arrays, Case, Column, columns_of, judge, wrong

import pinnace
from pinnace.types import ModelType
from pinnace.weights.source import Source

BOUND = 1e-4
"""The greatest difference over the greatest result: random weights grow what float32 rounds from layer to layer."""
ENGINES = ("onnxruntime", "openvino")


def case_of(file: Path) -> Case:
    """Return a network with its inputs, and what PyTorch computes of them."""
    with np.load(file.with_suffix(".npz")) as kept:
        inputs, expected = ([kept[n] for n in kept.files if n[0] == letter] for letter in "xy")
    far = BOUND * max(np.abs(y).max(initial=0) for y in expected)
    return Case(file.stem, Source.of_file(file), inputs, expected, 0, float(far))


def predicted(file: Path, inputs: Arrays, engine: str) -> tuple[Arrays, str]:
    """Return the results of an engine, and what became of the compile cache."""
    context = pinnace.Context()
    context.target = ["cpu"]
    context.cpu.provider = engine
    with pinnace.Model() as model:
        model.build_from_file(str(file), ModelType.ONNX, context)
        results = [y.get_data_to_numpy().copy() for y in model.predict(inputs)]
        return results, str(model.get_model_info("cache"))


def on_engines(file: Path, case: Case) -> dict[str, str]:
    """Return the mistake of each engine, when it compiles the model and when it has it from the cache."""
    found = {}
    for engine in ENGINES:
        for turn in ("", ", from the cache"):
            try:
                results, cache = predicted(file, case.inputs, engine)
                aside = f"the cache says {cache}" if turn and cache != "loaded" else ""
                found[f"{engine}{turn}"] = wrong(case, results) or aside
            except Exception as error:
                found[f"{engine}{turn}"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return found


def table(files: list[Path], columns: list[Column], folder: Path) -> None:
    """Print the counts of networks, and what is wrong."""
    counts, problems = Counter[str](), []
    for file in files:
        case = case_of(file)
        found = on_engines(file, case) | judge(case, columns, folder)
        for name, problem in found.items():
            counts[name] += not problem
            problems += [f"{file.stem}: {name}: {problem}"] if problem else []
        print(f"{file.stem}: {sum(map(bool, found.values()))} of {len(found)} wrong", flush=True)
    print(f"| networks | {' | '.join(counts)} |", f"| ---: |{' ---: |' * len(counts)}", sep="\n")
    print(f"| {len(files)} | {' | '.join(map(str, counts.values()))} |", *problems, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("zoo", choices=("timm", "transformers"))
    for name in ("torch", "mindspore", "lite"):
        parser.add_argument(f"--{name}", metavar="PYTHON", help=f"interpreter that has {name}")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="*", help="networks of these names")
    parser.add_argument("--limit", type=float, default=300, help="seconds that another runtime may take")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {"PINNACE_CACHE_DIR": f"{name}/cache", "PINNACE_CACHE_KEEP": "before"}
        folder, kept = Path(name), (options.keep or Path(name)) / options.zoo
        if options.torch and not kept.exists():
            kept.mkdir(parents=True)
            command = [options.torch, str(TOOLS / "export_networks.py"), str(kept), options.zoo]
            subprocess.run([*command, str(options.count), str(options.seed)], check=True)
        files = sorted(kept.glob(f"{options.only}.onnx"))
        table(files, columns_of(options, folder, options.limit), folder)


if __name__ == "__main__":
    main()
