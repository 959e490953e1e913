"""Forms that onnxruntime refuses or computes wrongly are written otherwise, and give what ONNX says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from pinnace.engines.onnxruntime.rules import rewrite

HEAD = '<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'

TOLERANCE = 2e-6
"""Sums of some dozen float32 in another order."""


def both(text: str, inputs: dict, opset: int = 21) -> tuple[Counter[str], list, list]:
    """The operators of a graph after the rules, and what it gives: by onnxruntime then, by ONNX before."""
    model = ir.from_onnx_text(f"{HEAD.format(opset=opset)}\n{text}")
    expected = ReferenceEvaluator(ir.to_proto(model)).run(None, inputs)
    rewrite(model)
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in model.graph), session.run(None, inputs), expected


FAR = np.array([[-60, -20, -5, -1, 0, 1, 3]], np.float32)
SHARE = 1 / (1 + np.exp(-FAR.astype(np.float64)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Log(s)", np.log(SHARE)),
        ("y = Sqrt(s)", np.sqrt(SHARE)),
        ("y = Reciprocal(s)", 1 / SHARE),
        ("y = Pow(s, two)", SHARE**0.25),
        ("y = Div(two, s)", 0.25 / SHARE),
    ],
)
def test_what_is_made_of_a_sigmoid_far_below_zero_is_exact(body, expected):
    text = f"g (float[n,7] x) => (float[n,7] y) <float two = {{0.25}}> {{ s = Sigmoid(x) {body} }}"
    operators, (given,), _ = both(text, {"x": FAR})
    assert not operators["Sigmoid"]
    np.testing.assert_allclose(given, expected.astype(np.float32), rtol=TOLERANCE)


ROWS = {
    "same_fixed": ("float[1,2,9,8]", "Conv <auto_pad = {same}, dilations = [2,3], strides = [2,1]>"),
    "same_free_of_one_step": ("float[1,2,h,w]", "Conv <auto_pad = {same}, dilations = [2,3]>"),
    "same_free": ("float[1,2,h,w]", "Conv <auto_pad = {same}, dilations = [2,3], strides = [2,3]>"),
    "same_free_along_one": ("float[1,2,9,w]", "Conv <auto_pad = {same}, dilations = [2,1], strides = [3,1]>"),
}


@pytest.mark.parametrize("same", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("name", ROWS)
def test_windows_with_holes_and_automatic_padding(name, same):
    shape, conv = ROWS[name]
    conv = conv.format(same=f'"{same}"')
    text = f"g ({shape} x, float[3,2,2,3] w) => (float[a,b,c,d] y) {{ y = {conv} (x, w) }}"
    random = np.random.default_rng(4)
    inputs = {n: random.normal(size=s).astype("f") for n, s in (("x", (1, 2, 9, 8)), ("w", (3, 2, 2, 3)))}
    operators, given, expected = both(text, inputs)
    assert operators["Conv"] == 1
    np.testing.assert_allclose(given[0], expected[0], rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("operator", "same"),
    [("MaxPool", "SAME_UPPER"), ("AveragePool", "SAME_UPPER"), ("AveragePool", "SAME_LOWER")],
)
def test_windows_smaller_than_their_steps(operator, same):
    node = f'{operator} <auto_pad = "{same}", kernel_shape = [2,1], strides = [3,4]>'
    text = f"g (float[1,2,8,9] x) => (float[1,2,3,3] y) {{ y = {node} (x) }}"
    x = np.random.default_rng(5).normal(size=(1, 2, 8, 9)).astype("f")
    _, given, expected = both(text, {"x": x})
    np.testing.assert_allclose(given[0], expected[0], rtol=TOLERANCE)


def test_a_resize_of_some_axes_is_one_of_all():
    node = 'Resize <axes = [3,2], mode = "linear"> (x, , , sizes)'
    text = f"g (float[1,2,3,4] x) => (float[1,2,7,5] y) <int64[2] sizes = {{5, 7}}> {{ y = {node} }}"
    model = ir.from_onnx_text(f"{HEAD.format(opset=21)}\n{text}")
    rewrite(model)
    (resize,) = (node for node in model.graph if node.op_type == "Resize")
    assert "axes" not in resize.attributes
    assert resize.inputs[3].const_value.numpy().tolist() == [1, 2, 7, 5]


def test_a_resize_that_keeps_its_aspect_stays():
    node = 'Resize <axes = [2,3], keep_aspect_ratio_policy = "not_larger"> (x, , , sizes)'
    text = f"g (float[1,2,3,4] x) => (float[a,b,c,d] y) <int64[2] sizes = {{7, 5}}> {{ y = {node} }}"
    model = ir.from_onnx_text(f"{HEAD.format(opset=21)}\n{text}")
    rewrite(model)
    assert "axes" in model.graph.node(0).attributes


@pytest.mark.parametrize("read", ["", "i"])
def test_a_pool_without_channels_is_of_no_images_unless_places_are_read(read):
    outputs = "(float[1,0,2,2] y, int64[1,0,2,2] i)" if read else "(float[1,0,2,2] y)"
    text = (
        f"g (float[1,0,4,4] x) => {outputs} {{ y, i = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x) }}"
    )
    model = ir.from_onnx_text(f"{HEAD.format(opset=21)}\n{text}")
    rewrite(model)
    operators = [node.op_type for node in model.graph]
    assert operators == ["MaxPool"] if read else operators.count("Reshape") == 2
    if not read:
        session = ort.InferenceSession(ir.to_proto(model).SerializeToString())
        assert session.run(None, {"x": np.zeros((1, 0, 4, 4), "f")})[0].shape == (1, 0, 2, 2)
