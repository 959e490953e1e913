"""Threads and cores as asked, weights in memory, errors of the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from weakref import ref

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.waiting import until

from pinnace.building.build import build_model as build
from pinnace.building.opening import inspect_model
from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.compilation import encoded
from pinnace.engines.onnxruntime.quantized_weights import separate_weights
from pinnace.errors import DeviceUnavailableError, EngineError, UnsupportedModelError
from pinnace.formats import read
from pinnace.lowering.graph import compilable
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.weights.source import Source

W = np.random.RandomState(0).randn(64, 64).astype(np.float32)
CORES = sorted(os.sched_getaffinity(0))


@pytest.fixture
def model() -> bytes:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array(W, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return proto.SerializeToString()


@pytest.fixture(autouse=True)
def _libraries_have_started(model):
    # What the libraries start once in a process is not the executable's.
    build(model, None, Target(threads=1), Settings()).close()


def tasks() -> set[int]:
    return {int(t.name) for t in Path("/proc/self/task").iterdir()}


def allowed(task: int) -> set[int]:
    return set(os.sched_getaffinity(task))


def started(model, **target) -> tuple[object, set[int]]:
    before = tasks()
    executable = build(model, None, Target(**target), Settings())
    return executable, tasks() - before


@pytest.mark.parametrize(
    ("threads", "requests", "expected"),
    [(1, 1, 0), (2, 1, 1), (4, 1, 3), (1, 3, 0), (2, 3, 3)],
)
def test_the_threads_that_were_asked_for_exist(model, threads, requests, expected):
    # One of a request's threads is its caller's; the others are the engine's.
    executable, new = started(model, threads=threads, parallel_requests=requests)
    assert len(new) == expected
    executable.close()
    assert not new & tasks()


def test_zero_threads_are_the_cores_of_this_process(model):
    executable, new = started(model, threads=0)
    assert len(new) == len(CORES) - 1
    executable.close()


def test_threads_are_bound_to_their_cores(model):
    wanted = [CORES[-1], CORES[0]]
    executable, new = started(model, threads=2, cores=tuple(wanted))
    (task,) = new
    until(lambda: allowed(task) == {wanted[1]})  # it binds itself, a moment after it was started
    executable.close()


def test_weights_of_a_buffer_run_from_the_buffer(model):
    executable = build(model, None, Target(threads=1), Settings())
    x = np.random.RandomState(1).randn(3, 64).astype(np.float32)
    (y,) = executable.execution().run([x])
    # One matrix product in fp32 against numpy's: sums of 64 products.
    np.testing.assert_allclose(y, x @ W, rtol=1e-5, atol=1e-5)


def test_weights_that_nothing_reads_are_no_matter(model):
    proto = onnx.load_model_from_string(model)
    proto.graph.initializer.append(numpy_helper.from_array(W, "unread"))
    build(proto.SerializeToString(), None, Target(threads=1), Settings()).close()


def test_a_release_that_no_test_has_shown_right_is_refused_by_name(model, monkeypatch):
    monkeypatch.setattr(ort, "__version__", "1.30.2")
    with pytest.raises(EngineError, match=r"not known to compute right on the CPU.*onnxruntime>=1\.31"):
        build(model, None, Target(threads=1, provider="onnxruntime"), Settings())


def test_what_the_engine_refuses_is_one_error(model, capfd):
    executable = build(model, None, Target(threads=1), Settings())
    with pytest.raises(EngineError, match="onnxruntime"):
        executable.execution().run([np.zeros((1, 7), np.float32)])
    assert capfd.readouterr() == ("", "")


def test_memory_for_results_computed_ahead_is_bounded():
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [1 << 40])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["sum"]),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [shape])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    # 4 TiB: a build that computes them fails.
    build(proto.SerializeToString(), None, Target(threads=1), Settings()).close()


@pytest.mark.parametrize(
    ("key", "value"), [("group", 0), ("group", 1 << 32), ("strides", [1, 0]), ("dilations", [0, -1])]
)
def test_what_the_engine_would_divide_by_is_not_zero(key, value):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", **{key: value})
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    weight = numpy_helper.from_array(np.ones((4, 5, 3, 3), np.float32), "w")
    graph = helper.make_graph([node], "g", [x], [y], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(EngineError, match=f"'up'.*{key}"):
        build(proto.SerializeToString(), None, Target(), Settings())


@pytest.fixture
def strange(tmp_path):
    """A model with two operators that nobody has, one of them twice."""
    names = ["NoSuch", "Relu", "NoSuch", "Neither"]
    nodes = [helper.make_node(n, [f"v{i}"], [f"v{i + 1}"], name=f"node{i}") for i, n in enumerate(names)]
    port = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("v0", "v4")]
    graph = helper.make_graph(nodes, "g", port[:1], port[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, tmp_path / "strange.onnx")
    return tmp_path / "strange.onnx"


def test_one_error_names_all_operators_that_do_not_exist(strange):
    with pytest.raises(UnsupportedModelError) as caught:
        build(strange, None, Target(), Settings())
    found = [(p.name, p.count, p.first_node) for p in caught.value.primitives]
    assert found == [("NoSuch", 2, "node0"), ("Neither", 1, "node3")]


def test_inspect_names_them_too(strange):
    assert [p.name for p in inspect_model(strange).unsupported] == ["NoSuch", "Neither"]


@pytest.mark.parametrize(("device", "missing"), [("gpu", "NVIDIA GPU"), ("ascend", "CANN")])
def test_a_device_that_is_not_there_says_what_is_missing(model, device, missing):
    with pytest.raises(DeviceUnavailableError, match=missing):
        build(model, None, Target(device=device), Settings())


def test_bfloat16_goes_in_and_comes_out():
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["wide", "z"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.BFLOAT16),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [2, 3]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [2, 3]),
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, [2, 3]),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executable = build(proto.SerializeToString(), None, Target(threads=1), Settings())
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    y, total = executable.execution().run([x, np.full(3, 0.5, np.float32)])
    assert (y.dtype, total.dtype) == (ml_dtypes.bfloat16, np.float32)
    assert y.tolist() == total.tolist() == [[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]]


def test_zeros_before_a_maximum_take_part_in_it():
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node("MaxPool", ["padded"], ["y"], kernel_shape=[3, 3], strides=[2, 2]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executable = build(proto.SerializeToString(), None, Target(threads=1), Settings())
    (y,) = executable.execution().run([np.full((1, 1, 4, 4), -1, np.float32)])
    # By the definition of Pad: windows that touch the border hold zeros, the inner one only -1.
    assert y.tolist() == [[[[0, 0], [0, -1]]]]


@pytest.mark.parametrize(
    "nodes",
    [
        "r = Div(deep, x) y = Mul(r, s)",
        "r = Div(deep, x) y = Mul(s, r)",
        "q = Pow(x, two) m = ReduceMean(q, last) e = Add(m, deep) r = Sqrt(e) n = Div(x, r) y = Mul(n, s)",
        "c = ReduceMean(x, last) d = Sub(x, c) q = Pow(d, two) m = ReduceMean(q, last) e = Add(m, deep)"
        " r = Sqrt(e) n = Div(d, r) a = Mul(n, s) y = Add(a, s)",
    ],
)
def test_a_constant_of_one_element_adds_its_dimensions(run_model, nodes):
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]> g (float[4,8] x) => (float[1,4,8] y)
        <float[1,1,1] deep = {{1}}, float two = {{2}}, int64[1] last = {{-1}},
         float[8] s = {{1,2,3,4,5,6,7,8}}>
        {{ {nodes} }}"""
    )
    x = np.random.default_rng(2).random((4, 8), np.float32) + 1
    (y,) = run_model(model.SerializeToString(), [x])
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)  # float32 means of 8 numbers


