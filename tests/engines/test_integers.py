"""Quantized models run in integer kernels: what the engines have made of their graphs says so."""

from __future__ import annotations

import platform
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pinnace.building.build import build_model as build
from pinnace.engines import rule
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.errors import PinnaceWarning
from pinnace.formats import read
from pinnace.lowering.graph import compilable
from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.weights.source import Source

DATA = Path(__file__).parents[1] / "data"
HEAD = '<ir_version: 10, opset_import: ["": 21]>'
CONV, MATMUL = (1, 8, 12, 12), (8, 64)


def quantized_net(kind: str, largest: int = 127, signed: bool = False) -> onnx.ModelProto:
    """Two layers with a Relu between them: QDQ, as quantizers write it; `signed` ones give int8."""
    convolves = kind == "Conv"
    zeros = {"128": np.int8(0), "0": np.int8(-128)} if signed else {"128": np.uint8(128), "0": np.uint8(0)}
    nodes, weights, random = [], {"s": np.float32(0.05)} | zeros, np.random.default_rng(4)
    before, zero = "x", "128"
    for layer in ("first", "second"):
        shape = (8, 8, 3, 3) if convolves else (64, 64)
        weights[f"{layer}.w"] = random.integers(-largest, largest + 1, shape, np.int8)
        weights[f"{layer}.s"] = np.float32(0.001)
        names = [f"{layer}.{part}" for part in ("q", "d", "v", "y", "r")]
        nodes += [
            helper.make_node("QuantizeLinear", [before, "s", zero], [names[0]]),
            helper.make_node("DequantizeLinear", [names[0], "s", zero], [names[1]]),
            helper.make_node("DequantizeLinear", [f"{layer}.w", f"{layer}.s"], [names[2]]),
            helper.make_node(kind, names[1:3], [names[3]], **({"pads": [1] * 4} if convolves else {})),
            helper.make_node("Relu", [names[3]], [names[4]]),
        ]
        before, zero = names[4], "0"  # what a Relu gives is never below zero
    nodes += [
        helper.make_node("QuantizeLinear", [before, "s", zero], ["last"]),
        helper.make_node("DequantizeLinear", ["last", "s", zero], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, CONV if convolves else MATMUL)
        for name in "xy"
    ]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def kept_operators(model, folder: Path) -> Counter[str]:
    """The operators of the graph that the compile cache keeps of a model for onnxruntime."""
    target = Target(threads=1, provider="onnxruntime")
    build(model, None, target, Settings.load(options={"ms_cache": {"serialize_path": str(folder)}})).close()
    (path,) = folder.rglob("graph.onnx")
    kept = onnx.load_model(str(path), load_external_data=False)
    return Counter(node.op_type for node in kept.graph.node)


def openvino_kernels(model: bytes | Path) -> set[tuple[str, str]]:
    """Kinds of layers of the model that OpenVINO runs, with the type in which each computes."""
    pytest.importorskip("openvino")
    from pinnace.engines.openvino import session
    from pinnace.engines.openvino.conversion import encoded

    source = Source.of_buffer(model) if isinstance(model, bytes) else Source.of_file(model)
    made = encoded(compilable(read(source), source.name, source.folder and str(source.folder)), source)
    layers = session.compiled(made.read({}), Target(threads=1)).get_runtime_model().get_ops()
    keys = "layerType", "primitiveType", "runtimePrecision"
    facts = ([layer.get_rt_info()[key].astype(str) for key in keys] for layer in layers)
    # A convolution of i8 may have a primitive for f32, `brgconv_avx512_f32`.
    return {(kind, "f32" if name.endswith("_f32") else precision) for kind, name, precision in facts}


@pytest.mark.parametrize(
    ("kind", "kernels"),
    [("Conv", {"QLinearConv"}), ("MatMul", {"QLinearMatMul", "MatMulIntegerToFloat", "QGemm"})],
)
def test_networks_of_onnx_on_onnxruntime(kind, kernels, tmp_path):
    kept = kept_operators(quantized_net(kind).SerializeToString(), tmp_path)
    assert sum(kept[kernel] for kernel in kernels) == 2
    assert kind not in kept
    assert f"Fused{kind}" not in kept


