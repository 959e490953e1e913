"""The forms of operators that OpenVINO does not get, and those beside them, which it computes right."""

import onnx
import onnx_ir as ir
import pytest

from pinnace.engines.openvino import conditions
from pinnace.engines.openvino.conditions import wrong_condition

IMAGE = "float[1,2,8,8] x"
ROWS = "float[4,6] x"
NUMBERS = "int64[4] x, int64[4] z"
ONE = "k = Constant <value = int64[1] {{{}}}> () "


def constant(values, name="k", kind="int64"):
    count = f"[{len(values.split(','))}]" if values else "[0]"
    return f"{name} = Constant <value = {kind}{count} {{{values}}}> () "


# Inputs, nodes with which the last is wrong, and with which it is right.
FORMS = [
    (IMAGE, "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1, count_include_pad = 1> (x)",
     "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1> (x)"),
    (IMAGE, "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1, strides = [4,3]> (x)",
     "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1, strides = [3,3]> (x)"),
    (IMAGE, "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, strides = [3,3], pads = [0,0,0,1]> (x)",
     "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, strides = [3,3], pads = [1,1,0,0]> (x)"),
    (IMAGE, "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, pads = [0,0,3,3]> (x)",
     "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, pads = [0,0,2,2]> (x)"),
    (IMAGE, "y = MaxPool <kernel_shape = [3,3], auto_pad = \"SAME_UPPER\", dilations = [2,2]> (x)",
     "y = MaxPool <kernel_shape = [3,3], dilations = [2,2]> (x)"),
    (IMAGE + ", float[2] z", "y, u, v = BatchNormalization <training_mode = 1> (x, z, z, z, z) w = Neg(u)",
     "y, u, v = BatchNormalization <training_mode = 1> (x, z, z, z, z)"),
    (ROWS, "y = Cast <to = 10> (x) u = Cast <to = 1> (y)", "y = Cast <to = 10> (x) u = Neg(y)"),
    (ROWS, "y = Cast <to = 10> (x) u = Cast <to = 1> (y)", "y = Cast <to = 1> (x) u = Cast <to = 1> (y)"),
    ("float[1,1,8,8,8] x, float[1,1,3,3,3] w", "y = Conv <dilations = [1,1,2]> (x, w)",
     "y = Conv <dilations = [1,1,1]> (x, w)"),
    ("float[1,2,8,8,8] x, float[1,2,3,3,3] w", "", "y = Conv <dilations = [1,1,2]> (x, w)"),
    ("float[1,1,8,8] x, float[1,1,3,3] w", "", "y = Conv <dilations = [2,2]> (x, w)"),
    (IMAGE + ", float[2,2,3,3] w", 'y = ConvTranspose <auto_pad = "SAME_LOWER"> (x, w)',
     'y = ConvTranspose <auto_pad = "VALID"> (x, w)'),
    (ROWS, "y = HardSigmoid <alpha = 0.0> (x)", "y = HardSigmoid <alpha = 0.3> (x)"),
    (ROWS, "y = Selu <alpha = 1.5, gamma = 0.0> (x)", "y = Selu <alpha = 1.5, gamma = 1.0> (x)"),
    ("bool c, float[4] x, float[1,4] z",
     "y = If <then_branch = t () => (float[4] a) { a = Neg(x) }, else_branch = e () => (float[1,4] b)"
     " { b = Neg(z) }> (c)",
     "y = If <then_branch = t () => (float[4] a) { a = Neg(x) }, else_branch = e () => (float[4] b)"
     " { b = Abs(x) }> (c)"),
    (IMAGE, "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <antialias = 1> (x, , s)",
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <antialias = 0> (x, , s)"),
    (IMAGE, "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <exclude_outside = 1> (x, , s)",
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <cubic_coeff_a = -0.5> (x, , s)"),
    (IMAGE, "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <cubic_coeff_a = 0.0> (x, , s)",
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize(x, , s)"),
    (IMAGE, constant("1,2,4,4") + 'y = Resize <keep_aspect_ratio_policy = "not_larger"> (x, , , k)',
     constant("1,2,4,4") + 'y = Resize <keep_aspect_ratio_policy = "stretch"> (x, , , k)'),
    (ROWS, constant("-1") + "y = CumSum(x, k)", constant("0") + "y = CumSum(x, k)"),
    (ROWS + ", int64[1] k", "y = CumSum(x, k)", ""),
    (ROWS + ", int64[4,5] i", "y = GatherElements <axis = 0> (x, i)", "y = GatherElements <axis = 1> (x, i)"),
    (ROWS + ", int64[3,6] i", "y = GatherElements <axis = 1> (x, i)",
      "y = GatherElements <axis = -2> (x, i)"),
    ("float[N,6] x, int64[N,6] i", "y = GatherElements <axis = 1> (x, i)", "y = GatherElements(x, i)"),
    ("float[2,3,5] x", "y = Softmax <axis = 1> (x)", "y = Softmax <axis = -1> (x)", 11),
    ("float[2,3,5] x", "y = LogSoftmax(x)", "y = LogSoftmax <axis = 2> (x)", 12),
    ("float[2,3,5] x", "", "y = Softmax <axis = 1> (x)", 13),
    ("float[7,4] x", "y, u = Split <num_outputs = 2> (x)", "y, u = Split <num_outputs = 2, axis = 1> (x)"),
    (IMAGE, constant("0,0,1,1,0,0,1,1") + "y = Pad(x, k) z = AveragePool <kernel_shape = [2,2]> (y)",
     constant("0,0,1,1,0,0,1,1") + "y = Pad(x, k) z = MaxPool <kernel_shape = [2,2]> (y)"),
    *((ROWS, constant("1") + f"y = {operator} <noop_with_empty_axes = 1> (x, k)",
       constant("1") + f"y = {operator} <noop_with_empty_axes = 0> (x, k)")
      for operator in ("ReduceL1", "ReduceL2", "ReduceSumSquare")),
    (ROWS, constant("0") + "y, i = TopK(x, k)", constant("2") + "y, i = TopK(x, k)"),
    (ROWS, constant("2") + "y, i = TopK(x, k) j = Neg(i)", constant("2") + "y, i = TopK(x, k) j = Neg(y)"),
    *((f"{kind}[4] x", "y = Abs(x)", "") for kind in ("int8", "uint8")),
    *((f"{kind}[4] x, {kind}[4] z", f"y = {operator}(x, z)", "")
      for kind in ("int8", "uint8") for operator in ("Add", "Mul", "Sub")),
    ("int32[4] x, int32[4] z", "", "y = Sub(x, z)"),
    *((f"float[4] x, float{shape} w", f"k = Constant <value = float[1,1] {{2.0}}> () y = {operator}(x, k)",
       f"k = Constant <value = float[1] {{2.0}}> () y = {operator}(x, k)")
      for shape in ("[4]",) for operator in ("Add", "Div", "Mul", "Pow", "Sub")),
    ("float[3,4] x", "k = Constant <value = float[1,1,1] {2.0}> () y = Div(k, x)",
     "k = Constant <value = float[1,1] {2.0}> () y = Div(k, x)"),
    *((NUMBERS, f"y = {operator}(x, z)", f"a = Shape(z) y = {operator}(x, a)") for operator in ("Add",
      "Sub")),
    *((NUMBERS, f"y = {operator}(x, z)", f"a = Shape(z) b = Shape(x) y = {operator}(a, b)")
      for operator in ("Mul",)),
    (NUMBERS, "a = Shape(z) y = Mul(x, a)", "a = Shape(z) y = Mul(a, a)"),
    (NUMBERS, "y = CumSum(x, k) " and constant("0") + "y = CumSum(x, k)",
     constant("0") + "a = Shape(z) y = CumSum(a, k)"),
    ("float[4] x, float[4] z", "y = Mod <fmod = 1> (x, z)", ""),
    ("int32[4] x", "y = ReduceLogSum(x)", ""),
    ("float[4] x", "", "y = ReduceLogSum(x)"),
    ("float[4] x, float[4] z", "a = Div(x, z) y = Floor(a)", "a = Mul(x, z) y = Floor(a)"),
    *((ROWS, f"y = {operator} <axes = [1]> (x)", f"y = {operator}(x)", 13)
      for operator in ("ReduceL1", "ReduceLogSum")),
    (ROWS, constant("") + "y = Expand(x, k)", constant("4,6") + "y = Expand(x, k)"),
    (ROWS, constant("") + "y = Unsqueeze(x, k)", constant("0") + "y = Unsqueeze(x, k)"),
    ("float[1] x", constant("") + "y = Reshape(x, k)", constant("1") + "y = Reshape(x, k)"),
    ("int32[1] x", "", constant("") + "y = Reshape(x, k)"),
    (ROWS, "y = ReduceMean <keepdims = 0> (x) z = Sub(x, y)", "y = ReduceMean(x) z = Sub(x, y)"),
    (ROWS, "y = ReduceMean <keepdims = 0> (x) z = Sub(x, y)",
      "y = ReduceMean <keepdims = 0> (x) z = Sub(y, x)"),
    *(("bool[4] x", f"y = {operator}(x)", "") for operator in ("ReduceMax", "ReduceMin")),
    *(("float[4] x", "", f"y = {operator}(x)") for operator in ("ReduceMax", "ReduceMin")),
    ("float[3] x, float[2] v", constant("4") + "y = OneHot(x, k, v)", ""),
    ("int64[3] x, float[2] v", "", constant("4") + "y = OneHot(x, k, v)"),
    *(("float[3,1,4] x, float[2,16,4] w, float[2,16,4] r, int32[1] n",
       f'y = {operator} <direction = "bidirectional", hidden_size = 4> (x, w, r, , n)',
       f'y = {operator} <direction = "bidirectional", hidden_size = 4> (x, w, r)')
      for operator in ("GRU", "LSTM", "RNN")),
    *(("float[3,1,4] x, float[2,16,4] w, float[2,16,4] r",
       f"y = {operator} <hidden_size = 4> (x, w, r)",
       f'y = {operator} <direction = "bidirectional", hidden_size = 4> (x, w, r)')
      for operator in ("GRU", "LSTM", "RNN")),
    ("float[3,1,4] x, float[2,16,4] w, float[2,16,4] r, float[2,12] p",
     'y = LSTM <direction = "bidirectional", hidden_size = 4, input_forget = 1> (x, w, r)',
     'y = LSTM <direction = "bidirectional", hidden_size = 4, input_forget = 0> (x, w, r)'),
    ("float[3,1,4] x, float[2,16,4] w, float[2,16,4] r, float[2,12] p",
     'y = LSTM <direction = "bidirectional", hidden_size = 4> (x, w, r, , , , , p)', ""),
    *((f"{kind}[4,4] x, {kind}[4,4] z", f"y = {call}", "")
      for kind in ("int32", "int64") for call in ("MatMul(x, z)", "Gemm(x, z)", "Trilu(x)", "Pow(x, z)")),
    *((f"{kind}[4,4] x", f"y = {operator}(x)", f"a = Shape(x) y = {operator}(a)" if kind == "int64" else "")
      for kind in ("int32", "int64")
      for operator in ("Neg", "Relu", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin",
                       "ReduceProd", "ReduceSum", "ReduceSumSquare")),
    ("bool[4] x", "", "a = Cast <to = 6> (x) y = ReduceSum(a)"),
    *((NUMBERS, f"y = {operator}(x, z)", f"a = Shape(x) y = {operator}(a, z)") for operator in ("Div",
      "Mod")),
    (NUMBERS, constant("-2") + "a = Shape(x) y = Div(a, k)", constant("2") + "a = Shape(x) y = Div(a, k)"),
    (NUMBERS, constant("2") + "a = Shape(x) b = Neg(a) y = Mod(b, k)", ""),
    (NUMBERS, constant("2") + "a = Shape(x) b = Shape(z) c = Sub(a, b) y = Div(c, k)",
     constant("2") + "a = Shape(x) b = Shape(z) c = Add(a, b) y = Div(c, k)"),
    ("float[1,4,4] x, float[1,4,4] v", "s = Softmax(x) a = MatMul(s, v) y = Transpose <perm = [0,2,1]> (a)",
     "s = Relu(x) a = MatMul(s, v) y = Transpose <perm = [0,2,1]> (a)"),
    ("float[1,4,4] x, float[1,4,8] v", "",
      "s = Softmax(x) a = MatMul(s, v) y = Transpose <perm = [0,2,1]> (a)"),
    *((ROWS, f"y = {operator}(x)", f"a = Neg(x) y = {operator}(a)") for operator in ("Max", "Min", "Sum",
      "Dropout")),
    (ROWS + ", float[4,6] z", "", "y = Max(x, z)"),
]  # fmt: skip


def reason(inputs, nodes, opset):
    """Return the reason why the node that makes y is wrong."""
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => (y) {{ {nodes} }}'
    graph = ir.from_proto(onnx.parser.parse_model(text)).graph
    (node,) = [node for node in graph if node.outputs[0].name == "y"]
    return wrong_condition(node, opset)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[1] or form[2])
def test_the_wrong_form_is_known_and_the_one_beside_it_passes(form):
    inputs, wrong, right, opset = (*form, 21)[:4]
    assert not wrong or reason(inputs, wrong, opset)
    assert not right or not reason(inputs, right, opset)


def test_every_operator_of_the_table_has_a_wrong_form():
    named = {name for names, _, _ in conditions._CONDITIONS for name in names.split()}
    tried = {name for name in named for form in FORMS if f"y = {name}" in form[1] or f"= {name}" in form[1]}
    assert named - tried - {"Einsum", "DequantizeLinear", "Abs"} == set()