def test_a_cubic_resize_shrinks_images_whose_channels_are_last(run_model):
    resize = 'Resize <mode = "cubic"> (t, , , sizes)'
    given, turned = "float[1,9,8,4] x", "t = Transpose <perm = [0,3,1,2]> (x)"
    after = "y = Transpose <perm = [0,2,3,1]> (r)"
    head = '<ir_version: 10, opset_import: ["": 21]> g'
    sizes = "<int64[4] sizes = {1, 4, 5, 12}>"
    last = f"{head} ({given}) => (float[1,5,12,4] y) {sizes} {{ {turned} r = {resize} {after} }}"
    first = f"{head} (float[1,4,9,8] t) => (float[1,4,5,12] y) {sizes} {{ y = {resize} }}"
    x = np.random.default_rng(2).normal(size=(1, 9, 8, 4)).astype(np.float32)
    (y,) = run_model(onnx.parser.parse_model(last).SerializeToString(), [x])
    (expected,) = ReferenceEvaluator(onnx.parser.parse_model(first)).run(None, {"t": x.transpose(0, 3, 1, 2)})
    np.testing.assert_allclose(y, expected.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)  # 16 products


SIZES = pytest.mark.parametrize("size", [0, 1, 2, 256, 257, 100_000])
"""Of rows of 4 bytes an element, two of them: arrays of 2048 bytes are copied, larger ones are bound."""