@pytest.mark.skipif(platform.machine() != "x86_64", reason="OpenVINO has other kernels on Arm")
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("kind", "layer"), [("Conv", "Convolution"), ("MatMul", "FullyConnected")])
def test_networks_of_onnx_on_openvino(kind, layer, signed):
    ran = openvino_kernels(quantized_net(kind, 63, signed).SerializeToString())
    products = {precision for name, precision in ran if name == layer}
    assert products <= {"u8", "i8"}
    if not products:  # where the processor has VNNI, one layer multiplies twice, with bytes of weights
        assert kind == "MatMul"
        assert not sums_of_bytes_overflow()
        assert ran >= {("Subgraph", "f32"), ("Const", "i8")}


@pytest.mark.parametrize(
    ("kind", "features", "engine"),
    [
        ("Conv", {"avx2", "avx512_vnni"}, "openvino"),
        ("MatMul", {"avx2", "avx512_vnni", "amx_int8"}, "openvino"),
        ("MatMul", {"avx2", "avx512_vnni"}, "onnxruntime"),
        ("Conv", {"avx2"}, "onnxruntime"),
    ],
)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the features are those of x86")
def test_quantized_networks_get_the_engine_whose_kernels_are_faster(kind, features, engine, monkeypatch):
    monkeypatch.setattr(rule, "features", lambda: features)
    monkeypatch.setattr(rule, "sums_of_bytes_overflow", lambda: "avx512_vnni" not in features)
    monkeypatch.setattr(rule, "_SMALL", 0)
    graph = ir.from_proto(quantized_net(kind)).graph
    choice, *others = rule.candidates(graph, Target(threads=1), ("onnxruntime", "openvino"))
    assert choice.provider == engine
    assert bool(others) == ("avx512_vnni" in features)  # sums that overflow are not measured either


@pytest.mark.skipif(not sums_of_bytes_overflow(), reason="this processor has VNNI")
def test_openvino_leaves_what_would_overflow_to_onnxruntime():
    pytest.importorskip("openvino")
    target = Target(threads=1, provider="openvino")
    with pytest.warns(PinnaceWarning, match="openvino .* lacks DequantizeLinear; onnxruntime"):
        wide = build(quantized_net("Conv").SerializeToString(), None, target, Settings())
    narrow = build(quantized_net("Conv", 64).SerializeToString(), None, target, Settings())
    assert wide.info["engine"].startswith("onnxruntime")
    assert narrow.info["engine"].startswith("openvino")


@pytest.mark.parametrize("kind", ["Conv", "MatMul"])
def test_what_integer_kernels_compute(kind):
    model = quantized_net(kind)
    x = np.random.default_rng(5).standard_normal(CONV if kind == "Conv" else MATMUL).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    executable = build(model.SerializeToString(), None, Target(threads=1, provider="onnxruntime"), Settings())
    (y,) = executable.execution().run([x])
    # A value halfway between two steps of 0.05 may fall to either side, in each of the two layers.
    np.testing.assert_allclose(y, expected, rtol=0, atol=0.1001)
    assert (np.abs(y - expected) < 1e-6).mean() > 0.98


@pytest.mark.parametrize(
    ("file", "kernel"),
    [
        ("ms_primitives/int8_conv.ms", "QLinearConv"),  # with a Relu whose zero is not the lowest integer
        ("ms_primitives/int8_depthwise.ms", "QLinearConv"),  # likewise with Relu6
        ("ms_primitives/int8_matmul.ms", "QGemm"),
        ("ms_primitives/int8_sigmoid.ms", "QLinearSigmoid"),
        ("lite_quantized/product_dynamic.ms", "QGemm"),
        ("lite_quantized/product_dynamic_lite.mindir", "QGemm"),
        ("lite_quantized/network_dynamic.ms", "QGemm"),  # with a bias in floats
        ("lite_quantized/network_dynamic_lite.mindir", "QGemm"),
    ],
)
def test_files_of_mindspore_lite(file, kernel, tmp_path):
    assert kept_operators(DATA / file, tmp_path)[kernel] == 1


@pytest.mark.parametrize(("file", "kernel"), [("network_8bit.ms", "Conv"), ("product_8bit.ms", "Gemm")])
def test_weights_alone_in_integers_are_computed_with_as_floats(file, kernel, tmp_path):
    kept = kept_operators(DATA / "lite_quantized" / file, tmp_path)
    assert kept[kernel] or kept[f"Fused{kernel}"]
    assert not {op for op in kept if op.startswith(("QLinear", "QGemm", "Dequantize"))}


