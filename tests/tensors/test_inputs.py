"""Inputs of a prediction: what is taken, in which order, and what is said of what does not fit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pinnace.errors import ArgumentTypeError, DataMismatchError
from pinnace.shapes import sizes
from pinnace.tensors.inputs import InputPorts, check_inputs, is_array, to_numpy
from pinnace.tensors.tensor import Tensor
from pinnace.types import DataType, Port

A, B = Port("a", DataType.FLOAT32, (2, 3)), Port("b", DataType.INT64, (-1,))
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4)


def ports(*given, refusal=""):
    return InputPorts(given, [port.shape for port in given], refusal)


class OfOther:
    """An array of another library, which numpy can read."""

    def __init__(self, data):
        self.data = data

    def __array__(self, dtype=None, copy=None):
        return self.data


@pytest.mark.parametrize(
    "inputs",
    [
        [X, Y],
        (X, Y),
        {"b": Y, "a": X},
        [Tensor(X), Tensor(Y)],
        [OfOther(X), Y],
        [X.astype(np.float32, order="F"), Y],
        [X.reshape(-1), Y],
        [np.repeat(X, 2, axis=1)[:, ::2], Y],
        [Tensor(X), Y[:, None][:, 0]],
    ],
)
def test_inputs_come_in_the_order_of_the_model(inputs):
    taken = ports(A, B)
    for _ in range(2):  # the second request is known to fit
        found = taken.arrays(inputs)
        np.testing.assert_array_equal(found[0], X)
        np.testing.assert_array_equal(found[1], Y)
        assert all(array.flags.c_contiguous for array in found)


def test_inputs_that_fit_are_not_copied():
    taken = ports(A, B)
    for inputs in ([X, Y], [Tensor(X), Tensor(Y)], {"a": X, "b": Tensor(Y)}):
        for _ in range(2):
            for found, given in zip(taken.arrays(inputs), (X, Y), strict=True):
                assert np.shares_memory(found, given)


def test_shapes_of_requests_may_differ_where_they_are_free():
    taken = ports(A, B)
    for count in (4, 2, 2, 4):
        assert [array.shape for array in taken.arrays([X, Y[:count]])] == [(2, 3), (count,)]


def test_the_only_input_needs_no_list():
    assert ports(A).arrays(X)[0] is X
    assert ports(A).arrays(Tensor(X))[0] is X
    with pytest.raises(
        ArgumentTypeError, match=r"inputs must be list, but got .*the model has 2 inputs \(a, b\)"
    ):
        ports(A, B).arrays(X)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X], r"predict failed! the model has 2 inputs \(a, b\), but got 1"),
        ([X, Y, Y], "but got 3"),
        ({"a": X}, "but got a$"),
        ({}, "but got none"),
        ({"a": X, "c": Y}, "but got a, c"),
        (
            [X.astype(np.float64), Y],
            r"input 'a' must be .*FLOAT32, but got .*FLOAT64: x.astype\(np.float32\)",
        ),
        ([X, Y.astype(np.int32)], r"input 'b' must be .*INT64, but got .*INT32: x.astype\(np.int64\)"),
        ([X[0], Y], r"input 'a' must have shape \[2, 3\], but got \[3\]$"),
        ([X[None], Y], r"must have shape \[2, 3\], but got \[1, 2, 3\]$"),
        ([X, Y[None]], r"input 'b' must have shape \[-1\], but got \[1, 4\]"),
        ([X.T, Y], r"but got \[3, 2\]; model.resize\(.*\[3, 2\] for this input"),
        ([Tensor(shape=[2, 3], dtype=DataType.FLOAT32), Y], "input 'a' has no data: set_data_from_numpy"),
        ([X, Tensor(shape=[-1], dtype=DataType.INT64)], r"input 'b' has free dimensions \[-1\] and no data"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs, message):
    with pytest.raises(DataMismatchError, match=message):
        ports(A, B).arrays(inputs)


@pytest.mark.parametrize(
    ("wanted", "given", "remedy"),
    [
        ((1, 3, 2), (3, 2), r": x\[np.newaxis\]"),
        ((-1, 3), (3,), r": x\[np.newaxis\]"),
        ((1, 3, 4, 5), (1, 4, 5, 3), r": x.transpose\(0, 3, 1, 2\)"),
        ((1, 4, 5, 3), (1, 3, 4, 5), r": x.transpose\(0, 2, 3, 1\)"),
        ((1, 3, 4, 5), (1, 5, 4, 3), "; model.resize"),
        ((2, 3), (1, 2, 3, 4), "$"),
    ],
)
def test_what_makes_an_array_fit_is_said(wanted, given, remedy):
    with pytest.raises(DataMismatchError, match=rf"but got \[{', '.join(map(str, given))}\]{remedy}"):
        ports(Port("x", DataType.FLOAT32, wanted)).arrays([np.zeros(given, np.float32)])


def test_bfloat16_is_spelled_as_ml_dtypes_has_it():
    port = Port("x", DataType.BFLOAT16, (2,))
    with pytest.raises(DataMismatchError, match=r": x.astype\(ml_dtypes.bfloat16\)"):
        ports(port).arrays([np.zeros(2, np.float32)])
    assert ports(port).arrays([np.zeros(2, ml_dtypes.bfloat16)])
    with pytest.raises(DataMismatchError, match=r"STRING, but got DataType.FLOAT32$"):
        ports(Port("x", DataType.STRING, (2,))).arrays([np.zeros(2, np.float32)])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"cat", "'s' has elements that are bytes, not text: decode them"),
        (None, "'s' has elements that are NoneType, not text"),
        (1.5, "'s' has elements that are float, not text"),
        ("\ud800", "'s' has half a surrogate pair"),
    ],
)
def test_elements_of_text_are_text(wrong, message):
    texts = ports(Port("s", DataType.STRING, (-1,)))
    for given in (np.array(["cat", "grüß"], object), np.array(["cat", "grüß"])):
        (array,) = texts.arrays([given])
        assert array.tolist() == ["cat", "grüß"]
    with pytest.raises(DataMismatchError, match=message):
        texts.arrays([np.array(["cat", wrong], object)])


def test_bytes_of_bool_are_0_or_1():
    """Compress counted others by their value, and gave memory that held another client's input."""
    taken = ports(Port("x", DataType.BOOL, (-1,)))
    for fine in ([], [0, 1, 1]):
        array = np.array(fine, np.uint8).view(bool)
        assert taken.arrays([array])[0] is array
    for wrong in ([0, 2, 1], [255, 0, 0]):
        array = np.array(wrong, np.uint8).view(bool)
        for given in (array, Tensor(array)):
            for _ in range(2):
                with pytest.raises(DataMismatchError, match="input 'x' has a byte of BOOL that is neither"):
                    taken.arrays([given])


