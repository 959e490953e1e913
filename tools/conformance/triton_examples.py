"""`python tools/conformance/triton_examples.py CHECKOUT`: run the examples of Triton's client, unchanged.

CHECKOUT is a clone of github.com/triton-inference-server/client. The examples of sequences, CUDA's shared
memory, custom backends and ensembles need what the server does not have, and are left out by name. Each runs
against a server with models of their names; needs the extras `serve` and `test`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from onnx import TensorProto, helper

import pinnace
from pinnace.server import ModelSettings, Options, Server

LEFT_OUT = {
    "sequence": "sequences",
    "cudashm": "CUDA's shared memory",
    "custom_repeat": "a custom backend",
    "ensemble": "ensembles",
    "grpc_client.py": "a network that must be downloaded",
    "memory_growth": "a test without end",
}

PICTURE = [
    "-m",
    "pictures",
    "-c",
    "2",
    "-s",
    "INCEPTION",
    str(Path(pinnace.__file__).parent / "data/chelsea.png"),
]
"""Arguments of the examples with pictures."""


def models(folder: Path, count: int) -> None:
    """Write the models that the examples name, and as many others as make `count`."""
    for name, kind in (("simple", TensorProto.INT32), ("simple_int8", TensorProto.INT8)):
        nodes = [
            helper.make_node(operator, ["INPUT0", "INPUT1"], [output])
            for operator, output in (("Add", "OUTPUT0"), ("Sub", "OUTPUT1"))
        ]
        _write(folder / name, nodes, kind, ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"))
    _write(
        folder / "simple_string",
        _sums_of_texts(),
        TensorProto.STRING,
        ("INPUT0", "INPUT1"),
        ("OUTPUT0", "OUTPUT1"),
    )
    _write_pictures(folder / "pictures")
    for name in ("simple_identity", *(f"other_{number}" for number in range(count - 5))):
        node = helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])
        _write(folder / name, [node], TensorProto.STRING, ("INPUT0",), ("OUTPUT0",))


def _sums_of_texts() -> Iterator[object]:
    """Yield the nodes of sums and differences of numbers that are written as text."""
    for place in range(2):
        yield helper.make_node("Cast", [f"INPUT{place}"], [f"n{place}"], to=TensorProto.INT32)
    for operator, output in (("Add", "OUTPUT0"), ("Sub", "OUTPUT1")):
        yield helper.make_node(operator, ["n0", "n1"], [f"{output}_n"])
        yield helper.make_node("Cast", [f"{output}_n"], [output], to=TensorProto.STRING)


def _write_pictures(folder: Path) -> None:
    """Write a model that says which color a picture has most of."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["picture"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["color"]),
    ]
    _save(folder, nodes, TensorProto.FLOAT, {"picture": ["batch", 3, 32, 32]}, {"color": ["batch", 3]})
    (folder / "labels.txt").write_text("red\ngreen\nblue\n", encoding="utf-8")
    (folder / "model.toml").write_text("max_batch_size = 4\n", encoding="utf-8")


def _write(folder: Path, nodes, kind: int, inputs, outputs) -> None:
    _save(folder, nodes, kind, *({key: ["batch", 16] for key in names} for names in (inputs, outputs)))


def _save(folder: Path, nodes, kind: int, inputs, outputs) -> None:
    ports = [
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in some.items()]
        for some in (inputs, outputs)
    ]
    graph = helper.make_graph(list(nodes), folder.name, *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(model.SerializeToString())


def main(checkout: Path) -> int:
    failed = 0
    for example in sorted((checkout / "src" / "python" / "examples").glob("*.py")):
        reason = next((why for part, why in LEFT_OUT.items() if part in example.name), "")
        outcome = f"left out: {reason}" if reason else run(example)
        failed += outcome.startswith("FAILED")
        print(f"| {example.name} | {outcome} |", flush=True)
    return failed > 0


def run(example: Path) -> str:
    """Return how an example ended against a server of its own."""
    web = "http" in example.name
    options = Options(http_port=0, grpc_port=0, shared_memory="/", name="triton")
    with tempfile.TemporaryDirectory() as folder:
        models(Path(folder), 7 if web else 8)  # the two examples of model control count so many
        with Server([folder], ModelSettings(workers=1, threads=1), options) as server:
            command = [
                sys.executable,
                str(example),
                "-u",
                f"localhost:{server.http_port if web else server.grpc_port}",
            ]
            command += ["-i", "grpc"] if example.name.startswith(("reuse", "image")) else []
            command += PICTURE if "image_client" in example.name else []
            ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    last = (ended.stdout + ended.stderr).strip().splitlines()[-1:] or [""]
    return "passed" if ended.returncode == 0 else f"FAILED: {last[0][:120]}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
