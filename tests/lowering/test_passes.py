"""Rules write graphs otherwise, and they compute what they did: onnxruntime runs both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from pinnace import formats
from pinnace.engines.onnxruntime import rules as passes
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.lowering.graph import compilable
from pinnace.weights.source import Source

DATA = Path(__file__).parents[1] / "data"
HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'

TOLERANCE = 2e-6
"""Sums of some hundred float32 in another order, relative to the largest."""


def rewritten(graph: str, opset: int = 21) -> Counter[str]:
    """The operators of a graph after the rules; what it computes is compared with what it did before."""
    model = ir.from_onnx_text(f"{HEAD}\n{graph}")
    model.opset_imports[""] = opset
    before = _run(model)
    rewrite(model)
    for given, expected in zip(_run(model), before, strict=True):
        assert given.shape == expected.shape
        np.testing.assert_allclose(given, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())
    return Counter(node.op_type for node in model.graph)


def _run(model: ir.Model) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    return session.run(None, {i.name: random.normal(size=i.shape).astype("f") for i in session.get_inputs()})


def lowered(path: str) -> Counter[str]:
    """The operators of a golden's graph after the rules; other tests compare what it computes."""
    source = Source.of_file(DATA / path)
    model = compilable(formats.read(source), source.name, str(source.folder)).model
    rewrite(model)
    return Counter(node.op_type for node in model.graph)


# -- networks as MindSpore exports them ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("whisper_encoder", {"MultiHeadAttention": 2, "Gelu": 4, "LayerNormalization": 5}),
        ("diffusion_unet", {"MultiHeadAttention": 10, "Gelu": 5, "LayerNormalization": 15}),
        ("bert", {"Gelu": 2, "LayerNormalization": 5}),
        ("gpt2_cache", {"Gelu": 2, "LayerNormalization": 5}),
        ("t5", {"SimplifiedLayerNormalization": 12}),
        ("llama", {"SimplifiedLayerNormalization": 5}),
        ("conv3d", {"BatchNormalization": 7, "Reshape": 0}),
    ],
)
def test_networks_arrive_in_fused_forms(name, operators):
    given = lowered(f"zoo/{name}.mindir")
    assert {key: given[key] for key in operators} == operators
    assert not {"Erf", "Tanh", "Sqrt"} & given.keys() - {"Tanh" if name in ("bert", "gpt2_cache") else ""}


# -- rules -----------------------------------------------------------------------------------------


def test_a_product_of_three_is_taken_in_the_cheaper_order():
    graph = """g (float[1,2,300,8] q, float[1,2,8,300] k, float[1,2,300,8] v) => (float[1,2,300,8] y)
    <float half = {0.5}> { a = MatMul(q, k)  b = Mul(half, a)  y = MatMul(b, v) }"""
    model = ir.from_onnx_text(f"{HEAD}\n{graph}")
    assert rewritten(graph) == {"MatMul": 2, "Mul": 1}
    rewrite(model)
    assert [node.inputs[0].name for node in model.graph if node.op_type == "MatMul"] == ["k", "q"]


def test_a_product_stays_whose_other_order_is_not_cheaper():
    graph = """g (float[64,64] a, float[64,300] b, float[300,300] c) => (float[64,300] y)
    { x = MatMul(a, b)  y = MatMul(x, c) }"""
    model = ir.from_onnx_text(f"{HEAD}\n{graph}")
    rewrite(model)
    assert [node.inputs[0].name for node in model.graph] == ["a", "x"]


@pytest.mark.parametrize(
    ("left", "right", "last", "cheaper"),
    [
        ("256,8", "8,256", "256,8", False),  # 1 << 20 multiplications
        ("256,8", "8,256", "256,9", True),
        ("128,64", "64,128", "128,64", False),  # half of 1 << 21
        ("129,64", "64,129", "129,64", True),
        ("2,256,4", "2,4,256", "2,256,4", False),  # twice 1 << 19
        ("3,256,4", "3,4,256", "3,256,4", True),
        ("2,256,8", "2,8,256", "256,9", False),  # matrices of which one is for all
        ("2,256,8", "8,256", "2,256,9", False),
        ("256,8", "8,256", "256", False),  # a vector
    ],
)
def test_the_order_of_products_goes_by_their_multiplications(left, right, last, cheaper):
    model = ir.from_onnx_text(
        f"""{HEAD} g (float[{left}] a, float[{right}] b, float[{last}] c) => (y) {{
            x = MatMul(a, b)  y = MatMul(x, c)
        }}"""
    )
    rewrite(model)
    products = [node.inputs[0].name for node in model.graph if node.op_type == "MatMul"]
    assert products == (["b", "a"] if cheaper else ["a", "x"])


