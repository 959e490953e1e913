"""Quantized operators with scales of channels, of blocks or of a bias: right with every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.building.build import build_model as build
from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.compilation import encoded
from pinnace.formats import read
from pinnace.lowering.graph import compilable
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.weights.source import Source

ENGINES = ("onnxruntime", "openvino")
UINT8, INT8 = np.uint8, np.int8


class Form(NamedTuple):
    """An operator, the shapes of its inputs, and those that are constant; all dimensions are 4 or 1."""

    op: str
    shapes: Sequence[tuple[int, ...]]
    constants: Sequence[int] = ()
    attributes: dict[str, Any] = {}  # noqa: RUF012


IMAGE, SQUARE = (4, 4, 4, 4), (4, 4)
FORMS = {
    "Conv": Form("Conv", (IMAGE, IMAGE), [1]),
    "Conv of groups": Form("Conv", (IMAGE, (4, 1, 3, 3)), [1], {"group": 4}),
    "Conv of sequences": Form("Conv", ((4, 4, 4), (4, 4, 4)), [1]),
    "ConvTranspose": Form("ConvTranspose", (IMAGE, IMAGE), [1]),
    "Gemm": Form("Gemm", (SQUARE, SQUARE), [1]),
    "transposed Gemm": Form("Gemm", (SQUARE, SQUARE), [1], {"transB": 1}),
    "MatMul": Form("MatMul", (SQUARE, SQUARE), [1]),
    "stacked MatMul": Form("MatMul", ((4, 4, 4), (4, 4, 4)), [1]),
    "MatMul of two inputs": Form("MatMul", (SQUARE, SQUARE)),
    "Add": Form("Add", (SQUARE, SQUARE)),
    "Mul": Form("Mul", (SQUARE, SQUARE), [1]),
    "Concat": Form("Concat", (SQUARE, SQUARE), (), {"axis": 1}),
    "AveragePool": Form("AveragePool", (IMAGE,), (), {"kernel_shape": [2, 2]}),
    "GlobalAveragePool": Form("GlobalAveragePool", (IMAGE,)),
    "MaxPool": Form("MaxPool", (IMAGE,), (), {"kernel_shape": [2, 2]}),
    "Softmax": Form("Softmax", (SQUARE,)),
    "Sigmoid": Form("Sigmoid", (SQUARE,)),
    "Transpose": Form("Transpose", (SQUARE,), (), {"perm": [1, 0]}),
}


class Scales(NamedTuple):
    """Scales along an axis, or in blocks of two along it; one for all without an axis."""

    axis: int | None = None
    block: int = 0


def quantization(name, scales: Scales, shape, kind, rng, zero=True):
    """Return initializers of scales and zero points, their names, their attributes, and the scales."""
    axis, block = scales
    dims: tuple[int, ...] = () if axis is None else shape[axis : axis + 1]
    if block:
        dims = tuple(size // block if at == axis else size for at, size in enumerate(shape))
    middle = (128 if kind is UINT8 else 0) + (rng.integers(-9, 9, dims) if zero else np.zeros(dims, int))
    tensors = np.asarray(rng.uniform(0.01, 0.04, dims), np.float32), np.asarray(middle, kind)
    names = f"{name}_scale", f"{name}_zero"
    attributes = {"axis": axis, "block_size": block or None}
    made = [numpy_helper.from_array(one, key) for one, key in zip(tensors, names, strict=True)]
    return made, names, {key: value for key, value in attributes.items() if value is not None}, tensors[0]


def quantized(form: Form, scales: Sequence[Scales], result: Scales | None, kinds, zero: bool):
    """Return a model of the operator between steps, its inputs, and the largest step of the result."""
    rng = np.random.default_rng(5)
    nodes, tensors, inputs, feed, largest = [], [], [], {}, 0.0
    for place, shape in enumerate(form.shapes):
        name, kind = f"x{place}", kinds[place]
        constant = place in form.constants
        made, names, attributes, _ = quantization(name, scales[place], shape, kind, rng, zero or not constant)
        tensors += made
        if constant:
            ends = (-127, 128) if kind is INT8 else (0, 256)
            tensors.append(numpy_helper.from_array(rng.integers(*ends, shape).astype(kind), f"{name}_q"))
        else:
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
            feed[name] = rng.standard_normal(shape).astype(np.float32)
            nodes.append(helper.make_node("QuantizeLinear", [name, *names], [f"{name}_q"], **attributes))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *names], [f"{name}_d"], **attributes))
    given = [f"x{place}_d" for place in range(len(form.shapes))]
    nodes.append(helper.make_node(form.op, given, ["y" if result is None else "r"], **form.attributes))
    if result is not None:
        made, names, attributes, steps = quantization("r", result, IMAGE, kinds[0], rng)
        tensors += made
        largest = float(steps.max())
        nodes.append(helper.make_node("QuantizeLinear", ["r", *names], ["r_q"], **attributes))
        nodes.append(helper.make_node("DequantizeLinear", ["r_q", *names], ["y"], **attributes))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model.SerializeToString(), feed, largest


def unoptimized(model: bytes, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)[0]


def check(model: bytes, feed, tolerance: float, engine: str, what: object = "") -> None:
    target = Target(threads=1, provider=engine)
    y, *_ = build(model, None, target, Settings()).execution().run(list(feed.values()))
    np.testing.assert_allclose(y, unoptimized(model, feed), 1e-5, tolerance + 1e-5, err_msg=str(what))


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FORMS)
def test_scales_of_channels_and_blocks(name, engine):
    form = FORMS[name]
    one = [Scales()] * len(form.shapes)
    several = [
        [*one[:place], Scales(axis, block), *one[place + 1 :]]
        for place, shape in enumerate(form.shapes)
        for axis, size in enumerate(shape)
        for block in ((0, 2) if size == 4 else (0,))
    ]
    for scales in (one, *several):
        for result in (None, Scales(), Scales(0)):
            for kinds, zero in (((UINT8, INT8), False), ((UINT8, UINT8), True), ((INT8, INT8), True)):
                model, feed, step = quantized(form, scales, result, kinds, zero)
                # A sum that is rounded otherwise may fall to the step beside.
                check(model, feed, 1.01 * step, engine, (scales, result, kinds, zero))


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("name", ["MatMul", "stacked MatMul", "GlobalAveragePool", "Softmax"])
def test_steps_of_microsoft_are_those_of_onnx(name, opset, engine):
    for axis in range(len(FORMS[name].shapes[0])):
        scales = [Scales(axis), *[Scales()] * (len(FORMS[name].shapes) - 1)]
        serialized, feed, step = quantized(FORMS[name], scales, Scales(0), (INT8, INT8), True)
        model = onnx.load_from_string(serialized)
        model.opset_import[0].version = opset
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        for node in model.graph.node:
            node.domain = "com.microsoft" if node.op_type.endswith("antizeLinear") else ""
        check(model.SerializeToString(), feed, 1.01 * step, engine)


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["MatMul", "MatMul of two inputs", "Conv", "Gemm"])
def test_scales_of_float16(name, engine):
    form = FORMS[name]
    one = [Scales()] * len(form.shapes)
    several = [[*one[:place], Scales(axis), *one[place + 1 :]] for place in (0, 1) for axis in (0, 1)]
    for scales in (one, *several):
        for result in (None, Scales(0)):
            serialized, feed, step = quantized(form, scales, result, (INT8, INT8), True)
            model = onnx.load_from_string(serialized)
            for tensor in model.graph.initializer:
                if tensor.data_type == TensorProto.FLOAT:
                    array = numpy_helper.to_array(tensor).astype(np.float16)
                    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
            for value in (*model.graph.input, *model.graph.output):
                if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                    value.type.tensor_type.elem_type = TensorProto.FLOAT16
            halves = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in feed.items()}
            # Results are below 64, where float16 has steps of 1/32.
            check(model.SerializeToString(), halves, 1.01 * step + 1 / 32, engine, (scales, result))


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("product", ["MatMul(x, d)", "Gemm(x, d)", "Gemm <transB = 1> (x, d)"])
@pytest.mark.parametrize(
    "step",
    [
        "DequantizeLinear(w, one)",
        "DequantizeLinear <axis = 1> (w, several)",
        "DequantizeLinear <axis = 0> (w, several, zeros)",
        "DequantizeLinear <axis = 0, block_size = 32> (w, blocks)",
        "DequantizeLinear(small, one)",
        "DequantizeLinear <axis = 0, block_size = 32> (small, blocks)",
    ],
)
def test_a_weight_that_is_quantized_alone_leaves_the_input_as_it_is(step, product, shared, engine):
    rng = np.random.default_rng(7)
    constants = {
        "w": rng.integers(-127, 128, (64, 64)).astype(INT8),
        "small": rng.integers(-8, 8, (64, 64)).astype(ml_dtypes.int4),
        "one": np.float32(0.02),
        "several": rng.uniform(0.01, 0.04, 64).astype(np.float32),
        "zeros": np.zeros(64, INT8),
        "blocks": rng.uniform(0.01, 0.04, (2, 64)).astype(np.float32),
    }
    again = f"e = {step} z = {product.replace('d)', 'e)')} y = Add(u, z)" if shared else "y = Neg(u)"
    body = f"d = {step} u = {product} {again}"
    model = ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["": 21]> g (float[3,64] x) => (float[3,64] y) {{ {body} }}',
        initializers=[ir.tensor(value, name=name) for name, value in constants.items() if name in step],
    )
    x = rng.standard_normal((3, 64)).astype(np.float32)
    check(ir.to_proto(model).SerializeToString(), {"x": x}, 1e-4, engine)


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "weight",
    [
        "w_d = DequantizeLinear(k, w_s)",
        "t = Transpose(k) w_d = DequantizeLinear(t, w_s, w_z)",
        "t = Transpose(w) w_d = DequantizeLinear(t, w_s, w_z)",
        "t = QuantizeLinear(f, w_s, w_z) w_d = DequantizeLinear(t, w_s, w_z)",
        "a = QuantizeLinear(f, w_s, w_z) t = Transpose(a) w_d = DequantizeLinear(t, w_s, w_z)",
    ],
)
def test_sums_of_bytes_do_not_overflow(weight, engine):
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[1,8] x, int8[8,8] k) => (float[1,8] y)
        <float s = {{0.5}}, uint8 z = {{0}}, float w_s = {{0.01}}, int8 w_z = {{0}}, int8[8,8] w = {{WEIGHT}},
        float[8,8] f = {{FLOATS}}>
        {{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) {weight} y = MatMul(d, w_d) }}"""
    text = text.replace("WEIGHT", ", ".join(["127"] * 64)).replace("FLOATS", ", ".join(["1.27"] * 64))
    model = ir.to_proto(ir.from_onnx_text(text)).SerializeToString()
    feed = {"x": np.full((1, 8), 100, np.float32), "k": np.full((8, 8), 127, np.int8)}
    check(model, feed, 0.01, engine)


