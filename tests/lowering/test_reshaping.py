"""Other input shapes than the file's: what fits, and what is refused with the node and the reason."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import programs as p
import pytest

from pinnace.errors import UnsupportedModelError
from pinnace.lowering.graph import compilable
from pinnace.program import Dialect, Function, Input, Node, Program, TypeInfo

HEAD = '<ir_version: 10, opset_import: ["": 21]>'


def shape_after(given: str, body: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of `y` where the inputs have other shapes."""
    model = ir.from_onnx_text(f"{HEAD} g ({given}) => (y) {{ {body} }}")
    (output,) = compilable(model, "a model", None, shapes=shapes).interface.outputs
    return output.shape


CONV = "float[1,3,8,8] x, float[6,3,3,3] w"
GROUPED = "float[1,4,8,8] x, float[6,2,3,3] w"
KERNEL, PAIRS = (6, 3, 3, 3), (6, 2, 3, 3)
MIRROR = "float[1,3,8,8] x, float[3,6,3,3] w"
NORM, RECURRENT = (
    "float[1,4,8] x, float[4] w, float[4] b",
    "float[5,1,4] x, float[1,{}3,4] w, float[1,{}3,3] r",
)
RESHAPE = "s = Constant <value_ints = {}> () y = Reshape(x, s)"
RESHAPE_TO_0 = "s = Constant <value_ints = {}> () y = Reshape <allowzero = 1> (x, s)"
GATHER = "i = Constant <value_ints = {}> () y = Gather(x, i)"
GATHER_LAST = "i = Constant <value_ints = {}> () y = Gather <axis = -1> (x, i)"
GROUPS = "y = GroupNormalization <num_groups = 2> (x, w, b)"
SLOPES = "float[2,3,4] x, float[3,1] w"
FITS = [
    (CONV, "y = Conv(x, w)", [(2, 3, 3, 9), KERNEL], (2, 6, 1, 7)),
    (CONV, "y = Conv(x, w)", [(0, 3, 3, 9), KERNEL], (0, 6, 1, 7)),
    (CONV, "y = Conv(x, w)", [(-1, 3, -1, 9), KERNEL], (-1, 6, -1, 7)),
    (CONV, "y = Conv(x, w)", [(1, -1, 3, 3), KERNEL], (1, 6, 1, 1)),
    (GROUPED, "y = Conv <group = 2> (x, w)", [(1, 4, 3, 3), PAIRS], (1, 6, 1, 1)),
    (MIRROR, "y = ConvTranspose(x, w)", [(1, 3, 1, 2), (3, 6, 3, 3)], (1, 6, 3, 4)),
    ("float[1,3,8] x", "y = MaxPool <kernel_shape = [4]> (x)", [(1, 5, 4)], (1, 5, 1)),
    ("float[1,3,8] x", "y = LpPool <kernel_shape = [4], pads = [1, 1]> (x)", [(1, 5, 2)], (1, 5, 1)),
    (NORM, "y = InstanceNormalization(x, w, b)", [(2, 4, 3), (4,), (4,)], (2, 4, 3)),
    ("float[4,6] x", RESHAPE.format([0, -1, 2]), [(5, 8)], (5, 4, 2)),
    ("float[4,6] x", RESHAPE.format([-1, 4]), [(2, 8)], (4, 4)),
    ("float[4,6] x", RESHAPE.format([2, 12]), [(8, 3)], (2, 12)),
    ("float[4,6] x", RESHAPE.format([2, 12]), [(-1, 3)], (2, 12)),
    ("float[4,6] x", RESHAPE_TO_0.format([0, 5]), [(3, 0)], (0, 5)),
    ("float[4,6] x", GATHER.format([2, -3]), [(3, 2)], (2, 2)),
    ("float[4,6] x", GATHER_LAST.format([2]), [(1, 3)], (1, 1)),
    ("float[4,6] x", "y, z = Split <num_outputs = 2> (x)", [(5, 2)], (3, 2)),
    (SLOPES, "y = PRelu(x, w)", [(2, 3, 5), (3, 1)], (2, 3, 5)),
    ("float[2,3,4] x, float[1,1] w", "y = PRelu(x, w)", [(2, 7, 5), (1, 1)], (2, 7, 5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "body", "shapes", "expected"), FITS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_shapes_that_fit_are_taken(given, body, shapes, expected):
    assert shape_after(given, body, *shapes) == expected


WINDOW = "its window is larger than its input"
CHANNELS = "channels and those of the weights differ"
REFUSED = [
    (CONV, "y = Conv(x, w)", [(1, 4, 8, 8), KERNEL], f"{CHANNELS}: 4 and 3"),
    (GROUPED, "y = Conv <group = 2> (x, w)", [(1, 6, 8, 8), PAIRS], f"{CHANNELS}: 6 and 4"),
    (CONV, "y = Conv(x, w)", [(1, 3, 2, 8), KERNEL], WINDOW),
    (MIRROR, "y = ConvTranspose(x, w)", [(1, 2, 8, 8), (3, 6, 3, 3)], f"{CHANNELS}: 2 and 3"),
    (NORM, "y = InstanceNormalization(x, w, b)", [(1, 3, 8), (4,), (4,)], f"{CHANNELS}: 3 and 4"),
    (NORM, GROUPS, [(1, 6, 8), (4,), (4,)], f"{CHANNELS}: 6 and 4"),
    *(("float[1,3,8] x", f"y = {pool} <kernel_shape = [4]> (x)", [(1, 3, 3)], WINDOW)
      for pool in ("AveragePool", "LpPool", "MaxPool")),
    *((RECURRENT.replace("{}3", str(3 * gates)), f"y, h = {layer} <hidden_size = 3> (x, w, r)",
       [(5, 1, 2), (1, 3 * gates, 4), (1, 3 * gates, 3)],
       "the input's size and that of the weights differ: 2 and 4")
      for layer, gates in (("GRU", 3), ("LSTM", 4), ("RNN", 1))),
    ("float[4,6] x", RESHAPE.format([-1, 5]), [(4, 6)], "Dimension could not be inferred"),
    ("float[4,6] x", RESHAPE.format([0, 5]), [(4, 7)], "the shape [0, 5]"),
    ("float[4,6] x", RESHAPE.format([2, 12]), [(2, 6)], "the shape [2, 12]"),
    ("float[4,6] x", GATHER.format([2, 3]), [(3, 6)], "it takes index 3 of 3"),
    ("float[4,6] x", GATHER.format([-4]), [(3, 6)], "it takes index -4 of 3"),
    ("float[4,6] x", GATHER_LAST.format([5]), [(9, 5)], "it takes index 5 of 5"),
    (SLOPES, "y = PRelu(x, w)", [(2, 4, 4), (3, 1)], "slopes differ in number: 4 and 3"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "body", "shapes", "reason"), REFUSED, ids=lambda v: v if isinstance(v, str) else ""
)
def test_shapes_that_do_not_fit_are_refused_with_the_reason(given, body, shapes, reason):
    with pytest.raises(UnsupportedModelError) as caught:
        shape_after(given, body, *shapes)
    (row,) = caught.value.primitives
    assert (row.count, row.first_node) == (1, "y")
    assert f"y = {row.name}" in body.replace("y, h", "y")
    assert reason in row.reason
    assert f"its inputs are {list(shapes[0])}" in row.reason


# -- programs of MindSpore -------------------------------------------------------------------------


def reshaped(main, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    return compilable(p.program(main), "a model", None, shapes=shapes).interface.outputs[0].shape


def matrix(*shape: int) -> TypeInfo:
    return TypeInfo(ir.DataType.FLOAT, shape)


def test_a_size_that_the_file_keeps_for_a_dimension_of_its_input_is_refused():
    main = p.function("main", {"a": matrix(2, 6)}, "y", "y = Reshape a dims", dims=(2, -1, 2))
    assert reshaped(main, (2, 8)) == (2, 4, 2)
    with pytest.raises(UnsupportedModelError, match="the file keeps 2 for dimension 0, as in its own input"):
        reshaped(main, (4, 6))


def test_a_size_of_other_dimensions_may_stay():
    main = p.function("main", {"a": matrix(2, 6)}, "y", "y = Reshape a dims", dims=(-1, 4))
    assert reshaped(main, (4, 6)) == (6, 4)


def test_a_constant_of_the_old_size_does_not_stretch_the_input():
    main = p.function("main", {"a": matrix(4, 3)}, "y", "y = Add a c", c=np.ones((4, 1), np.float32))
    assert reshaped(main, (4, 5)) == (4, 5)
    with pytest.raises(UnsupportedModelError, match="dimensions that were both 4 are now 1 and 4") as caught:
        reshaped(main, (1, 3))
    assert caught.value.primitives[0].first_node == "y"


@pytest.mark.parametrize(("size", "parts"), [(6, 3), (5, None)])
def test_the_parts_of_a_split_have_one_size(size, parts):
    split = Node("split", "Split", ("a",), ("first", "second"), {"output_num": 2})
    main = Function("main", [Input("a", matrix(4, 3))], ["first"], [split])
    lite = Program(main, {"main": main}, Dialect.LITE, source="a program", tuple_results=False)
    if parts:
        assert compilable(lite, "a model", None, shapes=[(size, 3)]).interface.outputs[0].shape == (parts, 3)
    else:
        with pytest.raises(UnsupportedModelError, match="at node 'split': 5 cannot be divided by 2"):
            compilable(lite, "a model", None, shapes=[(size, 3)])
