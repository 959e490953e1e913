"""Conversion of single operators to all formats, run by Pinnace beside the ONNX model itself."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.converted import run, same

from pinnace import formats
from pinnace.converter.checking import difference
from pinnace.converter.convert import Conversion, convert
from pinnace.errors import ConfigError, ModelFormatError, NotSupportedError, UnsupportedModelError
from pinnace.options.target import Target
from pinnace.quantization.files import Quantization
from pinnace.types import ModelType
from pinnace.weights.source import Source


def model(op_type, shapes, weights=(), opset=21, **attributes):
    """The bytes of a model of one operator, with inputs x0, x1, ... and then weights."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    stored = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    node = helper.make_node(
        op_type, [i.name for i in inputs] + [w.name for w in stored], ["y"], name="node", **attributes
    )
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", inputs, [output], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made.SerializeToString()


@pytest.mark.parametrize(("kind", "suffix"), [(ModelType.MINDIR, ".mindir"), (ModelType.MINDIR_LITE, ".ms")])
@pytest.mark.parametrize(
    ("op_type", "weights", "attributes"),
    [
        ("Relu", (), {}),
        ("Conv", (np.ones((4, 2, 3, 3), np.float32), np.arange(4, dtype=np.float32)), {"pads": [1, 1, 0, 0]}),
        ("Reshape", (np.array([0, -1]),), {}),
        ("Transpose", (), {"perm": [0, 2, 3, 1]}),
    ],
)
def test_a_converted_operator_gives_the_same(op_type, weights, attributes, kind, suffix, tmp_path):
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 6)).astype(np.float32)
    original = model(op_type, [x.shape], weights, **attributes)
    summary = same(original, tmp_path, [x], kind=kind, rtol=1e-6)
    assert summary.files == (tmp_path / f"made{suffix}",)


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize(
    ("op_type", "opset", "attributes"),
    [
        ("LeakyRelu", 11, {"alpha": 0.2}),
        ("HardSigmoid", 11, {"alpha": 0.3, "beta": 0.4}),
        *((f"Reduce{name}", 13, {"axes": [1]}) for name in ("L2", "LogSum", "LogSumExp", "SumSquare")),
    ],
)
def test_operators_that_older_sets_define_by_no_function(op_type, opset, attributes, kind, tmp_path):
    x = np.random.default_rng(0).random((2, 3, 4)).astype(np.float32)
    original = model(op_type, [x.shape], opset=opset, **attributes)
    same(original, tmp_path, [x], kind=kind, rtol=1e-6)


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize(
    ("operator", "opset"),
    [
        ("Clip<max: float = 6>", 8),
        ("Clip<min: float = -1>", 8),
        ("Clip<min: float = -1, max: float = 1>", 10),
        ("Clip<min: float = 0, max: float = 6>", 6),
        ("Clip<min: float = 0, max: float = 3.4028235e+38>", 10),
        ("Clip", 8),
        ("Celu<alpha = 0.5>", 12),
    ],
)
def test_operators_of_float16_have_numbers_of_float16(operator, opset, kind, tmp_path):
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float16[2, 4] x) => (float16[2, 4] y) {{ y = {operator}(x) }}"""
    x = np.array([[-9, -1, -0.5, 0], [0.5, 3, 9, 6e4]], np.float16)
    summary = same(onnx.parser.parse_model(text).SerializeToString(), tmp_path, [x], kind=kind, rtol=1e-3)
    assert run(summary.files[0], x)[0].dtype == np.float16


def test_a_recurrent_layer_with_states_and_a_free_batch(tmp_path):
    random = np.random.default_rng(0)
    weights = [random.normal(size=s).astype(np.float32) for s in ((1, 16, 3), (1, 16, 4), (1, 32))]
    x, state = random.normal(size=(5, 2, 3)).astype(np.float32), np.ones((1, 2, 4), np.float32)
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", (5, "n", 3)), ("h", (1, "n", 4)), ("c", (1, "n", 4)))
    ]
    node = helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y"], hidden_size=4)
    graph = helper.make_graph(
        [node],
        "g",
        ports,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for w, n in zip(weights, "wrb", strict=True)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    same(proto.SerializeToString(), tmp_path, [x, state, state])


def test_a_loop_that_passes_values_on(tmp_path):
    """The body gives two states in turn; the first is an input, which no node makes."""
    ports = [
        helper.make_tensor_value_info(*p) for p in (("i", 7, []), ("go", 9, []), ("a", 1, [2]), ("b", 1, [2]))
    ]
    nodes = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["a"], ["c"])]
    results = [helper.make_tensor_value_info(*p) for p in (("on", 9, []), ("b", 1, [2]), ("c", 1, [2]))]
    body = helper.make_graph(nodes, "body", ports, results)
    loop = helper.make_node("Loop", ["n", "", "x", "x"], ["y", "z"], body=body)
    outer = [helper.make_tensor_value_info(name, 1, [2]) for name in "xyz"]
    graph = helper.make_graph([loop], "g", outer[:1], outer[1:], [numpy_helper.from_array(np.array(3), "n")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    file = convert(Source.of_buffer(proto.SerializeToString()), None, tmp_path / "made", Conversion()).files[
        0
    ]
    x = np.array([1, -2], np.float32)
    for given, expected in zip(run(file, x), (-x, x), strict=True):
        np.testing.assert_array_equal(given, expected)


def test_a_clip_from_0_to_6_is_one_primitive(tmp_path):
    bounds = (np.array(0, np.float32), np.array(6, np.float32))
    source = Source.of_buffer(model("Clip", [(2,)], bounds))
    assert convert(source, None, tmp_path / "made", Conversion()).nodes == 1


def test_a_result_is_there_whatever_its_file_declares(tmp_path):
    nodes = [helper.make_node("Not", ["c"], ["n"]), helper.make_node("Compress", ["x", "n"], ["y"], axis=0)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [s]) for name, s in (("x", 3), ("y", 0)))
    given = [x, helper.make_tensor_value_info("c", TensorProto.BOOL, [3])]
    graph = helper.make_graph(nodes, "g", given, [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (file,) = convert(Source.of_buffer(made.SerializeToString()), None, tmp_path / "made", Conversion()).files
    (found,) = run(file, np.array([1, 2, 3], np.float32), np.array([False, True, False]))
    np.testing.assert_array_equal(found, [1, 3])


def test_a_shape_that_decides_a_branch_later(tmp_path):
    """PyTorch's squeeze of a dimension that may be 1, behind another branch."""

    def squeezed(name, x, y):
        names = [f"{name}_{part}" for part in ("shape", "size", "is1")]
        sides = [
            helper.make_graph(
                [helper.make_node(op, [x, *rest], [f"{y}_{op}"])],
                op,
                [],
                [helper.make_tensor_value_info(f"{y}_{op}", TensorProto.FLOAT, None)],
            )
            for op, rest in (("Squeeze", ["one"]), ("Identity", []))
        ]
        return [
            helper.make_node("Shape", [x], names[:1]),
            helper.make_node("Gather", [names[0], "place"], names[1:2]),
            helper.make_node("Equal", [names[1], "place"], names[2:]),
            helper.make_node("If", names[2:], [y], then_branch=sides[0], else_branch=sides[1]),
        ]

    nodes = [
        *squeezed("a", "x", "b"),
        helper.make_node("Unsqueeze", ["b", "one"], ["c"]),
        *squeezed("d", "c", "e"),
        helper.make_node("ReduceMean", ["e", "one"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.array(v), n) for v, n in (([1], "one"), (1, "place"))]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ("n", "k", 3)), ("y", None))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    original = proto.SerializeToString()
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    options = Conversion(input_shape="x:2,1,3")
    file = convert(Source.of_buffer(original), None, tmp_path / "made", options).files[0]
    np.testing.assert_allclose(run(file, x)[0], run(original, x)[0], rtol=1e-6)


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
def test_a_branch_that_gives_a_tensor_of_the_graph_around_it(kind, tmp_path):
    """In a `.ms` it is a copy: MindSpore Lite gives no input of a function back."""
    branches = []
    for name, nodes in (
        ("then", [helper.make_node("Identity", ["x"], ["a"])]),
        ("else", [helper.make_node("Neg", ["x"], ["a"])]),
    ):
        out = helper.make_tensor_value_info("a", TensorProto.FLOAT, [2])
        branches.append(helper.make_graph(nodes, name, [], [out]))
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    ports = [helper.make_tensor_value_info(*p) for p in (("x", 1, [2]), ("c", TensorProto.BOOL, []))]
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", 1, [2])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    source = Source.of_buffer(proto.SerializeToString())
    (file,) = convert(source, None, tmp_path / "made", Conversion(kind)).files
    for function in formats.read(Source.of_file(file)).functions.values():
        given = {port.name for port in function.inputs}
        assert kind is ModelType.MINDIR or given.isdisjoint(function.outputs)
    x = np.array([1, -2], np.float32)
    for chosen, expected in ((True, x), (False, -x)):
        np.testing.assert_array_equal(run(file, x, np.array(chosen))[0], expected)


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
def test_inputs_of_types_that_mindspore_lacks_are_refused(kind, tmp_path):
    ports = [helper.make_tensor_value_info(n, t, [3]) for n, t in (("x", TensorProto.FLOAT8E4M3FN), ("y", 1))]
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=1)], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()
    with pytest.raises(UnsupportedModelError, match="FLOAT8E4M3FN, which MindSpore does not have"):
        convert(Source.of_buffer(model), None, tmp_path / "made", Conversion(save_type=kind))