def test_blocks_along_a_free_dimension():
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[N,4,2,2] x) => (float[N,4,1,1] y)
        <float[1,4,2,2] s = {0.1, 0.2, 0.1, 0.2, 0.3, 0.1, 0.1, 0.2, 0.3, 0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.1},
        float r = {0.125}, uint8 z = {128}> {
        q = QuantizeLinear <axis = 0, block_size = 16> (x, s)
        d = DequantizeLinear <axis = 0, block_size = 16> (q, s)
        m = GlobalAveragePool(d) m_q = QuantizeLinear(m, r, z) y = DequantizeLinear(m_q, r, z) }"""
    x = np.random.default_rng(3).uniform(0, 9, (2, 4, 2, 2)).astype(np.float32)
    model = ir.to_proto(ir.from_onnx_text(text)).SerializeToString()
    check(model, {"x": x}, 1.01 * 0.125, "onnxruntime")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("move", "y"),
    [
        ("Reshape(d, all)", "[24]"),
        ("Transpose(d)", "[3,4,2]"),
        ("Flatten(d)", "[2,12]"),
        ("MaxPool<kernel_shape = [1]>(d)", "[2,4,3]"),
    ],
)
@pytest.mark.parametrize("scale", ["", "1", "4"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
def test_integers_without_zero_points_are_moved(kind, scale, move, y, engine):
    """QDQPropagationTransformer would quantize them to uint8."""
    dims = f"[{scale}]" if scale else ""
    numbers = ", ".join(["0.5"] * int(scale or 1))
    type_name = np.dtype(kind).name
    opset = 21 if kind in (np.int16, np.uint16) else 13
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": {opset}]>
        g ({type_name}[2,4,3] x) => (float{y} y, float[2,4,3] z)
        <float{dims} s = {{{numbers}}}, int64[1] all = {{-1}}>
        {{ d = DequantizeLinear(x, s) y = {move} z = Neg(d) }}"""
    )
    x = np.random.default_rng(1).integers(-100, 100, (2, 4, 3)).astype(kind)
    check(model.SerializeToString(), {"x": x}, 1e-6, engine)
    del model.graph.node[-1], model.graph.output[-1]  # nothing else reads them
    check(model.SerializeToString(), {"x": x}, 1e-6, engine)


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "body", ["m = Conv(d, w)", "m = Relu(d)", "m = GlobalAveragePool(d)", "m = Transpose(d)"]
)
@pytest.mark.parametrize(
    ("dims", "blocks"), [((4,), ""), ((1, 2, 4, 4), ", block_size = 2"), ((1,), ""), ((), "")]
)
def test_a_request_gives_the_scales(dims, blocks, body, engine):
    shape = f"[{','.join(map(str, dims))}]" if dims else ""
    text = f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[1,4,4,4] x, float{shape} s, uint8{shape} z) => (float[1,4,h,v] y)
        <float r = {{0.05}}, uint8 p = {{128}}, float t = {{0.01}},
        int8[4,4,1,1] i = {{{", ".join(map(str, range(16)))}}}>
        {{ q = QuantizeLinear <axis = 1{blocks}> (x, s, z) d = DequantizeLinear <axis = 1{blocks}> (q, s, z)
        w = DequantizeLinear(i, t) {body} m_q = QuantizeLinear(m, r, p) y = DequantizeLinear(m_q, r, p) }}"""
    rng = np.random.default_rng(5)
    feed = {
        "x": rng.uniform(-2, 2, (1, 4, 4, 4)).astype(np.float32),
        "s": np.asarray(rng.uniform(0.01, 0.03, dims), np.float32),
        "z": np.asarray(rng.integers(110, 140, dims), np.uint8),
    }
    check(onnx.parser.parse_model(text).SerializeToString(), feed, 1.01 * 0.05, engine)


def test_a_branch_returns_a_weight_in_floats():
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (bool c, float[1,2] x) => (float[2,2] y, float[1,2] z)
        <float[2] s = {0.5, 0.25}, int8[2,2] w = {1, 2, 3, 4}, float[2,2] f = {1, 2, 3, 4}>
        { y, z = If(c) <
          then_branch = t () => (float[2,2] a, float[1,2] b) {
            a = DequantizeLinear <axis = 0> (w, s) b = MatMul(x, a) },
          else_branch = e () => (float[2,2] a, float[1,2] b) { a = Identity(f) b = Identity(x) }> }"""
    model = ir.to_proto(ir.from_onnx_text(text)).SerializeToString()
    check(model, {"c": np.array(True), "x": np.ones((1, 2), np.float32)}, 0, "onnxruntime")


