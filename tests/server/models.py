"""Small models for servers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper


def value(name: str, shape: list[int | str], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def write(path: Path, nodes, inputs, outputs, initializers=()) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def simple(path: Path) -> Path:
    """Sum and difference of 16 integers, as the model "simple" of Triton's examples."""
    ports = {name: value(name, ["batch", 16], TensorProto.INT32) for name in NAMES}
    nodes = [
        helper.make_node(kind, ["INPUT0", "INPUT1"], [output])
        for kind, output in (("Add", "OUTPUT0"), ("Sub", "OUTPUT1"))
    ]
    return write(path, nodes, [ports["INPUT0"], ports["INPUT1"]], [ports["OUTPUT0"], ports["OUTPUT1"]])


NAMES = ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")


def echo(path: Path, dtype: int) -> Path:
    """The input itself, of one element type."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return write(path, [node], [value("x", ["n"], dtype)], [value("y", ["n"], dtype)])


def constant(path: Path, number: float) -> Path:
    """A number that says which version answered, for any x."""
    held = helper.make_tensor(
        "held", TensorProto.FLOAT, [1], np.array([number], np.float32).tobytes(), raw=True
    )
    nodes = [
        helper.make_node("Mul", ["x", "zero"], ["none"]),
        helper.make_node("Add", ["none", "held"], ["y"]),
    ]
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0])
    return write(path, nodes, [value("x", [1])], [value("y", [1])], [held, zero])


def picking(path: Path) -> Path:
    """A model that fails for zeros: none of no rows can be picked."""
    rows = helper.make_tensor("rows", TensorProto.FLOAT, [0, 2], [])
    node = helper.make_node("Gather", ["rows", "x"], ["y"])
    return write(path, [node], [value("x", [1], TensorProto.INT64)], [value("y", [1, 2])], [rows])


def rounds(path: Path) -> Path:
    """As many rounds as a request says: one of 2^62 never ends."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Sin", ["s"], ["s_out"])],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [3])],
        [value("c_out", [], TensorProto.BOOL), value("s_out", [3])],
    )
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    return write(path, [node], [value("count", [], TensorProto.INT64), value("x", [3])], [value("y", [3])])
