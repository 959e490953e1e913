"""The classes of work, of nodes whose class hangs on more than their operator."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from pinnace.engines.speed.work import works

FORMS = [
    ("float[1,16,8,8] x", "float[16,16,3,3] w", "y = Conv <pads = [1,1,1,1]> (x, w)",
     [("conv", 16 * 64 * 16 * 9, (16, 64))]),
    ("float[1,16,8,8] x", "float[8,16,1,1] w", "y = Conv(x, w)", [("pointwise", 8 * 64 * 16, (8, 64))]),
    ("float[1,4,8,8] x", "float[8,4,1,1] w", "y = Conv(x, w)", [("pointwise", 8 * 64 * 4, (4, 64))]),
    ("float[1,32,8,8] x", "float[32,1,3,3] w", "y = Conv <group = 32, pads = [1,1,1,1]> (x, w)",
     [("depthwise", 32 * 64 * 9, (32, 64))]),
    ("float[1,24,8,8] x", "float[24,1,3,3] w", "y = Conv <group = 24, pads = [1,1,1,1]> (x, w)",
     [("unblocked", 24 * 64 * 9, (24, 64))]),
    ("float[1,16,8,8] x", "float[16,2,3,3] w", "y = Conv <group = 8, pads = [1,1,1,1]> (x, w)",
     [("grouped", 16 * 64 * 2 * 9, (2, 64))]),
    ("float[1,16,8,8] x", "float[16,4,1,1] w", "y = Conv <group = 4> (x, w)",
     [("grouped", 16 * 64 * 4, (4, 64))]),
    ("float[1,2,4,4,4] x", "float[6,2,1,1,1] w", "y = Conv(x, w)", [("volume", 6 * 64 * 2, (2, 64))]),
    ("float[5,8] x", "float[8,6] w", "y = MatMul(x, w)", [("product", 5 * 6 * 8, (5, 6, 48))]),
    ("float[4,8] x", "float[8,6] w", "y = MatMul(x, w)", [("vector", 48, (48,))]),
    ("float[7,8] x, float[8,6] w", "", "y = MatMul(x, w)", [("attention", 7 * 6 * 8, (7, 8))]),
    ("float[7,8] x", "float[6,8] w", "y = Gemm <transB = 1> (x, w)", [("product", 7 * 6 * 8, (7, 6, 48))]),
    ("float[3,8] x", "", "y = Softmax(x)", [("softmax", 48, (8,))]),
    ("float[3,8] x", "", "y = Relu(x)", [("elementwise", 48, (48,))]),
    ("float[3,8] x", "", "y = Transpose(x)", [("move", 48, (48,))]),
    ("float[3,8] x", "", "y = Flatten(x)", [("view", 0, (0,))]),
    ("float[3,8] x", "", "y = Identity(x)", []),
    ("float[1,4,8,8] x", "", "y, z = Split <axis = 1, num_outputs = 2> (x)", [("cut", 512, (512,))]),
    ("float[4,8] x", "", "y, z = Split <axis = 0, num_outputs = 2> (x)", [("move", 64, (64,))]),
    ("float[3,8] x", "float[8,8] w", "a = MatMul(x, w) b = Relu(a) y = Abs(b)", [("vector", 64, (64,))]),
    ("float[3,8] x", "", "a = Transpose(x) y = Relu(a)", [("move", 48, (48,)), ("elementwise", 48, (48,))]),
    ("float[3,8] x", "int64[1] w", "m = ReduceMean(x, w) y = Sub(x, m)", None),
    ("float[1,4,8,8] x", "", "y = GlobalAveragePool(x)", [("reduction", 260, (260,))]),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[1]} {form[2]}")
def test_the_class_amount_and_size(form):
    inputs, weight, nodes, wanted = form
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (y) {{ {nodes} }}'
    model = onnx.parser.parse_model(text)
    if weight:
        kind, dims = weight.removesuffix("] w").split("[")
        shape = tuple(map(int, dims.split(",")))
        dtype = np.int64 if kind == "int64" else np.float32
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, dtype), "w"))
    found = [(work.kind, work.amount, work.size) for work in works(ir.from_proto(model).graph)]
    if wanted is None:  # a mean that is subtracted normalises
        assert [kind for kind, *_ in found] == ["norm", "elementwise"]
    else:
        assert found == wanted
    assert not any(work.integers for work in works(ir.from_proto(model).graph))