NESTED = """<ir_version: 10, opset_import: ["": 21]> g (bool c, float[1,8] x) => (float[1,8] y)
    <float s = {0.5}, uint8 z = {0}, float w_s = {0.01}, int8[8,8] w = {WEIGHT}, float r = {10}>
    { y = If(c) <
      then_branch = t () => (float[1,8] a) { x_q = QuantizeLinear(x, s, z) x_d = DequantizeLinear(x_q, s, z)
        w_d = DequantizeLinear(w, w_s) m = MatMul(x_d, w_d)
        m_q = QuantizeLinear(m, r, z) a = DequantizeLinear(m_q, r, z) },
      else_branch = e () => (float[1,8] a) { a = Identity(x) }> }"""


@pytest.mark.parametrize("zero", ["", ", z_w"])
def test_sums_of_bytes_in_a_nested_graph_do_not_overflow(zero):
    text = NESTED.replace("WEIGHT", ", ".join(["127"] * 64)).replace("w_s)", f"w_s{zero})")
    text = text.replace("float r", "int8 z_w = {0}, float r" if zero else "float r")
    model = ir.to_proto(ir.from_onnx_text(text)).SerializeToString()
    feed = {"c": np.array(True), "x": np.full((1, 8), 100, np.float32)}
    check(model, feed, 0, "onnxruntime")


