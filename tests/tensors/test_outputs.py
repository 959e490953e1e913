"""Outputs: memory that a prediction can write to, and the tensors that its results become."""

from __future__ import annotations

import numpy as np
import pytest

from pinnace.errors import ArgumentTypeError, ArgumentValueError
from pinnace.tensors.outputs import OutputPorts
from pinnace.tensors.tensor import Tensor, TensorMeta
from pinnace.types import DataType, Format, Port

A = Port("a", DataType.FLOAT32, (2, 3), Format.NHWC)
B = Port("b", DataType.INT64, (-1,))
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4)


def tensors(*arrays):
    return [Tensor(array) for array in arrays]


def test_memory_of_all_outputs_is_written_where_it_is():
    outputs = OutputPorts([A, A])
    given = tensors(X.copy(), X.copy())
    for _ in range(2):
        found = outputs.bind(given, [X])
        assert all(mine is tensor.numpy() for mine, tensor in zip(found, given, strict=True))
    assert list(outputs.fill(given, found, found)) == given


def test_memory_is_bound_again_where_callers_take_turns():
    outputs = OutputPorts([A])
    first, second, third = (tensors(X.copy()) for _ in range(3))
    for given in (first, second, first, third, second, first):
        assert outputs.bind(given, [X])[0] is given[0].numpy()


@pytest.mark.parametrize(
    "given",
    [
        [Tensor(np.zeros((3, 2), np.float32)), Tensor(X.copy())],
        [Tensor(np.zeros((2, 3), np.int32)), Tensor(X.copy())],
        [Tensor(shape=[2, 3], dtype=DataType.FLOAT32), Tensor(X.copy())],
        [TensorMeta(), TensorMeta()],
    ],
)
def test_what_has_not_the_form_of_the_results_gets_copies(given):
    outputs = OutputPorts([A, A])
    assert outputs.bind(given, []) is None
    kept = list(given)
    found = outputs.fill(given, [X, X + 1], None)
    for place, expected in enumerate((X, X + 1)):
        np.testing.assert_array_equal(given[place].numpy(), expected)
        np.testing.assert_array_equal(found[place].numpy(), expected)
        assert (given[place] is kept[place]) == isinstance(kept[place], Tensor)


def test_memory_that_cannot_be_written_or_is_shared_is_left_alone():
    outputs = OutputPorts([A, A])
    fixed = X.copy()
    fixed.flags.writeable = False
    whole = np.zeros((4, 3), np.float32)
    assert outputs.bind(tensors(fixed, X.copy()), []) is None
    assert outputs.bind(tensors(whole[:2], whole[1:3]), []) is None
    assert outputs.bind(tensors(whole[:2], whole[2:]), []) is not None
    assert outputs.bind(tensors(whole[:2], whole[2:]), [whole]) is None


def test_memory_that_became_read_only_is_left_alone():
    outputs, given = OutputPorts([A]), tensors(X.copy())
    assert outputs.bind(given, []) is not None
    given[0].numpy().flags.writeable = False
    assert outputs.bind(given, []) is None


def test_results_of_free_shapes_are_written_where_the_engine_can():
    given = tensors(Y.copy())
    assert OutputPorts([B]).bind(given, []) is None
    assert OutputPorts([B], free=True).bind(given, [])[0] is given[0].numpy()
    other = [Tensor(np.zeros((2, 2), np.int64))]
    assert OutputPorts([B], free=True).bind(other, []) is None


def test_an_empty_list_gets_the_results_as_tensors():
    given = []
    found = OutputPorts([A, B]).fill(given, [X, Y], None)
    assert [one.name for one in given] == [one.name for one in found] == ["a", "b"]
    assert given[0].numpy() is X
    assert (given[0].format, given[0].dtype) == (Format.NHWC, DataType.FLOAT32)
    assert found["b"].numpy() is Y


def test_a_tensor_of_the_same_size_keeps_its_memory_and_gets_the_shape():
    array = np.zeros(6, np.float32)
    given = tensors(array)
    OutputPorts([A]).fill(given, [X], None)
    assert given[0].shape == [2, 3]
    np.testing.assert_array_equal(array, X.reshape(-1))


@pytest.mark.parametrize(
    "array", [np.zeros(4, np.float32), np.zeros((2, 3), np.int32), np.zeros(12, np.float16)]
)
def test_a_tensor_of_another_size_or_type_gets_new_memory(array):
    given = tensors(array)
    before = array.copy()
    OutputPorts([A]).fill(given, [X], None)
    assert (given[0].shape, given[0].dtype) == ([2, 3], DataType.FLOAT32)
    np.testing.assert_array_equal(given[0].numpy(), X)
    np.testing.assert_array_equal(array, before)


def test_some_results_may_be_where_they_belong():
    outputs = OutputPorts([A, A])
    given = tensors(np.zeros_like(X), np.zeros_like(X))
    places = outputs.bind(given, [])
    places[0][:] = X
    found = outputs.fill(given, [places[0], X + 1], places)
    assert found[0] is given[0]
    np.testing.assert_array_equal(given[0].numpy(), X)
    np.testing.assert_array_equal(given[1].numpy(), X + 1)


def test_only_tensors_and_descriptions_are_outputs():
    with pytest.raises(ArgumentTypeError, match="outputs"):
        OutputPorts([A]).bind([X], [])
    with pytest.raises(ArgumentValueError, match="each of the model's 2 outputs, but got 1"):
        OutputPorts([A, A]).bind(tensors(X), [])
    assert OutputPorts([A]).bind([], []) is None


def test_outputs_are_described_before_they_are_computed():
    first, second = OutputPorts([A, B]).metas([(2, 3), (-1,)])
    assert (first.name, first.dtype, first.shape, first.format) == ("a", A.dtype, [2, 3], Format.NHWC)
    assert (first.element_num, first.data_size) == (6, 24)
    assert (second.name, second.shape, second.element_num, second.data_size) == ("b", [-1], 0, 0)


def test_a_tensor_that_cannot_be_written_gets_new_memory():
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    given = tensors(fixed)
    OutputPorts([A]).fill(given, [X], None)
    np.testing.assert_array_equal(given[0].numpy(), X)
    assert not fixed.any()
