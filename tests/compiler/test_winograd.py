"""3x3 convolutions by Winograd's algorithm, beside onnxruntime's own."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.speed import profile
from pinnace.engines.speed.gains import Gains

TOLERANCE = 2e-6
"""Of the largest result, where sums of so many float32 products have 5e-7."""


def of_table(feature: str) -> Gains:
    """The gains of processors with a feature."""
    table = profile._table()
    return Gains(profile.from_record(table[feature], table).rules)


def network(
    x: tuple[int | str, ...],
    kernel: tuple[int, ...],
    *,
    bias: bool = True,
    norm: bool = False,
    relu: bool = False,
    twice: bool = False,
    **attributes: object,
) -> ir.Model:
    """A convolution and what follows it; `twice` adds what was convolved to the result."""
    random = np.random.default_rng(5)

    def weight(name: str, value: np.ndarray) -> ir.Value:
        tensor = ir.tensor(value.astype(np.float32), name=name)
        return ir.Value(name=name, const_value=tensor, shape=tensor.shape, type=ir.TensorType(tensor.dtype))

    weights = [weight("kernel", random.normal(size=kernel) / 10)]
    if bias:
        weights.append(weight("bias", random.normal(size=kernel[0])))
    image = ir.Value(name="x", shape=ir.Shape(x), type=ir.TensorType(ir.DataType.FLOAT))
    own = {} if "auto_pad" in attributes else {"pads": [1, 1, 1, 1]}
    nodes = [ir.node("Conv", [image, *weights], {**own, **attributes})]
    if norm:
        given = [weight(n, random.uniform(0.5, 2, kernel[0])) for n in ("scale", "shift", "mean", "variance")]
        nodes.append(ir.node("BatchNormalization", [nodes[-1].outputs[0], *given], {"epsilon": 1e-3}))
        weights += given
    if relu:
        nodes.append(ir.node("Relu", [nodes[-1].outputs[0]]))
    if twice:
        nodes.append(ir.node("Add", [nodes[-1].outputs[0], nodes[0].outputs[0]]))
    result = nodes[-1].outputs[0]
    result.name, result.type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([image], [result], nodes=nodes, initializers=weights, opset_imports={"": 21}, name="g")
    return ir.Model(graph, ir_version=10)


def run(model: ir.Model, x: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    data = ir.to_proto(model).SerializeToString()
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def after(model: ir.Model, feature: str = "avx2") -> Counter[str]:
    rewrite(model, of_table(feature))
    return Counter(node.op_type for node in model.graph)


@pytest.mark.parametrize(
    ("x", "kernel", "side", "more"),
    [
        ((1, 64, 20, 20), (48, 64, 3, 3), 4, {}),
        ((1, 48, 23, 18), (64, 48, 3, 3), 4, {"bias": False}),  # tiles that reach over the edge
        ((2, 48, 15, 17), (48, 48, 3, 3), 4, {"pads": [0, 1, 2, 0]}),
        ((1, 48, 22, 22), (48, 48, 3, 3), 4, {"pads": [0, 0, 0, 0]}),
        ((1, 48, 21, 20), (48, 48, 3, 3), 4, {"auto_pad": "SAME_UPPER"}),
        ((1, 48, 20, 20), (48, 48, 3, 3), 4, {"relu": True}),
        ((1, 48, 20, 20), (48, 48, 3, 3), 4, {"norm": True}),
        ((1, 48, 20, 20), (48, 48, 3, 3), 4, {"norm": True, "relu": True, "bias": False}),
        ((1, 192, 14, 13), (192, 192, 3, 3), 2, {"relu": True}),
        ((8, 48, 7, 7), (48, 48, 3, 3), 4, {"relu": True}),
    ],
)
def test_the_same_but_for_rounding(x, kernel, side, more):
    data = np.random.default_rng(7).normal(size=x).astype("f")
    model, other = (network(x, kernel, **more) for _ in range(2))
    expected = run(other, data)
    operators = after(model)
    assert not {"Conv", "BatchNormalization"} & operators.keys()
    assert operators["MatMul"] == 4
    places = [v.const_value.shape[0] for v in model.graph.initializers.values() if v.shape.rank() == 3]
    assert places == [(side + 2) ** 2]
    given = run(model, data)
    assert given.shape == expected.shape
    np.testing.assert_allclose(given, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize(
    ("size", "kernel", "more"),
    [
        ((20, 18), (48, 64, 3, 3), {"relu": True}),
        ((23, 20), (64, 48, 3, 3), {"bias": False, "pads": [0, 1, 2, 0]}),
        ((14, 13), (192, 192, 3, 3), {"norm": True, "relu": True}),
    ],
)
def test_any_number_of_images(size, kernel, more):
    model, other = (network(("n", kernel[1], *size), kernel, **more) for _ in range(2))
    assert "Conv" not in after(model)
    for batch in (1, 3, 0):
        data = np.random.default_rng(7).normal(size=(batch, kernel[1], *size)).astype("f")
        expected, given = run(other, data), run(model, data)
        assert given.shape == expected.shape
        np.testing.assert_allclose(given, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max(initial=0))


@pytest.mark.parametrize(
    ("x", "kernel", "more"),
    [
        ((1, 32, 40, 40), (64, 32, 3, 3), {}),  # too few channels
        ((1, 64, 40, 40), (32, 64, 3, 3), {}),
        ((1, 64, 14, 14), (64, 64, 3, 3), {}),  # too few tiles
        ((1, 512, 7, 7), (512, 512, 3, 3), {}),
        ((1, 64, 40, 40), (64, 64, 3, 3), {"strides": [2, 2]}),
        ((1, 64, 40, 40), (64, 64, 3, 3), {"dilations": [2, 2]}),
        ((1, 128, 40, 40), (128, 64, 3, 3), {"group": 2}),
        ((1, 64, 40, 40), (64, 64, 5, 5), {"kernel_shape": [5, 5]}),
        ((0, 64, 40, 40), (64, 64, 3, 3), {}),
        ((1, 64, "rows", 40), (64, 64, 3, 3), {}),
        ((8, 64, 40, "columns"), (64, 64, 3, 3), {}),
        ((1, 128, 40, 40), (64, 64, 3, 3), {}),  # wrong: the engine says so
        (("n", 128, 40, 40), (64, 64, 3, 3), {}),
        ((1, "channels", 40, 40), (64, 64, 3, 3), {}),
        ((1, 64, 40, 40), (64, 64, 3, 3), {"kernel_shape": [5, 5]}),
    ],
)
def test_others_stay(x, kernel, more):
    assert after(network(x, kernel, **more))["Conv"] == 1


def test_a_norm_whose_scale_the_run_gives_stays():
    model = network((1, 64, 40, 40), (64, 64, 3, 3), norm=True)
    scale = ir.Value(name="given", shape=ir.Shape([64]), type=ir.TensorType(ir.DataType.FLOAT))
    model.graph.inputs.append(scale)
    model.graph[-1].replace_input_with(1, scale)
    assert after(model)["BatchNormalization"] == 1


@pytest.mark.parametrize("part", ["bias", "shift"])
def test_vectors_of_other_lengths_are_left_to_the_engine(part):
    model = network((1, 64, 40, 40), (64, 64, 3, 3), norm=True)
    model.graph.initializers[part].const_value = ir.tensor(np.ones(1, np.float32), name=part)
    assert after(model)["Conv"] == 1


@pytest.mark.parametrize("batch", [2, "n"])
@pytest.mark.parametrize("opset", [7, 10, 11, 13, 21])
def test_files_of_all_ages(batch, opset):
    model, other = (network((batch, 48, 20, 20), (48, 48, 3, 3), relu=True) for _ in range(2))
    for one in (model, other):
        one.graph.opset_imports[""] = opset
    assert after(model)["Conv"] == (batch == "n" and opset < 11)
    data = np.random.default_rng(7).normal(size=(2, 48, 20, 20)).astype("f")
    expected = run(other, data)
    np.testing.assert_allclose(run(model, data), expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_what_others_read_is_not_taken_along():
    model, other = (network((1, 48, 20, 20), (48, 48, 3, 3), relu=True, twice=True) for _ in range(2))
    data = np.random.default_rng(7).normal(size=(1, 48, 20, 20)).astype("f")
    expected = run(other, data)
    operators = after(model)
    assert operators["Relu"] == operators["Add"] == operators["Gemm"] == 1
    np.testing.assert_allclose(run(model, data), expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_accelerators_have_their_own():
    model = network((1, 64, 40, 40), (64, 64, 3, 3))
    rewrite(model, on_cpu=False)
    assert [node.op_type for node in model.graph] == ["Conv"]


def test_with_avx_512_the_convolutions_of_onnxruntime_stay():
    assert after(network((1, 64, 20, 20), (48, 64, 3, 3)), "avx512f")["Conv"] == 1
