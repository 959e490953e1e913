"""Graphs with fewer bits compute what onnxruntime's own quantizers make of the same file."""

import logging

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.building.spec import Stages, lowered
from pinnace.engines.onnxruntime.engine import Onnxruntime
from pinnace.engines.protocol import HALF_WEIGHTS
from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.quantization import apply, operators
from pinnace.quantization.int8 import rounded
from pinnace.quantization.operators import candidates, matrix, normalized
from pinnace.quantization.ranges import ranges
from pinnace.quantization.scheme import METHODS, QuantizationScheme


def normal(name, *shape, scale=1.0):
    """Random numbers of a name, the same whichever tests ran before."""
    return np.random.default_rng(list(name.encode())).normal(scale=scale, size=shape).astype(np.float32)


PRODUCTS = {"x": normal("products", 3, 96)}
PICTURES = {"x": normal("pictures", 2, 8, 12, 12)}


def weight(name, *shape):
    return numpy_helper.from_array(normal(name, *shape, scale=0.2), name)


def save(path, nodes, shape, weights, opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """A product, and a Gemm of a turned weight with a bias."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "b", "c"], ["y"], transB=1),
    ]
    weights = [weight("a", 96, 80), weight("b", 40, 80), weight("c", 40)]
    return save(tmp_path_factory.mktemp("m") / "products.onnx", nodes, [len(PRODUCTS["x"]), 96], weights)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Convolutions with a normalization, a sum and a pool, and a product at the end."""
    norm = [weight("s", 16), weight("o", 16), weight("m", 16)]
    norm.append(numpy_helper.from_array(1 + normal("v", 16, scale=0.1), "v"))
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["h"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["h", "s", "o", "m", "v"], ["n"], epsilon=1e-3),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Conv", ["r", "b", "c"], ["k"], pads=[1] * 4, group=2),
        helper.make_node("Add", ["k", "r"], ["sum"]),
        helper.make_node("GlobalAveragePool", ["sum"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "d", "e"], ["y"], transB=1),
    ]
    weights = [weight("a", 16, 8, 3, 3), weight("b", 16, 8, 3, 3), weight("c", 16), *norm]
    weights += [weight("d", 10, 16), weight("e", 10)]
    return save(tmp_path_factory.mktemp("m") / "pictures.onnx", nodes, [2, 8, 12, 12], weights)


def outputs(path, inputs):
    """The results of onnxruntime alone for a file."""
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def opened(path, form="", **target):
    made_for = Target(threads=1, form=form, **target)
    return open_model(path, None, made_for, Settings.load("", {"ms_cache": {"serialize_path": "off"}}))


def in_form(path, form, inputs, **target):
    executable = build(opened(path, form.text if form else "", **target)).executable
    try:
        return executable.execution().run(list(inputs.values()))[0]
    finally:
        executable.close()


def error(got, wanted):
    return np.linalg.norm(got - wanted) / np.linalg.norm(wanted)


def calibrated(path, inputs):
    found = ranges(lowered(opened(path), Stages()), Onnxruntime(), [list(inputs.values())])
    return QuantizationScheme("int8", (), found)


@pytest.mark.parametrize(("method", "bits"), [("weights8", 8), ("weights4", 4)])
def test_weights_in_blocks_are_those_of_onnxruntimes_quantizer(products, tmp_path, method, bits):
    logging.disable(logging.INFO)  # it tells every node
    try:
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        # it takes products only, not the Gemm
        quantizer = MatMulNBitsQuantizer(onnx.load(products), bits=bits, block_size=32, accuracy_level=4)
        quantizer.process()
    finally:
        logging.disable(logging.NOTSET)
    onnx.save(quantizer.model.model, tmp_path / "theirs.onnx")
    theirs = outputs(tmp_path / "theirs.onnx", PRODUCTS)
    ours = in_form(products, QuantizationScheme(method, ("y",)), PRODUCTS)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)  # the same kernels, maybe fused otherwise
    whole = error(in_form(products, QuantizationScheme(method), PRODUCTS), outputs(products, PRODUCTS))
    assert 0 < whole < 4 / 2**bits  # steps are a 2^bits-th of about four standard deviations


def test_weights_of_sixteen_bits_err_by_their_rounding(products):
    pytest.importorskip("openvino")
    ours = in_form(products, QuantizationScheme("weights16"), PRODUCTS, provider="openvino")
    assert 0 < error(ours, outputs(products, PRODUCTS)) < 2e-3  # a float16 has 11 bits; sums are in float32