def test_a_product_that_something_else_reads_stays():
    graph = """g (float[300,8] a, float[8,300] b, float[300,8] c) => (float[300,8] y, float[300,300] x)
    { x = MatMul(a, b)  y = MatMul(x, c) }"""
    model = ir.from_onnx_text(f"{HEAD}\n{graph}")
    rewrite(model)
    assert [node.inputs[0].name for node in model.graph] == ["a", "x"]


POOL = """g (float[1,{channels},13,10] x) => (float[1,{channels},{rows},{columns}] y)
{{ y = AveragePool <kernel_shape = [3,2], {attributes}> (x) }}"""


@pytest.mark.parametrize(
    ("attributes", "rows", "columns"),
    [
        ("strides = [1,1]", 11, 9),
        ("strides = [2,2], pads = [1,0,1,1]", 7, 5),
        ("strides = [2,1], pads = [1,1,0,0]", 6, 10),
        ("pads = [1,1,1,1], count_include_pad = 1", 13, 11),
        ('strides = [2,2], auto_pad = "SAME_UPPER"', 7, 5),
        ('strides = [1,3], auto_pad = "SAME_LOWER"', 13, 4),
        ('auto_pad = "VALID"', 11, 9),
    ],
)
def test_average_pools_of_odd_channels_are_convolutions(attributes, rows, columns):
    given = rewritten(POOL.format(channels=5, attributes=attributes, rows=rows, columns=columns))
    assert given["Conv"] == 1
    assert "AveragePool" not in given


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ("strides = [3,3]", "2,9"),  # a window larger than the image, which has a result
        ("pads = [3,0,0,0], strides = [9,9]", "9,9"),  # windows that see zeros alone, which are refused
        ('auto_pad = "SAME_UPPER", strides = [4,4]', "12,12"),  # windows that begin within the image
    ],
)
def test_average_pools_that_no_convolution_is(attributes, size):
    model = ir.from_onnx_text(
        f"""{HEAD} g (float[1,5,{size}] x) => (float[1,5,"a","b"] y) {{
            y = AveragePool <kernel_shape = [3,2], {attributes}> (x)
        }}"""
    )
    rewrite(model)
    assert [node.op_type for node in model.graph] == ["AveragePool"]


@pytest.mark.parametrize(
    ("size", "kernel", "operator"),
    [("9,9", "7,7", "Conv"), ("9,12", "5,10", "AveragePool"), ("9", "3", "AveragePool")],
)
def test_average_pools_of_large_windows_and_other_dimensions_stay(size, kernel, operator):
    shape = f"1,5,{size}"
    y = ",".join("abcd"[: shape.count(",") + 1])
    node = f"AveragePool <kernel_shape = [{kernel}]> (x)"
    given = rewritten(f"g (float[{shape}] x) => (float[{y}] y) {{ y = {node} }}")
    assert given == {operator: 1}


@pytest.mark.parametrize(
    ("channels", "attributes"),
    [(16, "strides = [1,1]"), (5, "ceil_mode = 1"), (5, "dilations = [1,1]")],
)
def test_other_average_pools_stay(channels, attributes):
    graph = POOL.format(channels=channels, attributes=attributes, rows=11, columns=9)
    assert rewritten(graph) == {"AveragePool": 1}


def test_shapes_are_inferred_by_the_operator_set_of_the_file():
    given = rewritten(
        """g (float[1,5,6,8] x) => (float[1,5,4,6] y) <float[8] ones = {1,1,1,1,1,1,1,1}> {
            n = RMSNormalization(x, ones)  y = AveragePool <kernel_shape = [3,3]> (n)
        }""",
        opset=23,  # the first that has RMSNormalization
    )
    assert given == {"RMSNormalization": 1, "Conv": 1}


