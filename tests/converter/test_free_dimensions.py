"""Models with free dimensions and branches, beside the ONNX model itself, for several sizes."""

import numpy as np
import onnx
import pytest
from tests.converted import same

from pinnace import formats
from pinnace.errors import UnsupportedModelError
from pinnace.types import ModelType
from pinnace.weights.source import Source

KINDS = pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])


def parsed(text):
    """A model in ONNX's text; what stands in it is opset and graph."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    return model.SerializeToString()


def pictures(*shapes):
    random = np.random.default_rng(0)
    return [[random.normal(size=shape).astype(np.float32)] for shape in shapes]


RESIZES = {
    "nearest": (
        "Resize<mode='nearest', coordinate_transformation_mode='asymmetric', nearest_mode='floor'>(x, , f)"
    ),
    "linear": "Resize<mode='linear'>(x, , f)",
    "fraction": "Resize<mode='linear'>(x, , g)",
    "cubic": "Resize<mode='cubic'>(x, , g)",
    "antialias": "Resize<mode='linear', antialias=1>(x, , g)",
    "outside": "Resize<mode='cubic', exclude_outside=1>(x, , g)",
    "sizes": "Resize<mode='linear'>(x, , , sizes)",
    "corners": "Resize<mode='linear', coordinate_transformation_mode='align_corners'>(x, , g)",
    "corners cubic": "Resize<mode='cubic', coordinate_transformation_mode='align_corners'>(x, , g)",
    "corners nearest": "Resize<mode='nearest', coordinate_transformation_mode='align_corners'>(x, , g)",
    "policy": "Resize<mode='linear', keep_aspect_ratio_policy='not_larger', axes=[2, 3]>(x, , , pair)",
}


@KINDS
@pytest.mark.parametrize("form", RESIZES)
def test_resize_of_free_sizes(form, kind, tmp_path):
    original = parsed(f"""g (float[n, 2, h, w] x) => (float[n, 2, u, v] y)
        <float[4] f = {{1, 1, 2, 3}}, float[4] g = {{1, 1, 1.5, 0.6}}, int64[2] two = {{2, 2}},
         int64[2] add = {{3, 1}}, int64[2] pair = {{9, 8}}> {{
        own = Shape<start=0, end=2>(x)
        old = Shape<start=2>(x)
        doubled = Mul(old, two)
        new = Add(doubled, add)
        sizes = Concat<axis=0>(own, new)
        y = {RESIZES[form].replace("'", '"')}
    }}""")
    summary = same(original, tmp_path, *pictures((1, 2, 4, 5), (2, 2, 7, 3)), kind=kind)
    nodes = formats.read(Source.of_file(summary.files[0])).main.nodes
    # The primitives take whole factors, or sizes.
    assert any("Resize" in n.primitive for n in nodes) == (form in {"nearest", "linear", "sizes"})


@KINDS
@pytest.mark.parametrize("shape", ["n, 2, h, w", "n, 2, 4, 5"])
def test_a_resize_to_a_size_that_may_be_one_takes_the_first_element(shape, kind, tmp_path):
    original = parsed(f"""g (float[{shape}] x, int64[2] size) => (float[n, 2, u, v] y) {{
        y = Resize<mode="linear", axes=[2, 3], coordinate_transformation_mode="pytorch_half_pixel">
            (x, , , size)
    }}""")
    (picture,) = pictures((1, 2, 4, 5))[0]
    cases = [[picture, np.array(size)] for size in ([1, 9], [3, 1], [2, 7])]
    same(original, tmp_path, *cases, kind=kind)


SHAPES = {
    "reshape": "parts = Concat<axis=0>(n, h, minus, three)\n y = Reshape(x, parts)",
    "counted": "count = Size(x)\n y = Cast<to=1>(count)",
    "copied": "y = Reshape(x, zeros)",
    "flatten": "y = Flatten<axis=2>(x)",
    "expand": "parts = Concat<axis=0>(two, n, three, h, one)\n a = ReduceMax(x, last)\n y = Expand(a, parts)",
    "widened": "parts = Concat<axis=0>(n, three, one, one)\n y = Expand(x, parts)",
    "reflected": 'y = Pad<mode="reflect">(x, pads)',
    "edges": 'y = Pad<mode="edge">(x, pads)',
    "wrapped": 'y = Pad<mode="wrap">(x, pads)',
    "spread": "y = ConvTranspose<strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]>(x, kernel)",
}


@KINDS
@pytest.mark.parametrize("form", SHAPES)
def test_shapes_computed_of_free_dimensions(form, kind, tmp_path):
    """As exporters write them: sizes taken out of shapes, and put together anew."""
    kernel = ", ".join(str(i / 7) for i in range(27))
    original = parsed(f"""g (float[n, 3, h, w] x) => (float y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}},
         int64[1] minus = {{-1}}, int64[4] zeros = {{0, 0, 0, -1}}, int64[1] last = {{3}},
         int64[8] pads = {{0, 0, 1, 2, 0, 0, 2, 1}},
         float[3, 1, 3, 3] kernel = {{{kernel}}}> {{
        whole = Shape(x)
        n = Gather(whole, zero)
        h = Slice(whole, two, three)
        {SHAPES[form]}
    }}""")
    same(original, tmp_path, *pictures((1, 3, 4, 6), (2, 3, 5, 4)), kind=kind)


@KINDS
@pytest.mark.parametrize(
    ("shape", "result", "node"),
    [
        ("n, 1, 3", "n, 3", "Squeeze(x, axes)"),
        ("n, 3", "n, 1, 3", "Unsqueeze(x, axes)"),
        ("2, 1, 3", "2, 3", "Squeeze(x, axes)"),
    ],
)
def test_axes_that_only_the_run_knows_give_the_shape_that_is_declared(shape, result, node, kind, tmp_path):
    text = f"g (float[{shape}] x, int64[1] axes) => (float[{result}] y) {{ y = {node} }}"
    axes = np.array([1])
    sizes = (2, 5) if "n" in shape else (2,)
    dims = [[n if d == "n" else int(d) for d in shape.split(", ")] for n in sizes]
    same(parsed(text), tmp_path, *([x, axes] for (x,) in pictures(*dims)), kind=kind)
    for unknown in ("a, b", "a, b, c"):
        text = f"g (float[n, k, l] x, int64[1] axes) => (float[{unknown}] y) {{ y = Squeeze(x, axes) }}"
        with pytest.raises(
            UnsupportedModelError, match="axes known only at run time, and the model declares"
        ):
            same(parsed(text), tmp_path, kind=kind)


@KINDS
def test_parts_of_sizes_that_only_the_run_knows_have_those_that_are_declared(kind, tmp_path):
    original = parsed("""g (float[2, 5] x, int64[2] sizes) => (float[2, 2] y, float[2, 3] z) {
        y, z = Split<axis=1>(x, sizes)
    }""")
    (x,) = pictures((2, 5))[0]
    same(original, tmp_path, [x, np.array([2, 3])], kind=kind)


@KINDS
def test_a_reshape_with_one_free_dimension_computes_no_shape(kind, tmp_path):
    original = parsed("""g (float[n, 3, 4] x) => (float[n, 12] y)
        <int64[1] zero = {0}, int64[1] twelve = {12}> {
        whole = Shape(x)
        n = Gather(whole, zero)
        parts = Concat<axis=0>(n, twelve)
        y = Reshape(x, parts)
    }""")
    summary = same(original, tmp_path, *pictures((1, 3, 4), (2, 3, 4)), kind=kind)
    nodes = formats.read(Source.of_file(summary.files[0])).main.nodes
    assert [node.primitive for node in nodes] == ["Reshape"]


SAME = {
    "convolution": 'Conv<auto_pad="SAME_UPPER", strides=[2, 2], dilations=[1, 2]>(x, kernel)',
    "by channel": 'Conv<auto_pad="SAME_UPPER", group=3>(x, part)',
    "over one dimension": 'Conv<auto_pad="SAME_UPPER", strides=[2]>(row, narrow)',
    "wider apart than the kernel": 'Conv<auto_pad="SAME_UPPER", strides=[4, 5]>(x, kernel)',
    "spread": 'ConvTranspose<auto_pad="SAME_UPPER", strides=[2, 2]>(x, kernel)',
    "greatest": 'MaxPool<auto_pad="SAME_UPPER", kernel_shape=[3, 2], strides=[2, 1]>(x)',
    "mean": 'AveragePool<auto_pad="SAME_UPPER", kernel_shape=[3, 2], strides=[2, 1]>(x)',
}


@KINDS
@pytest.mark.parametrize("form", SAME)
def test_windows_of_padding_same_over_free_sizes(form, kind, tmp_path):
    kernel = ", ".join(str(i / 99) for i in range(81))
    original = parsed(f"""g (float[n, 3, h, w] x) => (float y)
        <float[3, 3, 3, 3] kernel = {{{kernel}}}, int64 first = {{0}}, int64[1] two = {{2}}> {{
        part = Gather<axis=1>(kernel, two)
        narrow = Gather<axis=2>(kernel, first)
        row = Gather<axis=2>(x, first)
        y = {SAME[form]}
    }}""")
    same(original, tmp_path, *pictures((1, 3, 4, 6), (2, 3, 7, 5), (1, 3, 9, 12)), kind=kind)


SQUEEZED = """
        sizes = Shape(a)
        size = Gather(sizes, place)
        is_one = Equal(size, one)
        b = If (is_one) <
            then_branch = t () => (float[n, c] p) { p = Squeeze(a, place) },
            else_branch = e () => (float[n, c, l] q) { q = Identity(a) }
        >"""


@KINDS
def test_a_squeeze_whose_dimension_is_free(kind, tmp_path):
    """PyTorch's, behind a branch that only the run chooses: what reads the result wants one rank."""
    weights = "{" + ", ".join(str(i / 9) for i in range(24)) + "}"
    original = parsed(f"""g (float[n, 4, l] x, int64 rate) => (float[n, m] y, float[n, k] z)
        <int64 fast = {{16000}}, int64[1] place = {{2}}, int64[1] one = {{1}}, float[4, 6] w = {weights}> {{
        is_fast = Equal(rate, fast)
        y, z = If (is_fast) <
            then_branch = fast () => (float y0, float[n, k] z0) {{
                a = Relu(x)
                {SQUEEZED}
                y0 = Gemm(b, w)
                z0 = Identity(b)
            }},
            else_branch = slow () => (float y1, float[n, k] z1) {{
                z1 = ReduceSum<keepdims=0>(x, place)
                y1 = Gemm(z1, w)
            }}
        >
    }}""")
    ((x,),) = pictures((2, 4, 1))
    same(original, tmp_path, [x, np.array(16000)], [x, np.array(8000)], kind=kind)