def test_inputs_without_elements_are_taken_unless_the_model_refuses_them():
    port = Port("x", DataType.FLOAT32, (-1, -1))
    empty = np.zeros((0, 3), np.float32)
    assert ports(port).arrays([empty])[0].shape == (0, 3)
    with pytest.raises(
        DataMismatchError, match=r"input 'x' has the shape \[0, 3\], without elements, and it is odd:"
    ):
        ports(port, refusal="it is odd").arrays([empty])
    assert ports(port).arrays([np.zeros((0, (1 << 31) - 1), np.float32)])
    with pytest.raises(DataMismatchError, match="other dimensions must fit in 31 bits"):
        ports(port).arrays([np.zeros((0, 1 << 31), np.float32)])


def test_requests_have_the_sizes_of_a_gear():
    taken = ports(Port("x", DataType.FLOAT32, (-1, 3), sizes=sizes("2;4")))
    for rows in (2, 2, 4, 2):
        assert taken.arrays([np.zeros((rows, 3), np.float32)])[0].shape == (rows, 3)
    for _ in range(2):
        with pytest.raises(DataMismatchError, match=r"dynamic_dims allows \[2\],\[4\]"):
            taken.arrays([np.zeros((3, 3), np.float32)])


@pytest.mark.parametrize("value", [Tensor(X), X, OfOther(X), np.float32(3)])
def test_what_numpy_can_read_is_an_array(value):
    assert is_array(value)
    assert not is_array(type(value))
    check_inputs(value)
    check_inputs([value])
    check_inputs((value,))
    check_inputs({"x": value})


@pytest.mark.parametrize("value", [1, "text", None, [1.0]])
def test_what_is_no_array_is_refused_by_its_place(value):
    assert not is_array(value)
    with pytest.raises(ArgumentTypeError, match=r"inputs element must be Tensor, but got .* at index 1"):
        check_inputs([X, value])
    with pytest.raises(ArgumentTypeError):
        check_inputs(value)


def test_an_array_that_numpy_cannot_read_is_named():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("is elsewhere\nstack")

    with pytest.raises(ArgumentTypeError, match=r"^it: numpy cannot read a .*Broken.*: is elsewhere$"):
        to_numpy(Broken(), "it")
