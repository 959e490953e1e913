"""Operators of Ascend in nodes `Custom`: each against numpy, by what its documentation says."""

from __future__ import annotations

import struct

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from customs import BOTH, CLOSE, HALF, arrays, model, ran, refusal, wide
from onnx import TensorProto, helper

from pinnace.building.build import build_model as build
from pinnace.lowering.graph import compilable
from pinnace.options.settings import Settings
from pinnace.options.target import Target


def normalized(x: np.ndarray, gamma: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    factor = 1 / np.sqrt((wide(x) ** 2).mean(axes, keepdims=True) + epsilon)
    return wide(x) * factor * wide(gamma), factor


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    ("opset", "dtype", "within"), [(13, "f4", CLOSE), (18, "f4", CLOSE), (21, "f2", HALF)]
)
def test_rms_norm(engine, opset, dtype, within):
    x, gamma = arrays(1, (2, 3, 8), (8,), dtype=dtype)
    y, rstd = ran(
        "RmsNorm", {"x": x, "gamma": gamma}, fixed=("gamma",), results=2, opset=opset, engine=engine,
        epsilon=0.01, input_index=[0, 1], optional_input_names=[],
    )  # fmt: skip
    expected, factor = normalized(x, gamma, 0.01)
    assert y.dtype == dtype
    assert rstd.dtype == np.float32
    np.testing.assert_allclose(y, expected, **within)
    np.testing.assert_allclose(rstd, factor, **CLOSE)


def test_rms_norm_over_two_dimensions_and_without_epsilon():
    x, gamma = arrays(2, (2, 3, 4), (3, 4))
    y, rstd = ran("FusedRmsNormNZ", {"x": 1e-3 * x, "gamma": gamma}, results=2)
    expected, factor = normalized(1e-3 * x, gamma, 1e-6)
    np.testing.assert_allclose(y, expected, **CLOSE)
    assert rstd.shape == (2, 1, 1)
    np.testing.assert_allclose(rstd, factor, **CLOSE)


@pytest.mark.parametrize("engine", BOTH)
def test_add_rms_norm(engine):
    x1, x2, gamma = arrays(3, (2, 3, 8), (2, 3, 8), (8,))
    inputs = {"x1": x1, "x2": x2, "gamma": gamma}
    y, rstd, x = ran("AddRmsNorm", inputs, results=3, engine=engine, epsilon=1e-5)
    expected, factor = normalized(x1 + x2, gamma, 1e-5)
    np.testing.assert_allclose(y, expected, **CLOSE)
    np.testing.assert_allclose(rstd, factor, **CLOSE)
    np.testing.assert_allclose(x, x1 + x2, **CLOSE)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("dim", [-1, 1])
@pytest.mark.parametrize("opset", [14, 18])
def test_swiglu(engine, dim, opset):
    (x,) = arrays(4, (2, 6, 8))
    (y,) = ran("SwiGlu", {"x": x}, opset=opset, engine=engine, dim=dim)
    gate, up = np.split(wide(x), 2, dim)
    np.testing.assert_allclose(y, gate / (1 + np.exp(-gate)) * up, **CLOSE)


@pytest.mark.parametrize("engine", BOTH)
def test_gelu(engine):
    (x,) = arrays(5, (2, 6, 8))
    (y,) = ran("FusedGeluTanhNZ", {"x": x}, engine=engine)
    expected = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide(x) + 0.044715 * wide(x) ** 3)))
    np.testing.assert_allclose(y, expected, **CLOSE)


@pytest.mark.parametrize("engine", BOTH)
def test_rotary_mul(engine):
    x, cos, sin = arrays(6, (2, 4, 3, 8), (2, 1, 3, 8), (2, 1, 3, 8))
    inputs = {"x": x, "r1": cos, "r2": sin}
    (y,) = ran("RotaryMul", inputs, engine=engine, output_shapes="4,-1,4,-1,8")
    np.testing.assert_allclose(y, turned(x, cos, sin), **CLOSE)


@pytest.mark.parametrize(("attributes", "heads"), [({"layout": 1}, 2), ({"layout": 3}, 1), ({}, 2)])
def test_apply_rotary_pos_emb(attributes, heads):
    shapes = [
        (2, 3, 3, 8),
        (2, 3, 3, 8),
        *[tuple(1 if i == heads else n for i, n in enumerate((2, 3, 3, 8)))] * 2,
    ]
    q, k, cos, sin = arrays(7, *shapes)
    inputs = {"query": q, "key": k, "cos": cos, "sin": sin}
    given = ran("ApplyRotaryPosEmb", inputs, results=2, rotary_mode="half", **attributes)
    np.testing.assert_allclose(given[0], turned(q, cos, sin), **CLOSE)
    np.testing.assert_allclose(given[1], turned(k, cos, sin), **CLOSE)


