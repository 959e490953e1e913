"""Constants and weights of a graph that is being written."""

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.nodes import origins


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


def test_constants_may_be_four_times_what_weights_take(monkeypatch):
    monkeypatch.setattr("pinnace.bounds.MADE", 100)
    b = Builder()
    b.weight(ir.tensor(np.ones(25, np.float32), name="w"))
    b.constant(np.zeros(500, np.uint8))
    with pytest.raises(Unsupported, match="MiB together"):
        b.constant(np.uint8(1))


def test_a_damaged_file_cannot_ask_for_endless_nodes(monkeypatch):
    monkeypatch.setattr("pinnace.graph.nodes._MOST_VALUES", 3)
    b, x = Builder(), ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))
    b.ops("Split", 2, x, axis=0)
    b.op("Relu", x)
    with pytest.raises(Unsupported, match="needs more than 3 values"):
        b.op("Relu", x)


def test_names_of_weights_are_new_where_something_else_has_them():
    b = Builder()
    b.taken = {"x", "%1"}
    names = [b.weight(ir.tensor(np.ones(3, np.float32), name=name)).name for name in ("x", "%2", "", "w")]
    assert len({*names, *b.taken}) == 6
    assert names[3] == "w"
    assert not names[1].startswith("%")
    assert b.fresh() not in {*names, *b.taken}


def test_what_is_known_of_a_value():
    b, x = Builder(), ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))
    w = b.constant([1, 2])
    assert b.known(7) == 7
    assert b.known(w).tolist() == b.known(b.op("Identity", w)).tolist() == [1, 2]
    assert b.asked == {w}
    assert b.known(x) is b.known(b.op("Identity", x)) is b.known(b.op("Neg", w)) is None
    assert not b.held_back
    with pytest.raises(Unsupported, match="is text"):
        b.known(b.weight(ir.tensor(["a"], name="t")))


def test_nested_graphs_have_nodes_of_their_own():
    b, x = Builder(), ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))
    b.origins = ("outer",)
    with b.scope() as inner:
        b.origins = ("inner",)
        b.op("Neg", x)
    y = b.op("Relu", x)
    assert [n.op_type for n in inner] == ["Neg"]
    assert b.nodes == [y.producer()]
    assert (origins(inner[0]), origins(b.nodes[0])) == (("inner",), ("outer",))
    assert origins(ir.node("Relu", [x], name="own")) == ("own",)


@pytest.mark.parametrize("value", [True, 3, 1.5, "text", [1, 2], [1.5, 2.5], (3,), ["a", "b"]])
def test_attributes_are_those_of_python(value):
    node = Builder().op("Foo", domain="mine", a=value).producer()
    found = node.attributes["a"].value
    assert (list(found) if isinstance(value, list | tuple) else found) == (
        list(value) if isinstance(value, tuple) else value
    )
