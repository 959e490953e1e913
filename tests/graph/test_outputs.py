"""Outputs that no node of their graph makes, that are given twice, or that have no name."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import pinnace

WEIGHT = numpy_helper.from_array(np.full(40000, 2, np.float32), "w")


def predicted(file, provider, x):
    """Build a model with one input x, and give the outputs."""
    if provider == "openvino":
        pytest.importorskip("openvino")
    context = pinnace.Context()
    context.cpu.provider = provider
    with pinnace.Model() as model:
        model.build_from_buffer(file.SerializeToString(), pinnace.ModelType.ONNX, context)
        assert [tensor.name for tensor in model.get_inputs()] == ["x"]
        return model.predict([x])


def outputs_of(graph, provider):
    """Give the first number of each output for an input of threes, and the names."""
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    outputs = predicted(file, provider, np.full(40000, 3, np.float32))
    for output in outputs:
        assert len(set(output.get_data_to_numpy().tolist())) == 1
    return [float(output.get_data_to_numpy()[0]) for output in outputs], [output.name for output in outputs]


def info(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [40000])


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_outputs_that_are_given_twice_have_values_and_names_of_their_own(provider):
    """Of two outputs of one name onnxruntime writes one."""
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["x_output"])]
    outputs = ["y", "x", "w", "x", "x_output", "y"]
    graph = helper.make_graph(nodes, "g", [info("x")], [*map(info, outputs)], [WEIGHT])
    values, names = outputs_of(graph, provider)
    assert values == [-3, 3, 2, 3, 3, -3]
    assert names == ["y", "x_output_", "w_output", "x_output__", "x_output", "y_output"]


@pytest.mark.parametrize("outer", ["x", "w", "y"])
def test_a_branch_that_gives_a_value_from_outside_is_refused_by_name(outer):
    given = helper.make_graph([], "taken", [], [info(outer)])
    own = helper.make_graph([helper.make_node("Identity", ["x"], ["e"])], "else", [], [info("e")])
    nodes = [
        helper.make_node("Neg", ["x"], ["y"]),
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True), "")),
        helper.make_node("If", ["c"], ["z"], then_branch=given, else_branch=own),
    ]
    graph = helper.make_graph(nodes, "g", [info("x")], [info("z")], [WEIGHT])
    with pytest.raises(
        pinnace.ModelFormatError, match=f"output '{outer}' of graph 'taken' is not computed in"
    ):
        outputs_of(graph, "onnxruntime")


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
@pytest.mark.parametrize(("name", "wanted"), [("x", 3), ("w", 2)])
@pytest.mark.parametrize("alone", [True, False])
def test_an_output_that_is_an_input_or_a_constant_has_its_values(provider, name, wanted, alone):
    """Engines leave the memory of such an output as it is: it held what was there before."""
    nodes = [] if alone else [helper.make_node("Relu", ["x"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [info("x")], [info(n) for n in [name, *["y"] * (not alone)]], [WEIGHT]
    )
    assert outputs_of(graph, provider)[0] == [wanted, *[3] * (not alone)]


X = np.stack([np.full(10_000, 3), np.full(10_000, 4)]).astype(np.float32)
ROWS, ROW = "float[2,10000]", "float[10000]"
NESTED = {
    "a Scan's input": (
        f"{ROWS} a", f"a = Scan <num_scan_inputs = 1, body = b ({ROW} v) => ({ROW} v) {{ }}> (x)", [X]
    ),
    "a Scan's one value twice": (
        f"{ROWS} a, {ROWS} b",
        f"a, b = Scan <num_scan_inputs = 1, body = b ({ROW} v) => ({ROW} w, {ROW} w) {{ w = Neg(v) }}> (x)",
        [-X, -X],
    ),
    "what a function gives back to a Scan": (
        f"{ROWS} a",
        f"a = Scan <num_scan_inputs = 1, body = b ({ROW} v) => ({ROW} w) {{ w = local.same(v) }}> (x)", [X],
    ),
    "a branch's one value twice": (
        f"{ROWS} a, {ROWS} b",
        f"""a, b = If (go) <then_branch = t () => ({ROWS} w, {ROWS} w) {{ w = Neg(x) }},
            else_branch = e () => ({ROWS} u, {ROWS} v) {{ u = Abs(x) v = Abs(x) }}>""", [-X, -X],
    ),
    "a loop's number": (
        "int64 a, int64[3] b",
        "a, b = Loop (n, , n) <body = b (int64 i, bool c, int64 v) => (bool c, int64 i, int64 i) { }>",
        [2, [0, 1, 2]],
    ),
    "the second part alone": ("float[1,10000] b", '"", b = Split <axis = 0> (x)', [X[1:]]),
    "the first part alone": ("float[1,10000] a", 'a, "" = Split <axis = 0> (x)', [X[:1]]),
    "what a loop collects, without its last value": (
        "float[3,2,10000] b",
        f""""", b = Loop (n, , x) <body = b (int64 i, bool c, {ROWS} v) => (bool c, {ROWS} w, {ROWS} u)
            {{ w = Identity(v) u = Neg(v) }}>""", [[-X] * 3],
    ),
    "what a function gives back": (f"{ROWS} a", "a = local.same (x)", [X]),
    "a function's first result alone": (f"{ROWS} a", "a = local.two (x)", [-X]),
}  # fmt: skip
FUNCTIONS = """
<domain: "local", opset_import: ["" : 17]> same (p) => (p) { q = Neg(p) }
<domain: "local", opset_import: ["" : 17]> two (p) => (q, r) { q = Neg(p) r = Abs(p) }"""


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("case", NESTED)
def test_nested_graphs_functions_and_unnamed_parts_give(case, provider):
    """Else onnxruntime leaves memory unwritten, gives another number, or ends the process."""
    outputs, node, wanted = NESTED[case]
    text = f"""<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g ({ROWS} x) => ({outputs})
        {{ go = Constant<value = bool {{1}}>() n = Constant<value = int64 {{3}}>() {node} }} {FUNCTIONS}"""
    given = predicted(parse_model(text), provider, X)
    assert len(given) == len(wanted)
    for one, expected in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(one.get_data_to_numpy(), expected)


def test_a_model_without_outputs_is_refused_by_name():
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [info("x")], [])
    for provider in ("onnxruntime", "openvino"):
        with pytest.raises(pinnace.ModelFormatError, match="has no outputs"):
            outputs_of(graph, provider)