@KINDS
def test_a_squeeze_of_which_both_ranks_can_be(kind, tmp_path):
    original = parsed(f"""g (float[n, 4, l] a) => (float y)
        <int64[1] place = {{2}}, int64[1] one = {{1}}> {{
        {SQUEEZED}
        y = Neg(b)
    }}""")
    same(original, tmp_path, *pictures((2, 4, 1), (2, 4, 3)), kind=kind)


@KINDS
@pytest.mark.parametrize("truth", [0, 1])
def test_a_branch_that_the_file_chooses_is_written_alone(truth, kind, tmp_path):
    original = parsed(f"""g (float[2, 3] x) => (float[2, 3] y) <bool truth = {{{truth}}}> {{
        y = If (truth) <
            then_branch = t () => (float[2, 3] p) {{ p = Neg(x) }},
            else_branch = e () => (float[2, 3] q) {{ q = Abs(x) }}
        >
    }}""")
    assert same(original, tmp_path, *pictures((2, 3)), kind=kind).nodes == 1


LOOPS = {
    "counted": """
        y, all = Loop (n, , x) <body = rounds (int64 i, bool go, float[3] a)
                => (bool on, float[3] b, float[3] row) {
            on = Identity(go)
            b = Add(a, w)
            row = Mul(a, b)
        }>""",
    "as long as": """
        y, all = Loop (, yes, x) <body = rounds (int64 i, bool go, float[3] a)
                => (bool on, float[3] b, float[2] row) {
            b = Add(a, w)
            most = ReduceMax<keepdims=0>(b)
            number = Cast<to=1>(i)
            rest = Sub(limit, number)
            on = Less(most, rest)
            row = Slice(b, one, three)
        }>""",
    "of free sizes": """
        free, all = Loop (n, yes, x) <body = rounds (int64 i, bool go, float[k] a)
                => (bool on, float[m] b, float[m] row) {
            on = Identity(go)
            b = Concat<axis=0>(a, w)
            twice = Mul(w, w)
            whole = Expand(twice, size)
            row = Identity(whole)
        }>
        y = Neg(free)""",
    "nested": """
        y, all = Loop (n, , x) <body = rounds (int64 i, bool go, float[3] a)
                => (bool on, float[3] b, float[3] row) {
            on = Identity(go)
            b = Loop (i, , a) <body = more (int64 j, bool go2, float[3] c) => (bool on2, float[3] d) {
                on2 = Identity(go2)
                e = Add(c, w)
                d = Add(e, a)
            }>
            row = Sqrt(b)
        }>""",
}