def test_weights_of_sixteen_bits_take_half_in_the_compile_cache(products, tmp_path, monkeypatch):
    pytest.importorskip("openvino")
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path))
    target = Target(threads=1, form=QuantizationScheme("weights16").text, provider="openvino")
    for cache in ("written", "loaded"):
        built = build(open_model(products, None, target, Settings()))
        got = built.executable.execution().run([PRODUCTS["x"]])[0]
        built.executable.close()
        assert built.facts["cache"] == cache
        assert 0 < error(got, outputs(products, PRODUCTS)) < 2e-3
    (kept,) = tmp_path.glob("entries/*/model.bin")
    halves, bias = 2 * (96 * 80 + 40 * 80), 4 * 40
    assert kept.stat().st_size == pytest.approx(halves + bias, abs=200)


def in_bytes(weight):
    """A weight [inner, columns] rounded to 255 steps between the ends of each 32 rows, or of all."""
    inner, columns = weight.shape
    blocks = weight.reshape(-1, inner if inner % 32 else 32, columns)
    steps = np.abs(blocks).max(axis=1, keepdims=True) / 127
    return (np.rint(blocks / steps) * steps).reshape(weight.shape)


@pytest.mark.parametrize("kept", ["h", "y"])
def test_openvino_holds_weights_in_bytes_and_others_in_halves_and_rounds_no_inputs(products, kept):
    pytest.importorskip("openvino")
    a, b, bias = map(numpy_helper.to_array, onnx.load(products).graph.initializer)
    first, second = (
        (w.astype(np.float16) if name == kept else in_bytes(w)) for name, w in (("h", a), ("y", b.T))
    )
    wanted = np.maximum(PRODUCTS["x"] @ first, 0) @ second + bias
    ours = in_form(
        products, QuantizationScheme("held8", (kept,), rest="weights16"), PRODUCTS, provider="openvino"
    )
    # Sums in other orders; inputs rounded to bytes would be 5e-3 away, either weight in float32 1e-4.
    assert error(ours, wanted) < 2e-6


def test_dynamic_integers_are_as_close_as_those_of_onnxruntimes_quantizer(products, tmp_path):
    from onnxruntime.quantization import quantize_dynamic

    # Without VNNI both keep weights to 7 bits, so that sums of products of bytes fit into 16.
    quantize_dynamic(
        products, tmp_path / "theirs.onnx", per_channel=True, reduce_range=sums_of_bytes_overflow()
    )
    wanted = outputs(products, PRODUCTS)
    theirs = error(outputs(tmp_path / "theirs.onnx", PRODUCTS), wanted)
    ours = error(in_form(products, QuantizationScheme("dynamic8"), PRODUCTS), wanted)
    assert 0 < ours < 1.5 * theirs  # another rounding of the same weights, by chance a little off


