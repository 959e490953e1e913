"""Which engine a first build gets where nobody has chosen one."""

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.engines import choice, rule
from pinnace.engines.rule import candidates
from pinnace.machine import processor
from pinnace.options import target
from pinnace.options.target import Target

BOTH = ("onnxruntime", "openvino")
FP32, HALF = "enforce_fp32", "preferred_fp16"


@pytest.mark.parametrize(
    ("features", "precision", "installed", "engine"),
    [
        ({"avx2"}, FP32, BOTH, "onnxruntime"),
        ({"avx2"}, HALF, BOTH, "onnxruntime"),
        ({"avx512_bf16"}, FP32, BOTH, "onnxruntime"),
        ({"avx512_bf16"}, HALF, BOTH, "openvino"),
        ({"amx_bf16"}, HALF, BOTH, "openvino"),
        ({"asimdhp"}, HALF, BOTH, "openvino"),
        ({"avx512_bf16"}, HALF, ("onnxruntime",), "onnxruntime"),
    ],
)
def test_the_default_is_openvino_only_where_it_computes_in_sixteen_bits(
    monkeypatch, features, precision, installed, engine
):
    monkeypatch.setattr(processor, "features", lambda: frozenset(features))
    monkeypatch.setattr(choice, "find_spec", lambda name: name in installed or None)
    assert choice.by_default(Target(precision=precision)) == engine
    assert choice.by_default(Target(precision=precision, prefer="memory")) == "onnxruntime"


@pytest.fixture(params=[{"avx2"}, {"avx2", "avx512f"}, {"avx2", "avx512f", "avx512_bf16"}])
def there(request, monkeypatch):
    """The features of the processor."""
    for module in (rule, processor):
        monkeypatch.setattr(module, "features", lambda: frozenset(request.param))
    return request.param


def graph_of(inputs: str, nodes: str, **weights: tuple[int, ...]) -> ir.Graph:
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float[N] y) {{ {nodes} }}'
    graph = ir.from_onnx_text(text).graph
    for name, shape in weights.items():
        value = next(v for node in graph for v in node.inputs if v is not None and v.name == name)
        value.const_value = ir.tensor(np.broadcast_to(np.float32(0), shape))
        value.shape = ir.Shape(shape)
        graph.register_initializer(value)
    return graph


def products(rows: int, width: int) -> ir.Graph:
    nodes = "e = Gather(table, ids) a = MatMul(e, v) y = MatMul(a, w)"
    return graph_of(f"int64[1,{rows}] ids", nodes, table=(9, width), v=(width, width), w=(width, width))


def convolutions(kernel: tuple[int, ...], groups: int = 1) -> ir.Graph:
    sizes = ",".join(map(str, (1, kernel[0], *[56] * (len(kernel) - 2))))
    nodes = f"a = Conv<group = {groups}>(x, v) b = Relu(a) y = Conv(b, w)"
    return graph_of(f"float[{sizes}] x", nodes, v=kernel, w=(kernel[0], kernel[0], *kernel[2:]))


def chosen(graph: ir.Graph, **target) -> tuple[str, str, str]:
    best, *_ = candidates(graph, Target(**{"threads": 2, **target}), BOTH)
    return best.provider, best.precision, best.form


def test_large_products_of_many_rows_run_on_openvino_with_avx512(there):
    expected = "openvino" if "avx512f" in there else "onnxruntime"
    assert chosen(products(128, 1024)) == (expected, FP32, "")
    assert chosen(products(128, 256)) == ("onnxruntime", FP32, "")


@pytest.mark.parametrize(
    ("kernel", "groups", "engine"),
    [
        ((64, 64, 3, 3), 1, "onnxruntime"),
        ((64, 1, 3, 3), 64, "onnxruntime"),
        ((64, 16, 3, 3), 4, "onnxruntime"),
        ((64, 8, 3, 3), 8, "openvino with avx512f"),
        ((48, 24, 3, 3), 2, "openvino with avx512f"),
        ((96, 48, 3, 3), 2, "onnxruntime"),
        ((8, 8, 3, 3, 3), 1, "openvino"),
        ((16, 16, 1, 1, 1), 1, "onnxruntime"),
    ],
)
def test_convolutions_in_broken_blocks_and_three_dimensions_run_on_openvino(there, kernel, groups, engine):
    if engine.partition(" with ")[2] and not {"avx512f"} & there:
        engine = "onnxruntime"
    assert chosen(convolutions(kernel, groups))[0] == engine.partition(" ")[0]


