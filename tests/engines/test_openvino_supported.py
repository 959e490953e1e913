"""The forms of operators that OpenVINO gets, and those beside them, which it computes differently."""

import onnx
import onnx_ir as ir
import pytest

from pinnace.engines.openvino.supported import unsupported

IMAGE = "float[1,2,8,8] x"
ROWS = "float[4,6] x"
NUMBERS = "int64[4] x, int64[4] z"

# Inputs, nodes with which one is wrong, nodes that are right, and the operator set if it is not 21.
FORMS = [
    (IMAGE,
     "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1, count_include_pad = 1> (x)",
     "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1> (x)"),
    (IMAGE,
     "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1, strides = [4,3]> (x)",
     "y = AveragePool <kernel_shape = [3,3], ceil_mode = 1, strides = [3,3]> (x)"),
    (IMAGE,
     "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, strides = [3,3], pads = [0,0,0,1]> (x)",
     "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, strides = [3,3], pads = [1,1,0,0]> (x)"),
    (IMAGE,
     "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, pads = [0,0,3,3]> (x)",
     "y = MaxPool <kernel_shape = [3,3], ceil_mode = 1, pads = [0,0,2,2]> (x)"),
    (IMAGE,
     'y = MaxPool <kernel_shape = [3,3], auto_pad = "SAME_UPPER", dilations = [2,2]> (x)',
     "y = MaxPool <kernel_shape = [3,3], dilations = [2,2]> (x)"),
    ("float[1,2,8,8] x, float[2] z",
     "y, u, v = BatchNormalization <training_mode = 1> (x, z, z, z, z) w = Neg(u)",
     ""),
    (ROWS, "y = Cast <to = 10> (x) u = Cast <to = 1> (y)", "y = Cast <to = 10> (x) u = Neg(y)"),
    (ROWS, "y = Cast <to = 10> (x) u = Cast <to = 1> (y)", "y = Cast <to = 1> (x) u = Cast <to = 1> (y)"),
    ("float[1,1,8,8,8] x, float[1,1,3,3,3] w",
     "y = Conv <dilations = [1,1,2]> (x, w)",
     "y = Conv <dilations = [1,1,1]> (x, w)"),
    ("float[1,2,8,8,8] x, float[1,2,3,3,3] w", "", "y = Conv <dilations = [1,1,2]> (x, w)"),
    ("float[1,1,8,8] x, float[1,1,3,3] w", "", "y = Conv <dilations = [2,2]> (x, w)"),
    ("float[1,2,8,8] x, float[2,2,3,3] w", 'y = ConvTranspose <auto_pad = "SAME_LOWER"> (x, w)', ""),
    (ROWS, "y = HardSigmoid <alpha = 0.0> (x)", "y = HardSigmoid <alpha = 0.3> (x)"),
    (IMAGE,
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <antialias = 1> (x, , s)",
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <antialias = 0> (x, , s)"),
    (IMAGE,
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <exclude_outside = 1> (x, , s)",
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <cubic_coeff_a = -0.5> (x, , "
      "s)"),
    (IMAGE,
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <cubic_coeff_a = 0.0> (x, , s)",
     "s = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize(x, , s)"),
    (IMAGE,
     "k = Constant <value = int64[4] {1,2,4,4}> () y = Resize <keep_aspect_ratio_policy = "
      '"not_larger"> (x, , , k)',
     'k = Constant <value = int64[4] {1,2,4,4}> () y = Resize <keep_aspect_ratio_policy = "stretch"> '
      "(x, , , k)"),
    (ROWS,
     "k = Constant <value = int64[1] {-1}> () y = CumSum(x, k)",
     "k = Constant <value = int64[1] {0}> () y = CumSum(x, k)"),
    ("float[4,6] x, int64[1] k", "y = CumSum(x, k)", ""),
    ("float[4,6] x, int64[4,5] i",
     "y = GatherElements <axis = 0> (x, i)",
     "y = GatherElements <axis = 1> (x, i)"),
    ("float[4,6] x, int64[3,6] i",
     "y = GatherElements <axis = 1> (x, i)",
     "y = GatherElements <axis = -2> (x, i)"),
    ("float[N,6] x, int64[N,6] i", "y = GatherElements <axis = 1> (x, i)", ""),
    ("float[2,3,5] x", "y = Softmax <axis = 1> (x)", "y = Softmax <axis = -1> (x)", 11),
    ("float[2,3,5] x", "y = LogSoftmax(x)", "y = LogSoftmax <axis = 2> (x)", 12),
    ("float[2,3,5] x", "", "y = Softmax <axis = 1> (x)", 13),
    ("float[7,4] x", "y, u = Split <num_outputs = 2> (x)", "y, u = Split <num_outputs = 2, axis = 1> (x)"),
    (IMAGE,
     "k = Constant <value = int64[8] {0,0,1,1,0,0,1,1}> () y = Pad(x, k) z = AveragePool "
      "<kernel_shape = [2,2]> (y)",
     "k = Constant <value = int64[8] {0,0,1,1,0,0,1,1}> () y = Pad(x, k) z = MaxPool <kernel_shape = "
      "[2,2]> (y)"),
    (ROWS,
     "k = Constant <value = int64[1] {1}> () y = ReduceL2 <noop_with_empty_axes = 1> (x, k)",
     "k = Constant <value = int64[1] {1}> () y = ReduceL2 <noop_with_empty_axes = 0> (x, k)"),
    ("int32[4] x, int32[4] z", "", "y = Sub(x, z)"),
    ("float[4] x, float[4] w",
     "k = Constant <value = float[1,1] {2.0}> () y = Add(x, k)",
     "k = Constant <value = float[1] {2.0}> () y = Add(x, k)"),
    ("float[4] x, float[4] w",
     "k = Constant <value = float[1,1] {2.0}> () y = Div(x, k)",
     "k = Constant <value = float[1] {2.0}> () y = Div(x, k)"),
    ("float[4] x, float[4] w",
     "k = Constant <value = float[1,1] {2.0}> () y = Mul(x, k)",
     "k = Constant <value = float[1] {2.0}> () y = Mul(x, k)"),
    ("float[4] x, float[4] w",
     "k = Constant <value = float[1,1] {2.0}> () y = Pow(x, k)",
     "k = Constant <value = float[1] {2.0}> () y = Pow(x, k)"),
    ("float[4] x, float[4] w",
     "k = Constant <value = float[1,1] {2.0}> () y = Sub(x, k)",
     "k = Constant <value = float[1] {2.0}> () y = Sub(x, k)"),
    ("float[3,4] x",
     "k = Constant <value = float[1,1,1] {2.0}> () y = Div(k, x)",
     "k = Constant <value = float[1,1] {2.0}> () y = Div(k, x)"),
    (NUMBERS, "y = Add(x, z)", "a = Shape(z) y = Add(x, a)"),
    (NUMBERS, "y = Sub(x, z)", "a = Shape(z) y = Sub(x, a)"),
    (NUMBERS, "y = Mul(x, z)", "a = Shape(z) b = Shape(x) y = Mul(a, b)"),
    (NUMBERS, "a = Shape(z) y = Mul(x, a)", "a = Shape(z) y = Mul(a, a)"),
    (NUMBERS,
     "k = Constant <value = int64[1] {0}> () y = CumSum(x, k)",
     "k = Constant <value = int64[1] {0}> () a = Shape(z) y = CumSum(a, k)"),
    ("float[4] x, float[4] z", "a = Div(x, z) y = Floor(a)", "a = Mul(x, z) y = Floor(a)"),
    (ROWS,
     "k = Constant <value = int64[0] {}> () y = Expand(x, k)",
     "k = Constant <value = int64[2] {4,6}> () y = Expand(x, k)"),
    (ROWS,
     "k = Constant <value = int64[0] {}> () y = Unsqueeze(x, k)",
     "k = Constant <value = int64[1] {0}> () y = Unsqueeze(x, k)"),
    ("float[1] x",
     "k = Constant <value = int64[0] {}> () y = Reshape(x, k)",
     "k = Constant <value = int64[1] {1}> () y = Reshape(x, k)"),
    (ROWS, "y = ReduceMean <keepdims = 0> (x) z = Sub(x, y)", "y = ReduceMean(x) z = Sub(x, y)"),
    (ROWS,
     "y = ReduceMean <keepdims = 0> (x) z = Sub(x, y)",
     "y = ReduceMean <keepdims = 0> (x) z = Sub(y, x)"),
    ("float[4] x", "", "y = ReduceMax(x)"),
    ("float[4] x", "", "y = ReduceMin(x)"),
    ("int64[4,4] x", "y = Neg(x)", "a = Shape(x) y = Neg(a)"),
    ("int64[4,4] x", "y = ReduceSum(x)", "a = Shape(x) y = ReduceSum(a)"),
    ("bool[4] x", "", "a = Cast <to = 6> (x) y = ReduceSum(a)"),
    (NUMBERS, "y = Div(x, z)", ""),
    (NUMBERS, "k = Constant <value = int64[1] {-2}> () a = Shape(x) y = Div(a, k)", ""),
    (NUMBERS,
     "k = Constant <value = int64[1] {2}> () a = Shape(x) b = Shape(z) c = Sub(a, b) y = Div(c, k)",
     ""),
    ("float[1,4,4] x, float[1,4,4] v",
     "s = Softmax(x) a = MatMul(s, v) y = Transpose <perm = [0,2,1]> (a)",
     "s = Relu(x) a = MatMul(s, v) y = Transpose <perm = [0,2,1]> (a)"),
    ("float[1,4,4] x, float[1,4,8] v",
     "",
     "s = Softmax(x) a = MatMul(s, v) y = Transpose <perm = [0,2,1]> (a)"),
    (ROWS, "y = Max(x)", ""),
    (ROWS, "y = Min(x)", ""),
    (ROWS, "y = Sum(x)", ""),
    ("float[4,6] x, float[4,6] z", "", "y = Max(x, z)"),
]  # fmt: skip

# Calls of integers and booleans that OpenVINO computes in float32, in 32 bits, or with other dimensions.
OTHER_TYPES = {
    "int8[4]": ("Abs(x)", "Add(x, z)", "Mul(x, z)", "Sub(x, z)",),
    "uint8[4]": ("Abs(x)", "Add(x, z)", "Mul(x, z)", "Sub(x, z)",),
    "bool[4]": ("ReduceMax(x)", "ReduceMin(x)",),
    "int32[4,4]": ("MatMul(x, z)", "Gemm(x, z)", "Trilu(x)", "Pow(x, z)", "Neg(x)", "Relu(x)",
        "ReduceL2(x)", "ReduceMax(x)", "ReduceMean(x)", "ReduceMin(x)", "ReduceProd(x)",
        "ReduceSum(x)",),
    "int64[4,4]": ("MatMul(x, z)", "Gemm(x, z)", "Trilu(x)", "Pow(x, z)", "Relu(x)", "ReduceL2(x)",
        "ReduceMax(x)", "ReduceMean(x)", "ReduceMin(x)", "ReduceProd(x)",),
}  # fmt: skip


def refused(inputs, nodes, opset=21):
    """Return the operators of a model that OpenVINO does not get."""
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => (y) {{ {nodes} }}'
    found = unsupported(ir.from_proto(onnx.parser.parse_model(text)))
    return [one.name for one in found]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[1] or form[2])
def test_the_wrong_form_is_refused_and_the_one_beside_it_passes(form):
    inputs, wrong, right, opset = (*form, 21)[:4]
    assert not wrong or refused(inputs, wrong, opset)
    assert not right or not refused(inputs, right, opset)


@pytest.mark.parametrize(("kind", "call"), [(k, c) for k, calls in OTHER_TYPES.items() for c in calls])
def test_types_in_which_it_computes_differently_are_refused(kind, call):
    assert refused(f"{kind} x, {kind} z", f"y = {call}")


@pytest.mark.parametrize("operator", ["Strange", "TopK", "Scan", "LRN", "Unique", "Hardmax"])
def test_an_operator_that_is_not_listed_is_refused(operator):
    assert operator in refused(ROWS, f"y = {operator}(x)")