def negation(size: int, declared: list[int]) -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, declared)
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return model.SerializeToString()


@SIZES
def test_results_are_the_callers_own(size):
    execution = build(negation(size, [2, size]), None, Target(threads=1), Settings()).execution()
    x = np.full((2, size), 1, np.float32)
    (first,) = execution.run([x])
    x[...] = 2  # the same array again, with other data
    (second,) = execution.run([x])
    given = np.zeros((2, size), np.float32)
    x[...] = 3
    assert execution.run([x], [given])[0] is given
    (last,) = execution.run([np.full((2, size), 4, np.float32)])
    for value, result in enumerate((first, second, given, last), 1):
        np.testing.assert_array_equal(result, np.full((2, size), -value))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("device", ["", "gpu:0"])
def test_a_run_of_any_shapes_keeps_no_array_of_its_caller(model, device, given):
    execution = build(model, None, Target(threads=1, simulates=device), Settings()).execution()
    x, y = np.ones((3, 64), np.float32), np.empty((3, 64), np.float32)
    results = execution.run([x], [y] if given else None)
    left = [ref(array) for array in (x, y, *results)]
    del x, y, results
    assert not any(array() is not None for array in left)


@SIZES
@pytest.mark.parametrize(("rows", "dtype"), [(1, np.float32), (3, np.float32), (2, np.float64)])
def test_inputs_of_other_kinds_are_refused(size, rows, dtype):
    execution = build(negation(size, [2, size]), None, Target(threads=1), Settings()).execution()
    with pytest.raises(EngineError, match="onnxruntime: "):
        execution.run([np.ones((rows, size), dtype)])
    (result,) = execution.run([np.ones((2, size), np.float32)])
    np.testing.assert_array_equal(result, np.full((2, size), -1))


@SIZES
def test_results_of_other_shapes_than_the_file_declares(size):
    """onnxruntime runs such files, and says nothing."""
    execution = build(negation(size, [4]), None, Target(threads=1), Settings()).execution()
    for value in (1, 2):
        (result,) = execution.run([np.full((2, size), value, np.float32)])
        np.testing.assert_array_equal(result, np.full((2, size), -value))
    with pytest.raises(EngineError, match=rf"has the shape \[2, {size}\], not \[4\]"):
        execution.run([np.ones((2, size), np.float32)], [np.zeros(4, np.float32)])


