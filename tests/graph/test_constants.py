"""What is known of a value before the run."""

import graphs
import numpy as np
import pytest

from pinnace.graph import constants


def test_an_initializer_and_a_node_constant_are_constants():
    m = graphs.model(
        "c = Constant<value = float {2.0}> () z = Add(x, c) y = Mul(z, w)", weights="<float w = {3.0}>"
    )
    assert constants.number(graphs.value(m, "w")) == 3
    assert constants.number(graphs.value(m, "c")) == 2
    assert constants.constant(graphs.value(m, "z")) is None


def test_an_initializer_that_callers_may_override_is_no_constant():
    m = graphs.model("y = Mul(x, w)", "float[4] x, float w", weights="<float w = {3.0}>")
    assert constants.constant(graphs.value(m, "w")) is None


def test_a_node_constant_without_a_value_is_no_constant():
    m = graphs.model("c = Constant () y = Add(x, c)")
    assert constants.constant(graphs.value(m, "c")) is None


def test_integers_of_an_input_or_of_an_older_attribute():
    newer = graphs.model("y = ReduceSum(x, a)", weights="<int64[1] a = {-1}>")
    older = graphs.model("y = ReduceSum<axes = [0, 1]>(x)", opset=11)
    computed = graphs.model("y = ReduceSum(x, a)", "float[4] x, int64[1] a")
    assert constants.given_ints(graphs.node(newer, "ReduceSum"), 1, "axes") == (-1,)
    assert constants.given_ints(graphs.node(older, "ReduceSum"), 1, "axes") == (0, 1)
    assert constants.given_ints(graphs.node(computed, "ReduceSum"), 1, "axes") is None


def test_floats_are_no_integers():
    m = graphs.model("y = Mul(x, w)", weights="<float[2] w = {1, 2}>")
    assert constants.ints(graphs.value(m, "w")) is None
    np.testing.assert_array_equal(constants.floats(graphs.value(m, "w")), [1, 2])
    assert constants.number(graphs.value(m, "w")) is None


def held(kind, shape, count):
    m = graphs.model("y = Identity(w)", weights=f"<{kind}{shape} w = {{{','.join(['3'] * count)}}}>")
    return graphs.value(m, "w")


@pytest.mark.parametrize(
    ("shape", "count", "number", "ints"),
    [("", 1, 3, 1), ("[1]", 1, 3, 1), ("[1,1]", 1, None, None), ("[2]", 2, None, 2), ("[64]", 64, None, 64),
     ("[65]", 65, None, None), ("[1,2]", 2, None, None)],
)  # fmt: skip
def test_numbers_and_short_vectors(shape, count, number, ints):
    assert constants.number(held("int64", shape, count)) == number
    assert constants.ints(held("int64", shape, count)) == (None if ints is None else (3,) * ints)


def test_nothing_is_known_of_nothing():
    asked = (constants.constant, constants.array, constants.floats, constants.number, constants.ints)
    assert [ask(None) for ask in asked] == [None] * 5
    assert constants.floats(held("double", "[2]", 2)) is None
