"""Operators outside of ONNX's own domain: those that a file may name, and what a request may say to them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.requests.calls import CALLS, MS, Call

from pinnace.building.build import build_model as build
from pinnace.engines.onnxruntime import kernels
from pinnace.errors import EngineError, UnsupportedModelError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

LISTED = json.loads(Path(kernels.__file__).with_name("foreign.json").read_text())
RUN = [call for call in CALLS if call.op_type in LISTED.get(call.domain, {})]
ROOT = Path(__file__).parents[2]


def by_onnxruntime(model, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model, options).run(None, feed)


def run_of(call, **changed):
    """A function that runs a call with free shapes, and a request."""
    feed, constants = call.arrays(np.random.default_rng(1))
    model = call.model(feed, constants, False, **changed).SerializeToString()
    executable = build(model, None, Target(threads=1), Settings())
    given = {name: array for name, array in feed.items() if name not in constants}
    return executable.execution().run, given, model


@pytest.mark.parametrize("call", RUN, ids=lambda call: call.name)
def test_a_listed_operator_gives_what_onnxruntime_gives(call):
    run, feed, model = run_of(call)
    for given, expected in zip(run(list(feed.values())), by_onnxruntime(model, feed), strict=True):
        np.testing.assert_array_equal(given, expected)


WRITTEN_BY_ONNXRUNTIME = """
Attention BiasGelu DequantizeLinear DynamicQuantizeMatMul EmbedLayerNormalization FastGelu FusedConv FusedGemm
FusedMatMul GatherBlockQuantized Gelu GroupQueryAttention MatMulInteger16 MatMulIntegerToFloat MatMulNBits
MultiHeadAttention QAttention QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv
QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QLinearWhere QuantizeLinear
QuickGelu RotaryEmbedding SkipLayerNormalization SkipSimplifiedLayerNormalization
"""


def test_what_tools_of_onnxruntime_write_is_listed():
    assert set(WRITTEN_BY_ONNXRUNTIME.split()) <= set(LISTED[MS])


def test_an_operator_that_is_not_listed_is_refused_by_name():
    (call,) = [c for c in CALLS if c.op_type == "WordConvEmbedding"]
    with pytest.raises(UnsupportedModelError, match="WordConvEmbedding x1, first at node"):
        run_of(call)


def test_an_input_or_an_attribute_that_was_not_tried_is_refused_by_name():
    call = Call(MS, "MultiHeadAttention", "f2,4,8 f2,5,8 f2,5,8", {"num_heads": 2}, 1)
    with pytest.raises(UnsupportedModelError, match="shown that its attribute new is checked"):
        run_of(call, new=1)
    inputs = [helper.make_tensor_value_info(n, 1, None) for n in "qkv"]
    inputs.append(helper.make_tensor_value_info("n", TensorProto.INT32, [1]))
    node = helper.make_node("MultiHeadAttention", [*"qkv", *[""] * 5, "n"], ["y"], domain=MS, num_heads=2)
    with pytest.raises(UnsupportedModelError, match="shown that its input 8 is checked"):
        build(model_of(node, inputs), None, Target(threads=1), Settings())


@pytest.mark.parametrize(("name", "left_out"), [("QLinearConcat", 4), ("QLinearConcat", 7), ("QGemm", 7)])
def test_an_input_that_a_kernel_would_read_is_not_left_out(name, left_out):
    (call, *_) = [c for c in CALLS if c.op_type == name]
    model = call.model(*call.arrays(np.random.default_rng(1)), False)
    model.graph.node[0].input[left_out] = ""
    with pytest.raises(
        UnsupportedModelError, match=f"memory that is not its own: input {left_out} is left out"
    ):
        build(model.SerializeToString(), None, Target(threads=1), Settings())


def model_of(node, inputs, functions=()):
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1), helper.make_opsetid("local", 1)]
    made = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    return made.SerializeToString()


def test_an_operator_in_a_function_is_refused_too():
    word = helper.make_node("WordConvEmbedding", [*"swbc"], ["y"], domain=MS)
    function = helper.make_function("local", "F", [*"swbc"], ["y"], [word], [helper.make_opsetid(MS, 1)])
    kinds = {"s": TensorProto.INT32, "w": 1, "b": 1, "c": 1}
    inputs = [helper.make_tensor_value_info(n, k, None) for n, k in kinds.items()]
    call = helper.make_node("F", [*"swbc"], ["y"], domain="local")
    with pytest.raises(UnsupportedModelError, match="WordConvEmbedding"):
        build(model_of(call, inputs, [function]), None, Target(threads=1), Settings())


SQUARE = Call(MS, "Inverse", "f3,3", {}, 1)
PAST = Call(MS, "MultiHeadAttention", "f2,4,8 f2,5,8 f2,5,8 - - - f2,2,3,4 f2,2,3,4", {"num_heads": 2}, 3)
ROTARY = Call(MS, "RotaryEmbedding", "f2,2,3,8 l2,3<6 f6,4! f6,4!", {}, 1)
POOL = Call(MS, "QLinearAveragePool", "b1,4,6,6 p! b! p! b!", {"kernel_shape": [2, 2], "strides": [2, 2]}, 1)
PADDED = Call(
    MS, "QLinearAveragePool", "b1,4,6,6 p! b! p! b!", {"kernel_shape": [2, 2], "pads": [1, 0, 0, 0]}, 1
)
LAST = Call(MS, "QLinearAveragePool", "b1,6,6,4 p! b! p! b!", {"kernel_shape": [2, 2], "channels_last": 1}, 1)
SAME = Call(
    MS, "QLinearAveragePool", "b1,4,6,6 p! b! p! b!", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, 1
)
DYNAMIC = Call(MS, "DynamicQuantizeMatMul", "f2,4 b4,5 p5 b5", {}, 1)
SCALED = Call(MS, "MatMulIntegerToFloat", "b2,3,4 b4,5 p p5 b b5", {}, 1)


@pytest.mark.parametrize(
    ("call", "name", "shape"),
    [
        (SQUARE, "x0", (3, 4)),  # ended the process
        (PAST, "x2", (2, 5, 16)),  # read beyond the past value
        (ROTARY, "x0", (2, 2, 3, 9)),  # gave memory as it was
        (POOL, "x0", (1, 4, 1, 6)),  # divided by zero
        (SCALED, "x3", (8,)),  # wrote beyond its results
    ],
    ids=lambda value: getattr(value, "op_type", ""),
)
def test_wrong_shapes_that_kernels_believe_are_errors(call, name, shape):
    run, feed, model = run_of(call)
    wrong = feed | {name: np.resize(feed[name], shape)}
    if call is SCALED:
        wrong |= {"x1": np.resize(feed["x1"], (4, 1)), "x5": np.resize(feed["x5"], 1)}
    for _ in range(2):
        with pytest.raises(EngineError):
            run(list(wrong.values()))
        for given, expected in zip(run(list(feed.values())), by_onnxruntime(model, feed), strict=True):
            np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize(
    ("call", "name", "right", "wrong"),
    [
        (SQUARE, "x0", [(1, 1)], [(4, 3)]),
        (POOL, "x0", [(1, 4, 2, 2)], [(1, 4, 6, 1)]),
        (PADDED, "x0", [(1, 4, 1, 2)], [(1, 4, 2, 1)]),
        (LAST, "x0", [(1, 2, 2, 4)], [(1, 1, 6, 4), (1, 6, 1, 4)]),
        (SAME, "x0", [(1, 4, 1, 6), (1, 4, 1, 1)], []),
        (SCALED, "x3", [(1,), (5,)], [(4,), (6,), (2,)]),
        (DYNAMIC, "x2", [(1,), (5,)], [(4,), (6,), (8,)]),
    ],
    ids=lambda value: getattr(value, "op_type", ""),
)
def test_the_shapes_that_kernels_believe_are_those_that_fit(call, name, right, wrong):
    run, feed, model = run_of(call)
    for shape in right:
        given = feed | {name: np.resize(feed[name], shape)}
        if call is SCALED:
            given["x5"] = np.resize(feed["x5"], shape)
        for found, expected in zip(run(list(given.values())), by_onnxruntime(model, given), strict=True):
            np.testing.assert_array_equal(found, expected)
    for shape in wrong:
        with pytest.raises(EngineError, match="is not run: an input has no elements, or sizes"):
            run(list((feed | {name: np.resize(feed[name], shape)}).values()))


@pytest.mark.parametrize(
    ("call", "place"), [(DYNAMIC, 1), (DYNAMIC, 2), (SCALED, 1), (SCALED, 3), (ROTARY, 2)]
)
def test_a_file_without_a_required_input_is_refused(call, place):
    model = call.model(*call.arrays(np.random.default_rng(1)), False)
    model.graph.node[0].input[place] = ""
    with pytest.raises(EngineError, match=call.op_type):
        build(model.SerializeToString(), None, Target(threads=1), Settings())


def test_lengths_beyond_the_keys_are_an_error():
    """A bias was read beyond its end."""
    inputs = "f1,3,32 f1,3,16 f1,3,16 f1,2,12,8 f1,2,12,8 i1<=7 i<=8 - - - f1,4,3,8"
    run, feed, _ = run_of(Call(MS, "GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": 2}, 3))
    run(list(feed.values()))
    for wrong in (8, 9, -1, -(2**31), 2**31 - 1):
        with pytest.raises(EngineError):
            run(list((feed | {"x5": np.array([wrong], np.int32)}).values()))


def test_the_list_holds_for_a_few_requests():
    tool = [
        sys.executable,
        "-m",
        "tools.tables.make_foreign_operators",
        "--check",
        "--models",
        "1",
        "--requests",
        "6",
    ]
    found = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("wrong", [{"step": 0}, {"length": 0}, {"step": -1}, {"length": -(2**63)}])
def test_frames_of_no_length_are_an_error(wrong):
    """STFT, an operator of ONNX, ended the process."""
    numbers = {"step": 4, "length": 8}
    inputs = [helper.make_tensor_value_info("x", 1, [1, "n", 1])]
    inputs += [helper.make_tensor_value_info(n, TensorProto.INT64, []) for n in numbers]
    node = helper.make_node("STFT", ["x", "step", "", "length"], ["y"])
    x = np.random.default_rng(1).standard_normal((1, 32, 1)).astype(np.float32)
    model = model_of(node, inputs)
    run = build(model, None, Target(threads=1), Settings()).execution().run
    feed = {"x": x} | {n: np.array(v) for n, v in numbers.items()}
    np.testing.assert_array_equal(run(list(feed.values()))[0], by_onnxruntime(model, feed)[0])
    with pytest.raises(EngineError):
        run(list((feed | {n: np.array(v) for n, v in wrong.items()}).values()))


def test_frames_of_a_window_have_its_length():
    inputs = [helper.make_tensor_value_info("x", 1, [1, "n", 1]), helper.make_tensor_value_info("w", 1, [8])]
    inputs.append(helper.make_tensor_value_info("step", TensorProto.INT64, []))
    model = model_of(helper.make_node("STFT", ["x", "step", "w"], ["y"]), inputs)
    run = build(model, None, Target(threads=1), Settings()).execution().run
    x = np.random.default_rng(1).standard_normal((1, 32, 1)).astype(np.float32)
    feed = {"x": x, "w": np.hanning(8).astype(np.float32), "step": np.array(4)}
    np.testing.assert_array_equal(run(list(feed.values()))[0], by_onnxruntime(model, feed)[0])
    with pytest.raises(EngineError):
        run([x, feed["w"], np.array(0)])


def test_an_odd_size_of_heads_is_an_error():
    """ONNX's own RotaryEmbedding left the last number of each head as the memory was."""
    names = {"x": [1, 2, 3, "n"], "cos": [1, 3, 4], "sin": [1, 3, 4]}
    inputs = [helper.make_tensor_value_info(n, 1, shape) for n, shape in names.items()]
    graph = helper.make_graph(
        [helper.make_node("RotaryEmbedding", list(names), ["y"])],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10
    ).SerializeToString()
    run = build(model, None, Target(threads=1), Settings()).execution().run
    caches = [np.ones((1, 3, 4), np.float32)] * 2
    assert run([np.ones((1, 2, 3, 8), np.float32), *caches])[0].shape == (1, 2, 3, 8)
    with pytest.raises(EngineError):
        run([np.ones((1, 2, 3, 9), np.float32), *caches])