def test_norm_and_rotary_of_every_head():
    q, k, gamma_q, gamma_k, cos, sin = arrays(8, (2, 3, 32), (2, 3, 16), (8,), (8,), (2, 3, 4), (2, 3, 4))
    inputs = {"q": q, "k": k, "gamma_q": gamma_q, "gamma_k": gamma_k, "cos": cos, "sin": sin}
    given = ran("FusedQKNormRopeBSH", inputs, results=2, epsilon=1e-6)
    for y, x, gamma in zip(given, (q, k), (gamma_q, gamma_k), strict=True):
        heads, _ = normalized(x.reshape(2, 3, -1, 8), gamma, 1e-6)
        a, b, c, s = heads[..., :4], heads[..., 4:], cos[:, :, None], sin[:, :, None]
        expected = np.concatenate([a * c - b * s, b * c + a * s], -1).reshape(x.shape)
        np.testing.assert_allclose(y, expected, **CLOSE)


@pytest.mark.parametrize(("shape", "opset"), [((2,), 14), ((2, 1), 18)])
@pytest.mark.parametrize("axis", [2, -2])
@pytest.mark.parametrize("tokens", [1, 3])
def test_scatter_writes_from_the_index_of_each_batch_on(shape, opset, axis, tokens):
    cache, new = arrays(14, (2, 3, 8, 4), (2, 3, tokens, 4))
    starts = np.array([5, 2]).reshape(shape)
    (y,) = ran(
        "Scatter", {"var": cache, "indices": starts, "updates": new}, opset=opset, reduce="update", axis=axis
    )
    expected = cache.copy()
    expected[0, :, 5 : 5 + tokens], expected[1, :, 2 : 2 + tokens] = new
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"transpose_x1": 1},
        {"transpose_x2": "true", "transpose_x1": "false"},
        {"transpose_x1": "True", "transpose_x2": "False"},
    ],
)
def test_matmul(engine, flags):
    x1, x2 = arrays(15, (3, 4), (4, 5))
    first = np.ascontiguousarray(x1.T) if flags.get("transpose_x1") in (1, "True") else x1
    second = np.ascontiguousarray(x2.T) if flags.get("transpose_x2") == "true" else x2
    (y,) = ran("MatMulV2", {"x1": first, "x2": second}, engine=engine, **flags)
    np.testing.assert_allclose(y, wide(x1) @ wide(x2), **CLOSE)


def test_ascend_quant_rounds_to_even_and_saturates():
    x = np.array([[-9.0, -0.25, 0.25, 0.75, 1.25, 9.0]], np.float32)
    names = {"src_t": 1, "dst_t": 3}
    (y,) = ran("AscendQuant", {"x": x}, scale=20.0, offset=0.0, **names)
    np.testing.assert_array_equal(y, np.array([[-128, -5, 5, 15, 25, 127]], np.int8))
    (y,) = ran("AscendQuant", {"x": x}, scale=2.0, offset=3.0, dst_type=2, dtype=TensorProto.INT8)
    np.testing.assert_array_equal(y, np.array([[-15, 2, 4, 4, 6, 21]], np.int8))  # of 2.5, 3.5, 4.5 and 5.5
    scale = np.array([1, 2, 4, 8, 16, 32], np.float32)
    (y,) = ran("AscendQuant", {"x": x, "scale": scale}, fixed=("scale",), offset=0.0, **names)
    np.testing.assert_array_equal(y, np.array([[-9, 0, 1, 6, 20, 127]], np.int8))


def packed(*scales: float, dtype=np.int64) -> np.ndarray:
    """float32 in the lower half of integers."""
    return np.array([struct.unpack("<I", struct.pack("<f", scale))[0] for scale in scales], dtype)


def integers(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(-128, 128, shape).astype(np.int8) for shape in shapes]


@pytest.mark.parametrize("engine", BOTH)
def test_quant_batch_matmul(engine):
    x1, x2 = integers(16, (2, 3, 8), (5, 8))
    inputs = {"x1": x1, "x2": x2, "scale": packed(0.03), "offset": None, "bias": None, "pertoken_scale": None}
    (y,) = ran(
        "QuantBatchMatmul", inputs, fixed=("x2", "scale"), engine=engine, transpose_x1="false",
        transpose_x2="true", dtype=TensorProto.FLOAT,
        optional_input_names=["offset", "bias", "pertoken_scale"],
    )  # fmt: skip
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, wide(x1) @ wide(x2).T * np.float32(0.03), **CLOSE)


