"""Small networks as exporters write them into ONNX, converted, beside what plain onnxruntime computes.

    python -m tools.conformance.exporters_table [--torch PYTHON] [--tensorflow PYTHON] [--paddle PYTHON]
                                    [--mindspore PYTHON] [--lite PYTHON] [--keep FOLDER]

Interpreters of environments with an exporter (see `export_torch.py`, `export_tensorflow.py`, `export_paddle.py`),
and with MindSpore 2.10 and mindspore_lite 2.0. A network with free dimensions that does not convert is tried with
those of its example. Prints how many networks of each exporter become files with which Pinnace, and the others,
compute the same within 1e-5 of the greatest result; then what is not so, by name. FOLDER keeps the ONNX files for
the next run.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from tools.conformance.converter_table import TOOLS, Case, Column, columns_of, judge
from tools.conformance.onnx_backend import by_onnxruntime

from pinnace.weights.source import Source

EXPORTERS = ("torch", "tensorflow", "paddle")
BOUND = 1e-5
"""The greatest difference over the greatest result: sums of float32 in other orders, some hundred of them."""


def case_of(file: Path, fixed: bool) -> Case:
    """Return a network with its example, or with the shapes of that."""
    with np.load(file.with_suffix(".npz")) as kept:
        inputs = [kept[f"x{i}"] for i in range(len(kept.files))]
    model = onnx.load(file)
    for port, x in zip(model.graph.input if fixed else (), inputs, strict=fixed):
        port.CopyFrom(onnx.helper.make_tensor_value_info(port.name, port.type.tensor_type.elem_type, x.shape))
    content = model.SerializeToString()
    expected = by_onnxruntime(content, inputs)
    far = BOUND * max(np.abs(y).max(initial=0) for y in expected)
    return Case(file.stem, Source.of_buffer(content), inputs, expected, 0, float(far))


def row(exporter: str, files: list[Path], columns: list[Column], folder: Path) -> list[str]:
    """Print the counts of an exporter; return what is wrong."""
    counts, fixed, problems = Counter[str](), 0, []
    for file in files:
        found = judge(case_of(file, False), columns, folder)
        if any(problem.startswith("convert") for problem in found.values()):
            problems.append(f"{exporter}, {file.stem}, free: {next(filter(None, found.values()))}")
            found, fixed = judge(case_of(file, True), columns, folder), fixed + 1
        counts.update(name for name, problem in found.items() if not problem)
        problems += [f"{exporter}, {file.stem}: {name}: {text}" for name, text in found.items() if text]
    cells = [str(counts[column.name]) for column in columns]
    print(f"| {exporter} | {len(files)} | {fixed} | {' | '.join(cells)} |", flush=True)
    return problems


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in (*EXPORTERS, "mindspore", "lite"):
        parser.add_argument(f"--{name}", metavar="PYTHON", help=f"interpreter that has {name}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name), options.keep or Path(name)
        columns, problems = columns_of(options, folder), []
        print(f"| exporter | networks | with shapes fixed | {' | '.join(c.name for c in columns)} |")
        print(f"| --- |{' ---: |' * (2 + len(columns))}", flush=True)
        for exporter in EXPORTERS:
            place = kept / exporter
            if (python := getattr(options, exporter)) and not place.exists():
                place.mkdir(parents=True)
                command = [python, str(TOOLS / f"export_{exporter}.py"), str(place)]
                subprocess.run(command, check=True, capture_output=True)
            if place.exists():
                problems += row(exporter, sorted(place.glob("*.onnx")), columns, folder)
    print(*problems, sep="\n")


if __name__ == "__main__":
    main()