@pytest.mark.parametrize("rows", ["n", 3])
@pytest.mark.parametrize("given_out", [False, True])
def test_another_batch_where_the_file_has_the_old_one_further_on(rows, given_out):
    """Whoever gives a model another batch often changes its inputs alone; onnxruntime does not mind."""
    random = np.random.default_rng(9)
    w = random.standard_normal((64, 64, 3, 3)).astype(np.float32) / 10
    x = random.standard_normal((3, 64, 24, 24)).astype(np.float32)
    nodes = [
        helper.make_node("Neg", ["x"], ["z"]),
        helper.make_node("Conv", ["z", "w"], ["c"]),
        helper.make_node("ReduceSum", ["c", "axes"], ["y"], keepdims=0),
    ]
    old = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 64, 24, 24])]
    old += [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 64, 22, 22])]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 22, 22])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 64, 24, 24])],
        [y, *old] if given_out else [y],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array([0]), "axes")],
        value_info=[] if given_out else old,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data, options = proto.SerializeToString(), ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    results = build(data, None, Target(threads=1), Settings()).execution().run([x])
    for given, expected in zip(results, session.run(None, {"x": x}), strict=True):
        assert given.shape == expected.shape
        # Sums of 576 products of float32, of a size of 2, in other orders.
        np.testing.assert_allclose(given, expected, rtol=0, atol=5e-5)