def test_behind_an_operator_that_no_set_has_nothing_is_known():
    model = ir.from_onnx_text(
        f"""{HEAD} g (float[1,5,6,8] x) => (float[1,5,4,6] y) {{
            n = NoSuchOperator(x)  y = AveragePool <kernel_shape = [3,3]> (n)
        }}"""
    )
    rewrite(model)
    assert [node.op_type for node in model.graph] == ["NoSuchOperator", "AveragePool"]


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare"])
@pytest.mark.parametrize(
    ("axes", "keep", "dims"),
    [("1,2", 1, "1,1,1,96"), ("-2,1", 0, "1,96"), ("1", 0, "1,8,96"), ("1", 1, "1,1,8,96")],
)
def test_sums_of_rows_are_products(operator, axes, keep, dims):
    count = axes.count(",") + 1
    given = rewritten(
        f"""g (float[1,14,8,96] x) => (float[{dims}] y) <int64[{count}] axes = {{{axes}}}>
        {{ y = {operator} <keepdims = {keep}> (x, axes) }}"""
    )
    assert given["MatMul"] == 1
    assert operator not in given


@pytest.mark.parametrize(("rows", "operator"), [(1, "ReduceSum"), (2, "MatMul")])
def test_one_row_is_no_product(rows, operator):
    text = f"g (float[1,{rows},96] x) => (float[1,96] y) <int64[1] axes = {{1}}> {{"
    assert rewritten(f"{text} y = ReduceSum <keepdims = 0> (x, axes) }}")[operator] == 1


@pytest.mark.parametrize("axes", ["int64[1] axes = {3}", "int64[1,1] axes = {1}"])
def test_sums_that_the_engine_refuses_are_left_to_it(axes):
    model = ir.from_onnx_text(
        f"{HEAD} g (float[1,64,96] x) => (float[1,1,96] y) <{axes}> {{ y = ReduceSum(x, axes) }}"
    )
    rewrite(model)
    assert [node.op_type for node in model.graph] == ["ReduceSum"]


@pytest.mark.parametrize(("shape", "axes"), [("2,64,96", "1"), ("1,64,96", "2"), ("1,64,9,96", "1,3")])
def test_other_sums_stay(shape, axes):
    rank, count = len(shape.split(",")), axes.count(",") + 1
    assert rewritten(
        f"""g (float[{shape}] x) => (float[{",".join(["?"] * rank)}] y) <int64[{count}] axes = {{{axes}}}>
        {{ y = ReduceSum(x, axes) }}""".replace("?", "N")
    ) == {"ReduceSum": 1}


ATTENTION = """g (float[2,30,4,8] q4, float[2,20,4,8] k4, float[2,20,4,8] v4) => (float[2,30,4,8] y)
<float scale = {{0.3}}> {{
    q = Transpose <perm = [0,2,1,3]> (q4)
    {keys}
    v = Transpose <perm = [0,2,1,3]> (v4)
    s = MatMul(q, k)
    t = Mul(s, scale)
    p = Softmax <axis = -1> (t)
    m = MatMul(p, v)
    y = Transpose <perm = [0,2,1,3]> (m)
}}"""


@pytest.mark.parametrize(
    "keys",
    [
        "k = Transpose <perm = [0,2,3,1]> (k4)",
        "h = Transpose <perm = [0,2,1,3]> (k4) k = Transpose <perm = [0,1,3,2]> (h)",
    ],
)
@pytest.mark.parametrize("opset", [9, 12, 21])
def test_attention_is_one_operator(keys, opset):
    assert rewritten(ATTENTION.format(keys=keys), opset) == {"MultiHeadAttention": 1, "Reshape": 4}


@pytest.mark.parametrize(("opset", "kept"), [(12, 1), (13, 0)])
def test_a_softmax_without_an_axis_went_over_all_others_once(opset, kept):
    turn = "Transpose <perm = [0,2,1,3]>"
    given = rewritten(
        f"""g (float[2,5,4,8] q, float[2,5,4,8] k, float[2,5,4,8] v) => (float[2,5,4,8] y) {{
            a = {turn} (q)  b = Transpose <perm = [0,2,3,1]> (k)  c = {turn} (v)
            s = MatMul(a, b)  p = Softmax(s)  m = MatMul(p, c)  y = {turn} (m)
        }}""",
        opset,
    )
    assert given["Softmax"] == kept


HEADS_FIRST = """g (float[2,4,30,8] q, float[2,4,20,8] k, float[2,4,20,{size}] v)
    => (float[2,30,4,{size}] y) {{
    t = Transpose <perm = [0,1,3,2]> (k)
    s = MatMul(q, t)
    p = Softmax <axis = 3> (s)
    m = MatMul(p, v)
    y = Transpose <perm = [0,2,1,3]> (m)
}}"""


