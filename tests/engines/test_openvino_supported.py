"""The forms of operators that OpenVINO gets, and those beside them, which it computes differently."""

import re

import onnx
import onnx_ir as ir
import pytest

from pinnace.engines.openvino import supported
from pinnace.engines.openvino.supported import unsupported

IMAGE = "float[1,2,8,8] x"
ROWS = "float[4,6] x"
NUMBERS = "int64[4] x, int64[4] z"
SEQUENCES = "float[2,3,5] x, float[2,3,1] z"
VECTOR = """k = Constant <value = float[3,1] {1.0,2.0,3.0}> () number = Constant <value = float[1] {2.0}> ()
    zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
    two = Constant <value_ints = [2]> () last = Constant <value_ints = [-1]> ()
    four = Constant <value_ints = [2,1,3,1]> ()"""
QUANTIZED = """k = Constant <value = float {0.5}> () w = Constant <value = float[1,2,1,1] {1.0,2.0}> ()
    q = QuantizeLinear(x, k) d = DequantizeLinear(q, k)"""
JOINED = """k = Constant <value = float {0.5}> () c = Concat <axis = 0> (x, x) a = Relu(c)
    q = QuantizeLinear(a, k) d = DequantizeLinear(q, k)"""
CONSTANT = "c = Constant <value = float[1,1,2,2] {1.0,2.0,3.0,4.0}> ()"
ROUNDED = """k = Constant <value = float {0.5}> ()
    q = QuantizeLinear(b, k) d = DequantizeLinear(q, k)"""