def test_operators_without_a_way_are_named(tmp_path):
    unknown = onnx.load_from_string(model("Relu", [(2,)]))
    unknown.graph.node[0].op_type = "MelWeightMatrix"
    with pytest.raises(UnsupportedModelError, match="MelWeightMatrix"):
        convert(Source.of_buffer(unknown.SerializeToString()), None, tmp_path / "made", Conversion())


def test_layers_of_a_transformer_become_one_primitive_each(tmp_path):
    random = np.random.default_rng(0)
    text = """<ir_version: 8, opset_import: ["" : 15]>
g (float[2, 80, 8] x) => (float[2, 80, 8] y) <float[8, 8] w, float[8] b, float[8] scale, float[8] shift,
    float half = {0.5}, float one = {1}, float root = {1.4142135}, float two = {2}, float small = {1e-5}> {
    product = MatMul (x, w)
    sum = Add (b, product)
    far = Div (sum, root)
    curve = Erf (far)
    rise = Add (curve, one)
    whole = Mul (sum, rise)
    gelu = Mul (whole, half)
    mean = ReduceMean <axes = [-1]> (gelu)
    centered = Sub (gelu, mean)
    square = Pow (centered, two)
    variance = ReduceMean <axes = [-1]> (square)
    safe = Add (variance, small)
    width = Sqrt (safe)
    normal = Div (centered, width)
    scaled = Mul (normal, scale)
    y = Add (scaled, shift)
}"""
    original = onnx.parser.parse_model(text)
    for name, shape in (("w", (8, 8)), ("b", (8,)), ("scale", (8,)), ("shift", (8,))):
        weight = random.normal(size=shape).astype(np.float32)
        original.graph.initializer.append(numpy_helper.from_array(weight, name))
    x = random.normal(size=(2, 80, 8)).astype(np.float32)
    summary = same(original.SerializeToString(), tmp_path, [x], kind=ModelType.MINDIR_LITE)
    assert summary.nodes == 3  # MatMulFusion with a bias, Activation, LayerNormFusion


