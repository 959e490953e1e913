"""ONNX's operator tests, or goldens, through the converter: how many are still right in what runs its files.

    python -m tools.conformance.converter_table [--mindspore INTERPRETER] [--lite INTERPRETER] [--format mindir|ms] [--dynamic]
                                    [--goldens FOLDER...] [--only NAME*] [--verbose]

Each case is converted to `.mindir` and to `.ms`, and the files are run by Pinnace, and by real MindSpore and
MindSpore Lite if interpreters that have them are given. A result is right if types, shapes and values are those of the test, within its own
tolerances. A crash is a process that ended, or took too long. Cases that plain onnxruntime does not get right are left out of the counts. Goldens are files of MindSpore and
MindSpore Lite with what these compute (x0, ... and y0, ... in an `.npz`); those that Pinnace does not get
right are left out.
"""

from __future__ import annotations

import argparse
import fnmatch
import select
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from tools.conformance.onnx_backend import by_onnxruntime, by_pinnace

from pinnace.converter.convert import Conversion, convert
from pinnace.quantization.files import Quantization
from pinnace.types import ModelType
from pinnace.weights.source import Source

TOOLS = Path(__file__).parent
LIMIT = 60
"""Seconds that another runtime may take for a case."""
Arrays = list[np.ndarray]


class Case(NamedTuple):
    """A model with inputs and what it computes of them."""

    name: str
    source: Source
    inputs: Arrays
    expected: Arrays
    rtol: float
    atol: float


class Column(NamedTuple):
    """A process that runs the files of a format."""

    name: str
    format: ModelType
    run: object


class Crash(Exception):
    """The end of another runtime's process."""


class Server:
    """A process of another runtime, started again when it ends, and ended when it takes too long."""

    def __init__(self, interpreter: str, script: str, folder: Path, limit: float = LIMIT) -> None:
        self.command, self.folder, self.limit = [interpreter, str(TOOLS / script)], folder, limit
        self.process: subprocess.Popen[str] | None = None

    def __call__(self, model: Path, inputs: Arrays) -> Arrays:
        given, made = self.folder / "given.npz", self.folder / "made.npz"
        np.savez(given, **{f"x{i}": x for i, x in enumerate(inputs)})
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self.process
        print(model, given, made, file=process.stdin, flush=True)
        if not select.select([process.stdout], [], [], self.limit)[0]:
            process.kill()
        answer = process.stdout.readline()
        if not answer:
            raise Crash(f"the process ended with {process.wait()}")
        if answer.strip() != "ANSWER":
            raise RuntimeError(answer.removeprefix("ANSWER ").strip())
        with np.load(made) as results:
            return [results[f"y{i}"] for i in range(len(results.files))]


def arrays(values: list) -> Arrays | None:
    """The tensors of a test, None if it has anything else."""
    if any(x is None or isinstance(x, list) for x in values):
        return None
    return [numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x) for x in values]


def wrong(case: Case, given: Arrays) -> str:
    """Return the mistake in results, "" if there is none."""
    if len(given) != len(case.expected):
        return f"{len(given)} results instead of {len(case.expected)}"
    for x, y in zip(given, case.expected, strict=True):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"{x.dtype}{list(x.shape)} instead of {y.dtype}{list(y.shape)}"
        if x.dtype == object:
            good = x.tolist() == y.tolist()
        else:
            good = np.allclose(x, y, rtol=case.rtol, atol=case.atol, equal_nan=True)
        if not good:
            return "other values"
    return ""


def suite(only: str) -> Iterator[Case]:
    """ONNX's operator tests that onnxruntime gets right."""
    for test in load_model_tests(kind="node"):
        if not fnmatch.fnmatch(test.name, only):
            continue
        inputs, expected = arrays(test.data_sets[0][0]), arrays(test.data_sets[0][1])
        model = test.model.SerializeToString()
        case = Case(test.name, Source.of_buffer(model), inputs or [], expected or [], test.rtol, test.atol)
        with suppress(Exception):
            if inputs is not None and expected is not None and not wrong(case, by_onnxruntime(model, inputs)):
                yield case


