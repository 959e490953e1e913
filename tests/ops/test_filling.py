"""Tensors of numbers that are all known: constants, as numpy counts them."""

from __future__ import annotations

import numpy as np
import pytest

from pinnace.graph.failures import Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.program import Dialect, Layout

I64, F32 = np.int64, np.float32


@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        ("Arange", [2, 11, 3], np.array([2, 5, 8], I64)),
        ("Arange", [5, -4, -2], np.array([5, 3, 1, -1, -3], I64)),
        ("Arange", [0.5, 2.0, 0.5], np.array([0.5, 1.0, 1.5], F32)),
        ("Arange", [np.array([1]), np.array([4]), np.array([2])], np.array([1, 3], I64)),
        ("Arange", [3, 1, 1], np.array([], I64)),
        ("Range", [1, 10, 4], np.array([1, 5, 9], I64)),
        ("LinSpace", [1.0, 3.0, 5], np.linspace(1, 3, 5, dtype=F32)),
        ("LinSpace", [2.0, 9.0, 1], np.array([2], F32)),
    ],
)
def test_numbers_that_are_known_are_constants(name, inputs, expected):
    b = LoweringBuilder(Layout.NCHW)
    value = find(Dialect.MINDSPORE, name).lower(b, inputs, {}).const_value
    assert not b.nodes
    np.testing.assert_array_equal(value.numpy(), expected, strict=True)


def test_more_numbers_than_fit_are_refused():
    with pytest.raises(Unsupported):
        find(Dialect.MINDSPORE, "Arange").lower(LoweringBuilder(Layout.NCHW), [0, 1 << 40, 1], {})
