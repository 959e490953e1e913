"""The work of graphs, and what a profile expects of it."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from pinnace import Context, Model
from pinnace.building.origin import Origin
from pinnace.cache import profiles as profile_store
from pinnace.cache.store import Store
from pinnace.engines.speed import profile as profiles
from pinnace.engines.speed.choice import chosen
from pinnace.engines.speed.profile import MachineProfile, as_record, from_record
from pinnace.engines.speed.sizes import Sizes
from pinnace.engines.speed.work import NodeWork, works
from pinnace.machine import processor
from pinnace.options.settings import Settings
from pinnace.options.target import Target

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no part of the package

from benchmarks.models import MAKERS

FP32, HALF = "enforce_fp32", "preferred_fp16"


@pytest.mark.parametrize("name", ["mobilenet_v2", "yolo", "mlp"])
def test_sizes_are_those_of_onnx(tmp_path, name):
    path = MAKERS[name](tmp_path / "model.onnx")
    expected = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph.value_info
    }
    sizes, found = Sizes(), {}
    for node in ir.load(path).graph:
        given = [sizes.of(value) for value in node.inputs if value is not None]
        found |= dict(zip((o.name for o in node.outputs), sizes.results(node, given), strict=True))
    assert expected.items() <= found.items()


@pytest.mark.parametrize(
    "nodes",
    [
        "q, s, z = DynamicQuantizeLinear(x) c = ConvInteger(q, w, z) f = Cast<to = 1>(c) y = Mul(f, s)",
        "q, s, z = DynamicQuantizeLinear(x) y = QLinearConv(q, s, z, w, s, z, s, z)",
    ],
)
def test_sizes_of_integers(nodes):
    text = (
        '<ir_version: 10, opset_import: ["": 21]> g (float[1,8,9,9] x) => (y) '
        f"<uint8[4,8,3,3] w> {{ {nodes} }}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 8, 3, 3), np.uint8), "w"))
    graph, sizes = ir.from_proto(model).graph, Sizes()
    for node in graph:
        sizes.results(node, [sizes.of(value) for value in node.inputs if value is not None])
    assert sizes.of(graph.outputs[0]) == (1, 4, 7, 7)


def test_sizes_that_are_computed_from_shapes():
    """As PyTorch exports `x.reshape(x.shape[0], 3, -1)` of a free batch, and its way back."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]> g (float[N,8,6] x) => (y, z) {
            three = Constant<value = int64[1] {3}> () rest = Constant<value = int64[1] {-1}> ()
            zero = Constant<value = int64[1] {0}> () one = Constant<value = int64[1] {1}> ()
            whole = Shape(x) batch = Gather(whole, zero) middle = Slice(whole, one, three)
            wanted = Concat<axis = 0>(batch, three, rest)
            y = Reshape(x, wanted) back = Concat<axis = 0>(batch, middle) z = Reshape(y, back)
        }""")
    graph, sizes = ir.from_proto(model).graph, Sizes()
    for output in graph.outputs:
        output.shape = None
    for node in graph:
        sizes.results(node, [sizes.of(value) for value in node.inputs if value is not None])
    assert [sizes.of(output) for output in graph.outputs] == [(1, 3, 16), (1, 8, 6)]


def test_work_is_counted_in_multiplications():
    graph = ir.from_proto(_two_products()).graph
    assert [(work.kind, work.amount) for work in works(graph)] == [
        ("product", 32 * 64 * 48),
        ("vector", 48 * 16),
    ]


def test_products_without_elements_have_sizes_like_others():
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]> g (float[8,3] x) => (y, z)
        { y = MatMul(x, none) z = MatMul(x, some) }""")
    for name, columns in (("none", 0), ("some", 2)):
        model.graph.initializer.append(numpy_helper.from_array(np.ones((3, columns), np.float32), name))
    assert [len(work.size) for work in works(ir.from_proto(model).graph)] == [3, 3]


def _two_products():
    """32 rows times 64 x 48, their first row times 48 x 16; a bias and an activation, which are fused."""
    value = helper.make_tensor_value_info
    arrays = {"a": (64, 48), "b": (48,), "c": (48, 16), "first": (1,)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["ax"]),
        helper.make_node("Add", ["ax", "b"], ["axb"]),
        helper.make_node("Relu", ["axb"], ["y"]),
        helper.make_node("Gemm", ["y0", "c"], ["z"]),
    ]
    weights = [numpy_helper.from_array(np.ones(arrays[n], np.float32), n) for n in "abc"]
    kind = onnx.TensorProto.FLOAT
    ends = [value("x", kind, [32, 64]), value("y0", kind, [1, 48])], [value("z", kind, [1, 16])]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _profile(**rates):
    """A profile in which a multiplication takes so many picoseconds, by engine and threads."""
    by_way = {}
    for name, picoseconds in rates.items():
        engine, precision, threads = name.split("__")
        rows = {"product": [((32, 48, 3840), picoseconds)], "call": [((), 0.0)]}
        by_way[engine, precision, int(threads)] = rows
    return MachineProfile("made up", by_way)