def test_attention_over_keys_that_were_never_in_order_of_tokens():
    given = rewritten(HEADS_FIRST.format(size=8))
    assert given == {"MultiHeadAttention": 1, "Reshape": 2, "Transpose": 1}


@pytest.mark.parametrize("turned", ["k", "v"])
def test_attention_over_keys_or_values_in_order_of_tokens_takes_both_with_heads_first(turned):
    text = HEADS_FIRST.format(size=8).replace(f"float[2,4,20,8] {turned}", f"float[2,20,4,8] {turned}4")
    text = text.replace("{", f"{{ {turned} = Transpose <perm = [0,2,1,3]> ({turned}4)", 1)
    assert rewritten(text) == {"MultiHeadAttention": 1, "Reshape": 2, "Transpose": 2}


def test_attention_over_keys_of_another_size_than_the_values():
    """The operator takes them with tokens first alone."""
    assert "MultiHeadAttention" not in rewritten(HEADS_FIRST.format(size=6))


@pytest.mark.parametrize("kind", ["double", "float16"])
def test_attention_in_other_types_stays(kind):
    model = ir.from_onnx_text(f"{HEAD} {HEADS_FIRST.format(size=8).replace('float', kind)}")
    rewrite(model)
    assert "MultiHeadAttention" not in [node.op_type for node in model.graph]


PACKED = """g (float[2,30,3,4,8] x) => (float[2,30,4,8] y)
<int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64[1] front = {{0}}> {{
    a = Transpose <perm = [2,0,3,1,4]> (x)
    {parts}
    t = Transpose <perm = [0,1,3,2]> (k)
    s = MatMul(q, t)
    p = Softmax <axis = -1> (s)
    m = MatMul(p, v)
    y = Transpose <perm = [0,2,1,3]> (m)
}}"""


@pytest.mark.parametrize(
    "parts",
    [
        "q = Gather(a, zero) k = Gather(a, one) v = Gather(a, two)",
        "b, c, d = Split <num_outputs = 3> (a)"
        " q = Squeeze(b, front) k = Squeeze(c, front) v = Squeeze(d, front)",
    ],
)
def test_attention_over_parts_of_one_tensor(parts):
    given = rewritten(PACKED.format(parts=parts))
    assert given == {"Gather": 3, "MultiHeadAttention": 1, "Reshape": 4}


def test_attention_with_a_mask_or_looked_at_stays():
    masked = ATTENTION.replace("t = Mul(s, scale)", "u = Mul(s, scale) t = Add(u, scale)")
    shown = ATTENTION.replace("(float[2,30,4,8] y)", "(float[2,30,4,8] y, float[2,4,30,20] p)")
    for graph in (masked, shown):
        given = rewritten(graph.format(keys="k = Transpose <perm = [0,2,3,1]> (k4)"))
        assert "MultiHeadAttention" not in given


NORM = """g (float[2,9,16] x, float[16] scale, float[16] bias) => (float[2,9,16] y)
<float eps = {{0.001}}, float two = {{2.0}}, float size = {{16.0}}, int64[1] last = {{-1}}> {{
    m = ReduceMean(x, last)
    d = Sub(x, m)
    {variance}
    e = Add(v, eps)
    r = Sqrt(e)
    {divided}
    w = Mul(n, scale)
    y = Add(w, bias)
}}"""


