"""Outputs of ONNX files that no node makes."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pinnace


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
@pytest.mark.parametrize(("name", "wanted"), [("x", 3), ("w", 2)])
@pytest.mark.parametrize("alone", [True, False])
def test_an_output_that_is_an_input_or_a_constant_has_its_values(provider, name, wanted, alone):
    """Engines leave the memory of such an output as it is: it held what was there before."""
    if provider == "openvino":
        pytest.importorskip("openvino")
    x, given, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [40000]) for n in ("x", name, "y"))
    weights = [numpy_helper.from_array(np.full(40000, 2, np.float32), "w")]
    nodes = [] if alone else [helper.make_node("Relu", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [given] if alone else [given, y], weights)
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    context = pinnace.Context()
    context.cpu.provider = provider
    with pinnace.Model() as model:
        model.build_from_buffer(file.SerializeToString(), pinnace.ModelType.ONNX, context)
        outputs = model.predict([np.full(40000, 3, np.float32)])
    assert outputs[0].get_data_to_numpy().tolist() == [wanted] * 40000
