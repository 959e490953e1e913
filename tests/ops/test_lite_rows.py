"""Lowerings of MindSpore Lite's that no file of its converter reaches, beside ONNX's own operators."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.program import Dialect, Layout


def run(name: str, arrays: list[np.ndarray], **attributes) -> np.ndarray:
    b = LoweringBuilder(Layout.NCHW)
    inputs = [
        ir.Value(name=f"x{i}", shape=ir.Shape(a.shape), type=ir.TensorType(ir.DataType.from_numpy(a.dtype)))
        for i, a in enumerate(arrays)
    ]
    y = find(Dialect.LITE, name).lower(b, inputs, attributes)
    initializers = {v for node in b.nodes for v in node.inputs if v is not None and v.const_value is not None}
    graph = ir.Graph(inputs, [y], nodes=b.nodes, initializers=initializers, opset_imports={"": 21}, name="g")
    data = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{i}": a for i, a in enumerate(arrays)})[0]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_one_hot(kind, axis, apart):
    x, depth, values = (
        np.array([[1, 0, 3], [2, 2, 0]], np.int32),
        np.array(4, np.int32),
        np.array([5, 7], kind),
    )
    given = [x, depth, values[1:], values[:1]] if apart else [x, depth, values]
    node = helper.make_node("OneHot", ["x", "d", "v"], ["y"], axis=axis)
    (expected,) = ReferenceEvaluator(node).run(None, {"x": x, "d": depth, "v": values})
    np.testing.assert_array_equal(run("OneHot", given, axis=axis), expected)


def test_a_hard_sigmoid_with_numbers_of_its_own():
    x = np.linspace(-4, 4, 17, dtype=np.float32)
    node = helper.make_node("HardSigmoid", ["x"], ["y"], alpha=0.3, beta=0.4)
    (expected,) = ReferenceEvaluator(node).run(None, {"x": x})
    given = run("Activation", [x], activation_type=13, alpha=0.3, beta=0.4)
    np.testing.assert_allclose(given, expected, atol=1e-7)  # a step of float32
    node = helper.make_node("HardSigmoid", ["x"], ["y"], alpha=1 / 6, beta=0.5)
    (expected,) = ReferenceEvaluator(node).run(None, {"x": x})
    np.testing.assert_allclose(run("Activation", [x], activation_type=13, alpha=0.3), expected, atol=1e-7)


@pytest.mark.parametrize("name", ["MatMulFusion"])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_products_of_transposed_matrices(name, lead):
    random = np.random.default_rng(2)
    x, y = (random.normal(size=(*lead, *dims)).astype(np.float32) for dims in ((4, 3), (5, 4)))
    expected = np.matmul(x.swapaxes(-1, -2), y.swapaxes(-1, -2))
    given = run(name, [x, y], transpose_a=True, transpose_b=True)
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-6)  # sums of four products of float32