@pytest.mark.parametrize("divided", ["n = Div(d, r)", "i = Reciprocal(r) n = Mul(d, i)"])
@pytest.mark.parametrize(
    "variance",
    [
        "s = Mul(d, d) v = ReduceMean(s, last)",
        "s = Pow(d, two) v = ReduceMean(s, last)",
        "s = ReduceSumSquare(d, last) v = Div(s, size)",
    ],
)
def test_layer_norm_spelled_out(variance, divided):
    assert rewritten(NORM.format(variance=variance, divided=divided)) == {"LayerNormalization": 1}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, s) y = Add(n, b)", {}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, s) y = Add(b, n)", {}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, ones) y = Mul(n, s)", {}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, ones) y = Mul(s, n)", {}),
        ("n = LayerNormalization <axis = 1, epsilon = 0.01> (x, whole) y = Add(n, whole)", {}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, s) y = Mul(n, b)", {"Mul": 1}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, twos) y = Mul(n, b)", {"Mul": 1}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, s, b) y = Add(n, b)", {"Add": 1}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, s) y = Add(n, one)", {"Add": 1}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, s) y = Add(n, whole)", {"Add": 1}),
        ("n = LayerNormalization <axis = -1, epsilon = 0.01> (x, s) z = Neg(n) y = Add(n, b)",
         {"Add": 1, "Neg": 1}),
    ],
)  # fmt: skip
def test_scales_and_biases_join_a_layer_norm_without_them(body, expected):
    ones, twos = (",".join([number] * 4) for number in "12")
    graph = f"""g (float[2,3,4] x, float[4] s, float[4] b, float[3,4] whole) => (float[2,3,4] y)
    <float[4] ones = {{{ones}}}, float[4] twos = {{{twos}}}, float[1] one = {{1}}> {{ {body} }}"""
    assert rewritten(graph) == {"LayerNormalization": 1, **expected}


@pytest.mark.parametrize(
    ("axes", "keep", "fused"),
    [("[-1]", 1, True), ("[2]", 1, True), ("[1]", 1, False), ("[1,2]", 1, False), ("[0]", 1, False)],
)
def test_norms_of_old_operator_sets_have_their_axes_in_attributes(axes, keep, fused):
    graph = f"""g (float[16,16,16] x) => (float[16,16,16] y) <float eps = {{0.001}}> {{
        m = ReduceMean <axes = {axes}, keepdims = {keep}> (x)  d = Sub(x, m)  s = Mul(d, d)
        v = ReduceMean <axes = {axes}> (s)  e = Add(v, eps)  r = Sqrt(e)  y = Div(d, r)
    }}"""
    assert ("LayerNormalization" in rewritten(graph, 17)) == fused


@pytest.mark.parametrize("means", ["1 0", "0 1", "0 0"])
def test_means_that_lose_their_dimension_are_others(means):
    first, second = means.split()
    graph = f"""g (float[16,16,16] x) => (float[16,16,16] y) <float e0 = {{0.001}}, int64[1] last = {{-1}}> {{
        m = ReduceMean <keepdims = {first}> (x, last)  d = Sub(x, m)  s = Mul(d, d)
        v = ReduceMean <keepdims = {second}> (s, last)  e = Add(v, e0)  r = Sqrt(e)  y = Div(d, r)
    }}"""
    assert "LayerNormalization" not in rewritten(graph)


def test_a_norm_of_nothing_stays():
    model = ir.from_onnx_text(
        f"""{HEAD} g (float[2,0] x) => (float[2,0] y) <float eps = {{0.001}}, int64[1] last = {{-1}}> {{
            m = ReduceMean(x, last) d = Sub(x, m) s = Mul(d, d) v = ReduceMean(s, last)
            e = Add(v, eps) r = Sqrt(e) y = Div(d, r)
        }}"""
    )
    rewrite(model)
    assert model.graph[-1].op_type == "Div"


def test_a_norm_of_other_distances_stays():
    other = NORM.format(variance="s = Mul(x, x) v = ReduceMean(s, last)", divided="n = Div(d, r)")
    assert "LayerNormalization" not in rewritten(other)


@pytest.mark.parametrize(
    "body",
    [
        "i = Reciprocal(r) n = Mul(x, i) y = Mul(n, scale)",
        "i = Reciprocal(r) n = Mul(i, x) y = Mul(scale, n)",
        "n = Div(x, r) y = Mul(n, scale)",
    ],
)
@pytest.mark.parametrize(
    "mean",
    [
        "s = Mul(x, x) m = ReduceMean(s, last)",
        "s = Pow(x, two) m = ReduceMean(s, last)",
        "s = ReduceSumSquare(x, last) m = Div(s, size)",
    ],
)
def test_root_mean_square_norm(body, mean):
    assert rewritten(
        f"""g (float[2,9,16] x, float[16] scale) => (float[2,9,16] y)
        <float eps = {{0.001}}, int64[1] last = {{-1}}, float two = {{2}}, float size = {{16}}> {{
            {mean} e = Add(m, eps) r = Sqrt(e) {body}
        }}"""
    ) == {"SimplifiedLayerNormalization": 1}


TANH = "{cube} s = Mul(c, small) t = Add(x, s) u = Mul(root, t) f = Tanh(u) r = Add(one, f)"