def test_dynamic_integers_have_a_step_for_each_channel(tmp_path):
    w = normal("channels", 96, 80) * np.geomspace(1, 1e4, 80, dtype=np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = save(tmp_path / "a.onnx", [node], [3, 96], [numpy_helper.from_array(w, "w")])
    ours, wanted = in_form(path, QuantizationScheme("dynamic8"), PRODUCTS), PRODUCTS["x"] @ w
    away = np.abs(ours - wanted).max(0) / np.abs(wanted).max(0)
    assert 0 < away.max() < 0.1  # 96 roundings to 7 bits of weights and to 8 of inputs


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_calibrated_integers_are_as_close_as_those_of_onnxruntimes_quantizer(pictures, tmp_path, provider):
    pytest.importorskip(provider)
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [PICTURES]

        def get_next(self):
            return self.left.pop() if self.left else None

    steps = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(
        pictures, tmp_path / "theirs.onnx", Reader(), reduce_range=sums_of_bytes_overflow(), **steps
    )
    wanted = outputs(pictures, PICTURES)
    theirs = error(outputs(tmp_path / "theirs.onnx", PICTURES), wanted)
    ours = error(in_form(pictures, calibrated(pictures, PICTURES), PICTURES, provider=provider), wanted)
    assert 0 < ours < 1.5 * theirs


def test_ranges_are_the_ends_of_what_operators_read(pictures):
    found = calibrated(pictures, PICTURES).ranges
    assert found["x"] == (PICTURES["x"].min(), PICTURES["x"].max())
    assert found.keys() == {"x", "r", "k", "sum", "f"}
    assert found["r"][0] == 0
    more = ranges(lowered(opened(pictures), Stages()), Onnxruntime(), [[PICTURES["x"]], [3 * PICTURES["x"]]])
    assert more["x"] == (3 * PICTURES["x"].min(), 3 * PICTURES["x"].max())


def test_operators_are_those_with_weights_and_what_is_between_convolutions(pictures, products):
    graph = lowered(opened(pictures), Stages()).model
    assert operators(graph, "int8") == ["n", "k", "sum", "p", "y"]
    assert operators(graph, "weights8") == ["y"]
    assert operators(lowered(opened(products), Stages()).model, "int8") == ["h", "y"]


@pytest.mark.parametrize("method", METHODS)
def test_what_is_kept_stays_as_it_is(pictures, method):
    names = operators(lowered(opened(pictures), Stages()).model, method)
    form = QuantizationScheme(method, tuple(names), calibrated(pictures, PICTURES).ranges)
    ours = in_form(pictures, form, PICTURES)
    # Another engine may run it, which adds in another order; 16 bits would be 1e-3 away.
    np.testing.assert_allclose(ours, in_form(pictures, None, PICTURES), rtol=1e-5, atol=1e-6)


def test_a_file_of_an_old_operator_set_has_no_integers(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "a"], ["y"])]
    old = save(tmp_path / "old.onnx", nodes, [3, 96], [weight("a", 96, 80)], opset=9)
    graph = lowered(opened(old), Stages()).model
    assert operators(graph, "int8") == operators(graph, "dynamic8") == []
    assert operators(graph, "weights8") == ["y"]


def test_the_text_of_a_form_gives_it_back():
    form = QuantizationScheme("int8", ("a", "b"), {"x": (-1.5, 2.0)}, 0.25)
    mixed = QuantizationScheme("held8", ("a",), rest="weights16")
    assert QuantizationScheme.of(mixed.text) == mixed
    assert QuantizationScheme.of(form.text) == form
    assert str(form) == "8 bits, calibrated, 25% of the operators"
    assert str(QuantizationScheme("weights8")) == "weights of 8 bits"
    assert str(QuantizationScheme("held8", share=0.5, rest="weights16")) == (
        "weights of 8 bits, 50% of the operators, else weights of 16 bits"
    )


def test_a_form_that_does_not_build_leaves_the_model_as_it_is(products):
    blocks = QuantizationScheme("weights8").text  # OpenVINO has no such product
    with pytest.warns(match="runs as it is, without fewer bits"):
        executable = build(opened(products, blocks, provider="openvino")).executable
    try:
        assert executable.info["engine"].startswith("openvino")
        ours = executable.execution().run(list(PRODUCTS.values()))[0]
    finally:
        executable.close()
    np.testing.assert_allclose(
        ours, outputs(products, PRODUCTS), rtol=1e-4, atol=1e-4
    )  # sums in other orders


HELD = {"w": (8, 8), "small": (7, 9), "cube": (1, 8, 8), "vec": (64,), "k": (8, 8, 1, 1), "line": (8, 4, 2)}
HELD |= dict.fromkeys("bstmv", (8,))


