"""What a `.ms` has because of the kernels of MindSpore Lite 2.0, which ran these as onnxruntime does."""

import numpy as np
import onnx
import pytest
from tests.converted import run, same
from tests.written import expected, given, model

from pinnace.converter.convert import Conversion, convert
from pinnace.formats.ms.reader import read
from pinnace.program import TypeInfo
from pinnace.types import ModelType
from pinnace.weights.source import Source

POSITIONS = """g (int64[b, s] ids, float[16, 4] table) => (float[b, s, 4] y)
    <int64 pad = {1}, int64 one = {1}> {
    padded = Equal(ids, pad)
    kept = Not(padded)
    ones = Cast<to=6>(kept)
    wide = Cast<to=7>(ones)
    at = CumSum(wide, one)
    places = Mul(at, wide)
    words = Gather(table, ids)
    positions = Gather(table, places)
    y = Add(words, positions)
}"""
BUCKETS = """g (float[s] x, float[32] table) => (float[s] y) <float base = {8.0}, int64[1] most = {31}> {
    size = Shape(x)
    count = Squeeze(size)
    zero = Constant<value_int=0>()
    one = Constant<value_int=1>()
    at = Range(zero, count, one)
    real = Cast<to=1>(at)
    far = Mul(real, base)
    whole = Cast<to=7>(far)
    within = Min(whole, most)
    y = Gather(table, within)
}"""
PLACES = """g (int64[s] at, float[16] table) => (float[s] y) <int64 one = {1}> {
    here = Gather(table, at)
    next = Add(at, one)
    there = Gather(table, next)
    y = Add(here, there)
}"""
CHOICE = """g (bool[q, k] kept, float[b, h, q, k] x) => (float[b, h, q, k] y) <float least = {-9.0}> {
    y = Where(kept, x, least)
}"""