@pytest.mark.parametrize("product", ["h = Mul(x, r) y = Mul(h, half)", "h = Mul(half, x) y = Mul(h, r)"])
@pytest.mark.parametrize(
    "rise",
    [
        "a = Mul(x, down) f = Erf(a) r = Add(f, one)",
        "a = Div(x, up) f = Erf(a) r = Add(f, one)",
        TANH.format(cube="c = Pow(x, three)"),
        TANH.format(cube="q = Mul(x, x) c = Mul(q, x)"),
        "a = Mul(down, x) f = Erf(a) r = Add(one, f)",
        "q = Mul(x, x) c = Mul(x, q) s = Mul(small, c) t = Add(s, x) u = Mul(t, root) f = Tanh(u) "
        "r = Add(f, one)",
    ],
)
def test_gelu_spelled_out(rise, product):
    # A sum before it, because sums are what the rule looks for.
    assert rewritten(
        f"""g (float[2,50] z) => (float[2,50] y)
        <float one = {{1.0}}, float half = {{0.5}}, float three = {{3.0}},
        float down = {{0.70710678}}, float up = {{1.41421356}}, float small = {{0.044715}},
        float root = {{0.79788456}}> {{ x = Add(z, half) {rise} {product} }}"""
    ) == {"Add": 1, "Gelu": 1}


@pytest.mark.parametrize(("opset", "operators"), [(9, {"Erf": 1}), (19, {"Erf": 1}), (20, {"Gelu": 1})])
def test_gelu_is_an_operator_since_set_20(opset, operators):
    given = rewritten(
        """g (float[2,50] x) => (float[2,50] y)
        <float one = {1.0}, float half = {0.5}, float up = {1.41421356}> {
            a = Div(x, up) f = Erf(a) r = Add(f, one) h = Mul(x, r) y = Mul(h, half)
        }""",
        opset,
    )
    assert {key: given[key] for key in operators} == operators


@pytest.mark.parametrize(
    "body",
    [
        "m = ReduceMean(s, last) e = Add(m, eps) r = Sqrt(e) i = Reciprocal(r) n = Mul(x, i) y = Mul(n, w)",
        "n = LayerNormalization <axis = -1, epsilon = 0.001> (x, v)  y = Add(n, w)",
    ],
)
def test_scales_of_free_sizes_may_be_broadcast(body):
    model = ir.from_onnx_text(
        f"""{HEAD} g (float[2,"a"] x, float["b"] v, float["c"] w) => (float[2,"a"] y)
        <float eps = {{0.001}}, int64[1] last = {{-1}}> {{ s = Mul(x, x) {body} }}"""
    )
    rewrite(model)
    assert model.graph[-1].op_type in ("Mul", "Add")


def test_a_norm_by_what_it_is_given_stays():
    vectors = "float[2] s = {1.5,0.5}, float[2] b = {0.1,0.2}, float[2] m = {0.3,0.4}, float[2] v = {1.2,0.7}"
    model = ir.from_onnx_text(
        f"""{HEAD} g (float[1,2,3,4,5] x) => (float[1,2,3,4,5] y)
        <{vectors}, int64[4] merged = {{1,2,12,5}}, int64[5] whole = {{1,2,3,4,5}}> {{
            a = Reshape(x, merged)
            n, o, p = BatchNormalization <epsilon = 0.001, training_mode = 1> (a, s, b, m, v)
            y = Reshape(n, whole)
        }}"""
    )
    rewrite(model)
    assert [node.op_type for node in model.graph] == ["Reshape", "BatchNormalization", "Reshape"]


@pytest.mark.parametrize("where", ["one", "half", "up"])
def test_numbers_may_bring_dimensions(where):
    kinds = {name: "float[1,1,1]" if name == where else "float" for name in ("one", "half", "up")}
    assert "Gelu" not in rewritten(
        f"""g (float[2,50] x) => (float[1,2,50] y)
        <{kinds["one"]} one = {{1.0}}, {kinds["half"]} half = {{0.5}}, {kinds["up"]} up = {{1.41421356}}> {{
            a = Div(x, up) f = Erf(a) r = Add(f, one) h = Mul(x, r) y = Mul(h, half)
        }}"""
    )


