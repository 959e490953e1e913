"""Nodes that a plan keeps in float32 on OpenVINO, where the others are computed in 16 bits."""

import os

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from pinnace.building.build import build_model as build
from pinnace.options.settings import Settings
from pinnace.options.target import Target

openvino = pytest.importorskip("openvino")
opset = pytest.importorskip("openvino.opset13")

MODELS = {
    "convolution": ("1,32,14,14", "32,32,3,3", "h = Conv <pads = [1, 1, 1, 1]> (x, w, b) y = Clip(h)"),
    "sum": ("1,32,14,14", "32,32,3,3", "c = Conv <pads = [1, 1, 1, 1]> (x, w, b) h = Add(c, x) y = Relu(h)"),
    "normalized": (
        "1,32,14,14",
        "32,32,3,3",
        "c = Conv <pads = [1, 1, 1, 1]> (x, w) h = BatchNormalization(c, s, b, b, s) y = Relu(h)",
    ),
    "depthwise": (
        "1,32,14,14",
        "32,1,3,3",
        "h = Conv <group = 32, pads = [1, 1, 1, 1]> (x, w, b) y = Relu(h)",
    ),
    "product": ("1,96,32", "32,32", "h = MatMul(x, w) y = Relu(h)"),
    "product with a bias": ("1,96,32", "32,32", "c = MatMul(x, w) h = Add(c, b) y = Relu(h)"),
    "gemm": ("96,32", "32,32", "h = Gemm <transB = 1> (x, w, b) y = Relu(h)"),
    "product of inputs": (
        "1,96,32",
        "1,32,32",
        "t = Transpose <perm = [0, 2, 1]> (x) h = MatMul(x, t) y = Relu(h)",
    ),
    "softmax": ("1,96,32", "32,32", "p = Softmax(x) h = MatMul(p, w) y = Relu(h)"),
    "softmax of a product": ("1,96,32", "32,32", "p = MatMul(x, w) h = Softmax(p) y = Neg(h)"),
    "normalization": ("1,96,32", "32,32", "p = LayerNormalization(x, s, b) h = MatMul(p, w) y = Relu(h)"),
    "tanh": ("1,96,32", "32,32", "p = MatMul(x, w) h = Tanh(p) y = Neg(h)"),
}
"""Shapes of x and w, and nodes of which all but the last are planned."""


def made(name):
    shape, weight, body = MODELS[name]
    x, w = ([int(size) for size in text.split(",")] for text in (shape, weight))
    given = f"float[{shape}] x, float[{weight}] w, float[32] b, float[32] s"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({given}) => (float y) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for node in proto.graph.node:
        node.name = node.output[0]
    random = np.random.default_rng(1)
    arrays = {"w": random.normal(size=w), "b": random.uniform(0.5, 1, 32), "s": random.uniform(0.5, 1, 32)}
    for value in [value for value in proto.graph.input if value.name in arrays]:
        array = arrays[value.name].astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, value.name))
        proto.graph.input.remove(value)
    return proto, random.normal(size=x).astype(np.float32)


def run(proto, x, plan=(), **target):
    """The result without and with the compile cache, which exports and imports the compiled model."""
    for path in ("off", ""):
        options = {"execution_plan": dict.fromkeys(plan, "data_type:float32")}
        options |= {"ms_cache": {"serialize_path": path}} if path else {}
        settings = Settings.load("", options)
        executable = build(proto.SerializeToString(), None, Target(threads=1, **target), settings)
        yield executable.execution().run([x])[0]


@pytest.mark.parametrize("name", MODELS)
def test_what_a_plan_keeps_in_float32_is_computed_in_it(name):
    kinds = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if not {"BF16", "FP16"} & set(kinds) or "ONEDNN_MAX_CPU_ISA" in os.environ:
        pytest.skip(f"OpenVINO computes in {kinds}, oneDNN up to {os.environ.get('ONEDNN_MAX_CPU_ISA')}")
    proto, x = made(name)
    wanted, _ = run(proto, x, provider="onnxruntime")
    plan = [node.name for node in proto.graph.node[:-1]]
    for kept in ((), plan):
        for got in run(proto, x, kept, provider="openvino", precision="preferred_fp16"):
            error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
            # Roundings to float16 are 2e-4 on average, to bfloat16 2e-3; float32 sums in another order.
            assert error < 1e-5 if kept else error > 1e-4


def test_constants_in_halves_alone_are_kept_in_them():
    from pinnace.engines.openvino.precision import keep_halves

    x, given = opset.parameter([4, 64], np.float32), opset.parameter([64, 64], np.float16)
    halves, integers = (opset.constant(np.ones((64, 64), kind)) for kind in (np.float16, np.int8))
    y, wide = x, [opset.convert(weight, "f32") for weight in (halves, given, integers)]
    for weight in wide:
        y = opset.matmul(y, weight, False, False)
    model = openvino.Model([y], [x, given])
    keep_halves(model)
    assert ["decompression_0" in weight.get_rt_info() for weight in wide] == [True, False, False]
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    kinds = [
        node.get_output_element_type(0).get_type_name()
        for node in compiled.get_runtime_model().get_ops()
        if node.get_rt_info()["layerType"] == "Const" and list(node.get_output_shape(0)) == [64, 64]
    ]
    assert sorted(kinds) == ["f16", "f32"]
