"""A model with three unsupported primitives and a weight of 1 GiB: one error, and the weight is not touched.

The weight is a hole in a sparse file, which takes no disk; reading it would show in the process's memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from pinnace.formats.mindir.schema import model_class
from pinnace.formats.ms import schema
from pinnace.formats.ms.flatbuffer import Buffer
from pinnace.formats.wire import varint

WEIGHT = 1 << 30  # bytes: fp32[16384, 16384]
SIDE = 1 << 14
GROWTH = 48 << 20  # bytes of resident memory that refusing may take; the weight has a thousand

# Opens the model of argv[2] as it opens the one of argv[1] before, which has the same primitives and no
# large weight, so that all modules are there; then the address space has no room for a copy of the weight.
CHILD = """
import gc, json, resource, sys
from pathlib import Path
import pinnace as mslite
from pinnace.building.opening import inspect_model
from pinnace.errors import UnsupportedModelError

def peak():
    with open("/proc/self/status") as lines:  # ru_maxrss counts the process that forked this one, too
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

def refused(path):
    try:
        mslite.Model().build_from_file(path, mslite.ModelType[sys.argv[3]])
    except UnsupportedModelError as error:
        return str(error), rows(error.primitives)

def rows(primitives):
    return [(p.name, p.count, p.first_node) for p in primitives]

refused(sys.argv[1]), inspect_model(sys.argv[1])
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (3 << 29), resource.RLIM_INFINITY))
before = peak()
message, found = refused(sys.argv[2])
gc.collect()  # tables of a .ms file point at each other, and hold the mapping
shown = rows(inspect_model(sys.argv[2]).unsupported)
print(json.dumps({"message": message, "rows": [found, shown], "grown": peak() - before}))
"""


def opened(small: Path, large: Path, kind: str) -> dict:
    command = [sys.executable, "-c", CHILD, str(small), str(large), kind]
    # The compile cache reads a file once for the name of its content, copying nothing, before it is lowered.
    environment = {**os.environ, "PINNACE_CACHE_DIR": "off"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def key(field: int) -> bytes:
    return varint(field << 3 | 2)


def with_hole(path: Path, head: bytes) -> None:
    """A file of `head` and a weight's bytes that were never written."""
    path.write_bytes(head)
    os.truncate(path, len(head) + WEIGHT)


def message_with_weight(path: Path, model: bytes, graph: int, weights: int, tensor: bytes) -> None:
    """A protobuf model whose graph has one weight more, inside of the file: messages may come in parts."""
    raw = tensor + key(9) + varint(WEIGHT)
    inner = key(weights) + varint(len(raw) + WEIGHT) + raw
    with_hole(path, model + key(graph) + varint(len(inner) + WEIGHT) + inner)


@pytest.fixture
def mindir(data, tmp_path):
    """Writes the split golden of MindSpore 2.10 with primitives that nobody knows."""
    model = model_class().FromString((data / "split" / "big_graph.mindir").read_bytes())
    names = {"MatMul": "MatWhat", "BiasAdd": "BiasWhy", "ReLU": "ReWho"}
    for primitive in model.primitives:
        primitive.op_type = names.get(primitive.op_type, primitive.op_type)
    where = tmp_path / "big_variables"
    where.mkdir()
    (where / "data_0").write_bytes((data / "split" / "big_variables" / "data_0").read_bytes())
    small, large = tmp_path / "small.mindir", tmp_path / "large.mindir"
    small.write_bytes(model.SerializeToString())

    def write(beside: bool) -> tuple[Path, Path]:
        if beside:
            for weight in model.graph.parameter:
                weight.external_data.location = "big_variables/data_1"
            model.graph.parameter[0].dims[:] = [SIDE, SIDE]
            model.graph.parameter[0].external_data.offset = 64
            model.graph.parameter[0].external_data.length = WEIGHT
            with_hole(where / "data_1", bytes(1 << 16))
            large.write_bytes(model.SerializeToString())
        else:
            tensor = model_class()().graph.parameter.add(name="big", data_type=1, dims=[SIDE, SIDE])
            message_with_weight(large, model.SerializeToString(), 7, 3, tensor.SerializeToString())
        return small, large

    return write


