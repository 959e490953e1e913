"""Models that bare onnxruntime refuses, or computes wrongly, give what ONNX's reference gives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from pinnace.engines.onnxruntime.kernel_types import cast_for_kernels
from pinnace.graph.builder import Builder

TOLERANCE = 1e-6
"""Some steps of float32, in which float64 is computed where there is no other kernel."""

NUMBERS = np.array([[-30.0, -3.5, -1.0, 0.0, 0.25], [1.0, 2.5, 3.0, 20.0, 90.0]])
IMAGE = np.random.default_rng(5).normal(size=(1, 2, 12, 11)).astype(np.float32)


def compare(run_model, graph: str, *arrays: np.ndarray, opset: int = 21) -> None:
    text = f'<ir_version: 10, opset_import: ["": {opset}]> {graph}'
    model = onnx.parser.parse_model(text)
    given = run_model(model.SerializeToString(), arrays)
    named = {i.name: array for i, array in zip(model.graph.input, arrays, strict=True)}
    for y, expected in zip(given, ReferenceEvaluator(model).run(None, named), strict=True):
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(y.astype("f8"), expected.astype("f8"), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("operator", ["Elu", "HardSigmoid", "HardSwish", "Mish", "Selu", "Softplus"])
@pytest.mark.parametrize("kind", ["double", "float"])
def test_functions_of_floats(run_model, operator, kind):
    x = NUMBERS.astype({"double": "f8", "float": "f4"}[kind])
    # Nothing tells the type of what lies between.
    graph = f"g ({kind}[2,5] x) => ({kind}[2,5] y) {{ a = Neg(x) h = {operator}(a) y = Neg(h) }}"
    compare(run_model, graph, x)


@pytest.mark.parametrize("opset", [14, 16, 18, 20, 22])
@pytest.mark.parametrize(
    "operator", ["Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Selu", "Softplus", "ThresholdedRelu"]
)
def test_float64_as_bare_onnxruntime_computes_it(run_model, operator, opset):
    """A cast would round to float32, though there is a kernel or a definition."""
    text = f'<ir_version: 10, opset_import: ["": {opset}]>'
    model = onnx.parser.parse_model(f"{text} g (double[2,5] x) => (double[2,5] y) {{ y = {operator}(x) }}")
    (y,) = run_model(model.SerializeToString(), [NUMBERS])
    try:
        (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": NUMBERS})
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        (expected,) = ReferenceEvaluator(model).run(None, {"x": NUMBERS})
        np.testing.assert_allclose(y, expected, rtol=TOLERANCE, atol=TOLERANCE)
    else:
        np.testing.assert_allclose(y, expected, rtol=1e-14, atol=1e-16)  # some steps of float64


def test_an_operand_of_a_type_that_a_function_hides(run_model):
    text = """<ir_version: 10, opset_import: ["": 16, "local": 1]>
    g (int64[2,3] x, int64 slope) => (int64[2,3] y) { a = local.F(x) y = PRelu(a, slope) }
    <domain: "local", opset_import: ["": 16]> F (x) => (y) { y = Neg(x) }"""
    x = np.array([[-4, 0, 3], [7, -1, 2]])
    (y,) = run_model(onnx.parser.parse_model(text).SerializeToString(), [x, np.array(2)])
    np.testing.assert_array_equal(y, [[4, 0, -6], [-14, 1, -4]])


def test_integers_within_a_branch(run_model):
    graph = """g (bool c, int64[3] x) => (int64[3] y) {
        d = Identity(x)
        z = If (c) <then_branch = t () => (a) { a = Relu(d) }, else_branch = e () => (b) { b = Neg(d) }>
        y = Relu(z)
    }"""
    for condition in True, False:
        compare(run_model, graph, np.array(condition), np.array([-5, 0, 1 << 40]))


def test_numbers_of_two_bytes(run_model):
    graph = """g (bfloat16[2,5] x) => (bfloat16[5] y) <int64[1] axes = {0}> {
        a = Mul(x, x)  y = ReduceMax <keepdims = 0> (a, axes)
    }"""
    compare(run_model, graph, NUMBERS.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
def test_halves_that_are_scattered(run_model, reduction):
    graph = f"""g (float16[4] x, float16[2] u) => (float16[4] y, float16[4] z) <int64[2] i = {{1, 3}}> {{
        y = ScatterElements <reduction = "{reduction}"> (x, i, u)
        two = Constant <value_ints = [2, 1]> ()  places = Reshape(i, two)
        z = ScatterND <reduction = "{reduction}"> (x, places, u)
    }}"""
    compare(run_model, graph, np.array([1, 2, 3, 4], "f2"), np.array([5, 0.5], "f2"))


@pytest.mark.parametrize(("kind", "reduction"), [("float16", "none"), ("float", "add")])
def test_what_has_a_kernel_is_scattered_without_casts(kind, reduction):
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["": 21]>
    g ({kind}[4] x, int64[2] i, {kind}[2] u) => ({kind}[4] y) {{
        y = ScatterElements <reduction = "{reduction}"> (x, i, u)
    }}""")
    cast_for_kernels(model)
    assert [node.op_type for node in model.graph] == ["ScatterElements"]


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", ["12,11", "a,b"])
@pytest.mark.parametrize("strides", ["[1,1]", "[2,3]"])
def test_convolutions_with_holes(run_model, pad, size, strides):
    weight = np.random.default_rng(6).normal(size=(3, 2, 2, 3)).astype("f")
    graph = f"""g (float[1,2,{size}] x, float[3,2,2,3] w) => (float[1,3,c,d] y) {{
        y = Conv <auto_pad = "{pad}", dilations = [3,2], strides = {strides}> (x, w)
    }}"""
    compare(run_model, graph, IMAGE, weight)


@pytest.mark.parametrize("size", [8, 9, None])
@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("operator", ["AveragePool", "Conv", "MaxPool"])
def test_windows_that_step_over_elements(run_model, operator, pad, size):
    """Padding is never negative: windows start at the first element (`auto_pad` of ONNX's operators)."""
    x = np.random.default_rng(0).normal(size=(1, 1, size or 8, size or 8)).astype(np.float32)
    own, inputs = ("", "x, w") if operator == "Conv" else ("kernel_shape = [1,1],", "x")
    n = size or "n"
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[1,1,{n},{n}] x) => (float[1,1,"a","b"] y) <float[1,1,1,1] w = {{1}}> {{
            y = {operator} <{own} auto_pad = "{pad}", strides = [4,2]> ({inputs})
        }}""")
    (y,) = run_model(model.SerializeToString(), [x])
    np.testing.assert_array_equal(y, x[:, :, ::4, ::2])


def test_the_logarithm_of_a_small_sigmoid(run_model):
    graph = "g (float[2,5] x) => (float[2,5] y) { s = Sigmoid(x) y = Log(s) }"
    given = run_model(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}').SerializeToString(),
        [NUMBERS.astype("f")],
    )
    np.testing.assert_allclose(given[0], -np.logaddexp(0, -NUMBERS), rtol=TOLERANCE, atol=TOLERANCE)


def test_lowerings_write_what_onnx_has(run_model):
    b = Builder()
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([2]))
    assert b.dtype(b.op("Relu", x)) is ir.DataType.INT64
    assert [node.op_type for node in b.nodes] == ["Relu"]