def pooled(operator, sides, pads=(0, 0, 0, 0), batch="n"):
    """A pool with windows of 3 x 3 after a convolution."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node(operator, ["c"], ["y"], kernel_shape=[3, 3], pads=pads),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 16, *sides])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 16, "r", "c"])],
        [numpy_helper.from_array(np.ones((16, 16, 1, 1), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize(("batch", "sides"), [("n", ["h", "w"]), ("n", [2, 2]), (1, [2, 2])])
def test_a_pool_without_results_does_not_end_the_process(operator, batch, sides):
    """onnxruntime's blocks of channels, which a process of its own sees, as it would be the one to end."""
    script = f"""
import numpy as np
from pinnace.building.build import build_model as build
from pinnace.options.settings import Settings
from pinnace.options.target import Target
execution = build({pooled(operator, sides, batch=batch)!r}, None, Target(threads=1), Settings()).execution()
print(execution.run([np.ones((1, 16, 2, 2), np.float32)])[0].shape)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "(1, 16, 0, 0)"


@pytest.mark.parametrize(
    ("sides", "pads", "kept"),
    [(["h", "w"], [0, 0, 0, 0], 1), (["h", "w"], [1, 1, 1, 1], 0), ([3, 3], [0, 0, 0, 0], 0)],
)
def test_only_pools_that_may_be_empty_are_kept_out_of_blocks_of_channels(sides, pads, kept):
    made = encoded(compilable(read(Source.of_buffer(pooled("MaxPool", sides, pads))), "m", None))
    operators = [node.op_type for node in onnx.load_model_from_string(made.model).graph.node]
    assert operators.count("Reshape") == kept


@pytest.mark.parametrize("overflow", [True, False])
def test_slow_exact_kernels_of_bytes_are_for_processors_where_others_overflow(monkeypatch, overflow):
    monkeypatch.setattr(session, "sums_of_bytes_overflow", lambda: overflow)
    asked = session.options(Target(threads=1))
    if overflow:
        assert asked.get_session_config_entry("session.x64quantprecision") == "1"
    else:
        with pytest.raises(RuntimeError, match="x64quantprecision"):
            asked.get_session_config_entry("session.x64quantprecision")


def disabled(body: str, inputs: str, weights: str) -> set[str]:
    """The optimizers that a model runs without, beyond those of all models."""
    text = '<ir_version: 10, opset_import: ["": 21]> g ({}) => (float[N] y) {} {{ {} }}'
    parts = (inputs, weights, body), ("float[2] x", "", "y = Neg(x)")
    models = [ir.from_onnx_text(text.format(*part)) for part in parts]
    one, every = ({*encoded(compilable(model, "m", None)).disabled} for model in models)
    return one - every


DEEP = {"LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion"}
TRANSPOSES = {"TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider"}
BRANCHES = (
    "If (c) <then_branch = t () => (a) {{ a = Neg({0}) }}, else_branch = e () => (b) {{ b = Abs({0}) }}>"
)


@pytest.mark.parametrize(
    ("body", "optimizers"),
    [
        ("p = Pad(x, k) y = MaxPool <kernel_shape = [2,2]> (p)", {"Pad_Fusion"}),
        ("p = Pad(x, k) y = AveragePool <kernel_shape = [2,2]> (p)", {"Pad_Fusion"}),
        ("p = Pad(x, k) y = LpPool <kernel_shape = [2,2]> (p)", {"Pad_Fusion"}),
        ("p = Pad(x, k) y = Conv(p, w)", set()),
        ("p = Pad(x, k) n = Neg(p) y = MaxPool <kernel_shape = [2,2]> (n)", set()),
        *((f"y = {name}(x, deep)", DEEP) for name in ("Add", "Div", "Mul", "Pow", "Sub")),
        ("y = Mul(deep, x)", DEEP),
        ("i = Div(deep, x) y = Mul(x, i)", DEEP | {"DivMulFusion"}),
        ("y = Div(flat, x)", {"DivMulFusion"}),
        ("i = Div(one, k) y = Cast <to = 1> (i)", {"DivMulFusion"}),
        ("i = Div(step, x) y = Mul(x, i)", {"SimplifiedLayerNormFusion"}),  # the shape of i is not known
        ("y = If (c) <then_branch = t () => (a) { i = Div(flat, flat) a = Mul(x, i) }, "
         "else_branch = e () => (b) { b = Abs(x) }>", DEEP | {"DivMulFusion"}),
        ("i = Div(step, x) n = Neg(i) y = Mul(x, n)", set()),
        ("y = Max(x, deep)", set()),
        ("y = Mul(x, flat)", set()),
        ("y = Mul(x, w)", set()),
        ("d = DequantizeLinear(q, flat) n = Neg(d) y = " + BRANCHES.format("n"),
         {"QDQFinalCleanupTransformer", "QDQPropagationTransformer"}),
        ("n = Neg(x) y = " + BRANCHES.format("n"), set()),
        ("d = DequantizeLinear(q, flat) y = " + BRANCHES.format("x"), set()),
        ("d = DequantizeLinear(q, flat) y = Neg(d)", set()),
        ("d = DequantizeLinear(q, flat) y = Conv(d, w)", {"WeightBiasQuantization"}),
        ("d = DequantizeLinear(q, flat) m = Flatten(d) y = Conv(m, w)", {"WeightBiasQuantization"}),
        ("d = DequantizeLinear(q, flat) n = Neg(d) y = Conv(n, w)", set()),
        ('t = Transpose <perm = [0,2,3,1]> (x) y = Resize <mode = "cubic"> (t, , scales)',
         {"TransposeOptimizer_CPUExecutionProvider"}),
        ('t = Transpose <perm = [0,2,3,1]> (x) y = Resize <mode = "linear"> (t, , scales)', set()),
        ('y = Resize <mode = "cubic"> (x, , scales)', set()),
        ("t = Transpose(x) y = Pad(t, k, , k)", TRANSPOSES),
        ("t = Transpose(x) y = Pad(t, k, step)", set()),
        ("y = Pad(x, k, , k)", set()),
        ("y = Gemm(x, x) t = Transpose(y)", {"GemmTransposeFusion"}),
        ("g = Gemm(x, x) y = Transpose(g)", set()),
        ("y = Conv(x, w) a = Add(y, x)", {"ConvAddActivationFusion"}),
        ("a = Conv(x, w) y = Add(a, x)", set()),
        *((f"m = MatMul(x, x) y = {move}(m) n = BatchNormalization(y, step, step, step, step)",
           {"MatMul_BatchNormalization_Fusion"}) for move in ("Reshape", "Transpose")),
        ("m = MatMul(x, x) t = Transpose(m) y = BatchNormalization(t, step, step, step, step)", set()),
        *((f"a = Relu(x) t = Transpose(a) {more}", TRANSPOSES) for more in (
            "b = Neg(a) y = QuantizeLinear(t, step)",
            "u = Unsqueeze(t, one) b = Neg(a) y = QuantizeLinear(u, step)",
            "b = Neg(t) u = Identity(t) y = QuantizeLinear(u, step)")),
        ("m0 = Transpose(x) " + " ".join(f"m{i + 1} = Identity(m{i})" for i in range(100)) + " b = Neg(x) "
         "y = QuantizeLinear(m100, step)", TRANSPOSES),  # what is far before is not looked at
        *((f"a = Relu(x) {more}", set()) for more in (
            "t = Transpose(a) y = QuantizeLinear(t, step)", "b = Neg(a) y = QuantizeLinear(a, step)",
            "t = Transpose(a) n = Neg(t) b = Neg(n) y = QuantizeLinear(n, step)",
            "u = Identity(a) b = Neg(a) y = QuantizeLinear(u, step)",
            "t = Transpose(a) b = Neg(a) y = Neg(t)")),
    ],
)  # fmt: skip
def test_optimizers_that_would_be_wrong_are_left_out(body, optimizers):
    inputs = "float[1,16,8,8] x, float[16,16,1,1] w, uint8[1] q, bool c"
    weights = """<int64[8] k = {0,0,1,1,0,0,1,1}, float[1,1] deep = {2}, float[1] flat = {2},
        float[4] scales = {1,1,0.5,0.5}, float step = {0.5}, int64[1] one = {1}>"""
    assert disabled(body, inputs, weights) == optimizers


M = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
BRANCH = """(float[2,3] x, bool c) => (float[] y, float[] z) <float[2] v = {{1,2}},
    float[4,3] w = {{1,2,3,4,5,6,7,8,9,1,2,3}}, float[2,2,1,1] k = {{1,2,3,4}},
    float[2,2,1,1] l = {{2,1,2,1}}, float[2,2] o = {{1,2,3,5}}, int64[4] s = {{1,2,1,3}}> {{
    y, z = If (c) <then_branch = t () => (a, b) {{
        t = Transpose <perm = [1,0]> (x) i = Reshape(x, s) {} }},
    else_branch = e () => (d, f) {{ d = Neg(x) f = Neg(x) }}> }}"""
LOST = {
    "an index from the end of embeddings": (
        """(int64[1,3] x, int64[1,3] k) => (float[] y) <float[4,2] w = {1,2,3,4,5,6,7,8}, float[2] v = {1,2},
        int64[1,3] p = {0,1,2}, float[2,6] q = {1,2,3,4,5,6,7,8,9,1,2,3}, float[6] b = {1,2,3,4,5,6}> {
        g = Gather(w, x) h = Gather(w, p) i = Gather(w, k) a = Add(g, h) s = Add(a, i)
        n = LayerNormalization(s, v, v)
        y = com.microsoft.Attention <num_heads = 1> (n, q, b) }""",
        [np.array([[-1, 0, 1]]), np.array([[0, 1, 1]])],
    ),
    "a Range to a negative bound": (
        """(float[2,3] x, int64 n) => (float[k,3] y) <int64 one = {1}, int64 zero = {0}>
        { r = Range(n, zero, one) y = Gather(x, r) }""",
        [M, np.array(-2)],
    ),
    "a reciprocal of integers": (
        """(int32[3] x) => (int32[3] y) <int32[3] d = {2,3,4}, int32 one = {1}>
        { i = Div(one, d) y = Mul(x, i) }""",
        [np.array([8, 9, 7], np.int32)],
    ),
    "a vector that is normalized": (
        """(float[1,2] x) => (float[n,m,o] y) <float two = {2}, float e = {1}, float[1,2] g = {1,2},
        int64[1] a = {-1}> { y = Scan <num_scan_inputs = 1, body = b (float[2] r) => (float[m,o] z) {
        p = Pow(r, two) v = ReduceMean(p, a) q = Add(v, e) s = Sqrt(q) d = Div(r, s)
        z = Mul(d, g) }> (x) }""",
        [M[:1, :2]],
    ),
    "pads of one axis": (
        """(float[2,3] x) => (float[n,m] y) <int64[2] p = {1,0}, int64[1] one = {1}> {
        t = Transpose <perm = [1,0]> (x) q = Pad(t, p, , one) y = Transpose <perm = [1,0]> (q) }""",
        [M],
    ),
    "a value that is quantized by two scales": (
        """(float[2,3] x) => (float[2,3] y)
        <float s = {0.25}, int8 z = {0}, float t = {0.03125}, int8 o = {1}> {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
        r = QuantizeLinear(d, t, o) y = DequantizeLinear(r, t, o) }""",
        [M * np.float32(1.1)],
    ),
    "a product that is returned": (
        BRANCH.format("a = Gemm(w, t) b = Transpose <perm = [1,0]> (a)"),
        [M, np.array(True)],
    ),
    "an image that is returned": (
        BRANCH.format("a = Conv(i, k, v) j = Conv(i, l, v) g = Add(a, j) b = Relu(g)"),
        [M, np.array(True)],
    ),
    "a Transpose that is returned": (
        BRANCH.format(
            "m = MatMul(t, o) a = Transpose <perm = [0,1]> (m) "
            "b = BatchNormalization <epsilon = 0.5> (a, v, v, v, v)"
        ),
        [M, np.array(True)],
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_what_optimizers_lose_is_there(run_model, name):
    text, inputs = LOST[name]
    head = '<ir_version: 10, opset_import: ["": 19, "com.microsoft": 1]>'
    model = ir.to_proto(ir.from_onnx_text(f"{head} g {text}"))
    plain = model.SerializeToString()

    def by_onnxruntime(level):
        chosen = ort.SessionOptions()
        chosen.graph_optimization_level, on = level, ["CPUExecutionProvider"]
        feed = dict(zip((i.name for i in model.graph.input), map(np.asarray, inputs), strict=True))
        return ort.InferenceSession(plain, chosen, on, enable_fallback=0).run(None, feed)

    expected = by_onnxruntime(session.NO_OPTIMIZATION)
    given = run_model(plain, inputs, target=Target(threads=1, provider="onnxruntime"))
    for y, wanted in zip(given, expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-5)  # of float32
    try:
        wrong = by_onnxruntime(ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    except session.FAILURES:
        return
    same = (np.array_equal(w, e) for w, e in zip(wrong, expected, strict=True))
    assert not all(same), "onnxruntime is right: the optimizer need not be left out"


def test_a_branch_reads_what_is_quantized_again(run_model):
    model = ir.to_proto(ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 19]> g (int8[2] x, bool c) => (int8[n] y)
        <float s = {{0.5}}, int8 z = {{3}}> {{ d = DequantizeLinear(x, s, z) q = QuantizeLinear(d, s, z)
            y = {(BRANCHES.format("q"))} }}"""
    ))  # fmt: skip
    inputs = [np.array([5, -7], np.int8), np.array(True)]
    (y,) = run_model(model.SerializeToString(), inputs, target=Target(threads=1, provider="onnxruntime"))
    assert y.tolist() == [-5, 7]