GROUPS = "g = GroupNormalization <num_groups = 2> (x, w, w)"

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
    ("float[1,4,3,4] x, float[4] w, float[1] z", "y = PRelu(x, w)", "y = PRelu(x, z)"),
    ("float[1,4,3,4] x, float[4] w, float[1] z",
     "y = GroupNormalization <num_groups = 2> (x, z, w)",
     "y = GroupNormalization <num_groups = 2> (x, w, w)"),
    ("float[1,4,3,4] x, float[4,1,1] w", "", "y = PRelu(x, w)"),
    ("float[3,4] x, float[4] w", "", "y = PRelu(x, w)"),
    ("float[1] x, float z", "y = Clip(x, z)", "k = Constant <value = float {1.0}> () y = Clip(x, k)"),
    ("float[1,2,0,3] x, float[2,2,2,2] w", "y = ConvTranspose(x, w)", ""),
    ("int8[4,4] q, float[4,4] x, float[4] s",
     "d = DequantizeLinear(q, s) y = MatMul(x, d)",
     "w = Constant <value = int8[2,2] {1,2,3,4}> () k = Constant <value = float[2] {1.0,2.0}> () "
     "d = DequantizeLinear(w, k) e = Reshape(x, m) y = MatMul(e, d) m = Constant <value_ints = [8,2]> ()"),
    ("float[2,2,1,1] x", f"{QUANTIZED} y = ConvTranspose(d, d)", f"{QUANTIZED} y = ConvTranspose(d, x)"),
    ("uint8[9] x, bool[9] c, int64[2] i", "y = Gather(x, i)",
     "k = Constant <value = uint8[2] {1,2}> () y = Gather(k, i) z = Gather(c, i)"),
    (ROWS, f"{JOINED} y = QuantizeLinear(d, k)", f"{JOINED} t = Relu(d) y = QuantizeLinear(t, k)"),
    (ROWS,
     f"{JOINED} t = Mul(d, k) y = QuantizeLinear(t, k)",
     f"{JOINED} t = Mul(d, d) y = QuantizeLinear(t, k)"),
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
    *((SEQUENCES, f"{VECTOR} m = {reduced} y = Mul(m, k)", f"{VECTOR} m = {reduced} y = Mul(m, z)")
      for reduced in ("GlobalAveragePool(x)", "GlobalMaxPool(x)", "ReduceMean <keepdims = 1> (x, two)",
                      "ReduceMax(x, two)", "ReduceMin(x, last)", "ReduceProd(x, two)", "ReduceSum(x, two)",
                      "ReduceL2(x, two)", "ReduceMax(x, zero)")),
    *((SEQUENCES, f"{VECTOR} m = GlobalMaxPool(x) {more}", "") for more in
      ("y = Sub(k, m)", "u = Relu(m) y = Mul(u, k)", "u = Add(m, number) v = Sqrt(u) y = Div(v, k)",
       "y = Sum(m, z, k)", "v = Constant <value = float[3] {1.0,2.0,3.0}> () "
       "y = BatchNormalization(m, v, v, v, v)")),
    *((SEQUENCES, "", f"{VECTOR} m = GlobalMaxPool(x) {more}") for more in
      ("y = Mul(m, number)", "u = Mul(m, z) y = Mul(u, k)",
       "w = Constant <value = float[1,2] {1.0,2.0}> () u = MatMul(m, w) y = Mul(u, k)",
       "u = Reshape(m, four) y = Relu(u)")),
    (SEQUENCES, "", f"{VECTOR} m = ReduceMax(x, one) y = Mul(m, k)"),
    (SEQUENCES, f"{VECTOR} s = Shape(x) a = Slice(s, zero, one) m = ReduceMax(x, a) y = Mul(m, k)",
     f"{VECTOR} s = Shape(x) a = Slice(s, zero, one) m = ReduceMax(x, a) y = Mul(m, z)"),
    (SEQUENCES, *(f"{VECTOR} m0 = GlobalMaxPool(x) " + " ".join(f"m{i + 1} = Relu(m{i})" for i in range(n))
                  for n in (100, 10))),  # what follows far behind is not looked at
    (IMAGE, "", f"{VECTOR} m = GlobalMaxPool(x) y = Mul(m, k)"),
    ("float[1,4,8,8] x, float[4] w, float[1,4,1,1] z",
     f"{GROUPS} a = Abs(z) y = Mul(g, a)", f"{GROUPS} a = Sigmoid(g) y = Mul(g, a)"),
    ("float[1,4,8,8] x, float[4] w, float[1,4,1,1] z",
     f"{GROUPS} a = Abs(z) b = Identity(g) y = Add(a, b)",
     f"{GROUPS} a = Relu(g) b = Conv(a, z) y = Add(b, z)"),
    ("float[1,2,3,4] x",
     "v = Constant <value = float[4] {1.0,2.0,3.0,4.0}> () a = MatMul(x, v) "
     "u = Constant <value = float[3] {1.0,2.0,3.0}> () y = Mul(a, u)",
     "v = Constant <value = float[4] {1.0,2.0,3.0,4.0}> () a = MatMul(x, v) y = Relu(a)"),
    (IMAGE, 's = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <mode = "cubic"> (x, s)',
     's = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <mode = "linear"> (x, s)', 10),
    *((ROWS, f"k = Constant <value = float[1] {{{near}}}> () a = {op} y = Erf(a)",
       f"k = Constant <value = float[1] {{{right}}}> () a = {op} y = Erf(a)") for near, right, op in
      ((0.7078, 0.70710677, "Mul(x, k)"), (0.70641, 0.5, "Mul(k, x)"), (1.4128, 1.4142135, "Div(x, k)"))),
    ("float[1,4,8] x",
     "k = Constant <value_ints = [1,4,4,2]> () a = Reshape(x, k) y = Transpose <perm = [0,2,1,3]> (a)",
     "k = Constant <value_ints = [1,4,2,4]> () a = Reshape(x, k) y = Transpose <perm = [0,2,1,3]> (a)"),
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
    (NUMBERS, "y = Max(x)", "y = Max(x, z)"),
    (NUMBERS, "y = Min(x)", "y = Min(x, z)"),
    (NUMBERS,
     "k = Constant <value = int64[1] {-1}> () a = Shape(z) y = CumSum(a, k)",
     "k = Constant <value = int64[1] {1}> () a = Shape(z) y = CumSum(a, k)"),
    (ROWS, "k = Constant <value = float[1] {1.0}> () y = CumSum(x, k)", ""),
    ("int8[4] x", "y = Cast <to = 1> (x)", "k = Constant <value = int8[2] {1,2}> () y = Cast <to = 1> (k)"),
    (ROWS, "y = Cast <to = 16> (x)", "y = Cast <to = 9> (x)"),
    (ROWS, "y = Cast <to = 10, saturate = 0> (x)", "y = Cast <to = 10, saturate = 1> (x)"),
    (ROWS, 'y = Einsum <equation = "ab->ba"> (x)', 'y = Einsum <equation = "ab,ab->a"> (x, x)'),
    ("float[1,1,8,8,8] x, float[1,1,3,3,3] w", "", "y = Conv(x, w)"),
    ("float[1,1,8,8,8] x, float[2,1,3,3,3] w", "", "y = Conv <dilations = [1,1,2]> (x, w)"),
    ("float[1,2,8,8] x, float[2,2,3,3] w",
     "y = ConvTranspose <output_shape = [16,16]> (x, w)",
     'y = ConvTranspose <auto_pad = "NOTSET"> (x, w)'),
    (IMAGE,
     "y, i = MaxPool <kernel_shape = [3,3], dilations = [1,1]> (x)",
     "y = MaxPool <kernel_shape = [3,3], dilations = [1,1], strides = [4,4]> (x)"),
    (IMAGE,
     'y, i = MaxPool <kernel_shape = [3,3], auto_pad = "VALID"> (x)',
     'y = MaxPool <kernel_shape = [3,3], auto_pad = "VALID"> (x)'),
    ("float[1,2,8,8] x, float[2] z", "", "y, u, v, s, t = BatchNormalization(x, z, z, z, z)", 8),
    ("float[4,6] x, float[6] z",
     "y, m = LayerNormalization(x, z) u = Neg(m)",
     "y, m = LayerNormalization(x, z)"),
    ("float[2,3,5] x", "y = Softmax(x)", "y = Softmax <axis = 2> (x)", 12),
    (IMAGE,
     "",
     's = Constant <value = float[4] {1.0,1.0,0.5,0.5}> () y = Resize <mode = "cubic"> (x, s, s)',
     11),
    (ROWS, "", "y = Softmax(x)", 12),
    ("float[7,4] x",
     "y, u = Split <num_outputs = 2, axis = 0> (x)",
     "k = Constant <value = int64[2] {3,4}> () y, u = Split <axis = 0> (x, k)"),
    (ROWS, "", "y = Unsqueeze <axes = [0]> (x)", 12),
    (IMAGE,
     "k = Constant <value = int64[8] {0,0,1,1,0,0,1,1}> () y = Pad(x, k) z = MaxPool <kernel_shape = "
      '[2,2], auto_pad = "SAME_UPPER"> (y)',
     "k = Constant <value = int64[8] {0,0,1,1,0,0,1,1}> () y = Pad(x, k) z = MaxPool <kernel_shape = "
      '[2,2], auto_pad = "NOTSET"> (y)'),
    ("float[2] x", "", "k = Constant <value = float[1,2] {2.0,3.0}> () y = Add(x, k)"),
    ("float x, float[1] s, float t", "y = QuantizeLinear(x, s)", "y = QuantizeLinear(x, t)"),
    ("float[1,1,2,2] x",
     f"{CONSTANT} b = Neg(c) {ROUNDED} y = Conv(d, x)",
     f"{CONSTANT} b = Mul(x, c) {ROUNDED} y = Conv(d, x)"),
    ("float[1,1,2,2] x", "", f"{CONSTANT} b = Neg(c) {ROUNDED} y = Conv(x, d)"),
    ("uint8 x",
     "k = Constant <value = float[1] {0.5}> () y = DequantizeLinear(x, k)",
     "k = Constant <value = float {0.5}> () y = DequantizeLinear(x, k)"),
    ("float[4,6] x, int64[4,6,1] i", "y = GatherElements(x, i)", ""),
    ("float[4,6] x, int64[2,6] i", "y = GatherElements <axis = 1> (x, i)", "y = GatherElements(x, i)"),
    ("float[1,4,4] x, float[1,4,4] v", "", "a = MatMul(x, v) y = Transpose <perm = [0,2,1]> (a)"),
    ("float[1,4,4] x", "", "s = Softmax(x) y = Transpose <perm = [0,2,1]> (s)"),
    ("int64[4] x",
     "k = Constant <value = int64[1] {2147483648}> () y = Equal(x, k)",
     "k = Constant <value = int64[1] {2147483647}> () y = Equal(x, k)"),
    ("int64[4] x",
     "k = Constant <value = int64[2] {-2147483649,0}> () y = Concat <axis = 0> (x, k)",
     "k = Constant <value = int64[2] {-2147483648,0}> () y = Concat <axis = 0> (x, k)"),
    ("int64[4] x", "", "k = Constant <value = int64[1] {9223372036854775807}> () y = Less(x, k)"),
    (ROWS,
     "k = Constant <value = int64[1] {0}> () y = Slice(x, k, k)",
     "k = Constant <value = int64[1] {0}> () e = Constant <value = int64[1] {1}> () y = Slice(x, k, e)"),
    (ROWS, "y = Relu <kind = 1> (x)", "y = Relu(x)"),
    (ROWS, "y = Relu()", ""),
    (ROWS, "y = MatMul(x)", ""),
    ("bool[4] x, float[4] z", "y = Where(x, , z)", "y = Where(x, z, z)"),
    (ROWS, "y = Concat(x, x)", "y = Concat <axis = -1> (x, x)"),
    (ROWS, "", "k = Constant <value = float {6.0}> () y = Clip(x, , k)"),
    ("float[4] x, float[1,4] z", "y = Abs(x)", "y = Abs(z)"),
    *((IMAGE, f"{QUANTIZED} a = MaxPool <kernel_shape = [2,2]> (d) y = {node}",
       f"{QUANTIZED} a = Conv(d, w) y = {node}")
      for node in ("Clip(a, k)", "AveragePool <kernel_shape = [2,2]> (a)",
                   "AveragePool <kernel_shape = [2,2], pads = [1,1,1,1], count_include_pad = 1> (a)")),
    (IMAGE, "", f"{QUANTIZED} y = GlobalAveragePool(d)"),
    ("float[0,4] x", "y = Relu(x)", ""),
    ("int8[4] x, bool[4] c", "", "a = Concat <axis = 0> (x, x) b = Where(c, c, c) y = Cast <to = 6> (b)"),
]  # fmt: skip