def test_a_product_that_others_read_keeps_its_bias_beside_it(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 15]>
g (float[2, 3] x) => (float[2, 2] y, float[2, 2] z)
    <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> {
    z = MatMul (x, w)
    y = Add (z, b)
}"""
    original = onnx.parser.parse_model(text).SerializeToString()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    same(original, tmp_path, [x], kind=ModelType.MINDIR_LITE, rtol=0, atol=0)


@pytest.mark.parametrize("batch", [2, "n"])
def test_a_convolution_over_three_dimensions_for_mindspore_lite(batch, tmp_path):
    random = np.random.default_rng(0)
    x, w = (random.normal(size=s).astype(np.float32) for s in ((2, 4, 7, 6, 5), (6, 2, 3, 2, 3)))
    sizes = {"group": 2, "pads": [1, 0, 1, 2, 1, 0], "strides": [2, 1, 1], "dilations": [2, 1, 1]}
    original = model("Conv", [(batch, *x.shape[1:])], (w, np.arange(6, dtype=np.float32)), **sizes)
    same(original, tmp_path, [x], kind=ModelType.MINDIR_LITE, atol=1e-5)


@pytest.mark.parametrize("mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("where", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("size", [(12, 16), (3, 4), (9, 5)])
def test_the_nearest_elements_of_a_picture(mode, where, size, tmp_path):
    x = np.arange(48, dtype=np.float32).reshape(1, 1, 6, 8)
    none, sizes = np.zeros(0, np.float32), np.array([1, 1, *size])
    how = {"mode": "nearest", "nearest_mode": mode, "coordinate_transformation_mode": where}
    original = model("Resize", [x.shape], (none, none, sizes), **how)
    same(original, tmp_path, [x], kind=ModelType.MINDIR_LITE, rtol=0, atol=0)


def test_sizes_and_places_are_of_int32_in_a_ms(tmp_path):
    """MindSpore Lite 2.0 has no kernels of int64 for what detectors do with places."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[n, 5, 4] x, int64[2] given) => (float[n, 5, 3] y, int64[2] sum, int64[k] sizes) <int64[3] last =
            {1, 1, 3}, int64[1] axis = {2}, int64[1] first = {0}, int64 most = {9223372036854775807},
            int64[1] two = {2}> {
        best = ArgMax<axis=2, keepdims=0>(x)
        column = Unsqueeze(best, axis)
        wide = Expand(column, last)
        y = GatherElements<axis=2>(x, wide)
        whole = Shape(x)
        narrow = Cast<to=6>(whole)
        part = Slice(narrow, first, two)
        longer = Cast<to=7>(part)
        twice = Mul(longer, two)
        sizes = Min(twice, most)
        sum = Add(given, given)
    }"""
    original = onnx.parser.parse_model(text).SerializeToString()
    x, given = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32), np.array([1 << 40, -3])
    summary = same(original, tmp_path, [x, given], kind=ModelType.MINDIR_LITE, rtol=0, atol=0)
    nodes = formats.read(Source.of_file(summary.files[0])).main.nodes
    long = {
        n.primitive for n in nodes if any(t is not None and t.dtype is ir.DataType.INT64 for t in n.types)
    }
    assert long == {"Cast", "Minimum", "AddFusion"}  # the bound is beyond int32, the sum of no places


def parsed(nodes, ports, opset=21):
    text = f'<ir_version: 10, opset_import: ["" : {opset}, "own" : 1]>\ng {ports} {{ {nodes} }}'
    return Source.of_buffer(onnx.parser.parse_model(text).SerializeToString())


PAIR = parsed("a = Relu(x) b = Relu(x) c = Identity(b) y = Add(a, c)", "(float[2, 3] x) => (float[2, 3] y)")


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize(
    ("nodes", "results"),
    [
        ("y = Neg(x) z = Add(a, a)", "y z"),
        ("y = Neg(x) z = Add(a, a) u = Identity(z)", "y z u"),
        ("z = Add(a, a)", "z"),
        ("y = Neg(x) z = Add(large, x) u = Identity(large)", "y z u"),
        ("y = Neg(x) z = Identity(y) u = Identity(z)", "y z u"),
        ("y = Neg(x)", "y x"),
        ("y = Identity(x) z = Identity(x)", "z y"),
        ("y, z = TopK(x, one) u = Identity(y)", "y z u"),
        ("y = Neg(x) z = Shape(x)", "z y"),
    ],
)
def test_outputs_keep_their_names_whatever_gives_them(nodes, results, kind, tmp_path):
    original = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[1] x) => () <float[1] a = {{3}}, int64[1] one = {{1}}> {{ {nodes} }}""")
    original.graph.initializer.append(numpy_helper.from_array(np.ones((9, 99), np.float32), "large"))
    ports = {port.name: port for port in original.graph.input}
    original.graph.output.extend(ports.get(name, onnx.ValueInfoProto(name=name)) for name in results.split())
    original = onnx.shape_inference.infer_shapes(original).SerializeToString()
    summary = same(original, tmp_path, [np.array([2], np.float32)], kind=kind)
    names = [{"x": "x_output"}.get(name, name) for name in results.split()]  # an input has its own
    assert formats.read(Source.of_file(summary.files[0])).output_names == names


