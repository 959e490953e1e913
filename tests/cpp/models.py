"""Models that tests of C++ write."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper


def write(folder: Path) -> None:
    """Write words.onnx, which says words twice, and scale.onnx, which multiplies with the weight w."""

    def save(name, node, port, constants=()):
        ends = [helper.make_tensor_value_info(end, *port) for end in ("x", "y")]
        graph = helper.make_graph([node], "g", ends[:1], ends[1:], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
        onnx.save(model, folder / name)

    save("words.onnx", helper.make_node("StringConcat", ["x", "x"], ["y"]), (TensorProto.STRING, ["n"]))
    two = helper.make_tensor("w", TensorProto.FLOAT, [2], [2, 2])
    save("scale.onnx", helper.make_node("Mul", ["x", "w"], ["y"]), (TensorProto.FLOAT, [2]), [two])