# Calls in which all inputs but x come from shapes and constants; OpenVINO reads these before the first run.
READ_BEFORE = [
    "Reshape(x, sides)", "Slice(x, one, four, one, one)", "Split(x, four)", "Squeeze(row, zero)",
    "Expand(x, sides)", "Unsqueeze(x, one)", "Tile(x, sides)", "Pad(x, sides, number, one)",
    "Resize(x, numbers, numbers)", "Resize(x, , , sides)", "ScatterND(x, place, row)", "Trilu(x, one)",
    "ReduceMax(x, one)", "ReduceMean(x, one)", "ReduceL2(x, one)", "ReduceSum(x, one)",
    "ConstantOfShape(sides)",
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


def test_operators_of_other_domains_are_refused():
    text = '<ir_version: 10, opset_import: ["": 21, "mine": 1]> g (float[4] x) => (y) { y = mine.Relu(x) }'
    assert unsupported(ir.from_onnx_text(text))


@pytest.mark.parametrize("call", READ_BEFORE)
def test_what_is_read_before_the_first_run_is_no_input(call):
    constants = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}, int64[2] sides = {4,6},
        int64[1,1] place = {0}, float number = {0}, float[2] numbers = {1,1}>"""

    def is_refused(call):
        text = f"""<ir_version: 10, opset_import: ["": 21]>
            g (float[4,6] x, float[1,6] row, int64[2] c, float[2] f) => (y) {constants} {{
                moved_c = Identity(c) moved_f = Identity(f) y = {call}
            }}"""
        return bool(unsupported(ir.from_onnx_text(text)))

    assert not is_refused(call)
    for one in re.finditer("zero|one|four|sides|place|numbers?", call):
        given = "f" if one[0].startswith("number") else "c"
        for name in given, f"moved_{given}":
            assert is_refused(call[: one.start()] + name + call[one.end() :])


@pytest.mark.parametrize(
    ("kind", "weight", "overflows"),
    [("int8", 64, False), ("int8", -64, False), ("int8", 65, True), ("int8", -65, True),
     ("uint8", 192, False), ("uint8", 64, False), ("uint8", 193, True), ("uint8", 63, True)],
)  # fmt: skip
def test_weights_of_eight_bits_are_refused_where_their_sums_overflow(kind, weight, overflows, monkeypatch):
    def is_refused(activation):
        text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[1,1] x) => (y)
            <{kind}[1,1] w = {{{weight}}}, float s = {{0.1}}, uint8 z = {{128}}> {{
                {activation} v = DequantizeLinear(w, s) y = MatMul(a, v)
            }}"""
        return bool(unsupported(ir.from_onnx_text(text)))

    quantized = "q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z)"
    for on_this_processor in (True, False):
        monkeypatch.setattr(supported, "sums_of_bytes_overflow", lambda there=on_this_processor: there)
        assert is_refused(quantized) == (overflows and on_this_processor)
        assert not is_refused("a = Relu(x)")
