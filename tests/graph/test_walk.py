"""Iteration over nested graphs, compared with onnx-ir's own."""

import graphs
import onnx_ir as ir

from pinnace.graph.walk import inner_graphs, nodes

NESTED = """
    z = If (c) <
        then_branch = t () => (float[4] u) { u = Neg(x) },
        else_branch = e () => (float[4] v) {
            w = If (c) <
                then_branch = tt () => (float[4] p) { p = Abs(x) },
                else_branch = ee () => (float[4] q) { q = Relu(x) }
            >
            v = Exp(w)
        }
    >
    y = Identity(z)
"""


def test_all_nodes_come_those_within_a_node_before_it():
    m = graphs.model(NESTED, "float[4] x, bool c")
    found = [node.op_type for node in nodes(m.graph)]
    assert found == ["Neg", "Abs", "Relu", "If", "Exp", "If", "Identity"]
    assert set(nodes(m.graph)) == set(ir.traversal.RecursiveGraphIterator(m.graph))


def test_a_node_without_graphs_holds_none():
    m = graphs.model(NESTED, "float[4] x, bool c")
    assert len(inner_graphs(graphs.node(m, "If"))) == 2
    assert inner_graphs(graphs.node(m, "Identity")) == ()
