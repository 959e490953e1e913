"""Shapes and sizes of free dimensions, in the syntax of MindSpore Lite's and CANN's options."""

from __future__ import annotations

import pytest

from pinnace import shapes
from pinnace.shapes import (
    agrees,
    alternatives,
    between,
    flattened,
    is_free,
    named,
    named_shapes,
    parted,
    sizes,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("x:[-1,3];y:[1,8]", {"x": (-1, 3), "y": (1, 8)}),
        (" x : 1, 3 ; ", {"x": (1, 3)}),
        ("a:b:[2]", {"a:b": (2,)}),
        ("x:[2147483647]", {"x": (2147483647,)}),
        ("x:[16777216,16777216]", {"x": (1 << 24, 1 << 24)}),
    ],
)
def test_shapes_by_name(text, found):
    assert named_shapes(text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "is not NAME:"),
        ("x:", "is not NAME:"),
        ("x:[1,3", "is not NAME:"),
        ("x:1,3]", "is not NAME:"),
        ("x:[1;3]", "is not NAME:"),
        ("x:[٢]", "is not NAME:"),
        ("x:[0]", "a dimension is -1 or a positive number of 31 bits"),
        ("x:[-2]", "a dimension is -1 or a positive number of 31 bits"),
        ("x:[2147483648]", "a dimension is -1 or a positive number of 31 bits"),
        ("x:[16777216,16777216,2]", "exceeds any memory"),
        ("x:[1];x:[2]", "'x' is given twice"),
    ],
)
def test_shapes_that_cannot_be_read_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        named_shapes(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8", range(8, 9)),
        (" 1 ~ 8 ", range(1, 9)),
        ("1~1", range(1, 2)),
        ("999999999", range(999999999, 10**9)),
    ],
)
def test_a_size_is_a_number_or_a_range(text, found):
    assert between(text) == found


@pytest.mark.parametrize("text", ["", "0", "0~4", "4~3", "-1", "1~", "1000000000", "x", "1,2"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is neither a size nor LEAST~LARGEST"):
        between(text)


def test_alternatives_have_a_size_for_each_free_dimension():
    assert sizes("1~4,32;8,64;") == ((range(1, 5), range(32, 33)), (range(8, 9), range(64, 65)))
    for wrong in ("1,2;3", "", ";"):
        with pytest.raises(ValueError, match="same number of sizes in each part"):
            sizes(wrong)


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("1,2;3,4", "1,2;3,4"),
        ("[1~4],[8]", "1~4;8"),
        ("[1~4],[8];[32],[64]", "1~4,32;8,64"),
        ("[1],[8];[],[];[3],[4]", "1,3;8,4"),
        ("[1,2] , [3,4]", "1,2;3,4"),
    ],
)
def test_brackets_are_for_inputs_and_parts_for_alternatives(text, flat):
    assert flattened(text) == flat


@pytest.mark.parametrize("text", ["[1],[2];[3]", "[1]x", "[1];2", "[", "[]"])
def test_brackets_that_do_not_match_are_refused(text):
    with pytest.raises(ValueError, match=r"is not \[SIZE|same number of brackets"):
        flattened(text)


def test_what_was_written_is_read_again():
    for found in ((), ((range(1, 5), range(32, 33)), (range(8, 9), range(64, 65)))):
        assert alternatives(shapes.written(found)) == found
    assert shapes.written(((range(1, 5), range(32, 33)),)) == "[1~4,32]"


def test_sizes_are_split_among_inputs():
    found = sizes("1,2,3;4,5,6")
    one, none, two = parted(found, [1, 0, 2])
    assert [list(map(list, gear)) for gear in one] == [[[1]], [[4]]]
    assert none == ((), ())
    assert [list(map(list, gear)) for gear in two] == [[[2], [3]], [[5], [6]]]
    first, second = parted(found, [1, 2])
    assert (first, second) == (one, two)
    for counts in ([1, 1], [2, 2]):
        with pytest.raises(ValueError, match="sizes for 3 free dimensions"):
            parted(found, counts)


@pytest.mark.parametrize(
    ("free", "fits"), [([2, 8], True), ([-1, 8], True), ([5, 8], False), ([2, 9], False), ([-1, -1], True)]
)
def test_sizes_agree_with_ranges_and_free_ones_with_any(free, fits):
    (within,) = sizes("1~4,8")
    assert agrees(free, within) is fits
    assert shapes.allowed((within, (range(7, 8), range(7, 8))), free) is fits


@pytest.mark.parametrize(
    ("want", "have", "fits"),
    [
        ((-2,), (1, 2, 3), True),
        ((), (), True),
        ((-1, 3), (7, 3), True),
        ((-1, 3), (7, 4), False),
        ((-1, 3), (3,), False),
        ((2,), (2, 1), False),
    ],
)
def test_a_port_takes_what_has_its_sizes(want, have, fits):
    assert shapes.takes(want, have) is fits


def test_a_shape_is_shown_with_the_names_of_its_free_dimensions():
    assert [is_free(shape) for shape in ((), (0, 3), (-1,), (3, -2))] == [False, False, True, True]
    assert named((-1, 3, -1), ("batch", "channels", "")) == "[batch, 3, -1]"
    assert named((-1, 3), ("batch",)) == "[-1, 3]"
    assert named((), ()) == "[]"
