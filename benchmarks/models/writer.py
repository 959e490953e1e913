"""Nodes and weights of an ONNX file, written as PyTorch's exporter writes them.

Operator set 15 and IR version 8: what every engine of the suite reads, mindspore_lite 2.0.0 of 2023 too.
So what is one operator today (LayerNormalization, Gelu) stands as the operators that it consists of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dimension = int | str
FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


class Writer:
    """A graph in the making; every method that adds something gives the name of what it computes."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    # -- the parts of a graph --------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[Dimension], kind: int = FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, shape: Sequence[Dimension]) -> None:
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, FLOAT, shape))

    def nodes(self, kind: str, count: int, *inputs: str, **attributes: object) -> list[str]:
        outputs = [f"{kind.lower()}_{len(self._nodes)}_{i}" for i in range(count)]
        self._nodes.append(helper.make_node(kind, inputs, outputs, outputs[0], **attributes))
        return outputs

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        return self.nodes(kind, 1, *inputs, **attributes)[0]

    def constant(self, name: str, value: object, dtype: type = np.float32) -> str:
        self._weights[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def weight(self, name: str, *shape: int, scale: float = 0.02) -> str:
        return self.constant(name, self._random.normal(scale=scale, size=shape))

    def save(self, path: Path) -> Path:
        weights = list(self._weights.values())
        graph = helper.make_graph(self._nodes, path.stem, self._inputs, self._outputs, weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
        return path

    # -- layers ----------------------------------------------------------------------------------------------

    def conv(
        self, x: str, name: str, given: int, made: int,
        kernel: int = 1, stride: int = 1, group: int = 1, gain: float = 2,
    ) -> str:  # fmt: skip
        """A convolution of `given` to `made` channels; a gain of 2 makes up for the Relu that follows."""
        scale = (gain * group / (given * kernel * kernel)) ** 0.5
        weight = self.weight(f"{name}.weight", made, given // group, kernel, kernel, scale=scale)
        return self.node(
            "Conv", x, weight, self.weight(f"{name}.bias", made),
            kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group,
        )  # fmt: skip

    def dense(self, x: str, name: str, given: int, made: int, scale: float = 0.02) -> str:
        product = self.node("MatMul", x, self.weight(f"{name}.weight", given, made, scale=scale))
        return self.node("Add", product, self.weight(f"{name}.bias", made))

    def norm(self, x: str, name: str, width: int) -> str:
        """LayerNormalization over the last dimension."""
        centered = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        squares = self.node("Pow", centered, self.constant("two", 2))
        var = self.node("ReduceMean", squares, axes=[-1])
        variance = self.node("Add", var, self.constant("epsilon", 1e-5))
        scaled = self.node("Div", centered, self.node("Sqrt", variance))
        scaled = self.node("Mul", scaled, self.constant(f"{name}.gamma", np.ones(width)))
        return self.node("Add", scaled, self.weight(f"{name}.beta", width))

    def gelu(self, x: str) -> str:
        """x (1 + erf(x / sqrt 2)) / 2, as BERT has it."""
        bell = self.node("Erf", self.node("Div", x, self.constant("sqrt2", 2**0.5)))
        raised = self.node("Mul", x, self.node("Add", bell, self.constant("one", 1)))
        return self.node("Mul", raised, self.constant("half", 0.5))

    def gelu_by_tanh(self, x: str) -> str:
        """The approximation that GPT-2 has."""
        cube = self.node("Mul", self.node("Pow", x, self.constant("three", 3)), self.constant("c", 0.044715))
        bend = self.node("Mul", self.node("Add", x, cube), self.constant("sqrt2/pi", (2 / np.pi) ** 0.5))
        raised = self.node("Add", self.node("Tanh", bend), self.constant("one", 1))
        return self.node("Mul", self.node("Mul", x, self.constant("half", 0.5)), raised)

    def relu6(self, x: str) -> str:
        return self.node("Clip", x, self.constant("zero", 0), self.constant("six", 6))

    def silu(self, x: str) -> str:
        return self.node("Mul", x, self.node("Sigmoid", x))

    def classes(self, x: str, given: int) -> str:
        """The end of a classifier: a mean over the image, and 1000 scores."""
        pooled = self.node("Flatten", self.node("GlobalAveragePool", x))
        weight = self.weight("head.weight", 1000, given, scale=given**-0.5)
        return self.node("Gemm", pooled, weight, self.weight("head.bias", 1000), transB=1)
