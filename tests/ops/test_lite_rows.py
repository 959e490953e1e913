"""Lowerings of MindSpore Lite's that no file of its converter reaches, beside ONNX's own operators."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tests.ops import applied

from pinnace.graph.failures import Unsupported
from pinnace.program import Dialect, Layout


def results(name: str, given: list, layout: Layout = Layout.NCHW, **attributes) -> list[np.ndarray]:
    return applied.results(Dialect.LITE, name, given, layout=layout, **attributes)


def run(name: str, given: list, layout: Layout = Layout.NCHW, **attributes) -> np.ndarray:
    (result,) = results(name, given, layout, **attributes)
    return result


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


@pytest.mark.parametrize(
    ("bits", "step", "last"),
    [(4, 0.2, 15), (8, 3 / 255, 255), (0, 3 / 255, 255), (2, 1, 3), (16, 3 / 65535, 65535)],
)
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


@pytest.mark.parametrize("bits", [1, 17])
def test_steps_of_too_few_or_too_many_bits_are_refused(bits):
    with pytest.raises(Unsupported, match=f"quantizes to {bits} bits"):
        run("FakeQuantWithMinMaxVars", [MATRIX, ROW[:1], ROW[2:3]], num_bits=bits)


@pytest.mark.parametrize(
    ("number", "operator", "alpha"),
    [
        (0, "Identity", {}),
        (4, "Elu", {"alpha": 0.5}),
        (5, "LeakyRelu", {"alpha": 0.3}),
        (6, "Abs", {}),
        (8, "Softsign", {}),
        (9, "Softplus", {}),
        (10, "Tanh", {}),
        (11, "Selu", {}),
        (12, "HardSwish", {}),
        (14, "ThresholdedRelu", {"alpha": 0.75}),
        (15, "Identity", {}),
        (17, "Sign", {}),
        (27, "Celu", {"alpha": 0.5}),
    ],
)
def test_activations_are_those_of_onnx(number, operator, alpha):
    x = np.linspace(-4, 4, 17, dtype=np.float32)
    (expected,) = ReferenceEvaluator(helper.make_node(operator, ["x"], ["y"], **alpha)).run(None, {"x": x})
    given = run("Activation", [x], activation_type=number, **alpha)
    np.testing.assert_allclose(given, expected, atol=1e-6)  # some steps of float32


@pytest.mark.parametrize(
    ("number", "bounds", "low", "high"),
    [(3, {}, 0, 6), (7, {}, -1, 1), (16, {}, -1, 1), (16, {"min_val": -2.0, "max_val": 0.5}, -2, 0.5)],
)
def test_activations_between_bounds(number, bounds, low, high):
    x = np.linspace(-7, 7, 29, dtype=np.float32)
    given = run("Activation", [x], activation_type=number, **bounds)
    np.testing.assert_array_equal(given, x.clip(low, high))


RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(2, 3, 4, 5)).astype(np.float32)
MATRIX, OTHER = (RANDOM.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
ROW, COUNTS = np.array([0.5, -2, 3, 1], np.float32), np.arange(24, dtype=np.int32).reshape(2, 3, 4)
CUBE = (COUNTS + ROW).astype(np.float32)
SPECTRUM = np.fft.rfft(MATRIX, 6)
NORM = np.linalg.norm(MATRIX, axis=1, keepdims=True)


def spliced(x: np.ndarray, *context: int) -> np.ndarray:
    frames = [t for t in range(x.shape[1]) if all(0 <= t + c < x.shape[1] for c in context)]
    return np.stack([np.concatenate([x[:, t + c] for c in context], -1) for t in frames], 1)


def dynamically(x: np.ndarray) -> np.ndarray:
    """Numbers after they were stored as ONNX's DynamicQuantizeLinear does."""
    (stored, step, zero) = ReferenceEvaluator(
        helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "step", "zero"])
    ).run(None, {"x": x})
    return (stored.astype(np.float32) - zero) * step