WEIGHTS = """<int8[2,2] w = {1,2,3,4}, uint8[2,2] u = {1,2,3,4}, int8[2,2,2] c = {1,2,3,4,5,6,7,8},
    float s = {1}, float[2] v = {1,2}, int8[2] zeros = {0,0}, int8[2] some = {0,1}, int8 zero = {0}>"""


@pytest.mark.parametrize(
    ("body", "kept", "weights"),
    [
        ("d = DequantizeLinear(w, s) a = MatMul(x, d) b = MatMul(a, d) y = MatMul(b, d)", (), 3),
        ("d = DequantizeLinear(w, s) a = MatMul(x, d) y = MatMul(a, d)", ("w",), 1),
        ("d = DequantizeLinear(u, s) a = MatMul(x, d) y = MatMul(a, d)", (), 1),
        ("d = DequantizeLinear(w, s) e = DequantizeLinear(w, s) a = MatMul(x, d) y = MatMul(a, e)", (), 2),
        ("d = DequantizeLinear(w, s, zero) a = MatMul(x, d) y = MatMul(a, d)", (), 2),
        ("t = Transpose <perm = [1,0]> (w) d = DequantizeLinear(t, s) y = MatMul(x, d)", (), 1),
        ("d = DequantizeLinear(i, s) a = MatMul(x, d) y = MatMul(a, d)", (), 0),
        ("d = DequantizeLinear(w, s) y = MatMul(x, d)", (), 1),
    ],
)
def test_each_reader_of_a_weight_has_it_for_itself(body, kept, weights):
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[2,2] x, int8[2,2] i) => (y)'
    model = ir.from_onnx_text(f"{head} {WEIGHTS} {{ {body} }}")
    feed = {"x": np.eye(2, dtype=np.float32), "i": np.ones((2, 2), np.int8)}
    (before,) = ReferenceEvaluator(ir.to_proto(model)).run(None, feed)
    separate_weights(model, kept)
    steps = [node for node in model.graph if node.op_type == "DequantizeLinear"]
    stored = [step.inputs[0] for step in steps if step.inputs[0].is_initializer()]
    stored += [node.inputs[0] for node in model.graph if node.op_type == "Transpose"]
    assert len({value.name for value in stored}) == weights
    points = [step.inputs[2] for step in steps if len(step.inputs) > 2]
    assert len({id(value) for value in points}) == len(points)
    np.testing.assert_array_equal(ReferenceEvaluator(ir.to_proto(model)).run(None, feed)[0], before)