def test_the_other_engine_is_a_candidate_where_shapes_are_fixed(there):
    both = candidates(products(128, 1024), Target(threads=1), BOTH)
    assert sorted(one.provider for one in both) == sorted(BOTH)
    free = graph_of("int64[N,128] ids", "e = Gather(t, ids) y = MatMul(e, w)", t=(9, 1024), w=(1024, 1024))
    (only,) = candidates(free, Target(threads=1), BOTH)
    assert (only.provider, only.why) == ("onnxruntime", "by rule: its shapes are not fixed")


def test_sixteen_bits_are_those_of_openvino_but_for_small_models(there):
    half = "avx512_bf16" in there
    wanted = ("openvino", HALF, "") if half else ("onnxruntime", HALF, "")
    assert chosen(products(128, 256), precision=HALF) == wanted
    # Without 16-bit arithmetic the request stays, and the engine warns that it computes in fp32.
    assert chosen(products(4, 16), precision=HALF) == ("onnxruntime", FP32 if half else HALF, "")


def test_weights_that_few_rows_read_are_held_in_sixteen_bits(there):
    one = products(1, 2048)
    assert chosen(one, precision=HALF) == ("openvino", FP32, "weights16")
    (best, *_) = candidates(one, Target(threads=1, precision=HALF), BOTH, may_round=False)
    assert not best.form


@pytest.mark.parametrize(("rows", "fewer", "threads"), [(4, True, 1), (4, False, 2), (4096, True, 2)])
def test_a_small_model_gets_one_thread_where_nobody_set_more(rows, fewer, threads):
    graph = products(rows, 64)
    for providers in ("onnxruntime",), BOTH:
        assert candidates(graph, Target(threads=2, fewer_threads=fewer), providers)[0].threads == threads


def test_convolutions_and_free_shapes_get_all_threads():
    free = graph_of("float[N,4] x", "y = MatMul(x, w)", w=(4, 4))
    for graph in free, convolutions((8, 8, 3, 3)):
        assert candidates(graph, Target(threads=2, fewer_threads=True), BOTH)[0].threads == 2


def test_automatic_threads_are_those_of_the_cores(monkeypatch):
    monkeypatch.setattr(target, "usable_core_count", lambda: 4)
    for requests, threads in (1, 4), (2, 2), (8, 1):
        automatic = Target(parallel_requests=requests)
        assert candidates(products(128, 64), automatic, BOTH)[0].threads == threads


def test_an_engine_that_the_context_names_is_the_only_candidate(there):
    for name in (*BOTH, "another"):
        (only,) = candidates(products(128, 1024), Target(threads=1, provider=name), [name])
        assert (only.provider, only.why) == (name, "")


def test_channels_that_fill_no_blocks_decide_with_avx512(there):
    wide = "avx512f" in there
    assert chosen(convolutions((72, 72, 3, 3)))[0] == ("openvino" if wide else "onnxruntime")


@pytest.mark.parametrize(("features", "engine"), [((), "onnxruntime"), (("amx_bf16",), "openvino")])
def test_transformers_with_silu_run_on_openvino_with_amx_only(features, engine, monkeypatch):
    on(monkeypatch, "avx2", "avx512f", *features)
    nodes = "e = Gather(table, ids) a = MatMul(e, w) s = Sigmoid(a) y = Mul(a, s)"
    graph = graph_of("int64[1,128] ids", nodes, table=(9, 1024), w=(1024, 1024))
    assert chosen(graph)[0] == engine


def is_small(inputs: str, nodes: str, **weights: tuple[int, ...]) -> bool:
    """True if a model gets one thread, which small models do."""
    target = Target(threads=2, fewer_threads=True)
    return candidates(graph_of(inputs, nodes, **weights), target, BOTH)[0].threads == 1


@pytest.mark.parametrize(
    ("inputs", "rows"),
    [
        ("int64[1,{}] x", "tokens"),
        ("int64[{}] x", "tokens"),
        ("int32[1,{}] x, int64[1,200] z", "tokens, of the shortest input"),
        ("float[{},8] x", "samples"),
        ("float[{},1] x", "samples of one number"),
        ("float[1,{},8] x", "steps"),
        ("float[1,8,{},1] x", "pixels"),
        ("float[{},8] x, float[3,8] z", "samples of the longest input"),
        ("float[{},8] x, float z", "samples, not numbers"),
        ("float[{},8] x, int64[1,2,8] z", "samples: integers of three dimensions are no tokens"),
    ],
)
def test_rows_of_products_are_those_of_the_inputs(inputs, rows):
    """A weight of 20,000 numbers is multiplied two million times by 100 rows, which is small."""
    nodes = "a = Cast <to = 1> (x) y = MatMul(a, w)"
    for count, small in ((100, True), (101, False)):
        assert is_small(inputs.format(count), nodes, w=(100, 200)) == small, rows