def goldens(folders: Iterable[Path], only: str) -> Iterator[Case]:
    """Files of MindSpore and MindSpore Lite that Pinnace gets right."""
    for path in (path for folder in folders for path in sorted(folder.glob("*.m*"))):
        golden = path.with_name(f"{path.stem.removesuffix('_lite')}.npz")
        if not golden.exists() or not fnmatch.fnmatch(path.name, only):
            continue
        with np.load(golden) as kept:
            inputs, expected = ([kept[n] for n in kept.files if n[0] == letter] for letter in "xy")
        # Two libraries sum up in orders of their own.
        case = Case(path.name, Source.of_file(path), inputs, expected, 1e-3, 1e-5)
        with suppress(Exception):
            if not wrong(case, by_pinnace(path, inputs)):
                yield case


def judge(case: Case, columns: list[Column], folder: Path, how: Quantization | None = None) -> dict[str, str]:
    """Return the mistake in each column."""
    found: dict[str, str] = {}
    files: dict[ModelType, Path | str] = {}
    for column in columns:
        if column.format not in files:
            try:
                options = Conversion(save_type=column.format, quantize=how)
                summary = convert(case.source, None, folder / case.name, options)
                files[column.format] = summary.files[0]
            except Exception as error:
                files[column.format] = f"convert: {type(error).__name__}: {' '.join(str(error).split())}"
        file = files[column.format]
        if isinstance(file, str):
            found[column.name] = file
            continue
        try:
            found[column.name] = wrong(case, column.run(file, case.inputs))
        except Exception as error:
            found[column.name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return found


def columns_of(options: argparse.Namespace, folder: Path, limit: float = LIMIT) -> list[Column]:
    """Return the columns of Pinnace, and of the interpreters `mindspore` and `lite` if they are given."""
    mindir, ms = ModelType.MINDIR, ModelType.MINDIR_LITE
    columns = [Column(".mindir in Pinnace", mindir, by_pinnace), Column(".ms in Pinnace", ms, by_pinnace)]
    if options.mindspore:
        server = Server(options.mindspore, "run_in_mindspore.py", folder, limit)
        columns.append(Column(".mindir in MindSpore", mindir, server))
    if options.lite:
        server = Server(options.lite, "run_in_lite.py", folder, limit)
        columns.append(Column(".mindir in MindSpore Lite", mindir, server))
        columns.append(Column(".ms in MindSpore Lite", ms, server))
    return columns


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mindspore", metavar="INTERPRETER", help="python that has mindspore")
    parser.add_argument("--lite", metavar="INTERPRETER", help="python that has mindspore_lite")
    parser.add_argument("--format", choices=["mindir", "ms"], help="only files of this format")
    parser.add_argument(
        "--dynamic", action="store_true", help="products in integers, and all in MindSpore Lite's primitives"
    )
    parser.add_argument("--goldens", nargs="*", type=Path, metavar="FOLDER", help="instead of ONNX's tests")
    parser.add_argument("--only", default="*", help="cases of these names")
    parser.add_argument("--verbose", action="store_true", help="name all cases that are wrong")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, crashes = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        columns = columns_of(options, folder)
        if options.format:
            columns = [c for c in columns if c.name.split()[0] == f".{options.format}"]
        only, how = options.only, Quantization("dynamic8") if options.dynamic else None
        for case in goldens(options.goldens, only) if options.goldens else suite(only):
            counts["the model itself"] += 1
            for column, problem in judge(case, columns, folder, how).items():
                counts[column] += not problem
                crashes[column] += problem.startswith("Crash")
                if problem and options.verbose:
                    print(f"{case.name}: {column}: {problem}", flush=True)
    for column, count in counts.items():
        print(f"{count:6} right, {crashes[column]:3} crashes: {column}")


if __name__ == "__main__":
    main()