def test_another_curve_is_no_gelu():
    assert "Gelu" not in rewritten(
        """g (float[2,50] x) => (float[2,50] y) <float one = {1.0}, float half = {0.5}> {
            f = Erf(x) r = Add(f, one) h = Mul(x, r) y = Mul(h, half)
        }"""
    )


def test_batch_norm_of_merged_dimensions():
    vectors = "float[2] s = {1.5,0.5}, float[2] b = {0.1,0.2}, float[2] m = {0.3,0.4}, float[2] v = {1.2,0.7}"
    assert rewritten(
        f"""g (float[1,2,3,4,5] x) => (float[1,2,3,4,5] y)
        <{vectors}, int64[4] merged = {{1,2,12,5}}, int64[5] whole = {{1,2,3,4,5}}> {{
            a = Reshape(x, merged)
            n = BatchNormalization <epsilon = 0.001> (a, s, b, m, v)
            y = Reshape(n, whole)
        }}"""
    ) == {"BatchNormalization": 1}


@pytest.mark.parametrize(
    "body",
    [
        "t = Transpose <perm = [0,2,3,1]> (x)  a = Mul(t, s)  y = Add(a, b)",
        "t = Transpose <perm = [0,2,3,1]> (x)  a = Mul(s, t)  y = Add(a, b)",
    ],
)
def test_scales_of_channels_that_were_moved_last(body):
    given = rewritten(
        f"""g (float[1,2,4,5] x) => (float[1,4,5,2] y) <float[2] s = {{1.5,0.5}}, float[2] b = {{0.1,0.2}}> {{
            {body}
        }}"""
    )
    assert given["BatchNormalization"] == 1


def test_scales_of_channels_between_images():
    given = rewritten(
        """g (float[1,4,5,2] x) => (float[1,2,4,5] y) <float[2] s = {1.5,0.5}, float[2] b = {0.1,0.2}> {
            a = Mul(x, s) c = Add(a, b) d = Relu(c) y = Transpose <perm = [0,3,1,2]> (d)
        }"""
    )
    assert given["BatchNormalization"] == 1
    assert not {"Mul", "Add"} & given.keys()


def test_rules_look_into_branches():
    model = ir.from_onnx_text(
        f"""{HEAD}
        g (bool c, float[1,64,96] x) => (float[1,96] y) <int64[1] axes = {{1}}> {{
            y = If (c) <
                then_branch = yes () => (float[1,96] a) {{ a = ReduceSum <keepdims = 0> (x, axes) }},
                else_branch = no () => (float[1,96] b) {{ b = ReduceMax <keepdims = 0> (x, axes) }}
            >
        }}"""
    )
    rewrite(model)
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).normal(size=(1, 64, 96)).astype("f")
    (given,) = session.run(None, {"c": np.array(True), "x": x})
    np.testing.assert_allclose(given, x.sum(1), rtol=0, atol=1e-5)
    inner = [n.op_type for n in ir.traversal.RecursiveGraphIterator(model.graph)]
    assert "MatMul" in inner
    assert "ReduceSum" not in inner


