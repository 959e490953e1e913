"""ONNX models beside what the converter makes of them, .mindir and .ms, all run by Pinnace.

    python -m benchmarks converting [--folder DIR] [--rounds 20] [--threads 1] [--shape x=1,8] [MODEL ...]

Without files it is the suite's images, detector and BERT. Inputs are those of the `.npz` beside a file, else
made up, with the shapes given. An error is the greatest difference from plain onnxruntime on the ONNX file
over the greatest result; a ratio the median of the rounds' times, in turns in one process, over those of the
ONNX file. DIR keeps the files, so that a second call only measures. Sizes are in MB; where a file is not
converted, the reason stands in its place.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

import pinnace as mslite
from benchmarks.models import INPUTS, MAKERS
from benchmarks.suite.machine import describe

_MODELS = ("efficientnet_lite0", "mobilenet_v2", "resnet50", "bert_base", "yolo")
_KINDS = {".mindir": mslite.ModelType.MINDIR, ".ms": mslite.ModelType.MINDIR_LITE}
_BLOCK = 0.25
"""Seconds that one takes its turn, at least one run."""
_TYPES = {"float": np.float32, "int64": np.int64, "int32": np.int32, "bool": np.bool_}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks converting", description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shape", action="append", default=[])
    options = parser.parse_args(arguments)
    print(", ".join(f"{key}: {value}" for key, value in describe().items()), end="\n\n")
    print(
        "| model | ONNX, ms | .mindir, ratio | .ms, ratio | .mindir, error | .ms, error "
        "| ONNX, MB | .mindir, MB | .ms, MB |"
    )
    print("| --- " + "| ---: " * 8 + "|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        for path in options.models or (_made(folder, name) for name in _MODELS):
            print(_row(path, folder, options), flush=True)


def _made(folder: Path, name: str) -> Path:
    path = folder / f"{name}.onnx"
    if not path.exists():
        np.savez(path.with_suffix(".npz"), **INPUTS[name]())
        MAKERS[name](path)
    return path


def _row(path: Path, folder: Path, options: argparse.Namespace) -> str:
    session = onnxruntime.InferenceSession(path)
    shapes = {name: list(map(int, dims.split(","))) for name, dims in (s.split("=") for s in options.shape)}
    inputs = _inputs(path, session, shapes)
    expected = session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs, strict=True)))
    files, reasons = {}, {}
    for suffix, kind in _KINDS.items():
        file = folder / f"{path.stem}{suffix}"
        converter = mslite.Converter()
        converter.save_type, converter.input_shape = kind, shapes
        try:
            if not file.exists():
                converter.convert(mslite.FmkType.ONNX, path, file)
            files[suffix] = file
        except mslite.PinnaceError as error:
            reasons[suffix] = " ".join(str(error).splitlines()[1:2]) or str(error)
    runs = {suffix: prepared(file, kind, inputs, options.threads) for suffix, (file, kind) in {
        ".onnx": (path, mslite.ModelType.ONNX), **{s: (f, _KINDS[s]) for s, f in files.items()}
    }.items()}  # fmt: skip
    errors = {suffix: f"{_error(run(), expected):.1e}" for suffix, run in runs.items()}
    times: dict[str, list[float]] = {suffix: [] for suffix in runs}
    for _ in range(options.rounds):
        for suffix, run in runs.items():
            times[suffix].append(time_of(run))
    plain = times[".onnx"]
    ratios = {
        s: f"{statistics.median(t / p for t, p in zip(ts, plain, strict=True)):.3f}"
        for s, ts in times.items()
    }
    beside = [f for f in path.parent.glob(f"{path.name}*") if f.is_file()]
    sizes = {s: f.stat().st_size for s, f in files.items()} | {".onnx": sum(f.stat().st_size for f in beside)}
    cells = [f"{statistics.median(plain) * 1e3:.2f}"]
    cells += [ratios.get(s) or reasons[s] for s in _KINDS] + [errors.get(s, "") for s in _KINDS]
    cells += [f"{sizes[s] / 1e6:.1f}" if s in sizes else "" for s in (".onnx", *_KINDS)]
    return f"| {path.stem} | {' | '.join(cells)} |"


def _inputs(
    path: Path, session: onnxruntime.InferenceSession, shapes: dict[str, list[int]]
) -> list[np.ndarray]:
    known = path.with_suffix(".npz")
    if known.exists():
        with np.load(known) as arrays:
            return [arrays[i.name] for i in session.get_inputs()]
    random, made = np.random.default_rng(0), []
    for port in session.get_inputs():
        shape = shapes.get(port.name) or [d if isinstance(d, int) else 1 for d in port.shape]
        dtype = _TYPES[port.type[7:-1]]
        x = random.random(shape) if dtype is np.float32 else random.integers(0, 2, shape)
        made.append(np.asarray(x, dtype))
    return made


def prepared(
    file: Path, kind: mslite.ModelType, inputs: list[np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    context = mslite.Context()
    context.cpu.thread_num = threads
    model = mslite.Model()
    model.build_from_file(file, kind, context)
    tensors = model.get_inputs()
    if any(list(t.shape) != list(x.shape) for t, x in zip(tensors, inputs, strict=True)):
        model.resize(tensors, [list(x.shape) for x in inputs])
        tensors = model.get_inputs()
    for tensor, x in zip(tensors, inputs, strict=True):
        tensor.set_data_from_numpy(x)
    return lambda: [y.get_data_to_numpy() for y in model.predict(tensors)]


def _error(given: list[np.ndarray], expected: list[np.ndarray]) -> float:
    pairs = [(y.astype(np.float64), w.astype(np.float64)) for y, w in zip(given, expected, strict=True)]
    return max(float(np.abs(y - w).max() / max(np.abs(w).max(), 1e-12)) for y, w in pairs)


def time_of(run: Callable[[], object]) -> float:
    """Seconds of one run."""
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + _BLOCK:
        run()
        count += 1
    return (time.perf_counter() - begin) / count