@pytest.mark.parametrize(
    ("call", "lacking"),
    [
        ("Relu(x)", ""),
        ("NoSuch(x)", "onnxruntime has no ONNX kernel"),
        ("GroupNormalization <num_groups = 1> (x, x, x)", ""),  # which ONNX defines by others
        ("Constant <value_float = 1.0> ()", ""),
        ("pinnace.distributed.AllReduce(x)", ""),
        ("mine.Relu(x)", "no test has shown that onnxruntime's kernel of mine"),
        ("com.microsoft.WordConvEmbedding(x, x, x, x)", "no test has shown"),
        ("com.microsoft.QLinearConcat <axis = 0> (x, x, x, x, x, x, x, x, x)", ""),  # of any number
        ("com.microsoft.QuickGelu <alpha = 2.0> (x)", ""),
        ("com.microsoft.QuickGelu <new = 2.0> (x)", ""),  # a number that chooses nothing
        ("com.microsoft.QuickGelu <new = 2> (x)", "its attribute new is checked"),
        ("com.microsoft.QuickGelu <new = 2> (x, x)", "its input 1, attribute new is checked"),
        ("com.microsoft.QuickGelu(x, , x)", "its input 2 is checked"),
        ("com.microsoft.Trilu <upper = 1> (x)", ""),  # the default
        ("com.microsoft.Trilu <upper = 0> (x)", "its attribute upper is checked"),
    ],
)
def test_operators_that_a_file_may_not_name(call, lacking):
    domains = '"com.microsoft": 1, "mine": 1, "pinnace.distributed": 1'
    text = f'<ir_version: 10, opset_import: ["": 21, {domains}]> g (float[4] x) => (y) {{{{ y = {{}} }}}}'
    found = kernels.missing_kernels(ir.from_onnx_text(text.format(call)))
    assert [one.name for one in found] == [call.split("(")[0].split("<")[0].split(".")[-1].strip()] * bool(
        lacking
    )
    assert not lacking or lacking in found[0].reason
