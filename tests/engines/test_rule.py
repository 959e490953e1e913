"""Which engine a first build gets where nobody has chosen one."""

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.engines import choice, rule
from pinnace.engines.rule import candidates
from pinnace.machine import processor
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
        value.const_value = ir.tensor(np.zeros(shape, np.float32))
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
        ((8, 8, 3, 3, 3), 1, "openvino"),
        ((16, 16, 1, 1, 1), 1, "onnxruntime"),
    ],
)
def test_convolutions_run_on_openvino_in_narrow_groups_and_three_dimensions(there, kernel, groups, engine):
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
    monkeypatch.setattr(rule, "usable_core_count", lambda: 4)
    for requests, threads in (1, 4), (2, 2), (8, 1):
        target = Target(parallel_requests=requests)
        assert candidates(products(128, 64), target, BOTH)[0].threads == threads


def test_an_engine_that_the_context_names_is_the_only_candidate(there):
    for name in BOTH:
        (only,) = candidates(products(128, 1024), Target(threads=1, provider=name), [name])
        assert (only.provider, only.why) == (name, "")


def test_channels_that_fill_no_blocks_and_silu_decide_with_avx512(there):
    wide = "avx512f" in there
    assert chosen(convolutions((72, 72, 3, 3)))[0] == ("openvino" if wide else "onnxruntime")
    nodes = "e = Gather(table, ids) a = MatMul(e, w) s = Sigmoid(a) y = Mul(a, s)"
    graph = graph_of("int64[1,128] ids", nodes, table=(9, 1024), w=(1024, 1024))
    assert chosen(graph)[0] == "onnxruntime"
