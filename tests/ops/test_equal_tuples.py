"""Comparisons of tuples: of what is known at once, of dimensions, and of tensors at run time."""

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.scalar import tuple_equal


def scalar(name):
    return ir.Value(name=name, shape=ir.Shape([]), type=ir.TensorType(ir.DataType.INT64))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, 2), (1, 2)),
        ((1, 2), (1, 3)),
        ((1, 2), (1,)),
        ((), ()),
        ((1, (2, 3)), (1, (2, 3))),
        ((1.5,), (1,)),
    ],
)
def test_what_is_known_is_compared_at_once(first, second):
    b = Builder()
    assert tuple_equal(b, first, second) is (first == second)
    assert not b.nodes


def test_elements_that_only_the_run_knows_are_compared_by_it():
    b = Builder()
    x, y = scalar("x"), scalar("y")
    assert tuple_equal(b, (1, x), (1, x)) is True
    assert tuple_equal(b, (2, x), (1, y)) is False
    assert not b.nodes
    tuple_equal(b, (x, 1, y), (y, 1, 3))
    assert [node.op_type for node in b.nodes if node.op_type != "Cast"] == ["Equal", "Equal", "And"]


def test_the_same_dimension_of_a_tensor_is_the_same():
    b = Builder()
    x = ir.Value(name="t", shape=ir.Shape(["N", "M"]), type=ir.TensorType(ir.DataType.FLOAT))
    zero = b.constant(np.array([0]))

    def size(axis):
        return b.op("Squeeze", b.op("Shape", x, start=axis, end=axis + 1), zero)

    assert tuple_equal(b, (size(0),), (size(0),)) is True
    assert isinstance(tuple_equal(b, (size(0),), (size(1),)), ir.Value)
