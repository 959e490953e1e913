"""Python's operators between tensors write with the builder of their thread."""

from __future__ import annotations

import threading

import onnx_ir as ir
import pytest

from pinnace.graph.builder import Builder
from pinnace.graph.operators import writing


def tensor() -> ir.Value:
    return ir.Value(name="x", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.FLOAT))


def test_each_thread_writes_with_its_own_builder():
    builders = [Builder() for _ in range(4)]
    barrier = threading.Barrier(len(builders))

    def write(builder: Builder) -> None:
        x = tensor()
        with writing(builder):
            for _ in range(100):
                barrier.wait()
                _ = 1.0 - x / 2

    threads = [threading.Thread(target=write, args=(b,)) for b in builders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[n.op_type for n in b.nodes] for b in builders] == [["Div", "Sub"] * 100] * len(builders)


def test_outside_of_a_lowering_they_are_refused():
    with writing(Builder()):
        pass
    with pytest.raises(TypeError, match="outside of a lowering"):
        tensor() + 1


def test_a_number_in_where_takes_the_type_of_the_other_choice():
    b = Builder()
    condition = ir.Value(name="c", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.BOOL))
    node = b.Where(condition, 0, tensor()).producer()
    assert node is not None
    assert node.inputs[1].dtype is ir.DataType.FLOAT


def test_a_name_in_small_letters_is_no_operator():
    with pytest.raises(AttributeError, match="flaoting"):
        Builder().flaoting(tensor())