@KINDS
@pytest.mark.parametrize("form", LOOPS)
def test_loops_whose_rounds_the_run_counts(form, kind, tmp_path):
    original = parsed(f"""g (float[3] x, int64 n, int64[1] size) => (float[u] y, float[r, s] all)
        <float[3] w = {{1, 2, 0.5}}, bool yes = {{1}}, float limit = {{20}},
         int64[1] one = {{1}}, int64[1] three = {{3}}> {{
        {LOOPS[form]}
    }}""")
    x = np.array([0.5, 1, 2], np.float32)
    same(original, tmp_path, *([x, np.array(n), np.array([3])] for n in (1, 4)), kind=kind)


@KINDS
def test_a_scan_over_a_free_dimension(kind, tmp_path):
    original = parsed("""g (float[2] x, float[2, n] parts, float[n, 2] more)
            => (float[2] y, float[2, n] all, float[n, 2] rest) {
        y, all, rest = Scan <num_scan_inputs=2, scan_input_axes=[1, 0], scan_input_directions=[0, 1],
                scan_output_axes=[1, 0], scan_output_directions=[0, 1],
                body = rounds (float[2] a, float[2] b, float[2] c) => (float[2] d, float[2] e, float[2] f) {
            f = Neg(c)
            d = Add(a, b)
            e = Mul(d, c)
        }> (x, parts, more)
    }""")
    random = np.random.default_rng(0)
    requests = [[random.random(s).astype(np.float32) for s in ((2,), (2, n), (n, 2))] for n in (1, 5)]
    same(original, tmp_path, *requests, kind=kind)


