"""Memory and time of a conversion, by the size of the weights.

    python -m benchmarks streaming [--megabytes 300 4096] [--to mindir ms]

Models are chains of products, of 64 MB each, with the weights beside the ONNX file. Each conversion is a
process of its own. "Resident" is the most that it had in memory, "own" the most without pages of files; both
are above what the conversion of a model of one product takes, as a part of the weights' size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

SIDE = 4096
CHILD = """
import json, sys, threading, time
from pinnace.converter.convert import Conversion, convert
from pinnace.types import ModelType
from pinnace.weights.source import Source

def kilobytes(file, name):
    lines = open("/proc/self/" + file)
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

most = [0]
def watch():
    while True:
        most[0] = max(most[0], kilobytes("status", "RssAnon"))
        time.sleep(0.01)

threading.Thread(target=watch, daemon=True).start()
begin = time.monotonic()
kind = ModelType.MINDIR if sys.argv[2].endswith(".mindir") else ModelType.MINDIR_LITE
convert(Source.of_file(sys.argv[1]), None, sys.argv[2], Conversion(save_type=kind))
end = time.monotonic()
print(json.dumps([kilobytes("status", "VmHWM"), most[0], end - begin]))
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks streaming", description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[300])
    parser.add_argument("--to", nargs="*", default=["mindir", "ms"])
    options = parser.parse_args(arguments)
    print("| weights | to | resident, of the weights | own, of the weights | time |")
    print("| --- | --- | --- | --- | --- |")
    for suffix in options.to:
        base = converted(1, suffix)
        for size in options.megabytes:
            count = max(1, size * (1 << 20) // (4 * SIDE * SIDE))
            given = converted(count, suffix)
            resident, own = ((given[i] - base[i]) / (count * 4 * SIDE * SIDE / 1024) for i in (0, 1))
            print(
                f"| {count * 64} MB | .{suffix} | {resident:.3f} | {own:.3f} | {given[2]:.1f} s |", flush=True
            )


def converted(count: int, suffix: str) -> list[float]:
    """Return kilobytes resident, of these its own, and seconds of a conversion."""
    with tempfile.TemporaryDirectory() as folder:
        model = chain(Path(folder), count)
        command = [sys.executable, "-c", CHILD, str(model), str(Path(folder, f"made.{suffix}"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        figures: list[float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def chain(folder: Path, count: int) -> Path:
    """Write a model of this many products; return its path."""
    size = 4 * SIDE * SIDE
    row = np.random.default_rng(0).standard_normal((SIDE, SIDE), np.float32)
    weights, nodes = [], []
    with Path(folder, "weights").open("wb") as file:
        for i in range(count):
            file.write((row + np.float32(i)).tobytes())
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[SIDE, SIDE])
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights"), ("offset", i * size), ("length", size)):
                tensor.external_data.add(key=key, value=str(value))
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, SIDE]) for n in ("x0", f"x{count}")]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], weights)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return path