def entry(options: ort.SessionOptions, key: str) -> str:
    try:
        return options.get_session_config_entry(key)
    except RuntimeError:  # it was not set
        return ""


@pytest.mark.parametrize(
    ("threads", "requests", "cores", "bound"),
    [
        (1, 1, (3,), ""),
        (1, 2, (3, 2), ""),
        (2, 1, (3, 2), "3"),
        (2, 2, (3, 2, 1, 0), "2;1"),  # the first two are the workers'
        (3, 1, (5, 6), "7;7"),
        (2, 2, (1, 2), "2;3"),
        (2, 2, (), ""),
    ],
)
def test_threads_of_the_engine_are_bound_beside_those_of_workers(threads, requests, cores, bound):
    """One for each thread of a request but its caller's; the engine counts cores from 1."""
    asked = session.options(Target(threads=threads, parallel_requests=requests, cores=cores))
    assert entry(asked, "session.intra_op_thread_affinities") == bound
    assert asked.intra_op_num_threads == requests * (threads - 1) + 1
    assert entry(asked, "session.intra_op.allow_spinning") == ("0" if requests > 1 else "")


@pytest.mark.parametrize(("operators", "parallel"), [(0, False), (1, False), (2, True), (3, True)])
def test_operators_run_in_parallel_where_that_was_asked_for(operators, parallel):
    asked = session.options(Target(threads=3, inter_op_threads=operators))
    assert (asked.execution_mode == ort.ExecutionMode.ORT_PARALLEL) == parallel
    assert not parallel or asked.inter_op_num_threads == operators


@pytest.mark.parametrize(
    ("machine", "kinds", "precision", "half"),
    [
        ("aarch64", ["bfloat16"], "preferred_fp16", True),
        ("aarch64", ["bfloat16"], "enforce_fp32", False),
        ("aarch64", ["float16"], "preferred_fp16", False),
        ("x86_64", ["bfloat16"], "preferred_fp16", False),
    ],
)
def test_products_are_in_bfloat16_on_arm_alone(machine, kinds, precision, half, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(session, "sixteen_bit_types", lambda: kinds)
    asked = session.options(Target(threads=1, precision=precision))
    assert bool(entry(asked, "mlas.enable_gemm_fastmath_arm64_bfloat16")) == half