@KINDS
def test_a_scan_of_batches(kind, tmp_path):
    """As operator set 8 has it."""
    text = """<ir_version: 3, opset_import: ["" : 8]>
    g (float[2, 2] x, float[2, 3, 2] parts) => (float[2, 2] y, float[2, 3, 2] all) {
        y, all = Scan <num_scan_inputs=1, directions=[1],
                body = rounds (float[2] a, float[2] b) => (float[2] c, float[2] d) {
            c = Add(a, b)
            d = Neg(c)
        }> (, x, parts)
    }"""
    random = np.random.default_rng(0)
    inputs = [random.random(s).astype(np.float32) for s in ((2, 2), (2, 3, 2))]
    same(onnx.parser.parse_model(text).SerializeToString(), tmp_path, inputs, kind=kind)


@KINDS
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_recurrent_layers_of_free_steps(op_type, gates, direction, kind, tmp_path):
    ways, random = 1 + (direction == "bidirectional"), np.random.default_rng(0)
    sizes = {"w": (ways, gates * 4, 3), "r": (ways, gates * 4, 4), "b": (ways, gates * 8)}
    weights = [
        onnx.numpy_helper.from_array(random.normal(size=s).astype(np.float32), n) for n, s in sizes.items()
    ]
    node = onnx.helper.make_node(
        op_type, ["x", "w", "r", "b"], ["y", "h"], hidden_size=4, direction=direction
    )
    port = onnx.helper.make_tensor_value_info("x", 1, ("steps", "n", 3))
    results = [onnx.helper.make_tensor_value_info(name, 1, None) for name in "yh"]
    graph = onnx.helper.make_graph([node], "g", [port], results, weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    same(model.SerializeToString(), tmp_path, *pictures((5, 2, 3), (1, 1, 3)), kind=kind)


@KINDS
def test_tensors_whose_names_are_numbers(kind, tmp_path):
    """As PyTorch's older exporter names them, and the converter its own."""
    names = range(1, 13)
    weights = [onnx.numpy_helper.from_array(np.full((9, 9), i, np.float32), str(i)) for i in names]
    values = ["0", *(f"v{i}" for i in names)]
    nodes = [onnx.helper.make_node("LogSoftmax", ["0"], ["v1"])]
    nodes += [onnx.helper.make_node("Add", [values[i - 1], str(i)], [values[i]]) for i in names[1:]]
    ports = [[onnx.helper.make_tensor_value_info(n, 1, (9, 9))] for n in ("0", values[-1])]
    graph = onnx.helper.make_graph(nodes, "g", *ports, weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    same(model.SerializeToString(), tmp_path, *pictures((9, 9)), kind=kind)