def test_automatic_threads_are_those_of_the_cores(monkeypatch):
    monkeypatch.setattr("pinnace.engines.speed.choice.usable_core_count", lambda: 4)
    graph = ir.from_proto(_two_products()).graph
    profile = _profile(onnxruntime__enforce_fp32__1=100.0, onnxruntime__enforce_fp32__4=25.0)
    for target, threads in (
        (Target(), 4),
        (Target(parallel_requests=2), 2),
        (Target(parallel_requests=8), 1),
    ):
        automatic, fixed = (
            chosen(graph, target, [("onnxruntime", FP32, "")], profile),
            chosen(graph, Target(threads=threads), [("onnxruntime", FP32, "")], profile),
        )
        assert automatic == fixed


def test_time_falls_with_threads_as_measured():
    work = works(ir.from_proto(_two_products()).graph)
    profile = _profile(onnxruntime__enforce_fp32__1=100.0, onnxruntime__enforce_fp32__4=25.0)
    first = profile.seconds(work, "onnxruntime", FP32, 1)
    assert first == pytest.approx(32 * 64 * 48 * 100e-12)
    for threads in 2, 4, 8:
        expected = pytest.approx(first / threads)
        assert profile.seconds(work, "onnxruntime", FP32, threads) == expected
    assert profile.seconds(work, "openvino", FP32, 1) is None


@pytest.mark.parametrize(
    ("openvino", "half", "wanted"),
    [
        (99.0, 98.0, ("onnxruntime", FP32)),  # not worth its memory
        (80.0, 90.0, ("openvino", FP32)),
        (80.0, 40.0, ("openvino", HALF)),
    ],
)
def test_the_fastest_is_chosen(openvino, half, wanted):
    profile = _profile(
        onnxruntime__enforce_fp32__1=100.0,
        openvino__enforce_fp32__1=openvino,
        openvino__preferred_fp16__1=half,
    )
    graph = ir.from_proto(_two_products()).graph
    choice = chosen(
        graph,
        Target(threads=1),
        [("onnxruntime", FP32, ""), ("openvino", HALF, ""), ("openvino", FP32, "")],
        profile,
    )
    assert (choice.provider, choice.precision) == wanted
    assert "onnxruntime 0.00983 ms" in choice.why


def test_a_profile_survives_json():
    rates = _profile(onnxruntime__enforce_fp32__1=100.0, openvino__preferred_fp16__2=1.5).rates
    profile = MachineProfile("made up", rates, {"winograd:4": [((64.0, 49.0), 0.5)]})
    assert from_record(json.loads(json.dumps(as_record(profile)))) == profile


@pytest.mark.parametrize(
    ("two", "fewer", "free", "threads"),
    [
        (120.0, True, False, 1),
        (97.0, True, False, 1),
        (60.0, True, False, 2),
        (120.0, False, False, 2),
        (120.0, True, True, 2),
    ],
)
def test_one_thread_is_chosen_where_two_are_not_faster(two, fewer, free, threads):
    model = _two_products()
    if free:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    profile = _profile(onnxruntime__enforce_fp32__1=100.0, onnxruntime__enforce_fp32__2=two)
    target = Target(threads=2, fewer_threads=fewer)
    choice = chosen(ir.from_proto(model).graph, target, [("onnxruntime", FP32, "")], profile)
    assert choice.threads == threads
    assert ("on 1 thread(s) 0.00983 ms" in choice.why) == (fewer and not free)


