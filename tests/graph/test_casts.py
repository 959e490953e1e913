"""Nodes that compute in other types than the graph around them."""

import graphs
import numpy as np
import onnx_ir as ir

from pinnace.graph.casts import compute_in
from pinnace.graph.editor import Editor


def test_a_node_computes_in_another_type_between_casts():
    m = graphs.model("y = Mul(x, w)", weights="<float[4] w = {1, 2, 3, 4}>")
    m.graph.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    b, node = Editor(m, "%cast"), graphs.node(m, "Mul")
    compute_in(b, node, {"T": ir.DataType.DOUBLE}, ["T", "T"], ["T"])
    assert [one.op_type for one in m.graph] == ["Cast", "Cast", "Mul", "Cast"]
    assert m.graph.outputs[0].name == "y"
    x = np.full(4, 1 / 3, np.float32)
    (y,) = graphs.session(m).run(None, {"x": x})
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, x * [1, 2, 3, 4], rtol=1e-7)


def test_an_input_that_is_read_twice_is_cast_once():
    m = graphs.model("y = Mul(x, x)")
    m.graph.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    compute_in(Editor(m, "%cast"), graphs.node(m, "Mul"), {"T": ir.DataType.DOUBLE}, ["T", "T"], ["T"])
    assert [one.op_type for one in m.graph] == ["Cast", "Mul", "Cast"]
