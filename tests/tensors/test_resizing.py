"""Shapes that `resize` takes, and those that a model is built for then."""

from __future__ import annotations

import pytest

from pinnace.errors import ArgumentTypeError, ArgumentValueError, DataMismatchError, ModelFormatError
from pinnace.shapes import sizes
from pinnace.tensors import gears
from pinnace.tensors.resizing import check_resize, resized, shapes_to_build
from pinnace.tensors.tensor import Tensor
from pinnace.types import DataType, Port


def port(*shape, name="x", gear=""):
    return Port(name, DataType.FLOAT32, shape, sizes=sizes(gear) if gear else ())


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((-1, 3), [5, 3]),
        ((-1, 3), [5, 4]),
        ((-1, 3), [-1, 4]),
        ((-1, 3), [-1, 3]),
        ((0, 3), [0, 3]),
        ((-2,), [2, 3, 4]),
        ((), []),
        ((-1,), [(1 << 48) - 1]),
    ],
)
def test_shapes_that_inputs_may_get(shape, wanted):
    assert resized([port(*shape)], [wanted]) == (tuple(wanted),)


@pytest.mark.parametrize(
    ("shape", "wanted", "message"),
    [
        ((-1, 3), [5], "it has 2 dimensions"),
        ((), [1], "it has 0 dimensions"),
        ((-1, 3), [0, 3], "dimension 0 must be positive, or -1$"),
        ((-1, 3), [-2, 3], "dimension 0 must be positive, or -1$"),
        ((-1, 3), [1, -1], "dimension 1 must be positive$"),
        ((-1, 3), [1, 0], "dimension 1 must be positive$"),
        ((-2,), [2, -1], "dimension 1 must be positive$"),
        ((-2,), [-1], "dimension 0 must be positive$"),
        ((-2,), [0, 2], "dimension 0 must be positive$"),
        ((-1,), [1 << 48], "exceeds any memory"),
        ((-1, -1), [1 << 24, 1 << 24], "exceeds any memory"),
    ],
)
def test_shapes_that_inputs_cannot_get_are_refused(shape, wanted, message):
    with pytest.raises(DataMismatchError, match=message):
        resized([port(*shape)], [wanted])


def test_the_number_of_shapes_is_that_of_the_inputs():
    with pytest.raises(DataMismatchError, match="The model has 1 inputs, but got 2"):
        resized([port(1)], [[1], [1]])


@pytest.mark.parametrize(
    ("declared", "shapes", "built"),
    [
        ([(-1, 3)], [(5, 3)], ()),
        ([(-1, 3)], [(5, 4)], ((-1, 4),)),
        ([(-1, 3), (2,)], [(5, 3), (2,)], ()),
        ([(-1, 3), (2,)], [(5, 3), (4,)], ((-1, 3), (4,))),
        ([(-2,)], [(5, 3)], ()),
    ],
)
def test_free_dimensions_stay_free_in_what_is_built(declared, shapes, built):
    assert shapes_to_build([port(*shape) for shape in declared], shapes) == built


def test_arguments_of_resize_are_lists_of_tensors_and_of_whole_numbers():
    tensor = Tensor(shape=[1, 2])
    check_resize([tensor], [[1, 2]])
    check_resize([tensor], [(1, 2)])
    with pytest.raises(ArgumentTypeError, match=r"must be int, but got .* at 1th dims element's 2th element"):
        check_resize([tensor, tensor], [[1, 2], [1, 2, 3.0]])
    with pytest.raises(ArgumentValueError, match="but got inputs: 1 and dims: 2"):
        check_resize([tensor], [[1], [2]])
    for inputs, dims in (([1], [[1]]), ([tensor], [1]), (tensor, [[1]]), ([tensor], "1")):
        with pytest.raises(ArgumentTypeError):
            check_resize(inputs, dims)


A, B = port(-1, 3, name="a", gear="1;2~4"), port(2, -1, -1, name="b", gear="7,8;9,10")


@pytest.mark.parametrize(
    ("shapes", "fits"),
    [
        ([(1, 3), (2, 7, 8)], True),
        ([(4, 3), (2, 9, 10)], True),
        ([(4, 3), (2, 7, 8)], False),
        ([(1, 3), (2, 9, 10)], False),
        ([(5, 3), (2, 9, 10)], False),
        ([(1, 3), (2, 8, 7)], False),
        ([(-1, 3), (2, 9, 10)], True),
        ([(-1, 3), (2, -1, 11)], False),
    ],
)
def test_all_inputs_have_the_sizes_of_one_gear(shapes, fits):
    if fits:
        gears.check([A, B, port(4)], [*shapes, (4,)])
        assert resized([A, B, port(4)], [*shapes, [4]]) == (*shapes, (4,))
    else:
        with pytest.raises(DataMismatchError, match=r"allows \[1,7,8\],\[2~4,9,10\] for the free dimensions"):
            gears.check([A, B, port(4)], [*shapes, (4,)])


def test_gears_are_in_the_order_of_the_named_shapes():
    free = [port(-1, name="a"), port(2, name="b"), port(-1, -1, name="c")]
    first = gears.limited(free, "", "1,2,3;4,5,6")
    assert [one.sizes for one in first] == [sizes("1;4"), (), sizes("2,3;5,6")]
    turned = gears.limited(free, "c:-1,-1;a:-1", "1,2,3")
    assert [one.sizes for one in turned] == [sizes("3"), (), sizes("1,2")]
    partly = gears.limited(free, "c:-1,-1", "1,2,3")
    assert [one.sizes for one in partly] == [sizes("3"), (), sizes("1,2")]
    assert gears.limited(free, "", "") == tuple(free)


def test_gears_that_agree_with_other_shapes_are_kept():
    declared = [A, B]
    kept = gears.reshaped(declared, [port(-1, 3, name="a"), port(2, 9, -1, name="b")], "net")
    assert [one.sizes for one in kept] == [sizes("2~4"), sizes("10")]
    fixed = gears.reshaped(declared, [port(1, 3, name="a"), port(2, -1, -1, name="b")], "net")
    assert [one.sizes for one in fixed] == [(), sizes("7,8")]


def test_gears_of_a_file_are_in_the_order_of_its_shapes():
    stored = {"input_shape": "c:[-1,-1];a:[-1]", "dynamic_dims": "1,2,3"}
    ports = [port(-1, name="a"), port(-1, -1, name="c")]
    assert gears.of_file(ports, stored, "net") == gears.limited(ports, "c:-1,-1;a:-1", "1,2,3")
    assert gears.of_file(ports, {}, "net") == tuple(ports)
    with pytest.raises(ModelFormatError, match="net: its attributes input_shape and dynamic_dims: "):
        gears.of_file(ports, stored | {"dynamic_dims": "1,2"}, "net")