def test_threads_that_nobody_set_follow_from_the_profile(monkeypatch, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(_two_products(), path)
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    for module in ("building.planning", "cache.profiles"):
        monkeypatch.setattr(f"pinnace.{module}.usable_core_count", lambda: 2)
    profile = _profile(onnxruntime__enforce_fp32__1=100.0, onnxruntime__enforce_fp32__2=120.0)
    profile_store.keep(Store(tmp_path / "cache", 1 << 30), profile)
    for given, threads in ({}, "1"), ({"thread_num": 2}, "2"), ({"provider": "onnxruntime"}, "1"):
        context = Context()
        for name, value in given.items():
            setattr(context.cpu, name, value)
        with Model(path, context=context) as model:
            assert model.get_model_info("threads") == threads
        assert context.cpu.thread_num == given.get("thread_num", 0)


@pytest.mark.parametrize(("ratio", "settings", "count"), [
    (0.5, "", 1), (0.99, "", 0), (0.99, "+average_pool", 1), (0.5, "-average_pool", 0), (0.5, "none", 0),
])  # fmt: skip
def test_rules_apply_where_they_pay(monkeypatch, tmp_path, ratio, settings, count):
    """By the measured profile, and by what a tuning found; "why" says so, also of a kept model."""
    graph = "g (float[1,5,9,9] x) => (float[1,5,7,7] y) { y = AveragePool<kernel_shape=[3,3]>(x) }"
    model = tmp_path / "model.onnx"
    ir.save(ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21]>\n{graph}'), model)
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    store = Store(tmp_path / "cache", 1 << 30)
    profile_store.keep(store, MachineProfile("", {}, {"average_pool": [((), ratio)]}))
    target = Target(provider="onnxruntime", rules=settings)
    for cache in "written", "loaded":
        origin = Origin(model, None, lambda _: target, Settings())
        origin.build().close()
        assert origin.facts["cache"] == cache
        assert ("; rules: average_pool 1 (measured on this machine)" in origin.facts["why"]) == bool(count)


@pytest.mark.parametrize(("openvino", "form"), [(1.0, "weights of 16 bits"), (1.5, None)])
def test_weights_are_held_in_16_bits_where_that_pays(monkeypatch, tmp_path, openvino, form):
    """On any processor, from the cache too."""
    pytest.importorskip("openvino")
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    store, time = Store(tmp_path / "cache", 1 << 30), {"call": [((), 0.0)]}
    rates = {
        (engine, FP32, 1): time | {"vector": [((), picoseconds)]}
        for engine, picoseconds in (("onnxruntime", 1.0), ("openvino", openvino))
    }
    profile_store.keep(store, MachineProfile("", rates))
    random = np.random.default_rng(3)
    weight, x = random.normal(size=(2, 256, 256)).astype(np.float32)
    text = "g (float[1,256] x, float[256,256] w) => (float[1,256] y) { y = MatMul(x, w) }"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    del proto.graph.input[1]
    onnx.save(proto, tmp_path / "model.onnx")
    wanted = x[:1] @ (weight.astype(np.float16) if form else weight).astype(np.float32)
    for cache in "written", "loaded":
        target = Target(threads=1, precision=HALF)
        origin = Origin(tmp_path / "model.onnx", None, lambda _, made_for=target: made_for, Settings())
        (y,) = origin.build().execution().run([x[:1]])
        assert (origin.facts["cache"], origin.facts.get("form")) == (cache, form)
        # Rounded weights change results by 3e-4; another order of sums in float32 by 1e-7.
        assert np.linalg.norm(y - wanted) < 1e-5 * np.linalg.norm(wanted)


def test_the_table_is_that_of_the_processor(monkeypatch):
    def say(openvino, onnxruntime):
        monkeypatch.setattr(processor, "features", lambda: frozenset(openvino))
        monkeypatch.setattr(processor, "features_of_cpuid", lambda: frozenset(onnxruntime))
        return profiles.built_in()

    whole = {"avx2", "avx512f", "amx_bf16"}
    full, limited, small, arm, other = (
        say(*features)
        for features in (
            (whole, whole),
            ({"avx2"}, whole),
            ({"avx2"}, {"avx2"}),
            ({"asimd"},) * 2,
            ({"unheard"},) * 2,
        )
    )
    assert ("openvino", HALF, 1) in full.rates
    lean, packing = ("onnxruntime", FP32, 1), ("openvino", FP32, 1)
    # oneDNN can be limited to an instruction set, onnxruntime cannot
    assert limited.rates[lean] == full.rates[lean] != small.rates[lean]
    assert limited.rates[packing] == small.rates[packing] != full.rates[packing]
    assert limited.rules == full.rules != small.rules
    assert not arm.rates
    assert arm.rules == small.rules
    assert not other.rates
    assert not other.rules


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_a_limited_onednn_are_slower(monkeypatch, threads):
    """onnxruntime is not limited, and takes 0.75 of OpenVINO's time for BERT-base there."""
    monkeypatch.setattr(processor, "features", lambda: frozenset(["avx2"]))
    monkeypatch.setattr(processor, "features_of_cpuid", lambda: frozenset(["avx2", "avx512f"]))
    layer = [NodeWork("product", 128.0 * 768 * 768, (128.0, 768.0, 85e6))]
    onnxruntime, openvino = (
        profiles.built_in().seconds(layer, engine, FP32, threads) for engine in ("onnxruntime", "openvino")
    )
    assert onnxruntime < openvino