BIAS = """<ir_version: 10, opset_import: ["": 21]> g (float[2,2,3,3] x) => (float[2,2,3,3] y)
    <float s = {0.02}, uint8 z = {128}, float w_s = {0.01}, int8 w_z = {0}, float[2] w_several = {0.01, 0.03},
    int8[2] z_several = {0,0}, float scale = {BIAS}, float[2] scales = {BIAS, BIAS}, float r = {0.05},
    int32[2] b = {3000, -2000}, int32[2] b_z = {0, 0}, int8[2,2,1,1] w = {5, 60, -63, 30}, uint8 r_z = {120}>
    { x_q = QuantizeLinear(x, s, z) x_d = DequantizeLinear(x_q, s, z) BODY
      c = Conv(x_d, w_d, b_d) c_q = QuantizeLinear(c, r, r_z) y = DequantizeLinear(c_q, r, r_z) }"""


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "body",
    [
        "w_d = DequantizeLinear(w, w_s, w_z) b_d = DequantizeLinear(b, scale)",
        "w_d = DequantizeLinear(w, w_s, w_z) b_d = DequantizeLinear <axis = 0> (b, scales, b_z)",
        "w_d = DequantizeLinear <axis = 0> (w, w_several, z_several) b_d = DequantizeLinear(b, scale)",
        "w_d = DequantizeLinear <axis = 0> (w, w_several) b_d = DequantizeLinear <axis = 0> (b, scales)",
    ],
)
@pytest.mark.parametrize("bias", [0.0002, 0.001])
def test_a_bias_has_any_scale(body, bias, engine):
    model = ir.to_proto(ir.from_onnx_text(BIAS.replace("BODY", body).replace("BIAS", str(bias))))
    x = np.random.default_rng(3).standard_normal((2, 2, 3, 3)).astype(np.float32)
    check(model.SerializeToString(), {"x": x}, 1.01 * 0.05, engine)