def of_text(body, opset=21, **ranges):
    """A model of products of x or z and of convolutions of p, with constants of many shapes."""
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>
        g (float[8,8] x, float[8,8] z, float[1,8,5,5] p, float[1,4,9] l, float[8] free) => (y) {{ {body} }}"""
    )
    for value in {v for node in model.graph for v in node.inputs if v is not None and v.name in HELD}:
        array = np.abs(normal(value.name, *HELD[value.name])) + 0.5
        value.const_value, value.shape = ir.tensor(array, name=value.name), ir.Shape(array.shape)
        value.type = ir.TensorType(ir.DataType.FLOAT)
        model.graph.register_initializer(value)
    return model


NORM = "BatchNormalization(c, s, t, m, v)"
PRODUCT_METHODS = (*METHODS, "stored")
CONVOLUTION_METHODS = ("bits16", "int8", "stored")


@pytest.mark.parametrize(
    ("body", "methods", "names"),
    [
        ("y = MatMul(x, w)", PRODUCT_METHODS, ["y"]),
        ("y = Gemm(x, w)", PRODUCT_METHODS, ["y"]),
        ("y = Gemm <transB = 1> (x, w, b)", PRODUCT_METHODS, ["y"]),
        ("y = Gemm <alpha = 1.0, beta = 1.0> (x, w, free)", PRODUCT_METHODS, ["y"]),
        ("y = Gemm <alpha = 2.0> (x, w)", (), []),
        ("y = Gemm <beta = 2.0> (x, w, b)", (), []),
        ("y = Gemm <alpha = 2.0, beta = 2.0> (x, w, b)", (), []),
        ("y = Gemm <transA = 1> (x, w)", (), []),
        ("y = MatMul(x, small)", (), []),  # 63 elements
        ("y = MatMul(x, vec)", (), []),
        ("y = MatMul(x, cube)", (), []),
        ("y = MatMul(w, x)", (), []),
        ("y = com.microsoft.MatMul(x, w)", (), []),
        ("y = Conv(p, k)", CONVOLUTION_METHODS, ["y"]),
        ("y = Conv(l, line)", CONVOLUTION_METHODS, ["y"]),
        ("y = Conv(p, k, b)", CONVOLUTION_METHODS, ["y"]),
        ("y = Conv(p, k, free)", (), []),
        ("c = Conv(p, k) y = " + NORM, CONVOLUTION_METHODS, ["y"]),
        ("c = Conv(p, k) y = BatchNormalization(c, free, t, m, v)", CONVOLUTION_METHODS, ["c"]),
        ("c = Conv(p, k) u = Neg(c) y = " + NORM, CONVOLUTION_METHODS, ["c"]),
        ("c = Conv(p, k) y, u, o = BatchNormalization <training_mode = 1> (c, s, t, m, v)",
         CONVOLUTION_METHODS, ["c"]),
    ],
)  # fmt: skip
def test_the_operators_with_weights_that_a_method_changes(body, methods, names):
    for method in PRODUCT_METHODS:
        wanted = names if method in methods else []
        assert [one.name for one in candidates(of_text(body), method)] == wanted, method


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("c = Conv(p, k) y = MaxPool <kernel_shape = [1,1]> (c)", ["c", "y"]),
        ("y = MaxPool <kernel_shape = [1,1]> (p)", []),
        (
            "c = Conv(p, k) a = AveragePool <kernel_shape = [2,2]> (c) y = GlobalAveragePool(a)",
            ["c", "a", "y"],
        ),
        ("c = Conv(p, k) r = Relu(c) y = Add(r, p)", ["c", "y"]),
        ("c = Conv(p, k) r = Relu(c) q = Clip(r) y = Add(p, q)", ["c", "y"]),
        ("c = Conv(p, k) n = BatchNormalization(c, s, t, m, v) r = Relu(n) y = Add(p, r)", ["n", "y"]),
        ("c = Conv(p, k) r = Sigmoid(c) y = Add(r, p)", ["c"]),
        ("c = Conv(p, k) y = GlobalAveragePool(c)", ["c", "y"]),
        ("c = MatMul(x, w) y = Add(c, z)", ["c"]),
    ],
)
def test_what_stands_after_convolutions_computes_in_integers(body, names):
    assert [one.name for one in candidates(of_text(body), "int8")] == names
    assert [one.name for one in candidates(of_text(body), "stored")] == names[:1]


@pytest.mark.parametrize(("method", "first"), [("held8", 7), ("dynamic8", 11), ("int8", 13)])
def test_methods_need_operator_sets_unless_they_are_for_a_file(method, first):
    for opset, found in ((first - 1, []), (first, ["y"])):
        model = of_text("y = MatMul(x, w)", opset)
        assert operators(model, method) == found
        assert [one.name for one in candidates(model, method, for_file=True)] == ["y"]


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("c = Conv(p, k) y = Relu(c)", "y"),
        ("c = Conv(p, k) n = BatchNormalization(c, s, t, m, v) y = Clip(n)", "y"),
        ("c = Conv(p, k) y = Sigmoid(c)", "c"),
        ("c = Conv(p, k) u = Neg(c) y = Relu(c)", "c"),
    ],
)
def test_an_operator_ends_after_its_activation(body, end):
    (operator,) = candidates(of_text(body), "stored")
    assert operator.end.name == end


@pytest.mark.parametrize("bias", ["", ", b"])
@pytest.mark.parametrize("epsilon", ["", "<epsilon = 0.5>"])
def test_a_normalization_goes_into_weight_and_bias(bias, epsilon):
    model = of_text(f"c = Conv(p, k{bias}) y = {NORM.replace('(', f' {epsilon} (')}")
    (operator,) = candidates(model, "stored")
    weight, offset = normalized(operator)
    p = normal("p", 1, 8, 5, 5)
    feed = {"p": p, "x": np.zeros((8, 8), "f"), "z": np.zeros((8, 8), "f"), "l": np.zeros((1, 4, 9), "f")}
    (expected,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {**feed, "free": np.zeros(8, "f")})
    given = np.einsum("oi,bihw->bohw", weight[:, :, 0, 0], p) + offset.reshape(1, -1, 1, 1)
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-4)


def test_the_matrix_of_a_product_has_the_rows_of_its_input():
    for form, turned in (("", False), ("<transB = 0>", False), ("<transB = 1>", True)):
        (operator,) = candidates(of_text(f"y = Gemm {form} (x, w)"), "stored")
        weight = np.abs(normal("w", 8, 8)) + 0.5
        np.testing.assert_array_equal(matrix(operator.node), weight.T if turned else weight)


@pytest.mark.parametrize("bits", [2, 4, 7, 8, 9, 16])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_weights_are_rounded_to_half_a_step_of_their_channel(bits, axis):
    weight = normal("rounded", 3, 4, 5) * np.array([1, 10, 100, 1000], np.float32)[:, None]
    weight[0], weight[:, 0] = 0, 0
    whole, scales = rounded(weight, axis, bits)
    most = 2 ** (bits - 1) - 1
    others = tuple(i for i in range(3) if i != axis)
    steps = np.abs(weight).max(axis=None if axis is None else others, keepdims=True) / most
    assert scales.shape == (() if axis is None else (weight.shape[axis],))
    np.testing.assert_allclose(scales.reshape(steps.shape), np.maximum(steps, 1e-20), rtol=1e-6)
    assert whole.dtype == (np.int8 if bits <= 8 else np.int16)
    assert np.abs(whole).max() == most
    assert (np.abs(whole * steps - weight) <= steps * 0.5001).all()


@pytest.mark.parametrize(
    ("ends", "step", "zero"),
    [((-1, 3), 4 / 255, 64), ((1, 3), 3 / 255, 0), ((-3, -1), 3 / 255, 255), ((0, 0), 1e-20, 0)],
)
def test_steps_of_activations_hold_zero_and_both_ends(ends, step, zero):
    model = of_text("y = MatMul(x, w)")
    apply(model, QuantizationScheme("int8", (), {"x": ends}))
    (node,) = (node for node in model.graph if node.op_type == "QuantizeLinear")
    given = [value.const_value.numpy().item() for value in node.inputs[1:]]
    assert given == [pytest.approx(step), zero]


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_biases_keep_their_size_beside_small_steps(scale):
    """A bias of many steps needs larger ones: an int32 holds two billion."""
    model = of_text("y = Gemm(x, w, b)")
    apply(model, QuantizationScheme("int8", (), {"x": (-scale, scale)}))
    bias = np.abs(normal("b", 8)) + 0.5
    (node,) = (
        n for n in model.graph if n.op_type == "DequantizeLinear" and n.inputs[0].dtype.name == "INT32"
    )
    whole, steps = (value.const_value.numpy() for value in node.inputs[:2])
    np.testing.assert_allclose(whole.astype(np.float64) * steps, bias, atol=0.51 * steps.max() + 1e-7)
    assert steps.max() < 1e-2


@pytest.mark.parametrize(("method", "known"), [("weights16", True), ("weights8", False)])
def test_weights_beyond_float16_stay_in_graphs(method, known):
    model = of_text("y = MatMul(x, w)")
    value = model.graph.initializers["w"]
    value.const_value = ir.tensor(np.full((8, 8), 65504, np.float32), name="w")
    apply(model, QuantizationScheme(method))
    assert "w" not in model.graph.initializers or not model.graph.initializers["w"].uses()
    model = of_text("y = MatMul(x, w)")
    model.graph.initializers["w"].const_value = ir.tensor(np.full((8, 8), 65536, np.float32), name="w")
    apply(model, QuantizationScheme(method))
    assert (model.graph[-1].inputs[1] is model.graph.initializers.get("w")) == known


@pytest.mark.parametrize("method", METHODS)
def test_engines_are_told_of_weights_in_halves_alone(method):
    for form in (QuantizationScheme(method), QuantizationScheme("held8", rest=method)):
        model = of_text("y = MatMul(x, w)")
        apply(model, form)
        assert bool(model.meta.get(HALF_WEIGHTS)) == (method == "weights16")
