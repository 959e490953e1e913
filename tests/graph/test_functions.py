"""Calls of an ONNX model's functions, which become nodes."""

import onnx_ir as ir
import pytest
from tests.fuzz import amplify

from pinnace.errors import ModelFormatError
from pinnace.graph.functions import inline

MODEL = """<ir_version: 10, opset_import: ["": 20, "own": 1]>
g (float[2] x) => (float[2] y) {{ y = own.f(x) }}
<opset_import: ["": {version}], domain: "own"> f (a) => (b) {{ {body} }}"""


def model(version, body):
    return ir.from_onnx_text(MODEL.format(version=version, body=body))


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (20, "b = Gelu(a)"),
        (19, "c = Relu(a) b = Neg(c)"),  # which did not change since
        (13, "b = Clip(a)"),
    ],
)
def test_a_call_becomes_the_nodes_of_the_function(version, body):
    made = model(version, body)
    inline(made, "m.onnx")
    assert [node.op_type for node in made.graph] == [part.split("(")[0] for part in body.split(" = ")[1:]]
    assert not made.functions


def test_an_operator_that_changed_between_operator_sets_is_refused():
    with pytest.raises(ModelFormatError, match=r"m\.onnx: Opset mismatch .* 20 .* 17 in the function"):
        inline(model(17, "c = Relu(a) b = ReduceMax(c)"), "m.onnx")


def test_nodes_of_many_calls_have_names_of_their_own():
    made = ir.from_proto(amplify.functions(8, 3))
    inline(made, "m.onnx")
    assert len({node.name for node in made.graph}) == len(made.graph) == 3**8


def test_functions_that_nothing_calls_are_left_out():
    made = model(17, "b = ReduceMax(a)")
    made.graph.node(0).domain, made.graph.node(0).op_type = "", "Relu"
    inline(made, "m.onnx")
    assert not made.functions
