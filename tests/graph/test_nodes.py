"""Constants and weights of a graph that is being written."""

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported


def test_equal_constants_are_one_value_and_those_of_other_types_are_not():
    b = Builder()
    assert b.constant([1, 2], np.int64) is b.constant(np.array([1, 2]))
    assert b.constant([1, 2], np.int64) is not b.constant([1, 2], np.int32)
    large = np.zeros(4096, np.float32)
    assert b.constant(large) is b.constant(large.copy())


def test_a_weight_keeps_its_name_and_its_tensor():
    b, tensor = Builder(), ir.tensor(np.ones(3, np.float32), name="w")
    other = ir.tensor(np.zeros(3, np.float32), name="w")
    assert b.weight(tensor) is b.weight(tensor)
    assert (b.weight(tensor).name, b.weight(tensor).const_value) == ("w", tensor)
    assert b.weight(other).name != "w"


def test_a_weight_that_will_change_decides_nothing():
    tensor = ir.tensor(np.ones(3, np.float32), name="w")
    b = Builder(changing={id(tensor)})
    assert b.known(b.weight(tensor)) is None
    assert b.held_back


def test_a_damaged_file_cannot_ask_for_endless_constants(monkeypatch):
    monkeypatch.setattr("pinnace.bounds.MADE", 1 << 10)
    b = Builder()
    with pytest.raises(Unsupported, match="MiB together"):
        b.constant(np.arange(1 << 10))