@pytest.mark.parametrize(
    ("inputs", "nodes", "weights", "small"),
    [
        ("float[1,8] x", "y = MatMul(x, w)", {"w": (2, 10**6)}, True),
        ("", "a = Constant <value_float = 1.0> () y = MatMul(a, w)", {"w": (2, 10**6)}, True),
        ("float[1,8] x", "y = MatMul(x, w)", {"w": (3, 666667)}, False),
        ("float[1,8] x", "y = Gemm(x, w, v)", {"w": (2, 10**6), "v": (9,)}, True),
        ("float[1,8] x, float[3,666667] z", "y = MatMul(x, z)", {}, False),  # by its inputs
        ("float[1,8] x, float[1,8] z", "y = MatMul(x, z)", {}, True),
        ("float[1,1,8] x", "y = GRU(x, w, r, b)", {"w": (1, 10**6), "r": (1, 10**6), "b": (9,)}, True),
        ("float[1,1,8] x", "y = LSTM(x, w, r)", {"w": (1, 10**6), "r": (1, 10**6 + 1)}, False),
        ("float[1,1,8] x", "y = RNN(x, w, r)", {"w": (1, 10**6 + 1), "r": (1, 10**6)}, False),
        ("float[20000] x", "y = Neg(x)", {}, True),
        ("float[20001] x", "y = Neg(x)", {}, False),
        ("float[10000] x, float[10001] z", "y = Neg(x)", {}, False),
        ("bool x", "y = If(x) <then_branch = g () => (float[1] a) { a = Constant <value_float = 1.0> () }, "
         "else_branch = g () => (float[1] b) { b = Constant <value_float = 1.0> () }>", {}, False),
    ],
)  # fmt: skip
def test_two_million_multiplications_are_small(inputs, nodes, weights, small):
    assert is_small(inputs, nodes, **weights) == small


def on(monkeypatch, *features: str) -> None:
    for module in (rule, processor):
        monkeypatch.setattr(module, "features", lambda: frozenset(features))


def network(*kernels: tuple[int, ...], size: int = 32, **weights: tuple[int, ...]) -> ir.Graph:
    """Convolutions, whose kernels are in groups where they have a fifth number, and products."""
    nodes, given = ["a0 = Identity(x)"], dict(weights)
    for i, (*kernel, groups) in enumerate(kernels):
        nodes.append(f"a{i + 1} = Conv {f'<group = {groups}>' if groups > 1 else ''} (a{i}, k{i})")
        given[f"k{i}"] = tuple(kernel)
    nodes += [f"p{name} = MatMul(a0, {name})" for name in weights]
    return graph_of(f"float[1,3,{size},{size}] x", " ".join((*nodes, f"y = Relu(a{len(kernels)})")), **given)


WHOLE, PATCHES = (64, 64, 3, 3, 1), (64, 3, 16, 16, 1)


@pytest.mark.parametrize(
    ("kernels", "engine"),
    [
        ([WHOLE] * 3 + [(64, 8, 3, 3, 8)], "onnxruntime"),  # a quarter is in such groups
        ([WHOLE] * 2 + [(64, 8, 3, 3, 8)], "openvino"),
        ([(64, 15, 3, 3, 4)], "openvino"),
        ([(64, 2, 3, 3, 32)], "openvino"),
        ([(64, 16, 3, 3, 4)], "onnxruntime"),
        ([(64, 1, 3, 3, 64)], "onnxruntime"),
        ([(8, 128, 1, 1, 1), (16, 16, 1, 1, 1)], "onnxruntime"),  # 1024 of 1280 weights are in odd channels
        ([(8, 129, 1, 1, 1), (16, 16, 1, 1, 1)], "openvino"),
        ([(128, 8, 1, 1, 1)], "openvino"),
        ([(64, 4, 3, 3, 1)], "onnxruntime"),  # channels of an image fill no block anywhere
        ([(64, 5, 3, 3, 1)], "openvino"),
        ([(64, 64, 5, 5, 1)], "onnxruntime"),
        ([(72, 1, 3, 3, 72), (64, 64, 1, 1, 1)], "onnxruntime"),
        ([(32, 32, 1, 3, 3, 1)], "onnxruntime"),
        ([(32, 32, 2, 2, 2, 1)], "openvino"),
    ],
)
def test_kernels_decide_with_avx512(kernels, engine, monkeypatch):
    on(monkeypatch, "avx2", "avx512f")
    assert chosen(network(*kernels))[0] == engine


