"""The parts of a request for devices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pinnace.errors import ArgumentValueError, DataMismatchError
from pinnace.serving.splitting import SharedCounts, SplitPlan, SplitRequest, _same
from pinnace.tensors.outputs import OutputPorts
from pinnace.types import DataType, Port


def port(name, *shape):
    return Port(name, DataType.FLOAT32, shape)


def plan(inputs, outputs=(), axis=0, split=None):
    return SplitPlan.of(inputs, outputs, axis, split)


def test_inputs_with_the_rows_of_the_first_are_split_and_such_outputs_joined():
    inputs = [port("x", -1, 3), port("scale"), port("mask", -1), port("fixed", 2, 3)]
    outputs = [port("y", -1, 4), port("sum", 4), port("any", -2), port("number")]
    found = plan(inputs, outputs)
    assert (found.candidates, found.first, found.rows) == ((True, False, True, False), 0, -1)
    assert (found.joined, found.always) == ((True, False, True, False), False)
    assert found.shapes == ((-1, 3), (), (-1,), (2, 3))
    fixed = plan([port("a"), port("x", 2, 3)], [port("y", 2), port("z", -1), port("any", -2)])
    assert (fixed.first, fixed.rows, fixed.shapes) == (1, 2, ((), (-1, 3)))
    assert fixed.joined == (True, False, False)


def test_another_axis_and_names():
    inputs = [port("x", 4, -1), port("y", 2, -1), port("z", -1)]
    found = plan(inputs, [port("o", 4, -1), port("p", -1)], axis=1)
    assert (found.candidates, found.joined) == ((True, True, False), (True, False))
    named = plan(inputs, axis=1, split=["y"])
    assert (named.candidates, named.first, named.always) == ((False, True, False), 1, True)
    assert named.shapes == ((4, -1), (2, -1), (-1,))


@pytest.mark.parametrize(
    ("inputs", "axis", "split", "message"),
    [
        ([port("x")], 0, None, "no input of the model has a dimension of this number"),
        ([port("x", -2)], 0, None, "no input of the model has a dimension of this number"),
        ([port("x", 2)], 1, None, "axis 1: no input"),
        ([port("x", 2), port("y")], 0, ["x", "y"], "not all of x, y have a dimension"),
        ([port("x", 2)], 0, ["z"], "split names 'z', but the inputs are x"),
        ([port("x", 2), port("y", 3)], 0, ["x", "y"], "x, y have different sizes at axis 0"),
    ],
)
def test_what_cannot_be_split_is_refused(inputs, axis, split, message):
    with pytest.raises(ArgumentValueError, match=message):
        plan(inputs, axis=axis, split=split)


@pytest.mark.parametrize(
    ("rows", "total", "devices", "ends"),
    [
        (-1, 7, 3, [3, 5, 7]),
        (-1, 2, 3, [1, 2]),
        (-1, 6, 3, [2, 4, 6]),
        (-1, 0, 3, [0]),
        (2, 6, 2, [2, 4, 6]),
        (2, 2, 2, [2]),
        (1, 3, 2, [1, 2, 3]),
    ],
)
def test_rows_are_shared_evenly_or_as_the_model_takes_them(rows, total, devices, ends):
    x, whole = np.arange(total * 2.0).reshape(total, 2), np.zeros(3)
    parts = plan([port("x", rows, 2), port("w", 3)]).parts([x, whole], devices)
    assert [(begin, end) for begin, end, _ in parts] == list(zip([0, *ends[:-1]], ends, strict=True))
    for begin, end, (part, other) in parts:
        np.testing.assert_array_equal(part, x[begin:end])
        assert other is whole


@pytest.mark.parametrize(("rows", "total"), [(2, 3), (2, 0), (0, 0)])
def test_rows_of_a_fixed_batch_are_a_multiple_of_it(rows, total):
    with pytest.raises(DataMismatchError, match=f"computes {rows} rows at a time, but {total} is not"):
        plan([port("x", rows, 2)]).parts([np.zeros((total, 2))], 2)


def test_an_input_with_other_rows_goes_whole_where_that_may_be():
    x, y = np.zeros((4, 2)), np.zeros((3, 2))
    inputs = [port("x", -1, 2), port("y", -1, 2)]
    ((_, _, (_, first)), (_, _, (_, second))) = plan(inputs).parts([x, y], 2)
    assert first is second is y
    with pytest.raises(DataMismatchError, match="input 'y' has 3 rows at axis 0, but 'x' has 4"):
        plan(inputs, split=["x", "y"]).parts([x, y], 2)
    fixed = plan([port("x", 2, 2), port("y", 2, 2)])
    assert [end for _, end, _ in fixed.parts([x, np.zeros((2, 2))], 2)] == [2, 4]
    with pytest.raises(DataMismatchError, match="input 'y' has 3 rows at axis 0, but 'x' has 4"):
        fixed.parts([x, y], 2)


def test_an_input_whose_rows_have_the_name_of_the_first_ones_has_as_many():
    inputs = [
        port("x", -1, 2)._replace(names=("n", "")), port("y", -1, 2)._replace(names=("n", "")),
        port("table", -1, 2)._replace(names=("m", "")),
    ]  # fmt: skip
    x, one, table = np.zeros((4, 2)), np.zeros((1, 2)), np.zeros((3, 2))
    with pytest.raises(DataMismatchError, match="input 'y' has 3 rows at axis 0, but 'x' has 4"):
        plan(inputs).parts([x, table, table], 2)
    for _, _, (_, y, whole) in plan(inputs).parts([x, one, table], 2):
        assert y is one  # which is broadcast
        assert whole is table


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_sums_in_another_order_are_the_same_result(kind):
    one = np.array([1, 1000, np.nan], kind)
    assert _same(one, one)
    assert _same(one, (one * kind(1.0005)).astype(kind))
    assert not _same(one, (one * kind(1.05)).astype(kind))
    assert not _same(np.array([1, 2]), np.array([1, 3]))


OUTPUTS = [port("y", -1, 2), port("sum")]


class Pool:
    """A pool that notes what is given up."""

    def __init__(self):
        self.given_up = []

    def give_up(self, *parts):
        self.given_up += parts

    def run_now(self, *parts):
        pass


def request(rows=5, devices=2, axis=0, outputs=OUTPUTS):
    shape = (rows, 2) if axis == 0 else (2, rows)
    free = port("x", *(-1 if place == axis else 2 for place in range(2)))
    counts, pool = SharedCounts(), Pool()
    array = np.arange(2.0 * rows, dtype=np.float32).reshape(shape)
    made = SplitRequest(plan([free], outputs, axis), [array], devices, OutputPorts(outputs), counts, pool)
    return made, counts, pool


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("turn", [1, -1])
def test_rows_are_joined_in_their_order_whichever_part_is_done_first(axis, turn):
    outputs = [port("y", -1, 2) if axis == 0 else port("y", 2, -1), port("sum")]
    made, counts, _ = request(axis=axis, outputs=outputs)
    assert len(made.requests()) == 2
    for part in made.parts[::turn]:
        assert part.begin()
        assert not made.done()
        part.succeed([part.arrays[0] * 2, np.float32(7)])
    rows, total = (output.get_data_to_numpy() for output in made.result())
    np.testing.assert_array_equal(rows, made.arrays[0] * 2)
    assert total == 7
    assert (counts.served, counts.failed, counts.withdrawn) == (1, 0, 0)
    assert made.parts[0].done()


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda x: [x[:1], np.float32(7)], r"output 'y' of 2 rows has shape \[1, 2\]"),
        (lambda x: [np.zeros((2, 3), np.float32), np.float32(7)], r"of 2 rows has shape \[2, 3\]"),
        (lambda x: [x, np.float32(8)], "output 'sum' has no batch at axis 0, and differs from part to part"),
        (lambda x: [x, np.zeros(2, np.float32)], "output 'sum' has no batch at axis 0"),
    ],
)
def test_parts_whose_results_do_not_belong_together_are_an_error(second, message):
    made, _, _ = request()
    made.parts[0].succeed([made.parts[0].arrays[0], np.float32(7)])
    with pytest.raises(DataMismatchError, match=message):
        made.parts[1].succeed(second(made.parts[1].arrays[0]))


def test_the_failure_of_a_part_is_that_of_the_request():
    made, counts, _ = request()
    first, second = made.parts
    first.fail(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        made.result()
    assert second.done()
    assert not second.begin()
    second.fail(ValueError("again"))
    second.succeed([second.arrays[0], np.float32(7)])
    assert (counts.served, counts.failed, counts.withdrawn) == (0, 1, 0)


def test_a_request_that_is_cancelled_withdraws_all_of_its_parts():
    made, counts, pool = request()
    assert made.cancel()
    assert pool.given_up == made.parts
    assert not made.parts[0].begin()
    assert (counts.served, counts.failed, counts.withdrawn) == (0, 0, 1)
    assert made.parts[0].priority == 0