def test_operators_of_other_domains_are_left_alone():
    """A function of a file may have the name of an operator, and inputs as that has them."""
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 21, "mine": 1]>
        g (float[1,64,96] x) => (float[1,64,96] y) <int64[1] axes = {1}> { y = mine.ReduceSum(x, axes) }
        <domain: "mine", opset_import: ["": 21]> ReduceSum (x, axes) => (y) { y = Neg(x) }"""
    )
    rewrite(model)
    assert [(node.domain, node.op_type) for node in model.graph] == [("mine", "ReduceSum")]


@pytest.mark.parametrize(
    ("opset", "body", "shape"),
    [
        (21, "y = ReduceSum <keepdims = 0> (x, axes)", (3,)),
        (13, "y = ReduceMax <axes = [-1]> (x)", (0, 3, 1)),
        (13, "y = ArgMax <axis = -1> (x)", (0, 3, 1)),
        (13, "y = MatMul (x, w)", (0, 3)),
    ],
)
def test_nothing_has_the_shape_that_onnx_says(opset, body, shape):
    constants = "<float[2] w = {1, 2}, int64[2] axes = {-1, 0}>"
    model = ir.from_onnx_text(f"{HEAD} g (float[n,3,2] x) => (y) {constants} {{ {body} }}")
    model.opset_imports[""] = opset
    rewrite(model)
    data = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.zeros((0, 3, 2), "f")})[0].shape == shape


def test_signed_steps_become_unsigned():
    graph = """g (float[3,8] x) => (float[3,8] y) <float s = {0.02}, int8 z = {5}>
    { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""
    assert rewritten(graph) == {"QuantizeLinear": 1, "DequantizeLinear": 1}
    model = ir.from_onnx_text(f"{HEAD} {graph}")
    rewrite(model)
    assert model.graph.node(0).outputs[0].dtype is ir.DataType.UINT8


SINCE = {
    "BatchNormalization": (9, """g (float[2,2,3,4,5] x, float[2] s) => (float[2,2,3,4,5] y)
        <int64[4] merged = {2,2,12,5}, int64[5] whole = {2,2,3,4,5}> {
            a = Reshape(x, merged) n = BatchNormalization <epsilon = 0.001> (a, s, s, s, s)
            y = Reshape(n, whole) }"""),
    "QuantizeLinear": (11, """g (uint8[1,2,5,5] q, uint8[2,2,3,3] k) => (y) <float s = {1}, uint8 z = {0}> {
        d = DequantizeLinear(q, s, z)  w = DequantizeLinear(k, s, z)  c = Conv(d, w)  a = Relu(c)
        y = QuantizeLinear(a, s, z) }"""),
    "Gemm": (11, """g (uint8[2,5] q, uint8[5,4] k, float[4] c) => (y) <float s = {0.05}, uint8 z = {128}> {
        d = DequantizeLinear(q, s, z)  w = DequantizeLinear(k, s, z)  y = Gemm(d, w, c) }"""),
    "Reshape": (14, "g (float[1,0,4,4] x) => (y) { y = GlobalAveragePool(x) }"),
    "Pad": (15, """g (float[1,1,n,n] x, float[1,1,2,2] w) => (y) {
        y = Conv <auto_pad = "SAME_UPPER", dilations = [2,2], strides = [2,2]> (x, w) }"""),
    "LayerNormalization": (17, """g (float[2,16] x) => (y) <float eps = {0.001}> {
        m = ReduceMean <axes = [-1]> (x)  d = Sub(x, m)  s = Mul(d, d)  v = ReduceMean <axes = [-1]> (s)
        e = Add(v, eps)  r = Sqrt(e)  y = Div(d, r) }"""),
    "InstanceNormalization": (21, """g (float[2,6,5] x, float[6] s) => (y) {
        y = GroupNormalization <num_groups = 3> (x, s, s) }"""),
}  # fmt: skip
"""Operators that a rule writes or removes, the first operator set that it understands, and its form."""


@pytest.mark.parametrize("operator", SINCE)
def test_rules_leave_the_forms_of_older_operator_sets(operator):
    first, graph = SINCE[operator]
    for opset in (first - 1, first):
        model = ir.from_onnx_text(f"{HEAD} {graph}".replace('"": 21', f'"": {opset}'))
        before = [node.op_type for node in model.graph]
        rewrite(model)
        assert ([node.op_type for node in model.graph] != before) == (opset == first)


@pytest.mark.parametrize("error", [AttributeError, TypeError])
def test_mistakes_of_a_rule_are_seen(monkeypatch, error):
    def mistaken(b, node):
        raise error

    monkeypatch.setitem(passes.RULES, "Abs", (mistaken,))
    with pytest.raises(error):
        rewrite(ir.from_onnx_text(f"{HEAD}\ng (float[3] x) => (float[3] y) {{ y = Abs(x) }}"))


def test_the_maximum_of_a_leaky_relu_is_not_guarded_against_nan():
    assert lowered("mindspore_random/random_leaky_relu.mindir") == {"Mul": 1, "Max": 1}


def test_nodes_that_match_no_rule_cost_no_inference():
    """Shapes of ONNX files are not trusted, and to infer them took 80 ms for EfficientNet."""
    model = ir.from_onnx_text(
        f"""{HEAD}
        g (float[1,8,16,16] x, float[8,1,3,3] w) => (float[1,8,1,1] y) {{
            a = Conv <group = 8> (x, w)
            b = Conv <strides = [2, 2]> (a, w)
            c = Relu (b)
            d = MaxPool <kernel_shape = [2, 2]> (c)
            y = GlobalAveragePool (d)
        }}"""
    )
    rewrite(model)
    assert [node.outputs[0].shape for node in model.graph][:4] == [None] * 4
