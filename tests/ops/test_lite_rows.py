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


@pytest.mark.parametrize(
    ("axis", "offsets", "cut"),
    [
        (1, (1, 2), np.s_[:, 1:4, 2:6]),
        (1, (1,), np.s_[:, 1:4, 1:5]),
        (1, (), np.s_[:, :3, :4]),
        (-1, (3,), np.s_[:, :, 3:7]),
        (0, (1, 0, 2), np.s_[1:3, :3, 2:6]),
    ],
)
def test_crop(axis, offsets, cut):
    x, like = np.arange(168, dtype=np.float32).reshape(4, 6, 7), np.zeros((2, 3, 4), np.float32)
    np.testing.assert_array_equal(run("Crop", [x, like], axis=axis, offsets=offsets), x[cut])


@pytest.mark.parametrize(("bits", "step", "last"), [(4, 0.2, 15), (8, 3 / 255, 255), (0, 3 / 255, 255)])
def test_steps_between_two_bounds(bits, step, last):
    x, low, high = (
        np.linspace(-2, 3, 23, dtype=np.float32),
        np.array([-1], np.float32),
        np.array([2], np.float32),
    )
    zero = np.floor(1 / step + 0.5)
    expected = (np.floor(np.clip(x / step + zero, 0, last) + 0.5) - zero) * step
    given = run("FakeQuantWithMinMaxVars", [x, low, high], num_bits=bits)
    np.testing.assert_allclose(given, expected, atol=1e-6)  # some steps of float32


@pytest.mark.parametrize(
    ("number", "node"),
    [(27, {"op_type": "Celu", "alpha": 0.5}), (4, {"op_type": "Elu", "alpha": 0.5})],
    ids=["Celu", "Elu"],
)
def test_activations_with_an_alpha(number, node):
    x = np.linspace(-4, 4, 17, dtype=np.float32)
    made = helper.make_node(node["op_type"], ["x"], ["y"], alpha=node["alpha"])
    (expected,) = ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_allclose(
        run("Activation", [x], activation_type=number, alpha=node["alpha"]), expected, atol=1e-6
    )  # some steps of float32
