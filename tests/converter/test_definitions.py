"""Operators that ONNX defines as functions keep in converted files what their definitions lose.

Definitions subtract great numbers, exceed a type in between, or compute float64 in float32. What is expected
is computed in float64.
"""

import numpy as np
import onnx
import pytest
from onnx.helper import make_tensor_value_info, np_dtype_to_tensor_dtype
from tests.converted import run

from pinnace.converter.convert import Conversion, convert
from pinnace.types import ModelType
from pinnace.weights.source import Source

pytestmark = pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE], ids=["mindir", "ms"])
FAR = np.random.default_rng(0).standard_normal((2, 8, 4, 4)) + 1000
SCALES, SHIFTS = np.arange(1.0, 9.0), np.arange(8.0)
GREAT = np.array([[3000.0, 4000.0], [-1000.0, -1000.0]])
_STEP = 1e-4
"""Numbers of float32 at 1000 are 6e-5 apart, and distances from their mean are as exact."""


def results(nodes, feeds, kind, folder, opset=22):
    """Return the results y, z, a of a converted model whose inputs are these arrays by their names."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g () => () {{ {nodes} }}')
    for name, x in feeds.items():
        port = make_tensor_value_info(name, np_dtype_to_tensor_dtype(x.dtype), x.shape)
        model.graph.input.append(port)
    made = [name for node in model.graph.node for name in node.output if name in "yza"]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    source = Source.of_buffer(model.SerializeToString())
    return run(convert(source, None, folder / "m", Conversion(save_type=kind)).files[0], *feeds.values())


def normalized(x, axes, epsilon=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_groups_with_a_great_mean_are_normalized(dtype, kind, tmp_path):
    feeds = {"x": FAR.astype(dtype), "s": SCALES.astype(dtype), "b": SHIFTS.astype(dtype)}
    (y,) = results("y = GroupNormalization<num_groups=2>(x, s, b)", feeds, kind, tmp_path)
    rows = normalized(feeds["x"].reshape(4, -1), 1).reshape(FAR.shape)
    assert y.dtype == dtype
    wanted = rows * SCALES.reshape(8, 1, 1) + SHIFTS.reshape(8, 1, 1)
    np.testing.assert_allclose(
        y, wanted, rtol=3 * np.finfo(dtype).eps, atol=8 * _STEP + np.finfo(dtype).eps * 8
    )


def test_groups_before_set_21_have_a_scale_each(kind, tmp_path):
    x, scale, shift = FAR.astype(np.float32), np.float32([3, 2]), np.float32([1, 5])
    feeds = {"x": x, "s": scale, "b": shift}
    (y,) = results("y = GroupNormalization<num_groups=2>(x, s, b)", feeds, kind, tmp_path, 18)
    wanted = normalized(x.reshape(2, 2, -1), 2) * scale.reshape(2, 1) + shift.reshape(2, 1)
    np.testing.assert_allclose(y, wanted.reshape(x.shape), atol=3 * _STEP)


def test_a_group_of_equal_numbers_is_its_shift(kind, tmp_path):
    x, ones, half = np.full((1, 8, 16, 16), 1000.1, np.float32), np.ones(8), np.full(8, 0.5)
    feeds = {"x": x, "s": ones.astype(np.float32), "b": half.astype(np.float32)}
    (y,) = results("y = GroupNormalization<num_groups=2, epsilon=1.0>(x, s, b)", feeds, kind, tmp_path)
    np.testing.assert_allclose(y, np.full_like(x, 0.5), atol=_STEP)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_mean_and_variance_far_from_zero_are_normalized(dtype, kind, tmp_path):
    x = FAR.astype(dtype)
    (y,) = results("y = MeanVarianceNormalization(x)", {"x": x}, kind, tmp_path)
    assert y.dtype == dtype
    wanted = normalized(x, (0, 2, 3), 0)
    np.testing.assert_allclose(
        y, wanted, atol=1e-9 if dtype is np.float64 else _STEP + 4 * np.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_layer_gives_its_mean_and_deviation_beside_a_great_mean(dtype, kind, tmp_path):
    x, scale, axes = FAR.astype(dtype), np.full((8, 4, 4), 2, dtype), (1, 2, 3)
    nodes = "y, z, a = LayerNormalization<axis=1>(x, s)"
    y, mean, inverse = results(nodes, {"x": x, "s": scale}, kind, tmp_path)
    assert (y.dtype, mean.dtype, inverse.dtype) == (dtype, np.float32, np.float32)
    wide, off = x.astype(np.float64), 2 * _STEP + 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(y, 2 * normalized(x, axes), atol=1e-9 if dtype is np.float64 else off)
    np.testing.assert_allclose(mean, wide.mean(axes, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(wide.var(axes, keepdims=True) + 1e-5), rtol=1e-5)


def test_the_root_mean_square_of_float64_has_its_digits(kind, tmp_path):
    (y,) = results("y = RMSNormalization(x, s)", {"x": FAR, "s": SCALES[:4]}, kind, tmp_path, 23)
    wanted = FAR / np.sqrt((FAR**2).mean(3, keepdims=True) + 1e-5) * SCALES[:4]
    np.testing.assert_allclose(y, wanted, rtol=1e-10)  # epsilon is a float32


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_logarithm_of_a_sum_of_exponentials_beyond_the_type_is_finite(dtype, keepdims, kind, tmp_path):
    x = np.array([*GREAT, [np.inf, 0], [-np.inf, -np.inf], [0, -np.inf], [np.nan, 0]]).astype(dtype)
    nodes = f"i = Constant<value_ints=[1]>() y = ReduceLogSumExp<keepdims={keepdims}>(x, i)"
    (y,) = results(nodes, {"x": x}, kind, tmp_path)
    wanted = np.logaddexp(*x[:-1].T.astype(np.float64))
    wanted = np.append(wanted, np.nan).astype(dtype)
    np.testing.assert_allclose(y, wanted.reshape(y.shape), rtol=3 * np.finfo(dtype).eps)
    assert y.ndim == 1 + keepdims


def test_a_length_has_the_digits_of_float64_and_squares_beyond_float16(kind, tmp_path):
    for dtype in (np.float64, np.float16):
        x = (GREAT * 1.1).astype(dtype)
        (y,) = results("y = ReduceL2<keepdims=0>(x)", {"x": x}, kind, tmp_path)
        np.testing.assert_allclose(y, np.linalg.norm(x.astype(np.float64)), rtol=np.finfo(dtype).eps)


def test_logarithms_of_sums_of_integers_are_integers(kind, tmp_path):
    x = np.arange(1, 9, dtype=np.int32).reshape(2, 4)
    y, z = results("y = ReduceLogSum(x) z = ReduceLogSumExp(x)", {"x": x}, kind, tmp_path)
    assert (y.dtype, z.dtype) == (np.int32, np.int32)
    assert (y.item(), z.item()) == (3, 8)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_integers_shrink_by_a_part_of_one(dtype, kind, tmp_path):
    x = np.arange(6).astype(dtype)
    (y,) = results("y = Shrink<lambd=1.5, bias=0.5>(x)", {"x": x}, kind, tmp_path)
    assert y.tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["hanning", "hamming", "blackman"])
def test_a_window_of_float64_has_its_digits(name, kind, tmp_path):
    operator = {"hanning": "Hann", "hamming": "Hamming", "blackman": "Blackman"}[name] + "Window"
    nodes = f"y = {operator}<periodic=0, output_datatype=11>(n)"
    (y,) = results(nodes, {"n": np.array(1000)}, kind, tmp_path)
    at = np.linspace(0, 2 * np.pi, 1000)
    wanted = 25 / 46 - 21 / 46 * np.cos(at) if name == "hamming" else getattr(np, name)(1000)
    np.testing.assert_allclose(y, wanted, atol=1e-12)


def test_zeros_alone_are_quantized_by_scale_1(kind, tmp_path):
    feeds = {"x": np.zeros(4, np.float32)}
    y, scale, zero = results("y, z, a = DynamicQuantizeLinear(x)", feeds, kind, tmp_path)
    assert (y.tolist(), scale.item(), zero.item()) == ([0] * 4, 1, 0)  # as onnxruntime has it
