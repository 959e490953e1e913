"""Networks of well-known shapes with random weights, written as ONNX files.

MindSpore's files of the same networks are made by `tools/make_benchmark_models.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    """Nodes and weights of a graph in the making; every method gives the name of what it adds."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        output = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: object, dtype: type = np.float32) -> str:
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, name: str, *shape: int, scale: float = 0.02) -> str:
        return self.constant(name, self._random.normal(scale=scale, size=shape))

    def save(self, path: Path, inputs: list[onnx.ValueInfoProto], output: str) -> Path:
        result = helper.make_empty_tensor_value_info(output)
        result.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self._nodes, path.stem, inputs, [result], self._weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(made, path)
        return path


def bert_base(path: Path, words: int = 30522, width: int = 768, layers: int = 12, heads: int = 12) -> Path:
    """BERT-base without pooler, 110 million parameters: ids (batch, length) of int64."""
    w = Writer()
    split = w.constant("split", [0, 0, heads, width // heads], np.int64)
    join = w.constant("join", [0, 0, width], np.int64)
    scale = w.constant("scale", (width // heads) ** -0.5)

    def dense(x: str, name: str, given: int, made: int) -> str:
        return w.node(
            "Add",
            w.node("MatMul", x, w.weight(f"{name}.weight", given, made)),
            w.weight(f"{name}.bias", made),
        )

    def norm(x: str, name: str) -> str:
        gamma = w.constant(f"{name}.gamma", np.ones(width))
        return w.node("LayerNormalization", x, gamma, w.weight(f"{name}.beta", width), epsilon=1e-12)

    def heads_of(x: str, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        return w.node("Transpose", w.node("Reshape", x, split), perm=perm)

    x = norm(w.node("Gather", w.weight("words", words, width), "ids"), "embeddings")
    for i in range(layers):
        query, key, value = (dense(x, f"{i}.{part}", width, width) for part in ("query", "key", "value"))
        scores = w.node("Mul", w.node("MatMul", heads_of(query), heads_of(key, (0, 2, 3, 1))), scale)
        seen = w.node("MatMul", w.node("Softmax", scores, axis=-1), heads_of(value))
        joined = w.node("Reshape", w.node("Transpose", seen, perm=(0, 2, 1, 3)), join)
        x = norm(w.node("Add", x, dense(joined, f"{i}.out", width, width)), f"{i}.norm1")
        up = w.node("Gelu", dense(x, f"{i}.up", width, 4 * width))
        x = norm(w.node("Add", x, dense(up, f"{i}.down", 4 * width, width)), f"{i}.norm2")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"])
    return w.save(path, [ids], x)


def resnet50(path: Path) -> Path:
    """ResNet-50 with folded BatchNorms, 25 million parameters: images (batch, 3, 224, 224)."""
    w = Writer()

    def conv(x: str, name: str, given: int, made: int, kernel: int, stride: int = 1) -> str:
        weight = w.weight(
            f"{name}.weight", made, given, kernel, kernel, scale=(given * kernel * kernel) ** -0.5
        )
        pads, strides = [kernel // 2] * 4, [stride] * 2
        return w.node("Conv", x, weight, w.weight(f"{name}.bias", made), pads=pads, strides=strides)

    x = w.node("Relu", conv("image", "stem", 3, 64, 7, 2))
    x = w.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    given = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            name, stride = f"{stage}.{block}", 2 if stage and not block else 1
            straight = x if block else conv(x, f"{name}.straight", given, 4 * width, 1, stride)
            y = w.node("Relu", conv(x, f"{name}.a", given, width, 1))
            y = w.node("Relu", conv(y, f"{name}.b", width, width, 3, stride))
            x = w.node("Relu", w.node("Add", conv(y, f"{name}.c", width, 4 * width, 1), straight))
            given = 4 * width
    pooled = w.node("Flatten", w.node("GlobalAveragePool", x))
    x = w.node("Gemm", pooled, w.weight("head.weight", 1000, given), w.weight("head.bias", 1000), transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])
    return w.save(path, [image], x)


INPUTS = {
    "bert_base": lambda: [np.arange(128, dtype=np.int64).reshape(1, 128)],
    "resnet50": lambda: [np.random.default_rng(1).normal(size=(1, 3, 224, 224)).astype(np.float32)],
}
"""Inputs of one prediction, by the stem of the file's name."""

MAKERS = {"bert_base": bert_base, "resnet50": resnet50}