@pytest.mark.parametrize(
    ("optimize", "primitives"),
    [("none", ["ReLU", "ReLU", "Add"]), ("general", ["ReLU", "Add"]), ("ascend_oriented", ["ReLU", "Add"])],
)
def test_equal_nodes_are_one_unless_nothing_is_optimized(optimize, primitives, tmp_path):
    summary = convert(PAIR, None, tmp_path / "made", Conversion(optimize=optimize))
    assert [n.primitive for n in formats.read(Source.of_file(summary.files[0])).main.nodes] == primitives
    assert (summary.nodes_before, summary.nodes) == (4, len(primitives))


def test_a_summary_has_sizes_in_bytes(tmp_path):
    for half, precision in ((False, "as in the model"), (True, "float16 weights")):
        source = Source.of_buffer(model("MatMul", [(2, 300)], (np.ones((300, 2), np.float32),)))
        summary = convert(source, None, tmp_path / "made", Conversion(half=half, check=True))
        assert (summary.bytes_before, summary.precision) == (len(source.data), precision)
        assert summary.bytes == sum(file.stat().st_size for file in summary.files)
        assert summary.bytes < 0.7 * summary.bytes_before or not half
        assert summary.error == 0


def test_functions_that_a_file_defines_are_converted(tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
    g (float[2] x) => (float[2] y) { y = own.twice(x) }
    <domain: "own", opset_import: ["" : 21]> twice (a) => (b) { b = Add(a, a) }"""
    proto = onnx.parser.parse_model(text)
    summary = convert(Source.of_buffer(proto.SerializeToString()), None, tmp_path / "made", Conversion())
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(run(summary.files[0], x)[0], 2 * x)


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize(("turn", "perm"), [("NHWC", (0, 2, 3, 1)), ("NCHW", (0, 3, 1, 2))])
def test_inputs_of_four_dimensions_are_turned_and_no_others(turn, perm, kind, tmp_path):
    source = parsed(
        "r = Mul(x, w) y = Add(r, v)",
        "(float[2, 3, 4, 5] x, float[4, 5] v, float[2, 3, 4, 5] z) => (float[2, 3, 4, 5] y)"
        "<float[1, 1, 1, 5] w = {1, 2, 3, 4, 5}>",
    )
    options = Conversion(save_type=kind, turn=turn, check=True)
    summary = convert(source, None, tmp_path / "made", options)
    assert summary.error == 0
    random = np.random.default_rng(0)
    x, v, z = (random.normal(size=s).astype(np.float32) for s in ((2, 3, 4, 5), (4, 5), (2, 3, 4, 5)))
    given = run(summary.files[0], x.transpose(perm), v, z.transpose(perm))
    np.testing.assert_array_equal(given[0], x * np.arange(1, 6, dtype=np.float32) + v)


@pytest.mark.parametrize(
    ("nodes", "other", "error"),
    [
        ("y = Add(x, x)", "b = Add(x, x) y = Mul(b, f)", 0.25),
        ("y = Add(x, x)", "y = Add(x, x)", 0),
        ("y = Sub(x, x)", "y = Sub(x, x)", 0),
        ("y = Sub(x, x)", "y = Mul(x, z)", 0),
    ],
)
def test_the_difference_of_results_is_of_their_greatest_value(nodes, other, error, tmp_path):
    ports = "(float[n, 3] x) => (float[n, 3] y) <float f = {1.25}, float z = {0}>"
    made = convert(parsed(other, ports), None, tmp_path / "made", Conversion()).files[0]
    assert difference(parsed(nodes, ports), None, made, Target(), "") == pytest.approx(error)


@pytest.mark.parametrize(
    ("node", "result"), [("y = Transpose(x)", "float[3, 2] y"), ("y = Cast<to=6>(x)", "int32[2, 3] y")]
)
def test_results_of_another_shape_or_type_are_an_error(node, result, tmp_path):
    relu = parsed("y = Relu(x)", "(float[2, 3] x) => (float[2, 3] y)")
    made = convert(relu, None, tmp_path / "made", Conversion()).files[0]
    with pytest.raises(ModelFormatError, match=r"result 0 is float32\[2, 3\], and that of the original is"):
        difference(parsed(node, f"(float[2, 3] x) => ({result})"), None, made, Target(), "")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"save_type": ModelType.ONNX}, NotSupportedError, "save_type ONNX: choose MINDIR or MINDIR_LITE"),
        ({"half": True, "quantize": Quantization("stored")}, NotSupportedError, "choose one of them"),
        ({"split": ((("x",), ("y",)),), "turn": "NHWC"}, NotSupportedError, "without encryption, input_form"),
        (
            {"split": ((("x",), ("y",)),), "save_type": ModelType.MINDIR_LITE},
            NotSupportedError,
            "for .mindir",
        ),
        ({"dynamic_dims": "1;2", "input_shape": "x:-1,3", "turn": "NHWC"}, ConfigError, "in another order"),
        ({"input_shape": "z:2,3"}, ConfigError, "z"),
    ],
)
def test_choices_that_exclude_others_are_refused(options, error, message, tmp_path):
    source = parsed("y = Relu(x)", "(float[n, 3] x) => (float[n, 3] y)")
    with pytest.raises(error, match=message):
        convert(source, None, tmp_path / "made", Conversion(**options))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize("operator", ["Identity", "Relu", "Constant<value = float {1}>", "Pad", "If", "Conv"])
def test_operators_of_other_domains_are_not_taken_for_those_of_onnx(operator, kind, tmp_path):
    name, _, rest = operator.partition("<")
    source = parsed(f"m = own.{operator}({'' if rest else 'x'}) y = Relu(m)", "(float[2] x) => (float[2] y)")
    with pytest.raises(UnsupportedModelError, match=f"no rule for own's {name}"):
        convert(source, None, tmp_path / "made", Conversion(save_type=kind))


@pytest.mark.parametrize(("trips", "written"), [(20, True), (10_000, False)])
def test_the_rounds_of_a_loop_are_written_where_they_are_few(trips, written, tmp_path):
    source = parsed(
        "y = Loop (n, , x) <body = b (int64 i, bool go, float a) => (bool on, float c)"
        "{ on = Identity(go) c = Add(a, one) }>",
        f"(float x) => (float y) <int64 n = {{{trips}}}, float one = {{1}}>",
    )
    summary = convert(source, None, tmp_path / "made", Conversion())
    assert (summary.nodes == trips) == written
    assert summary.nodes <= 30
    assert run(summary.files[0], np.float32(0.5))[0] == trips + 0.5
