"""Errors of arrays, worked out by hand after the formulas of MindSpore Lite's benchmark tool."""

import math

import numpy as np
import pytest

from pinnace.errors import DataMismatchError
from pinnace.quantization.accuracy import (
    Closeness,
    Likeness,
    closeness,
    compare,
    cosine,
    deviation,
    mean_cosine,
    mean_relative_error,
    relative_error,
)


def values(*numbers):
    return np.array(numbers, np.float64)


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        ([1, 2, 3], [1, 2, 3], 0),
        ([1.1, 2, 3], [1, 2, 3], 0.1),  # values that are the same do not count: not 0.1 / 3
        ([1.1, 2.4, 3], [1, 2, 3], (0.1 + 0.2) / 2),
        ([-1.1], [-1], 0.1),
        ([1 + 0.9e-5], [1], 0),  # within 1e-8 + 1e-5 of 1
        ([1 + 1.1e-5], [1], 1.1e-5),
        ([0.5, 3], [0, 2], (0.5 + 0.5) / 2),  # where 0 is wanted the error itself
        ([0.9e-5, 3], [0, 2], 0.5),  # too little beside 0 to count
        ([math.nan, 1], [1, 1], math.inf),
        ([math.inf], [1], math.inf),
        ([1, 1], [math.nan, 1], math.inf),
        ([1], [-math.inf], math.inf),
    ],
)
def test_relative_errors(got, want, error):
    assert relative_error(values(*got), values(*want)) == pytest.approx(error)


@pytest.mark.parametrize(
    ("got", "want", "angle"),
    [
        ([1, 2, 2], [2, 4, 4], 1),
        ([1, 0], [0, 3], 0),
        ([1, 1], [-2, -2], -1),
        ([3, 4], [4, 3], 24 / 25),
        ([0, 0], [0, 0], 1),
        ([0, 0], [1, 0], 0),
        ([1e-30, 0], [1e-30, 0], 1),
    ],
)
def test_cosines(got, want, angle):
    assert cosine(values(*got), values(*want)) == pytest.approx(angle)


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        ([3, 4], [0, 5], math.sqrt(10) / 5),  # of the length of what is wanted
        ([1, 1], [0, 0], math.sqrt(2)),
        ([math.inf, 3], [math.inf, 2], 0.5),
        ([math.nan, 2], [math.nan, 2], 0),
        ([math.inf, 2], [-math.inf, 2], math.inf),
        ([math.nan, 2], [1, 2], math.inf),
        ([1, 2, 3], [1, 2], math.inf),
        ([[1, 2]], [1, 2], math.inf),
        (["a", "b"], ["a", "b"], 0),
        (["a", "b"], ["a", "c"], math.inf),
        ([True, False], [True, True], 1 / math.sqrt(2)),
    ],
)
def test_the_error_of_all_results_is_that_of_the_worst(got, want, error):
    right = np.zeros(3)
    pairs = [right, np.array(got)], [right, np.array(want)]
    assert deviation(*pairs) == pytest.approx(error)
    assert deviation([], []) == 0


def test_the_likeness_of_samples_is_that_of_the_worst_and_counts_rows():
    text = np.array(["a"])
    got = [[np.array([[1.0, 2], [5, 4]]), text], [np.array([[3.0, 1]]), text]]
    want = [[np.array([[1.0, 2], [4, 5]]), text], [np.array([[3.0, 1]]), text]]
    like = closeness(got, want)
    assert like.same_top == pytest.approx(2 / 3)
    assert like.error == pytest.approx(math.sqrt(2 / 46))
    assert like.cosine == pytest.approx(45 / 46)
    assert closeness([[text]], [[text]]) == Likeness(0, 1, 1)


def test_outputs_are_compared_by_name_in_percent():
    outputs = {"a": np.array([[1.1, 2]], np.float32), "b": np.array([3, 4]), "c": np.array([0])}
    a, b = compare(outputs, {"b": np.array([4, 3]), "a": np.array([[1, 2]])})[::-1]
    assert (a.name, b.name) == ("a", "b")
    assert a.relative_error == pytest.approx(10, rel=1e-5)  # 1.1 is rounded to float32
    assert b.relative_error == pytest.approx(100 * (1 / 4 + 1 / 3) / 2)
    assert b.cosine == pytest.approx(24 / 25)


def test_means_are_over_outputs():
    outputs = [Closeness("a", 1.0, 0.5), Closeness("b", 3.0, 1.0)]
    assert mean_relative_error(outputs) == 2
    assert mean_cosine(outputs) == 0.75


def test_another_shape_and_text_are_refused_by_name():
    with pytest.raises(DataMismatchError, match=r"'a' has shape \[2\], and its reference \[1, 2\]"):
        compare({"a": np.zeros(2)}, {"a": np.zeros((1, 2))})
    with pytest.raises(DataMismatchError, match="'a' contains text"):
        compare({"a": np.array(["x"])}, {"a": np.array([0])})
