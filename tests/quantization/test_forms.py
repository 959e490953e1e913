"""Graphs with fewer bits compute what onnxruntime's own quantizers make of the same file."""

import logging

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.building.spec import Stages, lowered
from pinnace.engines.onnxruntime.engine import Onnxruntime
from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.quantization import operators
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