def test_quant_batch_matmul_v3_adds_an_integer_bias_before_it_scales():
    x1, x2 = integers(17, (3, 8), (8, 2))
    bias, nothing = np.array([1000, -70000], np.int32), np.zeros(2, np.float32)
    inputs = {
        "x1": x1,
        "x2": x2,
        "scale": packed(0.01, 0.002, dtype=np.uint64),
        "offset": nothing,
        "bias": bias,
    }
    fixed = ("x2", "scale", "offset", "bias")
    (y,) = ran("QuantBatchMatmulV3", inputs, fixed=fixed, dtype=TensorProto.FLOAT16)
    expected = (wide(x1) @ wide(x2) + bias) * np.float32([0.01, 0.002])
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, expected, **HALF)
    error = refusal(
        "QuantBatchMatmulV3", inputs | {"offset": nothing + 1}, fixed=fixed, dtype=TensorProto.FLOAT16
    )
    assert "has an offset other than a constant of 0" in error


def test_ascend_dequant():
    x = np.array([[1, -70000, 3000]], np.int32)
    scale = packed(0.5, 0.001, 0.1, dtype=np.uint64)
    (y,) = ran("AscendDequant", {"x": x, "deq_scale": scale}, fixed=("deq_scale",))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, [[0.5, -70, 300]], **HALF)


@pytest.mark.parametrize("opset", [16, 18])
def test_unsorted_segment_sum(opset):
    (x,) = arrays(18, (5, 4))
    ids, count = np.array([2, 0, 2, 3, 0], np.int32), np.array([4], np.int32)
    inputs = {"x": x, "segment_ids": ids, "num_segments": count}
    (y,) = ran("UnsortedSegmentSum", inputs, fixed=("num_segments",), opset=opset)
    expected = np.zeros((4, 4))
    np.add.at(expected, ids, x)
    np.testing.assert_allclose(y, expected, **CLOSE)


X = arrays(19, (2, 8))[0]
HIDES, BYTES = np.zeros((2, 2), bool), np.ones((2, 8), np.int8)
NORM, PRODUCT = {"x": X, "gamma": X[0]}, {"x1": BYTES, "x2": BYTES.T, "scale": X[0, :2]}
ROTATED = ["q", "k", "gamma_q", "gamma_k", "cos", "sin"]
ATTENTION = {"query": X[None, None], "key": X[None, None], "value": X[None, None]}


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "reason"),
    [
        ("RmsNorm", {"x": X, "gamma": X[0], "beta": X[0]}, {}, "has an input 'beta', which is not supported"),
        (
            "RmsNorm",
            {"x": X, "gamma": X[0]},
            {"mode": 3},
            "has an attribute 'mode' (3), which Pinnace does not know",
        ),
        ("RmsNorm", {"x": X}, {}, "argument 'gamma' is missing"),
        ("Unheard", {"x": X}, {}, "Pinnace does not know this operator of Ascend"),
        (
            "RotaryMul",
            {"x": X, "r1": X, "r2": X},
            {"rotary_mode": "quarter"},
            "'quarter', and supported are only",
        ),
        ("SwiGlu", {"x": X}, {"input_names": []}, "which its input_names and input_index do not name"),
        (
            "PromptFlashAttention",
            ATTENTION,
            {"num_heads": 1, "sparse_mode": 2},
            "argument 'sparse_mode' is 2",
        ),
        (
            "PromptFlashAttention",
            ATTENTION,
            {"num_heads": 1, "inner_precise": 2},
            "argument 'inner_precise' is 2",
        ),
        (
            "PromptFlashAttention",
            ATTENTION,
            {"num_heads": 1, "input_layout": "TND"},
            "'input_layout' is 'TND'",
        ),
        ("PromptFlashAttention", ATTENTION, {"num_heads": 3, "num_key_value_heads": 2}, "do not divide them"),
        ("PromptFlashAttention", ATTENTION | {"atten_mask": X}, {"num_heads": 1}, "has a mask of float"),
        (
            "IncreFlashAttention",
            ATTENTION | {"actual_seq_lengths": X},
            {"num_heads": 1},
            "'actual_seq_lengths'",
        ),
        ("IncreFlashAttention", ATTENTION, {"num_heads": 1, "block_size": 16}, "argument 'block_size' is 16"),
        ("AscendQuant", {"x": X}, {"scale": 1.0, "sqrt_mode": 1}, "has an attribute 'sqrt_mode' (1)"),
        ("Scatter", {"var": X, "indices": X, "updates": X}, {"reduce": "add"}, "argument 'reduce' is 'add'"),
        (
            "Scatter",
            {"var": X, "indices": X, "updates": X},
            {"reduce": "update"},
            "several indices for a batch",
        ),
        ("RmsNorm", NORM, {"input_names": ["x", "x"]}, "has two inputs of one name"),
        ("RmsNorm", NORM, {"input_names": ["x"]}, "has 2 inputs, which its input_names"),
        ("RmsNorm", NORM, {"input_index": [0]}, "has 2 inputs, which its input_names"),
        ("RmsNorm", NORM, {"input_index": [0, -1]}, "has 2 inputs, which its input_names"),
        ("RmsNorm", NORM, {"input_names": "x"}, "has input_names 'x', which is no list of str"),
        ("RmsNorm", NORM, {"input_index": ["x"]}, "which is no list of int"),
        ("RmsNorm", NORM, {"results": 3}, "has 3 outputs, but the operator has 2"),
        (
            "FusedQKNormRopeBSH",
            dict.fromkeys(ROTATED, X),
            {},
            "its inputs and attributes do not fit together",
        ),
        (
            "PromptFlashAttention",
            ATTENTION | {"atten_mask": HIDES},
            {"num_heads": 1, "pre_tokens": 65535},
            "shows 65535 keys before a query and 0 after it",
        ),
        (
            "PromptFlashAttention",
            ATTENTION | {"atten_mask": HIDES},
            {"num_heads": 1, "next_tokens": 1},
            "keys before a query and 1 after it",
        ),
        (
            "PromptFlashAttention",
            ATTENTION | {"atten_mask": HIDES[0]},
            {"num_heads": 1},
            "a mask of 1 dimensions",
        ),
        ("PromptFlashAttention", ATTENTION, {"num_heads": 0}, "do not divide them"),
        ("AscendQuant", {"x": X}, {"scale": 1.0, "dtype": TensorProto.UINT8}, "stores uint8, but only int8"),
        ("QuantBatchMatmul", PRODUCT | {"offset": X[0]}, {}, "has an offset other than a constant of 0"),
        ("QuantBatchMatmul", PRODUCT, {"dtype": TensorProto.INT8}, "results in int8, but only floats"),
    ],
)
def test_what_no_test_shows_is_refused_by_name(kind, inputs, attributes, reason):
    error = refusal(kind, inputs, **attributes)
    assert f"Custom:{kind} x1, first at node 'the node'" in error
    assert reason in error


