"""Outputs of ONNX files that no node makes, or that are given twice."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pinnace


def outputs_of(graph, provider):
    """Give the first number of each output for an input of threes, and the names."""
    if provider == "openvino":
        pytest.importorskip("openvino")
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    context = pinnace.Context()
    context.cpu.provider = provider
    with pinnace.Model() as model:
        model.build_from_buffer(file.SerializeToString(), pinnace.ModelType.ONNX, context)
        outputs = model.predict([np.full(40000, 3, np.float32)])
    for output in outputs:
        assert len(set(output.get_data_to_numpy().tolist())) == 1
    return [float(output.get_data_to_numpy()[0]) for output in outputs], [output.name for output in outputs]


def info(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [40000])


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_outputs_that_are_given_twice_have_values_and_names_of_their_own(provider):
    """Of two outputs of one name onnxruntime writes one."""
    weight = numpy_helper.from_array(np.full(40000, 2, np.float32), "w")
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["x_output"])]
    outputs = ["y", "x", "w", "x", "x_output", "y"]
    graph = helper.make_graph(nodes, "g", [info("x")], [*map(info, outputs)], [weight])
    values, names = outputs_of(graph, provider)
    assert values == [-3, 3, 2, 3, 3, -3]
    assert names == ["y", "x_output_", "w_output", "x_output__", "x_output", "y_output"]


@pytest.mark.parametrize("outer", ["x", "w", "y"])
def test_a_branch_that_gives_a_value_from_outside_is_refused_by_name(outer):
    weight = numpy_helper.from_array(np.full(40000, 2, np.float32), "w")
    given = helper.make_graph([], "taken", [], [info(outer)])
    own = helper.make_graph([helper.make_node("Identity", ["x"], ["e"])], "else", [], [info("e")])
    nodes = [
        helper.make_node("Neg", ["x"], ["y"]),
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True), "")),
        helper.make_node("If", ["c"], ["z"], then_branch=given, else_branch=own),
    ]
    graph = helper.make_graph(nodes, "g", [info("x")], [info("z")], [weight])
    with pytest.raises(
        pinnace.ModelFormatError, match=f"output '{outer}' of graph 'taken' is not computed in"
    ):
        outputs_of(graph, "onnxruntime")


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
@pytest.mark.parametrize(("name", "wanted"), [("x", 3), ("w", 2)])
@pytest.mark.parametrize("alone", [True, False])
def test_an_output_that_is_an_input_or_a_constant_has_its_values(provider, name, wanted, alone):
    """Engines leave the memory of such an output as it is: it held what was there before."""
    weight = numpy_helper.from_array(np.full(40000, 2, np.float32), "w")
    nodes = [] if alone else [helper.make_node("Relu", ["x"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [info("x")], [info(n) for n in [name, *["y"] * (not alone)]], [weight]
    )
    assert outputs_of(graph, provider)[0] == [wanted, *[3] * (not alone)]
