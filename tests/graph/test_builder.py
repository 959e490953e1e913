"""Nodes that a builder writes; onnxruntime runs them, and numpy says what they give."""

from __future__ import annotations

import graphs
import numpy as np
import onnx_ir as ir
import pytest

from pinnace.graph.builder import Builder
from pinnace.graph.editor import Editor
from pinnace.graph.failures import Unsupported
from pinnace.program import TypeInfo

INT64, INT32, FLOAT, BOOL = ir.DataType.INT64, ir.DataType.INT32, ir.DataType.FLOAT, ir.DataType.BOOL


def given(name: str, dtype: ir.DataType, *shape: int | None) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def computed(write, x: np.ndarray, shape: str, kind: str = "float") -> np.ndarray:
    """Run what `write` writes for an input of this declared shape."""
    m = graphs.model("y = Neg(x)", f"{kind}[{shape}] x" if shape else f"{kind} x")
    b = Editor(m, "%new")
    y, (output,) = write(b, m.graph.inputs[0]), m.graph.outputs
    b.append()
    m.graph.outputs[0] = y
    m.graph.remove(graphs.node(m, "Neg"))
    b.finish()
    y.type, y.shape = ir.TensorType(y.dtype or output.dtype), y.shape
    return graphs.session(m).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    ("shape", "free", "dims"),
    [
        ((4, 3), "4,3", [2, 6]),
        ((4, 3), "n,3", [-1, 2, 2]),
        ((0, 4), "0,4", [4, 0]),
        ((2, 0), "n,m", [0, 7]),
        ((0, 4), "n,4", ["0", 2, 2]),
        ((0, 4), "n,m", ["1", "0"]),  # neither 0 stands for a dimension of x
        ((4, 0), "n,m", ["1", "0"]),
        ((3, 4), "n,m", ["1", "0"]),
        ((3, 4), "n,m", ["1", -1]),
        ((3, 4), "n,m", [2, "0", -1]),
    ],
)
def test_dimensions_that_the_run_computes_are_those_of_the_result(shape, free, dims):
    """A text is the dimension of x with this number."""
    x = np.zeros(shape, np.float32)
    wanted = [shape[int(d)] if isinstance(d, str) else d for d in dims]
    if -1 in wanted:
        wanted[wanted.index(-1)] = x.size // -int(np.prod(wanted))

    def write(b, x):
        y = b.reshape(x, [b.dim(x, int(d)) if isinstance(d, str) else d for d in dims])
        known = [d if isinstance(d, int) and d >= 0 else None for d in dims]
        assert len(b.shape(y)) == len(known)
        assert all(found in (d, None) or d is None for found, d in zip(b.shape(y), known, strict=True))
        return y

    assert computed(write, x, free).shape == tuple(wanted)


def test_dimensions_are_numbers_where_they_are_known():
    b, x = Builder(), given("x", FLOAT, 2, None, 4)
    assert b.dim(x, 0) == 2
    assert b.dim(x, -1) == 4
    assert not b.nodes
    free = b.dim(x, 1)
    assert b.rank(free) == 0
    assert b.dims(x, 2) == [4]
    assert b.dims(x, stop=1) == [2]
    assert b.dims(given("z", FLOAT, 3, 5)) == [3, 5]
    assert (b.axis(-1, x), b.axis(1, x), b.axis(-1, given("s", FLOAT))) == (2, 1, 0)
    with pytest.raises(Unsupported, match="all dimensions fixed"):
        b.static_shape(x)