@pytest.mark.filterwarnings("ignore:.*onnxruntime .* runs the model")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "move",
    [
        "Flatten(c)",
        "Gather(c, zero)",
        "Identity(c)",
        "MaxPool <kernel_shape = [2,2]> (c)",
        "Reshape(c, all)",
        "Slice(c, zero, all, zero)",
        "Squeeze(c, zero)",
        "Transpose(c)",
        "Unsqueeze(c, zero)",
    ],
)
def test_a_result_is_moved_before_it_is_quantized(move, engine):
    """Optimizers quantize it before the move, and then compute it in integers."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 18]> g (uint8[1,2,3,3] x) => (float y)
        <float s = {{0.125}}, uint8 z = {{128}}, int8[2,2,2,1] w = {{-90,50,60,-30,100,-120,20,70}},
        float[2] several = {{0.02,0.3}}, int64[1] zero = {{0}}, int64[1] all = {{-1}}>
        {{ i = DequantizeLinear(x, s, z) k = DequantizeLinear <axis = 2> (w, several) c = Conv(i, k)
        m = {move} q = QuantizeLinear(m, s, z) y = DequantizeLinear(q, s, z) }}"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    x = np.arange(18, dtype=np.uint8).reshape(1, 2, 3, 3) + 120
    check(model.SerializeToString(), {"x": x}, 1.01 * 0.125, engine)  # a step


@pytest.mark.parametrize("engine", ENGINES)
def test_what_follows_a_bias_in_floats_has_types(engine):
    """A type that gets lost there keeps the rules for quantized values from what follows."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 13]> g (float[1,1,4] x) => (float[n,m,k] y)
        <float[1,1,1] w = {1}, int32[1] b = {133}, float[1] u = {0.01}, float s = {0.025}, int8 z = {0},
        float t = {0.01}, int64[3] all = {1,-1,1}>
        { i = DequantizeLinear <axis = 0> (b, u) c = ConvTranspose(x, w, i) q = QuantizeLinear(c, s, z)
        d = DequantizeLinear(q, t) y = Reshape(d, all) }"""
    )
    x = np.array([[[-5, -1, 0.5, 3]]], np.float32)
    check(model.SerializeToString(), {"x": x}, 1e-6, engine)


@pytest.mark.parametrize(
    ("weight", "kernels"),
    [
        ("DequantizeLinear(w, w_s, w_z)", 1),
        ("DequantizeLinear <axis = 0> (w, w_several, z_several)", 1),
        ("DequantizeLinear <axis = 1> (w, w_several, z_several)", 0),
    ],
)
@pytest.mark.parametrize("bias", [0.0002, 0.001])  # of another scale it is rounded to the right one
def test_integer_kernels_are_used_where_they_use_the_scales(weight, bias, kernels, tmp_path):
    body = f"w_d = {weight} b_d = DequantizeLinear(b, scale)"
    model = ir.to_proto(ir.from_onnx_text(BIAS.replace("BODY", body).replace("BIAS", str(bias))))
    made = encoded(compilable(read(Source.of_buffer(model.SerializeToString())), "m", None))
    options = session.options(Target(threads=1))
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    made.start(options)
    nodes = onnx.load(tmp_path / "optimized.onnx").graph.node
    assert [node.op_type for node in nodes].count("QLinearConv") == kernels