# -- the rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "zero", "left"),
    [
        ("Relu(c)", 0, 0),  # what the integers' own ends do
        ("Relu(c)", 100, 1),
        ("Clip(c, lo, hi)", 0, 1),  # 6 is 96 steps
        ("Clip(c, , top)", 0, 0),  # 255 steps
        ("Clip(c, , near)", 0, 1),
        ("Clip(c, small)", 0, 1),
        ("Clip(c, low)", 255, 0),
        ("Clip(c, lo)", 255, 1),
        ("Clip(c, lo)", 0, 0),
        ("Clip(c, most)", 0, 1),  # only the run knows where
        ("Clip(c, , most)", 0, 1),
    ],
)
def test_an_activation_goes_after_the_integers(act, zero, left):
    text = f"""{HEAD} g (uint8[1,2,5,5] q, int8[2,2,3,3] k, float most) => (uint8[1,5,5,2] y)
    <float s = {{0.0625}}, float lo = {{0}}, float hi = {{6}}, uint8 z = {{{zero}}}, uint8 m = {{128}},
     float top = {{15.9375}}, float near = {{15.875}}, float small = {{0.0625}}, float low = {{-15.9375}}>
    {{ d = DequantizeLinear(q, s, m)  w = DequantizeLinear(k, s)
       c = Conv(d, w)  a = {act}  t = Transpose <perm = [0, 2, 3, 1]> (a)  y = QuantizeLinear(t, s, z) }}"""
    random = np.random.default_rng(6)
    given = {"k": random.integers(-9, 9, (2, 2, 3, 3), np.int8), "most": np.float32(2)}
    given["q"] = random.integers(0, 256, (1, 2, 5, 5), np.uint8)
    model = ir.from_onnx_text(text)
    before = ReferenceEvaluator(ir.serde.serialize_model(model)).run(None, given)
    rewrite(model)
    kinds = Counter(node.op_type for node in model.graph)
    assert kinds["Relu"] + kinds["Clip"] == left
    conv = next(node for node in model.graph if node.op_type == "Conv")
    assert [use.node.op_type for use in conv.outputs[0].uses()] == ["Transpose"]
    # Order is kept by quantization: to the last bit.
    np.testing.assert_array_equal(
        ReferenceEvaluator(ir.serde.serialize_model(model)).run(None, given)[0], before[0]
    )


QUANTIZED = {
    "the form": "c = Conv(d, w) a = Relu(c) y = QuantizeLinear(a, s, z)",
    "of a sum": "c = Add(d, w) a = Relu(c) y = QuantizeLinear(a, s, z)",
    "moved": "v = Transpose <perm = [1,0,2,3]> (w) c = Conv(d, v) a = Relu(c) y = QuantizeLinear(a, s, z)",
}
FLOATS = {
    "an activation that is read twice": "c = Conv(d, w) a = Relu(c) n = Neg(a) y = QuantizeLinear(a, s, z)",
    "a result that is read twice": "c = Conv(d, w) n = Neg(c) a = Relu(c) y = QuantizeLinear(a, s, z)",
    "a factor of floats": "c = Conv(x, w) a = Relu(c) y = QuantizeLinear(a, s, z)",
    "a weight of floats": "c = Conv(d, x) a = Relu(c) y = QuantizeLinear(a, s, z)",
    "no zero point": "c = Conv(d, w) a = Relu(c) y = QuantizeLinear(a, s)",
    "an operator without kernels": "c = Mul(d, w) a = Relu(c) y = QuantizeLinear(a, s, z)",
    "another activation": "c = Conv(d, w) a = Sigmoid(c) y = QuantizeLinear(a, s, z)",
    "a scale that the run knows": "c = Conv(d, w) a = Relu(c) y = QuantizeLinear(a, r, z)",
}


@pytest.mark.parametrize(
    ("body", "goes"), [*((b, 1) for b in QUANTIZED.values()), *((b, 0) for b in FLOATS.values())]
)
def test_an_activation_goes_only_where_an_integer_kernel_computes_before_it(body, goes):
    model = ir.from_onnx_text(
        f"""{HEAD} g (uint8[2,2,1,1] q, int8[2,2,1,1] k, float[2,2,1,1] x, float r) => (uint8[2,2,1,1] y)
        <float s = {{0.5}}, uint8 z = {{0}}> {{
            d = DequantizeLinear(q, s, z)  w = DequantizeLinear(k, s)  {body}
        }}"""
    )
    rewrite(model)
    left = sum(node.op_type in ("Relu", "Sigmoid") for node in model.graph)
    assert left == 1 - goes