@pytest.mark.parametrize(
    ("patches", "width", "engine"),
    [(1, 500, "onnxruntime"), (1, 501, "openvino"), (4, 501, "openvino"), (5, 501, "onnxruntime")],
)
def test_transformers_of_images_have_a_row_for_each_patch(patches, width, engine, monkeypatch):
    """400 patches of 256 pixels are multiplied by 250,000 weights, or a few more."""
    on(monkeypatch, "avx2", "avx512f")
    assert chosen(network(*[PATCHES] * patches, size=320, w=(500, width)))[0] == engine


@pytest.mark.parametrize(("width", "engine"), [(200_000, "onnxruntime"), (200_001, "openvino")])
def test_an_image_smaller_than_a_patch_is_one_row(width, engine, monkeypatch):
    on(monkeypatch, "avx2", "avx512f")
    assert chosen(network((64, 3, 8, 8, 1), size=8, w=(500, width)))[0] == engine


@pytest.mark.parametrize(
    ("rows", "weights", "features", "engine"),
    [
        (100, 10**6, (), "onnxruntime"),
        (17, 5882353, (), "openvino"),  # 100,000,001
        (4, 3 * 10**7, (), "openvino"),
        (4, 3 * 10**7, ("amx_bf16",), "onnxruntime"),
        (5, 3 * 10**7, ("amx_bf16",), "openvino"),
    ],
)
def test_a_hundred_million_multiplications_are_large(rows, weights, features, engine, monkeypatch):
    on(monkeypatch, "avx2", "avx512f", *features)
    graph = graph_of(f"int64[1,{rows}] ids", "e = Cast <to = 1> (ids) y = MatMul(e, w)", w=(1, weights))
    assert chosen(graph)[0] == engine


@pytest.mark.parametrize(
    ("rows", "weights", "form"),
    [(2, 2 * 10**6, ""), (2, 2 * 10**6 + 1, "weights16"), (4, 3 * 10**6, "weights16"), (5, 3 * 10**6, "")],
)
def test_up_to_four_rows_take_the_time_to_read_weights(rows, weights, form, there):
    graph = graph_of(f"int64[1,{rows}] ids", "e = Cast <to = 1> (ids) y = MatMul(e, w)", w=(1, weights))
    assert chosen(graph, precision=HALF)[2] == form


def quantized(integers: int, floats: int, operator: str) -> ir.Graph:
    """So many convolutions or products of integers, and of floats."""
    nodes = ["a0 = DequantizeLinear(x, s)", "v = DequantizeLinear(q, s)"]
    nodes += [f"a{i + 1} = {operator}(a0, {'v' if i < integers else 'w'})" for i in range(integers + floats)]
    shape = (32, 32, 3, 3) if operator == "Conv" else (1500, 1500)
    image = "uint8[1,32,9,9] x" if operator == "Conv" else "uint8[1,1500] x"
    return graph_of(
        image, " ".join((*nodes, "y = Relu(a1)")), s=(1,), q=shape, **({"w": shape} if floats else {})
    )


@pytest.mark.parametrize(
    ("integers", "floats", "operator", "features", "engine"),
    [
        (1, 1, "Conv", (), "onnxruntime"),
        (2, 1, "Conv", (), "openvino"),
        (2, 1, "MatMul", (), "onnxruntime"),
        (1, 1, "MatMul", ("amx_int8",), "onnxruntime"),
        (2, 1, "MatMul", ("amx_int8",), "openvino"),
        (1, 0, "MatMul", ("amx_int8",), "openvino"),
    ],
)
def test_most_must_be_of_integers(integers, floats, operator, features, engine, monkeypatch):
    on(monkeypatch, "avx2", *features)
    for overflow in (False, True):
        monkeypatch.setattr(rule, "sums_of_bytes_overflow", lambda answer=overflow: answer)
        found = chosen(quantized(integers, floats, operator))[0]
        assert found == ("onnxruntime" if overflow else engine)


def test_without_avx2_nothing_was_measured(monkeypatch):
    on(monkeypatch, "asimd")
    assert chosen(network((32, 32, 2, 2, 2, 1)))[0] == "onnxruntime"


def test_the_reason_is_told_where_nobody_chose():
    graph = products(4, 16)
    for given, why in ({}, "the only engine"), ({"provider": "onnxruntime"}, ""), ({"prefer": "memory"}, ""):
        (only,) = candidates(graph, Target(**given), ["onnxruntime"])
        assert only.why == why
