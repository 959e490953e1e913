"""Changes of a finished graph; onnxruntime runs what comes out."""

import graphs
import numpy as np
import onnx_ir as ir

from pinnace.graph.editor import Editor, remove_unread, replace_value
from pinnace.graph.nodes import origins

X = np.array([1, -2, 3, -4], np.float32)


def run(model):
    return graphs.session(model).run(None, {"x": X})[0]


def test_a_value_takes_the_place_and_the_name_of_another():
    m = graphs.model("z = Relu(x) y = Neg(z)")
    b, relu = Editor(m, "%new"), graphs.node(m, "Relu")
    b.put_before(relu, b.op("Abs", relu.inputs[0]))
    b.finish()
    assert [node.op_type for node in m.graph] == ["Abs", "Neg"]
    assert graphs.node(m, "Abs").outputs[0].name == "z"
    np.testing.assert_array_equal(run(m), -np.abs(X))


def test_what_follows_a_value_reads_it_and_is_read_in_its_place():
    m = graphs.model("z = Relu(x) y = Neg(z)")
    b, z = Editor(m, "%new"), graphs.value(m, "z")
    doubled = b.op("Mul", z, 2.0)
    b.insert_after(graphs.node(m, "Relu"))
    replace_value(z, doubled, reader=doubled.producer())
    b.finish()
    np.testing.assert_array_equal(run(m), -2 * np.maximum(X, 0))


def test_a_constant_keeps_its_type_where_nothing_is_known_of_the_value_before():
    m = graphs.model("z = Relu(x) y = Neg(z)")
    b, z = Editor(m, "%new"), graphs.value(m, "z")
    z.type = z.shape = None
    one = b.constant(np.ones(4), np.float32)
    replace_value(z, one)
    assert (one.dtype, one.shape) == (ir.DataType.FLOAT, ir.Shape([4]))


def test_outputs_of_the_graph_keep_their_names():
    m = graphs.model("y = Neg(x)")
    b, neg = Editor(m, "%new"), graphs.node(m, "Neg")
    b.put_before(neg, b.op("Abs", neg.inputs[0]))
    assert [output.name for output in m.graph.outputs] == ["y"]
    np.testing.assert_array_equal(run(m), np.abs(X))


def test_names_are_new_ones_where_an_editor_follows_another():
    m = graphs.model("y = Neg(x)")
    for _ in range(2):
        b, last = Editor(m, "%new"), m.graph[len(m.graph) - 1]
        b.put_before(last, b.op("Add", b.op("Mul", last.inputs[0], 3.0), np.ones(4, np.float32)))
        b.finish()
    names = [value.name for node in m.graph for value in node.outputs]
    assert len({*names, *m.graph.initializers}) == len(names) + len(m.graph.initializers)
    ir.to_proto(m)
    np.testing.assert_array_equal(run(m), 9 * X + 1)


def test_what_is_written_has_the_origins_of_the_node_that_it_is_for():
    m = graphs.model("y = Neg(x)")
    b, neg = Editor(m, "%new"), graphs.node(m, "Neg")
    neg.name = "of the file"
    b.follow(neg)
    b.put_before(neg, b.op("Abs", neg.inputs[0]))
    assert origins(m.graph[0]) == ("of the file",)


def test_constants_that_nothing_reads_are_not_added():
    m = graphs.model("y = Neg(x)")
    b = Editor(m, "%new")
    b.constant([1.0, 2.0])
    b.finish()
    assert not m.graph.initializers


def test_nodes_that_only_an_unread_node_read_go_with_it():
    m = graphs.model("a = Abs(x) b = Neg(a) c = Relu(b) y = Neg(a)")
    remove_unread(graphs.node(m, "Relu"))
    assert [node.op_type for node in m.graph] == ["Abs", "Neg"]
