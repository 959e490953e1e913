"""Write the small ONNX models that `make_ms_goldens.py` converts to `.ms` files for the tests.

python tools/with_mindspore_lite/make_ms_models.py FOLDER        # needs onnx and numpy
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(7)


def model(nodes, inputs, outputs, weights):
    """A checked model; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    onnx.checker.check_model(made)
    return made


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def rows(weights):
    """A model that gives the rows of a matrix as the runtime sees them."""
    node = helper.make_node("Gather", ["w", "i"], ["y"])
    n, m = weights.shape
    inputs = [("i", TensorProto.INT32, [n])]
    return model([node], inputs, [("y", TensorProto.FLOAT, [n, m])], {"w": weights})


def conv(x, w, y, stride=1, group=1, size=3):
    pad = size // 2
    return helper.make_node(
        "Conv",
        [x, w, f"{w}_b"],
        [y],
        kernel_shape=[size, size],
        strides=[stride, stride],
        dilations=[1, 1],
        pads=[pad] * 4,
        group=group,
    )


def network(batch=1):
    """An image network in small: convolutions of all kinds, a residual, pools, an activation, a product."""
    nodes = [
        conv("image", "stem", "a", stride=2),
        helper.make_node("Relu", ["a"], ["b"]),
        conv("b", "depth", "c", group=8),
        helper.make_node("Clip", ["c", "zero", "six"], ["d"]),
        conv("d", "point", "e", size=1),
        helper.make_node("Add", ["b", "e"], ["f"]),
        helper.make_node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Sigmoid", ["g"], ["h"]),
        helper.make_node("GlobalAveragePool", ["h"], ["i"]),
        helper.make_node("Flatten", ["i"], ["j"]),
        helper.make_node("Gemm", ["j", "last", "last_b"], ["scores"], transB=1),
    ]
    weights = {
        "stem": normal(8, 3, 3, 3),
        "stem_b": normal(8),
        "depth": normal(8, 1, 3, 3),
        "depth_b": normal(8),
        "point": normal(8, 8, 1, 1) / 4,
        "point_b": normal(8),
        "last": normal(5, 8),
        "last_b": normal(5),
        "zero": np.float32(0),
        "six": np.float32(6),
    }
    inputs = [("image", TensorProto.FLOAT, [batch, 3, 16, 16])]
    return model(nodes, inputs, [("scores", TensorProto.FLOAT, [batch, 5])], weights)


def convolution():
    """One convolution: the only kind of weight that the converter packs as an entropy code."""
    ports = [("x", TensorProto.FLOAT, [1, 8, 6, 6])], [("y", TensorProto.FLOAT, [1, 16, 6, 6])]
    return model([conv("x", "w", "y")], *ports, {"w": normal(16, 8, 3, 3), "w_b": normal(16)})


def product():
    """A product whose weight is square, so that only its attributes say where its channels are."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    weight = normal(24, 24) * np.arange(1, 25, dtype=np.float32)
    ports = [("x", TensorProto.FLOAT, [3, 24])], [("y", TensorProto.FLOAT, [3, 24])]
    return model([node], *ports, {"w": weight})


def main(folder):
    dense = normal(24, 32) * np.arange(1, 25, dtype=np.float32)[:, None]
    few = RANDOM.choice(np.array([-1, -0.5, 0.25, 0.5, 1], np.float32), (24, 32))
    sparse = np.where(RANDOM.random((24, 32)) < 0.9, 0, normal(24, 32)).astype(np.float32)
    models = {
        "dense": rows(dense),
        "few": rows(few),
        "sparse": rows(sparse),
        "network": network(),
        "convolution": convolution(),
        "product": product(),
        "network_free": network("N"),
    }
    for name, made in models.items():
        onnx.save(made, folder / f"{name}.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