LARGEST = abs(X).max()
FORMULAS = [
    ("SliceFusion", [MATRIX, [1, 0], [-1, 2]], {}, MATRIX[1:, :2]),
    ("SliceFusion", [MATRIX, np.array([1, 2]), np.array([0, 1])], {}, MATRIX[1:1, 2:3]),
    ("SliceFusion", [COUNTS, [1], [2]], {"axes": (2,)}, COUNTS[:, :, 1:3]),
    ("TileFusion", [MATRIX, np.array([2])], {"dims": (1,)}, np.tile(MATRIX, (1, 2))),
    ("TileFusion", [MATRIX, np.array([2, 3])], {"dims": (1, 0)}, np.tile(MATRIX, (3, 2))),
    ("TileFusion", [MATRIX, np.array([2, 3])], {"dims": (0, 1)}, np.tile(MATRIX, (2, 3))),
    ("Transpose", [COUNTS], {}, COUNTS.T),
    ("Transpose", [COUNTS], {"perm": (2, 0, 1)}, COUNTS.transpose(2, 0, 1)),
    ("Transpose", [MATRIX], {"perm": (0, 2, 3, 1)}, MATRIX),
    ("ConstantOfShape", [None], {"shape": (2, 3), "value": (1.5,), "data_type": 43}, np.full((2, 3), 1.5)),
    ("ConstantOfShape", [np.array([2], np.int32)], {"value": (), "data_type": 34}, np.zeros(2)),
    ("LinSpace", [np.array([2], np.float32), np.array([5], np.float32)], {"num": 1}, [2]),
    ("LinSpace", [np.array([2], np.float32), np.array([5], np.float32)], {"num": 4}, [2, 3, 4, 5]),
    ("StridedSlice", [COUNTS, [0, 1, 3], [2, 3, 0], [1, 1, -2]], {}, COUNTS[:2, 1:3, 3:0:-2]),
    ("StridedSlice", [COUNTS, [1, 1, 1], [2, 2, 3], [1, 1, 1]], {"begin_mask": 4, "end_mask": 2},
     COUNTS[1:2, 1:, :3]),
    ("StridedSlice", [COUNTS, [1, 1], [2, 3], [2, 0], [1, 2]], {}, COUNTS[1:3, :, 1:2]),
    ("StridedSlice", [COUNTS, [1, 1], [2, 2], [-1, 0], [1, 1]], {"shrink_axis_mask": 1}, COUNTS[1, :, 1:2]),
    ("StridedSlice", [COUNTS, [1, 1], [2, 2], [-1, 0], [1, 1]], {"begin_mask": 4}, COUNTS[1:2, :, :2]),
    ("PadFusion", [MATRIX, np.array([[1, 0], [2, 3]])], {}, np.pad(MATRIX, ((1, 0), (2, 3)))),
    ("PadFusion", [MATRIX, np.array([[1, 0], [2, 3]])], {"constant_value": 1.5},
     np.pad(MATRIX, ((1, 0), (2, 3)), constant_values=1.5)),
    ("PadFusion", [MATRIX, np.array([[1, 0], [0, 3]]), np.array([7], np.float32)], {},
     np.pad(MATRIX, ((1, 0), (0, 3)), constant_values=7)),
    ("PadFusion", [MATRIX, np.array([[1, 0], [2, 3]])], {"padding_mode": 1},
     np.pad(MATRIX, ((1, 0), (2, 3)), mode="reflect")),
    ("PadFusion", [MATRIX, (1, 0, 2, 3)], {"padding_mode": 2},
     np.pad(MATRIX, ((1, 0), (2, 3)), mode="symmetric")),
    ("Where", [MATRIX > 0, MATRIX, OTHER], {}, np.where(MATRIX > 0, MATRIX, OTHER)),
    ("Where", [MATRIX > 0], {}, np.argwhere(MATRIX > 0)),
    ("Reshape", [COUNTS, np.array([0, -1], np.int32)], {}, COUNTS.reshape(2, 12)),
    ("ScaleFusion", [CUBE, ROW[:3]], {"axis": 1}, CUBE * ROW[:3, None]),
    ("ScaleFusion", [CUBE, ROW, 2 * ROW], {"axis": -1}, CUBE * ROW + 2 * ROW),
    ("ScaleFusion", [CUBE, OTHER, ROW[:3]], {"axis": 1, "activation_type": 1},
     np.maximum(CUBE * OTHER + ROW[:3, None], 0)),
    ("BiasAdd", [X, ROW[:3]], {}, X + ROW[:3, None, None]),
    ("BiasAdd", [MATRIX, ROW], {}, MATRIX + ROW),
    ("PReLUFusion", [X, ROW[:3]], {}, np.where(X < 0, X * ROW[:3, None, None], X)),
    ("PReLUFusion", [X, ROW[1:2]], {"channel_shared": True}, np.where(X < 0, X * -2, X)),
    ("LRN", [X], {"depth_radius": 1, "bias": 2.0, "alpha": 0.0, "beta": 0.75}, X / 2**0.75),
    ("L2NormalizeFusion", [MATRIX], {"axis": (1,)}, MATRIX / NORM),
    ("L2NormalizeFusion", [MATRIX], {}, MATRIX / np.sqrt((MATRIX**2).sum())),
    ("L2NormalizeFusion", [MATRIX], {"axis": (1,), "epsilon": 100.0}, MATRIX / 10),
    ("MatMulFusion", [MATRIX, OTHER, ROW[:3]], {"transpose_b": True, "activation_type": 1},
     np.maximum(MATRIX @ OTHER.T + ROW[:3], 0)),
    ("MatMulFusion", [COUNTS[0], COUNTS[1]], {"transpose_a": True}, COUNTS[0].T @ COUNTS[1]),
    ("MatMulFusion", [ROW, X], {"transpose_a": True}, ROW @ X),
    ("MatMulFusion", [X, ROW], {"transpose_a": True}, X.swapaxes(2, 3) @ ROW),
    ("FullConnection", [CUBE, OTHER], {"use_axis": True, "axis": 2}, CUBE.reshape(6, 4) @ OTHER.T),
    ("FullConnection", [CUBE[:, :2, :2], OTHER, ROW[:3]], {"axis": 2},
     CUBE[:, :2, :2].reshape(2, 4) @ OTHER.T + ROW[:3]),
    ("ExpFusion", [MATRIX], {"base": 2.0, "scale": 0.5, "shift": 1.0}, 2 ** (MATRIX * 0.5 + 1)),
    ("ExpFusion", [MATRIX], {}, np.exp(MATRIX)),
    ("PowFusion", [MATRIX**2, np.array(1.5, np.float32)], {"scale": 2.0, "shift": 1.0},
     (MATRIX**2 * 2 + 1) ** 1.5),
    ("ReduceFusion", [X], {"mode": 4, "axes": (2,), "reduce_to_end": True, "coeff": 0.5},
     X.sum((2, 3)) * 0.5),
    ("ReduceFusion", [X], {"mode": 4, "axes": (-2,), "reduce_to_end": True, "keep_dims": True},
     X.sum((2, 3))),
    ("ReduceFusion", [X], {"mode": 4, "axes": (2,), "coeff": 0.5, "keep_dims": True},
     X.sum(2, keepdims=True)),
    ("ReduceFusion", [X], {}, X.mean()),
    ("EmbeddingLookupFusion", [MATRIX, OTHER, np.array([4, 0])], {}, np.stack([OTHER[1], MATRIX[0]])),
    ("EmbeddingLookupFusion", [MATRIX, np.array([[2, 0], [1, 1]])], {"max_norm": 1.75},
     (MATRIX * np.minimum(1, 1.75 / NORM))[[[2, 0], [1, 1]]]),
    ("SparseToDense", [np.array([1, 3]), np.array([5]), ROW[:2]], {}, [0, 0.5, 0, -2, 0]),
    ("SparseToDense", [np.array([[0, 1], [1, 2]]), np.array([2, 3]), ROW[:2], np.array(9, np.float32)], {},
     [[9, 0.5, 9], [9, 9, -2]]),
    ("SparseToDense", [np.array([1, 3]), np.array([5]), ROW[:1]], {}, [0, 0.5, 0, 0.5, 0]),
    ("Splice", [X[0]], {"context": (-1, 1)}, spliced(X[0], -1, 1)),
    ("Splice", [X[0]], {"context": (1, 2)}, spliced(X[0], 1, 2)),
    ("Splice", [X[0]], {"context": (-2,)}, spliced(X[0], -2)),
    ("Affine", [X[0], X[1].reshape(6, 10), ROW[[0, 1, 2, 3, 0, 1]]], {"context": (-1, 1)},
     spliced(X[0], -1, 1) @ X[1].reshape(6, 10).T + ROW[[0, 1, 2, 3, 0, 1]]),
    ("Affine", [X[0], X[1, 0].T], {"transpose_b": False}, X[0] @ X[1, 0].T),
    ("TensorArrayWrite", [0, np.array(1), ROW, MATRIX], {}, np.stack([MATRIX[0], ROW, MATRIX[2]])),
    ("TensorArrayRead", [0, np.array([2]), MATRIX], {}, MATRIX[2]),
    ("FftReal", [X], {}, X[..., 0]),
    ("FftImag", [X[..., :2]], {}, X[..., 1]),
    ("Rfft", [MATRIX], {"fft_length": 6}, np.stack([SPECTRUM.real, SPECTRUM.imag], -1)),
    ("InstanceNorm", [X, ROW[:3], ROW[1:]], {"epsilon": 0.5},
     (X - X.mean((2, 3), keepdims=True)) / np.sqrt(X.var((2, 3), keepdims=True) + 0.5) * ROW[:3, None, None]
     + ROW[1:, None, None]),
    ("LayerNormFusion", [X], {"begin_norm_axis": -2, "epsilon": 0.5},
     (X - X.mean((2, 3), keepdims=True)) / np.sqrt(X.var((2, 3), keepdims=True) + 0.5)),
    ("BatchNorm", [X, 0 * ROW[:3], 1e-5 * ROW[[0, 2, 3]]], {},
     X / np.sqrt(1e-5 * ROW[[0, 2, 3], None, None] + 1e-5)),
    ("LayerNormFusion", [0.01 * X], {},
     0.01 * (X - X.mean(-1, keepdims=True)) / np.sqrt(1e-4 * X.var(-1, keepdims=True) + 1e-5)),
    ("LpNormalization", [MATRIX], {}, MATRIX / NORM),
    ("DynamicQuant", [X], {"symmetric": True}, np.round(X / LARGEST * 127) * LARGEST / 127),
    ("DynamicQuant", [0 * X], {"symmetric": True}, 0 * X),
    ("DynamicQuant", [X], {}, dynamically(X)),
    ("DynamicQuant", [MATRIX], {"activation_channel": True, "prefer_axis": 1},
     np.stack([dynamically(column) for column in MATRIX.T], 1)),
    ("DynamicQuant", [X[0] - 9], {"activation_channel": True, "prefer_axes": (0, -1)},
     np.stack([[dynamically(x) for x in part.T] for part in X[0] - 9]).swapaxes(1, 2)),
    ("DynamicQuant", [MATRIX], {"activation_channel": True, "symmetric": True, "prefer_axis": 0},
     np.round(MATRIX / abs(MATRIX).max(1)[:, None] * 127) * abs(MATRIX).max(1)[:, None] / 127),
    ("BatchNorm", [X, ROW[:3], ROW[[0, 2, 3]]], {"epsilon": 0.5},
     (X - ROW[:3, None, None]) / np.sqrt(ROW[[0, 2, 3], None, None] + 0.5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "attributes", "expected"), FORMULAS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_gives_what_its_formula_gives(name, given, attributes, expected):
    given = [tuple(a) if isinstance(a, list) else a for a in given]
    result = run(name, given, **attributes)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)  # sums of some products of float32


IMAGE, KERNEL, MIRROR = (
    RANDOM.normal(size=s).astype(np.float32) for s in ((2, 4, 9, 8), (6, 2, 3, 2), (4, 3, 3, 2))
)
BIAS = np.arange(6, dtype=np.float32)
LAYERS = [
    ("Conv2DFusion", [KERNEL, BIAS],
     {"stride": (2, 1), "dilation": (1, 3), "pad_list": (1, 0, 2, 3), "group": 2},
     "Conv", {"strides": [2, 1], "dilations": [1, 3], "pads": [1, 2, 0, 3], "group": 2}),
    ("Conv2DFusion", [KERNEL], {"pad_mode": 2, "pad_list": (1, 1, 1, 1), "group": 2}, "Conv", {"group": 2}),
    ("Conv2DFusion", [KERNEL, BIAS], {"pad_mode": 1, "stride": (2, 3), "group": 2},
     "Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 3], "group": 2}),
    ("Conv2dTransposeFusion", [MIRROR, BIAS],
     {"stride": (3, 2), "pad_list": (0, 1, 1, 0), "output_paddings": (2, 1), "group": 2},
     "ConvTranspose", {"strides": [3, 2], "pads": [0, 1, 1, 0], "output_padding": [2, 1], "group": 2}),
    ("MaxPoolFusion", [], {"kernel_size": (3, 2), "strides": (2, 3), "pad": (1, 0, 0, 1)},
     "MaxPool", {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1]}),
    ("AvgPoolFusion", [], {"kernel_size": (2, 3), "strides": (3, 3), "round_mode": 1},
     "AveragePool", {"kernel_shape": [2, 3], "strides": [3, 3], "ceil_mode": 1}),
    ("AvgPoolFusion", [], {"kernel_size": (2, 3), "strides": (2, 3), "pad_mode": 1},
     "AveragePool", {"kernel_shape": [2, 3], "strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    ("MaxPoolFusion", [], {"global": True}, "GlobalMaxPool", {}),
    ("AvgPoolFusion", [], {"global": True}, "GlobalAveragePool", {}),
    ("DepthToSpace", [], {"block_size": 2}, "DepthToSpace", {"blocksize": 2}),
    ("DepthToSpace", [], {"block_size": 2, "mode": "CRD"}, "DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
    ("LRN", [], {"depth_radius": 1}, "LRN", {"size": 3, "bias": 1.0, "alpha": 3.0, "beta": 0.5}),
    ("Resize", [], {"new_height": 9, "new_width": 12, "method": 2}, "Resize",
     {"coordinate_transformation_mode": "asymmetric", "mode": "cubic"}),
    ("LRN", [], {"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},
     "LRN", {"size": 3, "bias": 2.0, "alpha": 1.5, "beta": 0.75}),
    ("FusedBatchNorm", [BIAS[:4], BIAS[1:5], BIAS[2:], BIAS[1:5]], {"epsilon": 0.5},
     "BatchNormalization", {"epsilon": 0.5}),
    ("Resize", [], {"new_height": 5, "new_width": 12},
     "Resize", {"coordinate_transformation_mode": "asymmetric", "mode": "linear"}),
    ("Resize", [], {"new_height": 5, "new_width": 12, "method": 1, "coordinate_transform_mode": 1},
     "Resize", {"coordinate_transformation_mode": "align_corners", "nearest_mode": "round_prefer_ceil"}),
    ("Resize", [], {"new_height": 5, "new_width": 12, "method": 1, "coordinate_transform_mode": 2},
     "Resize", {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor"}),
    ("Resize", [], {"new_height": 9, "new_width": 12, "method": 2, "cubic_coeff": -0.5, "exclude_outside": 1},
     "Resize", {"coordinate_transformation_mode": "asymmetric", "mode": "cubic", "cubic_coeff_a": -0.5,
                "exclude_outside": 1}),
]  # fmt: skip


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize(("name", "weights", "attributes", "operator", "same"), LAYERS, ids=str)
def test_layers_are_those_of_onnx_in_either_layout(name, weights, attributes, operator, same, layout):
    inputs = [IMAGE, *weights]
    if operator == "Resize":
        inputs += [None, None, np.array([2, 4, attributes["new_height"], attributes["new_width"]])]
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    feed = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in feed.items()]  # fmt: skip
    node = helper.make_node(operator, names, ["y"], **same)
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feed)

    def turned(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout is Layout.NHWC and x.ndim == 4 else x

    given = run(name, [turned(x) for x in (IMAGE, *weights)], layout, **attributes)
    np.testing.assert_allclose(given, turned(expected), rtol=1e-5, atol=1e-5)  # sums of a dozen products


@pytest.mark.parametrize(("name", "weight", "formula"), [
    ("BiasAdd", ROW, lambda x, w: x + w),
    ("PReLUFusion", ROW, lambda x, w: np.where(x < 0, x * w, x)),
    ("InstanceNorm", ROW, lambda x, w: ((x - x.mean((1, 2), keepdims=True)) / x.std((1, 2), keepdims=True)
     + 1) * w),
])  # fmt: skip
def test_channels_are_last_where_those_of_images_are(name, weight, formula):
    x = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
    given = run(name, [x, weight, weight][: 3 if name == "InstanceNorm" else 2], Layout.NHWC)
    np.testing.assert_allclose(given, formula(x, weight), rtol=1e-4, atol=1e-4)  # an epsilon of 1e-5


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize(("stride", "dilation", "pads"), [((2, 1), (1, 2), (1, 0, 2, 0)), ((), (), ())])
def test_an_adder_sums_up_distances(stride, dilation, pads, layout):
    kernel = RANDOM.normal(size=(3, 4, 3, 2)).astype(np.float32)
    top, bottom, left, right = pads or (0, 0, 0, 0)
    (down, across), (far, wide) = stride or (1, 1), dilation or (1, 1)
    x = np.pad(IMAGE, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows, columns = range(0, x.shape[2] - 2 * far, down), range(0, x.shape[3] - wide, across)
    expected = np.empty((2, 3, len(rows), len(columns)), np.float32)
    for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
        seen = x[:, None, :, row : row + 2 * far + 1 : far, column : column + wide + 1 : wide]
        expected[:, :, i, j] = BIAS[:3] - abs(seen - kernel).sum((2, 3, 4))

    def turned(a: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(a.transpose(0, 2, 3, 1)) if layout is Layout.NHWC else a

    given = run("AdderFusion", [turned(IMAGE), turned(kernel), BIAS[:3]], layout,
                kernel_size=(3, 2), stride=stride, dilation=dilation, pad_list=pads)  # fmt: skip
    np.testing.assert_allclose(given, turned(expected), rtol=1e-5, atol=1e-5)  # sums of 24 numbers


@pytest.mark.parametrize(("name", "given", "attributes", "message"), [
    ("Activation", [X], {"activation_type": 99}, "activation_type 99, which is not known"),
    ("Activation", [X], {"activation_type": 27, "alpha": 0.0}, "must be greater than 0"),
    ("Conv2DFusion", [IMAGE, KERNEL], {"pad_mode": 3}, "pad_mode 3, which is unknown"),
    ("Conv2DFusion", [IMAGE, KERNEL], {"pad_list": (1, 1)}, r"has pads \[1, 1\], but top, bottom, left"),
    ("Conv2DFusion", [IMAGE, KERNEL], {"stride": (1,)}, r"has stride \[1\], but one for height"),
    ("AdderFusion", [IMAGE, IMAGE], {"kernel_size": (9, 8), "group": 2}, "has group 2"),
    ("AdderFusion", [IMAGE, IMAGE], {"kernel_size": (9, 8), "pad_mode": 1}, "pad_mode 1"),
    ("AdderFusion", [IMAGE, IMAGE], {"kernel_size": (8, 9)}, r"has kernel_size \[8, 9\]"),
    ("PadFusion", [MATRIX, np.zeros((2, 2), np.int64)], {"padding_mode": 3}, "padding_mode 3"),
    ("Reshape", [MATRIX], {}, "has no shape"),
    ("Resize", [IMAGE, (1, 2, 3)], {}, "target of shape"),
    ("ConstantOfShape", [None], {"value": (1.0,), "data_type": 43}, "neither an input with the sizes nor"),
    ("QuantDTypeCast", [COUNTS], {}, "integers of which the file does not say"),
    ("DetectionPostProcess", [X, X, X], {"max_classes_per_detection": 2}, "shows 2 classes of a box"),
    ("TensorListReserve", [(-1, 3), 2, 43], {}, r"of shape \[-1, 3\], which must be fixed"),
    ("AudioSpectrogram", [MATRIX], {"window_size": 4, "stride": 1}, "has 3 samples, and a window takes 4"),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(name, given, attributes, message):
    with pytest.raises(Unsupported, match=message):
        results(name, given, **attributes)


def test_tensors_of_a_list_begin_as_zeros():
    np.testing.assert_array_equal(run("TensorListReserve", [(2, 3), 4, 43]), np.zeros((4, 2, 3), np.float32))
    array, flow = results("TensorArray", [3], element_shape=(2,), data_type=34)
    np.testing.assert_array_equal(array, np.zeros((3, 2), np.int32))
    np.testing.assert_array_equal(flow, array)
    assert results("TensorArray", [3], element_shape=(2,))[0].dtype == np.float32


def test_parts_of_a_split():
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    first, second = results("Split", [x.T], axis=1, size_splits=(2, 5))
    np.testing.assert_array_equal(first, x.T[:, :2])
    np.testing.assert_array_equal(second, x.T[:, 2:])
    assert [part.shape for part in results("Split", [x], axis=1, output_num=2)] == [(7, 1)] * 2
    parts = results("SplitWithOverlap", [x], split_dim=0, number_split=2, ratio=(1, 2), extend_top=(1, 1))
    np.testing.assert_array_equal(parts[0], x[:2])
    np.testing.assert_array_equal(parts[1], x[1:])
    plain = results("SplitWithOverlap", [x], split_dim=0, number_split=2, ratio=(1, 2), extend_bottom=(2, 9))
    np.testing.assert_array_equal(plain[0], x[:4])
    np.testing.assert_array_equal(plain[1], x[2:])


@pytest.mark.parametrize("axis", [-1, 0])
def test_the_largest_come_first_with_their_places(axis):
    values, places = results("TopKFusion", [X[0, 0], np.array(2, np.int32)], axis=axis)
    order = np.argsort(-X[0, 0], axis).take(range(2), axis)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(X[0, 0], order, axis))
    assert places.dtype == np.int32


def priors(rows, columns, height, width, sizes, offset) -> np.ndarray:
    """Corners of boxes (width, height) around the places of a feature map, as SSD's PriorBox has them."""
    return np.array([
        [((c + offset) * width / columns - w / 2) / width, ((r + offset) * height / rows - h / 2) / height,
         ((c + offset) * width / columns + w / 2) / width, ((r + offset) * height / rows + h / 2) / height]
        for r in range(rows) for c in range(columns) for w, h in sizes
    ])  # fmt: skip


WIDE, HIGH = (4 * 2**0.5, 4 / 2**0.5), (4 / 2**0.5, 4 * 2**0.5)


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize(("attributes", "image", "sizes", "offset"), [
    ({}, (12, 16), [(4, 4)], 0.5),
    ({"aspect_ratios": (2.0, 1.0, 2.0), "max_sizes": (9,)}, (12, 16), [(4, 4), (6, 6), WIDE, HIGH], 0.5),
    ({"aspect_ratios": (2.0,), "flip": False, "offset": 0.25}, (12, 16), [(4, 4), WIDE], 0.25),
    ({"image_size_h": 30, "image_size_w": 40}, (30, 40), [(4, 4)], 0.5),
    ({"step_h": 5.0, "step_w": 7.0}, (10, 21), [(4, 4)], 0.5),
])  # fmt: skip
def test_prior_boxes_are_those_of_ssd(attributes, image, sizes, offset, layout):
    feature, picture = np.zeros((1, 2, 3, 5), np.float32), np.zeros((1, 12, 16, 3), np.float32)
    if layout is Layout.NCHW:
        feature, picture = feature.transpose(0, 3, 1, 2), picture.transpose(0, 3, 1, 2)
    given = [np.ascontiguousarray(feature), np.ascontiguousarray(picture)]
    boxes = run("PriorBox", given, layout, min_sizes=(4,), variances=(0.1, 0.2, 0.3, 0.4), **attributes)
    assert boxes.shape == (
        (1, 2, 24 * len(sizes), 1) if layout is Layout.NCHW else (1, 24 * len(sizes), 1, 2)
    )
    corners, variances = boxes.reshape(2, -1, 4)
    np.testing.assert_allclose(corners, priors(2, 3, *image, sizes, offset), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variances, np.tile([0.1, 0.2, 0.3, 0.4], (len(corners), 1)), rtol=1e-6)
    clipped = run("PriorBox", given, layout, min_sizes=(4,), clip=True, **attributes).reshape(2, -1, 4)
    np.testing.assert_allclose(clipped[0], corners.clip(0, 1), rtol=1e-6)
    np.testing.assert_allclose(clipped[1], np.full_like(corners, 0.1))