@pytest.mark.parametrize(
    ("gemm", "apart"),
    [
        ("Gemm(d, w, c)", True),
        ("Gemm <transB = 1> (d, w, c)", True),
        ("Gemm(d, w)", False),
        ("Gemm(d, w, b)", False),  # a bias of integers has kernels
        ("Gemm(x, w, c)", False),
        ("Gemm(d, x, c)", False),
        ("Gemm <alpha = 2.0> (d, w, c)", False),
        ("Gemm <beta = 2.0> (d, w, c)", False),
    ],
)
def test_a_bias_of_floats_is_added_after_a_product_of_integers(gemm, apart):
    model = ir.from_onnx_text(
        f"""{HEAD} g (uint8[2,2] q, uint8[2,2] k, float[2,2] x) => (float[2,2] y)
        <float s = {{0.5}}, uint8 z = {{3}}, float[2] c = {{1,2}}, int32[2] i = {{1,2}},
        float t = {{0.25}}> {{
            d = DequantizeLinear(q, s, z)  w = DequantizeLinear(k, s, z)  b = DequantizeLinear(i, t)
            y = {gemm}
        }}"""
    )
    feed = {"q": np.array([[1, 2], [3, 9]], np.uint8), "k": np.array([[4, 5], [6, 0]], np.uint8)}
    feed["x"] = np.ones((2, 2), np.float32)
    (before,) = ReferenceEvaluator(ir.to_proto(model)).run(None, feed)
    rewrite(model)
    assert [node.op_type for node in model.graph].count("Add") == apart
    np.testing.assert_array_equal(ReferenceEvaluator(ir.to_proto(model)).run(None, feed)[0], before)


@pytest.mark.parametrize("kind", ["int16", "uint16"])
def test_an_activation_stays_before_integers_that_have_no_kernels(kind):
    model = ir.from_onnx_text(
        f"""{HEAD} g (uint8[1,2,5,5] q, int8[2,2,3,3] k) => ({kind}[1,2,3,3] y)
        <float s = {{0.05}}, {kind} z = {{0}}> {{
            d = DequantizeLinear(q, s)  w = DequantizeLinear(k, s)
            c = Conv(d, w)  a = Relu(c)  y = QuantizeLinear(a, s, z)
        }}"""
    )
    rewrite(model)
    (quantize,) = (node for node in model.graph if node.op_type == "QuantizeLinear")
    assert quantize.inputs[0].producer().op_type == "Relu"


def test_a_sum_with_a_vector_of_one_scale_runs():
    """onnxruntime refuses it as the scale of its sum of integers."""
    model = ir.from_onnx_text(
        f"""{HEAD} g (uint8[4] q, uint8[4] k) => (uint8[4] y)
        <float s = {{1}}, float[1] t = {{2}}, uint8 z = {{0}}, float lo = {{3}}> {{
            d = DequantizeLinear(q, s)  w = DequantizeLinear(k, s)
            c = Add(d, w)  a = Clip(c, lo)  y = QuantizeLinear(a, t, z)
        }}"""
    )
    data = ir.to_proto(model).SerializeToString()
    executable = build(data, None, Target(threads=1, provider="onnxruntime"), Settings())
    q, k = np.array([[0, 2, 8, 255], [0, 2, 4, 255]], np.uint8)
    (y,) = executable.execution().run([q, k])
    assert y.tolist() == [2, 2, 6, 255]


def test_a_stack_of_matrices_with_zero_points_of_columns_runs():
    """onnxruntime refuses these zero points in the run, where the other factor is quantized dynamically."""
    model = ir.from_onnx_text(
        f"""{HEAD} g (float[2,3,4] x, int8[2,4,4] k) => (float[2,3,4] y)
        <float[4] s = {{0.5, 0.5, 0.5, 0.5}}, int8[4] z = {{0, 0, 0, 0}}> {{
            q, t, o = DynamicQuantizeLinear(x)  d = DequantizeLinear(q, t, o)
            w = DequantizeLinear<axis = 2>(k, s, z)  y = MatMul(d, w)
        }}"""
    )
    k = np.random.default_rng(8).integers(-127, 128, (2, 4, 4), np.int8)
    value = model.graph.inputs.pop()
    value.const_value = ir.tensor(k)
    model.graph.register_initializer(value)
    data = ir.to_proto(model).SerializeToString()
    executable = build(data, None, Target(threads=1, provider="onnxruntime"), Settings())
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 255 / 23
    (y,) = executable.execution().run([x])
    np.testing.assert_allclose(y, x @ (k * np.float32(0.5)), rtol=0, atol=4 * 127 * 0.5)  # half a step of x