def made(text, folder, *requests):
    """Return the nodes of a `.ms` that gives the same results as the model."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}').SerializeToString()
    summary = same(model, folder, *requests, kind=ModelType.MINDIR_LITE)
    return read(Source.of_file(summary.files[0])).main.nodes


def converted(original, folder):
    """Return the nodes of a `.ms` that gives what onnxruntime does for a model of `tests.written`."""
    source = Source.of_buffer(original.SerializeToString())
    (path,) = convert(source, None, folder / "made", Conversion(save_type=ModelType.MINDIR_LITE)).files
    for found, right in zip(run(path, *given(original).values()), expected(original), strict=True):
        assert found.dtype == right.dtype
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    return read(Source.of_file(path)).main.nodes


def wide(nodes):
    """The primitives that compute integers of 64 bits; Cast has kernels for these."""
    types = {(n.primitive, t.dtype.name) for n in nodes for t in n.types if isinstance(t, TypeInfo)}
    return {primitive for primitive, dtype in types if dtype == "INT64"} - {"Cast"}


def test_numbers_that_take_rows_of_a_table_are_compared_and_counted_in_32_bits(tmp_path):
    ids = np.array([[5, 3, 1, 7, 1]])
    table = np.arange(64, dtype=np.float32).reshape(16, 4)
    assert wide(made(POSITIONS, tmp_path, [ids, table], [ids.T, table])) == set()


def test_places_of_an_input_are_counted_in_32_bits(tmp_path):
    table = np.arange(16, dtype=np.float32)
    assert wide(made(PLACES, tmp_path, [np.array([5, 0, 3]), table])) == set()


def test_places_that_are_computed_of_sizes_by_floats_have_32_bits(tmp_path):
    table = np.arange(32, dtype=np.float32)
    requests = ([np.zeros(n, np.float32), table] for n in (3, 7))
    assert wide(made(BUCKETS, tmp_path, *requests)) == set()


def test_the_operands_of_a_choice_get_one_shape_in_the_run(tmp_path):
    kept = np.tri(3, 4, dtype=np.bool_)
    x = np.random.default_rng(0).normal(size=(2, 5, 3, 4)).astype(np.float32)
    primitives = [n.primitive for n in made(CHOICE, tmp_path, [kept, x], [kept[:1], x[:1, :, :1]])]
    assert primitives.count("BroadcastTo") == 3


@pytest.mark.parametrize(("dims", "primitives"), [("n, k", 0), ("?, ?", 3)])
def test_operands_of_a_choice_whose_dimensions_have_the_same_names_stay(dims, primitives, tmp_path):
    ports = f"(float[{dims}] x, float[{dims}] z) => (float[{dims}] y)"
    text = f"g {ports} {{ c = Less(x, z) y = Where(c, x, z) }}"
    x, z = np.random.default_rng(0).normal(size=(2, 2, 3)).astype(np.float32)
    assert [n.primitive for n in made(text, tmp_path, [x, z])].count("BroadcastTo") == primitives


def test_places_with_their_channels_last_have_32_bits(tmp_path):
    text = """g (float[1, 5, 4, 3] x) => (int64[1, 1, 5, 4] y) {
        best = ArgMax<axis=3>(x)
        turned = Transpose<perm=[0, 3, 1, 2]>(best)
        y = Add(turned, turned)
    }"""
    x = np.random.default_rng(0).normal(size=(1, 5, 4, 3)).astype(np.float32)
    assert wide(made(text, tmp_path, [x])) == set()


ENDS = {
    "parts": "(float[n, k] x) => (float[a, b] y) { ends = Concat<axis=0>(before, far)",
    "parts of a request": "(float[n, k] x, int64[1] i) => (float[a, b] y) { ends = Concat<axis=0>(i, far)",
    "a request": "(float[n, k] x, int64[2] ends) => (float[a, b] y) {",
    "a choice": "(float[n, k] x, bool[2] c) => (float[a, b] y) { ends = Where(c, far, before)",
    "the least": "(float[n, k] x) => (float[a, b] y) { ends = Min(sizes, far)",
}
FAR = np.iinfo(np.int64).max


@pytest.mark.parametrize(
    ("form", "given"),
    [
        ("parts", []),
        ("parts of a request", [np.array([2])]),
        ("a request", [np.array([FAR, 3])]),
        ("a request", [np.array([-1, FAR - 7])]),
        ("a request", [np.array([-2, 1 << 31])]),
        ("a request", [np.array([4, -FAR])]),
        ("a choice", [np.array([True, False])]),
        ("the least", []),
    ],
)
def test_ends_of_a_slice_beyond_int32_are_those_of_the_tensor(form, given, tmp_path):
    ports, nodes = ENDS[form].split("{")
    text = f"""g {ports} <int64[1] one = {{1}}, int64[2] starts = {{1, 0}}, int64[1] far = {{{FAR}}}> {{
        sizes = Shape(x)
        count = Shape<end=1>(x)
        before = Sub(count, one)
        {nodes}
        y = Slice(x, starts, ends)
    }}"""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    nodes = made(text, tmp_path, [x, *given], [x[:3], *given])
    assert wide(nodes) <= {"Concat"}  # of an end that the request gives


@pytest.mark.parametrize(
    ("places", "result", "narrow"),
    [
        ("y = Mul(best, large)", "int64[n] y", False),
        ("far = Mul(best, large) near = Mod(far, size) y = Gather(x, near)", "float[n, 5] y", False),
        ("far = Mul(best, large) near = Sub(far, far) y = Gather(x, near)", "float[n, 5] y", True),
        ("y = Mul(best, size)", "int64[n] y", True),
    ],
)
def test_places_are_multiplied_in_32_bits_where_that_loses_nothing(places, result, narrow, tmp_path):
    text = f"""g (float[n, 5] x) => ({result}) <int64 large = {{1000000000}}, int64 size = {{3}}> {{
        best = ArgMax<axis=1, keepdims=0>(x)
        {places}
    }}"""
    x = np.eye(6, 5, 2, np.float32)
    assert ("MulFusion" not in wide(made(text, tmp_path, [x]))) == narrow


@pytest.mark.parametrize(
    ("shape", "primitive"), [((1, 5, 64), False), ((1, 1, 64), True), ((16, 64), True), ((2, 256), True)]
)
def test_a_normalization_of_few_elements_in_rows_is_no_primitive(shape, primitive, tmp_path):
    width = shape[-1]
    text = (
        f"g (float{list(shape)} x, float[{width}] s, float[{width}] b) => (float{list(shape)} y)"
        "{ y = LayerNormalization<axis=-1>(x, s, b) }"
    )
    random = np.random.default_rng(0)
    given = [random.normal(2, 3, size).astype(np.float32) for size in (shape, (width,), (width,))]
    nodes = made(text, tmp_path, given)
    assert any(n.primitive == "LayerNormFusion" for n in nodes) == primitive


def test_places_before_the_end_of_larger_constants_are_taken_when_it_is_converted(tmp_path):
    text = """g (float[1, 2] x) => (float[1, 2] y)
        <int64[2, 4] table = {7, 6, 5, 4, 3, 2, 1, 0}, int64[1, 2] at = {2, 0}> {
        taken = GatherElements<axis=1>(table, at)
        real = Cast<to=1>(taken)
        y = Add(x, real)
    }"""
    nodes = made(text, tmp_path, [np.zeros((1, 2), np.float32)])
    assert [n.primitive for n in nodes] == ["AddFusion"]


@pytest.mark.parametrize(
    ("x", "slope", "primitive"),
    [
        ("2x3x4x5", "3x1x1", True),
        ("2x3x4x5", "1x3x1x1", True),
        ("4x1x1x2", "1x1x1x2", False),
        ("2x1x3x2", "3x1", False),
        ("4x1x3x2", "4x1x1x1", False),
        ("2x5x4x5", "5", False),
        ("2x4x4x5", "4x1", False),
    ],
)
def test_a_slope_is_of_the_channels_where_it_has_their_axis(x, slope, primitive, tmp_path):
    nodes = converted(model(f"y = PRelu(x_{x}, w_{slope})"), tmp_path)
    assert any(n.primitive == "PReLUFusion" for n in nodes) == primitive


@pytest.mark.parametrize(
    ("nodes", "stored"),
    [
        ("n = DequantizeLinear(q_3x4, f_7, r_m5) y = MatMul(x_2x3, n)", True),
        ("n = DequantizeLinear<axis=1>(q_3x4, s_4, q_4) y = MatMul(x_2x3, n)", True),
        ("n = DequantizeLinear<axis=0>(q_3x4, s_3, q_3) y = MatMul(x_2x3, n)", False),
        ("n = DequantizeLinear<axis=0>(u_4x3, s_4) y = Gemm<transB=1>(x_2x3, n)", True),
        ("n = DequantizeLinear<axis=1>(u_4x3, s_3) y = Gemm<transB=1>(x_2x3, n)", False),
        ("n = DequantizeLinear<axis=0>(q_3x2, s_3) y = MatMul(n, x_2x3)", True),
        ("n = DequantizeLinear<axis=0>(q_4x2x3x3, s_4) y = Conv(x_1x2x5x6, n, w_4)", True),
        ("n = DequantizeLinear<axis=1>(q_4x2x3x3, s_2) y = Conv(x_1x2x5x6, n)", False),
        ("n = DequantizeLinear<axis=1>(q_2x4x3x3, s_4) y = ConvTranspose(x_1x2x5x6, n)", True),
        ("n = DequantizeLinear<axis=0>(q_2x4x3x3, s_2) y = ConvTranspose(x_1x2x5x6, n)", False),
        ("n = DequantizeLinear<axis=0>(q_5x4, s_5) y = Gather(n, n_1_m2)", True),
        ("n = DequantizeLinear<axis=1, block_size=2>(q_3x4, s_3x2) y = MatMul(x_2x3, n)", False),
    ],
)
def test_weights_stay_integers_where_scales_are_of_the_channels_that_readers_expect(nodes, stored, tmp_path):
    source = Source.of_buffer(model(nodes).SerializeToString())
    (path,) = convert(source, None, tmp_path / "made", Conversion(save_type=ModelType.MINDIR_LITE)).files
    kinds = [node.attributes.get("quantType") for node in read(Source.of_file(path)).main.nodes]
    assert (4 in kinds) == stored  # QuantType WEIGHT_QUANT


@pytest.mark.parametrize(
    "nodes",
    [
        "q = QuantizeLinear(x_2x3, f_4) y = DequantizeLinear(q, f_6)",
        "q = QuantizeLinear(x_2x3, f_4, r_0) y = DequantizeLinear(q, f_4, r_5)",
        "q = QuantizeLinear(x_2x3, f_4, r_5) y = DequantizeLinear(q, f_4)",
        "q = QuantizeLinear(x_2x3, f_4) y = DequantizeLinear(q, g_4_5_6)",
        "q = QuantizeLinear(x_2x3, f_4) y = DequantizeLinear(q, f_4) z = DequantizeLinear(q, f_6)",
        "q = QuantizeLinear(x_2x3, f_4) s = Add(f_4, f_6) y = DequantizeLinear(q, s)",
        "q = QuantizeLinear<output_dtype=3>(x_2x3, f_1) y = DequantizeLinear(q, f_1)",
        "q = QuantizeLinear<output_dtype=5>(x_2x3, f_1) y = DequantizeLinear(q, f_1)",
        "h = Cast<to=10>(x_2x3) s = Cast<to=10>(f_4) q = QuantizeLinear(h, s) y = DequantizeLinear(q, s)",
        "s = Cast<to=10>(f_4) y = DequantizeLinear(q_3x4, s)",
        "q, s, t = DynamicQuantizeLinear(x_2x3) n = DequantizeLinear(q_3x4, f_6)"
        " m = DequantizeLinear(q, f_4, t) y = MatMul(m, n)",
        "q, s, t = DynamicQuantizeLinear(x_2x3) n = DequantizeLinear(q_3x4, f_6)"
        " m = DequantizeLinear(q, s, t_5) y = MatMul(m, n)",
        "q = QuantizeLinear(x_2x3, f_4) n = ReduceMax<keepdims=0>(x_2x3) b = IsNaN(n) y = If(b) <"
        "then_branch = g () => (float[2, 3] u) { u = Neg(x_2x3) },"
        "else_branch = g () => (float[2, 3] u) { u = DequantizeLinear(q, f_4) }>",
    ],
)
def test_integers_get_the_scale_and_the_zero_point_of_each_step(nodes, tmp_path):
    converted(model(nodes), tmp_path)
