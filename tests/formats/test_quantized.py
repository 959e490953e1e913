"""Quantized models of MindSpore Lite's converter, in both kinds of file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinnace.building.build import build_model as build
from pinnace.errors import ModelFormatError, UnsupportedModelError
from pinnace.formats import read
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.program import Layout
from pinnace.program_structure import quantized_axis
from pinnace.weights.source import Source

DATA = Path(__file__).parent.parent / "data" / "lite_quantized"
RUN_BY_LITE = sorted(p for p in DATA.iterdir() if p.suffix in (".ms", ".mindir") and "_8bit" not in p.stem)
RUN_BY_LITE += [DATA / "dense_8bit_lite.mindir"]


def run(path, inputs):
    executable = build(path, None, Target(threads=1), Settings.load())
    arrays = [
        x.transpose(0, 2, 3, 1) if x.ndim == 4 and x.shape != port.shape else x
        for x, port in zip(inputs, executable.inputs, strict=True)
    ]
    return executable.execution().run([np.ascontiguousarray(a) for a in arrays])[0]


def channels_first(x):
    """Inputs of `.ms` images have their channels last, those of `.mindir` first."""
    return x.transpose(0, 3, 1, 2) if x.ndim == 4 else x


@pytest.mark.parametrize("path", RUN_BY_LITE, ids=lambda p: p.name)
def test_gives_what_mindspore_lite_gives(path):
    golden = np.load(DATA / f"{path.stem.removesuffix('_lite')}.npz")
    x = golden["x0"] if path.suffix == ".ms" else channels_first(golden["x0"])
    # MindSpore Lite quantizes from the least to the largest value, ONNX from zero: where all are positive, as
    # after the network's Sigmoid, a step of 1/255 of the range is the difference.
    # Kernels of integers round halves of a step, 0.0006, otherwise.
    tolerance = {"network": 0.02, "tflite": 0.0007}.get(path.stem.partition("_")[0], 1e-5)
    np.testing.assert_allclose(run(path, [x]), golden["y0"], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("end", [".ms", "_lite.mindir"])
def test_each_channel_has_its_own_scale(end):
    golden = np.load(DATA / "deconv_8bit.npz")
    result = run(DATA / f"deconv_8bit{end}", [golden["x0"]])
    # Weights of 8 bits are off by 1/254 of the largest of their channel, and these differ by 100 in size: by
    # the scale of another channel most results would be off by more than they are themselves.
    size = np.abs(golden["y0"]).max((0, 2, 3), keepdims=True)
    assert (np.abs(result - golden["y0"]) / size).max() < 0.02


@pytest.mark.parametrize("name", ["product_8bit", "network_8bit", "two_dynamic"])
def test_results_have_the_names_of_the_original_in_both_kinds_of_file(name):
    ms, mindir = (read(Source.of_file(DATA / f"{name}{end}")) for end in (".ms", "_lite.mindir"))
    assert ms.output_names == mindir.output_names


@pytest.mark.parametrize("name", ["product_8bit", "network_8bit"])
def test_weights_are_the_same_in_both_kinds_of_file(name):
    shape = (3, 24) if name.startswith("product") else (1, 3, 16, 16)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    results = [run(DATA / f"{name}{end}", [x]) for end in (".ms", "_lite.mindir")]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_products_of_dynamic_quantization_run_on_integers(tmp_path):
    import onnx_ir as ir
    import onnxruntime as ort

    from pinnace.formats import read
    from pinnace.lowering.lower import lower
    from pinnace.weights.source import Source

    model = ir.serde.serialize_model(lower(read(Source.of_file(DATA / "product_dynamic_lite.mindir"))))
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(model.SerializeToString(), options)
    optimized = ir.load(tmp_path / "optimized.onnx")
    assert {n.op_type for n in optimized.graph} & {"QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}


def test_rubbish_for_a_zero_point_is_refused(write_ms):
    quantized = {"scale": 0.02, "zeroPoint": 554118659}
    tensors = [
        {"name": "x", "dims": [2], "dataType": 43},
        {"name": "q", "dims": [2], "dataType": 32, "quantParams": [quantized]},
    ]
    node = {
        "name": "n",
        "primitive": {"value": ("QuantDTypeCast", {})},
        "inputIndex": [0],
        "outputIndex": [1],
    }
    file = write_ms(allTensors=tensors, nodes=[node], inputIndex=[0], outputIndex=[1])
    with pytest.raises(ModelFormatError, match=r"allTensors\[1\].quantParams: 'q' is INT8 .* 554118659"):
        build(file, None, Target(threads=1), Settings.load())


def test_int8_inputs_and_outputs_are_integers_for_the_user(write_ms):
    step = {"scale": 0.5, "zeroPoint": -2}
    tensors = [{"name": n, "dims": [3], "dataType": 32, "quantParams": [step]} for n in "xy"]
    node = {"name": "n", "primitive": {"value": ("Abs", {})}, "inputIndex": [0], "outputIndex": [1]}
    file = write_ms(allTensors=tensors, nodes=[node], inputIndex=[0], outputIndex=[1])
    executable = build(file, None, Target(threads=1), Settings.load())
    (result,) = executable.execution().run([np.array([-6, -2, 120], np.int8)])
    assert result.dtype == np.int8
    np.testing.assert_array_equal(result, [2, -2, 120])


def test_plain_weights_may_leave_their_bits_open(write_ms):
    """As the converter does where its search for a number of bits per layer ended without one."""
    step = {"scale": 0.5, "zeroPoint": 0, "numBits": 0}
    weight = np.array([[-6, 4], [100, 2]], np.int8)
    tensors = [
        {"name": "x", "dims": [1, 2], "dataType": 43},
        {"name": "w", "dims": [2, 2], "dataType": 32, "quantParams": [step], "data": weight.tobytes()},
        {"name": "y", "dims": [1, 2], "dataType": 43},
    ]
    node = {
        "name": "n",
        "primitive": {"value": ("MatMulFusion", {})},
        "inputIndex": [0, 1],
        "outputIndex": [2],
        "quantType": 4,
    }
    file = write_ms(allTensors=tensors, nodes=[node], inputIndex=[0], outputIndex=[2])
    np.testing.assert_array_equal(run(file, [np.array([[2, 1]], np.float32)]), [[44, 5]])


def test_custom_operators_are_refused_by_their_own_name(write_ms):
    tensors = [{"name": n, "dims": [3], "dataType": 43} for n in "xy"]
    value = ("Custom", {"type": "FastAttention"})
    node = {"name": "n", "primitive": {"value": value}, "inputIndex": [0], "outputIndex": [1]}
    file = write_ms(allTensors=tensors, nodes=[node], inputIndex=[0], outputIndex=[1])
    with pytest.raises(UnsupportedModelError, match="Custom:FastAttention x1, first at node 'n'"):
        build(file, None, Target(threads=1), Settings.load())


@pytest.mark.parametrize(
    ("primitive", "position", "attributes", "axis"),
    [
        ("MatMulFusion", 0, {}, -2),
        ("MatMulFusion", 1, {}, -1),
        ("MatMulFusion", 0, {"transpose_a": True}, -1),
        ("MatMulFusion", 1, {"transpose_b": True}, -2),
        ("MatMulFusion", 0, {"transpose_b": True}, -2),
        ("MatMulFusion", 2, {"transpose_b": True}, 0),
        ("Gather", 0, {}, 3),
        ("Conv2DFusion", 1, {}, 0),
    ],
)
@pytest.mark.parametrize("layout", Layout)
def test_scales_differ_along_the_axis_of_the_results_of_a_node(primitive, position, attributes, axis, layout):
    """The columns of what it gives, but for the transposed convolution, which has its outputs second."""
    assert quantized_axis(primitive, position, attributes, layout, 3) == axis
    transposed = quantized_axis("Conv2dTransposeFusion", 1, attributes, layout)
    assert transposed == (1 if layout is Layout.NCHW else -1)
