"""What it costs to open a model: Pinnace on a model file beside onnxruntime on the equivalent ONNX file.

    python -m benchmarks opening [--model M] [--onnx M.onnx] [--rounds 9] [--threads 1]

Every opening is a process of its own that has imported its library, and they take turns: from a path to
something that can predict. `python -m benchmarks starts` has whole processes. Without --model it is the
EfficientNet-Lite0 that travels with the package; without --onnx the ONNX file is written here from the same
network, with the weights inside.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Any

from benchmarks.harness import in_turn, resident, table

UNITS = {
    "open": "ms",
    "open, resident": "MB",
    "open, private": "MB",
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks opening")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--onnx", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    carried = resources.files("pinnace") / "data" / "efficientnet_lite0.mindir"
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or Path(str(carried))
        onnx = options.onnx or write_onnx(model, Path(folder) / "equivalent.onnx")
        me = ["-m", "benchmarks.startup.opening"]
        runs = in_turn(
            {
                "onnxruntime": [*me, "onnxruntime", str(onnx), str(options.threads)],
                "pinnace": [*me, "pinnace", str(model), str(options.threads)],
            },
            options.rounds,
        )
    print(f"{model.name} beside {onnx.name}, {options.threads} thread(s), {options.rounds} rounds, medians\n")
    print(table(runs, "onnxruntime", UNITS))


def write_onnx(model: Path, path: Path) -> Path:
    """The ONNX file of the network in a model file."""
    import onnx_ir as ir

    from pinnace import formats
    from pinnace.lowering.graph import compilable
    from pinnace.weights.source import Source

    source = Source.of_file(model)
    graph = compilable(formats.read(source), model.name, str(model.parent)).model
    ir.external_data.load_to_model(graph)
    ir.save(graph, path)
    return path


def open_onnxruntime(path: str, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def open_pinnace(path: str, threads: int) -> Any:
    import pinnace as mslite

    context = mslite.Context()
    context.target = ["cpu"]
    context.cpu.thread_num = threads
    model = mslite.Model()
    kinds = {".ms": mslite.ModelType.MINDIR_LITE, ".onnx": mslite.ModelType.ONNX}
    model.build_from_file(path, kinds.get(Path(path).suffix, mslite.ModelType.MINDIR), context)
    return model


def imports(which: str) -> None:
    import onnxruntime  # noqa: F401

    if which == "pinnace":
        from pinnace.deferred import import_onnx_ir

        import_onnx_ir()
        import pinnace.engines
        import pinnace.formats  # noqa: F401


def child(which: str, path: str, threads: int) -> None:
    imports(which)
    rss, private = resident()
    begin = time.perf_counter()
    held = (open_pinnace if which == "pinnace" else open_onnxruntime)(path, threads)
    end = time.perf_counter()
    rss_after, private_after = resident()
    figures = ((end - begin) * 1e3, rss_after - rss, private_after - private)
    print(json.dumps(dict(zip(UNITS, figures, strict=True))))
    del held


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], int(sys.argv[3]))