def test_a_gemm_had_to_have_a_bias_before_set_11():
    """It is left as it was."""
    random = np.random.default_rng(8)
    model = ir.from_onnx_text(
        """<ir_version: 5, opset_import: ["": 10]> g (uint8[2,5] q, uint8[5,4] k) => (float[2,4] y)
        <float s = {0.05}, uint8 z = {128}, float[4] c = {1,2,3,4}> {
            d = DequantizeLinear(q, s, z)  w = DequantizeLinear(k, s, z)  y = Gemm(d, w, c)
        }"""
    )
    q, k = (random.integers(0, 256, shape, np.uint8) for shape in ((2, 5), (5, 4)))
    data = ir.to_proto(model).SerializeToString()
    executable = build(data, None, Target(threads=1, provider="onnxruntime"), Settings())
    (y,) = executable.execution().run([q, k])
    # Twelve bits of integers, and a few roundings of float32.
    expected = (q - 128.0) @ (k - 128.0) * 0.05**2 + [1, 2, 3, 4]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_weights_of_all_eight_bits_do_not_overflow(provider):
    """Processors without VNNI add two products in 16 bits: 2 * 255 * 127 does not fit."""
    w = np.full((64, 64), 127, np.int8)
    text = f"""{HEAD} g (float[1,64] x) => (float[1,64] y) <float s = {{1}}, uint8 z = {{0}}>
    {{ q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  v = DequantizeLinear(w, s)
       y = MatMul(d, v) }}"""
    proto = ir.to_proto(ir.from_onnx_text(text, initializers=[ir.tensor(w, name="w")]))
    if provider == "openvino":
        pytest.importorskip("openvino")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PinnaceWarning)  # that onnxruntime stands in
        executable = build(proto.SerializeToString(), None, Target(threads=1, provider=provider), Settings())
    (y,) = executable.execution().run([np.full((1, 64), 255, np.float32)])
    np.testing.assert_array_equal(y, np.full((1, 64), 64 * 255 * 127))


def bytes_at_the_ends(kind, shape, seed):
    ends = np.iinfo(kind)
    return np.random.default_rng(seed).choice([ends.min, ends.max], shape).astype(kind)


PRODUCTS = {
    "MatMulInteger": "i = MatMulInteger(a, b)",
    "MatMulInteger with zero points": "i = MatMulInteger(a, b, a_z, b_z)",
    "ConvInteger": """c = Reshape(a, image) w = Transpose(b) k = Unsqueeze(w, ends)
        r = ConvInteger(c, k) i = Reshape(r, flat)""",
    "QLinearMatMul": "q = QLinearMatMul(a, s, a_z, b, s, b_z, wide, y_z) i = DequantizeLinear(q, wide, y_z)",
    "MatMul of two steps": "d = DequantizeLinear(a, s, a_z) e = DequantizeLinear(b, s, b_z) i = MatMul(d, e)",
    "Gemm without zero points": "d = DequantizeLinear(a, s) e = DequantizeLinear(b, s) i = Gemm(d, e)",
}


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("second", ["int8", "uint8"])
@pytest.mark.parametrize("first", ["int8", "uint8"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_sums_of_bytes_do_not_overflow(product, first, second, constant, opset):
    if (product, first, second) == ("QLinearMatMul", "int8", "uint8"):
        pytest.skip("onnxruntime has no kernel")
    a, b = bytes_at_the_ends(first, (16, 64), 4), bytes_at_the_ends(second, (64, 32), 5)
    model = ir.from_onnx_text(
        f"""<ir_version: 8, opset_import: ["": {opset}]>
        g ({first}[16,64] a, {second}[64,32] b) => (float y)
        <float s = {{1}}, {first} a_z = {{0}}, {second} b_z = {{0}}, {first} y_z = {{100}},
        float wide = {{20000}}, int64[4] image = {{16,64,1,1}}, int64[2] ends = {{2,3}},
        int64[2] flat = {{16,32}}> {{ {PRODUCTS[product]} y = Cast <to = 1> (i) }}"""
    )
    if constant:
        model.graph.initializers["b"] = model.graph.inputs.pop()
        model.graph.initializers["b"].const_value = ir.tensor(b, name="b")
    target = Target(threads=1, provider="onnxruntime")
    executable = build(ir.to_proto(model).SerializeToString(), None, target, Settings())
    (y,) = executable.execution().run([a] if constant else [a, b])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if product == "QLinearMatMul":
        ends = np.iinfo(first)
        expected = (np.clip(np.rint(expected / 20000) + 100, ends.min, ends.max) - 100) * 20000
    np.testing.assert_array_equal(y, expected)
