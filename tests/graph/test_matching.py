"""Patterns of nodes."""

import graphs

from pinnace.graph import matching


def test_the_node_that_makes_a_value_is_found_by_its_operator():
    m = graphs.model("z = Relu(x) y = Neg(z)")
    assert matching.made_by(graphs.value(m, "z"), "Relu", "Abs") is graphs.node(m, "Relu")
    assert matching.made_by(graphs.value(m, "z"), "Abs") is None
    assert matching.made_by(graphs.value(m, "x"), "Relu") is None


def test_a_value_with_two_readers_or_of_the_graph_is_not_private():
    m = graphs.model("a = Relu(x) b = Neg(a) y = Add(a, b)")
    assert not matching.private(graphs.value(m, "a"))
    assert matching.private(graphs.value(m, "b"))
    assert not matching.private(graphs.value(m, "y"))
    assert matching.is_read(graphs.value(m, "y"))


def test_a_factor_is_found_on_either_side():
    for product in ("Mul(x, w)", "Mul(w, x)"):
        m = graphs.model(f"z = {product} y = Neg(z)", weights="<float w = {3.0}>")
        x, factor = matching.scaled(graphs.value(m, "z"))
        assert (x, factor) == (graphs.value(m, "x"), graphs.value(m, "w"))