def test_the_dimension_that_the_run_computes():
    x = np.zeros((2, 5, 4), np.float32)
    assert computed(lambda b, x: b.dim(x, 1), x, "2,n,4") == 5
    assert computed(lambda b, x: b.vector([7, b.dim(x, 1)]), x, "2,n,4").tolist() == [7, 5]
    narrow = computed(lambda b, x: b.vector([b.cast(b.dim(x, 1), INT32), 7]), x, "2,n,4")
    assert (narrow.tolist(), narrow.dtype) == ([5, 7], np.int64)


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (FLOAT, 2, FLOAT),
        (FLOAT, 2.5, FLOAT),
        (INT32, 2, INT32),
        (INT32, 2.5, FLOAT),
        (INT32, True, INT32),
        (BOOL, True, BOOL),
        (BOOL, 2, INT64),
        (BOOL, 2.5, FLOAT),
        (ir.DataType.FLOAT16, 2.5, ir.DataType.FLOAT16),
    ],
)
def test_a_number_beside_a_tensor_has_the_type_that_mindspore_gives_it(dtype, number, expected):
    b = Builder()
    made = b.operand(number, given("x", dtype, 2))
    assert (made.dtype, made.const_value.numpy().item()) == (expected, number)


@pytest.mark.parametrize(
    ("value", "dtype", "numbers"),
    [
        (True, BOOL, True),
        (2, INT64, 2),
        (2.5, FLOAT, 2.5),
        ((), INT64, []),
        ((1, 2), INT64, [1, 2]),
        ((1, 2.5), FLOAT, [1, 2.5]),
        ((True, 2), INT64, [1, 2]),
        (np.array([1, 2], np.int32), INT32, [1, 2]),
    ],
)
def test_values_of_python_become_tensors(value, dtype, numbers):
    made = Builder().tensor(value)
    assert (made.dtype, made.const_value.numpy().tolist()) == (dtype, numbers)


def test_other_values_are_no_tensors():
    b, x = Builder(), given("x", FLOAT, 2)
    assert b.tensor(x) is x
    with pytest.raises(Unsupported, match="must be a tensor, but it is str"):
        b.tensor("text")
    with pytest.raises(TypeError, match="needs a tensor beside it"):
        b.op("Add", 1, 2)
    with pytest.raises(AttributeError, match="has no 'sinh'"):
        _ = b.sinh
    assert b.Sinh(x).producer().op_type == "Sinh"


def test_a_tuple_of_tensors_is_stacked():
    x = np.arange(3, dtype=np.float32)
    assert computed(lambda b, x: b.tensor((x, x)), x, "3").tolist() == [x.tolist()] * 2


def test_numbers_of_a_choice_have_the_type_of_the_other():
    b, condition = Builder(), given("c", BOOL, 2)
    node = b.op("Where", condition, 1, given("x", FLOAT, 2)).producer()
    assert node.inputs[1].dtype is FLOAT
    assert b.op("Add", given("x", INT32, 2), 1).producer().inputs[1].dtype is INT32
    assert b.op("Expand", given("x", FLOAT, 2), [3, 2]).producer().inputs[1].dtype is INT64


def test_inputs_and_attributes_that_are_none_are_left_out():
    b, x = Builder(), given("x", FLOAT, 2)
    node = b.op("Clip", x, None, None).producer()
    assert len(node.inputs) == 1
    assert [v is None for v in b.op("Clip", x, None, 6.0).producer().inputs] == [False, True, False]
    node = b.op("Softmax", x, axis=None).producer()
    assert not node.attributes


def test_operators_without_a_type_compute_in_another():
    x = np.array([1, 2, 3], np.int16)
    assert computed(lambda b, x: b.op("ReduceSum", x, keepdims=0), x, "3", "int16") == 6
    y = computed(lambda b, x: b.op("Sub", x, x), x, "3", "int16")
    assert y.dtype == np.int16


def test_casts_and_scalars_are_written_where_they_change_something():
    b, x = Builder(), given("x", FLOAT, 1)
    assert b.cast(x, FLOAT) is x
    assert b.cast(x, INT64).dtype is INT64
    assert b.rank(b.scalar(x)) == 0
    scalar = given("s", FLOAT)
    assert b.scalar(scalar) is scalar
    b.declared = (None, TypeInfo(INT32, ()))
    assert (b.result(x), b.result(x, 1), b.result(x, 2)) == (FLOAT, INT32, FLOAT)