def sampled(image: np.ndarray, x: float, y: float) -> np.ndarray:
    """The pixel of (height, width, size) at a place that may lie between four, or outside, where it is 0."""
    left, top = int(np.floor(x)), int(np.floor(y))
    total = np.zeros(image.shape[2])
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
            total += (1 - abs(x - column)) * (1 - abs(y - row)) * wide(image[row, column])
    return total


@pytest.mark.parametrize("opset", [17, 20])
def test_deformable_attention(opset):
    sizes = np.array([[4, 3], [2, 5]])
    value, weights = arrays(21, (2, 22, 2, 4), (2, 3, 2, 2, 3))
    places = np.random.default_rng(22).uniform(-0.1, 1.1, (2, 3, 2, 2, 3, 2)).astype(np.float32)
    inputs = {
        "value": value, "value_spatial_shapes": sizes, "value_level_start_index": np.array([0, 12]),
        "sampling_locations": places, "attention_weights": weights,
    }  # fmt: skip
    (y,) = ran("MultiScaleDeformableAttnFunction", inputs, fixed=("value_spatial_shapes",), opset=opset)
    expected = np.zeros((2, 3, 2, 4))
    for batch, query, head, level, point in np.ndindex(places.shape[:-1]):
        height, width = sizes[level]
        start = 12 * level
        image = value[batch, start : start + height * width, head].reshape(height, width, 4)
        x, at = places[batch, query, head, level, point]
        seen = sampled(image, x * width - 0.5, at * height - 0.5)
        expected[batch, query, head] += weights[batch, query, head, level, point] * seen
    np.testing.assert_allclose(y, expected.reshape(2, 3, 8), rtol=1e-4, atol=1e-5)  # places in float32


def test_axes_may_be_attributes_beside_such_nodes():
    (x,) = arrays(23, (3, 4))
    unsqueeze = helper.make_node("Unsqueeze", ["x"], ["u"], axes=[1])
    names = {"input_names": ["x", "r1", "r2"], "output_names": ["y"], "input_index": [0, 1, 2]}
    custom = helper.make_node("Custom", ["u", "u", "u"], ["y"], type="RotaryMul", **names)
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    graph = helper.make_graph([unsqueeze, custom], "g", ports, [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    executable = build(made.SerializeToString(), None, Target(threads=1), Settings())
    (y,) = executable.execution().run([x])
    np.testing.assert_allclose(y, turned(x, x, x)[:, None], **CLOSE)


def test_results_that_nobody_reads_are_not_computed():
    x, gamma = arrays(24, (2, 8), (8,))
    made = onnx.load_from_string(model("RmsNorm", {"x": x, "gamma": gamma}, results=2))
    del made.graph.output[1]
    graph = compilable(ir.from_proto(made), "a model", None)
    assert "Reciprocal" not in {node.op_type for node in graph.model.graph}
    assert graph.interface.outputs[0].shape == (2, 8)