@pytest.fixture
def onnx_model(tmp_path):
    """Writes x -> MatWhat(x, w) -> BiasWhy, twice -> ReWho -> y."""
    small, large = tmp_path / "small.onnx", tmp_path / "large.onnx"
    steps = [("MatWhat", ["x", "w"]), ("BiasWhy", ["a0"]), ("BiasWhy", ["a1"]), ("ReWho", ["a2"])]
    nodes = [onnx.helper.make_node(op, names, [f"a{i}"], f"node{i}") for i, (op, names) in enumerate(steps)]
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", SIDE]) for name in ("x", "a3")]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "graph", ends[:1], ends[1:]))
    weight = onnx.TensorProto(name="w", data_type=1, dims=[1], raw_data=bytes(4))
    model.graph.initializer.append(weight)
    small.write_bytes(model.SerializeToString())
    del model.graph.initializer[:]
    weight.ClearField("raw_data")
    weight.dims[:] = [SIDE, SIDE]

    def write(beside: bool) -> tuple[Path, Path]:
        if beside:
            weight.data_location = onnx.TensorProto.EXTERNAL
            for name, value in {"location": "weights", "offset": "0", "length": str(WEIGHT)}.items():
                weight.external_data.add(key=name, value=value)
            model.graph.initializer.append(weight)
            with_hole(tmp_path / "weights", b"")
            large.write_bytes(model.SerializeToString())
        else:
            message_with_weight(large, model.SerializeToString(), 7, 5, weight.SerializeToString())
        return small, large

    return write


@pytest.fixture
def ms(data, tmp_path):
    """A golden of MindSpore Lite with primitives that no schema has, without and with a large weight."""
    small, large = tmp_path / "small.ms", tmp_path / "large.ms"
    original = (data / "ms" / "network.ms").read_bytes()
    root, file = Buffer(memoryview(original), "", schema.load()).root(), bytearray(original)
    for i, node in enumerate(root["nodes"][:4]):
        file[place(node["primitive"], "value")] = 250 + min(i, 2)
    small.write_bytes(file)
    weight = max(root["allTensors"], key=lambda t: t["data"].length)
    dims = place(weight, "dims")
    at = dims + int.from_bytes(file[dims : dims + 4], "little")
    for i, size in enumerate([SIDE, SIDE, 1, 1]):
        file[at + 4 + 4 * i : at + 8 + 4 * i] = size.to_bytes(4, "little")
    # The weight's vector moves to the end of the file: its length, and then the hole.
    file.extend(bytes(-len(file) % 16 + 12) + WEIGHT.to_bytes(4, "little"))
    start = place(weight, "data")
    file[start : start + 4] = (len(file) - 4 - start).to_bytes(4, "little")
    with_hole(large, bytes(file))
    return small, large


def place(table, field):
    return table._buffer.place(table, schema.load().tables[table.name][field])


def check(answer: dict, names: list[str], counts: list[int]) -> None:
    for rows in answer["rows"]:
        assert {name: count for name, count, _ in rows} == dict(zip(names, counts, strict=True))
        for name, count, first in rows:
            assert first
            assert f"{name} x{count}, first at node {first!r}" in answer["message"]
    assert "export it again" in answer["message"]
    assert answer["grown"] < GROWTH


@pytest.mark.parametrize("beside", [False, True], ids=["inline", "beside"])
def test_mindir(mindir, beside):
    check(opened(*mindir(beside), "MINDIR"), ["MatWhat", "BiasWhy", "ReWho"], [2, 2, 1])


@pytest.mark.parametrize("beside", [False, True], ids=["inline", "beside"])
def test_onnx(onnx_model, beside):
    check(opened(*onnx_model(beside), "ONNX"), ["MatWhat", "BiasWhy", "ReWho"], [1, 2, 1])


def test_ms(ms):
    check(opened(*ms, "MINDIR_LITE"), [f"PrimitiveType_{n}" for n in (250, 251, 252)], [1, 1, 2])
