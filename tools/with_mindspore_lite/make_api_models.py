"""Make the small ONNX models that the tests of the API run.

    python tools/with_mindspore_lite/make_api_models.py tests/data/api

add: x + y, [3, 4, 5] each. dense: relu(x @ w), x of [n, 3]. pair: two inputs of different types and two
outputs, n rows. chain: twenty products of a 64 x 64 matrix with itself, so that a prediction takes a
while. outside: x * w with w in a file beside it. picture: scores of an image of 224 x 224; picture.ms is what the
converter of MindSpore Lite 2.0.0 makes of it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def value(name: str, kind: int, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, shape: tuple[int, ...]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), name)


def save(path: Path, nodes: Any, inputs: Any, outputs: Any, weights: Any = (), **options: Any) -> None:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path, **options)


def main(folder: Path) -> None:
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    node = helper.make_node
    cube: list[int | str] = [3, 4, 5]
    save(
        folder / "add.onnx",
        [node("Add", ["x", "y"], ["sum"])],
        [value("x", f32, cube), value("y", f32, cube)],
        [value("sum", f32, cube)],
    )
    save(
        folder / "dense.onnx",
        [node("MatMul", ["x", "w"], ["y"]), node("Relu", ["y"], ["z"])],
        [value("x", f32, ["n", 3])],
        [value("z", f32, ["n", 2])],
        [weight("w", (3, 2))],
    )
    save(
        folder / "pair.onnx",
        [
            node("Cast", ["rows"], ["f"], to=f32),
            node("Unsqueeze", ["f", "last"], ["column"]),
            node("Add", ["table", "column"], ["sum"]),
            node("Add", ["rows", "rows"], ["twice"]),
        ],
        [value("table", f32, ["n", 2]), value("rows", i64, ["n"])],
        [value("sum", f32, ["n", 2]), value("twice", i64, ["n"])],
        [numpy_helper.from_array(np.array([1], np.int64), "last")],
    )
    steps = []
    for i in range(20):
        steps += [node("MatMul", [f"y{i}", "x"], [f"p{i}"]), node("Tanh", [f"p{i}"], [f"y{i + 1}"])]
    save(
        folder / "chain.onnx",
        [node("Identity", ["x"], ["y0"]), *steps],
        [value("x", f32, [64, 64])],
        [value("y20", f32, [64, 64])],
    )
    save(
        folder / "outside.onnx",
        [node("Mul", ["x", "w"], ["y"])],
        [value("x", f32, [4])],
        [value("y", f32, [4])],
        [weight("w", (4,))],
        save_as_external_data=True,
        location="outside.bin",
        size_threshold=0,
    )
    save(
        folder / "picture.onnx",
        [
            node("Conv", ["image", "filters"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["r"]),
            node("GlobalAveragePool", ["r"], ["p"]),
            node("Flatten", ["p"], ["f"]),
            node("MatMul", ["f", "w"], ["scores"]),
        ],
        [value("image", f32, [1, 3, 224, 224])],
        [value("scores", f32, [1, 5])],
        [weight("filters", (4, 3, 3, 3)), weight("w", (4, 5))],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
